"""Recipes of counters: weighted sums of products of a tool's metrics, per chip.

Metrics are named as the tool names them and hold SI base units (s, B, Hz); a percentage stays a percentage. Which name
of ncu's exists on which chip was asked of NVIDIA's perf host libraries of CUDA 12.8 and 13.5. Tensor counters count
operations, two a multiply-add. Peaks are per second, at the clock of the run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Column: TypeAlias = "NDArray[np.float64]"


@dataclass(frozen=True)
class Recipe:
    """A sum of terms, each a weight times a product of metrics, valid on some chips.

    chips: compute capabilities, "8.0-8.9 12.0", open range "9.0-", "" = every chip. ask: whether a recording requests
    these metrics; the others only serve foreign exports.
    """

    terms: tuple[tuple[float, tuple[str, ...]], ...]
    chips: str = ""
    ask: bool = True

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Metrics of this recipe, in order, each once."""
        names = [name for _, metrics in self.terms for name in metrics]
        return tuple(dict.fromkeys(names))

    def covers(self, cc: str) -> bool:
        """Whether the recipe holds for compute capability `cc`; for "" (unknown) every recipe does."""
        return not cc or covers(self.chips, cc)

    def value(self, columns: Mapping[str, Any]) -> Any:
        """The sum; NaN if a metric is NaN. Every metric must be in `columns`."""
        return sum(math.prod((columns[name] for name in metrics), start=weight) for weight, metrics in self.terms)


def one(metric: str, weight: float = 1.0, *, chips: str = "", ask: bool = True) -> Recipe:
    """weight * metric."""
    return Recipe(((weight, (metric,)),), chips, ask)


def total(weights: Mapping[str, float], *, chips: str = "", ask: bool = True) -> Recipe:
    """The sum of weight * metric."""
    return Recipe(tuple((weight, (metric,)) for metric, weight in weights.items()), chips, ask)


def product(weight: float, *metrics: str, chips: str = "", ask: bool = True) -> Recipe:
    """weight * metric * metric ..."""
    return Recipe(((weight, metrics),), chips, ask)


@lru_cache(maxsize=4096)
def covers(chips: str, cc: str) -> bool:
    """Whether compute capability `cc` is in the list `chips` (see Recipe)."""
    if not chips:
        return True
    number = capability(cc)
    for part in chips.split():
        low, dash, high = part.partition("-")
        end = capability(high) if high else (1 << 30 if dash else capability(low))
        if capability(low) <= number <= end:
            return True
    return False


def capability(cc: str) -> int:
    """A number that orders chips: "9.0" and "sm_90a" are 90; raises ValueError."""
    found = re.fullmatch(r"(\d+)\.(\d)", cc) or re.fullmatch(r"sm_(\d+)(\d)[a-z]?", cc)
    if not found:
        raise ValueError(f"compute capability {cc!r} is not like '9.0'")
    return int(found[1]) * 10 + int(found[2])


TIME = "gpu__time_duration.sum"
SM_CLOCK = "sm__cycles_elapsed.avg.per_second"
L2_CLOCK = "lts__cycles_elapsed.avg.per_second"
DRAM_CLOCK = "dram__cycles_elapsed.avg.per_second"

# 8.7, 11.0 and 12.1 share their memory with the CPU and have no dram__ metrics at all.
DRAM_CHIPS = "7.0-8.6 8.9-10.3 12.0"
PACKED = "10.0-10.3"
NOT_PACKED = "7.0-9.0 11.0-"


def dram(direction: str) -> tuple[Recipe, ...]:
    """Bytes of one direction, by the older and the newer name of the metric."""
    return (
        one(f"dram__bytes_{direction}.sum", chips=DRAM_CHIPS),
        one(f"dram__bytes_op_{direction}.sum", chips="10.0-10.3 12.0"),
        product(1.0, f"dram__bytes_{direction}.sum.per_second", TIME, ask=False),
        one(f"dram__sectors_{direction}.sum", 32.0, ask=False),
    )


def instructions(weights: Mapping[str, float], chips: str = "") -> tuple[Recipe, ...]:
    """Weighted thread instructions (fadd, dfma, ...): from totals or, in charts, from rates."""
    clock = "smsp__cycles_elapsed.avg.per_second"
    rates = [(weight, (f"smsp__{_sass(op)}.per_cycle_elapsed", clock, TIME)) for op, weight in weights.items()]
    return (
        total({f"sm__{_sass(op)}": weight for op, weight in weights.items()}, chips=chips),
        total({f"smsp__{_sass(op)}": weight for op, weight in weights.items()}, chips=chips, ask=False),
        Recipe(tuple(rates), chips, ask=False),
    )


def fp32(weights: Mapping[str, float]) -> tuple[Recipe, ...]:
    """fp32 operations of CUDA cores; a packed instruction (ffma2 of 10.0, 10.3) counts two."""
    scalar = {f"f{op}": weight for op, weight in weights.items()}
    packed = {f"f{op}2": 2.0 * weight for op, weight in weights.items()}
    return (*instructions({**scalar, **packed}, PACKED), *instructions(scalar, NOT_PACKED))


def fma_peak(op: str, weight: float) -> Recipe:
    """weight * fused multiply-adds per second, all lanes busy."""
    return product(weight, f"sm__{_sass(op)}.peak_sustained", SM_CLOCK)


def tensor(*paths: str, chips: str) -> Recipe:
    """Operations of tensor paths."""
    return total({f"sm__ops_path_tensor_{path}.sum": 1.0 for path in paths}, chips=chips)


def tensor_peak(path: str, chips: str) -> Recipe:
    """Operations per second of one tensor path."""
    return product(1.0, f"sm__ops_path_tensor_{path}.sum.peak_sustained", SM_CLOCK, chips=chips)


def dense_peak(path: str, *, hopper: str, unit: str = "hmma", blackwell: str = "utchmma") -> tuple[Recipe, ...]:
    """The dense peak of a path; the plain src_* peak of 8.0 to 9.0 is of sparse operands.

    hopper: the wgmma path of 9.0. unit: the mma.sync instruction, which is all 12.0 has. blackwell: the
    one of 10.0 to 11.0; int8 has none on 10.3.
    """
    whole = blackwell != "utcimma"
    return (
        tensor_peak(f"{path}_sparsity_off", "8.0-8.9"),
        tensor_peak(f"op_{hopper}_sparsity_off", "9.0"),
        tensor_peak(f"op_{blackwell}_{path}_sparsity_off", "10.0-11.0" if whole else "10.0 11.0"),
        tensor_peak(f"op_{unit}_{path}_sparsity_off", "12.0-12.1" if whole else "10.3 12.0-12.1"),
    )


def _sass(op: str) -> str:
    return f"sass_thread_inst_executed_op_{op}_pred_on.sum"
