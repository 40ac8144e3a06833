"""Rules about a whole call: launches, gaps, host delays, intermediates in DRAM."""

from __future__ import annotations

import math

from analyzers.kernels.names import library
from analyzers.placement import LAUNCH_LOWER_BOUND, MANY, MOSTLY_IDLE, NEAR, launch_bound
from analyzers.rules.rule import CALL, HINT, HOST, Case, Proof, Subject, rule
from analyzers.timeline.call import in_call
from roofline.units import seconds

HOST_RATIO = 1.2
"""Host seconds over device seconds per call from which the call is host-bound."""

CHAIN_EXCESS = 1.3

MOST = 0.6
"""Share of a call from which one kernel is the main target."""

ONE_THREAD, FEW_THREADS = 0.9, 0.75
"""Busy threads in a call below which it waits for something else; share of a CPU's threads below which some idle."""

FAR = 4.0
"""Ratio to its lower bound that a call would have on all threads, from which its loops come first."""

BUSY = "cpu-busy"
UNEXPLAINED = ("cpu", "cpu-torch", "cpu-dram", BUSY)
"""Variants of a CPU call that give its distance to the lower bound without a cause."""

GAPS = 0.02
"""Share of a call without a counted kernel, from which it is reported."""

BETWEEN = frozenset({""})
"""`covers` of a finding about the time between kernels."""


@rule("launch-bound", ("kernels", "counted_time"), level=CALL)
def _launch_bound(s: Subject) -> Case | None:
    count, busy = s["kernels"], _busy(s)
    if count < 2 or not launch_bound(s.time, busy, count):
        return None
    idle, each = busy < MOSTLY_IDLE * s.time, s.time / count
    params = {"count": f"{count:.0f}", "each": seconds(each), "time": seconds(s.time), "busy": seconds(busy)}
    shown = Proof("time/kernels", each, 2 * LAUNCH_LOWER_BOUND, "below")
    shown = Proof("busy/time", busy / s.time, MOSTLY_IDLE, "below") if idle else shown
    if s["summed"] > 0:
        return Case((Proof("kernels", count, MANY), shown), s.time, params, 0.1, HINT, variant="summed")
    variant = _variant(s, "idle" if idle else "")
    return Case((Proof("kernels", count, 2 if idle else MANY), shown), _lower_bound(s), params, 1.0, variant=variant)


@rule("host-bound", ("host_time",), level=CALL)
def _host_bound(s: Subject) -> Case | None:
    ratio = s["host_time"] / s.time if s.time > 0 else math.nan
    if not ratio >= HOST_RATIO or s.text.get("cpu"):
        return None
    hidden = s["host_time"] - s.time
    params = {"host": seconds(s["host_time"]), "time": seconds(s.time), "gap": seconds(hidden)}
    params["left"] = seconds(max(0.0, s.time - _lower_bound(s)))
    variant = "one" if s["kernels"] == 1 and _lower_bound(s) > 0 else ""
    # The gap is time of the caller, outside the device time the other bounds speak of.
    return Case((Proof("host_time/time", ratio, HOST_RATIO),), s.time - hidden, params, 0.5, HOST, variant=variant)


@rule("fuse", ("kernels", "bytes", "compulsory_bytes"), level=CALL)
def _fuse(s: Subject) -> Case | None:
    ratio = s["bytes"] / s["compulsory_bytes"] if s["compulsory_bytes"] > 0 else math.nan
    # Two launches of one kernel may be two halves of a task; many are a chain, whatever they are called.
    if s["kernels"] < 2 or (s["distinct"] < 2 and s["kernels"] < MANY) or not ratio > CHAIN_EXCESS:
        return None
    proofs = (Proof("compulsory_ratio", ratio, CHAIN_EXCESS), Proof("kernels", s["kernels"], 2))
    params = {"ratio": f"{ratio:.3g}", "count": f"{s['kernels']:.0f}"}
    # Kernels that compute for longer than they move data stay, whatever is fused to them.
    gaps = _gaps(s)
    stay = s["computing_share"] * (s.time - gaps)
    if not stay > 0:
        return Case(proofs, _lower_bound(s), params, 0.9, variant=_variant(s))
    parts = {"computing": stay, "moving": s.time - gaps - stay, "gaps": gaps}
    params |= {name: seconds(took) for name, took in parts.items()}
    variant = _variant(s, "between")
    # Launches that are gone leave no gap between them: its bound holds the gaps, too.
    return Case(proofs, max(_lower_bound(s), stay), params, 0.9, variant=variant, covers=s.moving | BETWEEN)


