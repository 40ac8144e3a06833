"""The first half of --hot: the program recorded, and its kernels ranked by the record."""

from __future__ import annotations

from dataclasses import dataclass

from collectors.caveat import TRACE_CUT, Caveat
from profkit.errors import CannotProfileError, ProfkitError, ProgramFailedError
from profkit.launch import tools
from profkit.record.cupti import Cupti
from profkit.record.hot import hottest
from profkit.record.nsys import Nsys
from profkit.record.session import Recorder, Session
from profkit.targets.program import Program


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
