"""The words of the rules, English and Chinese: what it is, what to try next, what to expect then.

One row a rule and variant ("rule" or "rule/variant"): title, next step, expectation. Places in braces are the
parameters a rule gives.
"""

from __future__ import annotations

from collections.abc import Mapping

Words = tuple[str, str, str]
LANGUAGES = ("en", "zh")

# fmt: off
ENGLISH: dict[str, Words] = {
    "dram-bound": (
        "DRAM-bound: at {share} of the DRAM roof",
        "move fewer bytes: fuse with its neighbours, or keep the data in a narrower type; the access pattern has little left to give",
        "time falls with the bytes; the DRAM share stays"),
    "dram-bound/headroom": (
        "DRAM-bound with headroom: at {share} of the DRAM roof, where plain copies reach 80 to 90 %",
        "more bytes in flight: 16 B accesses, several independent loads a thread, more resident warps; then fewer bytes",
        "the DRAM share rises to 80 % and more"),
    "dram-excess": (
        "DRAM traffic is {ratio}x the compulsory bytes, at {share} of the DRAM roof",
        "find the bytes moved twice: 32 B sectors of which a part is used, or written in part (those are read first), re-reads past L2, intermediates, spills",
        "DRAM bytes near the compulsory ones, the same DRAM share"),
    "uncoalesced": (
        "uncoalesced global {which}: {sectors} sectors of 32 B a request",
        "let neighbouring threads touch neighbouring addresses; turn the data in shared memory where both sides cannot have it",
        "4 sectors a request for 4 B a thread (16 for 16 B); L1 and L2 bytes fall in proportion"),
    "uncoalesced/suspected": (
        "L2 is asked for {sectors}x the compulsory bytes by a task that has nothing to reuse: access is hardly coalesced",
        "let neighbouring threads touch neighbouring addresses; --deep counts the sectors a request",
        "L2 bytes fall to about twice the compulsory ones or less"),
    "l2-bound": (
        "L2-bound: at {share} of the L2 roof",
        "reuse more a trip: larger tiles in shared memory or registers, wider loads",
        "L2 bytes fall, the DRAM bytes stay"),
    "l2-bound/waits": (
        "waits for L2: {share} of the lookups hit there, {waits} of a warp's time is waiting for loads",
        "stage the data in shared memory and reuse it, load ahead (cp.async, TMA), or load wider",
        "long_scoreboard stalls and L2 bytes fall, more instructions issue"),
    "bank-conflicts": (
        "shared-memory bank conflicts: {share} of the wavefronts of shared {which} are repeats",
        "pad the rows of the tile by one element, or swizzle its columns",
        "conflicts near 0, mio_throttle and short_scoreboard stalls fall"),
    "local-memory": (
        "local memory is {share} of the L1 traffic ({registers} registers a thread)",
        "index arrays by constants (unroll), keep fewer values alive, or allow more registers (__launch_bounds__)",
        "local sectors 0, l1_bytes fall"),
    "atomics": (
        "atomics are {share} of the global requests, and no roof is near",
        "reduce in the warp and the block first, then one atomic a block; spread hot addresses",
        "atomic requests fall by the block size, DRAM share rises"),
    "few-blocks": (
        "too few blocks: {blocks} for {sms} SMs",
        "split the work into more blocks (split-K, a grid-stride over more blocks, a second pass for the partial results)",
        "at least {sms} blocks, the DRAM or pipe share rises with the SMs in use"),
    "few-blocks/short": (
        "{us} us, no longer than a launch takes, in {blocks} blocks for {sms} SMs: start-up and memory latency are most of it",
        "do more in one launch (fuse it with its neighbours, batch the calls), or replay the launches as a CUDA graph",
        "time a call stays near the launch floor while the work of a launch grows"),
    "small-grid": (
        "less than one wave of blocks ({waves}), {us} us in all: start-up and memory latency show",
        "smaller blocks or less work a thread, more loads in flight a thread; or do more in one launch",
        "waves near 1, time near the launch floor"),
    "tail-wave": (
        "tail: {waves} waves of blocks, the last one {last} full",
        "make the grid a multiple of a wave, smaller blocks, or a persistent kernel",
        "waves whole, time falls by the idle share"),
    "low-occupancy": (
        "latency-bound at {limit} occupancy, limited by {cause}",
        "free the limiting resource, or put more independent work in flight a thread",
        "occupancy and the nearest roof's share rise together"),
    "low-occupancy/registers": (
        "latency-bound at {limit} occupancy, limited by registers ({registers} a thread)",
        "keep fewer values alive, smaller tiles a thread, or __launch_bounds__; watch for spills",
        "occupancy_limit rises, local memory stays 0"),
    "low-occupancy/shared-memory": (
        "latency-bound at {limit} occupancy, limited by shared memory ({shared} KiB a block)",
        "smaller tiles or fewer stages; reuse buffers whose lifetimes do not overlap",
        "occupancy_limit rises, the nearest roof's share with it"),
    "low-occupancy/block-size": (
        "latency-bound at {limit} occupancy, limited by the block size ({block} threads)",
        "use blocks of 128 threads or more",
        "occupancy_limit rises, the nearest roof's share with it"),
    "uneven-occupancy": (
        "SMs hold {share} of the warps they could: uneven or short-lived blocks",
        "even out the work of the blocks, or let a block do more",
        "achieved occupancy near the theoretical one"),
    "stalls": (
        "few instructions issue ({issue} of the cycles); a warp waits {share} of its time for {reason}",
        "look at the source lines with that stall in Nsight Compute",
        "issue_active rises"),
    "stalls/long_scoreboard": (
        "few instructions issue ({issue} of the cycles); {share} of a warp's time is waiting for global memory",
        "more loads in flight: unroll, wider loads (16 B a thread), prefetch (cp.async, TMA)",
        "long_scoreboard falls, the DRAM share rises"),
    "stalls/barrier": (
        "few instructions issue ({issue} of the cycles); {share} of a warp's time is waiting at barriers",
        "fewer __syncthreads, smaller blocks, or double buffering",
        "barrier stalls fall, issue_active rises"),
    "stalls/short_scoreboard": (
        "few instructions issue ({issue} of the cycles); {share} of a warp's time is waiting for shared memory or special functions",
        "fewer trips to shared memory (registers, wider accesses), fewer exp, log and divisions",
        "short_scoreboard falls, issue_active rises"),
    "stalls/mio_throttle": (
        "few instructions issue ({issue} of the cycles); {share} of a warp's time is waiting for the shared-memory queue",
        "wider shared accesses (16 B), fewer of them, no conflicts",
        "mio_throttle falls, issue_active rises"),
    "stalls/lg_throttle": (
        "few instructions issue ({issue} of the cycles); {share} of a warp's time is waiting for the queue of global and local memory",
        "fewer and wider global accesses; no local memory",
        "lg_throttle falls, issue_active rises"),
    "latency": (
        "latency-bound: the nearest roof, {roof}, is at {share}",
        "collect the deep counters: they say what its warps wait for (profkit profile SAMPLE --deep)",
        "the stall reasons name the next step"),
    "divergence": (
        "{threads} of 32 threads are active in an instruction: branches diverge, or threads idle",
        "sort or regroup the work so that a warp takes one path",
        "threads_per_inst near 32"),
    "pipe-bound": (
        "compute-bound: at {share} of the {pipe} roof",
        "fewer or cheaper operations: a better algorithm, a lower precision if the task allows, tensor cores if it is a matrix product",
        "time falls with the operations; the share stays"),
    "pipe-bound/tensor": (
        "at {share} of the {pipe} roof: the tensor cores are busy",
        "fewer or narrower operations: structure in the matrices, a lower precision if the task allows",
        "time falls with the operations; the share stays"),
    "use-tensor-cores": (
        "a matrix product on the {pipe} pipe: {twin} has {gain}x its peak",
        "compute it by tensor cores (library, wgmma, Triton's tl.dot); {twin} rounds its inputs, so check the tolerance",
        "tensor_share near 1, time below the {pipe} roof"),
    "use-tensor-cores/exact": (
        "a matrix product on the plain {pipe} units: {twin} has {gain}x their peak, at the same precision",
        "compute it by the fp64 tensor cores (DMMA: library, mma.sync m8n8k4)",
        "tensor_share near 1, time below the plain {pipe} roof"),
    "tensor-idle": (
        "the tensor pipe idles: {pipe} at {share} of its roof, and nothing else is near",
        "feed it: deeper asynchronous staging (cp.async, TMA), larger tiles, more warps or warpgroups",
        "the tensor share rises, long_scoreboard stalls fall"),
    "tensor-idle/hopper": (
        "the tensor pipe idles: {pipe} at {share} of its roof, and nothing else is near",
        "if this is mma.sync or wmma code its own roof is two thirds of that: move to wgmma with TMA (library, Triton, CUTLASS 3); else stage deeper",
        "the tensor share rises beyond 67 %, which only wgmma reaches on this chip"),
    "precision": (
        "fp64 arithmetic ({share} of the FLOP) in {wanted} work: the fp32 pipe has {gain}x its peak",
        "look for double literals (1.0 for 1.0f) and double library calls",
        "flop_fp64 0, time below the fp64 roof"),
    "precision/maybe": (
        "fp64 arithmetic is {share} of the FLOP: the fp32 pipe has {gain}x its peak",
        "if the data are fp32, look for double literals (1.0 for 1.0f); if the task needs fp64, leave it",
        "flop_fp64 0, time below the fp64 roof"),
    "non-fma": (
        "only {share} of the {pipe} instructions are FMA: they are at {used} of what this mix can reach",
        "write a*b+c so that it contracts (no -fmad=false, no __fmul_rn), reorder sums",
        "fma_share rises, fewer instructions for the same FLOP"),
    "issue-bound": (
        "the schedulers issue in {issue} of the cycles, and no roof is near: too many instructions for the work",
        "fewer address and loop instructions: unroll, wider loads, 32 bit indices, FMA",
        "inst_executed falls, issue_active stays high until a roof is near"),
    "launch-bound": (
        "launch-bound: {count} kernels in {us} us, {each} us each",
        "fuse the chain into one kernel, or replay it as a CUDA graph (torch.compile, cudaGraph)",
        "one launch; time near the longest kernel alone"),
    "host-bound": (
        "the host is slower than the device: {host} us to submit a call, {us} us to run it",
        "fewer operators a call, a CUDA graph, or larger batches",
        "host time below device time; the wall clock wins up to {gap} us a call, the device time does not change"),
    "fuse": (
        "{count} launches pass intermediates through DRAM: {ratio}x the compulsory bytes",
        "fuse the chain (one kernel, Triton, torch.compile), so that each input is read once and each output written once",
        "one kernel, DRAM bytes near the compulsory ones"),
    "fuse/between": (
        "{count} launches pass intermediates through DRAM: {ratio}x the compulsory bytes; {stay} of the time computes, the rest moves them",
        "fuse what lies between the computing kernels: into their epilogues, or with each other (Triton, torch.compile, a fused library call)",
        "fewer kernels; the computing ones take as long as before"),
    "modelled": (
        "{ratio}x the floor of its work ({source}); without counters the reason is not known",
        "collect hardware counters (profkit profile SAMPLE --ncu)",
        "a reason, and a tighter bound"),
    "modelled/near": (
        "at {share} of the {bound} roof, by the work of the task ({source}); no counters",
        "near this roof only less work helps; hardware counters say what is really moved (profkit profile SAMPLE --ncu)",
        "the share by counters is the same or higher"),
    "modelled/chain": (
        "{count} kernels a call, {ratio}x the floor of its work ({source}); no counters",
        "fuse the chain (one kernel, Triton, torch.compile); hardware counters say what passes through memory (--ncu)",
        "one kernel, time near the floor"),
    "collect": (
        "not checked: {rule} needs {counters}",
        "profkit profile SAMPLE --deep",
        "the rule decides"),
}

