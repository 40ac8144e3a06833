"""Timing functions for tuners and scripts, with the signature of triton.testing.do_bench."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable, Sequence
from dataclasses import astuple, fields
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from analyzers.verdicts.statistics import Ratio

_MODES: dict[str, Callable[[Sequence[float]], Any]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
    "all": list,
}
_LEAST = 8


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[torch.Tensor] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Time `fn()` with cold cache, without launch overhead; interface of Triton's do_bench.

    On a GPU minus the reading of an event pair on an empty kernel. warmup, rep: milliseconds of warm-up and of
    sampling, including cache flushes. quantiles: return these instead. return_mode: mean, median, min, max, or all.
    Returns milliseconds. Raises ValueError for an unknown mode.
    """
    if return_mode not in _MODES:
        raise ValueError(f"return_mode {return_mode!r}: it is one of {', '.join(_MODES)}")
    clock = _clock()

    def without_gradients() -> Any:
        for leaf in grad_to_none or ():
            leaf.grad = None
        return fn()

    call = without_gradients if grad_to_none else fn
    less = offset(_current()) if clock.method == "event" else 0.0
    clock.warm_up(call)
    samples: list[float] = []
    began = perf_counter()
    while len(samples) < _LEAST or perf_counter() < began + (warmup + rep) * 1e-3:
        seconds, _, sound = clock.sample(call)
        if sound and perf_counter() > began + warmup * 1e-3:
            samples.append((seconds - less) * 1e3)
    if quantiles is not None:
        import numpy as np

        told: list[float] = np.quantile(samples, list(quantiles)).tolist()
        return told[0] if len(told) == 1 else told
    return _MODES[return_mode](samples)


def compare_timings(a: Callable[[], Any], b: Callable[[], Any], *, budget: float = 1.0, target: float = 0.005) -> Ratio:
    """Time two callables alternately: speed-up of `b` over `a`, its 95 % interval and verdict.

    budget: most seconds; target: relative half-width of the medians at which to stop.
    """
    import pandas as pd

    from analyzers.verdicts import timing as judging
    from profkit.guest.clocks.timing import Plan, Sample, measure

    samples = measure({"a": a, "b": b}, _clock(), Plan(budget, target)).samples
    names = [field.name for field in fields(Sample)]
    frame = judging.check(pd.DataFrame([astuple(sample) for sample in samples], columns=names))
    return judging.speedups(judging.choose(frame), "a")["b"]


@cache
def offset(device: torch.device) -> float:
    """Overhead of an event pair over CUPTI [s]; 0, with a warning, without CUPTI."""
    from profkit.guest.clocks import cupti
    from profkit.guest.clocks.clocks import CudaClock

    try:
        return cupti.event_offset(CudaClock(device), device)
    except (cupti.CuptiError, RuntimeError) as error:
        warnings.warn(f"times hold what an event pair costs, a microsecond or two: no CUPTI ({error})", stacklevel=2)
        return 0.0


def _clock() -> Any:
    import torch

    from profkit.guest.clocks.clocks import CpuClock, CudaClock

    return CudaClock(_current()) if torch.cuda.is_available() else CpuClock()


def _current() -> torch.device:
    import torch

    return torch.device("cuda", torch.cuda.current_device())
