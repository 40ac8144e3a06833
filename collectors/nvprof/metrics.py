"""Output of `nvprof --metrics`, text or CSV: averages over a kernel's invocations.

There are no times in it. Events (`--events`) stand in tables of the same kind and are skipped.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from collectors.caveat import Caveat
from collectors.errors import CollectError, torn
from collectors.frame import build

_TEXT = re.compile(r"^\s*Invocations\s+(Metric|Event) Name\s.*\sAvg(?:\s+Total)?\s*$")
_CSV = ("device", "kernel", "invocations")
_KERNEL = re.compile(r"^\s*Kernel: (.+?)\s*$")
_DEVICE = re.compile(r'^\s*Device "(.*?)(?: \(\d+\))?"\s*$')
_VALUE = r"(?:\w+ \(\d+\)|<\w+>|[-+]?(?:[\d.]+(?:e[-+]?\d+)?[A-Za-z/%]*|nan|inf))"
_ROW = re.compile(rf"^\s*(\d+)\s+(\w+)(?:\s+\S.*?)?\s+{_VALUE}\s+{_VALUE}\s+({_VALUE})\s*$")
_EVENT = re.compile(rf"^\s*\d+\s+\w+(?:\s+{_VALUE}){{3,4}}\s*$")
NOISE = re.compile(r"^==\d+==|^=+ |^\s*$|^\s*(?:```|~~~|</\w)|^(?:\(\S+\) ?)?\[?[\w.-]+@[\w.-]+[: ].*[$#%](?: |$)")
"""Lines of nvprof's between its rows, of Markdown, and a shell's prompt."""
_BETWEEN = ("Metric result:", "Event result:")
_COUNTERS: Mapping[str, tuple[str, float]] = {
    "flop_count_sp": ("flop_fp32", 1.0),
    "flop_count_dp": ("flop_fp64", 1.0),
    **{
        f"flop_count_{short}_{op}": (f"inst_{kind}_{op}", 1.0)
        for short, kind in (("sp", "fp32"), ("dp", "fp64"))
        for op in ("add", "mul", "fma")
    },
    "dram_read_transactions": ("dram_read", 32.0),
    "dram_write_transactions": ("dram_write", 32.0),
    "dram_read_bytes": ("dram_read", 1.0),
    "dram_write_bytes": ("dram_write", 1.0),
    "achieved_occupancy": ("occupancy", 1.0),
    "inst_executed": ("inst_executed", 1.0),
}
"""nvprof's metrics that count the same as a counter of ours, with the factor to its unit."""
_ASK = "nvprof --metrics flop_count_sp,flop_count_dp,dram_read_transactions,dram_write_transactions --csv"

Row = tuple[int, str, str, int, str, str]
"""Line, device, kernel, invocations, metric, its average."""


def is_header(line: str) -> bool:
    """Whether a line is the header of a table of metrics or events, as text or CSV."""
    return bool(_TEXT.match(line)) or _columns(line) is not None


def _columns(line: str) -> list[str] | None:
    cells = [cell.strip().lower() for cell in line.replace('"', "").split(",")]
    wanted = tuple(cells[:3]) == _CSV and "avg" in cells and {"metric name", "event name"} & set(cells)
    return cells if wanted else None


