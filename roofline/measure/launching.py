"""Device time of an empty kernel and of the gap between two kernels, as CUPTI sees them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any

from roofline.ceilings import Ceiling

CALLS = 400
WARM = 50
"""Launches at the beginning that do not count."""


def launch_ceilings(torch: Any) -> tuple[tuple[Ceiling, ...], tuple[str, ...]]:
    """Medians of `launch` [s] and `gap` [s] between kernels queued on one stream, or reasons."""
    try:
        spans = _spans(torch)
    except Exception as error:  # a profiler that is held by another tool, or missing
        return (), (f"launch, gap: {type(error).__name__}: {error}",)
    if len(spans) < WARM + 50:
        return (), (f"launch, gap: the profiler saw {len(spans)} of {CALLS} launches",)
    return _ceilings(spans[WARM:], datetime.now(timezone.utc).isoformat(timespec="seconds")), ()


def _spans(torch: Any) -> list[tuple[int, int]]:
    """(begin, end) [ns] of one-element additions queued behind a wait, in order."""
    x = torch.zeros(1, device="cuda")
    x.add_(1)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        torch.cuda._sleep(20_000_000)  # longer than the host needs to queue them
        for _ in range(CALLS):
            x.add_(1)
        torch.cuda.synchronize()
    seen = profiler.profiler.kineto_results.events()
    adds = [e for e in seen if e.device_type() == torch.autograd.DeviceType.CUDA and "elementwise" in e.name()]
    return sorted((e.start_ns(), e.start_ns() + e.duration_ns()) for e in adds)


def _ceilings(spans: Sequence[tuple[int, int]], stamp: str) -> tuple[Ceiling, ...]:
    lengths = [(end - begin) * 1e-9 for begin, end in spans]
    gaps = [(after - end) * 1e-9 for (_, end), (after, _) in pairwise(spans)]
    found = []
    for name, values, variant in (
        ("launch", lengths, "an addition of one element"),
        ("gap", [gap for gap in gaps if gap > 0], "between queued kernels of a stream"),
    ):
        if not values:
            continue
        low, middle, high = statistics.quantiles(values, n=4)
        note = f"CUPTI, median of {len(values)}"
        spread = (high - low) / middle
        found.append(
            Ceiling(name, "time", middle, "measured", note=note, variant=variant, spread=spread, measured_at=stamp)
        )
    return tuple(found)
