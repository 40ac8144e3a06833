"""Rules about waiting: too few blocks, the tail, occupancy and what limits it, stalls, divergence.

When no roof is near, what could be won is bounded by Little's law as well as by the roofs: with the same code
a kernel that has a share o of the warps a chip can hold gets at most 1/o times faster by holding more.
"""

from __future__ import annotations

import math

from analyzers.placement import IDLE_ISSUE, LAUNCH_FLOOR, LOW, NEAR, SMALL, TAIL, UNEVEN
from analyzers.rules.rule import HINT, Case, Proof, Subject, rule
from roofline.wording import seconds

MANY_THREADS = 24.0


def waits(s: Subject) -> bool:
    """Whether no roof is near."""
    return bool(s.nearest[1] < NEAR)


def _few(s: Subject) -> bool:
    return bool(s["blocks"] < SMALL * s["sm_count"])


def _tensor(s: Subject) -> bool:
    """Tensor kernels keep their unit busy with few warps: occupancy is no measure of them."""
    return bool(s["tensor_share"] > 0.5)


@rule(
    "few-blocks",
    ("blocks", "sm_count"),
    words={
        "": {
            "en": (
                "too few blocks: {blocks} for {sms} SMs",
                "split the work into more blocks (split-K, a grid-stride over more blocks, a second pass for the partial results)",
                "at least {sms} blocks, the DRAM or pipe share rises with the SMs in use",
            ),
            "zh": (
                "线程块太少：{sms} 个 SM 只有 {blocks} 个线程块",
                "把工作拆成更多线程块（split-K、更大的 grid、再用一遍合并部分结果）",
                "线程块不少于 {sms} 个，利用率随用上的 SM 数上升",
            ),
        },
        "short": {
            "en": (
                "{time}, no longer than a launch takes, in {blocks} blocks for {sms} SMs: start-up and memory latency are most of it",
                "do more in one launch (fuse it with its neighbours, batch the calls), or replay the launches as a CUDA graph",
                "time a call stays near the launch floor while the work of a launch grows",
            ),
            "zh": (
                "只有 {time}，不比一次 kernel 启动长，{sms} 个 SM 只有 {blocks} 个线程块：时间主要是启动与访存延迟",
                "让一次启动完成更多工作（与前后的算子融合、合并多次调用），或用 CUDA graph 重放",
                "单次启动的工作量变大，单次调用的时间仍接近启动开销",
            ),
        },
    },
)
def _few_blocks(s: Subject) -> Case | None:
    if not waits(s) or not _few(s):
        return None
    used = s["blocks"] / s["sm_count"]
    warps = used * (s["occupancy"] if s.has("occupancy") else 0.0)
    took = s.time * s.scale
    params = {"blocks": f"{s['blocks']:.0f}", "sms": f"{s['sm_count']:.0f}", "time": seconds(took)}
    proofs = (Proof("blocks", s["blocks"], SMALL * s["sm_count"], "below"),)
    # A kernel as short as a launch has no time to share out: more blocks would start and stop as fast.
    variant = "short" if took < LAUNCH_FLOOR else ""
    return Case(proofs, max(s.least(), s.time * warps), params, 1.0 - used / 2, variant=variant)


@rule(
    "small-grid",
    ("waves", "blocks", "sm_count"),
    words={
        "": {
            "en": (
                "less than one wave of blocks ({waves}), {time} under Nsight Compute: start-up and memory latency show",
                "smaller blocks or less work a thread, more loads in flight a thread; or do more in one launch",
                "waves near 1, time near the launch floor",
            ),
            "zh": (
                "线程块不足一个 wave（{waves}），总共 {time}：启动与访存延迟掩盖不住",
                "减小线程块或每线程的工作量，增加每线程同时未完成的加载；或让一次启动完成更多工作",
                "接近一个 wave，时间接近启动开销",
            ),
        },
    },
)
def _small_grid(s: Subject) -> Case | None:
    if not waits(s) or _few(s) or not s["waves"] < 1 - 1e-3:
        return None
    params = {"waves": f"{s['waves']:.2g}", "time": seconds(s.time)}
    return Case((Proof("waves", s["waves"], 1.0, "below"),), s.least(), params, 1.0 - s["waves"] / 2)


@rule(
    "tail-wave",
    ("waves",),
    words={
        "": {
            "en": (
                "tail: {waves} waves of blocks, the last one {last} full",
                "make the grid a multiple of a wave, smaller blocks, or a persistent kernel",
                "waves whole, time falls by the idle share",
            ),
            "zh": (
                "尾部效应：共 {waves} 个 wave，最后一个 wave 只占满 {last}",
                "让 grid 为 wave 的整数倍，减小线程块，或改用 persistent kernel",
                "wave 数为整数，时间按空闲比例下降",
            ),
        },
    },
)
def _tail_wave(s: Subject) -> Case | None:
    waves = s["waves"]
    full = waves / math.ceil(waves) if waves > 0 else math.nan
    if not (waves > 1.001 and full < TAIL):
        return None
    params = {"waves": f"{waves:.3g}", "last": f"{waves - math.floor(waves):.0%}"}
    return Case((Proof("waves/ceil(waves)", full, TAIL, "below"),), max(s.least(), s.time * full), params, 1 - full)


