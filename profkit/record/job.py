"""Make a runner's job, and store its results in the manifest."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from collectors.caveat import Caveat
from profkit.errors import ProfkitError
from profkit.launch import cache, protocol, runner
from profkit.launch.process import Exit
from profkit.record import ceilings
from profkit.record.request import Request
from profkit.rundir.directory import Run
from profkit.rundir.manifest import Check, Command, Impl, PassInfo, Served, ShapeInfo, Timing
from profkit.targets.target import Part

_SAME = ("budget", "target", "l2", "precision", "memory", "trust", "backward", "lines")
"""Fields common to a request and a job."""
_OWN = ("first", "check", "time", "count", "build", "sanitize")
"""Phases that --time-limit may also shorten: those that run a candidate."""


def job(
    mode: str,
    run: Run,
    wanted: Request,
    device: str,
    parts: Sequence[Part],
    *,
    slower: float = 1.0,
) -> protocol.Job:
    """A runner's job for this run. slower: factor of a tool on the limits; see protocol.Job."""
    # As they were when the run began: a candidate may have been at them since.
    was = {name: known.sha256 for name, known in run.manifest.sample.files.items()}
    return protocol.Job(
        mode=mode,
        sample=run.manifest.sample.id,
        subjects=[
            protocol.Subject(
                one.name,
                one.role,
                str(one.path.resolve()),
                one.backend,
                _content(one.path, was.get(one.name, "")),
            )
            for one in parts
        ],
        device=device,
        seeds=run.manifest.seeds,
        trials=0 if run.manifest.seeds else wanted.trials,
        timings=str(run.timings_csv.resolve()),
        cache=str(cache.builds()),
        limits=limits(wanted.timeout, slower),
        model_mode=wanted.mode,
        shapes=wanted.shapes == "all",
        campaign=run.manifest.campaign.partition("/")[0],
        **{name: getattr(wanted, name) for name in _SAME},
    )


@functools.lru_cache(256)
def _content(file: Path, sha256: str) -> bytes:
    """Contents of a file with this digest ("" for any). Raises ProfkitError."""
    with contextlib.suppress(OSError):
        now = file.read_bytes()
        if sha256 == hashlib.sha256(now).hexdigest():
            return now
    if sha256:
        raise ProfkitError(f"{file.name} has changed since the run began", fix="run it again")
    return b""


def limits(factor: float, slower: float = 1.0) -> dict[str, float]:
    """Seconds per phase. The limit of "sanitize" already includes its tool's slow-down."""
    return {
        name: seconds * (factor if name in _OWN else max(factor, 1.0)) * (1.0 if name == "sanitize" else slower)
        for name, seconds in protocol.LIMITS.items()
    }


# ---- what it said


