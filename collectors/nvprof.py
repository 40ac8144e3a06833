"""nvprof exports: summaries (CSV, text) and GPU traces (CSV).

Old CSVs have units inside the values, newer ones a row of units. Of a summary `time` is the mean of one of its
`instances`. Names are not always quoted in old CSVs, so the last field takes the rest of the line.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from collectors import Format, text_of
from collectors.caveat import Caveat
from collectors.errors import CollectError, cut, torn, uneven
from collectors.frame import build, role_of
from collectors.nsys.launches import api_facts, memop_kind, moved_bytes, shapes

_TIME = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_BYTES = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9}
_PLAIN = {"": 1.0}
_SUMMARY = ("time(%)", "time", "calls", "avg", "min", "max", "name")
_TRACE = {"start", "duration", "grid x", "block x", "name"}
_VALUE = re.compile(r"([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)([a-zA-Z%]*)")
_TEXT_HEADER = re.compile(r"^\s*(?:Type\s+)?Time\(%\)\s+Time\s+Calls\s+Avg\s+Min\s+Max\s+Name\s*$")
_TEXT_ROW = re.compile(
    r"^\s*(?:(GPU activities|API calls|OpenACC \(excl\)|OpenMP \(incl\)):)?"
    r"\s*([\d.]+%)\s+(\S+)\s+(\d+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(.+?)\s*$"
)
_RESULT = re.compile(r"^==(\d+)== (.*)result:\s*$")
_WAITS = re.compile(r"\[Unified Memory (?!Memcpy)")
_NOISE = re.compile(r"^==\d+==|^=+ |^\s*$|^\s*(?:```|~~~|</\w)|^(?:\(\S+\) ?)?\[?[\w.-]+@[\w.-]+[: ].*[$#%](?: |$)")
"""Lines of nvprof's between its rows, of Markdown, and a shell's prompt."""
_METRICS = re.compile(r'^\s*Invocations\s+(?:Metric|Event) Name\s|^"?Device"?,"?Kernel"?,"?Invocations')
_EMPTY = ("No kernels were profiled", "No API activities were profiled", "No events/metrics were profiled")


@dataclass
class _Rows:
    """Rows of a table: file, line numbers, and by column units and cells."""

    path: Path
    lines: list[int]
    units: Mapping[str, str]
    cells: dict[str, list[str]]

    def text(self, name: str) -> list[str]:
        """A column as text, "" where the table has none."""
        return self.cells.get(name, [""] * len(self.lines))

    def numbers(self, name: str, known: Mapping[str, float]) -> NDArray[np.float64]:
        """A column in SI: each cell by its own unit, else that of the row of units; NaN if empty."""
        unit = self.units.get(name, "")
        cells = zip(self.lines, self.text(name), strict=True)
        return np.array([self._value(line, cell, known, unit) if cell else np.nan for line, cell in cells], float)

    def _value(self, line: int, cell: str, known: Mapping[str, float], unit: str) -> float:
        match = _VALUE.fullmatch(cell)
        factor = known.get(match[2] or unit) if match else None
        if match is None or factor is None:
            raise CollectError(
                f"{self.path}, line {line}: expected a number with one of the units {', '.join(filter(None, known))}, "
                f"found {cell[:30]!r}",
                fix="the row is damaged or the export is of another tool",
            )
        return float(match[1]) * factor

    def without(self, dropped: Sequence[bool]) -> _Rows:
        """The other rows."""
        kept = [at for at, drop in enumerate(dropped) if not drop]
        cells = {name: [values[at] for at in kept] for name, values in self.cells.items()}
        return _Rows(self.path, [self.lines[at] for at in kept], self.units, cells)


def sniff(head: str, path: Path) -> bool:
    """Whether a file is of nvprof: a header of a summary, a trace or metrics, CSV or text."""
    del path
    lines = head.splitlines()[:2000]
    return any(_kind(line) or _METRICS.match(line) for line in lines) or "NVPROF is profiling process" in head


def _kind(line: str) -> str:
    """The table that a header begins: "summary", "text summary", "trace" or ""."""
    if _TEXT_HEADER.match(line):
        return "text summary"
    cells = tuple(cell.strip().lower() for cell in line.replace('"', "").split(","))
    if cells[-len(_SUMMARY) :] == _SUMMARY and cells[: -len(_SUMMARY)] in ((), ("type",)):
        return "summary"
    return "trace" if set(cells) >= _TRACE else ""


def read(path: str | Path, *, partial: bool = False) -> pd.DataFrame:
    """The launches frame of an nvprof export; API calls are left out and summed in attrs["api"].

    partial: leave out a cut last row, with a caveat, instead of refusing it. attrs: "caveats", "report" ("summary"
    or "trace"). Raises CollectError naming the line that cannot be read, and for an export without kernels.
    """
    path = Path(path)
    lines, caveats = _lines(path, partial)
    kind, at = _header(path, lines)
    _one_result(path, lines, at, traced=kind == "trace")
    rows = (_printed_summary if kind == "text summary" else _delimited)(path, lines, at)
    if not rows.lines:
        raise CollectError(f"{path}: a header of nvprof and no row after it", fix="export again")
    return _trace(rows, caveats) if kind == "trace" else _summary(rows, caveats, partial)


def _lines(path: Path, partial: bool) -> tuple[list[str], list[Caveat]]:
    text = text_of(path, strict=True)
    if not text.strip():
        raise CollectError(f"{path}: is empty", fix="profile again")
    lines = text.split("\n")
    last = lines.pop()
    # The bracket of a memory operation closes the row, so only the newline can be missing after it.
    if not last.strip() or re.search(r"[,\s]\"?\[CUDA mem[^\]]*\]\"?\s*$", last):
        return [*lines, last], []
    if not partial:
        raise cut(path, len(lines) + 1)
    return lines, [Caveat(f"{path.name} was cut: its last row is left out", f"{len(last)} characters", "export again")]


def _one_result(path: Path, lines: Sequence[str], at: int, *, traced: bool) -> None:
    """Raise CollectError where several programs printed into one file."""
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
        if kind := _kind(line):
            return kind, at
    if any(map(_METRICS.match, lines)):
        raise CollectError(
            f"{path}: metrics or events of nvprof, which are not read", fix="count with Nsight Compute (CC 7.0 and up)"
        )
    why = next((line.strip() for line in lines if any(text in line for text in _EMPTY)), "")
    raise CollectError(
        f"{path}: no header of an nvprof summary or trace" + (f"; nvprof says: {why}" if why else ""),
        fix="export with `nvprof --csv --log-file out.csv`; nvprof refuses devices of CC 8.0 and up",
    )


def _delimited(path: Path, lines: Sequence[str], at: int) -> _Rows:
    """The rows of a CSV, up to a table of another kind (API calls, Unified Memory)."""
    names = [cell.strip().lower() for cell in lines[at].replace('"', "").split(",")]
    rows = _Rows(path, [], {}, {name: [] for name in names})
    for number, line in enumerate(lines[at + 1 :], start=at + 2):
        heading = _RESULT.match(line)
        if rows.lines and ("API calls:" in line or (heading and heading[2] != "Profiling ")):
            break
        if _NOISE.match(line) or any(text in line for text in _EMPTY):
            continue
        cells = [cell.strip() for cell in _split(path, number, line, len(names))]
        if not rows.lines and not rows.units and not any(char.isdigit() for char in line):
            rows.units = dict(zip(names, cells, strict=True))
            continue
        rows.lines.append(number)
        for name, cell in zip(names, cells, strict=True):
            rows.cells[name].append(cell)
    if "start" in names and not rows.units:
        raise CollectError(f"{path}, line {at + 2}: expected the row of units", fix="the file was cut; export again")
    return rows


def _split(path: Path, number: int, line: str, width: int) -> list[str]:
    """The cells of a row; a name without quotes keeps its commas."""
    quoted = line.lstrip().startswith('"') or ',"' in line
    try:
        cells = next(csv.reader([line], strict=True)) if quoted else line.split(",", width - 1)
    except csv.Error as error:
        raise CollectError(f"{path}, line {number}: not CSV: {error}", fix="export again") from error
    if len(cells) != width:
        raise uneven(path, number, len(cells), width)
    return cells


def _printed_summary(path: Path, lines: Sequence[str], at: int) -> _Rows:
    """The rows of a summary for people; the first of a section has its title."""
    rows = _Rows(path, [], {}, {name: [] for name in ("type", *_SUMMARY)})
    for number, line in enumerate(lines[at + 1 :], start=at + 2):
        if _NOISE.match(line) or any(text in line for text in _EMPTY):
            if rows.lines and line.strip():
                break
            continue
        match = _TEXT_ROW.match(line)
        if match is None:
            raise CollectError(
                f"{path}, line {number}: expected a row of the nvprof summary, found {line.strip()[:50]!r}",
                fix="keep the output of the program apart: nvprof --log-file",
            )
        rows.lines.append(number)
        for values, cell in zip(rows.cells.values(), match.groups(), strict=True):
            values.append(cell if cell is not None else values[-1] if values else "")
    return rows


def _summary(rows: _Rows, caveats: list[Caveat], partial: bool) -> pd.DataFrame:
    sections, names = np.array(rows.text("type"), dtype=object), np.array(_names(rows), dtype=object)
    calls = np.array([_count(rows.path, line, cell) for line, cell in zip(rows.lines, rows.text("calls"), strict=True)])
    share, total, mean = (
        rows.numbers("time(%)", {"%": 0.01, "": 0.01}),
        rows.numbers("time", _TIME),
        rows.numbers("avg", _TIME),
    )
    for column in ("min", "max"):
        rows.numbers(column, _TIME)
    gpu = np.isin(sections, ("", "GPU activities"))
    if not gpu.any():
        raise CollectError(
            f"{rows.path}: no row of GPU activities",
            fix="check that the program runs kernels and that nvprof knows the device",
        )
    lost = 1 - float(share[gpu].sum())
    if abs(lost) > 0.001 + 0.0001 * int(gpu.sum()):
        wrong = "are missing" if lost > 0 else "stand here twice"
        what = f"the rows add up to {1 - lost:.1%} of the GPU time: rows {wrong}"
        if not partial:
            raise torn(rows.path, what)
        caveats = [*caveats, Caveat(f"{rows.path.name}: {what}", f"{abs(lost):.1%} of the time", "export again")]
    columns = {
        "kernel": names[gpu],
        "kind": [memop_kind(name) for name in names[gpu]],
        "instances": calls[gpu],
        "time": mean[gpu],
    }
    frame = build(columns, tool="nvprof", caveats=caveats)
    frame.attrs["report"] = "summary"
    if (api := sections == "API calls").any():
        frame.attrs["api"] = api_facts(names[api], calls[api], total[api])
    return frame


def _names(rows: _Rows) -> list[str]:
    for line, name in zip(rows.lines, rows.text("name"), strict=True):
        if not name:
            raise CollectError(f"{rows.path}, line {line}: no name", fix="the row is cut; export again")
    return rows.text("name")


def _count(path: Path, number: int, cell: str) -> int:
    if not cell.isdigit() or int(cell) == 0:
        raise CollectError(
            f"{path}, line {number}: expected a number of calls, found {cell[:30]!r}", fix="export again"
        )
    return int(cell)


def _trace(rows: _Rows, caveats: list[Caveat]) -> pd.DataFrame:
    waits = [bool(_WAITS.match(name)) for name in rows.text("name")]
    if any(waits):
        rows = rows.without(waits)
        what = f"{rows.path.name}: {sum(waits)} page faults and thrashes of unified memory are left out"
        fix = "prefetch, or look at them in nvvp"
        caveats = [*caveats, Caveat(what, "their time is part of what waited for them", fix)]
    # The demangled name is followed by the number of the launch: "kernel(int) [123]".
    kernels = [re.sub(r"(?<!^)\s\[\d+\]$", "", name) for name in _names(rows)]
    kinds = [memop_kind(name) for name in kernels]
    moved = np.array([kind != "kernel" for kind in kinds], dtype=bool)
    size, managed = rows.numbers("size", _BYTES), rows.numbers("unified memory", _BYTES)
    frame = build(
        {
            "kernel": kernels,
            "grid": shapes(*(rows.numbers(f"grid {axis}", _PLAIN) for axis in "xyz")),
            "block": shapes(*(rows.numbers(f"block {axis}", _PLAIN) for axis in "xyz")),
            "device": [re.sub(r" \(\d+\)$", "", cell) for cell in rows.text("device")],
            "kind": kinds,
            "start": rows.numbers("start", _TIME),
            "stream": rows.text("stream"),
            "time": rows.numbers("duration", _TIME),
            "registers": rows.numbers("registers per thread", _PLAIN),
            **moved_bytes(moved, np.where(np.isnan(size), managed, size)[moved]),
        },
        tool="nvprof",
        caveats=caveats,
    )
    if frame["time"].isna().any() or frame["start"].isna().any():
        raise CollectError(f"{rows.path}: a row without start or duration", fix="export again")
    frame.attrs["report"] = "trace"
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
