"""AMD's rocprof, versions 1 to 3: dispatches (CSV, rocpd) and summaries.

Versions 1 and 2 have a row a dispatch and a column a counter, version 3 a row a dispatch and counter
(counter_collection.csv) or times alone (kernel_trace.csv). Times in ns; a grid counts work-items, ours blocks.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from collectors import Format, text_of
from collectors.caveat import Caveat
from collectors.counters import evaluate_columns, metric_names
from collectors.errors import CollectError, cut, torn, uneven
from collectors.frame import build, role_of
from collectors.nsys.launches import shapes
from collectors.rocprof.rocpd import is_rocpd, read_rocpd

_COLUMNS = {
    "launch": ("dispatchid", "index"),
    "kernel": ("kernelname",),
    "start": ("starttimestamp", "beginns"),
    "end": ("endtimestamp", "endns"),
    "device": ("agentid", "gpuid"),
    "process": ("processid", "pid"),
    "stream": ("streamid",),
    "queue": ("queueid",),
    "threads": ("gridsize", "grd"),
    "block_size": ("workgroupsize", "wgr"),
    "shared_memory": ("ldsblocksize", "ldsperworkgroup", "lds"),
    "registers": ("vgprcount", "archvgpr", "vgpr"),
    **{f"grid_{axis}": (f"gridsize{axis}",) for axis in "xyz"},
    **{f"block_{axis}": (f"workgroupsize{axis}",) for axis in "xyz"},
    "counter": ("countername",),
    "value": ("countervalue",),
}
"""What a column is here, by its name without case and marks; what is not here may be a counter."""
_SUMMARY = {"Name", "Calls", "TotalDurationNs"}
_CALL = re.compile(r"hip[A-Z]|hsa_|roctx|__hip")
_OURS = {spelling: name for name, spellings in _COLUMNS.items() for spelling in spellings}
FABRIC = Caveat(
    "AMD counts memory traffic where L2 leaves for the fabric",
    "what an Infinity Cache serves is in it; ROCm's formula for it reads 0 on chips it does not know",
    "compare a kernel whose traffic you know",
    "amd-fabric",
)


def sniff(head: str, path: Path) -> bool:
    """Whether a file is rocprofv3's database, or begins with a header of rocprof."""
    if head.startswith("SQLite format 3"):
        return is_rocpd(path)
    names = set(_names(next((line for line in head.splitlines() if line.strip()), "")))
    if names >= _SUMMARY:
        return True
    told = names & {"start", "threads", "grid_x", "counter"}
    # A name and a grid have other people's tables too.
    return "kernel" in names and bool(told) and bool(names & {"launch", "start", "queue"})


