"""The main job: a target in, a run directory out. One way for all kinds of targets."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

from collectors.caveat import Caveat
from profkit.errors import CannotProfileError, ProfkitError
from profkit.launch import cache, gpu, warm
from profkit.launch.alone import alone
from profkit.record import ceilings
from profkit.record.ceilings import cpu, device_of
from profkit.record.measure import InProcess, Measure
from profkit.record.prepare import prepare
from profkit.record.request import Request
from profkit.record.session import Session
from profkit.record.tools.ncu import Ncu
from profkit.record.tools.sanitizer import Sanitizer
from profkit.rundir.directory import Run, now
from profkit.targets.program import Program
from profkit.targets.sample import Sample, resolve
from profkit.targets.target import Call, Target

Progress = Callable[[str], None]
Answer = Callable[[Run], None]


def profile(
    target: str | os.PathLike[str] | Callable[..., Any] | Target,
    *arguments: Any,
    progress: Progress = lambda _: None,
    answer: Answer = lambda _: None,
    request: Request | None = None,
    **options: Any,
) -> Run:
    """Measure a sample's folder, a callable with its arguments, or a Program.

    Keyword options are Request's fields. answer: called with the run once its verdicts are known, and again when they may
    have changed; the returned run decides. A callable is timed in this process, on the arguments as they are.

    Raises ProfkitError for a folder that is no sample or an option that cannot apply, CannotProfileError where something
    required is unavailable, ProgramFailedError where a program fails before any kernel is captured. A candidate that is
    wrong or crashes is a result, and so is a program that fails later (manifest: status, exit_code). The run directory
    exists once anything was started.
    """
    wanted = request or Request(**options)
    session = prepare(_resolve(target, arguments), wanted, progress)
    session.answer, run = answer, session.run
    run.manifest.caveats += cache.caveats()
    ended = "failed"
    try:
        with warm.runners(told=progress), _alone(session):
            trouble = _record(session)
        _close(session, trouble)
        ended = "done"
    except KeyboardInterrupt:
        run.manifest.status = "interrupted"
        raise
    finally:
        if run.manifest.status == "running":
            run.manifest.status = ended
        counters, run.manifest.finished = run.manifest.counters, now()
        if counters.state == "planned":
            counters.state = "missing"
            counters.why = counters.why or "the run ended before the counters were collected"
        run.save()
    return run


def _resolve(target: Any, arguments: Sequence[Any]) -> Target:
    if isinstance(target, (Sample, Program, Call)):
        found: Target = target
    elif callable(target):
        return Call(target, tuple(arguments))
    else:
        found = resolve(Path(target))
    if arguments:
        raise ProfkitError(f"{found.id}: it takes no arguments", fix="give a callable, or options by name")
    return found


def _alone(session: Session) -> AbstractContextManager[None]:
    """The GPU for a sample alone. A program may measure samples, and a CPU is shared anyway."""
    mine = isinstance(session.target, Sample) and session.device == "cuda" and not session.company
    uuid = gpu.identity().get("uuid", "") if mine else ""
    return alone(uuid, session.progress) if uuid else nullcontext()


def _record(session: Session) -> dict[str, ProfkitError]:
    """Run the recorders; by name, the errors that cost their own part alone."""
    trouble: dict[str, ProfkitError] = {}
    with ExitStack() as ahead:
        if isinstance(session.target, Sample):
            for one in session.recorders:
                if isinstance(one, Ncu):
                    ahead.enter_context(one.ahead(session))
        for one in session.recorders:
            try:
                one.record(session)
            except ProfkitError as error:
                if isinstance(one, (Measure, InProcess, Sanitizer)):
                    raise
                trouble[one.name] = error
                if session.request.hot:
                    break
    return trouble


def _close(session: Session, trouble: dict[str, ProfkitError]) -> None:
    """Judge the whole: raise without results or required ones, else note what is missing."""
    manifest, wanted = session.run.manifest, session.request
    if isinstance(session.target, Program):
        by_name = bool(wanted.hot or wanted.nsys or wanted.counters == "ncu")
        if trouble and (by_name or not session.frames):
            raise next(iter(trouble.values()))
        if not session.frames:
            raise ProfkitError("nothing was captured")
        manifest.device = device_of(session.frames) if session.device == "cuda" else cpu()
        window = manifest.window
        if window.range and window.taken is not None and window.taken < window.steps:
            what = f"{window.taken} of the {window.steps} passages of range {window.range!r} were recorded"
            manifest.caveats.append(
                Caveat(what, "the program ended before", "let it run longer, or ask for fewer steps")
            )
        known = ceilings.known(manifest.device) if "uuid" in manifest.device else None
        manifest.ceilings = known.ceilings if known is not None else []
    elif wanted.insists and isinstance(session.target, Sample) and manifest.counters.state != "collected":
        raise CannotProfileError(f"no counters: {manifest.counters.why}", fix=manifest.counters.fix)
    for name, error in trouble.items():
        # Why there are no counters stands with the counters.
        if name != "ncu":
            manifest.caveats.append(Caveat(f"no timeline: {error}", "that part is missing", error.fix))
