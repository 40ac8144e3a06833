"""Rules about a whole call: chains of launches, waiting for the host, intermediates in DRAM."""

from __future__ import annotations

import math

from analyzers.placement import LAUNCH_FLOOR, MANY, NEAR, launch_bound
from analyzers.rules.rule import CALL, HOST, Case, Proof, Subject, rule

HOST_RATIO = 1.2
"""Host seconds over device seconds a call from which the host holds the device up."""

CHAIN_EXCESS = 1.3


@rule(
    "launch-bound",
    ("kernels", "counted_time"),
    level=CALL,
    words={
        "": {
            "en": (
                "launch-bound: {count} kernels in {us} us, {each} us each",
                "fuse the chain into one kernel, or replay it as a CUDA graph (torch.compile, cudaGraph)",
                "one launch; time near the longest kernel alone",
            ),
            "zh": (
                "受限于 kernel 启动：{us} us 内有 {count} 个 kernel，平均每个 {each} us",
                "把整条链融合成一个 kernel，或用 CUDA graph 重放（torch.compile、cudaGraph）",
                "只有一次启动；时间接近其中最长的 kernel",
            ),
        },
        "compiled": {
            "en": (
                "launch-bound: {count} kernels in {us} us, {each} us each",
                "replay the chain as a CUDA graph (cudaGraph, the mode reduce-overhead of the compiler it has been through), or fuse it into one kernel by hand",
                "one launch; time near the longest kernel alone",
            ),
            "zh": (
                "受限于 kernel 启动：{us} us 内有 {count} 个 kernel，平均每个 {each} us",
                "用 CUDA graph 重放整条链（cudaGraph，或所用编译器的 reduce-overhead 模式），或手写融合成一个 kernel",
                "只有一次启动；时间接近其中最长的 kernel",
            ),
        },
    },
)
def _launch_bound(s: Subject) -> Case | None:
    count = s["kernels"]
    if count < 2 or not launch_bound(s.time, s["counted_time"], count):
        return None
    each = s.time / count
    params = {"count": f"{count:.0f}", "each": f"{each * 1e6:.3g}", "us": f"{s.time * 1e6:.3g}"}
    proofs = (Proof("kernels", count, MANY), Proof("time/kernels", each, 2 * LAUNCH_FLOOR, "below"))
    return Case(proofs, _floor(s), params, 1.0, variant=_compiled(s))


@rule(
    "host-bound",
    ("host_time",),
    level=CALL,
    words={
        "": {
            "en": (
                "the host is slower than the device: {host} us to submit a call, {us} us to run it",
                "fewer operators a call, a CUDA graph, or larger batches",
                "host time below device time; the wall clock wins up to {gap} us a call, the device time does not change",
            ),
            "zh": (
                "主机比设备慢：下发一次调用要 {host} us，设备执行只要 {us} us",
                "减少每次调用的算子数，用 CUDA graph，或加大 batch",
                "主机时间低于设备时间；每次调用的总耗时最多省 {gap} us，设备时间不变",
            ),
        },
    },
)
def _host_bound(s: Subject) -> Case | None:
    ratio = s["host_time"] / s.time if s.time > 0 else math.nan
    if not ratio >= HOST_RATIO:
        return None
    hidden = s["host_time"] - s.time
    params = {
        "host": f"{s['host_time'] * 1e6:.3g}",
        "us": f"{s.time * 1e6:.3g}",
        "gap": f"{hidden * 1e6:.3g}",
    }
    # The gap is time of the caller, outside the device time the other bounds speak of.
    return Case((Proof("host_time/time", ratio, HOST_RATIO),), s.time - hidden, params, 0.5, HOST)


