"""Hardware counters: run the program, or the runner again, under Nsight Compute."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from collectors import CollectError, read
from collectors.caveat import Caveat
from collectors.counters import counter_set, metrics_for
from profkit.errors import CannotProfileError, ProfkitError
from profkit.launch import gpu, runner, tools
from profkit.launch.alone import counting
from profkit.record.request import Request
from profkit.record.session import Ended, Session, Step
from profkit.record.tools.timeline import tracer_of
from profkit.rundir.files import sha256, temporary
from profkit.rundir.manifest import Capture, Counters
from profkit.targets.program import Program
from profkit.targets.target import Target
from profkit.vendor.nvidia import ncu

if TYPE_CHECKING:
    import pandas as pd

FILE = "ncu.csv"
BASE = ("time", "dram_bytes", "flop_fp32", "sm_clock")
"""Counters of every chip with DRAM; a missing one is an error."""
PAGE_LIMIT = 300.0
"""Seconds after which exporting a report counts as hung."""
SLOWER = 4.0
"""Factor on the time limits, as ncu replays every call once per pass."""
_A_LAUNCH = 0.35
"""Seconds to count a launch with the default set: 0.2 to 0.4 on an H100 with ncu 2025.3.1, eight passes."""
_REFUSALS = ("permission", "busy", "sandbox", "stub", "mig", "injection", "lock")
_RANGES = ("profkit@counters/",)
NOT_NCCL = "regex:^([^n]|n[^c]|nc[^c]|ncc[^l]|n$|nc$|ncc$)"
"""All kernels except NCCL's, which wait for each other and would hang if replayed one by one."""
PAGE = "lines.csv"
LINES = ("SourceCounters",)
"""Sections with the sampler's counts by instruction."""


def unavailable() -> CannotProfileError | None:
    """Why ncu cannot count here and the fix; None if it can."""
    if tools.find(tools.NCU) is None:
        return CannotProfileError(tools.NCU.missing, fix=tools.NCU.fix)
    if ncu.counters_restricted():
        return CannotProfileError(
            "the driver keeps GPU counters for administrators (ERR_NVGPUCTRPERM)", fix=ncu.PERMISSION_FIX
        )
    return None


def planned(target: Target, wanted: Request, device: str) -> Counters:
    """Whether ncu will be started ("planned"), and if not, why and the fix."""
    if target.kind == "callable":
        return Counters(
            "off",
            why="a callable is measured in this process, where no tool can count",
            fix="put it into a script inside profkit.annotate(...) and run profkit profile --ncu -- python script.py",
        )
    if device == "cpu":
        return Counters(
            "missing", why="the CPU has no hardware counters that profkit reads", fix="run on an NVIDIA GPU"
        )
    if wanted.counters == "off":
        return Counters("off", why="switched off (--events)", fix="leave --events out")
    tool, trouble = tools.find(tools.NCU), unavailable()
    known = Counters("missing")
    if tool is not None:
        known.tool, known.version = tool.path, tool.text
    if trouble is not None:
        known.why, known.fix = str(trouble), trouble.fix
        return known
    # Counting every launch of a program takes a hundred times its own time; recording its times takes next to none.
    asked = wanted.hot or wanted.counters == "ncu" or wanted.deep or wanted.lines or wanted.kernel
    if isinstance(target, Program) and not asked and (wanted.nsys or target.ranked or tracer_of(target) is not None):
        known.why, known.fix = "this run recorded times alone", "profkit profile --hot 5 -- ..."
    else:
        known.state = "planned"
    return known


def _ranked(session: Session) -> bool:
    return isinstance(session.target, Program) and session.target.ranked


