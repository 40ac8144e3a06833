"""Timing functions for tuners and scripts, with the signature of triton.testing.do_bench."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import astuple, fields
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
    """Time `fn()`, cold cache, launch cost outside; signature and units of Triton's do_bench.

    warmup, rep: milliseconds of warm-up and of samples. quantiles: return these instead. return_mode: mean, median,
    min, max, or all. Returns milliseconds. Raises ValueError for an unknown mode.
    """
    if return_mode not in _MODES:
        raise ValueError(f"return_mode {return_mode!r}: it is one of {', '.join(_MODES)}")
    clock = _clock()
    call = _without_grad(fn, grad_to_none or ())
    clock.warm_up(call)
    samples: list[float] = []
    took, wanted = 0.0, (warmup + rep) * 1e-3
    while len(samples) < _LEAST or took < wanted:
        seconds, _, sound = clock.sample(call)
        took += max(seconds, 1e-6)
        if sound and took > warmup * 1e-3:
            samples.append(seconds * 1e3)
    if quantiles is not None:
        import numpy as np

        told: list[float] = np.quantile(samples, list(quantiles)).tolist()
        return told[0] if len(told) == 1 else told
    return _MODES[return_mode](samples)


def compare_timings(a: Callable[[], Any], b: Callable[[], Any], *, budget: float = 1.0, target: float = 0.005) -> Ratio:
    """Time two callables in turns: speed-up of `b` over `a`, its 95 % interval and word.

    budget: seconds at most; target: relative half-width of the medians to stop at.
    """
    import pandas as pd

    from analyzers.verdicts import timing as judging
    from profkit.guest.clocks.timing import Sample, measure

    samples = measure({"a": a, "b": b}, _clock(), budget=budget, target=target).samples
    names = [field.name for field in fields(Sample)]
    frame = judging.check(pd.DataFrame([astuple(sample) for sample in samples], columns=names))
    return judging.speedups(judging.choose(frame), "a")["b"]


def _clock() -> Any:
    import torch

    from profkit.guest.clocks.clocks import CpuClock, CudaClock

    return CudaClock(torch.device("cuda")) if torch.cuda.is_available() else CpuClock()


def _without_grad(fn: Callable[[], Any], leaves: Sequence[torch.Tensor]) -> Callable[[], Any]:
    if not leaves:
        return fn

    def call() -> Any:
        for leaf in leaves:
            leaf.grad = None
        return fn()

    return call