CHINESE: dict[str, Words] = {
    "dram-bound": ("受显存带宽限制：已达 DRAM 屋顶的 {share}", "减少搬运的字节：与前后算子融合，或用更窄的数据类型；访存方式已无多少余地", "时间随字节数下降，DRAM 占比不变"),
    "dram-bound/headroom": ("受显存带宽限制但有余量：达 DRAM 屋顶的 {share}，普通拷贝可达 80% 至 90%", "增加在途字节：16 B 访问、每线程多个独立加载、更多驻留线程束；然后再减少字节", "DRAM 占比升到 80% 以上"),
    "dram-excess": ("DRAM 流量为必需字节的 {ratio} 倍，达 DRAM 屋顶的 {share}", "找出重复搬运的字节：只用到一部分的 32 B 扇区、只写一部分的扇区（会先被读回）、越过 L2 的重读、中间结果、寄存器溢出", "DRAM 字节接近必需值，DRAM 占比不变"),
    "uncoalesced": ("全局访存未合并（{which}）：每次请求 {sectors} 个 32 B 扇区", "让相邻线程访问相邻地址；两侧无法兼顾时在共享内存中转置", "4 B/线程时每次请求 4 个扇区（16 B 时 16 个）；L1、L2 流量按比例下降"),
    "uncoalesced/suspected": ("无可复用的任务却向 L2 请求了 {sectors} 倍的必需字节：访存大概没有合并", "让相邻线程访问相邻地址；--deep 可数出每次请求的扇区", "L2 字节降到必需值的约两倍或更少"),
    "l2-bound": ("受 L2 带宽限制：已达 L2 屋顶的 {share}", "提高每次取数的复用：更大的共享内存或寄存器分块、更宽的加载", "L2 字节下降，DRAM 字节不变"),
    "l2-bound/waits": ("等待 L2：{share} 的查找在 L2 命中，线程束 {waits} 的时间在等加载", "把数据放进共享内存复用，提前加载（cp.async、TMA），或加宽加载", "long_scoreboard 停顿与 L2 字节下降，发射率上升"),
    "bank-conflicts": ("共享内存 bank 冲突：{which} 的波前有 {share} 是重复", "分块每行补一个元素，或对列做 swizzle", "冲突接近 0，mio_throttle、short_scoreboard 停顿下降"),
    "local-memory": ("本地内存占 L1 流量的 {share}（每线程 {registers} 个寄存器）", "用常量下标索引数组（展开），减少存活的值，或放宽寄存器（__launch_bounds__）", "本地扇区为 0，L1 字节下降"),
    "atomics": ("原子操作占全局请求的 {share}，且远离所有屋顶", "先在线程束与线程块内归约，每块只做一次原子操作；分散热点地址", "原子请求按块大小下降，DRAM 占比上升"),
    "few-blocks": ("线程块过少：{blocks} 个块，{sms} 个 SM", "把工作拆成更多块（split-K、更大的网格、第二遍合并部分结果）", "至少 {sms} 个块，占比随使用的 SM 上升"),
    "few-blocks/short": ("{us} us，不比一次启动长，{sms} 个 SM 只用 {blocks} 个块：主要是启动与访存延迟", "一次启动做更多事（与前后算子融合、合并多次调用），或用 CUDA graph 重放启动", "单次启动的工作变多，时间仍接近启动下限"),
    "small-grid": ("不足一波线程块（{waves}），总共 {us} us：启动与访存延迟显现", "更小的块或每线程更少的工作、每线程更多在途加载；或一次启动做更多事", "接近一波，时间接近启动下限"),
    "tail-wave": ("尾部效应：{waves} 波线程块，最后一波只有 {last}", "让网格为整波的倍数、用更小的块，或持久化 kernel", "整波，时间按空闲比例下降"),
    "low-occupancy": ("受延迟限制，占用率 {limit}，受限于 {cause}", "释放受限的资源，或让每线程有更多独立的工作在途", "占用率与最近屋顶的占比一起上升"),
    "low-occupancy/registers": ("受延迟限制，占用率 {limit}，受限于寄存器（每线程 {registers} 个）", "减少存活的值、缩小每线程分块，或用 __launch_bounds__；留意溢出", "占用率上限上升，本地内存仍为 0"),
    "low-occupancy/shared-memory": ("受延迟限制，占用率 {limit}，受限于共享内存（每块 {shared} KiB）", "更小的分块或更少的级数；复用生命期不重叠的缓冲", "占用率上限上升，最近屋顶的占比随之上升"),
    "low-occupancy/block-size": ("受延迟限制，占用率 {limit}，受限于块大小（{block} 线程）", "使用 128 线程以上的块", "占用率上限上升，最近屋顶的占比随之上升"),
    "uneven-occupancy": ("SM 上的线程束只有理论值的 {share}：块的工作不均或太短", "均衡各块的工作，或让一个块做更多", "实际占用率接近理论值"),
    "stalls": ("发射很少（{issue} 的周期）；线程束 {share} 的时间在等 {reason}", "在 Nsight Compute 中查看该停顿的源代码行", "issue_active 上升"),
    "stalls/long_scoreboard": ("发射很少（{issue} 的周期）；线程束 {share} 的时间在等全局内存", "增加在途加载：展开、更宽的加载（每线程 16 B）、预取（cp.async、TMA）", "long_scoreboard 下降，DRAM 占比上升"),
    "stalls/barrier": ("发射很少（{issue} 的周期）；线程束 {share} 的时间在等栅栏", "更少的 __syncthreads、更小的块，或双缓冲", "barrier 停顿下降，issue_active 上升"),
    "stalls/short_scoreboard": ("发射很少（{issue} 的周期）；线程束 {share} 的时间在等共享内存或特殊函数", "减少共享内存往返（寄存器、更宽的访问），减少 exp、log、除法", "short_scoreboard 下降，issue_active 上升"),
    "stalls/mio_throttle": ("发射很少（{issue} 的周期）；线程束 {share} 的时间在等共享内存队列", "更宽的共享访问（16 B）、更少次数、无冲突", "mio_throttle 下降，issue_active 上升"),
    "stalls/lg_throttle": ("发射很少（{issue} 的周期）；线程束 {share} 的时间在等全局/本地内存队列", "更少、更宽的全局访问；不用本地内存", "lg_throttle 下降，issue_active 上升"),
    "latency": ("受延迟限制：最近的屋顶 {roof} 只有 {share}", "采集深度计数器，看线程束在等什么（profkit profile SAMPLE --deep）", "停顿原因给出下一步"),
    "divergence": ("每条指令 32 个线程中只有 {threads} 个活动：分支发散或线程空闲", "对工作排序或分组，使一个线程束走同一条路径", "threads_per_inst 接近 32"),
    "pipe-bound": ("受计算限制：已达 {pipe} 屋顶的 {share}", "更少或更便宜的运算：更好的算法、任务允许时更低的精度、矩阵乘用 Tensor Core", "时间随运算量下降，占比不变"),
    "pipe-bound/tensor": ("已达 {pipe} 屋顶的 {share}：Tensor Core 已忙", "更少或更窄的运算：利用矩阵的结构、任务允许时用更低的精度", "时间随运算量下降，占比不变"),
    "use-tensor-cores": ("矩阵乘跑在 {pipe} 管线上：{twin} 的峰值是其 {gain} 倍", "改用 Tensor Core（库、wgmma、Triton tl.dot）；{twin} 会舍入输入，须检查容差", "tensor_share 接近 1，时间低于 {pipe} 屋顶"),
    "use-tensor-cores/exact": ("矩阵乘跑在普通 {pipe} 单元上：{twin} 峰值是其 {gain} 倍，精度相同", "改用 fp64 Tensor Core（DMMA：库、mma.sync m8n8k4）", "tensor_share 接近 1，时间低于普通 {pipe} 屋顶"),
    "tensor-idle": ("Tensor Core 空闲：{pipe} 只有屋顶的 {share}，也不接近其他屋顶", "喂饱它：更深的异步流水（cp.async、TMA）、更大的分块、更多线程束", "Tensor 占比上升，long_scoreboard 停顿下降"),
    "tensor-idle/hopper": ("Tensor Core 空闲：{pipe} 只有屋顶的 {share}，也不接近其他屋顶", "若是 mma.sync 或 wmma，其屋顶只有三分之二：改用 wgmma 与 TMA（库、Triton、CUTLASS 3）；否则加深流水", "Tensor 占比超过 67 %，此芯片上只有 wgmma 能达到"),
    "precision": ("{wanted} 的任务里有 fp64 运算（占 FLOP 的 {share}）：fp32 峰值是其 {gain} 倍", "查找双精度常量（1.0 应为 1.0f）与双精度库函数", "flop_fp64 为 0，时间低于 fp64 屋顶"),
    "precision/maybe": ("fp64 运算占 FLOP 的 {share}：fp32 峰值是其 {gain} 倍", "若数据是 fp32，查找双精度常量（1.0 应为 1.0f）；若任务需要 fp64，则保留", "flop_fp64 为 0，时间低于 fp64 屋顶"),
    "non-fma": ("{pipe} 指令只有 {share} 是 FMA：已达这种组合上限的 {used}", "把 a*b+c 写成可收缩的形式（不用 -fmad=false、__fmul_rn），调整求和次序", "fma_share 上升，同样 FLOP 的指令变少"),
    "issue-bound": ("调度器 {issue} 的周期都在发射，却不接近任何屋顶：指令太多", "减少地址与循环指令：展开、更宽的加载、32 位下标、FMA", "inst_executed 下降，直到接近某个屋顶"),
    "launch-bound": ("受启动限制：{us} us 内 {count} 个 kernel，平均 {each} us", "把链融合成一个 kernel，或用 CUDA graph 重放（torch.compile、cudaGraph）", "一次启动；时间接近最长的单个 kernel"),
    "host-bound": ("主机比设备慢：提交一次调用 {host} us，执行 {us} us", "每次调用更少的算子、CUDA graph，或更大的批", "主机时间低于设备时间；墙钟每次最多省 {gap} us，设备时间不变"),
    "fuse": ("{count} 次启动经 DRAM 传递中间结果：为必需字节的 {ratio} 倍", "融合整条链（单个 kernel、Triton、torch.compile），每个输入只读一次、每个输出只写一次", "一个 kernel，DRAM 字节接近必需值"),
    "fuse/between": ("{count} 次启动经 DRAM 传递中间结果：为必需字节的 {ratio} 倍；{stay} 的时间在计算，其余在搬运", "把计算 kernel 之间的部分融合掉：并入其 epilogue，或彼此融合（Triton、torch.compile、库的融合调用）", "kernel 变少，计算 kernel 的时间不变"),
    "modelled": ("为其工作量（{source}）下限的 {ratio} 倍；没有计数器，原因未知", "采集硬件计数器（profkit profile SAMPLE --ncu）", "得到原因与更紧的上界"),
    "modelled/near": ("按任务工作量（{source}）计，达 {bound} 屋顶的 {share}；没有计数器", "接近该屋顶时只有减少工作量才有用；硬件计数器可给出实际搬运量（profkit profile SAMPLE --ncu）", "计数器给出的占比相同或更高"),
    "modelled/chain": ("每次调用 {count} 个 kernel，为其工作量（{source}）下限的 {ratio} 倍；没有计数器", "融合整条链（单个 kernel、Triton、torch.compile）；硬件计数器可给出经过内存的字节（--ncu）", "一个 kernel，时间接近下限"),
    "collect": ("未检查：规则 {rule} 需要 {counters}", "profkit profile SAMPLE --deep", "规则得以判断"),
}
# fmt: on

_TABLES = {"en": ENGLISH, "zh": CHINESE}


def words(rule: str, variant: str, params: Mapping[str, str], lang: str = "en") -> Words:
    """Title, next step and expectation of a rule; a variant without words has the rule's own."""
    table = _TABLES[lang]
    row = table.get(f"{rule}/{variant}") or table[rule]
    title, then, expect = (text.format_map(params) for text in row)
    return title, then, expect
