"""Rules about a whole call: chains of launches, gaps between them, waiting for the host, intermediates in DRAM."""

from __future__ import annotations

import math

from analyzers.busy import in_call
from analyzers.kernel_names import library
from analyzers.placement import LAUNCH_FLOOR, MANY, MOSTLY_IDLE, NEAR, launch_bound
from analyzers.rules.rule import CALL, HINT, HOST, Case, Proof, Subject, rule
from roofline.wording import seconds

HOST_RATIO = 1.2
"""Host seconds over device seconds a call from which the host holds the device up."""

CHAIN_EXCESS = 1.3

MOST = 0.6
"""Share of a call from which one kernel is what to look at."""

GAPS = 0.02
"""Share of a call that no counted kernel fills from which it is told by itself."""

BETWEEN = frozenset({""})
"""What a finding about the time between kernels covers: no kernel's."""


_LAUNCHES = {
    "": {
        "en": (
            "fuse the chain into one kernel, or replay it as a CUDA graph (torch.compile, cudaGraph)",
            "one launch; time near the longest kernel alone",
        ),
        "zh": (
            "把整条链融合成一个 kernel，或用 CUDA graph 重放（torch.compile、cudaGraph）",
            "只有一次启动；时间接近其中最长的 kernel",
        ),
    },
    "compiled": {
        "en": (
            "replay the chain as a CUDA graph (cudaGraph, the mode reduce-overhead of the compiler it has been through), or fuse it into one kernel by hand",
            "one launch; time near the longest kernel alone",
        ),
        "zh": (
            "用 CUDA graph 重放整条链（cudaGraph，或所用编译器的 reduce-overhead 模式），或手写融合成一个 kernel",
            "只有一次启动；时间接近其中最长的 kernel",
        ),
    },
}
_SHORT = {
    "en": "launch-bound: {count} kernels in {time}, {each} each",
    "zh": "受限于 kernel 启动：{time}内有 {count} 个 kernel，平均每个 {each}",
}
_SUMMED = {
    "en": (
        "{count} kernels, {each} each, about what a launch costs: what launching adds is in no sum of their times",
        "record a timeline (nsys's cuda_gpu_trace or its sqlite export, torch.profiler, profkit profile --nsys -- COMMAND): its gaps are what a CUDA graph or fusing them would win",
        "the gaps between the kernels have a size, or there are none",
    ),
    "zh": (
        "{count} 个 kernel，平均每个 {each}，与一次启动的开销相当：启动本身耗时多少，这些时间之和看不出来",
        "记录时间线（nsys 的 cuda_gpu_trace 或 sqlite 导出、torch.profiler、profkit profile --nsys -- COMMAND）：其中的间隙就是 CUDA graph 或融合能省下的时间",
        "得知 kernel 之间的间隙有多大，或没有间隙",
    ),
}
_IDLE = {
    "en": "launch-bound: {count} kernels run for {busy} of {time}",
    "zh": "受限于 kernel 启动：{time}内 {count} 个 kernel 只运行了 {busy}",
}


@rule(
    "launch-bound",
    ("kernels", "counted_time"),
    level=CALL,
    words={
        f"{way}{title}".strip("-"): {lang: (said[lang], *texts[lang]) for lang in texts}
        for way, texts in _LAUNCHES.items()
        for title, said in (("", _SHORT), ("-idle", _IDLE))
    }
    | {"summed": _SUMMED},
)
def _launch_bound(s: Subject) -> Case | None:
    count, busy = s["kernels"], _busy(s)
    if count < 2 or not launch_bound(s.time, busy, count):
        return None
    idle, each = busy < MOSTLY_IDLE * s.time, s.time / count
    params = {"count": f"{count:.0f}", "each": seconds(each), "time": seconds(s.time), "busy": seconds(busy)}
    shown = (
        Proof("busy/time", busy / s.time, MOSTLY_IDLE, "below")
        if idle
        else Proof("time/kernels", each, 2 * LAUNCH_FLOOR, "below")
    )
    if s["summed"] > 0:
        return Case((Proof("kernels", count, MANY), shown), s.time, params, 0.1, HINT, variant="summed")
    variant = _variant(s, "idle" if idle else "")
    return Case((Proof("kernels", count, 2 if idle else MANY), shown), _floor(s), params, 1.0, variant=variant)


