"""The operation that launched a kernel, as torch.profiler records it with shapes: a name and its arguments.

In a launches frame it is a text (`op`, the JSON of `Operation`) and a number (`call`, of that one call): kernels of one call
have both in common.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

BYTES = {
    **dict.fromkeys(("double", "long int", "long", "int64_t", "c10::complex<float>"), 8),
    **dict.fromkeys(("float", "int", "unsigned int"), 4),
    **dict.fromkeys(("c10::BFloat16", "c10::Half", "short", "short int", "unsigned short"), 2),
    **dict.fromkeys(("bool", "unsigned char", "signed char", "char"), 1),
    **dict.fromkeys((f"c10::Float8_{kind}" for kind in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz")), 1),
}
"""Bytes of an element by the name that the profiler gives its type."""
SHORT = {"c10::BFloat16": "bf16", "c10::Half": "fp16", "float": "fp32", "double": "fp64", "long int": "int64"}
_BEGIN, _END = re.compile(r"StreamBeginCapture"), re.compile(r"StreamEndCapture")
_LAUNCH, _REPLAY = re.compile(r"(?<!Graph)Launch(?!HostFunc)"), re.compile(r"GraphLaunch")


class Operation(msgspec.Struct, frozen=True, array_like=True):
    """One call's name and arguments by place: sizes (of a list a list of sizes), types, strides, concrete values.

    Empty `dims` and no `types`: shapes were not recorded. Empty `strides`: contiguous as far as is known.
    """

    name: str
    dims: list[Any] = []
    types: list[str] = []
    strides: list[Any] = []
    values: list[str] = []

    @property
    def shaped(self) -> bool:
        """Whether the shapes of its arguments were recorded."""
        return bool(self.types)

    @property
    def short(self) -> str:
        """Name without its namespace where that is torch's own."""
        return self.name.removeprefix("aten::")

    def tensors(self) -> Iterator[tuple[int, str, tuple[int, ...], tuple[int, ...] | None]]:
        """(place, type, sizes, strides or None) of each tensor; those of a list have the type ""."""
        for at, (kind, dims) in enumerate(zip(self.types, self.dims, strict=False)):
            steps = self.strides[at] if at < len(self.strides) else None
            if kind in BYTES:
                yield at, kind, tuple(dims), tuple(steps) if steps is not None and len(steps) == len(dims) else None
            elif kind == "TensorList":
                yield from ((at, "", tuple(one), None) for one in dims if isinstance(one, list))

    def value(self, at: int) -> str:
        """Concrete value of an argument as text, "" where none was recorded."""
        return self.values[at] if at < len(self.values) else ""

    def ints(self, at: int) -> list[int]:
        """Concrete list of whole numbers of an argument."""
        return [int(one) for one in re.findall(r"-?\d+", self.value(at))]

    def shapes(self) -> str:
        """Sizes and types for people: "[788, 768] [768, 3072] bf16"."""
        known = [(kind, dims) for _, kind, dims, _ in self.tensors() if dims]
        kinds = list(dict.fromkeys(SHORT.get(kind, kind.removeprefix("c10::")) for kind, _ in known if kind))
        told = " ".join(f"[{', '.join(map(str, dims))}]" for _, dims in known[:4])
        return " ".join(part for part in (told, "..." if len(known) > 4 else "", "/".join(kinds)) if part)


@lru_cache(maxsize=65536)
def parsed(text: str) -> Operation:
    """The operation of a frame's `op`; raises msgspec.MsgspecError for another text."""
    return msgspec.json.decode(text, type=Operation)


def told(name: str, dims: Any, types: Any, strides: Any, values: Iterable[Any]) -> str:
    """`op` of a call's arguments as the profiler gives them in a trace or, with values not yet texts, in its process."""
    known = ["" if one is None else str(one) for one in values or ()]
    return msgspec.json.encode(Operation(name, dims or [], types or [], strides or [], known)).decode()


def of_event(event: Mapping[str, Any]) -> str:
    """`op` of an event of a Kineto trace."""
    args = event.get("args", {})
    fields = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
    # Before torch 2.3 a trace had "Input type" without anything else.
    dims, types, strides, values = (args.get(name, ()) for name in fields)
    return told(str(event["name"]), dims, types if dims else (), strides, values)


def of_launches(
    work: Sequence[Mapping[str, Any]], calls: Sequence[Mapping[str, Any]], operations: Mapping[Any, Mapping[str, Any]]
) -> tuple[list[str], list[int]]:
    """`op` and `call` of each piece of work in order of start, "" and -1 where the trace does not tell.

    calls: the host's calls in order of start. operations: external id -> its event. A launch of a CUDA graph gets the
    operation that was captured at its place, where the capture is in the trace and launched as many kernels.
    """
    texts: dict[Any, str] = {}
    ids = [one.get("args", {}).get("External id") for one in work]
    graphs = _replayed(work, calls)
    for captured in _captured(calls, operations):
        for places in graphs.values():
            if len(places) == len(captured):
                for at, number in zip(places, captured, strict=True):
                    ids[at] = number
    replays = {at: number for number, places in enumerate(graphs.values()) for at in places}
    numbers: dict[Any, int] = {}
    found: tuple[list[str], list[int]] = ([], [])
    for at, number in enumerate(ids):
        known = number in operations
        if known and number not in texts:
            texts[number] = of_event(operations[number])
        found[0].append(texts[number] if known else "")
        found[1].append(numbers.setdefault((number, replays.get(at)), len(numbers)) if known else -1)
    return found


def _replayed(work: Sequence[Mapping[str, Any]], calls: Sequence[Mapping[str, Any]]) -> dict[Any, list[int]]:
    """The kernels of each launch of a CUDA graph, by its correlation, in order of start."""
    graphs: dict[Any, list[int]] = {
        one["args"]["correlation"]: [] for one in calls if _REPLAY.search(one["name"]) and "correlation" in one["args"]
    }
    for at, one in enumerate(work):
        if one.get("cat") == "kernel" and (number := one.get("args", {}).get("correlation")) in graphs:
            graphs[number].append(at)
    return {number: places for number, places in graphs.items() if places}


def _captured(calls: Sequence[Mapping[str, Any]], operations: Mapping[Any, Any]) -> list[list[Any]]:
    """External ids of the launches of each capture, one of several with as many launches left out: it could be either."""
    captures: list[list[Any]] = []
    inside = False
    for one in calls:
        if _BEGIN.search(one["name"]):
            captures.append([])
            inside = True
        elif _END.search(one["name"]):
            inside = False
        elif inside and _LAUNCH.search(one["name"]):
            captures[-1].append(one["args"].get("External id"))
    sizes = [len(one) for one in captures]
    return [one for one in captures if one and sizes.count(len(one)) == 1 and any(id_ in operations for id_ in one)]


def moved(dims: Sequence[int], strides: Sequence[int] | None) -> int:
    """Distinct elements of a tensor: along a stride of 0 there is one."""
    steps = strides if strides is not None else [1] * len(dims)
    return math.prod(size if step else 1 for size, step in zip(dims, steps, strict=True))
