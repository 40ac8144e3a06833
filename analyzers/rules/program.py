"""Rules about a whole program in its steady state: what the GPU waits for, and what it does but compute.

Each looks at a slice of the wall time of a step (analyzers/program.py) that no other has; it is told from LEAST of the step,
and what it claims is that slice. What a step can be shorter by if the cause costs nothing, all else as before, is more where the
host is late at one place for what held it up at another: no more than the host was in it, GPU idle or not, or than others waited
for it, and than the busiest stream does not work. A bound is a share of the shortest step that it can be of: recording lengthens the others' idle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from analyzers.program import IDLE, RECORDING
from analyzers.rules.rule import NAN, PROGRAM, Case, Proof, Subject, Texts, rule
from roofline.wording import seconds

LEAST = 0.01
LEAST_BEHIND = 0.05
"""Share of a step that waiting may cost at most, from which it is told also where the GPU is hardly idle right after it."""
MANY_SHORT = 0.25
"""Share of launches that are short, from which launching them is called the chain that the host cannot keep up with."""


def _slice(
    s: Subject, name: str, params: Mapping[str, str], *more: Proof, variant: str = "", least: float = LEAST
) -> Case | None:
    """The case of a slice [s of a step]; None below `least` of it."""
    share = s[name] / s.time if s.time > 0 else 0.0
    if not share >= least:
        return None
    engaged, room = s[f"engaged_{name}"], _room(s, name)
    lost = max(min(engaged, room) if engaged == engaged else 0.0, min(s[name], s.time))
    return Case(
        (Proof(f"{name}/step", share, least or NAN), *more),
        s.time - lost,
        {"share": f"{share:.0%}", "found": s.text.get("found", ""), **params},
        min(1.0, share),
        variant=variant,
        likely=s.time - min(s[name], s.time),
        # A step never gets shorter than a stream works in it.
        whole=max(_unrecorded(s, name, lost, room), s.time * lost / max(room, lost)),
    )


def _room(s: Subject, name: str) -> float:
    """Seconds of a step in which no stream has to work if what is named so costs nothing: the busiest one is left."""
    left = s[f"without_{name}"]
    return s.time - left if left == left else _spare(s) + (0.0 if name in IDLE else s[name])


def _spare(s: Subject) -> float:
    """Seconds of a step in which its busiest stream does not work; where streams are not told apart, the GPU."""
    return s.time - s["stream"] if s.has("stream") else s["idle"]


def _unrecorded(s: Subject, name: str, lost: float, room: float) -> float:
    """Seconds of the step that `lost` is the largest share of, whatever recording took of the host's time at launches."""
    if name == "host":
        # It has all that recording took in it: of what is left it is no larger a share.
        return s.time
    # What other streams do alone they may do beside the busiest one, where it is given its work sooner.
    idle = sum(s[kind] for kind in RECORDING)
    late, launching = idle + _spare(s) - s["idle"], s["engaged_host"]
    if not launching > 0:
        return s.time - late + (s[name] if name in RECORDING else 0.0)
    if name not in _LONGER:
        return s["least"]
    # Recording is spread over launching, of which the GPU idles in a part; as far as it does not, the host waits longer without.
    part = min(max((room - lost) / launching, 0.0), 1.0)
    more = part * max(launching - idle, 0.0)
    whole = min(s["least"], (s.time - part * late) * lost / (lost + more))
    return max(whole, s["least"] * lost / max(s["engaged_all_tiny"], lost)) if name == "tiny" else whole


_LONGER = ("waiting", "allocating", "copying", "communicating", "tiny")
"""What holds a host up the longer, the sooner it comes to it: it waits for the GPU."""
_LOADING = re.compile(r"HtoD|Host-to-Device")
"""Copies to the GPU: what ends a hole in which a batch was made."""
_NO_GRAPH = ("; a CUDA graph makes none of it shorter", "；CUDA graph 不会缩短它")