def read(path: str | os.PathLike[str], *, partial: bool = False) -> pd.DataFrame:
    """The launches frame of an export: times, and the counters that have a counterpart.

    partial: leave out a cut last row, with a caveat. Raises CollectError naming the line that cannot be read.
    """
    path = Path(path)
    with path.open("rb") as file:
        if file.read(15) == b"SQLite format 3":
            return read_rocpd(path)
    header, lines, rows, caveats = _table(path, partial)
    names = _names(header)
    if set(names) >= _SUMMARY:
        return _summary(path, names, lines, rows, caveats, partial)
    _check(path, names, lines, rows)
    if "counter" in names:
        rows, lines, counted = _by_dispatch(path, names, rows, lines)
    else:
        counted = {cell: names.index(cell) for cell in names if cell in metric_names(vendor="amd")}
        counted = {cell: _numbers(path, cell, lines, [row[at] for row in rows]) for cell, at in counted.items()}

    def cells(name: str) -> list[str]:
        return [row[names.index(name)] for row in rows] if name in names else [""] * len(rows)

    def numbers(name: str) -> Any:
        return _numbers(path, name, lines, cells(name))

    for name in ("start", "end"):
        if rounded := next((line for line, cell in zip(lines, cells(name), strict=True) if "e" in cell.lower()), 0):
            raise CollectError(
                f"{path}, line {rounded}: a time stamp in powers of ten: a spreadsheet saved the file and rounded it",
                fix="give the file as rocprof wrote it",
            )
    start, end = numbers("start"), numbers("end")
    if (end < start).any():
        line = lines[int(np.argmax(end < start))]
        raise CollectError(f"{path}, line {line}: ends before it starts", fix="the row is damaged; export again")
    facts = [name for name in ("registers", "shared_memory", "threads", "block_size") if name in names]
    measured: dict[str, Any] = {
        "start": start / 1e9,
        "time": (end - start) / 1e9,
        **{name: numbers(name) for name in facts},
        **evaluate_columns(counted, "", vendor="amd"),
    }
    items, block = [[numbers(f"{one}_{axis}") for axis in "xyz"] for one in ("grid", "block")]
    columns: dict[str, Any] = {
        "kernel": [name.removesuffix(".kd").removesuffix(" [clone .kd]") for name in cells("kernel")],
        "launch": [int(number) if number == number else at for at, number in enumerate(numbers("launch"))],
        "grid": shapes(*(np.ceil(all_ / one) for all_, one in zip(items, block, strict=True))),
        "block": shapes(*block),
        "device": ["".join(re.findall(r"\d+$", cell)) for cell in cells("device")],
        "process": cells("process"),
        "stream": cells("stream" if "stream" in names else "queue"),
        **{name: column for name, column in measured.items() if not np.isnan(column).all()},
    }
    if {"dram_read", "dram_write"} & columns.keys():
        caveats = [*caveats, FABRIC]
    frame = build(columns, tool="rocprof", caveats=caveats)
    frame.attrs["untaken"] = sorted(set(counted) - metric_names(vendor="amd"))
    return frame


def _check(path: Path, names: Sequence[str], lines: Sequence[int], rows: Sequence[list[str]]) -> None:
    """Raise CollectError where a column stands twice or lacks its pair, or a row is no dispatch."""
    if twice := next((name for at, name in enumerate(names) if name in names[:at]), ""):
        raise CollectError(f"{path}, line 1: two columns {twice}", fix="give the file as the tool wrote it")
    pairs = (("start", "end"), ("end", "start"), ("counter", "value"))
    if lost := [other for one, other in pairs if one in names and other not in names]:
        raise CollectError(
            f"{path}, line 1: no column {_COLUMNS[lost[0]][0]}", fix="give the file as the tool wrote it"
        )
    for line, row in zip(lines, rows, strict=True):
        kernel = row[names.index("kernel")]
        if not kernel or kernel.isdecimal() or any(not row[names.index(at)] for at in ("start", "end") if at in names):
            raise CollectError(
                f"{path}, line {line}: a row without its kernel or its times",
                fix="leave out what is no dispatch (a total), or give the file as the tool wrote it",
            )


def _summary(
    path: Path,
    names: Sequence[str],
    lines: Sequence[int],
    rows: Sequence[list[str]],
    caveats: list[Caveat],
    partial: bool,
) -> pd.DataFrame:
    """A summary of kernels or copies: a row each with its `instances`, `time` the mean of one."""
    name, calls, total = ([row[names.index(column)] for row in rows] for column in ("Name", "Calls", "TotalDurationNs"))
    if all(map(_CALL.match, name)):
        raise CollectError(
            f"{path}: a summary of the host's calls, which lists no kernels", fix="give the kernels' stats"
        )
    count, time = _numbers(path, "Calls", lines, calls), _numbers(path, "TotalDurationNs", lines, total) / 1e9
    if not (count > 0).all() or np.isnan(time).any():
        raise CollectError(f"{path}: a row without its calls or its time", fix="the row is damaged; export again")
    if "Percentage" in names:
        share = float(_numbers(path, "Percentage", lines, [row[names.index("Percentage")] for row in rows]).sum())
        if abs(share - 100) > 0.1 + 0.05 * len(rows):
            what = f"the rows add up to {share:.1f} % of the time"
            if not partial:
                raise torn(path, what)
            caveats = [*caveats, Caveat(f"{path.name}: {what}", "", "export again")]
    columns = {
        "kernel": [one.removesuffix(".kd").removesuffix(" [clone .kd]") for one in name],
        "kind": ["memcpy" if re.match(r"MEMORY_COPY|Copy\w+To", one) else "kernel" for one in name],
        "instances": count.astype(np.int64),
        "time": time / count,
    }
    frame = build(columns, tool="rocprof", caveats=caveats)
    frame.attrs["report"] = "summary"
    return frame


