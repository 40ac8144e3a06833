"""Recorders of a timeline: Nsight Systems or CUPTI; the ranking of --hot."""

from __future__ import annotations

import contextlib
import gzip
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from collectors import CollectError, read
from collectors.caveat import TRACE_CUT, Caveat
from collectors.cupti import CLOCK, HOST, TRACE, host_file, rank_files
from collectors.nsys.scrub import scrub
from profkit.errors import CannotProfileError, ProfkitError, ProgramFailedError
from profkit.launch import tools
from profkit.record.hot import hottest
from profkit.record.measure import CUPTI
from profkit.record.session import Ended, Recorder, Session, Step, none_captured
from profkit.rundir.files import read_rows, temporary, write_rows
from profkit.rundir.manifest import Capture
from profkit.targets.program import Program, bootstrapped
from profkit.vendor.nvidia import nsys

NSYS_FILE = "nsys.sqlite"
EXPORT_LIMIT = 300.0
"""Seconds after which exporting the record of a sample's few calls counts as hung."""


class Nsys:
    """Recorder of a program's launches, or of one call of each sound implementation."""

    name = "nsys"

    def plan(self, session: Session) -> list[str]:
        found = tools.find(tools.NSYS)
        return [session.line(_nsys_step(session, found.path if found else "nsys", Path("TMP")))]

    def record(self, session: Session) -> None:
        """Raises ProfkitError, or the program's own end, when there is no record with kernels."""
        found = tools.find(tools.NSYS)
        if found is None:
            raise CannotProfileError(tools.NSYS.missing, fix=tools.NSYS.fix)
        run = session.run
        sample = not isinstance(session.target, Program)
        if sample and not session.parts:
            raise ProfkitError("no implementation ran well enough to be recorded")
        session.progress("recording a timeline (nsys)")
        run.manifest.versions["nsys"] = found.text
        with temporary() as place:
            step = _nsys_step(session, found.path, Path(place))
            ended = session.start(step)
            _export(session, found.path, step)
        said = f"{ended.said}\n{session.log('nsys-export')}"
        run.manifest.caveats += nsys.caveats(said)
        session.settle(ended)
        if not (run.path / NSYS_FILE).exists():
            why, fix = nsys.failure(said, run.path / "nsys")
            raise ended.failed or session.missed(ended) or ProfkitError(why, fix=fix)
        try:
            frame = read(run.path / NSYS_FILE, "nsys")
        except CollectError as error:
            raise ended.failed or none_captured(str(error), error.fix) from error
        if not (frame["kind"] == "kernel").any():
            raise ended.failed or none_captured("the program launched none on the GPU", "does it use CUDA?")
        session.keep(Capture(NSYS_FILE, "nsys", "timeline" if sample else "times"), frame)


def _nsys_step(session: Session, tool: str, place: Path) -> Step:
    windowed = isinstance(session.target, Program) and session.request.window.inside
    prefix = nsys.prefix(tool, session.run.path / "nsys", windowed=windowed)
    parts = session.parts
    return Step("nsys", prefix, nsys.environment(place), parts)


def _export(session: Session, tool: str, step: Step) -> None:
    """The record as sqlite without facts of the machine; the record itself goes."""
    base = session.run.path / "nsys"
    report, sqlite = Path(f"{base}.nsys-rep"), Path(f"{base}.sqlite")
    if not report.exists():
        return
    limit = session.request.limit if isinstance(session.target, Program) else EXPORT_LIMIT
    session.helper("nsys-export", nsys.export(tool, report, sqlite), step.env, limit)
    if not sqlite.exists():
        return
    # One that is damaged is left for its reader to name.
    with contextlib.suppress(CollectError):
        scrub(sqlite)
    report.unlink()


FILE, TRACER = "trace.csv", "cupti"
_NOTE = "torch's profiler (CUPTI) in the place of nsys"


class Cupti:
    """Recorder of a Python program's own kernels, or of each rank of torchrun.

    Other children are seen by nsys alone.
    """

    name = "cupti"

    def plan(self, session: Session) -> list[str]:
        return [session.line(_cupti_step(session))]

    def record(self, session: Session) -> None:
        """Raises ProfkitError, or the program's own end, when no kernel was seen."""
        run = session.run
        session.progress("recording kernels (CUPTI, by torch's profiler)")
        ended = session.start(_cupti_step(session))
        session.settle(ended)
        _ranks_together(run.path / FILE)
        if not (run.path / FILE).exists():
            raise _unwritten(session, ended)
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


