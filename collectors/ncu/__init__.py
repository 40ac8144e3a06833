"""Nsight Compute: CSV exports of raw and details pages, text pages, and .ncu-rep reports.

An incomplete row is refused. A file cut exactly at the end of a row is detected only by ncu's own count of launches.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pandas as pd

from collectors import Format
from collectors.caveat import Caveat
from collectors.counters import COUNTERS, metric_names
from collectors.errors import CollectError, torn
from collectors.frame import role_of
from collectors.ncu import page, rep
from collectors.ncu.details import detailed_launches
from collectors.ncu.launches import DEVICE_FACTS, Launches, to_frame
from collectors.ncu.log import Message, diagnose, profiled, reason
from collectors.ncu.raw import raw_launches
from collectors.ncu.text import RAW, Row, Scan

__all__ = ["FORMAT", "diagnose", "read", "sniff"]

SHARES = ("occupancy", "l2_hit_rate", "l1_hit_rate", "compute_throughput", "memory_throughput", "dram_throughput")
_ABOVE = 1.05
_SNIFF = re.compile(
    r'"?ID"?,"?Process ID"?,"?Process Name"?,|^"(?:Process ID|Domain)",.*"Invocations",|^==(?:PROF|ERROR|WARNING)== '
    r"|^ *Metric Name +Metric Unit +(?:Metric Value|Minimum)",
    re.MULTILINE,
)


def sniff(head: str, path: Path) -> bool:
    """Whether a file is ncu's: a report, or text with its headers or ==PROF==/==ERROR== lines."""
    text = not head.startswith("SQLite format 3")
    return rep.is_report(path) or (text and bool(_SNIFF.search(head) or page.LAUNCH.search(head)))


def read(path: str | os.PathLike[str], *, partial: bool = False) -> pd.DataFrame:
    """Launches frame of an ncu export or report: keys and all counters its metrics allow.

    partial: read a cut file up to its last complete row (with a caveat) instead of refusing it.
    attrs: "caveats", "devices", "untaken".
    Raises CollectError for a file that has no launches, is cut, or has ambiguous numbers.
    """
    wanted = metric_names() | set(DEVICE_FACTS.values())
    found = _launches(Path(path), wanted.__contains__, partial=partial)
    frame = to_frame(found)
    if "time" in frame and (frame["time"] < 0).any():
        launch = frame["launch"][int((frame["time"] < 0).argmax())]
        raise CollectError(f"{path}: launch {launch} has a negative time", fix="the row is damaged; export it again")
    frame.attrs["caveats"] += _strange(frame)
    return frame


def _launches(path: Path, wanted: Callable[[str], bool], *, partial: bool) -> Launches:
    if rep.is_report(path):
        return rep.launches(path, wanted)
    scan = Scan(path, partial=partial)
    rows = iter(scan)
    first = next(rows, None)
    if first is None and not scan.tables:
        rows = page.rows(scan)
        first = next(rows, None)
    if first is None:
        raise _no_launches(path, scan, diagnose(scan.text))
    read_in = raw_launches if first.table.page == RAW else detailed_launches
    found = read_in(scan, _of_one_page(path, first, rows), wanted)
    log = diagnose(scan.text)
    if found.keys.empty:
        raise _no_launches(path, scan, log)
    found.caveats.extend(_caveats(scan, log, found.keys.get("instances", pd.Series(1, found.keys.index)).sum()))
    return found


def _of_one_page(path: Path, first: Row, rows: Iterator[Row]) -> Iterator[Row]:
    """Rows of a file; raises CollectError for tables of two kinds."""
    for row in chain([first], rows):
        if row.table.page != first.table.page:
            raise CollectError(
                f"{path}, line {row.line}: {first.table.page} and {row.table.page} pages in one file",
                fix="split the file",
            )
        yield row


def _strange(frame: pd.DataFrame) -> list[Caveat]:
    """Caveats about impossible counter values."""
    found = []
    least, most = (getattr(frame[[name for name in COUNTERS if name in frame]], side)() for side in ("min", "max"))
    wrong = [f"{name} {least[name]:.3g}" for name in least.index if least[name] < 0]
    wrong += [f"{name} {most[name]:.0%}" for name in SHARES if name in most and most[name] > _ABOVE]
    if wrong:
        why = "the program varies between counting passes, or the file is damaged"
        found.append(Caveat("counters below 0, or shares above 100 %", ", ".join(wrong), why))
    return found


def _no_launches(path: Path, scan: Scan, log: list[Message]) -> CollectError:
    why = reason(log)
    saved = re.search(r"==PROF== Report: .*?([^\\/\n]+?)\s*$", scan.text, re.M)
    what, fix = "no launch of ncu in it: its tables need the line that names the kernel", "export with --csv --page raw"
    if saved and (why is None or why.level != "error"):
        what = f"no launches: ncu wrote them into {saved[1]}"
        fix = f"give that file, or what `ncu --import {saved[1]} --page raw --csv` prints"
    elif why:
        what, fix = f"no launches: {why.message}", why.fix
    elif scan.tables:
        what, fix = "the CSV has a header and no launches", "export it again"
    elif profiled(scan.text):
        what = "ncu's text page without a launch"
    elif "==PROF==" in scan.text:
        what, fix = "ncu's output breaks off before its CSV", "record or export it again"
    return CollectError(f"{path}: {what}", fix=fix)


def _caveats(scan: Scan, log: list[Message], rows: int) -> list[Caveat]:
    found = []
    if scan.broken:
        found.append(Caveat(f"the file breaks off at {scan.broken}", f"{rows} launches read", "export it again"))
    if (counted := profiled(scan.text)) > rows:
        what = f"ncu profiled {counted} launches, the file has {rows}"
        if not scan.partial:
            raise torn(scan.path, what)
        found.append(Caveat(what, f"{counted - rows} launches missing", "export it again"))
    found.extend(
        Caveat(one.message, "", one.fix, f"ncu-{one.kind.replace(' ', '-')}")
        for one in log
        if one.level in ("error", "warning")
    )
    return found


FORMAT = Format("ncu", sniff, read, role_of)
