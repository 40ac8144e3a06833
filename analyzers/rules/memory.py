"""Rules about bytes: DRAM, L2, access patterns, shared memory, local memory, atomics."""

from __future__ import annotations

import math

from analyzers.pipes import LEVELS
from analyzers.placement import MUCH, NEAR, REACH, SPILLED, WIDEST
from analyzers.rules.rule import Case, Proof, Subject, rule

EXCESS = 1.10
"""DRAM bytes over the compulsory bytes from which traffic is excessive; counters repeat within a few %."""

FULL = 0.75
"""Share of DRAM bandwidth that a plain copy exceeds on every chip seen; below, more bytes in flight help."""

REACHED = 0.8
"""Share of DRAM bandwidth expected after the fix."""

NARROW = 6.0
SLIGHT = 0.1
"""Share of the time that a kernel's L2 bytes need at the ceiling, below which their pattern is not the reason."""
STREAMS = 1.0
"""FLOP per compulsory byte below which a task has no reuse."""

L2_EXCESS = 4.0
CONFLICTS = 0.2
LOCAL = 0.1
ATOMICS = 0.1
HITS = 0.8
SECTOR = 32.0
REQUEST = 4 * SECTOR
"""Bytes of a request of 32 threads for 4 bytes each."""


def compulsory_time(subject: Subject) -> float:
    """Least seconds for the compulsory bytes, else for the moved ones; 0 without a ceiling."""
    least, peak = subject["compulsory_bytes"], subject.peaks.get("dram", math.nan)
    seconds = (subject["dram_bytes"] if math.isnan(least) else least) / peak
    return 0.0 if math.isnan(seconds) else seconds


def fixed_traffic(subject: Subject) -> float:
    """Least seconds with a fixed access pattern: same arithmetic, compulsory DRAM bytes."""
    return subject.least("l1", "l2", dram=compulsory_time(subject))


@rule("dram-bound", ("dram_fraction",))
def _dram_bound(s: Subject) -> Case | None:
    share = s["dram_fraction"]
    if not share >= NEAR or s.nearest[0] != "dram":
        return None
    least = s["dram_bytes"] <= EXCESS * s["compulsory_bytes"]
    variant = "headroom" if share < FULL else "least" if least else ""
    # Where a cache kept a part of what must move, the pins are no measure of how much of the ceiling the kernel has left.
    moved = max(share, compulsory_time(s) / s.time)
    params = {"share": f"{share:.0%}", "less": f"{max(0.0, 1 - moved / REACHED):.0%}"}
    proof = Proof("dram_fraction", share, NEAR)
    return Case(
        (proof,), s.least(), params, share, variant=variant, likely=s.time * min(1.0, moved / REACH), share=share
    )


@rule("dram-excess", ("dram_bytes", "compulsory_bytes"))
def _dram_excess(s: Subject) -> Case | None:
    ratio = s["dram_bytes"] / s["compulsory_bytes"] if s["compulsory_bytes"] > 0 else math.nan
    # Below the ceiling traffic is a cause only where it is large: latency explains the rest.
    if not ratio > EXCESS or not s["dram_fraction"] >= NEAR / 2:
        return None
    proofs = (Proof("compulsory_ratio", ratio, EXCESS), Proof("dram_fraction", s["dram_fraction"], NEAR / 2))
    params = {"ratio": f"{ratio:.2f}", "share": f"{s['dram_fraction']:.0%}"}
    return Case(proofs, fixed_traffic(s), params, min(1.0, s["dram_fraction"]))


@rule(
    "uncoalesced",
    ("global_load_sectors",),
    ("global_store_sectors",),
    ("l2_write", "output"),
    ("l2_bytes", "work_intensity"),
)
def _uncoalesced(s: Subject) -> Case | None:
    if s["tensor_share"] > 0.5:
        return None  # tiles for tensor cores are loaded in wide pieces that this counter does not understand
    # Up to 16 sectors may be a coalesced wide access; only wasted DRAM bytes tell the two apart.
    limit = NARROW if _dram_excess(s) is not None else WIDEST + 0.5
    sides = {"loads": "sectors_per_load", "stores": "sectors_per_store"}
    bad = {word: name for word, name in sides.items() if s[name] > limit}
    if not bad:
        # Of few sectors no pattern matters: 32 blocks that wrote 5 MB in 1.9 ms waited for something else.
        unlike = s.has("global_load_sectors") or s.roofs.get("l2", math.nan) < SLIGHT * s.time
        return None if unlike else _scattered_stores(s) or _suspected(s)
    worst = max(s[name] for name in bad.values())
    proofs = tuple(Proof(name, s[name], limit) for name in bad.values())
    params = {"sectors": f"{worst:.3g}", "which": " and ".join(bad)}
    return Case(proofs, fixed_traffic(s), params, min(0.9, worst / 32))


def _scattered_stores(s: Subject) -> Case | None:
    """Case by bytes written to L2 only: partly written sectors."""
    ratio = s["l2_write"] / s["output"] if s["output"] > 0 else math.nan
    if not ratio > SPILLED or not s["l2_write"] > MUCH * s["l2_bytes"]:
        return None
    proofs = (Proof("l2_write/output bytes", ratio, SPILLED),)
    return Case(proofs, fixed_traffic(s), {"sectors": f"{ratio:.3g}", "which": ""}, 0.8, variant="stores")


