"""ncu's .ncu-rep reports by NVIDIA's reader package, in base units with all digits."""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from collectors.caveat import Caveat
from collectors.errors import CollectError
from collectors.ncu.launches import DEVICE_NAME, KEYS, Launches, chip
from collectors.numbers import scale

_MAGIC = b"NVR\0"


def is_report(path: Path) -> bool:
    """Whether a file is an ncu report, by content, or by name for the compressed form."""
    try:
        with path.open("rb") as file:
            return file.read(4) == _MAGIC or path.suffix in (".ncu-rep", ".ncu-repz")
    except OSError as error:
        raise CollectError(f"{path}: {error.strerror or error}") from error


def launches(path: Path, wanted: Callable[[str], bool]) -> Launches:
    """Launches of a report; raises CollectError if it is cut, empty or unreadable here."""
    results = count_results(path)
    found = _by_package(package(path), path, wanted)
    read_in = len(found.keys)
    if not read_in or (results is not None and results != read_in):
        raise CollectError(
            f"{path}: {read_in} of {results or 0} launches could be read",
            fix="update the ncu-report package, or export CSV with the ncu that wrote the report",
        )
    return found


def package(path: Path) -> Any:
    """NVIDIA's reader of reports. Raises CollectError if missing."""
    try:
        import ncu_report
    except ImportError as error:
        raise CollectError(
            f"{path}: reading a report of ncu needs the package ncu-report",
            fix=f"pip install ncu-report, or give what `ncu --import {path.name} --page raw --csv --print-units base` prints",
        ) from error
    return ncu_report


def count_results(path: Path) -> int | None:
    """Number of launches that a report states; None for the compressed form.

    The reader package accepts a cut report as a shorter one, so the blocks are walked here: four bytes of length, a
    header (protobuf: field 2 launches, field 5 bytes that follow), the bytes. Raises CollectError if the last is cut.
    """
    data = path.read_bytes()
    if not data.startswith(_MAGIC):
        if path.suffix == ".ncu-repz" and data:
            return None
        raise CollectError(f"{path}: not a report of ncu", fix="record with `ncu -o NAME`")
    at, results = _after(data, len(_MAGIC)), 0
    while at < len(data):
        begin, at = at, _after(data, at)
        fields = _integers(data[begin + 4 : at])
        results += fields.get(2, 0)
        at += fields.get(5, 0)
    if at != len(data):
        raise CollectError(f"{path}: the report breaks off", fix="copy it again, or record it again")
    return results


def _after(data: bytes, at: int) -> int:
    """End of the message with its length stored at `at`."""
    return at + 4 + int.from_bytes(data[at : at + 4], "little")


def _integers(message: bytes) -> dict[int, int]:
    """Integer fields of a protobuf message, as far as readable."""
    found: dict[int, int] = {}
    rest = iter(message)

    def varint() -> int:
        value = shift = 0
        for byte in rest:
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
        raise EOFError

    with contextlib.suppress(EOFError):
        while True:
            key = varint()
            if key & 7 == 0:
                found[key >> 3] = varint()
            else:
                deque(islice(rest, {1: 8, 5: 4}.get(key & 7) or varint()), maxlen=0)
    return found


def _by_package(package: Any, path: Path, wanted: Callable[[str], bool]) -> Launches:
    report = package.load_report(str(path))
    actions = [report[i][j] for i in range(len(report)) for j in range(len(report[i]))]
    found = Launches()
    rows = [_values(package, action, wanted, found) for action in actions]
    identities = [_identity(package, action, number) for number, action in enumerate(actions)]
    found.keys = pd.DataFrame(identities, columns=KEYS, dtype=object)
    for name in dict.fromkeys(name for row in rows for name in row):
        found.metrics[name] = np.array([row.get(name, math.nan) for row in rows], dtype=np.float64)
    return found


def _identity(package: Any, action: Any, number: int) -> dict[str, Any]:
    def dims(what: str) -> str:
        parts = [_integer(action, f"launch__{what}_dim_{axis}") for axis in "xyz"]
        return ",".join(parts) if all(parts) else ""

    major, minor = (_integer(action, f"device__attribute_compute_capability_{part}") for part in ("major", "minor"))
    return {
        "launch": number,
        "process": "",
        "kernel": action.name(package.IAction.NameBase_DEMANGLED),
        "stream": _integer(action, "launch__stream_id"),
        "grid": dims("grid"),
        "block": dims("block"),
        "device": _integer(action, "launch__device_id"),
        "gpu": _text(action, DEVICE_NAME),
        "cc": chip(f"{major}.{minor}"),
        "ranges": _ranges(action),
    }


def _ranges(action: Any) -> tuple[tuple[str, str], ...]:
    state = action.nvtx_state()
    if state is None:
        return ()
    domains = [state.domain_by_id(number) for number in state.domains()]
    pushed = [(domain.name(), name) for domain in domains for name in domain.push_pop_ranges()]
    started = [(domain.name(), name) for domain in domains for name in domain.start_end_ranges()]
    return tuple(pushed or started)


def _values(package: Any, action: Any, wanted: Callable[[str], bool], found: Launches) -> dict[str, float]:
    values: dict[str, float] = {}
    for name in action.metric_names():
        if name == DEVICE_NAME or name.startswith("derived__") or not wanted(name):
            continue
        metric = action.metric_by_name(name)
        if metric is None or metric.kind() == package.IMetric.ValueKind_STRING:
            continue
        factor = scale(metric.unit() or "")
        if factor is None:
            what = f"unit {metric.unit()!r} of {name} is unknown"
            if all(one.what != what for one in found.caveats):
                found.caveats.append(Caveat(what, "the metric is left out"))
        value = float(metric.as_double()) if metric.has_value() else math.nan
        values[name] = math.nan if factor is None or math.isinf(value) else value * factor
    return values


def _text(action: Any, name: str) -> str:
    metric = action.metric_by_name(name)
    return metric.as_string() or "" if metric is not None else ""


def _integer(action: Any, name: str) -> str:
    metric = action.metric_by_name(name)
    return str(int(metric.as_double())) if metric is not None and metric.has_value() else ""
