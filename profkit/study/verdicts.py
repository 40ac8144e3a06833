"""The evidence about each implementation of a run, and the verdict on it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from analyzers.kernels.precision import Reduced
from analyzers.kernels.provenance import Provenance
from analyzers.lower_bound import SLACK
from analyzers.records import number
from analyzers.verdicts.analysis import Analysis
from analyzers.verdicts.implementation import WITHDRAWN
from analyzers.verdicts.shapes import Weighted
from analyzers.verdicts.speedup import THRESHOLD, word
from analyzers.verdicts.verdict import Evidence, Verdict, decide
from profkit.rundir.manifest import Impl, Manifest

NAN = math.nan


def verdicts_of(
    manifest: Manifest,
    analysis: Analysis,
    reduced: Sequence[Reduced],
    whose: Mapping[str, Provenance],
    weighted: Mapping[str, Weighted],
) -> dict[str, Verdict]:
    """Candidate -> verdict. whose: candidate -> provenance of its kernels; weighted: its speed-up in a program."""
    rows = analysis.rows
    reference = manifest.reference.name if manifest.reference is not None else ""
    narrow = {one.impl: one for one in reduced if one.beyond(manifest.allowed)}
    # A lower bound that the reference itself goes below is none, nor is one under ceilings measured beside other work: nobody is
    # held against it.
    busy = manifest.device.get("kind") == "cpu" and any(d.code == "busy" and not d.about for d in manifest.caveats)
    floored = not busy and all(caveat.code != WITHDRAWN for caveat in analysis.caveats)
    return {
        impl.name: decide(
            _served(
                _evidence(
                    manifest,
                    impl,
                    rows.get(impl.name, {}),
                    narrow.get(impl.name),
                    whose.get(impl.name),
                    floored,
                    max(map(_gaps, (rows.get(impl.name, {}), rows.get(reference, {})))),
                ),
                weighted.get(impl.name),
            )
        )
        for impl in manifest.candidates
    }


def _evidence(
    manifest: Manifest,
    impl: Impl,
    row: Mapping[Any, Any],
    narrow: Reduced | None,
    whose: Provenance | None,
    floored: bool,
    gaps: float,
) -> Evidence:
    hard, counted = number(row, "lower_bound_hard"), number(row, "counted_hard")
    if str(row.get("lower_bound_bound_by", "")) in ("fp32", "fp64") and _type_of(manifest) in ("fp16", "bf16", "fp8"):
        hard = NAN  # The reference computes in more than the task asks for.
    used, task = _precision(manifest, impl, narrow)
    unsure = next((d.how_much for d in manifest.caveats if d.code == "busy" and d.about == impl.name), "")
    return Evidence(
        impl=impl.name,
        status=impl.status,
        reason=impl.reason,
        unsound=tuple(f"{one.tool}: {one.kind} in {one.kernel} {one.place}".rstrip() for one in impl.unsound),
        passing=tuple(manifest.probe.get("passing", ())),
        random=bool(manifest.probe.get("random", False)),
        ratio=str(row.get("pace", "") or ""),
        speedup=number(row, "speedup"),
        low=number(row, "speedup_low"),
        high=number(row, "speedup_high"),
        threshold=THRESHOLD,
        clocks=str(row.get("clocks", "") or ""),
        time=number(row, "time"),
        hard=hard if floored else NAN,
        counted_hard=counted,
        share=counted / hard if hard > 0 else NAN,
        slack=SLACK,
        used=used,
        task=task,
        own_ran=None if whose is None else not whose.never_launched,
        unbuilt=_told(manifest, impl.name, "not-built"),
        by_caller=str(row.get("method", "")).startswith("host") and manifest.device.get("kind") != "cpu",
        caller=str(row.get("caller", "") or ""),
        slower=math.inf if unsure else min(manifest.timing.slower, gaps),
        load=unsure or manifest.timing.load,
        switched=_told(manifest, impl.name, "settings-called"),
        fragile=tuple(impl.fragile),
        still=tuple(manifest.probe.get("still", ())),
    )


def _gaps(row: Mapping[Any, Any]) -> float:
    """How far a busy host can have lengthened a time: over that of its kernels alone, which it cannot touch."""
    kernels = number(row, "kernel_time")
    return number(row, "time") / kernels if row.get("method") == "cupti" and kernels > 0 else math.inf


def _served(known: Evidence, weighted: Weighted | None) -> Evidence:
    """The evidence with the speed-up over the shapes of a program in the place of the first one's."""
    if weighted is None:
        return known
    one = weighted.ratio
    # What clocks say of the first shape says nothing of all of them.
    figures = {"speedup": one.value, "low": one.low, "high": one.high, "caller": "", "clocks": ""}
    return msgspec.structs.replace(known, ratio=word(one.low, one.high), served=weighted.conditions, **figures)


def _type_of(manifest: Manifest) -> str:
    """The precision of the task; "" where it was not measured."""
    return str((manifest.probe.get("precision") or {}).get("type", ""))


def _precision(manifest: Manifest, impl: Impl, narrow: Reduced | None) -> tuple[str, str]:
    """(computed, task) precision where lower and not allowed, by kernels or answer bits."""
    if narrow is not None:
        return narrow.beyond(manifest.allowed).upper(), narrow.asked
    task = _type_of(manifest)
    least = impl.least
    if not task or least is None or least.precision in ("", task, *manifest.allowed):
        return "", ""
    return f"{least.precision.upper()} ({least.bits:.1f} bits)", str(task).upper()


def _told(manifest: Manifest, name: str, code: str) -> bool:
    """Whether a caveat with this code is about an implementation."""
    return any(one.code == code and one.about == name for one in manifest.caveats)
