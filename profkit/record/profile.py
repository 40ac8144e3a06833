"""The main function: measure a target into a run directory."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

from collectors.caveat import Caveat
from profkit.errors import CannotProfileError, ProfkitError
from profkit.launch import cache, gpu, tools, warm
from profkit.launch.alone import alone
from profkit.launch.process import demand_linux
from profkit.launch.protocol import Progress
from profkit.record import ceilings
from profkit.record.ceilings import cpu, device_of
from profkit.record.job import portable
from profkit.record.measure import InProcess, Measure, Perturb
from profkit.record.request import Request, refuse
from profkit.record.session import Recorder, Session
from profkit.record.tools import ncu, sanitizer
from profkit.record.tools.timeline import Nsys, Ranking, Traced, tracer_of
from profkit.rundir.directory import Run, create_run, now
from profkit.rundir.files import sha256
from profkit.rundir.manifest import Counters, FileRef, Impl, SampleInfo
from profkit.targets import backends
from profkit.targets.program import Program
from profkit.targets.sample import Sample, resolve
from profkit.targets.source import Source, authored_names
from profkit.targets.target import REFERENCE, Call, Part, Target

Answer = Callable[[Run], None]
NO_DEVICE = "there is no CUDA device here: no NVIDIA driver answers, or CUDA_VISIBLE_DEVICES hides every GPU"


def profile(
    target: str | os.PathLike[str] | Callable[..., Any] | Target,
    *arguments: Any,
    progress: Progress = lambda _: None,
    answer: Answer = lambda _: None,
    request: Request | None = None,
    **options: Any,
) -> Run:
    """Measure a sample's folder, a callable with its arguments, or a Program.

    Keyword options are Request's fields. answer: called with the run once its verdicts are known, and again after
    possible changes; the returned run is final. A callable is timed in this process, on its arguments unchanged.

    Raises ProfkitError for a folder that is no sample or an option that cannot apply, CannotProfileError if something
    required is unavailable, ProgramFailedError if a program fails before any kernel is captured. A candidate that is
    wrong or crashes is a result, and so is a program that fails later (manifest: status, exit_code). The run directory
    exists once anything was started.
    """
    wanted = request or Request.of(options)
    session = prepare(_resolve(target, arguments), wanted, progress)
    session.answer, run = answer, session.run
    run.manifest.caveats += cache.caveats()
    ended = "failed"
    try:
        with warm.runners(told=progress), _alone(session):
            trouble = _record(session)
        _close(session, trouble)
        ended = "done"
    except KeyboardInterrupt as error:
        run.manifest.status = "interrupted"
        error.args = (run.path.as_posix(),)
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
        raise ProfkitError(f"{found.id}: takes no arguments", fix="give a callable, or options by keyword")
    return found


def _alone(session: Session) -> AbstractContextManager[None]:
    """Lock the GPU for a sample. A program may measure samples itself; a CPU is shared anyway."""
    mine = isinstance(session.target, Sample) and session.device == "cuda" and not session.company
    uuid = gpu.identity().get("uuid", "") if mine else ""
    return alone(uuid, session.progress) if uuid else nullcontext()


def _record(session: Session) -> dict[str, ProfkitError]:
    """Run the recorders; return, by name, errors that cost only their own part."""
    trouble: dict[str, ProfkitError] = {}
    with ExitStack() as ahead:
        if isinstance(session.target, Sample):
            for one in session.recorders:
                if isinstance(one, ncu.Ncu):
                    ahead.enter_context(one.ahead(session))
        for one in session.recorders:
            try:
                one.record(session)
            except ProfkitError as error:
                if isinstance(one, (Measure, InProcess, sanitizer.Sanitizer)):
                    raise
                trouble[one.name] = error
                if session.request.hot:
                    break
    return trouble


def _close(session: Session, trouble: dict[str, ProfkitError]) -> None:
    """Finish: raise without results or without required ones, else note what is missing."""
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
                Caveat(what, "the program ended before", "let it run longer, or request fewer steps")
            )
        known = ceilings.known(manifest.device) if "uuid" in manifest.device else None
        manifest.ceilings = known.ceilings if known is not None else []
    elif wanted.insists and isinstance(session.target, Sample) and manifest.counters.state != "collected":
        raise CannotProfileError(f"no counters: {manifest.counters.why}", fix=manifest.counters.fix)
    for name, error in trouble.items():
        # Why there are no counters stands with the counters.
        if name != "ncu":
            manifest.caveats.append(Caveat(f"no timeline: {error}", "that part is missing", error.fix))


# ---- before the first process: candidates, tools, the manifest as it begins


def prepare(target: Target, wanted: Request, progress: Progress = lambda _: None) -> Session:
    """Session of a new run, with all facts known before measuring in the manifest.

    Its directory is made only if the target can be measured. Raises ProfkitError for an option that cannot apply,
    CannotProfileError for something required and unavailable.
    """
    refuse(target.kind, wanted)
    if not isinstance(target, Call):
        demand_linux()
    if not isinstance(target, Program):
        _demand_torch()
    device = expected_device(wanted) if isinstance(target, Sample) else wanted.device
    device = _device_of(target, wanted) if isinstance(target, Program) else device
    counters = ncu.planned(target, wanted, device)
    if isinstance(target, Sample) and wanted.insists and counters.state != "planned":
        raise CannotProfileError(f"no counters: {counters.why}", fix=counters.fix)
    steps = recorders(target, wanted, device, counters)
    chosen = choose(target, wanted, device) if isinstance(target, Sample) else ()
    run = create_run(info(target), wanted.runs)
    manifest = run.manifest
    manifest.counters, manifest.precision = counters, wanted.precision
    manifest.allowed, manifest.campaign = list(wanted.allow), wanted.campaign
    if isinstance(target, Sample):
        manifest.isolated = True
        manifest.impls = _implementations(target, chosen, wanted.only)
    elif isinstance(target, Program):
        manifest.program = portable(target.argv, run)
    elif isinstance(target, Call) and target.reference is not None:
        # The two as those of a sample.
        roles = {name: "reference" if name == REFERENCE else "candidate" for name in target.functions}
        manifest.impls = [Impl(name, role, "") for name, role in roles.items()]
    else:
        manifest.impls = [Impl(target.id, "callable", "", status="ok")]
    return Session(target, wanted, run, device, progress, chosen, steps)


def _demand_torch() -> None:
    """Raise CannotProfileError without torch, which samples and callables need."""
    with contextlib.suppress(ImportError):
        if importlib.util.find_spec("torch") is not None:
            return
    raise CannotProfileError(
        "measuring needs torch, which is not installed",
        fix="pip install torch ninja; reading, explaining, comparing and drawing runs works without",
    )


def expected_device(wanted: Request) -> str:
    """Expected device of a sample; for "auto" the runner decides.

    Raises CannotProfileError.
    """
    if wanted.device == "cuda" and not gpu.gpu_present():
        raise CannotProfileError(NO_DEVICE, fix="use --device cpu; `profkit doctor` shows what is missing")
    if wanted.device == "auto":
        return "cuda" if gpu.gpu_present() else "cpu"
    return wanted.device


def _device_of(program: Program, wanted: Request) -> str:
    """The device to record. Raises CannotProfileError before anything runs."""
    if gpu.gpu_present():
        return "cuda"
    asked = ", ".join(wanted.given.keys() & {"counters", "hot", "nsys", "deep", "lines", "kernel"})
    if asked or not program.python:
        raise CannotProfileError(
            NO_DEVICE,
            fix="`profkit doctor` shows what is missing; without a GPU, a Python program's operators can be timed: "
            "profkit profile -- python train.py",
        )
    return "cpu"


def recorders(target: Target, wanted: Request, device: str, counters: Counters) -> tuple[Recorder, ...]:
    """The recorders, in order. Raises CannotProfileError for a request that is impossible here."""
    counted: tuple[Recorder, ...] = (ncu.Ncu(),) if counters.state == "planned" else ()
    if isinstance(target, Call):
        return (InProcess(),)
    if isinstance(target, Program):
        if device == "cpu":
            return (Traced(),)
        return (*_traced(target, wanted, counters), *counted)
    if wanted.sanitize:
        sanitizer.check(device)
    checked = (sanitizer.Sanitizer(),) if wanted.sanitize else ()
    tried = (Perturb(),) if wanted.perturb else ()
    return (Measure(), *tried, *counted, *checked)


def _traced(program: Program, wanted: Request, counters: Counters) -> tuple[Recorder, ...]:
    """Recorder of a program's times: as requested, or instead of unavailable counters."""
    missing = counters.state != "planned"
    if missing and (wanted.hot or wanted.counters == "ncu"):
        raise CannotProfileError(counters.why, fix=counters.fix)
    if not (wanted.nsys or wanted.hot or missing):
        return ()
    tracer = tracer_of(program)
    if tracer is None:
        raise CannotProfileError(
            f"{tools.NSYS.missing}, and this is not a Python program to trace without it", fix=tools.NSYS.fix
        )
    second = Traced() if isinstance(tracer, Nsys) and program.python else None
    return (Ranking(tracer, second) if wanted.hot else tracer,)