@rule(
    "host-away",
    ("away",),
    level=PROGRAM,
    words={
        "": {
            "en": (
                "the GPU is idle for {share} of a step, mostly before {before}: the host does something else{doing}, {holes} x {each} a step without any CUDA call",
                "look at what runs on the host there (NVTX ranges, py-spy, torch.profiler's with_stack=True): data, logging, checkpoints, evaluation; do it ahead, or in another thread or process"
                + _NO_GRAPH[0],
                "the holes go, as far as it can run beside the GPU's work",
            ),
            "zh": (
                "每步有 {share} 的时间 GPU 空闲，大多在 {before} 之前：主机在做别的事{doing}，每步有 {holes} x {each} 没有任何 CUDA 调用",
                "查看主机此时在运行什么（NVTX 区间、py-spy、torch.profiler 的 with_stack=True）：数据、日志、检查点、评估；提前做，或放到其他线程或进程"
                + _NO_GRAPH[1],
                "只要能与 GPU 的工作并行，空洞就会消失",
            ),
        },
        "load": {
            "en": (
                "the GPU is idle for {share} of a step, mostly before {before}: the host does something else, as while loading data{doing}, {holes} x {each} a step without any CUDA call",
                "look at the data loader first: num_workers, prefetch_factor; if it is not that, at what Python runs there (py-spy, NVTX ranges)"
                + _NO_GRAPH[0],
                "the next batch is ready when the step ends, as far as loading can run beside the GPU's work",
            ),
            "zh": (
                "每步有 {share} 的时间 GPU 空闲，大多在 {before} 之前：主机在做别的事（像是在加载数据）{doing}，每步有 {holes} x {each} 没有任何 CUDA 调用",
                "先查数据加载：num_workers、prefetch_factor；若不是它，再看 Python 此时在运行什么（py-spy、NVTX 区间）"
                + _NO_GRAPH[1],
                "只要加载能与 GPU 的工作并行，一步结束时下一批数据已就绪",
            ),
        },
    },
)
def _away(s: Subject) -> Case | None:
    each = s["away"] / s["holes"] if s["holes"] > 0 else 0.0
    before = s.text.get("hole_before", "")
    params = {"holes": f"{s['holes']:.3g}", "each": f"{each * 1e3:.3g} ms", "before": _plain(before)}
    params["doing"] = _doing(s, "away")
    return _slice(s, "away", params, Proof("holes/step", s["holes"]), variant="load" if _LOADING.search(before) else "")


def _doing(s: Subject, name: str) -> str:
    """ " [cudaStreamSynchronize, aten::item, loss]": what the host was in for most of a slice; "" where nobody recorded it."""
    doing = s.text.get(f"doing_{name}", "")
    return f" [{doing}]" if doing else ""


def _plain(kernel: str) -> str:
    """A kernel's name without type, namespaces and arguments; a copy's as it is."""
    if kernel.startswith(("Mem", "[")):
        return kernel
    found = re.search(r"(\w+)\s*(?:[<(]|$)", kernel)
    return found.group(1) if found else kernel


@rule(
    "gpu-idle",
    ("host",),
    level=PROGRAM,
    words={
        "": {
            "en": (
                "the GPU is idle for {share} of a step between launches that the host makes one after the other, each too late: {launches} kernels a step, copies and fills: {others}",
                "give the host less to do between launches: fewer and larger operators, larger batches, a CUDA graph",
                "this idle time goes, and what else the host does runs beside the GPU's work",
            ),
            "zh": (
                "每步有 {share} 的时间 GPU 空闲：主机接连下发，但每次都太晚，每步 {launches} 次 kernel，拷贝与填充 {others} 次",
                "减少主机在两次启动之间的工作：算子少而大、加大 batch、CUDA graph",
                "这部分空闲消失，主机的其他工作与 GPU 并行",
            ),
        },
        "chain": {
            "en": (
                "launch-bound: the GPU is idle for {share} of a step between launches that the host makes one after the other: {launches} kernels a step, {short} of them shorter than launching takes; copies and fills: {others}",
                'replay the step as a CUDA graph, or fuse it: torch.compile(mode="reduce-overhead"), torch.cuda.graph; larger batches',
                "this idle time goes, and what else the host does runs beside the GPU's work",
            ),
            "zh": (
                "受限于 kernel 启动：主机接连下发，每步 {launches} 次 kernel（其中 {short} 比一次启动还短）、{others} 次拷贝与填充，GPU 因此有 {share} 的时间空闲",
                '用 CUDA graph 重放，或融合：torch.compile(mode="reduce-overhead")、torch.cuda.graph；更大的 batch',
                "这部分空闲消失，主机的其他工作与 GPU 并行",
            ),
        },
    },
)
def _idle(s: Subject) -> Case | None:
    others = s["copies"] + s["fills"]
    params = {"launches": f"{s['launches']:.0f}", "others": f"{others:.3g}", "short": f"{s['short']:.0%}"}
    chain = s["short"] >= MANY_SHORT
    proofs = (Proof("short launches", s["short"], MANY_SHORT),) if chain else ()
    return _slice(s, "host", params, Proof("kernels/step", s["launches"]), *proofs, variant="chain" if chain else "")


