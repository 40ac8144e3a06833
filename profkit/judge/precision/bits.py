"""Precision in bits: borders of types, quantiles, and the known precision of a task."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from profkit.guest.tensors.compare import inexact, numbers, scalars

BORDERS = {"fp64": 26.0, "fp32": 13.0, "tf32": 9.3, "fp16": 9.3, "bf16": 6.8, "fp8": 3.0}
"""Bits from which an answer counts as computed in a type, by benchmarks/measured_precision.py."""
COARSER = {
    "fp64": ("fp32",),
    "fp32": ("tf32", "bf16"),
    "tf32": ("bf16",),
    "fp16": ("bf16", "fp8"),
    "bf16": ("fp8",),
    "fp8": (),
}
"""Types in common use instead of a task's own."""
UNITS = {"fp64": 2.0**-53, "fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8, "fp8": 2.0**-4}
QUANTILES = (0.5, 0.9, 0.99, 0.9999)


@dataclass
class Precision:
    """Known precision of a task.

    `type`: of its inputs, weights and arithmetic; `own`: bits of the reference; `noise`: outputs of rounding noise.
    """

    type: str = "fp32"
    own: float = math.inf
    noise: list[str] = field(default_factory=list)

    @property
    def required(self) -> float:
        """Bits of a right answer: the type's, or one less than the reference where it has fewer."""
        return min(BORDERS[self.type], self.own - 1.0)

    @property
    def least(self) -> float:
        """Bits below which an answer is wrong: those of the coarsest accepted type."""
        return min(self.required, *(BORDERS[one] for one in COARSER[self.type]), BORDERS[self.type])

    def named(self, bits: float) -> str:
        """The type that corresponds to so many bits in this task."""
        if bits >= self.required:
            return self.type
        return next((one for one in COARSER[self.type] if bits >= BORDERS[one]), "")


def is_float(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and inexact(leaf) and leaf.numel() > 0


def as_tensor(leaf: Any) -> Any:
    return torch.tensor(leaf, dtype=torch.float32) if isinstance(leaf, float) else leaf


def flat(tensor: torch.Tensor, at: torch.Tensor | slice = slice(None)) -> torch.Tensor:
    """Elements in float64 or complex128; at: which of the flat tensor."""
    tensor = numbers(tensor.detach().reshape(-1)[at])
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def half_unit(dtype: torch.dtype) -> float:
    """Half an ulp of a type, relative."""
    return float(torch.finfo(dtype).eps) / 2


def quantiles(values: torch.Tensor) -> list[float]:
    """The QUANTILES and the maximum; [] of an empty tensor."""
    if not values.numel():
        return []
    ordered = values.to(torch.float64).sort().values
    places = [min(len(ordered) - 1, math.ceil(q * (len(ordered) - 1))) for q in QUANTILES]
    return scalars(*(ordered[place] for place in places), ordered[-1])


def over(errors: list[float], responses: list[float]) -> float:
    return max((share(e, r) for e, r in zip(errors, responses, strict=False)), default=0.0)


def share(error: float, response: float) -> float:
    if error == 0.0:
        return 0.0
    return error / response if response > 0.0 else math.inf


def to_bits(ratio: float) -> float:
    return math.inf if ratio == 0.0 else -math.log2(ratio) if ratio < math.inf else -math.inf


def class_of(values: torch.Tensor) -> torch.Tensor:
    """0 of finite numbers, 1 of NaN, 2 and 3 of infinities."""
    real = values.real if values.is_complex() else values
    return torch.where(real.isnan(), 1, torch.where(real.isinf(), torch.where(real > 0, 2, 3), 0))
