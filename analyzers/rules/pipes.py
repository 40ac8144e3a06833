"""Rules about arithmetic: pipes near their peak, precision, tensor cores, the instruction mix."""

from __future__ import annotations

import math
import re

from analyzers.pipes import PIPES, keeps
from analyzers.placement import NEAR, REACH
from analyzers.rules.memory import fixed_traffic
from analyzers.rules.rule import Case, Proof, Subject, rule

FULL = 0.8
"""Share of a pipe's roof that few kernels pass: little is left to be won at the same operations."""

FEW_FMA = 0.5
IDLE_TENSOR = 0.6
BUSY_ISSUE = 0.8
TENSOR_TWIN = {"fp64": "tensor_fp64", "fp32": "tensor_tf32", "fp16": "tensor_fp16"}
_PRODUCT = re.compile(r"gemm|mat_?mul|matmul|conv|attention|linear|(?<![a-z])mm(?![a-z])|bmm|mma", re.IGNORECASE)

_WARPGROUP = re.compile(r"wgmma|warpgroup|sm90|nvjet", re.IGNORECASE)
"""Kernels whose name says that they are on wgmma already."""


def main_pipe(s: Subject) -> str:
    """The pipe with the longest time at its peak, "" without operations."""
    pipes = {name: t for name, t in s.roofs.items() if name in PIPES and t > 0}
    return max(pipes, key=lambda name: pipes[name], default="")


def is_product(s: Subject) -> bool:
    """Whether the task is a matrix product: by the kernel's name, or because the reference used tensor cores."""
    return bool(_PRODUCT.search(s.kernel)) or s["reference_tensor_share"] > 0.5


@rule(
    "pipe-bound",
    ("compute_fraction",),
    words={
        "": {
            "en": (
                "compute-bound: at {share} of the {pipe} roof",
                "fewer or cheaper operations: a better algorithm, a lower precision if the task allows, tensor cores if it is a matrix product",
                "time falls with the operations; the share stays",
            ),
            "zh": (
                "受限于算力：已达{pipe}上限的 {share}",
                "减少运算量或改用更便宜的运算：换更好的算法，任务允许时降低精度，矩阵乘改用 Tensor Core",
                "时间随运算量下降，利用率不变",
            ),
        },
        "full": {
            "en": (
                "compute-bound: at {share} of the {pipe} roof: little is left at these operations",
                "fewer or cheaper operations: a better algorithm, a lower precision if the task allows, tensor cores if it is a matrix product",
                "time falls with the operations; the share stays",
            ),
            "zh": (
                "受限于算力：已达{pipe}上限的 {share}：在现有运算量下余地很小",
                "减少运算量或改用更便宜的运算：换更好的算法，任务允许时降低精度，矩阵乘改用 Tensor Core",
                "时间随运算量下降，利用率不变",
            ),
        },
        "tensor-full": {
            "en": (
                "at {share} of the {pipe} roof: the tensor cores are busy, and little is left",
                "fewer or narrower operations: structure in the matrices, a lower precision if the task allows",
                "time falls with the operations; the share stays",
            ),
            "zh": (
                "已达{pipe}上限的 {share}：Tensor Core 接近饱和，余地很小",
                "减少运算量或降低位宽：利用矩阵的结构，任务允许时降低精度",
                "时间随运算量下降，利用率不变",
            ),
        },
        "tensor": {
            "en": (
                "at {share} of the {pipe} roof: the tensor cores are busy",
                "fewer or narrower operations: structure in the matrices, a lower precision if the task allows",
                "time falls with the operations; the share stays",
            ),
            "zh": (
                "已达{pipe}上限的 {share}：Tensor Core 接近饱和",
                "减少运算量或降低位宽：利用矩阵的结构，任务允许时降低精度",
                "时间随运算量下降，利用率不变",
            ),
        },
    },
)
def _pipe_bound(s: Subject) -> Case | None:
    name, share = s.nearest
    if name not in PIPES or not share >= NEAR:
        return None
    params = {"pipe": name, "share": f"{share:.0%}"}
    return Case(
        (Proof("compute_fraction", share, NEAR),),
        s.least(),
        params,
        share,
        variant="-".join(["tensor"] * name.startswith("tensor_") + ["full"] * (share >= FULL)),
        likely=s.time * min(1.0, share / REACH),
    )


