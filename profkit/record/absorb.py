"""What a runner said, written into the run's manifest."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from collectors.caveat import Caveat
from profkit.launch import runner
from profkit.record import ceilings
from profkit.rundir.directory import Run
from profkit.rundir.manifest import Check, Command, Impl, PassInfo, Served, ShapeInfo, Timing


def absorb(run: Run, outcome: runner.Outcome, step: str, *, verdicts: bool = True, again: bool = False) -> None:
    """Put a runner's results into the manifest, those of implementations only with `verdicts`.

    again: of a further process, where what is wrong is wrong, and nothing else is new.
    """
    manifest, reference = run.manifest, run.manifest.reference
    known = {(caveat.what, caveat.about) for caveat in manifest.caveats}
    manifest.caveats += [one for one in _caveats(outcome) if (one.what, one.about) not in known]
    manifest.commands += commands(run, outcome, step)
    if verdicts:
        impls = {impl.name: impl for impl in manifest.impls if not (again and impl is reference)}
        _absorb_verdicts(outcome, impls, again=again)
    if outcome.of("timing"):
        manifest.timing = together(manifest.timing, _timing(outcome))
    if again:
        return
    facts = outcome.first("facts")
    manifest.device = facts.get("device", manifest.device)
    manifest.versions |= facts.get("versions", {})
    manifest.seeds = manifest.seeds or _seeds(outcome)
    manifest.allowed += [
        one.lower() for one in outcome.first("allowed").get("precisions", ()) if one.lower() not in manifest.allowed
    ]
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


def _timing(outcome: runner.Outcome) -> Timing:
    """The last record of a timing, with the heaviest load of any."""
    told = outcome.of("timing")[-1].data
    timing = msgspec.convert({key: value for key, value in told.items() if value is not None}, Timing)
    for event in outcome.of("load"):
        if event.data["slower"] > timing.slower:
            timing.slower, timing.load = event.data["slower"], event.data["said"]
    return timing


def together(one: Timing, more: Timing) -> Timing:
    """Join the records of two timings."""
    if not one.method:
        return more
    busiest = max(one, more, key=lambda timing: timing.slower)
    return msgspec.structs.replace(
        one,
        budget=one.budget + more.budget,
        rounds=one.rounds + more.rounds,
        warmup=one.warmup + more.warmup,
        dropped=one.dropped + more.dropped,
        reached=max(filter(None, (one.reached, more.reached)), default=None),
        notes=one.notes | more.notes,
        slower=busiest.slower,
        load=busiest.load,
    )


def _caveats(outcome: runner.Outcome) -> list[Caveat]:
    """What the runner caveats, each once."""
    found = [msgspec.convert({"about": event.impl, **event.data}, Caveat) for event in outcome.of("caveat")]
    return [caveat for number, caveat in enumerate(found) if caveat not in found[:number]]


def commands(run: Run, outcome: runner.Outcome, step: str) -> list[Command]:
    """Every start of the runner, as the manifest lists it."""
    return [
        Command(
            step,
            portable(argv, run),
            ended.code,
            round(ended.wall, 3),
            str(log.relative_to(run.logs)),
            "hung" if ended.hung else "over its memory" if ended.memory else "",
        )
        for argv, ended, log in outcome.exits
    ]


def _seeds(outcome: runner.Outcome) -> list[int]:
    """The seeds that a judge drew; of one that was interrupted the used ones."""
    used = [int(event.data["seed"]) for event in outcome.of("check")]
    return list(outcome.first("seeds").get("seeds", [])) or list(dict.fromkeys(used))


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