class Ncu:
    """Counts every requested launch.

    A sample is counted in one start, all implementations in one process, even if each was timed in its own: a start of
    ncu takes seconds, and only counters come from it.
    """

    name = "ncu"

    @contextlib.contextmanager
    def ahead(self, session: Session) -> Iterator[None]:
        """Start a sample's runner beside the judge, as importing torch takes most of a start."""
        with temporary() as place:
            step = _step(session, options_of(session), Path(place))
            how = session.run.logs, step.name, step.prefix, step.env, session.request.memory
            session.ahead = runner.Ahead(*how)
            try:
                yield
            finally:
                session.ahead.close()

    def record(self, session: Session) -> None:
        """Count. Raises ProfkitError unless the CSV has launches, whatever ncu's exit code is."""
        session.progress("counters (ncu)")
        run, counters = session.run, session.run.manifest.counters
        counters.state = "missing"
        program = isinstance(session.target, Program)
        if not program and all(one.role != "reference" for one in session.parts):
            raise _none(counters, "no implementation ran well enough to be counted", "")
        if not session.request.insists and (why := _too_long(session)):
            raise _none(counters, why, "request them with --ncu, or raise the time budget")
        options = options_of(session)
        # On a shared device the runner takes counters and device itself, and for as short as it can.
        uuid = "" if session.shared else gpu.identity().get("uuid", "")
        with temporary() as place, counting(uuid, session.progress):
            ended = session.start(_step(session, options, Path(place)))
        counters.file = FILE
        try:
            frame = read(run.path / FILE, "ncu", partial=program and ended.failed is not None)
        except CollectError as error:
            session.settle(ended)
            raise _why(session, ended, error) from error
        cut = 0 < options.count <= len(frame) and not ended.hung
        if cut:
            run.manifest.commands[-1].note = f"ended on purpose after {options.count} launches (--hot)"
        else:
            session.settle(ended)
        if frame.empty:
            raise session.missed(ended) or _none(
                counters, "ncu saw no kernel launch inside profkit's ranges", "see logs/ncu.log"
            )
        counters.state, counters.why, counters.fix = "collected", "", ""
        if "passes" in frame and frame["passes"].notna().any():
            counters.passes = int(frame["passes"].max())
        partial = program and ended.failed is not None and not cut
        filtered = program and session.request.filtered
        session.keep(Capture(FILE, "ncu", "counters", filtered=filtered, partial=partial, ended=cut), frame)
        _caveat(session, frame)
        if session.request.lines:
            _source_page(session)


def _too_long(session: Session) -> str:
    """Reason if counting would exceed the time budget; "" otherwise."""
    launches = 0 if isinstance(session.target, Program) else sum(c.rows for c in session.run.manifest.captures)
    if session.spent > session.request.whole:
        return f"left out: checks and timing took {session.spent:.0f} s"
    if session.spent + launches * _A_LAUNCH > session.request.whole:
        return f"left out: counting {launches} launches would take about {launches * _A_LAUNCH:.0f} s"
    return ""


def options_of(session: Session) -> ncu.Options:
    plain = not session.request.kernel or re.fullmatch(r"regex:.*|[\w$]+", session.request.kernel)
    # Of ncu's -k an expression stands after regex:, a plain name alone.
    named = session.request.kernel if plain else f"regex:{session.request.kernel}"
    wanted, folder, hot, program = session.request, session.run.path, session.hot, isinstance(session.target, Program)
    kernel = hot.pattern if hot is not None else named or (NOT_NCCL if _ranked(session) else "")
    counters = counter_set("default") + (counter_set("deep") if wanted.deep or wanted.lines else ())
    # ncu counts launches within its windows alone, and the ranking those of the whole program.
    whole = None if wanted.range else hot
    return ncu.Options(
        metrics=metrics_for(counters, session.cc),
        csv=folder / FILE,
        include=() if program else _RANGES,
        report=folder / "report" if wanted.lines else None,
        sections=LINES if wanted.lines else (),
        windowed=program and bool(wanted.range),
        count=whole.count if whole is not None else 0,
        extra=["--kernel-id", whole.identifier] if whole is not None else ["-k", kernel] if kernel else [],
    )