# The first of equal limits is named: a block of one warp meets its count before anything it holds.
_LIMITS = {"block size": "limit_blocks", "registers": "limit_registers", "shared memory": "limit_shared_mem"}


@rule(
    "low-occupancy",
    ("occupancy_limit",),
    words={
        "": {
            "en": (
                "latency-bound at {limit} occupancy, limited by {cause}",
                "free the limiting resource, or put more independent work in flight a thread",
                "occupancy and the nearest roof's share rise together",
            ),
            "zh": (
                "受限于延迟：占用率上限 {limit}，由{cause}决定",
                "腾出这一资源，或让每个线程有更多相互独立的工作同时进行",
                "占用率与最接近的那项上限的利用率一起上升",
            ),
        },
        "registers": {
            "en": (
                "latency-bound at {limit} occupancy, limited by registers ({registers} a thread)",
                "keep fewer values alive, smaller tiles a thread, or __launch_bounds__; watch for spills",
                "occupancy_limit rises, local memory stays 0",
            ),
            "zh": (
                "受限于延迟：占用率上限 {limit}，由寄存器决定（每线程 {registers} 个）",
                "减少同时存活的变量，缩小每线程的分块，或用 __launch_bounds__；注意寄存器溢出",
                "占用率上限上升，本地内存仍为 0",
            ),
        },
        "shared-memory": {
            "en": (
                "latency-bound at {limit} occupancy, limited by shared memory ({shared} KiB a block)",
                "smaller tiles or fewer stages; reuse buffers whose lifetimes do not overlap",
                "occupancy_limit rises, the nearest roof's share with it",
            ),
            "zh": (
                "受限于延迟：占用率上限 {limit}，由共享内存决定（每块 {shared} KiB）",
                "缩小分块或减少流水级数；让生命周期不重叠的缓冲区共用空间",
                "占用率上限上升，最接近的那项上限的利用率随之上升",
            ),
        },
        "block-size": {
            "en": (
                "latency-bound at {limit} occupancy, limited by the block size ({block} threads)",
                "use blocks of 128 threads or more",
                "occupancy_limit rises, the nearest roof's share with it",
            ),
            "zh": (
                "受限于延迟：占用率上限 {limit}，由线程块大小决定（{block} 个线程）",
                "线程块用 128 个以上的线程",
                "占用率上限上升，最接近的那项上限的利用率随之上升",
            ),
        },
    },
)
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


@rule(
    "uneven-occupancy",
    ("occupancy_share",),
    words={
        "": {
            "en": (
                "SMs hold {share} of the warps they could: uneven or short-lived blocks",
                "even out the work of the blocks, or let a block do more",
                "achieved occupancy near the theoretical one",
            ),
            "zh": (
                "SM 上的线程束只有理论值的 {share}：线程块之间工作量不均，或执行时间太短",
                "均衡各线程块的工作量，或让一个线程块做更多",
                "实际占用率接近理论值",
            ),
        },
    },
)
def _uneven(s: Subject) -> Case | None:
    share = s["occupancy_share"]
    if not waits(s) or _few(s) or s["waves"] < 1 - 1e-3 or _tensor(s) or not share < UNEVEN:
        return None
    params = {"share": f"{share:.0%}"}
    return Case((Proof("occupancy_share", share, UNEVEN, "below"),), max(s.least(), s.time * share), params, 0.3)


