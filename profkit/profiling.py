"""The main job: a sample in, a run directory with everything about it out."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from profkit import ceilings, samples
from profkit.error import CannotProfileError, ProfkitError
from profkit.launch import ncu, protocol, runner
from profkit.launch.gpu import gpu_present
from profkit.run import (
    RUNS,
    Check,
    Command,
    Counters,
    FileRef,
    Impl,
    Run,
    SampleInfo,
    Timing,
    create_run,
    now,
    sha256,
)

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What the user asked for.

    counters: "auto" (use ncu where it works), "ncu" (asked for by name), "off". device: auto, cuda, cpu.
    trials: correctness trials; budget: seconds of timing; timeout: scales the limit of every phase.
    """

    counters: str = "auto"
    require_counters: bool = False
    device: str = "auto"
    only: tuple[str, ...] = ()
    trials: int = 5
    budget: float = 5.0
    target: float = 0.005
    l2: str = "cold"
    seed: int | None = None
    timeout: float = 1.0
    ncu_set: str = ""
    keep_report: bool = False
    clock_control: str = "none"
    runs: Path = RUNS


def profile(
    sample: str | os.PathLike[str],
    *,
    progress: Progress = lambda _: None,
    request: Request | None = None,
    **options: Any,
) -> Run:
    """Measure a sample folder and return its run; keyword options are Request's fields.

    Raises ProfkitError for a folder that is no sample, CannotProfileError when `require_counters` is set
    and counters cannot be had. A candidate that is wrong or crashes is a result, not an exception.
    """
    wanted = request or Request(**options)
    found = samples.resolve(Path(sample))
    device = _device(wanted)
    counters = plan_counters(wanted, device)
    chosen = choose(found, wanted, device)
    run = create_run(_sample_info(found), wanted.runs)
    run.manifest.counters = counters
    run.manifest.seeds = _seeds(wanted)
    run.manifest.impls = _implementations(found, chosen)
    try:
        _measure(run, chosen, wanted, device, progress)
        if counters.state == "planned":
            _count(run, wanted, progress)
        run.manifest.status = "done"
    except KeyboardInterrupt:
        run.manifest.status = "interrupted"
        raise
    except ProfkitError:
        run.manifest.status = "failed"
        raise
    finally:
        _close(run)
    if wanted.require_counters and run.manifest.counters.state != "collected":
        raise CannotProfileError(f"no counters: {run.manifest.counters.why}", fix=run.manifest.counters.fix)
    return run


def _close(run: Run) -> None:
    run.manifest.finished = now()
    if run.manifest.counters.state == "planned":
        run.manifest.counters.state = "missing"
        run.manifest.counters.why = (
            run.manifest.counters.why or "the run ended before the counters were collected"
        )
    run.save()


def _device(wanted: Request) -> str:
    """The device the parent expects: the runner has the last word when this is "auto"."""
    if wanted.device == "auto":
        return "cuda" if gpu_present() else "cpu"
    return wanted.device


def plan_counters(wanted: Request, device: str) -> Counters:
    """Whether ncu will be started, and if not why and what would help."""
    if wanted.counters == "off":
        return Counters("off", why="switched off (--events)", fix="leave --events out")
    tool = ncu.find()
    if device == "cpu":
        return Counters(
            "missing", why="the CPU has no hardware counters that profkit reads", fix="run on an NVIDIA GPU"
        )
    if tool is None:
        return Counters("missing", why="Nsight Compute (ncu) was not found", fix=ncu.MISSING_FIX)
    if ncu.counters_restricted():
        why = "the driver keeps GPU counters for administrators (ERR_NVGPUCTRPERM)"
        return Counters("missing", why=why, fix=ncu.PERMISSION_FIX, tool=tool.path, version=tool.text)
    return Counters("planned", tool=tool.path, version=tool.text, clock_control=wanted.clock_control)


def choose(sample: samples.Sample, wanted: Request, device: str) -> tuple[samples.Candidate, ...]:
    """The candidates to run: those named, or all that can run on the device."""
    names = {candidate.name for candidate in sample.candidates}
    strange = sorted(set(wanted.only) - names)
    if strange:
        raise ProfkitError(
            f"{sample.path}: no candidate {strange[0]!r}", fix=f"candidates here: {', '.join(sorted(names))}"
        )
    if wanted.only:
        return tuple(candidate for candidate in sample.candidates if candidate.name in wanted.only)
    return tuple(candidate for candidate in sample.candidates if candidate.runs_on(device))


