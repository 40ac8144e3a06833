"""Precision in bits: borders of types, and the known precision of a task."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

BORDERS = {"fp64": 26.0, "fp32": 13.0, "tf32": 9.3, "fp16": 9.3, "bf16": 6.8, "fp8": 3.0}
"""Fewest bits of an answer computed in a type, by benchmarks/measured_precision.py."""
COARSER = {
    "fp64": ("fp32",),
    "fp32": ("tf32", "bf16"),
    "tf32": ("bf16",),
    "fp16": ("bf16", "fp8"),
    "bf16": ("fp8",),
    "fp8": (),
}
"""Types commonly used in place of the task's own."""
UNITS = {"fp64": 2.0**-53, "fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8, "fp8": 2.0**-4}

FLOAT64, BLOCKS, OWN_TYPES = "float64", "float64, in blocks of rows", "its inputs were moved in their own types"
ANSWER = "answers were compared with its own"
"""In what the reference is perturbed: as a whole, in parts, or as it is where neither is possible."""


@dataclass
class Precision:
    """Known precision of a task.

    `type`: of inputs, weights and arithmetic; `own`: bits of the reference; `noise`: outputs that are rounding noise;
    `truth`: see FLOAT64.
    """

    type: str = "fp32"
    own: float = math.inf
    truth: str = FLOAT64
    noise: list[str] = field(default_factory=list)

    @property
    def required(self) -> float:
        """Bits of a correct answer: the type's, or one less than the reference's if it has fewer."""
        return min(BORDERS[self.type], self.own - 1.0)

    @property
    def least(self) -> float:
        """Bits below which an answer is wrong: those of the coarsest accepted type."""
        return min(self.required, *(BORDERS[one] for one in COARSER[self.type]), BORDERS[self.type])

    def named(self, bits: float) -> str:
        """Type with this number of bits in this task."""
        if bits >= self.required:
            return self.type
        return next((one for one in COARSER[self.type] if bits >= BORDERS[one]), "")


def over(errors: list[float], responses: list[float]) -> float:
    """Worst ratio of an error to its response."""
    return max((share(e, r) for e, r in zip(errors, responses, strict=False)), default=0.0)


def share(error: float, response: float) -> float:
    if error == 0.0:
        return 0.0
    return error / response if response > 0.0 else math.inf


def to_bits(ratio: float) -> float:
    return math.inf if ratio == 0.0 else -math.log2(ratio) if ratio < math.inf else -math.inf
