"""Rules about bytes: DRAM, L2, access patterns, shared memory, local memory, atomics."""

from __future__ import annotations

import math

from analyzers.pipes import LEVELS
from analyzers.placement import MUCH, NEAR, REACH, SPILLED, WIDEST
from analyzers.rules.rule import Case, Proof, Subject, rule

EXCESS = 1.10
"""DRAM bytes over the compulsory ones from which traffic is called excess; counters repeat within a few %."""

FULL = 0.75
"""DRAM share that a plain copy passes on every chip seen; below, more bytes in flight help."""

REACHED = 0.8
"""DRAM share that the fix of a kernel with headroom is said to reach."""

NARROW = 6.0
STREAMS = 1.0
"""FLOP per compulsory byte below which a task has nothing to reuse."""

L2_EXCESS = 4.0
CONFLICTS = 0.2
LOCAL = 0.1
ATOMICS = 0.1
HITS = 0.8
SECTOR = 32.0
REQUEST = 4 * SECTOR
"""Bytes of a request of 32 threads for 4 bytes each."""


def _percent(value: float) -> str:
    return f"{value:.0%}"


def compulsory_time(subject: Subject) -> float:
    """Least seconds for the compulsory bytes where they are known, else for those moved; 0 without a roof."""
    least, peak = subject["compulsory_bytes"], subject.peaks.get("dram", math.nan)
    seconds = (subject["dram_bytes"] if math.isnan(least) else least) / peak
    return 0.0 if math.isnan(seconds) else seconds


def fixed_traffic(subject: Subject) -> float:
    """Least time after the access pattern is mended: pipes as they are, DRAM at its compulsory bytes."""
    return subject.least("l1", "l2", dram=compulsory_time(subject))


@rule(
    "dram-bound",
    ("dram_fraction",),
    words={
        "": {
            "en": (
                "DRAM-bound: at {share} of the DRAM roof",
                "move fewer bytes: fuse with its neighbours, or keep the data in a narrower type; the access pattern has little left to give",
                "time falls with the bytes; the DRAM share stays",
            ),
            "zh": (
                "受限于显存带宽：已达 DRAM 带宽上限的 {share}",
                "减少访存量：与前后的算子融合，或用位宽更小的数据类型；访存方式本身已没有多少余地",
                "时间随访存量下降，DRAM 带宽利用率不变",
            ),
        },
        "least": {
            "en": (
                "DRAM-bound: at {share} of the DRAM roof with no more than the compulsory bytes: little is left",
                "nothing in this kernel moves fewer bytes: only another task does, in a narrower type or fused with what comes before or after it",
                "time falls with the bytes; the DRAM share stays",
            ),
            "zh": (
                "受限于显存带宽：已达 DRAM 带宽上限的 {share}，访存量不超过最小访存量：余地很小",
                "该 kernel 自身已无法再减少访存量：除非改动任务，即用位宽更小的数据类型，或与前后的算子融合",
                "时间随访存量下降，DRAM 带宽利用率不变",
            ),
        },
        "headroom": {
            "en": (
                "DRAM-bound with headroom: at {share} of the DRAM roof, which plain copies come near",
                "more bytes in flight: 16 B accesses, several independent loads a thread",
                "the DRAM share rises to 80 % and more: at 80 % the kernel takes {less} less time",
            ),
            "zh": (
                "受限于显存带宽，但还有余量：达到 DRAM 带宽上限的 {share}，普通拷贝接近该上限",
                "增加同时未完成的访存请求：每次访问 16 B、每线程多个相互独立的加载",
                "DRAM 带宽利用率升到 80% 以上：升到 80% 时该 kernel 的时间减少 {less}",
            ),
        },
        "headroom-warps": {
            "en": (
                "DRAM-bound with headroom: at {share} of the DRAM roof, which plain copies come near",
                "more bytes in flight: 16 B accesses, several independent loads a thread, more resident warps",
                "the DRAM share rises to 80 % and more: at 80 % the kernel takes {less} less time",
            ),
            "zh": (
                "受限于显存带宽，但还有余量：达到 DRAM 带宽上限的 {share}，普通拷贝接近该上限",
                "增加同时未完成的访存请求：每次访问 16 B、每线程多个相互独立的加载、更多常驻线程束",
                "DRAM 带宽利用率升到 80% 以上：升到 80% 时该 kernel 的时间减少 {less}",
            ),
        },
    },
)
def _dram_bound(s: Subject) -> Case | None:
    share = s["dram_fraction"]
    if not share >= NEAR or s.nearest[0] != "dram":
        return None
    proofs = [Proof("dram_fraction", share, NEAR)]
    # What is not counted is no reason for advice: warps are asked for only where few are resident.
    if share < FULL and s["occupancy"] < FULL:
        variant, proofs = "headroom-warps", [*proofs, Proof("occupancy", s["occupancy"], FULL, "below")]
    elif share < FULL:
        variant = "headroom"
    else:
        variant = "least" if s["dram_bytes"] <= EXCESS * s["compulsory_bytes"] else ""
    # Where a cache kept a part of what must move, the pins are no measure of how much of the roof the kernel has left.
    moved = max(share, compulsory_time(s) / s.time)
    params = {"share": _percent(share), "less": _percent(max(0.0, 1 - moved / REACHED))}
    return Case(tuple(proofs), s.least(), params, share, variant=variant, likely=s.time * min(1.0, moved / REACH))


