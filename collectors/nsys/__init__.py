"""Nsight Systems exports: `nsys stats` reports (CSV, aligned text, a stdout of several) and the sqlite
export.

    read(path)          the launches frame, from traces or, with `instances`, from summaries
    read_reports(path)  all reports of an export, typed: Report(kind, frame); columns in nsys.reports.REPORTS

Old (2020 to 2022.4) and new (2023.1 on) names and headers are taken alike; the header decides, not the file's
name.
A trace has no end mark: one that was cut exactly after a row reads as a shorter trace. Summaries show their
shares of the total, so there a missing row is noticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from collectors import Format, Role, guarded
from collectors.doubt import Doubt
from collectors.errors import CollectError, NoLaunchesError, torn
from collectors.nsys import sqlite
from collectors.nsys.frames import Rows, quick, table_frame
from collectors.nsys.launches import SUMMARIES, TRACES, UNUSED, api_facts, empty_ranges, launches, reach, together
from collectors.nsys.reports import TWINS, is_report, kind_of
from collectors.nsys.tables import is_sqlite
from collectors.nsys.text import Export, Progress, Table, counted, open_export, ruled_header, scan, split_header

_BINARY = (".nsys-rep", ".qdrep", ".qdstrm")
_MARKS = ("Processing [", "SKIPPED:", "Generating SQLite file")
# The first of these that is there makes the launches frame.
_CHOICES = (
    ("gpu_trace",),
    ("kern_exec_trace",),
    ("gpu_sum",),
    ("kern_sum", "mem_time_sum"),
    ("nvtx_kern_sum",),
    ("kern_exec_sum",),
)
_DETAIL = ("sqlite", "gpu_trace", "kern_exec_trace", "gpu_sum", "kern_sum", "nvtx_kern_sum", "kern_exec_sum")
"""What tells the same launches, the most detailed first; the first two have every activity in time."""


@dataclass(frozen=True, eq=False)
class Report:
    """One report: its kind (a key of nsys.reports.REPORTS or TWINS) and its typed frame, attrs "doubts"."""

    kind: str
    frame: pd.DataFrame


def sniff(head: str, path: Path) -> bool:
    """Whether a file is of nsys: a report header near the top, a sqlite export, a recording, or empty."""
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


@guarded
def read(
    path: str | Path,
    *,
    partial: bool = False,
    progress: Progress | None = None,
    adopt: bool = False,
    coded: bool = False,
    **options: Any,
) -> pd.DataFrame:
    """The launches frame of an export (of a sqlite export: see sqlite.read_sqlite, which takes
    `options`).

    partial: read a cut file to its last whole row and say so in a doubt, instead of refusing it. progress:
    called with (bytes done, bytes in all) of text exports, from more than one thread but never at once.
    coded: texts as categories, where the frame is of one GPU trace.
    attrs: "doubts", "report", and where found "copies", "devices", "api", "numbered" (see `collectors.guarded`).
    Raises CollectError when the file is damaged, has an ERROR line, or holds no kernels.
    """
    path = Path(path)
    if path.suffix.lower() in _BINARY:
        raise CollectError(f"{path}: a recording of nsys, not an export", fix=f"nsys export --type sqlite {path.name}")
    if is_sqlite(path):
        return sqlite.read_sqlite(path, partial=partial, adopt=adopt, **options)
    reports, skipped, damaged = _reports(path, partial, progress, lean=True)
    chosen = _choose(reports)
    # A damaged table costs itself alone, where it is not one that would have told of launches better.
    for kind, error in damaged:
        if not chosen or _rank(kind) <= _rank(chosen[0].kind):
            raise error
    if not chosen:
        raise _no_launches(path, reports, skipped)
    coded = coded and len(chosen) == 1
    frame = together([launches(r.kind, r.frame, coded=coded) for r in chosen], [r.kind for r in chosen])
    frame.attrs["doubts"] += _doubts(reports, chosen, skipped)
    frame.attrs["doubts"] += [
        Doubt(f"its {kind} table is left out: {str(error).removeprefix(f'{path}, ')}", "", error.fix)
        for kind, error in damaged
    ]
    summed = {int(report.frame["instances"].sum()) for report in reports if report.kind == "kern_sum"}
    traced = int((frame["kind"] == "kernel").sum()) if summed and frame.attrs["report"] == "gpu_trace" else 0
    if traced and summed != {traced}:
        what = f"its trace has {traced} kernels, its summary {max(summed)}, which is not read: they are of two captures"
        frame.attrs["doubts"].append(Doubt(what, "", "give the exports of each capture in a file of its own"))
    for report in reports:
        if "numbered" in report.frame.attrs:
            frame.attrs["numbered"] = report.frame.attrs["numbered"]
        if report.kind == "api_sum":
            facts = report.frame
            frame.attrs["api"] = api_facts(facts["name"], facts["calls"], facts["total"])
    return frame


def read_reports(path: str | Path, *, partial: bool = False) -> list[Report]:
    """Every report of an export in its order; SKIPPED lines are doubts of the first one.

    Raises CollectError as `read` does, and where there is no report at all.
    """
    reports, skipped, damaged = _reports(Path(path), partial)
    if damaged:
        raise damaged[0][1]
    if not reports:
        raise _no_launches(Path(path), reports, skipped)
    reports[0].frame.attrs["doubts"] += [_skipped(line) for line in skipped]
    for report in reports:
        for name, kind in report.frame.dtypes.items():
            if isinstance(kind, pd.CategoricalDtype):
                report.frame[name] = report.frame[name].astype("str")
    return reports


def _rank(kind: str) -> int:
    """How well a report tells of launches, 0 the best."""
    return next((at for at, kinds in enumerate(_CHOICES) if kind in kinds), len(_CHOICES))


def _reports(
    path: Path, partial: bool, progress: Progress | None = None, *, lean: bool = False
) -> tuple[list[Report], list[str], list[tuple[str, CollectError]]]:
    """The reports of a text export, what nsys skipped, and the tables that cannot be read, with the error.

    lean: without the columns that no launches frame is made of. Texts are categories.
    """
    with open_export(path) as export:
        export.moved = counted(progress, len(export.data))
        ready: dict[int, Rows | None] = {}

        def last(table: Table) -> bool:
            kind = kind_of(table.header)
            ready[table.start] = quick(export, table, kind, UNUSED.get(kind, ()) if lean else ())
            return ready[table.start] is not None

        scan(export, is_report, last)
        complaints = _complaints(export, partial)
        reports: list[Report] = []
        damaged: list[tuple[str, CollectError]] = []
        for table in export.tables:
            kind = kind_of(table.header)
            leave = UNUSED.get(kind, ()) if lean else ()
            try:
                frame = table_frame(
                    export, table, kind, partial=partial, leave=leave, ready=ready.pop(table.start, None)
                )
                frame.attrs["doubts"] += [*_missing_share(export.path, frame, partial), *_at_odds(export.path, frame)]
                frame.attrs["doubts"] += complaints
            except CollectError as error:
                damaged.append((kind, error))
                continue
            complaints = []
            reports.append(Report(_name(kind, table.script, frame), frame))
        return reports, export.skipped, damaged


def _complaints(export: Export, partial: bool) -> list[Doubt]:
    if export.errors and not partial:
        line, text = export.errors[0]
        raise CollectError(
            f"{export.path}, line {line}: nsys reported an error: {text}",
            fix="ask for a report nsys has (`nsys stats --help-reports`), or read the rest (--partial; partial=True in Python)",
        )
    found = [Doubt(f"nsys reported: {text}", f"line {line}", "run `nsys stats` again") for line, text in export.errors]
    if export.unfinished:
        what = f"{export.path.name} ends inside a line, {export.unfinished[:40]!r}: what followed is missing"
        found.append(Doubt(what, "", "export again"))
    return found


def _name(kind: str, script: str, frame: pd.DataFrame) -> str:
    """The kind, told apart from reports of the same header by the script's name or by what the rows are."""
    script = script.partition(":")[0]
    if TWINS.get(script) == kind:
        return {"osrtsum": "osrt_sum", "nvtxppsum": "nvtx_pushpop_sum"}.get(script, script)
    if kind == "nvtx_sum" and "style" not in frame:
        return "nvtx_pushpop_sum"
    # The CUDA API and the system library share a header; only one of them has names in cu.
    if kind == "api_sum" and not frame["name"].str.match(r"cu[A-Za-z]").any():
        return "osrt_sum"
    return kind


