"""Evidence about each implementation of a run, and the verdict on it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from analyzers.records import number
from analyzers.verdicts.analysis import Analysis
from analyzers.verdicts.implementation import WITHDRAWN
from analyzers.verdicts.shapes import Weighted
from analyzers.verdicts.speedup import word
from analyzers.verdicts.verdict import Evidence, Verdict, decide
from profkit.rundir.manifest import Impl, Manifest

if TYPE_CHECKING:
    from profkit.study.study import Study

NAN = math.nan
_SLICE = 4e-3
"""Least seconds that a preempted thread waits: a tick of Linux at 250 Hz. All threads of a call wait for it."""


def verdicts_of(study: Study, analysis: Analysis) -> dict[str, Verdict]:
    """Candidate -> verdict by the analysis of its run."""
    manifest = study.manifest
    # Nobody is called impossible by a bound that the reference itself beats, or by ceilings measured beside other work.
    busy = manifest.device.get("kind") == "cpu" and any(d.code == "busy" and not d.about for d in manifest.caveats)
    floored = not busy and all(caveat.code != WITHDRAWN for caveat in analysis.caveats)
    found = {one.name: _evidence(study, one, analysis.rows, floored) for one in manifest.candidates}
    return {name: decide(_served(one, study.weighted.get(name))) for name, one in found.items()}


def _evidence(study: Study, impl: Impl, rows: Mapping[str, Mapping[Any, Any]], floored: bool) -> Evidence:
    manifest, row = study.manifest, rows.get(impl.name, {})
    reference = manifest.reference.name if manifest.reference is not None else ""
    whose = study.whose.get(impl.name)
    hard, counted = number(row, "lower_bound_hard"), number(row, "counted_hard")
    if str(row.get("lower_bound_bound_by", "")) in ("fp32", "fp64") and _type_of(manifest) in ("fp16", "bf16", "fp8"):
        hard = NAN  # The reference computes in more than the task asks for.
    used, task = _precision(study, impl)
    if used and math.isnan(counted):
        hard = NAN  # In a coarser type the same work needs less time.
    return Evidence(
        impl=impl.name,
        status=impl.status,
        reason=impl.reason,
        unsound=tuple(one.text for one in impl.unsound),
        passing=tuple(manifest.probe.get("passing", ())),
        random=bool(manifest.probe.get("random", False)),
        ratio=str(row.get("pace", "") or ""),
        speedup=number(row, "speedup"),
        low=number(row, "speedup_low"),
        high=number(row, "speedup_high"),
        clocks=str(row.get("clocks", "") or ""),
        time=number(row, "time"),
        hard=hard if floored else NAN,
        counted_hard=counted,
        share=counted / hard if hard > 0 else NAN,
        used=used,
        task=task,
        own_ran=None if whose is None else not whose.never_launched,
        unbuilt=_told(manifest, impl.name, "not-built"),
        by_caller=str(row.get("method", "")).startswith("host") and manifest.device.get("kind") != "cpu",
        caller=str(row.get("caller", "") or ""),
        slower=_lengthened(manifest, impl.name, (row, rows.get(reference, {}))),
        load=_unsure(manifest, impl.name) or manifest.timing.load,
        switched=_told(manifest, impl.name, "settings-called"),
        fragile=tuple(impl.fragile),
        still=tuple(manifest.probe.get("still", ())),
        untried=_told(manifest, "", "untried"),
    )


def loaded(study: Study, name: str) -> float:
    """Largest factor by which other work can have lengthened an implementation's time; 1: none.

    At most the tasks per core, or the longest usual wait: median over fastest call, of any in the same rounds.
    """
    row, timings = study.analysis.rows.get(name, {}), study.timings
    known = _lengthened(study.manifest, name, (row,))
    if timings is not None and math.isfinite(known):
        calls = timings[timings["method"] == row.get("method")].groupby("impl")["seconds"]
        known = min(known, max(study.manifest.timing.slower, float((calls.median() / calls.min()).max())))
    return max(1.0, known)


def _lengthened(manifest: Manifest, name: str, sides: Sequence[Mapping[Any, Any]]) -> float:
    """Largest factor by which load can lengthen one of these times."""
    if _unsure(manifest, name):
        return math.inf
    busy, time = manifest.timing.slower, min(number(one, "time") for one in sides)
    # Waits for a core lengthen a call of so many seconds.
    return min(busy * (1 + _SLICE / time if busy > 1 and time > 0 else 1), max(map(_gaps, sides)))


def _unsure(manifest: Manifest, name: str) -> str:
    """The load during an implementation's timing, if it may explain any difference."""
    return next((d.how_much for d in manifest.caveats if d.code == "busy" and d.about == name), "")


def _gaps(row: Mapping[Any, Any]) -> float:
    """Largest factor by which a busy host can lengthen a time through gaps."""
    kernels = number(row, "kernel_time")
    return number(row, "time") / kernels if row.get("method") == "cupti" and kernels > 0 else math.inf


def _served(known: Evidence, weighted: Weighted | None) -> Evidence:
    """Evidence with the call-weighted speed-up instead of the first shape's."""
    if weighted is None:
        return known
    one = weighted.ratio
    # What clocks say of the first shape says nothing of all of them.
    figures = {"speedup": one.value, "low": one.low, "high": one.high, "caller": "", "clocks": ""}
    return msgspec.structs.replace(known, ratio=word(one.low, one.high), served=weighted.conditions, **figures)


def _type_of(manifest: Manifest) -> str:
    """Precision of the task; "" if not measured."""
    return str((manifest.probe.get("precision") or {}).get("type", ""))


def _precision(study: Study, impl: Impl) -> tuple[str, str]:
    """(computed, task) precision if lower and not allowed, by kernels or answer bits."""
    allowed, task, least = study.manifest.allowed, _type_of(study.manifest), impl.least
    for one in study.reduced_precision:
        if one.impl == impl.name and one.beyond(allowed):
            return one.beyond(allowed).upper(), one.asked
    if not task or least is None or least.precision in ("", task, *allowed):
        return "", ""
    return f"{least.precision.upper()} ({least.bits:.1f} bits)", task.upper()


def _told(manifest: Manifest, name: str, code: str) -> bool:
    """Whether a caveat with this code concerns this implementation; "": the whole run."""
    return any(one.code == code and one.about == name for one in manifest.caveats)