_TENSOR_OF_LIBRARIES = {
    f"@{library}": {
        "en": (
            "a matrix product on the {pipe} pipe: {twin} has {gain}x its peak",
            f"{english}; {{twin}} rounds its inputs, so check the tolerance",
            "tensor_share near 1, time below the {pipe} roof",
        ),
        "zh": (
            "矩阵乘只用了{pipe}：{twin}的峰值为其 {gain} 倍",
            f"{chinese}；即{{twin}}，输入会被舍入，须核对精度",
            "Tensor Core 运算占比（tensor_share）接近 1，时间低于{pipe}给出的下限",
        ),
    }
    for library, english, chinese in (
        (
            "cuBLAS",
            "let cuBLAS use the tensor cores: in PyTorch torch.set_float32_matmul_precision('high'), or bf16 or fp16 by autocast",
            "让 cuBLAS 使用 Tensor Core：在 PyTorch 中设 torch.set_float32_matmul_precision('high')，或用 autocast 换成 bf16、fp16",
        ),
        (
            "cuDNN",
            "let cuDNN use the tensor cores: in PyTorch torch.backends.cudnn.allow_tf32 = True, or bf16 or fp16 by autocast",
            "让 cuDNN 使用 Tensor Core：在 PyTorch 中设 torch.backends.cudnn.allow_tf32 = True，或用 autocast 换成 bf16、fp16",
        ),
        (
            "TensorRT",
            "let the builder use the tensor cores: no --noTF32, or --fp16 or --int8 where the task allows it; few or odd channels (an RGB input) keep a layer off them, padding helps",
            "让构建器使用 Tensor Core：不加 --noTF32，任务允许时用 --fp16 或 --int8；通道数少或为奇数（如 RGB 输入）时该层用不上，可补齐通道",
        ),
    )
}


@rule(
    "use-tensor-cores",
    ("flops",),
    words=_TENSOR_OF_LIBRARIES
    | {
        "": {
            "en": (
                "a matrix product on the {pipe} pipe: {twin} has {gain}x its peak",
                "compute it by tensor cores (library, wgmma, Triton's tl.dot); {twin} rounds its inputs, so check the tolerance",
                "tensor_share near 1, time below the {pipe} roof",
            ),
            "zh": (
                "矩阵乘只用了{pipe}：{twin}的峰值为其 {gain} 倍",
                "改用 Tensor Core（库、wgmma、Triton 的 tl.dot），即{twin}；输入会被舍入，须核对精度",
                "Tensor Core 运算占比（tensor_share）接近 1，时间低于{pipe}给出的下限",
            ),
        },
        "exact": {
            "en": (
                "a matrix product on the plain {pipe} units: {twin} has {gain}x their peak, at the same precision",
                "compute it by the fp64 tensor cores (DMMA: library, mma.sync m8n8k4)",
                "tensor_share near 1, time below the plain {pipe} roof",
            ),
            "zh": (
                "矩阵乘只用了普通的{pipe}：{twin}的峰值为其 {gain} 倍，精度相同",
                "改用 fp64 Tensor Core（DMMA：库、mma.sync m8n8k4）",
                "Tensor Core 运算占比（tensor_share）接近 1，时间低于普通{pipe}给出的下限",
            ),
        },
    },
)
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
        Proof(f"time at the {pipe} roof/time", share, 0.1),
    )
    after = s.least(pipe, **{twin: s["flops"] / peak})
    params = {"pipe": pipe, "twin": twin, "gain": f"{peak / s.peaks[pipe]:.3g}"}
    return Case(proofs, after, params, 0.4 + share / 2, variant="exact" if pipe == "fp64" else "")


@rule(
    "tensor-idle",
    ("flops",),
    words={
        "": {
            "en": (
                "the tensor pipe is not kept busy: {pipe} at {share} of its roof, and nothing else is near",
                "feed it: deeper asynchronous staging (cp.async, TMA), larger tiles, more warps or warpgroups",
                "the tensor share rises, long_scoreboard stalls fall",
            ),
            "zh": (
                "Tensor Core 利用率仅 {share}：{pipe}没有用满，离其他上限也还远",
                "让 Tensor Core 有足够的数据：加深异步流水（cp.async、TMA），加大分块，增加线程束",
                "Tensor Core 利用率上升，long_scoreboard 停顿下降",
            ),
        },
        "hopper": {
            "en": (
                "the tensor pipe is not kept busy: {pipe} at {share} of its roof, and nothing else is near",
                "if this is mma.sync or wmma code its own roof is two thirds of that: move to wgmma with TMA (library, Triton, CUTLASS 3); else stage deeper",
                "the tensor share rises beyond 67 %, which only wgmma reaches on this chip",
            ),
            "zh": (
                "Tensor Core 利用率仅 {share}：{pipe}没有用满，离其他上限也还远",
                "若用的是 mma.sync 或 wmma，能达到的上限只有峰值的三分之二：改用 wgmma 与 TMA（库、Triton、CUTLASS 3）；否则加深流水",
                "Tensor Core 利用率超过 67%，此芯片上只有 wgmma 能达到",
            ),
        },
    },
)
def _tensor_idle(s: Subject) -> Case | None:
    pipe = main_pipe(s)
    share = s.roofs.get(pipe, math.nan) / s.time
    if not s["tensor_share"] > 0.5 or not pipe.startswith("tensor_") or not share < IDLE_TENSOR or s.nearest[1] >= NEAR:
        return None
    hopper = s.text.get("cc") == "9.0" and share < 2 / 3 and not _WARPGROUP.search(s.kernel)
    params = {"pipe": pipe, "share": f"{share:.0%}"}
    proofs = (Proof(f"{pipe} used", share, IDLE_TENSOR, "below"),)
    # Larger tiles also ask less of L2 and L1, so only the pipe and the compulsory bytes bind.
    return Case(proofs, fixed_traffic(s), params, 1.0 - share / 2, variant="hopper" if hopper else "")


