"""Launches of any Nsight Compute route: identities, and metrics in SI units."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from collectors.caveat import Caveat
from collectors.counters import evaluate_columns
from collectors.frame import build
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

# <domain>:<name>: and six fields of which the last repeats the name, for registered or coloured ranges.
_NAMED = re.compile(r"(.*):(?:[^:]*:){5}\1", re.DOTALL)


@dataclass(frozen=True)
class Identity:
    """Identity of a launch: the columns before the metrics."""

    launch: int
    process: str
    kernel: str
    stream: str = ""
    grid: str = ""
    block: str = ""
    device: str = ""
    gpu: str = ""
    cc: str = ""
    ranges: tuple[tuple[str, str], ...] = ()


@dataclass
class Launches:
    """Launches of one file: identities by column, and metric columns in SI base units.

    keys: KEYS; "gpu" is the product name, "ranges" tuples of (domain, name).
    """

    keys: dict[str, NDArray[np.object_]]
    metrics: dict[str, Column]
    caveats: list[Caveat] = field(default_factory=list)
    untaken: list[str] = field(default_factory=list)
    """Metrics of the file that no counter is made of."""

    @property
    def rows(self) -> int:
        """How many launches there are."""
        return len(self.keys.get("launch", ()))


def keys_of(identities: Sequence[Identity]) -> dict[str, NDArray[np.object_]]:
    """Identities by column."""
    return {key: objects([getattr(one, key) for one in identities]) for key in KEYS}


def objects(values: Sequence[Any]) -> NDArray[np.object_]:
    """An array of Python objects (numpy would make a table of equally long tuples)."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def to_frame(found: Launches) -> pd.DataFrame:
    """The launches frame: keys and every logical counter the metrics allow."""
    keys = found.keys
    columns: dict[str, Any] = {
        name: keys[name] for name in ("kernel", "launch", "grid", "block", "cc", "process", "stream")
    }
    columns["impl"] = [implementation(ranges) for ranges in keys["ranges"]]
    columns["range"] = [path_of(ranges) for ranges in keys["ranges"]]
    columns["device"] = np.where(keys["gpu"] == "", keys["device"], keys["gpu"])
    counters = _counters(found.metrics, keys["cc"])
    columns.update(counters)
    empty = [name for name, column in counters.items() if np.isnan(column).all()]
    caveats = [*found.caveats, *([_without_values(empty)] if empty else [])]
    frame = build(columns, tool="ncu", caveats=caveats)
    frame.attrs["untaken"] = found.untaken
    frame.attrs["devices"] = _devices(found)
    return frame


def _without_values(names: list[str]) -> Caveat:
    return Caveat(
        f"in the file without a value: {', '.join(names)}",
        "these counters are NaN",
        "their metrics are not on this chip, not in this ncu, or not permitted; see the log of the recording",
    )


def path_of(ranges: Sequence[tuple[str, str]]) -> str:
    """The names of ranges, outer to inner, joined by "/"."""
    return "/".join(name for _, name in ranges)


@lru_cache(maxsize=4096)
def implementation(ranges: tuple[tuple[str, str], ...]) -> str:
    """The implementation of a launch, from its (domain, name) ranges, outer to inner.

    In the domain "profkit" ranges nest as sample / implementation / phase: the second. Otherwise the innermost.
    """
    own = [name for domain, name in ranges if domain == OWN_DOMAIN]
    if own:
        return own[1] if len(own) > 1 else ""
    return ranges[-1][1] if ranges else ""


@lru_cache(maxsize=4096)
def ranges_of(cell: str) -> tuple[tuple[str, str], ...]:
    """The (domain, name) ranges of an NVTX cell, outer to inner.

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


@lru_cache(maxsize=4096)
def dimensions(cell: str) -> str:
    """A grid or block cell such as "(16, 32, 1)" as "16,32,1"; "" for anything else."""
    numbers = re.findall(r"\d+", cell)
    return ",".join(numbers) if len(numbers) == 3 else ""


@lru_cache(maxsize=256)
def chip(cell: str) -> str:
    """The compute capability of a cell, "9.0" (also from "9,0"); "" for anything else."""
    text = cell.strip().replace(",", ".")
    try:
        capability(text)
    except ValueError:
        return ""
    return text


def _counters(metrics: dict[str, Column], cc: NDArray[np.object_]) -> dict[str, Column]:
    kinds = list(dict.fromkeys(cc))
    if len(kinds) <= 1:
        return evaluate_columns(metrics, kinds[0] if kinds else "")
    found: dict[str, Column] = {}
    for kind in kinds:
        chosen = cc == kind
        part = evaluate_columns({name: column[chosen] for name, column in metrics.items()}, kind)
        for name, column in part.items():
            found.setdefault(name, np.full(len(cc), np.nan))[chosen] = column
    return found


def _devices(found: Launches) -> list[dict[str, Any]]:
    """Each GPU of the file once: {"index", "name", "cc"} and known DEVICE_FACTS (SI units)."""
    devices: dict[tuple[str, str, str], dict[str, Any]] = {}
    keys = found.keys
    for row, key in enumerate(zip(keys["device"], keys["gpu"], keys["cc"], strict=True)):
        if key in devices:
            continue
        facts = {fact: float(found.metrics[name][row]) for fact, name in DEVICE_FACTS.items() if name in found.metrics}
        facts = {fact: value * (1e3 if "clock" in fact else 1.0) for fact, value in facts.items() if value == value}
        devices[key] = {"index": key[0], "name": key[1], "cc": key[2], **facts}
    return list(devices.values())