@rule(
    "idle-unexplained",
    ("unknown",),
    level=PROGRAM,
    words={
        "": {
            "en": (
                "the GPU is idle for {share} of a step, and the record does not say what the host did",
                "record the host's calls as well: profkit profile -- COMMAND, or torch.profiler with ProfilerActivity.CPU",
                "the idle time has a cause",
            ),
            "zh": (
                "每步有 {share} 的时间 GPU 空闲，记录中看不出主机在做什么",
                "同时记录主机的调用：profkit profile -- COMMAND，或带 ProfilerActivity.CPU 的 torch.profiler",
                "能看出空闲的原因",
            ),
        },
    },
)
def _unexplained(s: Subject) -> Case | None:
    return _slice(s, "unknown", {})


@rule(
    "synchronising",
    ("waiting",),
    level=PROGRAM,
    words={
        "": {
            "en": (
                "the GPU is idle for {share} of a step after the host had waited for it: {blocking} synchronising calls a step{doing}",
                "do without .item(), .cpu(), print of a tensor, torch.cuda.synchronize and blocking copies in the step, or do them every n steps; copies with non_blocking=True from pinned memory",
                "fewer synchronising calls; the host runs ahead of the GPU",
            ),
            "zh": (
                "主机等待 GPU 之后，每步有 {share} 的时间 GPU 空闲：每步 {blocking} 次同步调用{doing}",
                "步内不要用 .item()、.cpu()、打印张量、torch.cuda.synchronize 和阻塞拷贝，或隔若干步做一次；拷贝用锁页内存加 non_blocking=True",
                "同步调用变少；主机跑在 GPU 前面",
            ),
        },
        "behind": {
            "en": (
                "the host waits for the GPU for {blocked} of a step ({blocking} synchronising calls{doing}) and so is never ahead of it: what it launches next comes late",
                "do without .item(), .cpu(), print of a tensor, torch.cuda.synchronize and blocking copies in the step, or do them every n steps; copies with non_blocking=True from pinned memory",
                "the host launches while it would have waited; as far as it gets ahead, idle time between launches goes",
            ),
            "zh": (
                "每步有 {blocked} 的时间主机在等待 GPU（{blocking} 次同步调用{doing}），因此从不领先：接下来的启动总是太晚",
                "步内不要用 .item()、.cpu()、打印张量、torch.cuda.synchronize 和阻塞拷贝，或隔若干步做一次；拷贝用锁页内存加 non_blocking=True",
                "主机把等待的时间用来下发；只要它跑在前面，启动之间的空闲就会消失",
            ),
        },
    },
)
def _synchronising(s: Subject) -> Case | None:
    params = {"blocking": f"{s['blocking']:.3g}", "doing": _doing(s, "waiting")}
    proof = Proof("synchronising calls/step", s["blocking"])
    if s["waiting"] >= LEAST * s.time or not min(s["engaged_waiting"], _spare(s)) >= LEAST_BEHIND * s.time:
        return _slice(s, "waiting", params, proof)
    params["blocked"] = f"{s['engaged_blocked'] / s.time:.0%}"
    return _slice(s, "waiting", params, proof, variant="behind", least=0.0)


@rule(
    "allocating",
    ("allocating",),
    level=PROGRAM,
    words={
        "": {
            "en": (
                "the GPU is idle for {share} of a step while memory is allocated or freed{doing}",
                "keep buffers from step to step; with torch's allocator PYTORCH_ALLOC_CONF=expandable_segments:True, and no empty_cache() in the step",
                "no cudaMalloc or cudaFree in the steady state",
            ),
            "zh": (
                "每步有 {share} 的时间 GPU 因分配或释放内存而空闲{doing}",
                "各步复用缓冲区；torch 的分配器设 PYTORCH_ALLOC_CONF=expandable_segments:True，步内不调用 empty_cache()",
                "稳态中没有 cudaMalloc 和 cudaFree",
            ),
        },
    },
)
def _allocating(s: Subject) -> Case | None:
    return _slice(s, "allocating", {"doing": _doing(s, "allocating")})


@rule(
    "recompiles",
    ("loading",),
    level=PROGRAM,
    words={
        "": {
            "en": (
                "code is loaded in the steady state ({loads} times), the GPU idle for {share} of a step meanwhile: something is compiled again{doing}",
                "fix the shapes, or mark them dynamic (torch.compile(dynamic=True), mark_dynamic); TORCH_LOGS=recompiles says why",
                "no module is loaded after the first steps",
            ),
            "zh": (
                "稳态中仍在加载代码（{loads} 次），每步有 {share} 的时间 GPU 因此空闲：有代码在重新编译{doing}",
                "固定形状，或标为动态（torch.compile(dynamic=True)、mark_dynamic）；TORCH_LOGS=recompiles 会给出原因",
                "最初几步之后不再加载模块",
            ),
        },
    },
)
def _recompiles(s: Subject) -> Case | None:
    params = {"loads": f"{s['loads']:.0f}", "doing": _doing(s, "loading")}
    return _slice(s, "loading", params, Proof("modules loaded", s["loads"]))


