"""Rules about arithmetic: pipes near peak, precision, tensor cores, instruction mix."""

from __future__ import annotations

import math
import re

from analyzers.pipes import PIPES, keeps
from analyzers.placement import ISSUE_BOUND, NEAR, REACH
from analyzers.rules.latency import near
from analyzers.rules.memory import fixed_traffic
from analyzers.rules.rule import Case, Proof, Subject, rule

FULL = 0.8
"""Share of a pipe's ceiling that few kernels exceed."""

IDLE_TENSOR = 0.6
TENSOR_TWIN = {"fp64": "tensor_fp64", "fp32": "tensor_tf32", "fp16": "tensor_fp16"}
_PRODUCT = re.compile(r"gemm|mat_?mul|matmul|conv|attention|linear|(?<![a-z])mm(?![a-z])|bmm|mma", re.IGNORECASE)

_SIDES = {"memory": "Memory", "compute": "Compute (SM)"}
_UNITS = {
    "memory": {"L1/TEX": "l1_throughput", "L2": "l2_throughput", "DRAM": "dram_throughput"},
    "compute": {
        "ALU": "pipe_alu",
        "FMA": "pipe_fma",
        "FP64": "pipe_fp64",
        "XU": "pipe_xu",
        "tensor cores": "pipe_tensor",
        "issue slots": "issue_active",
    },
}
"""Units of ncu's two sums; the busiest unit gives the sum's share, of all cycles or of the active ones."""
_ALIKE = 0.005
"""Difference of the two sums up to which one unit is in both: L1's load/store path, a pipe of the SM."""

_WARPGROUP = re.compile(r"wgmma|warpgroup|sm90|nvjet", re.IGNORECASE)
"""Kernels whose name shows that they use wgmma."""


def main_pipe(s: Subject) -> str:
    """The pipe with the longest time at its peak, "" without operations."""
    pipes = {name: t for name, t in s.roofs.items() if name in PIPES and t > 0}
    return max(pipes, key=lambda name: pipes[name], default="")


def is_product(s: Subject) -> bool:
    """Whether the task is a matrix product: by name, or the reference used tensor cores."""
    return bool(_PRODUCT.search(s.kernel)) or s["reference_tensor_share"] > 0.5


@rule("pipe-bound", ("compute_fraction",))
def _pipe_bound(s: Subject) -> Case | None:
    name, share = s.nearest
    if name not in PIPES or not share >= NEAR:
        return None
    variant = "-".join(["tensor"] * name.startswith("tensor_") + ["full"] * (share >= FULL))
    variant = "behind" if share >= FULL and s.text.get("ahead") == name else variant
    params, likely = {"pipe": name, "share": f"{share:.0%}"}, s.time * min(1.0, share / REACH)
    params["less"] = f"{1 - s['speedup']:.1%}"
    return Case(
        (Proof("compute_fraction", share, NEAR),), s.least(), params, share, variant=variant, likely=likely, share=share
    )


@rule("use-tensor-cores", ("flops",))
def _use_tensor(s: Subject) -> Case | None:
    pipe = main_pipe(s)
    twin = TENSOR_TWIN.get(pipe, "")
    peak = s.peaks.get(twin, math.nan)
    if not s["tensor_share"] < 0.05 or not is_product(s) or not peak > s.peaks.get(pipe, math.nan):
        return None
    share = s.roofs[pipe] / s.time
    # Far from compute the memory side decides, and tensor cores change nothing.
    if share < 0.1:
        return None
    proofs = (
        Proof("tensor_share", s["tensor_share"], 0.05, "below"),
        Proof(f"time at the {pipe} ceiling/time", share, 0.1),
    )
    after = s.least(pipe, **{twin: s["flops"] / peak})
    params = {"pipe": pipe, "twin": twin, "gain": f"{peak / s.peaks[pipe]:.3g}"}
    return Case(proofs, after, params, 0.4 + share / 2, variant="exact" if pipe == "fp64" else "")


@rule("tensor-idle", ("flops",))
def _tensor_idle(s: Subject) -> Case | None:
    pipe = main_pipe(s)
    share = s.roofs.get(pipe, math.nan) / s.time
    if not s["tensor_share"] > 0.5 or not pipe.startswith("tensor_") or not share < IDLE_TENSOR or near(s):
        return None
    hopper = s.text.get("cc") == "9.0" and share < 2 / 3 and not _WARPGROUP.search(s.kernel)
    params = {"pipe": pipe, "share": f"{share:.0%}"}
    proofs = (Proof(f"{pipe} used", share, IDLE_TENSOR, "below"),)
    # Larger tiles also ask less of L2 and L1, so only the pipe and the compulsory bytes bind.
    return Case(proofs, fixed_traffic(s), params, 1.0 - share / 2, variant="hopper" if hopper else "")


@rule("precision", ("flop_fp64", "flops"))
def _precision(s: Subject) -> Case | None:
    used, wanted = s["flop_fp64"], s.text.get("work_pipe", "")
    faster = s.peaks.get("fp32", math.nan) / s.peaks.get("fp64", math.nan)
    slow = used > 0.05 * s["flops"] and faster > 1 and s.roofs.get("fp64", 0) >= 0.1 * s.time
    if not slow or keeps(wanted) >= keeps("fp64"):
        return None
    after = s.least("fp64", fp32=(used + s["flop_fp32"]) / s.peaks["fp32"])
    share, (strength, variant) = used / s["flops"], (0.9, "") if wanted else (0.5, "maybe")
    params = {"share": f"{share:.0%}", "wanted": wanted or "fp32", "gain": f"{faster:.3g}"}
    return Case((Proof("flop_fp64/flops", share, 0.05),), after, params, strength, variant=variant)


@rule("issue-bound", ("issue_active",))
def _issue_bound(s: Subject) -> Case | None:
    if not s["issue_active"] >= ISSUE_BOUND or near(s):
        return None
    params = {"issue": f"{s['issue_active']:.0%}"}
    return Case((Proof("issue_active", s["issue_active"], ISSUE_BOUND),), s.least(), params, 0.5)


@rule("busy-unit", ("compute_throughput",), ("memory_throughput",))
def _busy_unit(s: Subject) -> Case | None:
    """Busy units by ncu's own shares, if no ceiling of the roofline is near."""
    if not near(s) or s.nearest[1] >= NEAR:
        return None
    sums = {side: s[f"{side}_throughput"] for side in _SIDES if s.has(f"{side}_throughput")}
    one, most = len(sums) == 2 and abs(sums["memory"] - sums["compute"]) <= _ALIKE, max(sums.values())
    busy = {word: s[name] for known in _UNITS.values() for word, name in known.items() if s[name] >= NEAR}
    # A sum is told where no unit of its side is known to be as busy.
    told = {"memory": most} if one else {side: share for side, share in sums.items() if share >= NEAR}
    told = {side: share for side, share in told.items() if not busy.keys() & _UNITS[side].keys()}
    busy |= {"L1/TEX" if one and not s.has("l1_throughput") else _SIDES[side]: share for side, share in told.items()}
    first, *_ = ordered = sorted(busy, key=lambda name: -busy[name])
    share, side = busy[first], max(sums, key=lambda name: sums[name])
    params = {"units": ", ".join(f"{name} {busy[name]:.0%}" for name in ordered)}
    proof, likely = Proof(f"{side}_throughput", most, NEAR), s.time * min(1.0, share / REACH)
    return Case((proof,), max(s.least(), s.time * min(1.0, share)), params, share, variant=first, likely=likely)
