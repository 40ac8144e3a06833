"""Rules about waiting: too few blocks, the tail, occupancy and what limits it, stalls, divergence.

When no roof is near, what could be won is bounded by Little's law as well as by the roofs: with the same code
a kernel that has a share o of the warps a chip can hold gets at most 1/o times faster by holding more.
"""

from __future__ import annotations

import math

from analyzers.placement import IDLE_ISSUE, LAUNCH_FLOOR, LOW, NEAR, SMALL, TAIL, UNEVEN
from analyzers.rules.rule import HINT, Case, Proof, Subject, rule

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
                "线程块过少：{blocks} 个块，{sms} 个 SM",
                "把工作拆成更多块（split-K、更大的网格、第二遍合并部分结果）",
                "至少 {sms} 个块，占比随使用的 SM 上升",
            ),
        },
        "short": {
            "en": (
                "{us} us, no longer than a launch takes, in {blocks} blocks for {sms} SMs: start-up and memory latency are most of it",
                "do more in one launch (fuse it with its neighbours, batch the calls), or replay the launches as a CUDA graph",
                "time a call stays near the launch floor while the work of a launch grows",
            ),
            "zh": (
                "{us} us，不比一次启动长，{sms} 个 SM 只用 {blocks} 个块：主要是启动与访存延迟",
                "一次启动做更多事（与前后算子融合、合并多次调用），或用 CUDA graph 重放启动",
                "单次启动的工作变多，时间仍接近启动下限",
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
    params = {"blocks": f"{s['blocks']:.0f}", "sms": f"{s['sm_count']:.0f}", "us": f"{took * 1e6:.3g}"}
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
                "less than one wave of blocks ({waves}), {us} us under Nsight Compute: start-up and memory latency show",
                "smaller blocks or less work a thread, more loads in flight a thread; or do more in one launch",
                "waves near 1, time near the launch floor",
            ),
            "zh": (
                "不足一波线程块（{waves}），总共 {us} us：启动与访存延迟显现",
                "更小的块或每线程更少的工作、每线程更多在途加载；或一次启动做更多事",
                "接近一波，时间接近启动下限",
            ),
        },
    },
)
def _small_grid(s: Subject) -> Case | None:
    if not waits(s) or _few(s) or not s["waves"] < 1 - 1e-3:
        return None
    params = {"waves": f"{s['waves']:.2g}", "us": f"{s.time * 1e6:.3g}"}
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
                "尾部效应：{waves} 波线程块，最后一波只有 {last}",
                "让网格为整波的倍数、用更小的块，或持久化 kernel",
                "整波，时间按空闲比例下降",
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
                "受延迟限制，占用率 {limit}，受限于 {cause}",
                "释放受限的资源，或让每线程有更多独立的工作在途",
                "占用率与最近屋顶的占比一起上升",
            ),
        },
        "registers": {
            "en": (
                "latency-bound at {limit} occupancy, limited by registers ({registers} a thread)",
                "keep fewer values alive, smaller tiles a thread, or __launch_bounds__; watch for spills",
                "occupancy_limit rises, local memory stays 0",
            ),
            "zh": (
                "受延迟限制，占用率 {limit}，受限于寄存器（每线程 {registers} 个）",
                "减少存活的值、缩小每线程分块，或用 __launch_bounds__；留意溢出",
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
                "受延迟限制，占用率 {limit}，受限于共享内存（每块 {shared} KiB）",
                "更小的分块或更少的级数；复用生命期不重叠的缓冲",
                "占用率上限上升，最近屋顶的占比随之上升",
            ),
        },
        "block-size": {
            "en": (
                "latency-bound at {limit} occupancy, limited by the block size ({block} threads)",
                "use blocks of 128 threads or more",
                "occupancy_limit rises, the nearest roof's share with it",
            ),
            "zh": (
                "受延迟限制，占用率 {limit}，受限于块大小（{block} 线程）",
                "使用 128 线程以上的块",
                "占用率上限上升，最近屋顶的占比随之上升",
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
                "SM 上的线程束只有理论值的 {share}：块的工作不均或太短",
                "均衡各块的工作，或让一个块做更多",
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
                "发射很少（{issue} 的周期）；线程束 {share} 的时间在等 {reason}",
                "查看等待它的源代码行（profkit profile SAMPLE --lines，再 profkit explain RUN --lines）",
                "issue_active 上升",
            ),
        },
        "long_scoreboard": {
            "en": (
                "few instructions issue ({issue} of the cycles); {share} of a warp's time is waiting for global memory",
                "more loads in flight: unroll, wider loads (16 B a thread), prefetch (cp.async, TMA)",
                "long_scoreboard falls, the DRAM share rises",
            ),
            "zh": (
                "发射很少（{issue} 的周期）；线程束 {share} 的时间在等全局内存",
                "增加在途加载：展开、更宽的加载（每线程 16 B）、预取（cp.async、TMA）",
                "long_scoreboard 下降，DRAM 占比上升",
            ),
        },
        "barrier": {
            "en": (
                "few instructions issue ({issue} of the cycles); {share} of a warp's time is waiting at barriers",
                "fewer __syncthreads, smaller blocks, or double buffering",
                "barrier stalls fall, issue_active rises",
            ),
            "zh": (
                "发射很少（{issue} 的周期）；线程束 {share} 的时间在等栅栏",
                "更少的 __syncthreads、更小的块，或双缓冲",
                "barrier 停顿下降，issue_active 上升",
            ),
        },
        "short_scoreboard": {
            "en": (
                "few instructions issue ({issue} of the cycles); {share} of a warp's time is waiting for shared memory or special functions",
                "fewer trips to shared memory (registers, wider accesses), fewer exp, log and divisions",
                "short_scoreboard falls, issue_active rises",
            ),
            "zh": (
                "发射很少（{issue} 的周期）；线程束 {share} 的时间在等共享内存或特殊函数",
                "减少共享内存往返（寄存器、更宽的访问），减少 exp、log、除法",
                "short_scoreboard 下降，issue_active 上升",
            ),
        },
        "mio_throttle": {
            "en": (
                "few instructions issue ({issue} of the cycles); {share} of a warp's time is waiting for the shared-memory queue",
                "wider shared accesses (16 B), fewer of them, no conflicts",
                "mio_throttle falls, issue_active rises",
            ),
            "zh": (
                "发射很少（{issue} 的周期）；线程束 {share} 的时间在等共享内存队列",
                "更宽的共享访问（16 B）、更少次数、无冲突",
                "mio_throttle 下降，issue_active 上升",
            ),
        },
        "lg_throttle": {
            "en": (
                "few instructions issue ({issue} of the cycles); {share} of a warp's time is waiting for the queue of global and local memory",
                "fewer and wider global accesses; no local memory",
                "lg_throttle falls, issue_active rises",
            ),
            "zh": (
                "发射很少（{issue} 的周期）；线程束 {share} 的时间在等全局/本地内存队列",
                "更少、更宽的全局访问；不用本地内存",
                "lg_throttle 下降，issue_active 上升",
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
                "不接近任何屋顶（最近的 {roof} 只有 {share}），已有计数器看不出原因",
                "采集深度计数器，看线程束在等什么（profkit profile SAMPLE --deep）",
                "停顿原因给出下一步",
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
                "每条指令 32 个线程中只有 {threads} 个活动：分支发散或线程空闲",
                "对工作排序或分组，使一个线程束走同一条路径",
                "threads_per_inst 接近 32",
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
