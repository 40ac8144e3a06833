"""The operation that launched a kernel, also in a replayed CUDA graph (torch.profiler).

A launches frame has it as text (`op`, the JSON of `Operation`) and number (`call`), equal for the kernels of one call.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

BYTES = {
    **dict.fromkeys(("double", "long int", "long", "c10::complex<float>"), 8),
    **dict.fromkeys(("float", "int", "unsigned int"), 4),
    **dict.fromkeys(("c10::BFloat16", "c10::Half", "short", "short int"), 2),
    **dict.fromkeys(("bool", "unsigned char", "signed char", "c10::Float8_e4m3fn", "c10::Float8_e5m2"), 1),
}
"""Bytes per element by the profiler's type name."""
SHORT = {"c10::BFloat16": "bf16", "c10::Half": "fp16", "float": "fp32", "double": "fp64", "long int": "int64"}
_LAUNCH = re.compile(r"(?<!Graph)Launch(?!HostFunc)")


class Tensor(NamedTuple):
    """An argument: its place, type ("" in a list), sizes, and strides if known."""

    at: int
    kind: str
    dims: tuple[int, ...]
    steps: tuple[int, ...] | None = None

    @property
    def elements(self) -> int:
        """Distinct elements; a dimension of stride 0 has one."""
        return math.prod(size if step else 1 for size, step in zip(self.dims, self.steps or (1,) * 99, strict=False))

    @property
    def numel(self) -> int:
        return math.prod(self.dims)


class Operation(msgspec.Struct, frozen=True, array_like=True):
    """A call: name, and by argument sizes, types, strides and concrete values.

    Without recorded shapes, `types` is empty.
    """

    name: str
    dims: list[Any] = []
    types: list[str] = []
    strides: list[Any] = []
    values: list[str] = []

    @property
    def short(self) -> str:
        """Name without torch's own namespace."""
        return self.name.removeprefix("aten::")

    def tensors(self) -> Iterator[Tensor]:
        """Tensors in order, those in lists too."""
        for at, (kind, dims) in enumerate(zip(self.types, self.dims, strict=False)):
            steps = self.strides[at] if at < len(self.strides) else ()
            if kind in BYTES:
                yield Tensor(at, kind, tuple(dims), tuple(steps) if len(steps) == len(dims) else None)
            elif kind == "TensorList":
                yield from (Tensor(at, "", tuple(one)) for one in dims if isinstance(one, list))

    def value(self, at: int) -> str:
        """Concrete value of an argument as text, "" if not recorded."""
        return self.values[at] if at < len(self.values) else ""

    def ints(self, at: int) -> list[int]:
        """Whole numbers of an argument."""
        return [int(one) for one in re.findall(r"-?\d+", self.value(at))]

    def shapes(self) -> str:
        """Sizes and types as text: "[788, 768] [768, 3072] bf16"."""
        known = [one for one in self.tensors() if one.dims]
        kinds = dict.fromkeys(SHORT.get(one.kind, one.kind.removeprefix("c10::")) for one in known if one.kind)
        told = [f"[{', '.join(map(str, one.dims))}]" for one in known[:4]]
        return " ".join([*told, *["..."] * (len(known) > 4), *(["/".join(kinds)] if kinds else [])])


@lru_cache(maxsize=65536)
def parsed(text: str) -> Operation:
    """The operation of a frame's `op`; without a name for ""."""
    return msgspec.json.decode(text, type=Operation) if text else Operation("")


def told(name: str, dims: Any, types: Any, strides: Any, values: Iterable[Any]) -> str:
    """Encode a call's arguments as the text `op`."""
    known = ["" if one is None else str(one) for one in values or ()]
    # Before torch 2.3 a trace had "Input type" without anything else.
    return msgspec.json.encode(Operation(name, dims or [], types if dims else [], strides or [], known)).decode()


def of_launches(
    kernels: Sequence[Any],
    calls: Sequence[tuple[str, Any, Any]],
    operations: Mapping[Any, str],
    askers: Sequence[Any],
) -> tuple[list[str], list[int]]:
    """(`op`, `call`) of each piece of work by start; "" and -1 unknown.

    kernels: correlation of each piece of work, None for memory operations. calls: name, correlation and external id of
    the host's calls in order of start. operations: external id -> `op`; askers: the id of each piece of work. A CUDA
    graph's n-th kernel gets the operation of its capture's n-th launch, if the trace holds exactly one capture with as
    many launches.
    """
    ids, unique = list(askers), list(askers)
    graphs = {correlation: list[int]() for name, correlation, _ in calls if "GraphLaunch" in name}
    for at, correlation in enumerate(kernels if graphs else ()):
        if correlation in graphs:
            graphs[correlation].append(at)
    captures = _captured(calls)
    for replay, places in enumerate(graphs.values(), 1):
        fitting = [one for one in captures if len(one) == len(places)]
        if len(fitting) == 1:
            for at, number in zip(places, fitting[0], strict=True):
                ids[at], unique[at] = number, (number, replay)
    texts, numbers = [operations.get(number, "") for number in ids], dict[Any, int]()
    return texts, [
        numbers.setdefault(one, len(numbers)) if text else -1 for one, text in zip(unique, texts, strict=True)
    ]


def _captured(calls: Sequence[tuple[str, Any, Any]]) -> list[list[Any]]:
    """External ids of the launches of each capture of a CUDA graph."""
    captures: list[list[Any]] = []
    inside = False
    for name, _, external in calls:
        if "StreamBeginCapture" in name:
            captures.append([])
        inside = "StreamEndCapture" not in name and (inside or "StreamBeginCapture" in name)
        if inside and _LAUNCH.search(name):
            captures[-1].append(external)
    return captures
