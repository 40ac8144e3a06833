"""Compute pipes and memory levels: names of their ceilings and counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from collectors.counters import COUNTERS, metrics_for
from collectors.recipes import capability
from roofline.ceilings import BANDWIDTH

LEVELS = {level: f"{level}_bytes" for level in BANDWIDTH}
"""Memory level -> its counter of bytes."""

DRAM_TOLD = "dram_throughput"
"""ncu's own share of DRAM's peak, in its basic set, which has no bytes."""

TENSOR = "tensor_"
_CORES = ("fp64", "fp32", "fp16")

PIPES: dict[str, str] = {
    **{name: f"flop_{name}" for name in _CORES},
    **{TENSOR + name[len("op_tensor_") :]: name for name in COUNTERS if name.startswith("op_tensor_")},
}
"""Compute ceiling -> its counter of operations."""


def peak_counter(name: str) -> str:
    """Counter with the tool's own peak: fp32 -> peak_fp32, dram -> peak_dram_bw."""
    return f"peak_{name}_bw" if name in LEVELS else f"peak_{name}"


@lru_cache(maxsize=4096)
def chip_has(counter: str, cc: str) -> bool:
    """Whether a chip has a counter; for an unknown chip only counters of every chip."""
    try:
        capability(cc)
    except ValueError:
        return not counter.startswith("op_tensor_")
    return bool(metrics_for([counter], cc))


_KEPT = {
    "fp64": (53, 11),
    "fp32": (24, 8),
    "tf32": (11, 8),
    "fp16": (11, 5),
    "bf16": (8, 8),
    "fp8": (4, 4),
    "fp6": (4, 2),
    "fp4": (2, 2),
}


TYPES = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
"""Spelling of floating types by PyTorch -> by pipes."""


def keeps(pipe: str) -> tuple[int, ...]:
    """Significand and exponent bits of a type: fp32 > tf32 > fp16 > bf16; () unknown."""
    return _KEPT.get(pipe.removeprefix(TENSOR), ())


def task_type(task: Mapping[str, Sequence[str]]) -> str:
    """Narrowest floating type of a task's inputs, weights and outputs: fp32, bf16, ...; "" none."""
    names = {name for types in task.values() for name in types}
    short = {name: "fp4" if name.startswith("float4") else "fp8" for name in names if "float" in name}
    return min(((short | TYPES)[name] for name in short), key=keeps, default="")


def in_order(names: Iterable[str]) -> list[str]:
    """Pipe names in the order of PIPES, unknown ones last."""
    order = {name: index for index, name in enumerate(PIPES)}
    return sorted(names, key=lambda name: (order.get(name, len(order)), name))
