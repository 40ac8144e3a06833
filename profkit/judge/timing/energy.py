"""Energy per call, by the GPU's own counter over a batch of at least a second."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from profkit.guest import facts
from profkit.guest.clocks.batch import batch
from profkit.guest.clocks.timing import Sample
from profkit.vendor.nvidia import nvml

SECONDS = 1.2
_MOST_CALLS = 1_000_000


def per_call(
    calls: Mapping[str, Any], samples: Sequence[Sample], device: torch.device, before: Callable[[str], None]
) -> dict[str, float]:
    """Joules per call of each implementation in a loop, the GPU's idle power included.

    Empty where the GPU counts no energy. The counter is the whole board's and moves about ten times a second.
    """
    if counter(device) is None:
        return {}
    found: dict[str, float] = {}
    for name, call in calls.items():
        before(name)
        count = _enough([sample for sample in samples if sample.impl == name])
        began = counter(device)
        if hasattr(call, "batch"):
            call.batch(count, 0.0)
        else:
            batch(call, count, 0.0, device)
        ended = counter(device)
        if began is not None and ended is not None and ended > began:
            found[name] = (ended - began) / count
    return found


def _enough(samples: Sequence[Sample]) -> int:
    """Number of calls that last SECONDS on device or host, whichever is longer."""
    longest = max(
        (
            statistics.median(values)
            for values in ([s.seconds for s in samples if s.kept], [s.host for s in samples if s.host == s.host])
            if values
        ),
        default=math.nan,
    )
    return max(1, min(_MOST_CALLS, math.ceil(SECONDS / longest))) if longest > 0 else 1


def counter(device: torch.device) -> float | None:
    """Joules since the driver was loaded; None where the GPU does not count."""
    if device.type != "cuda":
        return None
    with nvml.Unsaid():
        pynvml, handle = facts.nvml(device)
        return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) * 1e-3
    return None