def _cupti_step(session: Session) -> Step:
    program = session.target
    out = session.run.path / (FILE if session.device == "cuda" else "trace.json")
    argv = bootstrapped(program.argv, out, session.request.window.words()) if isinstance(program, Program) else None
    if argv is None:
        raise CannotProfileError(tools.NSYS.missing, fix=tools.NSYS.fix)
    env = {"PYTHONUNBUFFERED": "1", CLOCK: str(time.time_ns())}
    return Step(TRACER, (), env, argv=argv, note=_NOTE if session.device == "cuda" else "torch's profiler")


def _unwritten(session: Session, ended: Ended) -> ProfkitError:
    fix = "a program that ends by os._exit cannot be traced from inside: install nsys, or count it with --ncu"
    why = f"torch's profiler wrote no record; see {session.run.logs / f'{TRACER}.log'}"
    return ended.failed or session.missed(ended) or ProfkitError(why, fix=fix)


class Operators:
    """Recorder of a Python program's operators on the CPU, where there is no GPU."""

    name = "kineto"

    def plan(self, session: Session) -> list[str]:
        return [session.line(_cupti_step(session))]

    def record(self, session: Session) -> None:
        """Raises ProfkitError, or the program's own end, when no operator was seen."""
        session.progress("recording operators on the CPU, there is no GPU (torch's profiler)")
        ended = session.start(_cupti_step(session))
        session.settle(ended)
        for written in sorted(session.run.path.glob("trace*.json")):
            packed = written.with_suffix(".json.gz")
            with written.open("rb") as plain, gzip.open(packed, "wb", compresslevel=3) as stream:
                shutil.copyfileobj(plain, stream)
            written.unlink()
            try:
                session.keep(Capture(packed.name, self.name, "times"), read(packed, self.name))
            except CollectError as error:
                fix = "does it use torch? Other programs are not timed on a CPU"
                raise ended.failed or ProfkitError("the program called no operator of torch", fix=fix) from error
        if not session.frames:
            raise _unwritten(session, ended)


def _ranks_together(file: Path) -> None:
    """The tables of all ranks as one, on one clock, if there are any; theirs go."""
    ranks = rank_files(file)
    work: list[dict[str, str]] = []
    calls: list[dict[str, str]] = []
    for one in ranks:
        mine, first = _rank_rows(one), len(work)
        owner = mine[0]["process"] if mine else ""
        work += [row | {"launch": str(first + number)} for number, row in enumerate(mine)]
        for row in _rank_rows(host_file(one)):
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


def _rank_rows(file: Path) -> list[dict[str, str]]:
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


@dataclass(frozen=True)
class Ranking:
    """Recorder by `first`, and by `second` (None: never) where the first stops early."""

    first: Recorder
    second: Recorder | None = None
    name: str = "ranking"

    def plan(self, session: Session) -> list[str]:
        return self.first.plan(session)

    def record(self, session: Session) -> None:
        try:
            self.first.record(session)
            why = _cut(session, self.first.name)
        except (ProgramFailedError, CannotProfileError):
            raise
        except ProfkitError as error:
            if self.second is None:
                raise
            why = str(error)
        used = self.first.name
        if why and self.second is not None:
            what = f"{self.first.name} recorded only a part; kernels are ranked by CUPTI: {why}"
            session.run.manifest.caveats.append(Caveat(what, "", "use an nsys as new as the driver"))
            try:
                self.second.record(session)
                used = self.second.name
            except ProfkitError:
                if used not in session.frames:
                    raise
        hot = hottest(session.frames[used], session.request.hot)
        said = ", ".join(f"{name[:60]} {share:.0%}" for name, share in zip(hot.kernels, hot.shares, strict=True))
        session.progress(f"hot: {said}")
        session.hot, session.run.manifest.hot = hot, session.request.hot


def _cut(session: Session, tool: str) -> str:
    """What is said of a GPU trace that lost its end; "" of a whole one."""
    said = [*session.frames[tool].attrs.get("caveats", ()), *session.run.manifest.caveats]
    return next((one.what for one in said if one.code == TRACE_CUT), "")


def tracer_of(program: Program) -> Recorder | None:
    """nsys, else torch's profiler for a Python program, else nothing."""
    if tools.find(tools.NSYS) is not None:
        return Nsys()
    return Cupti() if program.python else None