@rule(
    "host-bound",
    ("host_time",),
    level=CALL,
    words={
        "": {
            "en": (
                "the host is slower than the device: {host} to submit a call, {time} to run it",
                "fewer operators a call, a CUDA graph, or larger batches",
                "host time below device time; the wall clock wins up to {gap} a call, the device time does not change",
            ),
            "zh": (
                "主机比设备慢：下发一次调用要 {host}，设备执行只要 {time}",
                "减少每次调用的算子数，用 CUDA graph，或加大 batch",
                "主机时间低于设备时间；每次调用的总耗时最多省 {gap}，设备时间不变",
            ),
        },
    },
)
def _host_bound(s: Subject) -> Case | None:
    ratio = s["host_time"] / s.time if s.time > 0 else math.nan
    if not ratio >= HOST_RATIO:
        return None
    hidden = s["host_time"] - s.time
    params = {"host": seconds(s["host_time"]), "time": seconds(s.time), "gap": seconds(hidden)}
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
                "{count} launches pass intermediates through DRAM: {ratio}x the compulsory bytes; {computing} compute, {moving} move them, {gaps} lie between launches",
                "fuse what lies between the computing kernels: into their epilogues, or with each other (Triton, torch.compile, a fused library call)",
                "fewer kernels; the computing ones take as long as before",
            ),
            "zh": (
                "共 {count} 次 kernel 启动，中间结果经显存传递，访存量为最小访存量的 {ratio} 倍；计算 {computing}，搬运 {moving}，kernel 之间的间隙 {gaps}",
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
                "{count} launches pass intermediates through DRAM: {ratio}x the compulsory bytes; {computing} compute, {moving} move them, {gaps} lie between launches",
                "it is compiled already: fuse what it left between the computing kernels by hand, into their epilogues or with each other (Triton, CUTLASS, a fused library call)",
                "fewer kernels; the computing ones take as long as before",
            ),
            "zh": (
                "共 {count} 次 kernel 启动，中间结果经显存传递，访存量为最小访存量的 {ratio} 倍；计算 {computing}，搬运 {moving}，kernel 之间的间隙 {gaps}",
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
    gaps = _gaps(s)
    stay = s["computing_share"] * (s.time - gaps)
    if not stay > 0:
        return Case(proofs, _floor(s), params, 0.9, variant=_variant(s))
    parts = {"computing": stay, "moving": s.time - gaps - stay, "gaps": gaps}
    params |= {name: seconds(took) for name, took in parts.items()}
    variant = _variant(s, "between")
    # Launches that are gone leave no gap between them: its bound holds the gaps, too.
    return Case(proofs, max(_floor(s), stay), params, 0.9, variant=variant, covers=s.moving | BETWEEN)


@rule(
    "launch-gaps",
    ("kernels", "counted_time"),
    level=CALL,
    words={
        "": {
            "en": (
                "{gaps} of {time} lie between the {count} launches, or in copies that were not counted",
                "fuse launches, replay the call as a CUDA graph (torch.compile, cudaGraph), or let a kernel begin before the one before it ends (programmatic dependent launch, PDL)",
                "the kernels take as long as before, less time lies between them",
            ),
            "zh": (
                "{time}中有 {gaps} 花在 {count} 次 kernel 启动之间的间隙，或未计数的拷贝上",
                "融合 kernel，用 CUDA graph 重放（torch.compile、cudaGraph），或让后一个 kernel 提前启动（可编程依赖启动，PDL）",
                "各 kernel 的时间不变，其间的间隙变短",
            ),
        },
        "compiled": {
            "en": (
                "{gaps} of {time} lie between the {count} launches, or in copies that were not counted",
                "replay the call as a CUDA graph (cudaGraph, the mode reduce-overhead of the compiler it has been through), or let a kernel begin before the one before it ends (programmatic dependent launch, PDL)",
                "the kernels take as long as before, less time lies between them",
            ),
            "zh": (
                "{time}中有 {gaps} 花在 {count} 次 kernel 启动之间的间隙，或未计数的拷贝上",
                "用 CUDA graph 重放（cudaGraph，或所用编译器的 reduce-overhead 模式），或让后一个 kernel 提前启动（可编程依赖启动，PDL）",
                "各 kernel 的时间不变，其间的间隙变短",
            ),
        },
    },
)
def _launch_gaps(s: Subject) -> Case | None:
    """Gaps that are worth a word and not what takes the time of the call: that is launch-bound."""
    gaps, count = _gaps(s), s["kernels"]
    if count < 2 or not gaps > GAPS * s.time or launch_bound(s.time, _busy(s), count):
        return None
    params = {"gaps": seconds(gaps), "time": seconds(s.time), "count": f"{count:.0f}"}
    proofs = (Proof("gaps/time", gaps / s.time, GAPS), Proof("kernels", count, 2))
    return Case(proofs, s.time - gaps, params, 0.3, variant=_variant(s), covers=BETWEEN)


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
        "one": {
            "en": (
                "one of {count} kernels takes {most} of the call, {ratio}x the floor of its work ({source}); no counters",
                "look at this kernel first: hardware counters say what holds it (profkit profile SAMPLE --ncu)",
                "a reason, and a tighter bound; fusing the others wins the rest at most",
            ),
            "zh": (
                "{count} 个 kernel 中有一个占本次调用的 {most}，耗时为其工作量（{source}）理论下限的 {ratio} 倍；没有计数器",
                "先看这个 kernel：它受限于什么可由硬件计数器得到（profkit profile SAMPLE --ncu）",
                "得到原因，以及更紧的收益上界；融合其余 kernel 最多只能省下其余时间",
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
    took = s["longest_share"] * min(s.time, _busy(s))
    chain = "one" if took >= MOST * s.time else "chain"
    variant = "near" if share >= NEAR else chain if s["kernels"] >= MANY else ""
    variant = _variant(s, variant) if variant == "chain" else variant
    params = {
        "ratio": f"{s['floor_ratio']:.3g}",
        "source": s.text["source"],
        "count": f"{s['kernels']:.0f}",
        "share": f"{share:.0%}",
        "bound": s.text.get("bound_by", ""),
    }
    far = Proof("floor_ratio", s["floor_ratio"], 1.0)
    if variant != "one":
        return Case((far,), _floor(s), params, 0.05, variant=variant)
    longest = s.text["longest"]
    params |= {"most": f"{took / s.time:.0%}"} | ({"library": library(longest)} if library(longest) else {})
    most = Proof("longest/time", took / s.time, MOST)
    return Case((far, most), max(_floor(s), s.time - took), params, 0.05, variant=variant, kernel=longest)


def _variant(s: Subject, way: str = "") -> str:
    """The variant of this name; another of what torch.compile has been through, for it is no advice there."""
    return "-".join(filter(None, ("compiled" if s.text.get("compiled") else "", way)))


def _busy(s: Subject) -> float:
    """Seconds of the call in which kernels run: as recorded, else as counted; NaN unknown."""
    return in_call(s.time, s["counted_time"], s["kernel_time"])


def _gaps(s: Subject) -> float:
    """Seconds of the call in which no kernel runs; 0 where the counted ones took as long or longer, or are not known."""
    return 0.0 if math.isnan(_busy(s)) else max(0.0, s.time - _busy(s))


def _floor(s: Subject) -> float:
    return 0.0 if math.isnan(s["floor_time"]) else s["floor_time"]