@rule(
    "stalls",
    ("issue_active", "warp_latency"),
    words={
        "": {
            "en": (
                "few instructions issue ({issue} of the cycles); a warp waits {share} of its time for {reason}",
                "see which source lines wait for it (profkit profile SAMPLE --lines, then profkit explain RUN --lines)",
                "issue_active rises",
            ),
            "zh": (
                "指令发射率低（{issue}）；线程束有 {share} 的时间在等 {reason}",
                "查看是哪几行源码在等（profkit profile SAMPLE --lines，再 profkit explain RUN --lines）",
                "指令发射率（issue_active）上升",
            ),
        },
        "long_scoreboard": {
            "en": (
                "few instructions issue ({issue} of the cycles); {share} of a warp's time is waiting for global memory",
                "more loads in flight: unroll, wider loads (16 B a thread), prefetch (cp.async, TMA)",
                "long_scoreboard falls, the DRAM share rises",
            ),
            "zh": (
                "指令发射率低（{issue}）；线程束有 {share} 的时间在等全局内存",
                "增加同时未完成的加载：循环展开、加宽加载（每线程 16 B）、预取（cp.async、TMA）",
                "long_scoreboard 停顿下降，DRAM 带宽利用率上升",
            ),
        },
        "barrier": {
            "en": (
                "few instructions issue ({issue} of the cycles); {share} of a warp's time is waiting at barriers",
                "fewer __syncthreads, smaller blocks, or double buffering",
                "barrier stalls fall, issue_active rises",
            ),
            "zh": (
                "指令发射率低（{issue}）；线程束有 {share} 的时间在等同步",
                "减少 __syncthreads，减小线程块，或用双缓冲",
                "barrier 停顿下降，指令发射率（issue_active）上升",
            ),
        },
        "short_scoreboard": {
            "en": (
                "few instructions issue ({issue} of the cycles); {share} of a warp's time is waiting for shared memory or special functions",
                "fewer trips to shared memory (registers, wider accesses), fewer exp, log and divisions",
                "short_scoreboard falls, issue_active rises",
            ),
            "zh": (
                "指令发射率低（{issue}）；线程束有 {share} 的时间在等共享内存或特殊函数单元",
                "减少对共享内存的访问（改用寄存器、加宽访问），减少 exp、log 与除法",
                "short_scoreboard 停顿下降，指令发射率（issue_active）上升",
            ),
        },
        "mio_throttle": {
            "en": (
                "few instructions issue ({issue} of the cycles); {share} of a warp's time is waiting for the shared-memory queue",
                "wider shared accesses (16 B), fewer of them, no conflicts",
                "mio_throttle falls, issue_active rises",
            ),
            "zh": (
                "指令发射率低（{issue}）；线程束有 {share} 的时间在等共享内存队列",
                "加宽共享内存访问（16 B），减少次数，消除冲突",
                "mio_throttle 停顿下降，指令发射率（issue_active）上升",
            ),
        },
        "lg_throttle": {
            "en": (
                "few instructions issue ({issue} of the cycles); {share} of a warp's time is waiting for the queue of global and local memory",
                "fewer and wider global accesses; no local memory",
                "lg_throttle falls, issue_active rises",
            ),
            "zh": (
                "指令发射率低（{issue}）；线程束有 {share} 的时间在等全局/本地内存队列",
                "全局内存访问少而宽；不用本地内存",
                "lg_throttle 停顿下降，指令发射率（issue_active）上升",
            ),
        },
    },
)
def _stalls(s: Subject) -> Case | None:
    if not waits(s) or not s["issue_active"] < IDLE_ISSUE or _few(s):
        return None
    reasons = {n[6:]: v for n, v in s.values.items() if n.startswith("stall_") and v > 0}
    for name in ("selected", "not_selected"):
        reasons.pop(name, None)
    top = max(reasons, key=lambda name: reasons[name], default="")
    if not top:
        return None
    share = reasons[top] / s["warp_latency"]
    proofs = (Proof("issue_active", s["issue_active"], IDLE_ISSUE, "below"), Proof(f"stall_{top}/warp_latency", share))
    params = {"issue": f"{s['issue_active']:.0%}", "reason": top, "share": f"{share:.0%}"}
    variant = top if top in ("long_scoreboard", "barrier", "short_scoreboard", "mio_throttle", "lg_throttle") else ""
    return Case(proofs, s.least(), params, 0.2, variant=variant)


@rule(
    "latency",
    ("dram_fraction", "achieved_flops"),
    words={
        "": {
            "en": (
                "no roof is near (the nearest, {roof}, is at {share}), and nothing that was counted shows why",
                "collect the deep counters: they say what its warps wait for (profkit profile SAMPLE --deep)",
                "the stall reasons name the next step",
            ),
            "zh": (
                "离各项上限都还远（最接近的{roof}也只有 {share}），已有的计数器看不出原因",
                "采集更多计数器，看线程束在等什么（profkit profile SAMPLE --deep）",
                "由停顿原因得出下一步",
            ),
        },
    },
)
def _latency(s: Subject) -> Case | None:
    """What is left to say when no roof is near and no counter tells why."""
    if s.text.get("cause") or not waits(s) or s.has("issue_active") or _few(s) or s["waves"] < 1 - 1e-3:
        return None
    if not _tensor(s) and s["occupancy_limit"] <= LOW:
        return None
    name, share = s.nearest
    return Case(
        (Proof(f"{name}_fraction", share, NEAR, "below"),),
        s.least(),
        {"roof": name, "share": f"{share:.0%}"},
        0.1,
    )


@rule(
    "divergence",
    ("threads_per_inst",),
    words={
        "": {
            "en": (
                "{threads} of 32 threads are active in an instruction: branches diverge, or threads idle",
                "sort or regroup the work so that a warp takes one path",
                "threads_per_inst near 32",
            ),
            "zh": (
                "平均每条指令 32 个线程中只有 {threads} 个在工作：分支发散，或有线程空闲",
                "对工作排序或重新分组，让同一线程束走同一条分支",
                "每条指令的活动线程数（threads_per_inst）接近 32",
            ),
        },
    },
)
def _divergence(s: Subject) -> Case | None:
    threads = s["threads_per_inst"]
    if not threads < MANY_THREADS or s["block_size"] < 32:
        return None
    params = {"threads": f"{threads:.3g}"}
    return Case((Proof("threads_per_inst", threads, MANY_THREADS, "below"),), s.time, params, 0.3, HINT)
