"""The table printed by torch.profiler: `prof.key_averages().table()`.

One row per kernel with its calls and GPU time; old versions list no kernels, but operators.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from collectors import Format, text_of
from collectors.caveat import Caveat
from collectors.errors import CollectError
from collectors.frame import build, role_of
from collectors.rows import numbers, ruler, table

_HEADER = re.compile(r"^\s*Name\s{2,}.*\bSelf CPU\b.*# of Calls", re.MULTILINE)
_GPU = re.compile(r"Self (?!CPU)\w+")
_TIME = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_ALL = 99.5
"""Percent of GPU time from which a table is complete; the rest is rounding."""
_COLUMNS = ["name", "calls", "gpu", "cpu", "share"]
_KERNEL = re.compile(r"void |Mem(?:cpy|set) |\w[\w:]*[<(]|\w+(?:::\w+)*(?:\.\.\.|\.kd)?$")
"""Names of kernels; ProfilerStep*, nccl:all_reduce, Optimizer.step#Adam.step are ranges on the GPU."""
_WHOLE = re.compile(r"^Self (?!CPU)\w+ time total: +([\d.]+)(us|ms|s)\s*$", re.MULTILINE)
_MOST = 2.0
"""Ratio of GPU time in operators to that in kernels from which operators are read."""
_KINDS = (("Memcpy", "memcpy"), ("Memset", "memset"))


def sniff(head: str, path: Path) -> bool:
    """Whether a text has the header of such a table."""
    return not head.startswith("SQLite format 3") and bool(_HEADER.search(head))


def read(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Launches frame: one row per kernel with its `instances`, `time` the mean of one [s].

    Of several tables, the one with the most GPU time is read. attrs: "unlisted" [s] of GPU time cut by row_limit; "report" = "operators"
    where a row is an operator.
    Raises CollectError if no table has GPU time.
    """
    file = Path(path)
    tables = list(_tables(file, text_of(file).splitlines()))
    _, best, whole = max(tables, key=lambda one: one[1]["gpu"].sum(), default=(0, pd.DataFrame(columns=_COLUMNS), 0.0))
    # Operators and calls take some of the CPU's time.
    busy = best[best["gpu"] > 0]
    # Calls of the runtime are given what recording them took.
    operators = busy[(busy["cpu"] > 0) & ~busy["name"].str.match("(?:cuda|cu|hip)[A-Z]")]
    # Ranges take the GPU's time from first to last kernel and none of the CPU's; those of one word have a row of the host as well.
    ranges = ~busy["name"].str.match(_KERNEL) | busy["name"].isin(best["name"][best["cpu"] > 0])
    kernels = busy[(busy["cpu"] == 0) & ~ranges]
    own = operators["gpu"].sum() > _MOST * kernels["gpu"].sum()
    taken = operators if own else kernels
    if taken.empty:
        raise CollectError(
            f"{file}: a table of torch.profiler without GPU time",
            fix="profile with ProfilerActivity.CUDA and print `key_averages().table(sort_by='self_cuda_time_total')`",
        )
    caveats, share, listed = [], float(taken["share"].sum(skipna=False)), float(taken["gpu"].sum())
    unlisted = max((whole or 100 * listed / share) - listed, 0.0)
    if share > 100.5 + 0.005 * len(taken):
        raise CollectError(
            f"{file}: the rows add up to {share:.0f} % of the GPU time: ranges are listed among the kernels",
            fix="give the trace of export_chrome_trace, which separates them",
        )
    if not share > _ALL:
        what = f"the table lists {share:.1f} % of the GPU time" if share == share else "the table may be cut"
        caveats.append(Caveat(what, f"{len(taken)} rows", "print it with row_limit=-1"))
    if own:
        what = "the table lists operators and hardly a kernel: each row is the GPU time of an operator's own kernels"
        caveats.append(Caveat(what, f"{len(taken)} operators", "give the trace of export_chrome_trace"))
    if taken["name"].str.endswith("...").any():
        caveats.append(Caveat("names of kernels are cut", "", "print the table with max_name_column_width=1000"))
    if len(tables) > 1:
        what = f"the file holds {len(tables)} tables of torch.profiler: the one with most GPU time is read"
        where = f"line {', '.join(str(line) for line, *_ in tables)}"
        caveats.append(Caveat(f"{what} ({where})", "", "give one table per file"))
    columns: dict[str, Any] = {
        "kernel": taken["name"].tolist(),
        "kind": [next((kind for begin, kind in _KINDS if name.startswith(begin)), "kernel") for name in taken["name"]],
        "instances": taken["calls"].to_numpy(np.int64),
        "time": (taken["gpu"] / taken["calls"]).to_numpy(),
    }
    told = unlisted if share < _ALL else 0.0
    report = "operators" if own else "summary"
    return build(columns, tool="key_averages", caveats=caveats, report=report, unlisted=told)


def _tables(path: Path, lines: list[str]) -> Iterator[tuple[int, pd.DataFrame, float]]:
    """(line, rows, total GPU time [s] of its foot, 0 without) of each table."""
    for at, line in enumerate(lines):
        if not (_HEADER.match(line) and at + 1 < len(lines) and (ends := ruler(lines[at + 1]))):
            continue
        # Titles wider than their column push the others to the right: blanks part cells, and names have blanks too.
        names = re.split(r"\s{2,}", line.strip())
        rows, number = [], at
        for number, row in enumerate(lines[at + 2 :], at + 3):
            if ruler(row) or not row.strip():
                break
            cells = [row[: ends[0]], *re.split(r"\s{2,}", row[ends[0] :].strip())]
            if len(cells) != len(names):
                fix = "the row is cut or wrapped: print the table into a file"
                what = f"{path}, line {number}: a row of {len(cells)} cells in torch.profiler's table of {len(names)}"
                raise CollectError(what, fix=fix)
            rows.append((number, cells))
        found = table(rows, names)
        calls = numbers(path, found["# of Calls"])
        if not (calls > 0).all():
            raise CollectError(f"{path}, the table at line {at + 1}: a row without calls", fix="print the table again")
        gpu = next((name for name in names if _GPU.fullmatch(name)), "")
        host = [numbers(path, found[name], _TIME) for name in ("Self CPU", "CPU total") if name in found]
        shares = found.get(f"{gpu} %", pd.Series("", found.index)).str.removesuffix("%")
        percent = pd.to_numeric(shares, errors="coerce")
        spent = numbers(path, found[gpu], _TIME) if gpu else 0.0
        made = dict(zip(_COLUMNS, (found["Name"], calls, spent, sum(host), percent), strict=True))
        foot = _WHOLE.search("\n".join(lines[number : number + 3]))
        yield at + 1, pd.DataFrame(made, index=found.index), float(foot[1]) * _TIME[foot[2]] if foot else 0.0


FORMAT = Format("key_averages", sniff, read, role_of)
