"""Causes for a kernel far from every ceiling, in words; analyzers.placement selects one."""

from __future__ import annotations

CAUSES: dict[str, tuple[str, str]] = {
    "one-block": ("one block works", "只有一个线程块在工作"),
    "few-blocks": ("too few blocks for the SMs", "线程块太少，占不满 SM"),
    "launch": ("as short as a launch", "与一次 kernel 启动一样短"),
    "small-grid": ("the grid is too small to fill the GPU", "grid 太小，填不满 GPU"),
    "uncoalesced": ("access is not coalesced", "访存未合并"),
    "few-warps": ("too few warps are resident", "常驻线程束太少"),
    "tail": ("the last wave of blocks is nearly empty", "最后一个 wave 几乎是空的"),
    "uneven": ("blocks are uneven or short-lived", "线程块之间工作量不均，或执行时间太短"),
    "dependent-loads": ("warps wait for their loads", "线程束在等待加载"),
    "stalls": ("warps wait", "线程束在等待"),
    "issue": ("issue slots are nearly full", "指令发射已接近饱和"),
}
"""Cause by counters or geometry -> (English, Chinese); the first that holds applies."""