def read(path: Path, lines: Sequence[str], first: int, caveats: Sequence[Caveat], *, partial: bool) -> pd.DataFrame:
    """The launches frame: one row a device and kernel. first: the header's place.

    Raises CollectError naming the line that cannot be read, when a kernel lacks a metric that another has (with
    `partial`, or where nvprof says why, a caveat), and when no metric has a counterpart.
    """
    found: dict[tuple[str, str], dict[str, tuple[int, int, str]]] = {}
    for line, device, kernel, calls, metric, value in _rows(path, lines, first):
        if metric in found.setdefault((device, kernel), {}):
            raise CollectError(
                f"{path}, line {line}: {metric} of one kernel stands here twice", fix="give one run a file"
            )
        found[device, kernel][metric] = (line, calls, value)
    told = dict.fromkeys(metric for metrics in found.values() for metric in metrics)
    if not found or not set(told) & set(_COUNTERS):
        held = f"metrics alone that have no counterpart here ({', '.join(list(told)[:4])})" if told else "no metric"
        raise CollectError(f"{path}: holds {held}", fix=f"ask for FLOP and bytes: {_ASK}")
    # nvprof tells the same metrics of every kernel: where one is missing, rows are, or nvprof says that it could not.
    short = [kernel for (_, kernel), metrics in found.items() if len(metrics) < len(told)]
    if short:
        excused = any("can't be profiled" in line for line in lines)
        why = "nvprof could not profile them" if excused else "rows are missing"
        what = f"{short[0][:60]!r} lacks metrics that other kernels have: {why}"
        if not partial and not excused:
            raise torn(path, what)
        caveats = [*caveats, Caveat(f"{path.name}: {what}", f"{len(short)} kernels", "export again")]
    columns: dict[str, list[float]] = {}
    for metric in filter(_COUNTERS.__contains__, told):
        name, factor = _COUNTERS[metric]
        values = [_number(path, metrics.get(metric)) * factor for metrics in found.values()]
        columns[name] = [a if a == a else b for a, b in zip(columns.get(name, values), values, strict=True)]
    if {"dram_read", "dram_write"} <= columns.keys():
        pairs = zip(columns["dram_read"], columns["dram_write"], strict=True)
        columns["dram_bytes"] = [read + written for read, written in pairs]
    keys = {
        "kernel": [kernel for _, kernel in found],
        "device": [device for device, _ in found],
        "instances": [next(iter(metrics.values()))[1] for metrics in found.values()],
    }
    frame = build({**keys, **columns}, tool="nvprof", caveats=caveats)
    frame.attrs["report"] = "metrics"
    return frame


def _rows(path: Path, lines: Sequence[str], first: int) -> Iterator[Row]:
    cells = _columns(lines[first])
    yield from _text(path, lines, first) if cells is None else _csv(path, lines, first, cells)


def _text(path: Path, lines: Sequence[str], first: int) -> Iterator[Row]:
    device = kernel = kind = ""
    for number, line in enumerate(lines[first:], start=first + 1):
        if header := _TEXT.match(line):
            kind, device, kernel = header[1], "", ""
        elif match := _DEVICE.match(line):
            device = match[1]
        elif match := _KERNEL.match(line):
            kernel = match[1]
        elif kind == "Metric" and kernel and (match := _ROW.match(line)):
            yield number, device, kernel, int(match[1]), match[2], match[3]
        elif not (NOISE.match(line) or line.strip() in _BETWEEN or (kind == "Event" and _EVENT.match(line))):
            raise CollectError(
                f"{path}, line {number}: expected a row of nvprof's metrics, found {line.strip()[:50]!r}",
                fix="keep the output of the program apart: nvprof --log-file",
            )


def _csv(path: Path, lines: Sequence[str], first: int, names: Sequence[str]) -> Iterator[Row]:
    metrics = "metric name" in names
    for number, line in enumerate(lines[first + 1 :], start=first + 2):
        if NOISE.match(line):
            continue
        if "invocations" in line.lower() and (header := _columns(line)):
            names, metrics = header, "metric name" in header
            continue
        try:
            cells = next(csv.reader([line], strict=True))
        except csv.Error as error:
            raise CollectError(f"{path}, line {number}: not CSV: {error}", fix="export again") from error
        if len(cells) != len(names) or not cells[2].isdecimal():
            raise CollectError(
                f"{path}, line {number}: {len(cells)} fields, expected {len(names)} with a number of invocations",
                fix="the row is cut or two files run into each other; export again",
            )
        if metrics:
            device = re.sub(r" \(\d+\)$", "", cells[0])
            yield number, device, cells[1], int(cells[2]), cells[names.index("metric name")], cells[names.index("avg")]


def _number(path: Path, said: tuple[int, int, str] | None) -> float:
    """A plain number; NaN for a metric that overflowed or was not told."""
    if said is None or said[2].startswith("<"):
        return math.nan
    line, _, text = said
    try:
        return float(text)
    except ValueError as error:
        raise CollectError(
            f"{path}, line {line}: expected a plain number, found {text[:30]!r}", fix="the row is damaged; export again"
        ) from error
