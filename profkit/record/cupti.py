"""CUPTI in place of nsys: torch's profiler round a program; of a sample, while timing."""

from __future__ import annotations

import time
from pathlib import Path

from collectors import CollectError, read
from collectors.caveat import Caveat
from collectors.cupti import CLOCK, HOST, TRACE, host_file, rank_files
from profkit.errors import CannotProfileError, ProfkitError
from profkit.launch import tools
from profkit.record.measure import CUPTI
from profkit.record.session import Session, Step, none_captured
from profkit.rundir.files import read_rows, write_rows
from profkit.rundir.manifest import Capture
from profkit.targets.program import Program, bootstrapped

FILE = "trace.csv"
_NOTE = "torch's profiler (CUPTI) in the place of nsys"


class Cupti:
    """Recorder of a Python program's own kernels, or of each rank of torchrun.

    Other children are seen by nsys alone.
    """

    name = "cupti"

    def plan(self, session: Session) -> list[str]:
        return [session.line(_step(session))]

    def record(self, session: Session) -> None:
        """Raises ProfkitError, or the program's own end, when no kernel was seen."""
        run = session.run
        session.progress("recording kernels (CUPTI, by torch's profiler)")
        ended = session.start(_step(session))
        session.settle(ended)
        _together(run.path / FILE)
        if not (run.path / FILE).exists():
            raise (
                ended.failed
                or session.missed(ended)
                or ProfkitError(
                    f"torch's profiler wrote no record; see {run.logs / 'cupti.log'}",
                    fix="a program that ends by os._exit cannot be traced from inside: install nsys, or count it with --ncu",
                )
            )
        try:
            frame = read(run.path / FILE, "cupti")
        except CollectError as error:
            raise ended.failed or none_captured(str(error), error.fix) from error
        if not (frame["kind"] == "kernel").any():
            raise ended.failed or none_captured(
                "the program launched none on the GPU",
                "does it use CUDA? children are seen by nsys and --ncu, not by torch's profiler",
            )
        session.keep(Capture(FILE, "cupti", "times"), frame)


def _step(session: Session) -> Step:
    program = session.target
    out = session.run.path / FILE
    argv = bootstrapped(program.argv, out, session.request.window.words()) if isinstance(program, Program) else None
    if argv is None:
        raise CannotProfileError(tools.NSYS.missing, fix=tools.NSYS.fix)
    env = {"PYTHONUNBUFFERED": "1", CLOCK: str(time.time_ns())}
    return Step("cupti", (), env, argv=argv, note=_NOTE)


def _together(file: Path) -> None:
    """The tables of all ranks as one, on one clock, if there are any; theirs go."""
    ranks = rank_files(file)
    work: list[dict[str, str]] = []
    calls: list[dict[str, str]] = []
    for one in ranks:
        mine, first = _rows(one), len(work)
        owner = mine[0]["process"] if mine else ""
        work += [row | {"launch": str(first + number)} for number, row in enumerate(mine)]
        for row in _rows(host_file(one)):
            launch = int(row["launch"])
            calls.append(row | {"launch": str(first + launch if launch >= 0 else -1), "process": owner})
    if work:
        begin = min(float(row["start"]) for row in work)
        order = sorted(range(len(work)), key=lambda at: float(work[at]["start"]))
        place = {str(at): str(number) for number, at in enumerate(order)}
        for row in (*work, *calls):
            row["start"] = f"{float(row['start']) - begin:.9f}"
            row["launch"] = place.get(row["launch"], "-1")
        host = (*HOST, "process")
        write_rows(file, [TRACE, *([work[at][name] for name in TRACE] for at in order)])
        write_rows(host_file(file), [host, *([row[name] for name in host] for row in calls)])
    for one in ranks:
        one.unlink()
        host_file(one).unlink(missing_ok=True)


def _rows(file: Path) -> list[dict[str, str]]:
    names, *rows = read_rows(file) or [[]]
    return [dict(zip(names, row, strict=True)) for row in rows]


class Activities:
    """The timeline of a sample without nsys: CUPTI's view of one call while timing; it is said."""

    name = "cupti"

    def plan(self, session: Session) -> list[str]:
        return ["# nsys was not found: the timeline is what CUPTI sees while timing"]

    def record(self, session: Session) -> None:
        session.run.manifest.captures.append(Capture(CUPTI, "cupti", "timeline"))
        session.run.manifest.caveats.append(
            Caveat(
                "nsys was not found: the timeline is CUPTI's, of a call whose launches were queued beforehand",
                "gaps that launching leaves are not in it",
                tools.NSYS.fix,
            )
        )