def _missing_share(path: Path, frame: pd.DataFrame, partial: bool) -> list[Doubt]:
    """A summary whose shares do not add up to the whole has lost rows: refused, or doubted with `partial`."""
    if "share" not in frame or frame["share"].isna().any():
        return []
    lost = 1 - float(frame["share"].sum())
    if abs(lost) <= 0.001 + 0.0005 * len(frame):
        return []
    what = f"the rows add up to {1 - lost:.1%} of the time: rows {'are missing' if lost > 0 else 'stand here twice'}"
    if not partial and frame.attrs["report"] in SUMMARIES:
        raise torn(path, what)
    return [Doubt(f"{path.name}: {what}", f"{abs(lost):.1%} of the time", "export the report again")]


def _at_odds(path: Path, frame: pd.DataFrame) -> list[Doubt]:
    """The doubts about rows of a summary whose total, count, mean, extremes and share do not fit each other, and about rows
    that stand in a report twice.
    """
    found = []
    off = _off(frame) if frame.attrs["report"] in SUMMARIES else None
    if off is not None and off.any():
        what = f"{path.name}: rows whose total, count, mean, extremes and share do not fit each other"
        found.append(Doubt(what, _rows(off), "export the report again"))
    # A summary has one row for what it is by: names, ranges, shapes, processes. Rows of a gpu_trace are looked at in order.
    by = [name for name, kind in frame.dtypes.items() if kind != np.float64]
    told = {**dict.fromkeys(SUMMARIES, by), "kern_exec_trace": [*frame.columns]}
    twice = frame.duplicated(told.get(frame.attrs["report"])) if frame.attrs["report"] in told else None
    if twice is not None and twice.any():
        found.append(Doubt(f"{path.name}: rows that tell of the same twice", _rows(twice), "export the report again"))
    return found


