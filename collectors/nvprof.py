"""nvprof exports: summaries and GPU traces, as CSV (old: units inside the values; newer: a row of units) and as text, and
the metrics of `--metrics` (see nvprof_metrics).

A summary gives one row a kernel with `instances` launches, `time` being the mean of one; a trace one row a
launch. Names are not always quoted in old CSVs, so the last field takes the rest of the line.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from collectors import Format, guarded, nvprof_metrics, text_of
from collectors.doubt import Doubt
from collectors.errors import CollectError, torn
from collectors.frame import build, role_of
from collectors.nsys.launches import copies, memop_kind, shapes

_TIME = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "": float("nan")}
_BYTES = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9}
_SUMMARY = ("time(%)", "time", "calls", "avg", "min", "max", "name")
_TRACE = ("start", "duration", "grid x", "block x", "name")
_SHORT = 6  # columns before the name of a summary
_VALUE = re.compile(r"([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)([a-zA-Z%]*)")
_TEXT_HEADER = re.compile(r"^\s*(?:Type\s+)?Time\(%\)\s+Time\s+Calls\s+Avg\s+Min\s+Max\s+Name\s*$")
_TEXT_TRACE = re.compile(r"^\s*Start\s+Duration\s+Grid Size\s+Block Size\s.*\sName\s*$")
_TEXT_ROW = re.compile(
    r"^\s*(?:(GPU activities|API calls|OpenACC \(excl\)|OpenMP \(incl\)):)?"
    r"\s*([\d.]+)%\s+(\S+)\s+(\d+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(.+?)\s*$"
)
_RESULT = re.compile(r"^==(\d+)== (.*)result:\s*$")
_WAITS = re.compile(r"\[Unified Memory (?!Memcpy)")
_EMPTY = ("No kernels were profiled", "No API activities were profiled", "No events/metrics were profiled")


@dataclass
class _Found:
    """Rows of a summary in SI: (section, name, calls, total, mean); `cut` is the line of an unfinished last
    row."""

    rows: list[tuple[str, str, int, float, float]] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    empty: bool = False


def sniff(head: str, path: Path) -> bool:
    """Whether a file is of nvprof: a summary or trace header, CSV or text."""
    del path
    for line in head.splitlines()[:2000]:
        if (
            any(one.match(line) for one in (_TEXT_HEADER, _TEXT_TRACE))
            or _csv_kind(line)
            or nvprof_metrics.is_header(line)
        ):
            return True
    return "NVPROF is profiling process" in head


@guarded
def read(path: str | Path, *, partial: bool = False, progress: object = None) -> pd.DataFrame:
    """The launches frame of an nvprof export; API calls are left out and summed in attrs["api"].

    partial: leave out a cut last row, with a doubt, instead of refusing the file.
    attrs: "doubts", "report" ("summary" or "trace"), "copies". Raises CollectError naming the line that
    cannot be read, and for an export without kernels.
    """
    path = Path(path)
    lines, doubts = _lines(path, partial)
    header, at = _header(path, lines)
    if header == "metrics":
        return nvprof_metrics.read(path, lines, at, doubts, partial=partial)
    _one_result(path, lines, at, traced="trace" in header)
    if header == "text":
        found = _text(path, lines, at)
    elif header == "text trace":
        return _trace(path, _aligned(path, lines, at), doubts)
    elif header == "trace":
        return _trace(path, _delimited(path, lines, at), doubts)
    else:
        found = _csv(path, lines, at)
    return _frame(path, found, doubts, partial)


def _lines(path: Path, partial: bool) -> tuple[list[str], list[Doubt]]:
    text = text_of(path, strict=True)
    if not text.strip():
        raise CollectError(f"{path}: is empty", fix="profile again")
    lines = text.split("\n")
    last = lines.pop()
    # The bracket of a memory operation closes the row, so only the newline can be missing after it.
    if not last.strip() or re.search(r"[,\s]\"?\[CUDA mem[^\]]*\]\"?\s*$", last):
        return [*lines, last], []
    if not partial:
        raise CollectError(
            f"{path}, line {len(lines) + 1}: the last row does not end in a newline: the file was cut",
            fix="export again, or read what is whole (--partial; partial=True in Python); if only the newline was lost, add it",
        )
    return lines, [Doubt(f"{path.name} was cut: its last row is left out", f"{len(last)} characters", "export again")]


def _csv_kind(line: str) -> str:
    cells = tuple(cell.strip().lower() for cell in line.replace('"', "").split(","))
    if cells[-len(_SUMMARY) :] == _SUMMARY and cells[: -len(_SUMMARY)] in ((), ("type",)):
        return "summary"
    return "trace" if set(_TRACE) <= set(cells) else ""


def _one_result(path: Path, lines: Sequence[str], at: int, *, traced: bool) -> None:
    """Raises CollectError where several programs printed into one file. A trace goes on under a second heading."""
    found = [match[1] for line in lines if (match := _RESULT.match(line)) and match[2] == "Profiling "]
    first = next((at for at, line in enumerate(lines) if _RESULT.match(line)), at)
    found += ["unknown"] * (at < first)
    if len(set(found) if traced else found) > 1:
        raise CollectError(
            f"{path}: {len(found)} results of nvprof follow each other (processes {', '.join(dict.fromkeys(found))})",
            fix="give each in a file of its own: `nvprof --log-file out.%p.csv`",
        )


def _header(path: Path, lines: Sequence[str]) -> tuple[str, int]:
    for at, line in enumerate(lines):
        if _TEXT_HEADER.match(line):
            return "text", at
        if _TEXT_TRACE.match(line):
            return "text trace", at
        kind = "metrics" if nvprof_metrics.is_header(line) else _csv_kind(line)
        if kind:
            return kind, at
    why = next((line.strip() for line in lines if any(text in line for text in _EMPTY)), "")
    raise CollectError(
        f"{path}: no header of an nvprof summary or trace" + (f"; nvprof says: {why}" if why else ""),
        fix="export with `nvprof --csv --log-file out.csv`; nvprof refuses devices of CC 8.0 and up",
    )


def _value(path: Path, line: int, cell: str, units: dict[str, float], unit: str) -> float:
    """A cell as a float in SI: its own unit, else `unit` of the units row."""
    match = _VALUE.fullmatch(cell.strip())
    factor = units.get((match[2] or unit) if match else "?")
    if match is None or factor is None or factor != factor:
        raise CollectError(
            f"{path}, line {line}: expected a number with one of the units {', '.join(filter(None, units))}, "
            f"found {cell.strip()[:30]!r}",
            fix="the row is damaged or the export is of another tool",
        )
    return float(match[1]) * factor


def _csv(path: Path, lines: Sequence[str], at: int) -> _Found:
    typed = lines[at].replace('"', "").lower().startswith("type")
    width = len(_SUMMARY) + typed
    units = [""] * width
    found = _Found()
    for number, line in enumerate(lines[at + 1 :], start=at + 2):
        if any(text in line for text in _EMPTY):
            found.empty = True
        if found.rows and line.startswith("==") and ("API calls" in line or _RESULT.match(line)):
            break  # Unified Memory, and API calls without a Type column, follow as tables of their own.
        if nvprof_metrics.NOISE.match(line) or any(text in line for text in _EMPTY):
            continue
        cells = _cells(path, number, line, width)
        if not found.rows and "%" in cells[typed] and not any(char.isdigit() for char in line):
            units = [cell.strip() for cell in cells]
            continue
        section = cells[0].strip() if typed else ""
        percent, total, calls, mean, low, high = (cell.strip() for cell in cells[typed : typed + _SHORT])
        times = [
            _value(path, number, cell, _TIME, units[typed + place])
            for place, cell in ((1, total), (3, mean), (4, low), (5, high))
        ]
        found.shares.append(_value(path, number, percent, {"%": 0.01, "": 0.01}, "%"))
        found.rows.append((section, _name(path, number, cells[-1]), _count(path, number, calls), times[0], times[1]))
    return found


def _cells(path: Path, number: int, line: str, width: int) -> list[str]:
    """The cells of a row; a name without quotes keeps its commas."""
    quoted = line.lstrip().startswith('"') or ',"' in line
    try:
        cells = next(csv.reader([line], strict=True)) if quoted else line.split(",", width - 1)
    except csv.Error as error:
        raise CollectError(f"{path}, line {number}: not CSV: {error}", fix="export again") from error
    if len(cells) != width:
        raise CollectError(
            f"{path}, line {number}: {len(cells)} fields, expected {width}",
            fix="the row is cut or two files run into each other; export again",
        )
    return cells


def _name(path: Path, number: int, cell: str) -> str:
    name = cell.strip()
    if not name:
        raise CollectError(f"{path}, line {number}: no name", fix="the row is cut; export again")
    return name


def _count(path: Path, number: int, cell: str) -> int:
    if not cell.isdigit() or int(cell) == 0:
        raise CollectError(
            f"{path}, line {number}: expected a number of calls, found {cell[:30]!r}", fix="export again"
        )
    return int(cell)


def _text(path: Path, lines: Sequence[str], at: int) -> _Found:
    found, section = _Found(), ""
    for number, line in enumerate(lines[at + 1 :], start=at + 2):
        if any(text in line for text in _EMPTY):
            found.empty = True
            continue
        if nvprof_metrics.NOISE.match(line):
            if found.rows and line.strip():
                break
            continue
        match = _TEXT_ROW.match(line)
        if match is None:
            raise CollectError(
                f"{path}, line {number}: expected a row of the nvprof summary, found {line.strip()[:50]!r}",
                fix="keep the output of the program apart: nvprof --log-file",
            )
        section = match[1] or section
        total, mean, low, high = (_value(path, number, match[place], _TIME, "") for place in (3, 5, 6, 7))
        del low, high
        found.shares.append(float(match[2]) / 100)
        found.rows.append((section, match[8], _count(path, number, match[4]), total, mean))
    return found


def _frame(path: Path, found: _Found, doubts: list[Doubt], partial: bool) -> pd.DataFrame:
    gpu = [at for at, row in enumerate(found.rows) if row[0] in ("", "GPU activities")]
    if not gpu:
        why = "nvprof profiled no kernels" if found.empty else "no row of GPU activities"
        raise CollectError(f"{path}: {why}", fix="check that the program runs kernels and that nvprof knows the device")
    lost = 1 - sum(found.shares[at] for at in gpu)
    if abs(lost) > 0.001 + 0.0001 * len(gpu):
        wrong = "are missing" if lost > 0 else "stand here twice"
        what = f"the rows add up to {1 - lost:.1%} of the GPU time: rows {wrong}"
        if not partial:
            raise torn(path, what)
        doubts = [*doubts, Doubt(f"{path.name}: {what}", f"{abs(lost):.1%} of the time", "export again")]
    rows = [found.rows[at] for at in gpu]
    frame = build(
        {
            "kernel": [row[1] for row in rows],
            "kind": [memop_kind(row[1]) for row in rows],
            "instances": [row[2] for row in rows],
            "time": [row[4] for row in rows],
        },
        tool="nvprof",
        doubts=doubts,
    )
    frame.attrs["report"] = "summary"
    api = [row for row in found.rows if row[0] == "API calls"]
    if api:
        launch = [row for row in api if "Launch" in row[1]]
        frame.attrs["api"] = {
            "calls": float(sum(row[2] for row in api)),
            "time": sum(row[3] for row in api),
            "launch_calls": float(sum(row[2] for row in launch)),
            "launch_time": sum(row[3] for row in launch),
        }
    return frame


_Cells = tuple[list[int], dict[str, str], dict[str, list[str]]]
"""Of a trace: the line numbers of its rows, the units and the cells by column."""


def _delimited(path: Path, lines: Sequence[str], at: int) -> _Cells:
    names = [cell.strip().lower() for cell in lines[at].replace('"', "").split(",")]
    if at + 1 >= len(lines) or not lines[at + 1].strip():
        raise CollectError(f"{path}, line {at + 2}: expected the row of units", fix="the file was cut; export again")
    units = dict(zip(names, map(str.strip, _cells(path, at + 2, lines[at + 1], len(names))), strict=True))
    data: dict[str, list[str]] = {name: [] for name in names}
    numbers = []
    for number, line in enumerate(lines[at + 2 :], start=at + 3):
        if nvprof_metrics.NOISE.match(line):
            continue
        numbers.append(number)
        for name, cell in zip(names, _cells(path, number, line, len(names)), strict=True):
            data[name].append(cell.strip())
    return numbers, units, data


def _aligned(path: Path, lines: Sequence[str], at: int) -> _Cells:
    """The text for people: every column but the name ends below the end of its title."""
    titles = list(re.finditer(r"\S+(?: \S+)*", lines[at]))
    for number, line in enumerate(lines[at + 1 :], start=at + 2):
        if _TEXT_TRACE.match(line) or _csv_kind(line):
            raise CollectError(
                f"{path}, line {number}: a second table in one file", fix="give each in a file of its own"
            )
    data: dict[str, list[str]] = {title[0].lower(): [] for title in titles}
    ends = [0, *(title.end() for title in titles[:-1])]
    numbers = []
    for number, line in enumerate(lines[at + 1 :], start=at + 2):
        if not line.strip():
            break  # A legend follows.
        if nvprof_metrics.NOISE.match(line):
            continue
        cells = [line[left:right] for left, right in zip(ends, [*ends[1:], len(line)], strict=True)]
        # In the narrowest places a blank is all that parts two cells.
        if not all(cell.strip() for cell in cells) or not all(cell[:1] == " " for cell in cells[1:]):
            raise CollectError(
                f"{path}, line {number}: a row of another width than its header", fix="export with --csv"
            )
        numbers.append(number)
        for values, cell in zip(data.values(), cells, strict=True):
            values.append("" if cell.strip() == "-" else cell.strip())
    for side in ("grid", "block"):
        shaped = [cell.strip("()").split() or [""] * 3 for cell in data[f"{side} size"]]
        if wrong := [number for number, shape in zip(numbers, shaped, strict=True) if len(shape) != 3]:
            raise CollectError(f"{path}, line {wrong[0]}: a {side} without three sides", fix="export with --csv")
        data |= {f"{side} {axis}": [shape[place] for shape in shaped] for place, axis in enumerate("xyz")}
    return numbers, {}, data | {"registers per thread": data.get("regs*", [""] * len(numbers))}


def _trace(path: Path, cells: _Cells, doubts: list[Doubt]) -> pd.DataFrame:
    numbers, units, data = cells
    if not numbers:
        raise CollectError(f"{path}: a trace header and no row after it", fix="export again")
    waits = [bool(_WAITS.match(name)) for name in data["name"]]
    if any(waits):
        kept = [at for at, wait in enumerate(waits) if not wait]
        numbers = [numbers[at] for at in kept]
        data = {name: [values[at] for at in kept] for name, values in data.items()}
        what = f"{path.name}: {sum(waits)} page faults and thrashes of unified memory are left out"
        doubts = [
            *doubts,
            Doubt(what, "their time is part of what waited for them", "prefetch, or look at them in nvvp"),
        ]

    def column(name: str, known: dict[str, float]) -> Any:
        cells = zip(numbers, data.get(name, [""] * len(numbers)), strict=True)
        unit = units.get(name, "")
        return np.array([_value(path, n, cell, known, unit) if cell else np.nan for n, cell in cells])

    plain = {"": 1.0}
    kernels = [_name(path, n, cell) for n, cell in zip(numbers, data["name"], strict=True)]
    # The demangled name is followed by the number of the launch: "kernel(int) [123]".
    kernels = [re.sub(r"(?<!^)\s\[\d+\]$", "", name) for name in kernels]
    kinds = [memop_kind(name) for name in kernels]
    frame = build(
        {
            "kernel": kernels,
            "grid": shapes(*(column(f"grid {axis}", plain) for axis in "xyz")),
            "block": shapes(*(column(f"block {axis}", plain) for axis in "xyz")),
            "device": [re.sub(r" \(\d+\)$", "", cell) for cell in data.get("device", [""] * len(kernels))],
            "kind": kinds,
            "start": column("start", _TIME),
            "stream": data.get("stream", [""] * len(kernels)),
            "time": column("duration", _TIME),
            "registers": column("registers per thread", plain),
        },
        tool="nvprof",
        doubts=doubts,
    )
    if frame["time"].isna().any() or frame["start"].isna().any():
        raise CollectError(f"{path}: a row without start or duration", fix="export again")
    moved = [at for at, kind in enumerate(kinds) if kind != "kernel"]
    size, managed = (column(name, _BYTES) for name in ("size", "unified memory"))
    sizes = np.where(np.isnan(size), managed, size)[moved]
    frame.attrs["report"] = "trace"
    frame.attrs["copies"] = copies([kernels[at] for at in moved], 1, sizes, frame["time"].to_numpy()[moved])
    return frame


FORMAT = Format(
    "nvprof",
    sniff,
    read,
    role_of,
    says={
        "en": "times: nvprof's, as the program ran; of a summary the mean of all launches of a kernel",
        "zh": "时间：nvprof 所测，程序原样运行；汇总表为同一 kernel 各次启动的平均",
    },
)