def absorb(run: Run, outcome: runner.Outcome, step: str, *, verdicts: bool = True, again: bool = False) -> None:
    """Store a runner's results in the manifest, implementations' only with `verdicts`.

    again: results of another process, of which only times and failures are new.
    """
    manifest, reference = run.manifest, run.manifest.reference
    for event in outcome.of("caveat"):
        one = msgspec.convert({"about": event.impl, **event.data}, Caveat)
        if all((one.what, one.about) != (known.what, known.about) for known in manifest.caveats):
            manifest.caveats.append(one)
    manifest.commands += [command(run, step, *one) for one in outcome.exits]
    if verdicts:
        impls = {impl.name: impl for impl in manifest.impls if not (again and impl is reference)}
        _absorb_verdicts(outcome, impls, again=again)
    if outcome.of("timing"):
        told = outcome.of("timing")[-1].data
        timing = msgspec.convert({key: value for key, value in told.items() if value is not None}, Timing)
        for event in outcome.of("load"):
            if event.data["slower"] > timing.slower:
                timing.slower, timing.load = event.data["slower"], event.data["said"]
        manifest.timing = together(manifest.timing, timing)
    if again:
        return
    facts = outcome.first("facts")
    manifest.device = facts.get("device", manifest.device)
    manifest.versions |= facts.get("versions", {})
    # Of one that was interrupted the seeds that were used.
    used = list(dict.fromkeys(int(event.data["seed"]) for event in outcome.of("check")))
    manifest.seeds = manifest.seeds or list(outcome.first("seeds").get("seeds", [])) or used
    allowed = map(str.lower, outcome.first("allowed").get("precisions", ()))
    manifest.allowed = list(dict.fromkeys([*manifest.allowed, *allowed]))
    manifest.task = outcome.first("task") or manifest.task
    manifest.inputs = outcome.first("inputs").get("tensors") or manifest.inputs
    manifest.probe = outcome.first("probe") or manifest.probe
    manifest.work = [event.data for event in outcome.of("work")] or manifest.work
    manifest.shapes = [msgspec.convert(event.data, ShapeInfo) for event in outcome.of("shape")] or manifest.shapes
    manifest.passes = [msgspec.convert(event.data, PassInfo) for event in outcome.of("pass")] or manifest.passes
    if outcome.of("served"):
        manifest.served = msgspec.convert(outcome.first("served"), Served)
    measured = ceilings.known(manifest.device)
    if measured is not None:
        manifest.ceilings = measured.ceilings
    if outcome.of("ceilings"):
        manifest.ceilings = outcome.of("ceilings")[-1].data["ceilings"]
        if not outcome.of("load"):
            ceilings.keep(manifest.device, manifest.ceilings)
    if reference is not None and reference.status == "skipped" and (outcome.of("timing") or outcome.of("checked")):
        reference.status = "ok"


def together(one: Timing, more: Timing) -> Timing:
    """Merge the records of two timings."""
    if not one.method:
        return more
    busiest = max(one, more, key=lambda timing: timing.slower)
    return msgspec.structs.replace(
        one,
        rounds=one.rounds + more.rounds,
        notes=one.notes | more.notes,
        slower=busiest.slower,
        load=busiest.load,
    )


def command(run: Run, step: str, argv: Sequence[str], ended: Exit, log: Path, note: str = "") -> Command:
    """An ended process for the manifest's list; `note`: a remark."""
    how = "hung" if ended.hung else "over its memory" if ended.memory else ""
    said = "; ".join(filter(None, (note, how)))
    return Command(step, portable(argv, run), ended.code, round(ended.wall, 3), str(log.relative_to(run.logs)), said)


def _absorb_verdicts(outcome: runner.Outcome, by_name: Mapping[str, Impl], *, again: bool) -> None:
    for event in outcome.events:
        impl = by_name.get(event.impl)
        if impl is None:
            continue
        if event.kind == "check" and not (again and event.data["status"] == "ok"):
            check = msgspec.convert({**event.data, "passed": event.data["status"] == "ok"}, Check)
            impl.checks = [c for c in impl.checks if c.seed != check.seed] + [check]
        elif event.kind == "fragile":
            note = f"{event.data['input']}: {event.data['what']}"
            impl.fragile = list(dict.fromkeys([*impl.fragile, note]))
        elif event.kind == "note":
            impl.notes = list(dict.fromkeys([*impl.notes, event.data["what"]]))
        elif event.kind == "operators":
            impl.operators = event.data
        elif event.kind == "impl":
            status = event.data.get("status", "")
            if status == "loaded":
                impl.build_seconds = impl.build_seconds or event.data.get("build_seconds")
            elif status != "counted":
                impl.status, impl.reason = status, event.data.get("reason", "")
                impl.tail = event.data.get("tail", impl.tail)
    for name in by_name.keys() & outcome.fallen.keys():
        by_name[name].status, by_name[name].reason, by_name[name].tail = outcome.fallen[name]


def portable(argv: Sequence[str], run: Run) -> list[str]:
    """A command line without private paths: RUN for the run directory, ~ for the home."""
    home = os.path.expanduser("~")
    places = {str(run.path.resolve()): "RUN", str(run.path): "RUN", f"{Path.cwd()}/": ""}
    places |= {home: "~"} if len(home) > 1 else {}
    words = ["python" if word == sys.executable else word for word in argv]
    for place, name in places.items():
        words = [word.replace(place, name) for word in words]
    return words