def _off(frame: pd.DataFrame) -> pd.Series[bool] | None:
    """The rows of a summary that are at odds with themselves; None where it has not what tells."""
    if not {"total", "instances", "mean", "min", "max"} <= set(frame.columns):
        return None
    total, count = frame["total"], frame["instances"]
    # Means are printed in tenths of a nanosecond, by older versions in whole ones; times scaled by nsys in three digits.
    off: pd.Series[bool] = (total - frame["mean"] * count).abs() > np.maximum(1.1e-9 * count, 0.002 * total)
    off |= (frame["min"] > frame["mean"] * 1.002 + 1.1e-9) | (frame["max"] * 1.002 + 1.1e-9 < frame["mean"])
    if "share" in frame:
        off |= (frame["share"] - total / total.sum()).abs() > 0.0011
    return off


def _rows(wrong: pd.Series[bool]) -> str:
    return f"{int(wrong.sum())} rows, the first of them row {int(wrong.argmax()) + 1}"


def _choose(reports: Sequence[Report]) -> list[Report]:
    for kinds in _CHOICES:
        found = [report for report in reports if report.kind in kinds]
        if found:
            return found
    return []


def _doubts(reports: Sequence[Report], chosen: Sequence[Report], skipped: Sequence[str]) -> list[Doubt]:
    found = [_skipped(line) for line in skipped]
    kinds = [report.kind for report in chosen]
    twice = [kind for kind in dict.fromkeys(kinds) if kinds.count(kind) > 1]
    found += [
        Doubt(f"the file holds {kinds.count(kind)} {kind} reports, put together here", "", "one export a file")
        for kind in twice
    ]
    for report in reports:
        if not any(report is one for one in chosen):
            found += [*report.frame.attrs["doubts"], *empty_ranges(report.kind, report.frame)]
    ranges = [report.frame for report in reports if report.kind == "nvtx_pushpop_trace"]
    if ranges and chosen[0].kind in TRACES:
        end = max(float((one.frame["start"] + one.frame["time"]).max()) for one in chosen)
        starts = pd.concat([frame["start"] for frame in ranges])
        found += reach(end, float(starts.min()), float(starts.max()))
    return found


def _skipped(line: str) -> Doubt:
    return Doubt(f"nsys skipped a report: {line}", "that data is missing, not zero", "record with -t cuda,nvtx")


def _no_launches(path: Path, reports: Sequence[Report], skipped: Sequence[str]) -> CollectError:
    wanted = "cuda_gpu_trace, cuda_gpu_kern_sum or the sqlite export"
    if reports:
        kinds = ", ".join(report.kind for report in reports)
        why = f"; nsys says: {skipped[-1]}" if skipped else ""
        return NoLaunchesError(
            f"{path}: holds {kinds}, which lists no kernels{why}",
            fix=f"give {wanted}; read this file with collectors.nsys.read_reports",
            rows=sum(len(report.frame) for report in reports),
        )
    if skipped:
        return CollectError(f"{path}: nsys skipped every report: {skipped[0]}", fix="record with -t cuda,nvtx")
    kinds = ", ".join((*TRACES, *SUMMARIES))
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
    options={"adopt": True, "coded": True},
)