@rule(
    "dram-excess",
    ("dram_bytes", "compulsory_bytes"),
    words={
        "": {
            "en": (
                "DRAM traffic is {ratio}x the compulsory bytes, at {share} of the DRAM roof",
                "find the bytes moved twice: 32 B sectors of which a part is used, or written in part (those are read first), re-reads past L2, intermediates, spills",
                "DRAM bytes near the compulsory ones, the same DRAM share",
            ),
            "zh": (
                "显存访问量为最小访存量的 {ratio} 倍，达到 DRAM 带宽上限的 {share}",
                "找出重复搬运的数据：32 B 扇区只用到一部分、只写一部分（会先被读回）、L2 未命中的重复读取、中间结果、寄存器溢出",
                "显存访问量接近最小访存量，DRAM 带宽利用率不变",
            ),
        },
    },
)
def _dram_excess(s: Subject) -> Case | None:
    ratio = s["dram_bytes"] / s["compulsory_bytes"] if s["compulsory_bytes"] > 0 else math.nan
    # Below the roof traffic is a cause only where it is large: latency explains the rest.
    if not ratio > EXCESS or not s["dram_fraction"] >= NEAR / 2:
        return None
    proofs = (Proof("compulsory_ratio", ratio, EXCESS), Proof("dram_fraction", s["dram_fraction"], NEAR / 2))
    params = {"ratio": f"{ratio:.2f}", "share": _percent(s["dram_fraction"])}
    return Case(proofs, fixed_traffic(s), params, min(1.0, s["dram_fraction"]))


@rule(
    "uncoalesced",
    ("global_load_sectors",),
    ("global_store_sectors",),
    ("l2_write", "output"),
    ("l2_bytes", "work_intensity"),
    words={
        "": {
            "en": (
                "uncoalesced global {which}: {sectors} sectors of 32 B a request",
                "let neighbouring threads touch neighbouring addresses; turn the data in shared memory where both sides cannot have it",
                "4 sectors a request for 4 B a thread (16 for 16 B); L1 and L2 bytes fall in proportion",
            ),
            "zh": (
                "全局访存未合并（{which}）：每次请求 {sectors} 个 32 B 扇区",
                "让相邻线程访问相邻地址；读写两侧无法兼顾时，在共享内存中转置",
                "每线程 4 B 时每次请求 4 个扇区（16 B 时为 16 个）；L1、L2 访问量按比例下降",
            ),
        },
        "stores": {
            "en": (
                "uncoalesced global stores: L2 is written {sectors}x the bytes of the output",
                "let neighbouring threads write neighbouring addresses; turn the data in shared memory where both sides cannot have it",
                "L2 is written once what the output holds",
            ),
            "zh": (
                "全局写入未合并：写入 L2 的字节数为输出的 {sectors} 倍",
                "让相邻线程写相邻地址；读写两侧无法兼顾时，在共享内存中转置",
                "写入 L2 的字节数与输出相同",
            ),
        },
        "suspected": {
            "en": (
                "L2 is asked for {sectors}x the compulsory bytes by a task that has nothing to reuse: access is hardly coalesced",
                "let neighbouring threads touch neighbouring addresses; --deep counts the sectors a request",
                "L2 bytes fall to about twice the compulsory ones or less",
            ),
            "zh": (
                "任务没有数据可复用，L2 访问量却为最小访存量的 {sectors} 倍：访存多半没有合并",
                "让相邻线程访问相邻地址；用 --deep 可采集每次请求的扇区数",
                "L2 访问量降到最小访存量的约两倍或更少",
            ),
        },
    },
)
def _uncoalesced(s: Subject) -> Case | None:
    if s["tensor_share"] > 0.5:
        return None  # tiles for tensor cores are loaded in wide pieces that this counter does not understand
    # Up to 16 sectors may be a coalesced wide access; only wasted DRAM bytes tell the two apart.
    limit = NARROW if _dram_excess(s) is not None else WIDEST + 0.5
    sides = {"loads": "sectors_per_load", "stores": "sectors_per_store"}
    bad = {word: name for word, name in sides.items() if s[name] > limit}
    if not bad:
        return None if s.has("global_load_sectors") else _scattered_stores(s) or _suspected(s)
    worst = max(s[name] for name in bad.values())
    proofs = tuple(Proof(name, s[name], limit) for name in bad.values())
    params = {"sectors": f"{worst:.3g}", "which": " and ".join(bad)}
    return Case(proofs, fixed_traffic(s), params, min(1.0, worst / 32))