@rule(
    "precision",
    ("flop_fp64", "flops"),
    words={
        "": {
            "en": (
                "fp64 arithmetic ({share} of the FLOP) in {wanted} work: the fp32 pipe has {gain}x its peak",
                "look for double literals (1.0 for 1.0f) and double library calls",
                "flop_fp64 0, time below the fp64 roof",
            ),
            "zh": (
                "{wanted} 的任务里出现 fp64 运算（占 FLOP 的 {share}）：fp32 的峰值为其 {gain} 倍",
                "查找双精度常量（1.0 应写成 1.0f）与双精度库函数",
                "fp64 运算（flop_fp64）为 0，时间低于 fp64 算力给出的下限",
            ),
        },
        "maybe": {
            "en": (
                "fp64 arithmetic is {share} of the FLOP: the fp32 pipe has {gain}x its peak",
                "if the data are fp32, look for double literals (1.0 for 1.0f); if the task needs fp64, leave it",
                "flop_fp64 0, time below the fp64 roof",
            ),
            "zh": (
                "fp64 运算占 FLOP 的 {share}：fp32 的峰值为其 {gain} 倍",
                "若数据是 fp32，查找双精度常量（1.0 应写成 1.0f）；若任务需要 fp64，则不必改",
                "fp64 运算（flop_fp64）为 0，时间低于 fp64 算力给出的下限",
            ),
        },
    },
)
def _precision(s: Subject) -> Case | None:
    used, wanted = s["flop_fp64"], s.text.get("work_pipe", "")
    faster = s.peaks.get("fp32", math.nan) / s.peaks.get("fp64", math.nan)
    if (
        not used > 0.05 * s["flops"]
        or not faster > 1
        or keeps(wanted) >= keeps("fp64")
        or s.roofs.get("fp64", 0) < 0.1 * s.time
    ):
        return None
    after = s.least("fp64", fp32=(used + s["flop_fp32"]) / s.peaks["fp32"])
    share = used / s["flops"]
    params = {"share": f"{share:.0%}", "wanted": wanted or "fp32", "gain": f"{faster:.3g}"}
    sure = bool(wanted)
    return Case(
        (Proof("flop_fp64/flops", share, 0.05),),
        after,
        params,
        0.9 if sure else 0.5,
        variant="" if sure else "maybe",
    )


@rule(
    "non-fma",
    ("inst_fp32_fma", "compute_fraction"),
    ("inst_fp64_fma", "compute_fraction"),
    words={
        "": {
            "en": (
                "only {share} of the {pipe} instructions are FMA: they are at {used} of what this mix can reach",
                "write a*b+c so that it contracts (no -fmad=false, no __fmul_rn), reorder sums",
                "fma_share rises, fewer instructions for the same FLOP",
            ),
            "zh": (
                "指令中只有 {share} 是 FMA：已达这种指令组合上限的 {used}（{pipe}）",
                "让 a*b+c 能合成 FMA（不用 -fmad=false、__fmul_rn），调整求和次序",
                "FMA 占比（fma_share）上升，同样的 FLOP 所需指令变少",
            ),
        },
    },
)
def _non_fma(s: Subject) -> Case | None:
    pipe, mix = main_pipe(s), s["fma_share"]
    if pipe not in ("fp64", "fp32", "fp16") or not mix < FEW_FMA:
        return None
    used = s.roofs[pipe] / s.time / ((1 + mix) / 2)
    if used < NEAR:
        return None
    proofs = (Proof("fma_share", mix, FEW_FMA, "below"), Proof("compute_fraction/fma_ceiling", used, NEAR))
    return Case(proofs, s.least(), {"share": f"{mix:.0%}", "pipe": pipe, "used": f"{used:.0%}"}, 0.8)


@rule(
    "issue-bound",
    ("issue_active",),
    words={
        "": {
            "en": (
                "the schedulers issue in {issue} of the cycles, and no roof is near: too many instructions for the work",
                "fewer address and loop instructions: unroll, wider loads, 32 bit indices, FMA",
                "inst_executed falls, issue_active stays high until a roof is near",
            ),
            "zh": (
                "指令发射率已达 {issue}，离各项上限却都还远：指令太多",
                "减少地址与循环指令：展开、更宽的加载、32 位下标、FMA",
                "指令数（inst_executed）下降，发射率保持较高，直到接近某项上限",
            ),
        },
    },
)
def _issue_bound(s: Subject) -> Case | None:
    if not s["issue_active"] >= BUSY_ISSUE or s.nearest[1] >= NEAR:
        return None
    params = {"issue": f"{s['issue_active']:.0%}"}
    return Case((Proof("issue_active", s["issue_active"], BUSY_ISSUE),), s.least(), params, 0.5)
