"""Compute pipes and memory levels: their ceilings' names and the counters that belong to them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from collectors.counters import COUNTERS, metrics_for
from collectors.recipes import capability
from roofline.ceilings import BANDWIDTH

LEVELS = {level: f"{level}_bytes" for level in BANDWIDTH}
"""Memory level -> its counter of bytes."""

TENSOR = "tensor_"
_CORES = ("fp64", "fp32", "fp16")

PIPES: dict[str, str] = {
    **{name: f"flop_{name}" for name in _CORES},
    **{TENSOR + name[len("op_tensor_") :]: name for name in COUNTERS if name.startswith("op_tensor_")},
}
"""Compute ceiling -> its counter of operations."""


def peak_counter(name: str) -> str:
    """The counter with the tool's own peak of a pipe or level: fp32 -> peak_fp32, dram -> peak_dram_bw."""
    return f"peak_{name}_bw" if name in LEVELS else f"peak_{name}"


@lru_cache(maxsize=4096)
def chip_has(counter: str, cc: str) -> bool:
    """Whether a chip has that counter. For an unknown chip ("" or unreadable) only what every chip has."""
    try:
        capability(cc)
    except ValueError:
        return not counter.startswith("op_tensor_")
    return bool(metrics_for([counter], cc))


def precision_bits(pipe: str) -> int:
    """Significand bits a pipe keeps of its inputs: fp32 24, tf32 and fp16 11, bf16 8; integers and unknown
    ones 0.
    """
    known = {"fp64": 53, "fp32": 24, "tf32": 11, "fp16": 11, "bf16": 8, "fp8": 4, "fp6": 4, "fp4": 2}
    return known.get(pipe.removeprefix(TENSOR), 0)


def in_order(names: Iterable[str]) -> list[str]:
    """Pipe names in the order of PIPES, strangers last."""
    order = {name: index for index, name in enumerate(PIPES)}
    return sorted(names, key=lambda name: (order.get(name, len(order)), name))