def _scattered_stores(s: Subject) -> Case | None:
    """Without the access counters: what is written to L2 tells sectors of which a part is written."""
    ratio = s["l2_write"] / s["output"] if s["output"] > 0 else math.nan
    if not ratio > SPILLED or not s["l2_write"] > MUCH * s["l2_bytes"]:
        return None
    proofs = (Proof("l2_write/output bytes", ratio, SPILLED),)
    return Case(proofs, fixed_traffic(s), {"sectors": f"{ratio:.3g}", "which": ""}, 0.8, variant="stores")


def _suspected(s: Subject) -> Case | None:
    """Without the access counters: a task that streams has no reason to ask L2 for its bytes many times."""
    ratio = s["l2_bytes"] / s["compulsory_bytes"] if s["compulsory_bytes"] > 0 else math.nan
    if not (s["work_intensity"] < STREAMS and ratio > L2_EXCESS):
        return None
    proofs = (Proof("l2_bytes/compulsory_bytes", ratio, L2_EXCESS),)
    return Case(proofs, fixed_traffic(s), {"sectors": f"{ratio:.3g}", "which": ""}, 0.75, variant="suspected")


@rule(
    "l2-bound",
    ("l2_fraction",),
    ("l2_hit_rate", "stall_long_scoreboard", "warp_latency"),
    words={
        "": {
            "en": (
                "L2-bound: at {share} of the L2 roof",
                "reuse more a trip: larger tiles in shared memory or registers, wider loads",
                "L2 bytes fall, the DRAM bytes stay",
            ),
            "zh": (
                "受限于 L2 带宽：已达 L2 带宽上限的 {share}",
                "提高每次取数后的复用：加大共享内存或寄存器分块，加宽加载",
                "L2 访问量下降，显存访问量不变",
            ),
        },
        "waits": {
            "en": (
                "waits for L2: {share} of the lookups hit there, {waits} of a warp's time is waiting for loads",
                "stage the data in shared memory and reuse it, load ahead (cp.async, TMA), or load wider",
                "long_scoreboard stalls and L2 bytes fall, more instructions issue",
            ),
            "zh": (
                "在等 L2：L2 命中率 {share}，线程束有 {waits} 的时间在等加载",
                "把数据放进共享内存复用，提前加载（cp.async、TMA），或加宽加载",
                "long_scoreboard 停顿与 L2 访问量下降，指令发射率上升",
            ),
        },
    },
)
def _l2_bound(s: Subject) -> Case | None:
    name, share = s.nearest
    if name == "l2" and share >= NEAR:
        after = max(s.least("l2"), compulsory_time(s))
        return Case((Proof("l2_fraction", share, NEAR),), after, {"share": _percent(share)}, share)
    waits = s["stall_long_scoreboard"] / s["warp_latency"] if s["warp_latency"] > 0 else math.nan
    if not (s["l2_hit_rate"] >= HITS and waits >= 0.5 and s["dram_fraction"] < NEAR / 2 and s["occupancy"] >= 0.5):
        return None
    proofs = (
        Proof("l2_hit_rate", s["l2_hit_rate"], HITS),
        Proof("stall_long_scoreboard/warp_latency", waits, 0.5),
        Proof("dram_fraction", s["dram_fraction"], NEAR / 2, "below"),
    )
    params = {"share": _percent(s["l2_hit_rate"]), "waits": _percent(waits)}
    return Case(proofs, s.least("l2", "l1"), params, waits, variant="waits")


