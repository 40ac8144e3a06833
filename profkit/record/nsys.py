"""A timeline: the program, or the runner once more, under Nsight Systems."""

from __future__ import annotations

import contextlib
from pathlib import Path

from collectors import CollectError, read
from collectors.nsys.scrub import scrub
from profkit.errors import CannotProfileError, ProfkitError
from profkit.launch import tools
from profkit.record.session import Session, Step, none_captured
from profkit.rundir.files import temporary
from profkit.rundir.manifest import Capture
from profkit.targets.program import Program
from profkit.vendor.nvidia import nsys

FILE = "nsys.sqlite"
EXPORT_LIMIT = 300.0
"""Seconds after which exporting the record of a sample's few calls counts as hung."""


class Nsys:
    """Recorder of a program's launches, or of one call of each sound implementation."""

    name = "nsys"

    def plan(self, session: Session) -> list[str]:
        found = tools.find(tools.NSYS)
        return [session.line(_step(session, found.path if found else "nsys", Path("TMP")))]

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
            step = _step(session, found.path, Path(place))
            ended = session.start(step)
            _export(session, found.path, step)
        said = f"{ended.said}\n{session.log('nsys-export')}"
        run.manifest.caveats += nsys.caveats(said)
        session.settle(ended)
        if not (run.path / FILE).exists():
            why, fix = nsys.failure(said, run.path / "nsys")
            raise ended.failed or session.missed(ended) or ProfkitError(why, fix=fix)
        try:
            frame = read(run.path / FILE, "nsys")
        except CollectError as error:
            raise ended.failed or none_captured(str(error), error.fix) from error
        if not (frame["kind"] == "kernel").any():
            raise ended.failed or none_captured("the program launched none on the GPU", "does it use CUDA?")
        session.keep(Capture(FILE, "nsys", "timeline" if sample else "times"), frame)


def _step(session: Session, tool: str, place: Path) -> Step:
    kept = session.request.keep_report and isinstance(session.target, Program)
    note = "nsys.nsys-rep holds the environment variables of the program" if kept else ""
    windowed = isinstance(session.target, Program) and session.request.window.inside
    prefix = nsys.prefix(tool, session.run.path / "nsys", windowed=windowed)
    parts = session.parts
    return Step("nsys", prefix, nsys.environment(place), parts, note=note)


def _export(session: Session, tool: str, step: Step) -> None:
    """The record as sqlite without facts of the machine; the record itself goes unless kept."""
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
    if not session.request.keep_report:
        report.unlink()
