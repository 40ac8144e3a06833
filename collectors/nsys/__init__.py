"""Nsight Systems exports: `nsys stats` reports (CSV, aligned text, stdout) and sqlite.

Names and headers of 2020 to 2022.4 and of 2023.1 on are taken alike. A trace has no end mark: one cut exactly after
a row reads as a shorter trace. Summaries show shares of the total, so a missing row is noticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from collectors import Format, Role
from collectors.caveat import Caveat
from collectors.errors import CollectError, NoLaunchesError, torn
from collectors.nsys import sqlite
from collectors.nsys.frames import table_frame
from collectors.nsys.launches import SUMMARIES, UNUSED, api_facts, empty_ranges, launches, together
from collectors.nsys.reports import REPORTS, is_report, kind_of
from collectors.nsys.tables import is_sqlite
from collectors.nsys.text import Export, Progress, Table, open_export, ruled_header, scan, split_header

_BINARY = (".nsys-rep", ".qdrep", ".qdstrm")
_MARKS = ("Processing [", "SKIPPED:", "Generating SQLite file")
# The first of these that is there makes the launches frame.
_CHOICES = (
    ("gpu_trace",),
    ("gpu_sum",),
    ("kern_sum", "mem_time_sum"),
    ("nvtx_kern_sum",),
)
_DETAIL = ("sqlite", "gpu_trace", "gpu_sum", "kern_sum", "nvtx_kern_sum")
"""What tells the same launches, the most detailed first; the first two have every activity in time."""


@dataclass
class _Reports:
    """Reports of a text export: typed frames by kind, rows of the others, damaged ones."""

    frames: list[tuple[str, pd.DataFrame]] = field(default_factory=list)
    others: dict[str, int] = field(default_factory=dict)
    damaged: list[tuple[str, CollectError]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def sniff(head: str, path: Path) -> bool:
    """Whether a file is of nsys: a report header, a sqlite export, a recording, or empty."""
    if head.startswith("SQLite format 3"):
        return sqlite.sniff(head, path)
    if path.suffix.lower() in _BINARY or not head.strip():
        return True
    if any(mark in head for mark in _MARKS):
        return True
    lines = head.splitlines()[:2000]
    return any(
        is_report(split_header(line)) or is_report(ruled_header(line, before))
        for before, line in zip(["", *lines], lines, strict=False)
    )


def read(
    path: str | Path,
    *,
    partial: bool = False,
    progress: Progress | None = None,
    coded: bool = False,
) -> pd.DataFrame:
    """The launches frame of an export (of a sqlite export: see sqlite.read_sqlite).

    partial: read a cut file to its last whole row, with a caveat. progress: called with (bytes done, bytes in all) of
    text exports. coded: texts as categories, of one GPU trace. attrs: "caveats", "report", and where found "devices",
    "api". Raises CollectError when the file is damaged, has an ERROR line, or holds no kernels.
    """
    path = Path(path)
    if path.suffix.lower() in _BINARY:
        raise CollectError(f"{path}: a recording of nsys, not an export", fix=f"nsys export --type sqlite {path.name}")
    if is_sqlite(path):
        return sqlite.read_sqlite(path)
    reports = _reports(path, partial, progress)
    chosen = _choose(reports.frames)
    # A damaged table costs itself alone, where it is not one that would have told of launches better.
    for kind, error in reports.damaged:
        if not chosen or _rank(kind) <= _rank(chosen[0][0]):
            raise error
    if not chosen:
        raise _no_launches(path, reports)
    coded = coded and len(chosen) == 1
    frame = together([launches(kind, one, coded=coded) for kind, one in chosen], [kind for kind, _ in chosen])
    frame.attrs["caveats"] += _caveats(reports, chosen)
    frame.attrs["caveats"] += [
        Caveat(f"its {kind} table is left out: {str(error).removeprefix(f'{path}, ')}", "", error.fix)
        for kind, error in reports.damaged
    ]
    summed = {int(one["instances"].sum()) for kind, one in reports.frames if kind == "kern_sum"}
    traced = int((frame["kind"] == "kernel").sum()) if summed and frame.attrs["report"] == "gpu_trace" else 0
    if traced and summed != {traced}:
        what = f"its trace has {traced} kernels, its summary {max(summed)}, which is not read: they are of two captures"
        frame.attrs["caveats"].append(Caveat(what, "", "give the exports of each capture in a file of its own"))
    for kind, one in reports.frames:
        # The system library's calls stand under the same header.
        if kind == "api_sum" and one["name"].str.match(r"cu[A-Za-z]").any():
            frame.attrs["api"] = api_facts(one["name"], one["calls"], one["total"])
    return frame


def _rank(kind: str) -> int:
    """How well a report tells of launches, 0 the best."""
    return next((at for at, kinds in enumerate(_CHOICES) if kind in kinds), len(_CHOICES))


def _reports(path: Path, partial: bool, progress: Progress | None = None) -> _Reports:
    with open_export(path) as export:
        export.progress = progress
        scan(export, is_report)
        found = _Reports(skipped=export.skipped)
        complaints = _complaints(export, partial)
        for table in export.tables:
            kind = kind_of(table.header)
            if kind not in REPORTS:
                found.others[kind] = export.data[table.start : table.end].count(b"\n")
                continue
            try:
                found.frames.append((kind, _checked(export, table, kind, partial)))
            except CollectError as error:
                found.damaged.append((kind, error))
        if found.frames:
            found.frames[0][1].attrs["caveats"] += complaints
        return found


def _checked(export: Export, table: Table, kind: str, partial: bool) -> pd.DataFrame:
    frame = table_frame(export, table, kind, partial=partial, leave=UNUSED.get(kind, ()))
    frame.attrs["caveats"] += _missing_share(export.path, frame, partial)
    return frame


def _complaints(export: Export, partial: bool) -> list[Caveat]:
    if export.errors and not partial:
        line, text = export.errors[0]
        raise CollectError(
            f"{export.path}, line {line}: nsys reported an error: {text}",
            fix="ask for a report nsys has (`nsys stats --help-reports`), or read the rest (--partial; partial=True in Python)",
        )
    found = [Caveat(f"nsys reported: {text}", f"line {line}", "run `nsys stats` again") for line, text in export.errors]
    if export.unfinished:
        what = f"{export.path.name} ends inside a line, {export.unfinished[:40]!r}: what followed is missing"
        found.append(Caveat(what, "", "export again"))
    return found


def _missing_share(path: Path, frame: pd.DataFrame, partial: bool) -> list[Caveat]:
    """Caveats of a summary with shares that do not add up; raises CollectError unless `partial`."""
    if "share" not in frame or frame["share"].isna().any():
        return []
    lost = 1 - float(frame["share"].sum())
    # nsys 2021 cuts to whole percents, others round to tenths.
    cut = len(frame) > 1 and bool((np.abs(frame["share"] * 100 % 1 - 0.5) > 0.499).all())
    if -0.001 - 0.0005 * len(frame) <= lost <= 0.001 + (0.01 if cut else 0.0005) * len(frame):
        return []
    what = f"the rows add up to {1 - lost:.1%} of the time: rows {'are missing' if lost > 0 else 'stand here twice'}"
    if not partial and frame.attrs["report"] in SUMMARIES:
        raise torn(path, what)
    return [Caveat(f"{path.name}: {what}", f"{abs(lost):.1%} of the time", "export the report again")]


def _choose(reports: Sequence[tuple[str, pd.DataFrame]]) -> list[tuple[str, pd.DataFrame]]:
    for kinds in _CHOICES:
        found = [report for report in reports if report[0] in kinds]
        if found:
            return found
    return []


def _caveats(reports: _Reports, chosen: Sequence[tuple[str, pd.DataFrame]]) -> list[Caveat]:
    lost = "that data is missing, not zero"
    found = [Caveat(f"nsys skipped a report: {one}", lost, "record with -t cuda,nvtx") for one in reports.skipped]
    kinds = [kind for kind, _ in chosen]
    twice = [kind for kind in dict.fromkeys(kinds) if kinds.count(kind) > 1]
    found += [
        Caveat(f"the file holds {kinds.count(kind)} {kind} reports, put together here", "", "one export a file")
        for kind in twice
    ]
    for kind, frame in reports.frames:
        if not any(frame is one for _, one in chosen):
            found += [*frame.attrs["caveats"], *empty_ranges(kind, frame)]
    return found


def _no_launches(path: Path, reports: _Reports) -> CollectError:
    wanted = "cuda_gpu_trace, cuda_gpu_kern_sum or the sqlite export"
    held = {**{kind: len(frame) for kind, frame in reports.frames}, **reports.others}
    if held:
        why = f"; nsys says: {reports.skipped[-1]}" if reports.skipped else ""
        return NoLaunchesError(
            f"{path}: holds {', '.join(held)}, from which no launches are read{why}",
            fix=f"give {wanted}",
            rows=sum(held.values()),
        )
    if reports.skipped:
        return CollectError(f"{path}: nsys skipped every report: {reports.skipped[0]}", fix="record with -t cuda,nvtx")
    kinds = ", ".join(("gpu_trace", *SUMMARIES))
    return CollectError(
        f"{path}: no header of a known nsys report (expected one of {kinds}, ...)",
        fix=f"the header is cut or of another tool; export {wanted}",
    )


def _role(frame: pd.DataFrame) -> Role:
    report = frame.attrs["report"]
    detail = _DETAIL.index(report) if report in _DETAIL else len(_DETAIL) - 1
    return Role("times", detail, "timeline" if report in _DETAIL[:2] else "summary")


FORMAT = Format(
    "nsys",
    sniff,
    read,
    _role,
    says={"en": "times: Nsight Systems', as the program ran", "zh": "时间：Nsight Systems 所记，程序原样运行"},
    options={"coded": True},
)