def _step(session: Session, options: ncu.Options, place: Path) -> Step:
    prefix = ncu.prefix(session.run.manifest.counters.tool or "ncu", options)
    env = dict(ncu.environment(place))
    if session.request.lines and isinstance(session.target, Program):
        # What the program itself compiles while it runs; of a sample the runner sees to that.
        env["NVCC_APPEND_FLAGS"] = f"{os.environ.get('NVCC_APPEND_FLAGS', '')} -lineinfo".strip()
    # Every passage of a range is told by itself: ncu counts launches, and those between two passages are not asked for.
    argv = session.windowed("--each") if options.windowed else ()
    return Step("ncu", prefix, env, slower=SLOWER, argv=argv)


def _source_page(session: Session) -> None:
    """Write the report's instructions with source lines as a table; delete the report."""
    from collectors.ncu import source  # pandas

    page, report = session.run.path / PAGE, session.run.path / "report.ncu-rep"
    argv = ncu.source_page(session.run.manifest.counters.tool or "ncu", report, page)
    with temporary() as place:
        session.helper("ncu-lines", argv, ncu.environment(Path(place)), PAGE_LIMIT)
    try:
        kernels = source.read(page)
    except CollectError as error:
        what = "no source lines: ncu wrote no source page"
        session.run.manifest.caveats.append(Caveat(what, str(error).replace(f"{session.run.path}/", ""), error.fix))
    else:
        rows = sum(len(one.instructions) for one in kernels)
        session.run.manifest.captures.append(Capture(PAGE, "ncu", "lines", sha256=sha256(page), rows=rows))
    report.unlink(missing_ok=True)


def _caveat(session: Session, frame: pd.DataFrame) -> None:
    from analyzers.timeline.hot import not_met  # pandas
    from collectors.frame import uncollected

    caveats = session.run.manifest.caveats
    missing = uncollected(frame, BASE)
    if missing:
        what = "ncu left out requested counters"
        caveats.append(Caveat(what, ", ".join(missing), "see ncu.csv; a newer ncu may know them"))
    if _ranked(session) and not session.request.kernel:
        what = "NCCL's kernels were not counted: replayed one by one they would wait for each other forever"
        caveats.append(Caveat(what, "their times are in the timeline (--nsys, --hot)", "", "nccl"))
    if session.hot is not None:
        caveats += not_met(session.hot, frame)


def _none(counters: Counters, why: str, fix: str) -> ProfkitError:
    counters.why, counters.fix = why, fix
    return ProfkitError(f"no kernels were captured: {why}", fix=fix)


def _why(session: Session, ended: Ended, error: CollectError) -> ProfkitError:
    """Reason for missing counters: ncu's refusal, then the program's end, then ncu's last words."""
    from collectors.ncu.log import diagnose, reason  # pandas

    run, counters = session.run, session.run.manifest.counters
    file = run.path / FILE
    text = file.read_text("utf-8", "replace") if file.exists() else ""
    found, missed = reason(diagnose(f"{text}\n{ended.said}")), session.missed(ended)
    if found is not None and found.kind in _REFUSALS:
        counters.why, counters.fix = found.message, found.fix
        return CannotProfileError(f"no counters: {found.message}", fix=found.fix)
    if isinstance(session.target, Program) and ended.failed is not None:
        counters.why, counters.fix = str(ended.failed).splitlines()[0], ended.failed.fix
        return ended.failed
    why, fix = str(error).replace(f"{run.path}/", ""), error.fix
    if missed is not None:
        why, fix = str(missed), missed.fix
    elif ended.hung:
        why = f"ncu did not come to an end in {ended.wall:.0f} s and was stopped"
        fix = "raise --time-limit SECONDS, or check that `ncu` alone ends on this program"
    elif found is not None and found.kind != "target":
        why, fix = found.message, found.fix or error.fix
    elif ended.failed is not None:
        why, fix = str(ended.failed), ended.failed.fix
    return _none(counters, why, fix)