def choose(sample: Sample, wanted: Request, device: str) -> tuple[Part, ...]:
    """Candidates to run: those named, or all that can run on the device."""
    names = {candidate.name for candidate in sample.candidates}
    strange = sorted(set(wanted.only) - names)
    if strange:
        raise ProfkitError(
            f"{sample.path}: no candidate {strange[0]!r}", fix=f"candidates here: {', '.join(sorted(names))}"
        )
    if wanted.only:
        return tuple(candidate for candidate in sample.candidates if candidate.name in wanted.only)
    able = tuple(c for c in sample.candidates if c.runs_on(device) and not backends.missing(c.backend))
    if not able:
        absent = next(filter(None, (backends.missing(c.backend) for c in sample.candidates)), "")
        if absent and device != "cpu":
            raise CannotProfileError(f"{sample.path}: {absent}", fix="install it, or name another candidate")
        listed = ", ".join(f"{c.name} ({c.backend})" for c in sample.candidates)
        where = "the CPU" if device == "cpu" else "a GPU"
        raise CannotProfileError(
            f"{sample.path}: no candidate runs on {where}: {listed}",
            fix="run on an NVIDIA GPU" if device == "cpu" else "name one with --candidate, or use --device cpu",
        )
    return able


def info(target: Target) -> SampleInfo:
    if not isinstance(target, Sample):
        return SampleInfo(id=target.id, path="", kind=target.kind)
    roles = {part.name: part.path for part in target.parts}
    if target.prompt is not None:
        roles["prompt"] = target.prompt
    files = {role: FileRef(file.name, sha256(file)) for role, file in roles.items()}
    # As typed when relative; an absolute path relative to here if it lies below.
    real, here = target.path.resolve(), Path.cwd()
    path = real.relative_to(here) if real.is_relative_to(here) else target.path
    return SampleInfo(target.id, str(path), target.kind, files, Source.read(target.reference).task)


def _implementations(sample: Sample, chosen: Sequence[Part], only: Sequence[str]) -> list[Impl]:
    rows = [Impl("reference", "reference", sample.reference.name, backend="torch")]
    for candidate in sample.candidates:
        source = candidate.path.read_text("utf-8", "replace")
        row = Impl(candidate.name, "candidate", candidate.path.name, backend=candidate.backend)
        row.kernels = sorted(authored_names(source))
        if candidate not in chosen:
            why = "not asked for" if only else f"a {candidate.backend} candidate does not run on this device"
            row.reason = backends.missing(candidate.backend) or f"not run: {why}"
        rows.append(row)
    return rows