@rule("launch-gaps", ("kernels", "counted_time"), level=CALL)
def _launch_gaps(s: Subject) -> Case | None:
    """Gaps worth a finding that do not dominate the call; others are launch-bound."""
    gaps, count = _gaps(s), s["kernels"]
    if count < 2 or not gaps > GAPS * s.time or launch_bound(s.time, _busy(s), count):
        return None
    params = {"gaps": seconds(gaps), "time": seconds(s.time), "count": f"{count:.0f}"}
    proofs = (Proof("gaps/time", gaps / s.time, GAPS), Proof("kernels", count, 2))
    return Case(proofs, s.time - gaps, params, 0.3, variant=_variant(s), covers=BETWEEN)


@rule("modelled", ("lower_bound_time",), level=CALL)
def _modelled(s: Subject) -> Case | None:
    """Without counters: distance of the call to the lower bound of its work."""
    if s.text.get("source", "") in ("", "counted") or not s["lower_bound_ratio"] > 1:
        return None
    share = s["attainable_fraction"]
    took = s["longest_share"] * min(s.time, _busy(s))
    chain = "one" if took >= MOST * s.time else "chain"
    variant = "near" if share >= NEAR else chain if s["kernels"] >= MANY else ""
    variant = _variant(s, variant) if variant == "chain" else variant
    if s.text.get("cpu"):
        variant = "near-cpu" if variant == "near" else _on_a_cpu(s)
    params = {
        "ratio": f"{s['lower_bound_ratio']:.3g}",
        "source": s.text["source"],
        "count": f"{s['kernels']:.0f}",
        "share": f"{share:.0%}",
        "bound": s.text.get("bound_by", ""),
    }
    if s.text.get("cpu"):
        params |= {"shares": s.text.get("shares", ""), "busy": f"{s['threads']:.1f}", "of": f"{s['sm_count']:.0f}"}
    spread = s.time * s["threads"] / s["sm_count"]  # on all threads of a CPU
    params["left"] = f"{spread / (_lower_bound(s) or math.nan):.3g}"
    if variant == "cpu-threads" and spread > FAR * _lower_bound(s):
        variant = "cpu-loops"
    least = max(_lower_bound(s), spread if variant == "cpu-threads" else 0.0)
    above = Proof("lower_bound_ratio", s["lower_bound_ratio"], 1.0)
    if variant != "one":
        # Of a call without a reason nothing is known to be won: one with a reason comes first.
        likely = s.time if variant in UNEXPLAINED else spread if variant == "cpu-loops" else math.nan
        return Case((above,), least, params, 0.05, variant=variant, likely=likely)
    longest = s.text["longest"]
    params |= {"most": f"{took / s.time:.0%}"} | ({"library": library(longest)} if library(longest) else {})
    most = Proof("longest/time", took / s.time, MOST)
    return Case((above, most), max(_lower_bound(s), s.time - took), params, 0.05, variant=variant, kernel=longest)


def _on_a_cpu(s: Subject) -> str:
    """Variant for a CPU: bottleneck of a call that is near no ceiling."""
    held = held_up(s["threads"], s["sm_count"], s["own_slower"])
    # PyTorch's operators take the threads that they can use.
    if s["own_seconds"] >= MOST * s.time:
        return BUSY if held == BUSY else "cpu-torch"
    return held or ("cpu-dram" if s.text.get("roof") == "dram" else "cpu")


def held_up(threads: float, of: float, slower: float) -> str:
    """Variant for idle threads of a CPU; BUSY if other work may explain them."""
    if not threads < FEW_THREADS * of:
        return ""
    waited = threads * max(1.0, slower) >= FEW_THREADS * of
    return BUSY if waited else "cpu-threads" if threads >= ONE_THREAD else ""


def _variant(s: Subject, way: str = "") -> str:
    """Name of a variant; "compiled" first for code by torch.compile."""
    return "-".join(filter(None, ("compiled" if s.text.get("compiled") else "", way)))


def _busy(s: Subject) -> float:
    """Kernel seconds of the call: recorded, else counted; NaN unknown."""
    return in_call(s.time, s["counted_time"], s["kernel_time"])


def _gaps(s: Subject) -> float:
    """Seconds of the call without a kernel; 0 if the counted kernels took longer, or unknown."""
    return 0.0 if math.isnan(_busy(s)) else max(0.0, s.time - _busy(s))


def _lower_bound(s: Subject) -> float:
    return 0.0 if math.isnan(s["lower_bound_time"]) else s["lower_bound_time"]