def _names(header: str) -> list[str]:
    """The columns of a header line by our names, counters by their own; none where it is no CSV."""
    try:
        cells = [cell.strip() for cell in next(csv.reader([header]), [])]
    except csv.Error:  # A field beyond csv's limit; on Python 3.10 a NUL too.
        return []
    plain = (re.sub(r"[^a-z0-9]", "", cell.lower()) for cell in cells)
    return [_OURS.get(one, f"{cell}?" if cell in _COLUMNS else cell) for one, cell in zip(plain, cells, strict=True)]


def _table(path: Path, partial: bool) -> tuple[str, list[int], list[list[str]], list[Caveat]]:
    """Header, line numbers and cells of the rows."""
    text = text_of(path, strict=True)
    caveats = []
    if not text.endswith("\n"):
        if not partial:
            raise cut(path, text.count("\n") + 1)
        lost = len(text) - text.rfind("\n") - 1
        text = text[: text.rfind("\n") + 1]
        caveats = [Caveat(f"{path.name} was cut: its last row is left out", f"{lost} characters", "export again")]
    found = list(_records(path, text))
    header = text[: text.index("\n")] if found else ""
    rows = [(line, [cell.strip() for cell in row]) for line, row in found[1:] if row]
    if not rows:
        raise CollectError(f"{path}: a header of rocprof and no row after it", fix="export again")
    width = len(found[0][1])
    for line, row in rows:
        if len(row) != width:
            raise uneven(path, line, len(row), width)
    return header, [line for line, _ in rows], [row for _, row in rows], caveats


def _records(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise CollectError(f"{path}, line {reader.line_num}: not CSV: {error}", fix="export again") from error


def _by_dispatch(
    path: Path, names: Sequence[str], rows: Sequence[list[str]], lines: Sequence[int]
) -> tuple[list[list[str]], list[int], dict[str, Any]]:
    """The first row of each dispatch, its line, and the counters of all of them."""
    key = [names.index(name) for name in ("launch", "process", "device") if name in names]
    counter, value = names.index("counter"), names.index("value")
    first: dict[tuple[str, ...], int] = {}
    counted: dict[str, dict[int, tuple[int, str]]] = {}
    for at, row in enumerate(rows):
        place = first.setdefault(tuple(row[part] for part in key), at)
        seen = counted.setdefault(row[counter], {})
        if place in seen:
            raise CollectError(
                f"{path}, line {lines[at]}: {row[counter]} of one dispatch stands here twice",
                fix="give the file of each run by itself",
            )
        seen[place] = (lines[at], row[value])
    places = list(first.values())
    columns = {
        name: _numbers(
            path,
            name,
            [seen[place][0] if place in seen else 0 for place in places],
            [seen[place][1] if place in seen else "" for place in places],
        )
        for name, seen in counted.items()
    }
    return [rows[place] for place in places], [lines[place] for place in places], columns


def _numbers(path: Path, name: str, lines: Sequence[int], cells: Sequence[str]) -> Any:
    """Cells as float64, "" as NaN."""
    found = np.full(len(cells), math.nan)
    for at, cell in enumerate(cells):
        try:
            found[at] = float(cell) if cell else math.nan
            if math.isinf(found[at]) or "_" in cell or (cell and math.isnan(found[at])):
                raise ValueError(cell)
        except ValueError as error:
            message = f"{path}, line {lines[at]}: {name}: {cell[:40]!r} is not a number"
            raise CollectError(message, fix="export again") from error
    return found


SAYS: Mapping[str, str] = {
    "en": "times: rocprof's, dispatch by dispatch; where counters were collected, kernels one at a time",
    "zh": "时间：rocprof 逐次派发所测；采集计数器时每次只运行一个 kernel",
}
FORMAT = Format(
    "rocprof",
    sniff,
    read,
    role_of,
    SAYS,
    vendor="amd",
    remedy="import a counter_collection.csv of `rocprofv3 --pmc FETCH_SIZE WRITE_SIZE` of the same program",
)
