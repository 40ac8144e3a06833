"""Launches from any export of Nsight Compute: identities, and metrics in SI units."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from collectors.caveat import Caveat
from collectors.counters import evaluate_columns
from collectors.errors import CollectError
from collectors.frame import build
from collectors.ncu.text import DAMAGED, Scan
from collectors.numbers import MISSING, Evidence, parse
from collectors.recipes import Column, capability

DEVICE_FACTS = {
    "sms": "device__attribute_multiprocessor_count",
    "l2_bytes": "device__attribute_l2_cache_size",
    "memory_bytes": "device__attribute_total_memory",
    "bus_bits": "device__attribute_global_memory_bus_width",
    "max_sm_clock": "device__attribute_max_gpu_frequency_khz",
    "max_mem_clock": "device__attribute_memory_clock_rate",
}
DEVICE_NAME = "device__attribute_display_name"
KEYS = ("launch", "process", "kernel", "stream", "grid", "block", "device", "gpu", "cc", "ranges")
OWN_DOMAIN = "profkit"
RANGES = ("Push/Pop_Range", "Start/Stop_Range")
"""Columns of NVTX ranges -> kind of names in them."""

# <domain>:<name>: and six fields of which the last repeats the name, for registered or coloured ranges.
_NAMED = re.compile(r"(.*):(?:[^:]*:){5}\1", re.DOTALL)


@dataclass
class Launches:
    """Launches of one file: identities by column, and metric columns in SI base units.

    keys: KEYS, for a summary also "instances"; "gpu" is the product name, "ranges" tuples of (domain, name). untaken:
    metrics of the file that no counter uses.
    """

    keys: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=KEYS))
    metrics: dict[str, Column] = field(default_factory=dict)
    caveats: list[Caveat] = field(default_factory=list)
    untaken: list[str] = field(default_factory=list)


def identified(cells: pd.DataFrame, path: str) -> pd.DataFrame:
    """Launch identities (KEYS) from ncu's columns; raises CollectError for a bad number."""

    def column(name: str, convert: Callable[[str], Any] = str) -> Any:
        if name not in cells:
            return [convert("")] * len(cells)
        codes, distinct = pd.factorize(cells[name])
        return _objects([convert(cell) for cell in distinct])[codes]

    def number(cell: str) -> int:
        digits = re.sub("[,. ]", "", cell)
        if not digits.isdigit():
            raise CollectError(f"{path}: an ID or count {cell!r} that is not a number", fix=DAMAGED)
        return int(digits)

    header = [str(name) for name in cells]
    pushed, started = (column(next((name for name in header if part in name), ""), ranges_of) for part in RANGES)
    found: pd.DataFrame = pd.DataFrame(
        {
            "launch": column("ID", number),
            "process": column("Process ID"),
            "kernel": column("Kernel Name"),
            "stream": column("Stream"),
            "grid": column("Grid Size", dimensions),
            "block": column("Block Size", dimensions),
            "device": column("Device"),
            "gpu": column(DEVICE_NAME, lambda cell: "" if cell in MISSING else cell),
            "cc": column("CC", chip),
            "ranges": _objects([one or other for one, other in zip(pushed, started, strict=True)]),
            **({"instances": column("Invocations", number)} if "Invocations" in cells else {}),
        },
        dtype=object,
    )
    return found


class Cells:
    """Cells of metrics of one file, kept until its decimal mark is known."""

    def __init__(self, scan: Scan) -> None:
        self.path = str(scan.path)
        self.evidence = Evidence(self.path)
        self._parts: list[tuple[pd.DataFrame, dict[str, tuple[Any, Any, Any]]]] = []
        self.caveats: dict[str, Caveat] = {}
        self.untaken: dict[str, None] = {}

    def add(self, keys: pd.DataFrame, columns: dict[str, tuple[Any, Any]]) -> None:
        """Add launches: cells by metric, and factors to SI (NaN unknown)."""
        part = {
            name: (*pd.factorize(np.asarray(cells, dtype=object)), factor) for name, (cells, factor) in columns.items()
        }
        for _, cells, _ in part.values():
            for cell in cells:
                self.evidence.feed(cell)
        self._parts.append((keys, part))

    def caveat(self, what: str, how_much: str, fix: str) -> None:
        """Add a caveat about the file, once."""
        self.caveats.setdefault(what, Caveat(what, how_much, fix))

    def unit_unknown(self, unit: str, metric: str) -> float:
        """NaN, with a caveat."""
        self.caveat(f"unit {unit!r} of {metric} is unknown", "the metric is left out", "export with --print-units base")
        return float("nan")

    def launches(self) -> Launches:
        """All launches; raises CollectError for no number or an ambiguous locale."""
        if not self._parts:
            return Launches()
        mark = self.evidence.settle()
        names = dict.fromkeys(name for _, part in self._parts for name in part)
        metrics = {
            name: np.concatenate([self._numbers(name, keys, part, mark) for keys, part in self._parts])
            for name in names
        }
        keys = pd.concat([keys for keys, _ in self._parts], ignore_index=True)
        return Launches(keys, metrics, list(self.caveats.values()), list(self.untaken))

    def _numbers(self, name: str, keys: pd.DataFrame, part: dict[str, tuple[Any, Any, Any]], mark: str) -> Column:
        if name not in part:
            return np.full(len(keys), np.nan)
        codes, cells, factor = part[name]
        values = np.empty(len(cells))
        for at, cell in enumerate(cells):
            try:
                values[at] = parse(cell, mark)
            except ValueError as error:
                launch = keys["launch"].iloc[int((codes == at).argmax())]
                raise CollectError(f"{self.path}: launch {launch}, field {name}: {error}", fix=DAMAGED) from error
        column: Column = values[codes] * factor
        return column


