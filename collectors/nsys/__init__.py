"""Nsight Systems exports: `nsys stats` reports (CSV, aligned text, stdout) and sqlite.

Names and headers of 2020 to 2022.4 and of 2023.1 on are accepted. A trace has no end mark: one cut exactly after
a row reads as a shorter trace. Summaries show shares of the total, so a missing row is noticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from collectors import Format, Role
from collectors.caveat import Caveat
from collectors.errors import CollectError, NoLaunchesError
from collectors.nsys import sqlite
from collectors.nsys.frames import table_frame
from collectors.nsys.launches import SUMMARIES, launches, together
from collectors.nsys.reports import REPORTS, kind_of
from collectors.nsys.tables import is_sqlite
from collectors.nsys.text import Export, Table, header_of, scan
from collectors.rows import added_up

RECORDINGS = (".nsys-rep", ".qdrep", ".qdstrm")
_MARKS = ("Processing [", "SKIPPED:", "Generating SQLite file")
# The first of these that is there makes the launches frame.
_CHOICES = (("gpu_trace",), ("gpu_sum",), ("kern_sum", "mem_time_sum"), ("nvtx_kern_sum",))
_DETAIL = ("sqlite", "gpu_trace", "gpu_sum", "kern_sum", "nvtx_kern_sum")
"""Sources of the same launches, the most detailed first; the first two have every activity in time."""
_Report = tuple[str, pd.DataFrame]


def sniff(head: str, path: Path) -> bool:
    """Whether a file is nsys': a report header, a sqlite export, a recording, or empty."""
    if head.startswith("SQLite format 3"):
        return sqlite.sniff(head, path)
    if path.suffix.lower() in RECORDINGS or not head.strip():
        return True
    if any(mark in head for mark in _MARKS):
        return True
    lines = head.splitlines()[:2000]
    return any(kind_of(header_of(line, before)[0]) for before, line in pairwise(["", *lines]))


def read(path: str | Path, *, coded: bool = False) -> pd.DataFrame:
    """Launches frame of an export (of a sqlite export: see sqlite.read_sqlite).

    coded: texts as categories, of one GPU trace. attrs: "caveats", "report", and if known "devices". Raises
    CollectError for a damaged file, or one without kernels.
    """
    path = Path(path)
    if path.suffix.lower() in RECORDINGS:
        raise CollectError(f"{path}: a recording of nsys, not an export", fix=f"nsys export --type sqlite {path.name}")
    if is_sqlite(path):
        return sqlite.read_sqlite(path)
    export = scan(path, kind_of)
    caveats = _complaints(export)
    tables = [(kind_of(table.header), table) for table in export.tables]
    reports = [(kind, table_frame(export, table, kind)) for kind, table in tables if kind in REPORTS]
    for _, one in reports:
        one.attrs["caveats"] += _added_up(path, one)
    chosen = next((found for kinds in _CHOICES if (found := [one for one in reports if one[0] in kinds])), [])
    if not chosen:
        raise _no_launches(export, tables, reports)
    coded = coded and len(chosen) == 1
    frame = together([launches(kind, one, coded=coded) for kind, one in chosen], [kind for kind, _ in chosen])
    frame.attrs["caveats"] += [*caveats, *_caveats(export, reports, chosen)]
    return frame


def _complaints(export: Export) -> list[Caveat]:
    fix = "request a report that nsys has (`nsys stats --help-reports`)"
    found = [Caveat(f"nsys reported: {text}", f"line {line}", fix) for line, text in export.errors]
    lost = "that data is missing, not zero"
    found += [Caveat(f"nsys skipped a report: {one}", lost, "record with -t cuda,nvtx") for one in export.skipped]
    if export.unfinished:
        what = f"{export.path.name} ends inside a line, {export.unfinished[:40]!r}: what followed is missing"
        found.append(Caveat(what, "", "export again"))
    return found


def _added_up(path: Path, frame: pd.DataFrame) -> list[Caveat]:
    """Caveats about shares that do not add up to 1; raises CollectError if launches are missing."""
    if "share" not in frame or frame["share"].isna().any():
        return []
    # nsys 2021 cuts to whole percents, others round to tenths.
    cut = len(frame) > 1 and bool((np.abs(frame["share"] * 100 % 1 - 0.5) > 0.499).all())
    slack = 0.001 + (0.01 if cut else 0.0005) * len(frame)
    return added_up(path, float(frame["share"].sum()), slack, strict=frame.attrs["report"] in SUMMARIES)


def _caveats(export: Export, reports: Sequence[_Report], chosen: Sequence[_Report]) -> list[Caveat]:
    """Caveats about reports left out and reports joined."""
    kinds = [kind for kind, _ in chosen]
    found = [
        Caveat(f"the file holds {kinds.count(kind)} {kind} reports, put together here", "", "use one file per export")
        for kind in dict.fromkeys(kinds)
        if kinds.count(kind) > 1
    ]
    for kind, frame in reports:
        if kind not in kinds:
            found += frame.attrs["caveats"]
    return found


def _no_launches(export: Export, tables: Sequence[tuple[str, Table]], reports: Sequence[_Report]) -> CollectError:
    wanted = "cuda_gpu_trace, cuda_gpu_kern_sum or the sqlite export"
    if tables:
        what = f"holds {', '.join(dict.fromkeys(kind for kind, _ in tables))}, from which no launches are read"
        what += f"; nsys says: {export.skipped[-1]}" if export.skipped else ""
        rows = sum(export.data[one.start : one.end].count(b"\n") for kind, one in tables if kind not in REPORTS)
        rows += sum(len(frame) for _, frame in reports)
        return NoLaunchesError(f"{export.path}: {what}", fix=f"give {wanted}", rows=rows)
    what = f"no header of a known nsys report (expected one of {', '.join(('gpu_trace', *SUMMARIES))}, ...)"
    fix = f"the header is cut or of another tool; export {wanted}"
    if export.skipped:
        what, fix = f"nsys skipped every report: {export.skipped[0]}", "record with -t cuda,nvtx"
    return CollectError(f"{export.path}: {what}", fix=fix)


def _role(frame: pd.DataFrame) -> Role:
    report = frame.attrs["report"]
    detail = _DETAIL.index(report) if report in _DETAIL else len(_DETAIL) - 1
    return Role("times", detail, "timeline" if report in _DETAIL[:2] else "summary")


FORMAT = Format("nsys", sniff, read, _role, options={"coded": True})
