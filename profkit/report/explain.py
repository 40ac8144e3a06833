"""Findings for people: numbered by what they could win, and one line for what was not checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from analyzers.bottleneck import COLLECT, HINT, HOST, SCHEMA, Finding, Proof
from profkit.report import units
from profkit.report.markdown import short_name
from profkit.run import Run

SHOWN = 6
"""Findings of an implementation that a terminal shows; JSON and the page hold all."""

MINOR = 0.01
"""Share of the call below which a finding is counted, not shown."""


def findings_of(run: Run, kernel: str = "") -> list[Finding]:
    """The ranked findings of a run; `kernel`: only kernels whose name contains it."""
    from analyzers.explain import explain

    roof = run.roofline
    sms = run.manifest.device.get("sms")
    l2 = run.manifest.device.get("l2_bytes")
    return explain(
        run.analysis, roof, kernel=kernel, sms=float(sms or math.nan), l2_bytes=float(l2 or math.nan)
    )


def document(run: Run, findings: Iterable[Finding]) -> dict[str, object]:
    """The findings as one JSON document."""
    device = run.manifest.device.get("name", "")
    rows = [finding.to_dict() for finding in findings]
    return {"schema": SCHEMA, "sample": run.manifest.sample.id, "device": device, "findings": rows}


def text(run: Run, findings: Sequence[Finding]) -> str:
    """For the terminal: candidates first, the reference last."""
    parts = [f"{run.manifest.sample.id} on {run.manifest.device.get('name', 'unknown device')}"]
    for impl in in_order(run):
        parts += ["", headline(run, impl), *_impl([one for one in findings if one.impl == impl])]
    if all(one.severity == COLLECT for one in findings):
        parts += ["", "no rule found a reason"]
    return "\n".join(parts)


def in_order(run: Run) -> list[str]:
    """Implementations that were measured, candidates before the reference."""
    analysis = run.analysis
    names = [str(name) for name in analysis.impls["impl"]]
    return sorted(names, key=lambda name: name == analysis.reference)


def headline(run: Run, impl: str) -> str:
    """Time, floor and what binds an implementation."""
    row = run.analysis.impl(impl)
    said = [f"{impl}: {units.text(float(row['time']), 's')}"]
    if math.isfinite(float(row["floor_ratio"])):
        said.append(f"{units.digits(float(row['floor_ratio']))}x the floor of the algorithm")
    if str(row["bound_by"]) not in ("", "unknown", "nan"):
        said.append(f"bound by {row['bound_by']}")
    return ", ".join(said)


def _impl(findings: Sequence[Finding]) -> list[str]:
    told = [one for one in findings if one.severity != COLLECT]
    large = [one for one in told if not one.ratio < MINOR]
    lines: list[str] = []
    for number, one in enumerate(large[:SHOWN], 1):
        lines += _finding(number, one)
    hidden = len(told) - len(large[:SHOWN])
    if hidden:
        lines.append(f"  and {hidden} smaller findings (--json has all)")
    missing = [one.rule for one in findings if one.severity == COLLECT]
    if missing:
        lines.append(f"  not checked, counters missing: {', '.join(missing)}")
        lines.append(f"    collect: {next(one.next_step for one in findings if one.severity == COLLECT)}")
    return lines or ["  nothing found: no rule's evidence holds"]


def _finding(number: int, one: Finding) -> list[str]:
    lines = [f"  {number}. {gain(one)}: {one.title}"]
    if one.kernel:
        lines.append(f"     kernel: {short_name(one.kernel, 90)}")
    lines.append(f"     because: {'; '.join(proof(p) for p in one.evidence)}")
    lines.append(f"     next: {one.next_step}")
    lines.append(f"     expect: {one.expect}")
    return lines


def gain(one: Finding) -> str:
    """ "up to 58% (78.9 us)", or what kind of finding it is."""
    if one.severity == HINT:
        return "hint"
    if one.severity == COLLECT:
        return "not checked"
    said = f"up to {units.percent(one.ratio)} ({units.text(one.upper_bound, 's')})"
    return f"{said} of the caller's time" if one.severity == HOST else said


def proof(one: Proof) -> str:
    """ "dram_fraction = 0.787 (limit 0.6)"."""
    said = f"{one.counter} = {_number(one.value)}"
    if math.isnan(one.threshold):
        return said
    return f"{said} ({'>' if one.side == 'above' else '<'} {_number(one.threshold)})"


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1e6 else f"{value:.4g}"