@rule(
    "bank-conflicts",
    ("shared_load_wavefronts",),
    ("shared_store_wavefronts",),
    words={
        "": {
            "en": (
                "shared-memory bank conflicts: {share} of the wavefronts of shared {which} are repeats",
                "pad the rows of the tile by one element, or swizzle its columns",
                "conflicts near 0, mio_throttle and short_scoreboard stalls fall",
            ),
            "zh": (
                "共享内存 bank 冲突：{which}时有 {share} 的 wavefront 是冲突造成的重复",
                "分块的每行补一个元素，或对列做 swizzle",
                "冲突接近 0，mio_throttle 与 short_scoreboard 停顿下降",
            ),
        },
    },
)
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
    return Case(proofs, after, {"share": _percent(worst), "which": " and ".join(bad)}, worst)


@rule(
    "local-memory",
    ("local_load_sectors", "local_store_sectors", "l1_bytes"),
    words={
        "": {
            "en": (
                "local memory is {share} of the L1 traffic ({registers} registers a thread)",
                "index arrays by constants (unroll), keep fewer values alive, or allow more registers (__launch_bounds__)",
                "local sectors 0, l1_bytes fall",
            ),
            "zh": (
                "本地内存占 L1 访问量的 {share}（每线程 {registers} 个寄存器）",
                "数组用常量下标访问（展开循环），减少同时存活的变量，或放宽寄存器限制（__launch_bounds__）",
                "本地内存访问为 0，L1 访问量下降",
            ),
        },
    },
)
def _local_memory(s: Subject) -> Case | None:
    local = (s["local_load_sectors"] + s["local_store_sectors"]) * SECTOR
    # Traffic that passes L1 by is not in its counter: then L2's says how much there was.
    traffic = max(s[LEVELS["l1"]], s[LEVELS["l2"]] if s["beyond_l1"] > 0 and s.has(LEVELS["l2"]) else 0.0)
    share = local / traffic if traffic > 0 else 0.0
    if not share >= LOCAL:
        return None
    dram = max(0.0, s["dram_bytes"] - local) / s.peaks.get("dram", math.nan)
    after = s.least("l1", "l2", dram=min(dram, compulsory_time(s)) if dram == dram else 0.0)
    params = {"share": _percent(share), "registers": f"{s['registers']:.0f}"}
    return Case((Proof("local bytes/l1_bytes", share, LOCAL),), after, params, min(1.0, 0.5 + share / 2))


@rule(
    "atomics",
    ("atomic_requests", "reduction_requests"),
    words={
        "": {
            "en": (
                "atomics are {share} of the global requests, and no roof is near",
                "reduce in the warp and the block first, then one atomic a block; spread hot addresses",
                "atomic requests fall by the block size, DRAM share rises",
            ),
            "zh": (
                "原子操作占全局请求的 {share}，且离各项上限都还远",
                "先在线程束和线程块内归约，每块只做一次原子操作；分散热点地址",
                "原子请求按块大小成倍减少，DRAM 带宽利用率上升",
            ),
        },
    },
)
def _atomics(s: Subject) -> Case | None:
    atomics = s["atomic_requests"] + s["reduction_requests"]
    others = sum(s[n] for n in ("global_load_requests", "global_store_requests") if s.has(n))
    # TMA and its like move bytes without such a request: then L2's bytes say how much else there was.
    others = max(others, s["l2_bytes"] / REQUEST - atomics) if s.has("l2_bytes") else others
    share = atomics / (atomics + others) if atomics else 0.0
    if not share >= ATOMICS or not s.nearest[1] < NEAR:
        return None
    proofs = (Proof("atomics/global requests", share, ATOMICS), Proof("atomic requests", atomics, 0.0))
    return Case(proofs, s.least(), {"share": _percent(share), "count": f"{atomics:.3g}"}, min(1.0, 0.6 + share))