def _sample_info(sample: samples.Sample) -> SampleInfo:
    roles = {"reference": sample.reference, **{c.name: c.path for c in sample.candidates}}
    if sample.prompt is not None:
        roles["prompt"] = sample.prompt
    files = {role: FileRef(file.name, sha256(file)) for role, file in roles.items()}
    return SampleInfo(id=sample.id, path=_portable(sample.path), kind=sample.kind, files=files)


def _portable(path: Path) -> str:
    """The path as typed when relative; an absolute one relative to here if it lies below."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _implementations(sample: samples.Sample, chosen: Sequence[samples.Candidate]) -> list[Impl]:
    from analyzers.provenance import authored_names

    reference = Impl("reference", "reference", sample.reference.name, backend="torch")
    rows = [reference]
    for candidate in sample.candidates:
        source = candidate.path.read_text("utf-8", "replace")
        row = Impl(candidate.name, "candidate", candidate.path.name, backend=candidate.backend)
        row.kernels = sorted(authored_names(source))
        if candidate not in chosen:
            row.reason = (
                f"not run: a {candidate.backend} candidate does not run on this device, or was not asked for"
            )
        rows.append(row)
    return rows


def _seeds(wanted: Request) -> list[int]:
    """Fresh for every run, so that no candidate can know its inputs; fixed when the user fixes them."""
    first = wanted.seed if wanted.seed is not None else secrets.randbits(31)
    return [first + 7919 * number for number in range(wanted.trials)]


def build_cache() -> Path:
    """Where builds go."""
    return ceilings.cache_root() / "build"


def make_job(
    run: Run, chosen: Iterable[samples.Candidate], wanted: Request, device: str, folder: Path
) -> protocol.Job:
    """The job of the measuring step."""
    root = folder.resolve()
    reference = run.manifest.impls[0]
    subjects = [protocol.Subject("reference", "reference", str(root / reference.file), "torch")]
    subjects += [protocol.Subject(c.name, "candidate", str(c.path.resolve()), c.backend) for c in chosen]
    limits = {name: protocol.LIMITS[name] * wanted.timeout for name in ("check", "time", "count", "build")}
    return protocol.Job(
        mode="measure", sample=run.manifest.sample.id, subjects=subjects, device=device, seeds=run.manifest.seeds,
        budget=wanted.budget, target=wanted.target, l2=wanted.l2, timings=str(run.timings_csv.resolve()),
        cache=str(build_cache()), limits=limits,
    )  # fmt: skip


def _measure(
    run: Run, chosen: Sequence[samples.Candidate], wanted: Request, device: str, progress: Progress
) -> None:
    folder = Path(run.manifest.sample.path)
    job = make_job(run, chosen, wanted, device, folder)
    outcome = runner.run_job(job, run.logs, progress=progress)
    _absorb(run, outcome, "measure")
    run.save()
    reference = run.manifest.impls[0]
    if not outcome.finished and not run.timings_csv.exists() and reference.status in ("skipped", "ok"):
        log = run.logs / "measure.log"
        last = outcome.exits[-1][1]
        raise ProfkitError(
            f"the runner ended with exit code {last.code} before anything was measured; see {log}\n{last.tail}",
            fix="`profkit doctor` checks torch and the device",
        )


def _absorb(run: Run, outcome: runner.Outcome, step: str) -> None:
    """Put what the runner said into the manifest."""
    manifest = run.manifest
    facts = outcome.first("facts")
    manifest.device = facts.get("device", manifest.device)
    manifest.versions |= facts.get("versions", {})
    manifest.doubts += [event.data for event in outcome.of("doubt") if event.data not in manifest.doubts]
    manifest.commands += [
        Command(
            step, _anonymous(argv), ended.code, round(ended.wall, 3), log.name, "hung" if ended.hung else ""
        )
        for argv, ended, log in outcome.exits
    ]
    by_name = {impl.name: impl for impl in manifest.impls}
    _absorb_checks(outcome, by_name)
    for name, (status, reason, tail) in outcome.fallen.items():
        by_name[name].status, by_name[name].reason, by_name[name].tail = status, reason, tail
    if outcome.of("work"):
        manifest.work = [event.data for event in outcome.of("work")]
    measured = ceilings.known(manifest.device)
    if measured is not None and manifest.device.get("kind") == "cuda":
        manifest.ceilings = measured.ceilings
    if outcome.of("ceilings"):
        manifest.ceilings = outcome.of("ceilings")[-1].data["ceilings"]
    if outcome.of("timing"):
        manifest.timing = msgspec.convert(_finite(outcome.of("timing")[-1].data), Timing)
        reference = manifest.reference
        if reference is not None and reference.status == "skipped":
            reference.status = "ok"


def _absorb_checks(outcome: runner.Outcome, by_name: dict[str, Impl]) -> None:
    for event in outcome.events:
        impl = by_name.get(event.impl)
        if impl is None:
            continue
        if event.kind == "check":
            data = event.data
            check = Check(data["seed"], data["status"] == "ok", data.get("what", ""), data.get("max_abs"),
                          data.get("max_rel"), data.get("tolerance", ""))  # fmt: skip
            impl.checks = [c for c in impl.checks if c.seed != check.seed] + [check]
        elif event.kind == "impl":
            status = event.data.get("status", "")
            if status == "loaded":
                impl.build_seconds = impl.build_seconds or event.data.get("build_seconds")
            elif status != "counted":
                impl.status, impl.reason = status, event.data.get("reason", "")
                impl.tail = event.data.get("tail", impl.tail)


def _finite(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value is not None}


def _anonymous(argv: Sequence[str]) -> list[str]:
    """The command line without this machine's private paths: the home directory and the interpreter's folder."""
    home, here = os.path.expanduser("~"), str(Path.cwd())
    short = ["python" if part == sys.executable else part for part in argv]
    return [part.replace(here + "/", "").replace(home, "~") if len(home) > 1 else part for part in short]


def _count(run: Run, wanted: Request, progress: Progress) -> None:
    """The counters step: the same runner under ncu, reference and candidates in one launch of it."""
    counters, manifest = run.manifest.counters, run.manifest
    subjects = [impl for impl in manifest.impls if impl.ok]
    if not subjects:
        counters.state, counters.why = "missing", "no implementation ran well enough to be counted"
        return
    progress("counters (ncu)")
    folder = Path(manifest.sample.path).resolve()
    job = protocol.Job(
        mode="counters", sample=manifest.sample.id, device="cuda", seeds=manifest.seeds, cache=str(build_cache()),
        subjects=[protocol.Subject(i.name, i.role, str(folder / i.file), i.backend) for i in subjects],
        limits={name: protocol.LIMITS[name] * wanted.timeout * 4 for name in ("build", "count")},
    )  # fmt: skip
    options, planned = ncu_options(wanted, run.path, manifest.device.get("cc", ""))
    counters.planned_passes = planned
    with tempfile.TemporaryDirectory(prefix="profkit-") as temporary:
        outcome = runner.run_job(
            job,
            run.logs,
            prefix=ncu.prefix(counters.tool, options),
            env=ncu.environment(Path(temporary)),
            progress=progress,
        )
    statuses = {impl.name: (impl.status, impl.reason, impl.tail) for impl in manifest.impls}
    _absorb(run, outcome, "counters")
    for impl in manifest.impls:
        if impl.name in outcome.fallen:
            manifest.doubts.append({
                "what": f"{impl.name} ran alone but not under ncu", "how_much": outcome.fallen[impl.name][1],
                "fix": "see logs/counters.log",
            })  # fmt: skip
        impl.status, impl.reason, impl.tail = statuses[impl.name]
    _judge_counters(run)


def ncu_options(wanted: Request, folder: Path, cc: str) -> tuple[ncu.Options, int | None]:
    """The capture's options and the number of replay passes to expect."""
    from collectors.counters import counter_set, metrics_for, planned_passes

    names = counter_set("default")
    report = folder / "report" if wanted.keep_report else None
    options = ncu.Options(
        metrics=metrics_for(names, cc), csv=folder / "ncu.csv", set_name=wanted.ncu_set, report=report,
        clock=wanted.clock_control,
    )  # fmt: skip
    return options, planned_passes(names, cc)


def _judge_counters(run: Run) -> None:
    """ncu's exit code lies: counters are there when the CSV holds launches, and not otherwise."""
    from collectors import CollectError, read
    from collectors.ncu_log import diagnose

    counters = run.manifest.counters
    counters.state, counters.file = "missing", "ncu.csv"
    try:
        frame = read(run.ncu_csv)
    except CollectError as error:
        log = (
            (run.logs / "counters.log").read_text("utf-8", "replace")
            if (run.logs / "counters.log").exists()
            else ""
        )
        found = diagnose(log)
        counters.why, counters.fix = (
            (found[0]["message"], found[0]["fix"]) if found else (str(error), error.fix)
        )
        return
    if frame.empty:
        counters.why, counters.fix = (
            "ncu saw no kernel launch inside profkit's ranges",
            "see logs/counters.log",
        )
        return
    counters.state, counters.why, counters.fix = "collected", "", ""
    if "passes" in frame and frame["passes"].notna().any():
        counters.passes = int(frame["passes"].max())
