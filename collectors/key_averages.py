"""The table that torch.profiler prints: `prof.key_averages().table()`.

A row a kernel with its calls and their GPU time; of old versions, which list no kernels, a row an operator.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from collectors import Format, text_of
from collectors.caveat import Caveat
from collectors.errors import CollectError
from collectors.frame import build, role_of

_HEADER = re.compile(r"^\s*Name\s{2,}.*\bSelf CPU\b.*# of Calls", re.MULTILINE)
_RULER = re.compile(r"^-{3,}(?:  -{2,})+\s*$")
_GPU = re.compile(r"Self (?!CPU)\w+")
_TIME = re.compile(r"([\d.]+)(us|ms|s)")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_KINDS = (("Memcpy", "memcpy"), ("Memset", "memset"))


class _Row(NamedTuple):
    name: str
    calls: int
    gpu: float
    cpu: float
    share: float
    """Percent of all GPU time."""

    @property
    def kernel(self) -> bool:
        """Whether the GPU alone took time: operators and calls take some of the CPU's."""
        return self.gpu > 0 and self.cpu == 0


def sniff(head: str, path: Path) -> bool:
    """Whether a text holds the header of such a table."""
    return not head.startswith("SQLite format 3") and bool(_HEADER.search(head))


def read(path: str | os.PathLike[str], *, partial: bool = False) -> pd.DataFrame:
    """The launches frame: a row a kernel with its `instances`, `time` the mean of one [s].

    Of several tables the one with most GPU time is read. Raises CollectError where none has any.
    """
    file = Path(path)
    tables = list(_tables(file, text_of(file).splitlines()))
    _, best = max(tables, key=lambda table: sum(row.gpu for row in table[1]), default=(0, []))
    taken = [row for row in best if row.kernel] or [row for row in best if row.gpu > 0]
    if not taken:
        raise CollectError(
            f"{file}: a table of torch.profiler without GPU time",
            fix="profile with ProfilerActivity.CUDA and print `key_averages().table(sort_by='self_cuda_time_total')`",
        )
    caveats, share = [], sum(row.share for row in taken)
    if not share > 99.5:
        what = f"the table lists kernels of {share:.1f} % of the GPU time" if share == share else "the table may be cut"
        caveats.append(Caveat(what, f"{len(taken)} rows", "print it with row_limit=-1"))
    if not taken[0].kernel:
        what = "the table has operators and no kernels: each row is the GPU time of an operator's own kernels"
        caveats.append(Caveat(what, f"{len(taken)} operators", "give the trace of export_chrome_trace"))
    if any(row.name.endswith("...") for row in taken):
        caveats.append(Caveat("names of kernels are cut", "", "print the table with max_name_column_width=1000"))
    if len(tables) > 1:
        what = f"the file holds {len(tables)} tables of torch.profiler: the one with most GPU time is read"
        where = f"line {', '.join(str(line) for line, _ in tables)}"
        caveats.append(Caveat(f"{what} ({where})", "", "give one in a file of its own"))
    columns: dict[str, Any] = {
        "kernel": [row.name for row in taken],
        "kind": [next((kind for begin, kind in _KINDS if row.name.startswith(begin)), "kernel") for row in taken],
        "instances": [row.calls for row in taken],
        "time": [row.gpu / row.calls for row in taken],
    }
    frame = build(columns, tool="key_averages", caveats=caveats)
    frame.attrs["report"] = "summary"
    return frame


def _tables(path: Path, lines: list[str]) -> Iterator[tuple[int, list[_Row]]]:
    """The line and the rows of each table, from its ruler to the next ruler or blank line."""
    for at, line in enumerate(lines):
        if not (_HEADER.match(line) and at + 1 < len(lines) and _RULER.match(lines[at + 1])):
            continue
        # Titles wider than their column push the others to the right: blanks part cells, and names have blanks too.
        names, wide = re.split(r"\s{2,}", line.strip()), lines[at + 1].index(" ")
        gpu = next((name for name in names if _GPU.fullmatch(name)), "")
        rows = []
        for number, row in enumerate(lines[at + 2 :], at + 3):
            if _RULER.match(row) or not row.strip():
                break
            cells = dict(zip(names, [row[:wide].strip(), *re.split(r"\s{2,}", row[wide:].strip())], strict=False))
            rows.append(_row(path, number, cells, gpu))
        yield at + 1, rows


def _row(path: Path, number: int, cells: dict[str, str], gpu: str) -> _Row:
    calls = cells.get("# of Calls", "")
    if not calls.isdecimal() or int(calls) == 0:
        raise CollectError(
            f"{path}, line {number}: expected a number of calls, found {calls[:30]!r}",
            fix="the row is cut or wrapped: print the table into a file",
        )
    spent = _seconds(path, number, cells.get(gpu, "")) if gpu else 0.0
    cpu = sum(_seconds(path, number, cells[name]) for name in ("Self CPU", "CPU total") if name in cells)
    percent = cells.get(f"{gpu} %", "").removesuffix("%")
    share = float(percent) if re.fullmatch(r"\d+(\.\d+)?", percent) else math.nan
    return _Row(cells["Name"], int(calls), spent, cpu, share)


def _seconds(path: Path, number: int, cell: str) -> float:
    found = _TIME.fullmatch(cell)
    if found is None:
        raise CollectError(
            f"{path}, line {number}: expected a time, found {cell[:30]!r}",
            fix="the row is cut or wrapped: print the table into a file",
        )
    return float(found[1]) * _UNITS[found[2]]


FORMAT = Format(
    "key_averages",
    sniff,
    read,
    role_of,
    says={
        "en": "times: torch.profiler's, means of all calls of a kernel",
        "zh": "时间：torch.profiler 所测，为同一 kernel 各次调用的平均",
    },
)
