"""Rules about latency: blocks, tail, occupancy and its limits, stalls, divergence.

If no ceiling is near, the gain is bounded by Little's law as well as by the ceilings: with the same code a kernel that
has a share o of the possible warps gets at most 1/o times faster with more.
"""

from __future__ import annotations

import math

from analyzers.placement import ISSUE_BOUND, LAUNCH_LOWER_BOUND, LOW, NEAR, SMALL, TAIL, UNEVEN
from analyzers.rules.rule import HINT, Case, Proof, Subject, rule
from roofline.units import seconds

MANY_THREADS = 24.0
"""Active threads of 32 per instruction below which a warp diverges; three quarters, convention."""
LONG = 10 * LAUNCH_LOWER_BOUND
"""Duration of a kernel in which start-up and memory latency are at most a tenth [s]."""


def near(s: Subject) -> bool:
    """Whether a ceiling is near, or a unit busy by its own share of its peak."""
    return bool(s.nearest[1] >= NEAR or s["compute_throughput"] >= NEAR or s["memory_throughput"] >= NEAR)


def waits(s: Subject) -> bool:
    """Whether a ceiling is known and none is near."""
    return bool(s.nearest[1] < NEAR) and not near(s)


def _few(s: Subject) -> bool:
    return bool(s["blocks"] < SMALL * s["sm_count"])


def _tensor(s: Subject) -> bool:
    """Whether it is a tensor kernel, which keeps its unit busy with few warps at low occupancy."""
    return bool(s["tensor_share"] > 0.5)


@rule("few-blocks", ("blocks", "sm_count"))
def _few_blocks(s: Subject) -> Case | None:
    if not waits(s) or not _few(s):
        return None
    used = s["blocks"] / s["sm_count"]
    warps = used * (s["occupancy"] if s.has("occupancy") else 0.0)
    took = s.time * s.scale
    # A kernel as short as a launch has no time to share out: more blocks would start and stop as fast.
    short = took < LAUNCH_LOWER_BOUND
    if short and s["launches"] == 1 and s["host_time"] > took:
        return None  # a call of one launch, with no other to fuse it with: host-bound tells what is left
    params = {"blocks": f"{s['blocks']:.0f}", "sms": f"{s['sm_count']:.0f}", "time": seconds(took)}
    proofs = (Proof("blocks", s["blocks"], SMALL * s["sm_count"], "below"),)
    return Case(proofs, max(s.least(), s.time * warps), params, 1.0, variant="short" if short else "")


@rule("small-grid", ("waves", "blocks", "sm_count"))
def _small_grid(s: Subject) -> Case | None:
    if not waits(s) or _few(s) or not s["waves"] < 1 - 1e-3:
        return None
    params = {"waves": f"{s['waves']:.2g}", "time": seconds(s.time)}
    variant = "long" if s.time * s.scale >= LONG else ""
    return Case((Proof("waves", s["waves"], 1.0, "below"),), s.least(), params, 1.0 - s["waves"] / 2, variant=variant)


@rule("tail-wave", ("waves",))
def _tail_wave(s: Subject) -> Case | None:
    waves = s["waves"]
    full = waves / math.ceil(waves) if waves > 0 else math.nan
    if not (waves > 1.001 and full < TAIL):
        return None
    params = {"waves": f"{waves:.3g}", "last": f"{waves - math.floor(waves):.0%}"}
    return Case((Proof("waves/ceil(waves)", full, TAIL, "below"),), max(s.least(), s.time * full), params, 1 - full)


# The first of equal limits is named: a block of one warp meets its count before anything it holds.
_LIMITS = {"block size": "limit_blocks", "registers": "limit_registers", "shared memory": "limit_shared_mem"}


@rule("low-occupancy", ("occupancy_limit",))
def _low_occupancy(s: Subject) -> Case | None:
    limit = s["occupancy_limit"]
    if not waits(s) or _few(s) or s["waves"] < 1 - 1e-3 or _tensor(s) or not limit <= LOW:
        return None
    known = {word: s[name] for word, name in _LIMITS.items() if s.has(name)}
    cause = min(known, key=lambda word: known[word], default="")
    held = s["occupancy"] if s.has("occupancy") else limit
    params = {
        "limit": f"{limit:.0%}",
        "cause": cause or "its resources",
        "registers": f"{s['registers']:.0f}",
        "shared": f"{s['shared_memory'] / 1024:.3g}",
        "block": f"{s['block_size']:.0f}",
    }
    proofs = [Proof("occupancy_limit", limit, LOW, "below")]
    proofs += [Proof(_LIMITS[cause], known[cause])] if cause else []
    after = max(s.least(), s.time * held)
    return Case(tuple(proofs), after, params, 1.0 - limit, variant=cause.replace(" ", "-"))


@rule("uneven-occupancy", ("occupancy_share",))
def _uneven(s: Subject) -> Case | None:
    share = s["occupancy_share"]
    if not waits(s) or _few(s) or s["waves"] < 1 - 1e-3 or _tensor(s) or not share < UNEVEN:
        return None
    params = {"share": f"{share:.0%}"}
    return Case((Proof("occupancy_share", share, UNEVEN, "below"),), max(s.least(), s.time * share), params, 0.3)


@rule("stalls", ("issue_active", "warp_latency"))
def _stalls(s: Subject) -> Case | None:
    if not waits(s) or not s["issue_active"] < ISSUE_BOUND or _few(s):
        return None
    reasons = {n[6:]: v for n, v in s.values.items() if n.startswith("stall_") and v > 0}
    for name in ("selected", "not_selected"):
        reasons.pop(name, None)
    top = max(reasons, key=lambda name: reasons[name], default="")
    if not top:
        return None
    share = reasons[top] / s["warp_latency"]
    proofs = (Proof("issue_active", s["issue_active"], ISSUE_BOUND, "below"), Proof(f"stall_{top}/warp_latency", share))
    params = {"issue": f"{s['issue_active']:.0%}", "reason": top, "share": f"{share:.0%}"}
    variant = top if top in ("long_scoreboard", "barrier", "short_scoreboard", "mio_throttle", "lg_throttle") else ""
    return Case(proofs, s.least(), params, 0.2, variant=variant)


@rule("latency", ("dram_fraction", "achieved_flops"))
def _latency(s: Subject) -> Case | None:
    """Fallback if no ceiling is near and no counter shows the cause."""
    if s.text.get("cause") or not waits(s) or s.has("issue_active") or _few(s) or s["waves"] < 1 - 1e-3:
        return None
    if not _tensor(s) and s["occupancy_limit"] <= LOW:
        return None
    name, share = s.nearest
    proof = Proof(f"{name}_fraction", share, NEAR, "below")
    return Case((proof,), s.least(), {"roof": name, "share": f"{share:.0%}"}, 0.1)


@rule("divergence", ("threads_per_inst",))
def _divergence(s: Subject) -> Case | None:
    threads = s["threads_per_inst"]
    if not threads < MANY_THREADS or s["block_size"] < 32:
        return None
    params = {"threads": f"{threads:.3g}"}
    return Case((Proof("threads_per_inst", threads, MANY_THREADS, "below"),), s.time, params, 0.3, HINT)
