"""What recording by torch's profiler takes the host, measured where it was done: the same small steps with it and without."""

from __future__ import annotations

import time
from collections.abc import Callable

TURNS, STEPS = 4, 40
"""Times that steps with and without recording follow each other, and steps of each."""


def cost(device: str) -> float:
    """Seconds that one record (an operator, a range, a CUDA call) takes the thread it is of, by the quickest turn of each; 0.0
    where it was not to be measured, as on a GPU that a fault has stopped.

    The steps are chains of operators so short that the GPU waits for the host.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    without, within, records = [], [], 0
    try:
        step = _chain(device)
        _seconds(step, device)
        for _ in range(TURNS):
            without.append(_seconds(step, device))
            with profile(activities=kinds) as profiler:
                # What it sets up at the first records is no cost of each.
                _seconds(step, device)
                within.append(_seconds(step, device))
            found = profiler.profiler.kineto_results.events() if profiler.profiler is not None else []
            records = sum(event.device_type() == torch.autograd.DeviceType.CPU for event in found) // 2
    except RuntimeError:
        return 0.0
    return max(0.0, min(within) - min(without)) / records if records else 0.0


def _chain(device: str) -> Callable[[], None]:
    """A step of 30 operators forward, theirs backward, and an update."""
    import torch

    with torch.enable_grad():
        x, w = (torch.ones(64, device=device, dtype=torch.float32, requires_grad=True) for _ in "xw")

    def step() -> None:
        with torch.enable_grad():
            y = x
            for _ in range(10):
                y = (y * w + x).relu()
            y.sum().backward()
        with torch.no_grad():
            for one in (x, w):
                one.add_(one, alpha=-1e-3)
                one.grad = None

    return step


def _seconds(step: Callable[[], None], device: str) -> float:
    """Of STEPS of them, the GPU's end included."""
    import torch

    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begin