def _suspected(s: Subject) -> Case | None:
    """Case by L2 bytes only: a streaming task has no reason to request bytes repeatedly."""
    ratio = s["l2_bytes"] / s["compulsory_bytes"] if s["compulsory_bytes"] > 0 else math.nan
    if not (s["work_intensity"] < STREAMS and ratio > L2_EXCESS):
        return None
    proofs = (Proof("l2_bytes/compulsory_bytes", ratio, L2_EXCESS),)
    return Case(proofs, fixed_traffic(s), {"sectors": f"{ratio:.3g}", "which": ""}, 0.75, variant="suspected")


@rule("l2-bound", ("l2_fraction",), ("l2_hit_rate", "stall_long_scoreboard", "warp_latency"))
def _l2_bound(s: Subject) -> Case | None:
    name, share = s.nearest
    if name == "l2" and share >= NEAR:
        after = max(s.least("l2"), compulsory_time(s))
        return Case((Proof("l2_fraction", share, NEAR),), after, {"share": f"{share:.0%}"}, share)
    waits = s["stall_long_scoreboard"] / s["warp_latency"] if s["warp_latency"] > 0 else math.nan
    if not (s["l2_hit_rate"] >= HITS and waits >= 0.5 and s["dram_fraction"] < NEAR / 2 and s["occupancy"] >= 0.5):
        return None
    proofs = (
        Proof("l2_hit_rate", s["l2_hit_rate"], HITS),
        Proof("stall_long_scoreboard/warp_latency", waits, 0.5),
        Proof("dram_fraction", s["dram_fraction"], NEAR / 2, "below"),
    )
    params = {"share": f"{s['l2_hit_rate']:.0%}", "waits": f"{waits:.0%}"}
    return Case(proofs, s.least("l2", "l1"), params, waits, variant="waits")


@rule("bank-conflicts", ("shared_load_wavefronts",), ("shared_store_wavefronts",))
def _bank_conflicts(s: Subject) -> Case | None:
    sides = {"loads": "load_conflict_share", "stores": "store_conflict_share"}
    bad = {word: name for word, name in sides.items() if s[name] >= CONFLICTS}
    if not bad:
        return None
    extra = sum(s[f"shared_{word[:-1]}_conflicts"] for word in bad)
    busy = min(s["blocks"], s["sm_count"]) if s.has("blocks", "sm_count") else s["sm_count"]
    # An SM's shared memory passes one wavefront a cycle, so an extra one delays it by a cycle at most.
    delay = extra / (busy * s["sm_clock"])
    after = max(s.time - delay, fixed_traffic(s)) if not math.isnan(delay) else fixed_traffic(s)
    if s.time - after < 0.02 * s.time:
        return None
    worst = max(s[name] for name in bad.values())
    proofs = tuple(Proof(name, s[name], CONFLICTS) for name in bad.values())
    return Case(proofs, after, {"share": f"{worst:.0%}", "which": " and ".join(bad)}, worst)


@rule("local-memory", ("local_load_sectors", "local_store_sectors", "l1_bytes"))
def _local_memory(s: Subject) -> Case | None:
    local = (s["local_load_sectors"] + s["local_store_sectors"]) * SECTOR
    # Traffic that passes L1 by is not in its counter: then L2's says how much there was.
    traffic = max(s[LEVELS["l1"]], s[LEVELS["l2"]] if s["beyond_l1"] > 0 and s.has(LEVELS["l2"]) else 0.0)
    share = local / traffic if traffic > 0 else 0.0
    if not share >= LOCAL:
        return None
    dram = max(0.0, s["dram_bytes"] - local) / s.peaks.get("dram", math.nan)
    after = s.least("l1", "l2", dram=min(dram, compulsory_time(s)) if dram == dram else 0.0)
    params = {"share": f"{share:.0%}", "registers": f"{s['registers']:.0f}"}
    return Case((Proof("local bytes/l1_bytes", share, LOCAL),), after, params, min(1.0, 0.5 + share / 2))


@rule("atomics", ("atomic_requests", "reduction_requests"))
def _atomics(s: Subject) -> Case | None:
    atomics = s["atomic_requests"] + s["reduction_requests"]
    others = sum(s[n] for n in ("global_load_requests", "global_store_requests") if s.has(n))
    # TMA and its like move bytes without such a request: then L2's bytes say how much else there was.
    others = max(others, s["l2_bytes"] / REQUEST - atomics) if s.has("l2_bytes") else others
    share = atomics / (atomics + others) if atomics else 0.0
    if not share >= ATOMICS or not s.nearest[1] < NEAR:
        return None
    proofs = (Proof("atomics/global requests", share, ATOMICS), Proof("atomic requests", atomics, 0.0))
    return Case(proofs, s.least(), {"share": f"{share:.0%}", "count": f"{atomics:.3g}"}, min(1.0, 0.6 + share))