@rule(
    "fuse",
    ("kernels", "bytes", "compulsory_bytes"),
    level=CALL,
    words={
        "": {
            "en": (
                "{count} launches pass intermediates through DRAM: {ratio}x the compulsory bytes",
                "fuse the chain (one kernel, Triton, torch.compile), so that each input is read once and each output written once",
                "one kernel, DRAM bytes near the compulsory ones",
            ),
            "zh": (
                "共 {count} 次 kernel 启动，中间结果经显存传递，访存量为最小访存量的 {ratio} 倍",
                "融合整条链（单个 kernel、Triton、torch.compile），每个输入只读一次、每个输出只写一次",
                "只有一个 kernel，访存量接近最小访存量",
            ),
        },
        "between": {
            "en": (
                "{count} launches pass intermediates through DRAM: {ratio}x the compulsory bytes; {stay} of the time computes, the rest moves them",
                "fuse what lies between the computing kernels: into their epilogues, or with each other (Triton, torch.compile, a fused library call)",
                "fewer kernels; the computing ones take as long as before",
            ),
            "zh": (
                "共 {count} 次 kernel 启动，中间结果经显存传递，访存量为最小访存量的 {ratio} 倍；{stay} 的时间用于计算，其余用于搬运",
                "把计算 kernel 之间的算子融合掉：并入其 epilogue，或彼此融合（Triton、torch.compile、库的融合接口）",
                "kernel 变少，计算 kernel 的时间不变",
            ),
        },
        "compiled": {
            "en": (
                "{count} launches pass intermediates through DRAM: {ratio}x the compulsory bytes, compiled as it is",
                "torch.compile stopped at these kernels: look for graph breaks, then fuse the chain by hand (one kernel, Triton), so that each input is read once and each output written once",
                "one kernel, DRAM bytes near the compulsory ones",
            ),
            "zh": (
                "已经过编译，仍有 {count} 次 kernel 启动，中间结果经显存传递，访存量为最小访存量的 {ratio} 倍",
                "torch.compile 只融合到这一步：先检查 graph break，再手写融合整条链（单个 kernel、Triton），每个输入只读一次、每个输出只写一次",
                "只有一个 kernel，访存量接近最小访存量",
            ),
        },
        "compiled-between": {
            "en": (
                "{count} launches pass intermediates through DRAM: {ratio}x the compulsory bytes; {stay} of the time computes, the rest moves them",
                "it is compiled already: fuse what it left between the computing kernels by hand, into their epilogues or with each other (Triton, CUTLASS, a fused library call)",
                "fewer kernels; the computing ones take as long as before",
            ),
            "zh": (
                "共 {count} 次 kernel 启动，中间结果经显存传递，访存量为最小访存量的 {ratio} 倍；{stay} 的时间用于计算，其余用于搬运",
                "已经过编译：编译后仍留在计算 kernel 之间的算子需手写融合，并入其 epilogue 或彼此融合（Triton、CUTLASS、库的融合接口）",
                "kernel 变少，计算 kernel 的时间不变",
            ),
        },
    },
)
def _fuse(s: Subject) -> Case | None:
    ratio = s["bytes"] / s["compulsory_bytes"] if s["compulsory_bytes"] > 0 else math.nan
    # Two launches of one kernel may be two halves of a task; many are a chain, whatever they are called.
    if s["kernels"] < 2 or (s["distinct"] < 2 and s["kernels"] < MANY) or not ratio > CHAIN_EXCESS:
        return None
    proofs = (Proof("compulsory_ratio", ratio, CHAIN_EXCESS), Proof("kernels", s["kernels"], 2))
    params = {"ratio": f"{ratio:.3g}", "count": f"{s['kernels']:.0f}"}
    # Kernels that compute for longer than they move data stay, whatever is fused to them.
    stay = s["computing_share"] * s.time
    if not stay > 0:
        return Case(proofs, _floor(s), params, 0.9, variant=_compiled(s))
    params["stay"] = f"{s['computing_share']:.0%}"
    variant = "-".join(filter(None, (_compiled(s), "between")))
    return Case(proofs, max(_floor(s), stay), params, 0.9, variant=variant, covers=s.moving)


@rule(
    "modelled",
    ("floor_time",),
    level=CALL,
    words={
        "": {
            "en": (
                "{ratio}x the floor of its work ({source}); without counters the reason is not known",
                "collect hardware counters (profkit profile SAMPLE --ncu)",
                "a reason, and a tighter bound",
            ),
            "zh": (
                "耗时为其工作量（{source}）理论下限的 {ratio} 倍；没有计数器，原因未知",
                "采集硬件计数器（profkit profile SAMPLE --ncu）",
                "得到原因，以及更紧的收益上界",
            ),
        },
        "near": {
            "en": (
                "at {share} of the {bound} roof, by the work of the task ({source}); no counters",
                "near this roof only less work helps; hardware counters say what is really moved (profkit profile SAMPLE --ncu)",
                "the share by counters is the same or higher",
            ),
            "zh": (
                "按任务工作量（{source}）计，已达{bound}上限的 {share}；没有计数器",
                "已接近该上限，只有减少工作量才有用；实际访存量可由硬件计数器得到（profkit profile SAMPLE --ncu）",
                "按计数器得出的利用率与此相同或更高",
            ),
        },
        "chain": {
            "en": (
                "{count} kernels a call, {ratio}x the floor of its work ({source}); no counters",
                "fuse the chain (one kernel, Triton, torch.compile); hardware counters say what passes through memory (--ncu)",
                "one kernel, time near the floor",
            ),
            "zh": (
                "每次调用 {count} 个 kernel，耗时为其工作量（{source}）理论下限的 {ratio} 倍；没有计数器",
                "融合整条链（单个 kernel、Triton、torch.compile）；经过显存的数据量可由硬件计数器得到（--ncu）",
                "只有一个 kernel，时间接近下限",
            ),
        },
        "compiled-chain": {
            "en": (
                "{count} kernels a call, {ratio}x the floor of its work ({source}); no counters",
                "it is compiled already: look for graph breaks, or fuse the chain by hand (one kernel, Triton); hardware counters say what passes through memory (--ncu)",
                "one kernel, time near the floor",
            ),
            "zh": (
                "每次调用 {count} 个 kernel，耗时为其工作量（{source}）理论下限的 {ratio} 倍；没有计数器",
                "已经过编译：检查 graph break，或手写融合整条链（单个 kernel、Triton）；经过显存的数据量可由硬件计数器得到（--ncu）",
                "只有一个 kernel，时间接近下限",
            ),
        },
    },
)
def _modelled(s: Subject) -> Case | None:
    """Without counters: how far the call is from the floor of its work, and nothing about why."""
    if s.text.get("source", "") in ("", "counted") or not s["floor_ratio"] > 1:
        return None
    share = s["attainable_fraction"]
    variant = "near" if share >= NEAR else "chain" if s["kernels"] >= MANY else ""
    variant = f"{_compiled(s)}-chain".strip("-") if variant == "chain" else variant
    params = {
        "ratio": f"{s['floor_ratio']:.3g}",
        "source": s.text["source"],
        "count": f"{s['kernels']:.0f}",
        "share": f"{share:.0%}",
        "bound": s.text.get("bound_by", ""),
    }
    return Case((Proof("floor_ratio", s["floor_ratio"], 1.0),), _floor(s), params, 0.05, variant=variant)


def _compiled(s: Subject) -> str:
    """The variant of what torch.compile has been through: it is no advice there."""
    return "compiled" if s.text.get("compiled") else ""


def _floor(s: Subject) -> float:
    return 0.0 if math.isnan(s["floor_time"]) else s["floor_time"]