@rule(
    "queued-gaps",
    ("queued",),
    level=PROGRAM,
    words={
        "": {
            "en": (
                "the GPU is idle for {share} of a step with the next launch asked for and not begun: {gaps} gaps a step, {each} of each",
                "fewer kernels a step: fuse them (torch.compile, Triton), foreach or fused optimizers",
                "fewer gaps; each is about as long as before",
            ),
            "zh": (
                "每步有 {share} 的时间 GPU 空闲，下一次启动已下发但尚未开始：每步 {gaps} 处间隙，每处其中 {each}",
                "减少每步的 kernel 数：融合（torch.compile、Triton）、foreach 或 fused 优化器",
                "间隙变少，每处仍与之前差不多长",
            ),
        },
    },
)
def _queued(s: Subject) -> Case | None:
    gaps = s["queued_gaps"]
    params = {"gaps": f"{gaps:.0f}", "each": seconds(s["queued"] / gaps if gaps > 0 else 0.0)}
    return _slice(s, "queued", params, Proof("gaps/step", gaps))


_COPIES: Texts = {
    "": {
        "en": (
            "the GPU only copies for {share} of a step",
            "copy on another stream while it computes, copy less, or keep the data there",
            "copies run beside kernels",
        ),
        "zh": (
            "每步有 {share} 的时间 GPU 只在拷贝",
            "在另一条 stream 上边算边拷，减少拷贝，或把数据留在 GPU 上",
            "拷贝与 kernel 并行",
        ),
    },
    "pageable": {
        "en": (
            "the GPU only copies for {share} of a step, from pageable memory ({size})",
            "pin_memory=True and non_blocking=True, copied on another stream one step ahead",
            "copies from pinned memory, beside kernels, at the rate of the copy engine",
        ),
        "zh": (
            "每步有 {share} 的时间 GPU 只在拷贝，且来自可分页内存（{size}）",
            "用 pin_memory=True 与 non_blocking=True，在另一条 stream 上提前一步拷贝",
            "从锁页内存拷贝，与 kernel 并行，达到拷贝引擎的速率",
        ),
    },
}


@rule("copies", ("copying",), level=PROGRAM, words=_COPIES)
def _copies(s: Subject) -> Case | None:
    pageable = s["copying"] > 0 and s["pageable"] >= 0.5 * s["copying"]
    size = f"{s['pageable_bytes'] / 1e6:.3g} MB a step" if s.has("pageable_bytes") else "size not recorded"
    proofs = (Proof("pageable copies/copying", s["pageable"] / s["copying"], 0.5),) if pageable else ()
    return _slice(s, "copying", {"size": size}, *proofs, variant="pageable" if pageable else "")


@rule(
    "communication",
    ("communicating",),
    level=PROGRAM,
    words={
        "": {
            "en": (
                "the GPU only communicates for {share} of a step; {hidden} of NCCL's time is hidden behind kernels",
                "overlap it: gradients in buckets while the backward pass goes on (DDP's bucket_cap_mb), prefetch (FSDP), async_op=True; or send less: a narrower type, fewer steps",
                "communication runs beside kernels",
            ),
            "zh": (
                "每步有 {share} 的时间 GPU 只在通信；NCCL 的时间有 {hidden} 被 kernel 掩盖",
                "与计算重叠：反向传播时分桶发送梯度（DDP 的 bucket_cap_mb）、预取（FSDP）、async_op=True；或减少通信量：用位宽更小的类型、减少次数",
                "通信与 kernel 并行",
            ),
        },
    },
)
def _communication(s: Subject) -> Case | None:
    spoken = s["communicating"] + s["hidden"]
    return _slice(s, "communicating", {"hidden": f"{s['hidden'] / spoken:.0%}" if spoken > 0 else "0%"})


@rule(
    "tiny-kernels",
    ("tiny",),
    level=PROGRAM,
    words={
        "": {
            "en": (
                "{count} kernels a step are shorter than 5 us; the GPU spends {share} of a step in them",
                "fuse them (torch.compile, Triton, fused or foreach optimizers)",
                "fewer and longer kernels",
            ),
            "zh": (
                "每步有 {count} 个 kernel 短于 5 us，共占每步的 {share}",
                "做融合（torch.compile、Triton、fused 或 foreach 优化器）",
                "kernel 少而长",
            ),
        },
    },
)
def _tiny(s: Subject) -> Case | None:
    count = s["short"] * s["launches"]
    if s["short"] < MANY_SHORT or count < 2:
        return None
    return _slice(s, "tiny", {"count": f"{count:.0f}"}, Proof("short launches", s["short"], MANY_SHORT))