def _objects(values: Sequence[Any]) -> NDArray[np.object_]:
    """An array of Python objects (numpy would make a table of equally long tuples)."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def to_frame(found: Launches) -> pd.DataFrame:
    """Launches frame: keys and all logical counters the metrics allow."""
    keys = found.keys
    columns: dict[str, Any] = {
        name: keys[name].to_numpy() for name in ("kernel", "launch", "grid", "block", "cc", "process", "stream")
    }
    if "instances" in keys:
        columns["instances"] = keys["instances"].to_numpy()
    columns["impl"] = [implementation(ranges) for ranges in keys["ranges"]]
    columns["range"] = ["/".join(name for _, name in ranges) for ranges in keys["ranges"]]
    columns["device"] = np.where(keys["gpu"] == "", keys["device"], keys["gpu"])
    counters = _counters(found.metrics, keys["cc"].to_numpy())
    columns.update(counters)
    frame = build(columns, tool="ncu", caveats=found.caveats)
    if empty := [name for name, column in counters.items() if np.isnan(column).all()]:
        fix = "their metrics are not on this chip, not in this ncu, or not permitted; see the log of the recording"
        what = f"in the file without a value: {', '.join(empty)}"
        frame.attrs["caveats"].append(Caveat(what, "these counters are NaN", fix))
    frame.attrs["untaken"] = found.untaken
    frame.attrs["devices"] = _devices(found)
    return frame


@lru_cache(maxsize=4096)
def implementation(ranges: tuple[tuple[str, str], ...]) -> str:
    """Implementation of a launch, from its (domain, name) ranges, outer to inner.

    In the domain "profkit" ranges nest as sample / implementation / phase: the second. Otherwise the innermost.
    """
    own = [name for domain, name in ranges if domain == OWN_DOMAIN]
    if own:
        return own[1] if len(own) > 1 else ""
    return ranges[-1][1] if ranges else ""


def ranges_of(cell: str) -> tuple[tuple[str, str], ...]:
    """(domain, name) ranges of an NVTX cell, outer to inner.

    The cell: an id, then quoted ranges `"domain:name:six fields"`, two spaces between. Names may hold colons.
    """
    start, end = cell.find('"'), cell.rfind('"')
    if start == end:
        return ()
    found = []
    for text in cell[start + 1 : end].split('"  "'):
        own, _, rest = text.partition(":")
        found.append((own, _range_name(rest)))
    return tuple(found)


def _range_name(text: str) -> str:
    named = _NAMED.fullmatch(text)
    if named:
        return named[1]
    parts = text.rsplit(":", 6)
    return parts[0] if len(parts) == 7 else text


def dimensions(cell: str) -> str:
    """A grid or block cell such as "(16, 32, 1)" as "16,32,1"; "" for anything else."""
    numbers = re.findall(r"\d+", cell)
    return ",".join(numbers) if len(numbers) == 3 and any(map(int, numbers)) else ""


def chip(cell: str) -> str:
    """Compute capability of a cell, "9.0" (also from "9,0"); "" for other text."""
    text = cell.strip().replace(",", ".")
    try:
        capability(text)
    except ValueError:
        return ""
    return text


def _counters(metrics: dict[str, Column], cc: NDArray[np.object_]) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for kind in dict.fromkeys(cc):
        chosen = cc == kind
        part = evaluate_columns({name: column[chosen] for name, column in metrics.items()}, kind)
        for name, column in part.items():
            found.setdefault(name, np.full(len(cc), np.nan))[chosen] = column
    return found


def _devices(found: Launches) -> list[dict[str, Any]]:
    """Each GPU of the file once: {"index", "name", "cc"} and known DEVICE_FACTS (SI units)."""
    devices = []
    for row, one in found.keys[["device", "gpu", "cc"]].drop_duplicates().iterrows():
        facts = {fact: float(found.metrics[name][row]) for fact, name in DEVICE_FACTS.items() if name in found.metrics}
        facts = {fact: value * (1e3 if "clock" in fact else 1.0) for fact, value in facts.items() if value == value}
        devices.append({"index": one["device"], "name": one["gpu"], "cc": one["cc"], **facts})
    return devices
