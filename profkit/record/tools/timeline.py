"""Recorders of a timeline; the ranking of --hot, and the launches that ncu counts for it."""

from __future__ import annotations

import contextlib
import gzip
import os
from dataclasses import dataclass
from pathlib import Path

from collectors import CollectError, read
from collectors.caveat import TRACE_CUT, Caveat
from profkit.errors import CannotProfileError, ProfkitError, ProgramFailedError
from profkit.launch import tools
from profkit.record.session import Ended, Recorder, Session, Step
from profkit.rundir.files import temporary
from profkit.rundir.manifest import Capture
from profkit.targets.program import Program, bootstrapped
from profkit.vendor.nvidia import nsys

NSYS_FILE = "nsys.sqlite"
TRACER = "kineto"


def _keep(session: Session, capture: Capture, ended: Ended, fix: str) -> None:
    """List a record of kernels or operators. Raises the error of `nothing` without any."""
    kind, folder = "kernel" if session.device == "cuda" else "operator", session.run.path
    try:
        ranks = {name: folder / file for name, file in capture.companions.items()}
        frame = read(folder / capture.file, capture.tool, **ranks)
    except CollectError as error:
        why = f"no {kind}s were captured: {error}"
        raise session.nothing(ended, why, error.fix if capture.tool == "nsys" and error.fix else fix) from error
    if not (frame["kind"] == kind).any():
        raise session.nothing(ended, f"no {kind}s were captured: the program ran none", fix)
    session.keep(capture, frame)


class Nsys:
    """Records a program's launches."""

    name = "nsys"

    def record(self, session: Session) -> None:
        """Record. Raises ProfkitError, or the program's own error, without kernels."""
        found = tools.find(tools.NSYS)
        if found is None:
            raise CannotProfileError(tools.NSYS.missing, fix=tools.NSYS.fix)
        run = session.run
        session.progress("recording a timeline (nsys)")
        run.manifest.versions["nsys"] = found.text
        with temporary() as place:
            prefix = nsys.prefix(found.path, run.path / "nsys", windowed=bool(session.request.range))
            step = Step("nsys", prefix, nsys.environment(Path(place)))
            ended = session.start(step)
            _export(session, found.path, step)
        said = f"{ended.said}\n{session.log('nsys-export')}"
        run.manifest.caveats += nsys.caveats(said)
        session.settle(ended)
        if not (run.path / NSYS_FILE).exists():
            why, fix = nsys.failure(said, run.path / "nsys")
            raise session.nothing(ended, why, fix)
        _keep(session, Capture(NSYS_FILE, "nsys", "times"), ended, "does it use CUDA?")


def _export(session: Session, tool: str, step: Step) -> None:
    """Export the record as sqlite without facts of the machine; delete the record."""
    report, sqlite = session.run.path / "nsys.nsys-rep", session.run.path / NSYS_FILE
    if not report.exists():
        return
    session.helper("nsys-export", nsys.export(tool, report, sqlite), step.env, session.request.limit)
    if sqlite.exists():
        from collectors.nsys.scrub import scrub  # pandas

        # One that is damaged is left for its reader to name.
        with contextlib.suppress(CollectError):
            scrub(sqlite)
        report.unlink()


class Traced:
    """Records with torch's profiler: a Python program's kernels and ranks; on a CPU operators.

    Only nsys sees other child processes.
    """

    name = TRACER

    def record(self, session: Session) -> None:
        """Record. Raises ProfkitError, or the program's own error, if nothing was seen."""
        kernels, folder = session.device == "cuda", session.run.path
        what = "kernels (CUPTI, by torch's profiler)" if kernels else "operators, there is no GPU (torch's profiler)"
        session.progress(f"recording {what}")
        ended = session.start(_traced_step(session))
        session.settle(ended)
        fix = "does it use torch? Without a GPU no other program is timed: cProfile tells what Python does"
        if kernels:
            fix = "does it use CUDA? children are seen by nsys and --ncu, not by torch's profiler"
        files = {}
        for written in sorted(folder.glob("trace*.json"), key=lambda one: (len(one.name), one.name)):
            packed = written.with_suffix(".json.gz")
            packed.write_bytes(gzip.compress(written.read_bytes(), 3))
            written.unlink()
            files[written.stem.partition(".")[2]] = packed.name
        if not files:
            why = f"torch's profiler wrote no record; see {session.run.logs / f'{TRACER}.log'}"
            how = "its Python has no torch, or it ends by os._exit: install nsys, or count it with --ncu"
            raise session.nothing(ended, why, how)
        first, *rest = files.values()
        ranks = dict(zip([*files][1:], rest, strict=True))
        _keep(session, Capture(first, TRACER, "times", companions=ranks), ended, fix)


def _traced_step(session: Session) -> Step:
    program, out = session.target, session.run.path / "trace.json"
    argv = bootstrapped(program.argv, out, session.request.window.words()) if isinstance(program, Program) else None
    if argv is None:
        raise CannotProfileError(tools.NSYS.missing, fix=tools.NSYS.fix)
    # 99: what torch's profiler says of itself is none of the program's words.
    env = {"PYTHONUNBUFFERED": "1", "KINETO_LOG_LEVEL": os.environ.get("KINETO_LOG_LEVEL", "99")}
    note = "torch's profiler (CUPTI) in the place of nsys" if session.device == "cuda" else "torch's profiler"
    return Step(TRACER, (), env, argv=argv, note=note)


@dataclass(frozen=True)
class Ranking:
    """Records a program and ranks its kernels; `second`: used if `tracer` lost the end."""

    tracer: Recorder
    second: Recorder | None = None
    name: str = "ranking"

    def record(self, session: Session) -> None:
        from analyzers.timeline.hot import hottest  # pandas

        used, caveats = self.tracer, session.run.manifest.caveats
        try:
            used.record(session)
            said = [*session.frames[used.name].attrs.get("caveats", ()), *caveats]
            lost = next((one.what for one in said if one.code == TRACE_CUT), "")
        except ProfkitError as error:
            if self.second is None or isinstance(error, (ProgramFailedError, CannotProfileError)):
                raise
            lost = str(error)
        if lost and self.second is not None:
            what = f"{used.name} recorded only a part; kernels are ranked by CUPTI: {lost}"
            caveats.append(Caveat(what, "", "use an nsys as new as the driver"))
            try:
                self.second.record(session)
                used = self.second
            except ProfkitError:
                if used.name not in session.frames:
                    raise
        hot = hottest(session.frames[used.name], session.request.hot)
        named = zip(hot.kernels, hot.shares, strict=True)
        session.progress(f"hot: {', '.join(f'{name[:60]} {share:.0%}' for name, share in named)}")
        session.hot, session.run.manifest.hot = hot, session.request.hot


def tracer_of(program: Program) -> Recorder | None:
    """nsys, else torch's profiler for a Python program, else nothing."""
    if tools.find(tools.NSYS) is not None:
        return Nsys()
    return Traced() if program.python else None
