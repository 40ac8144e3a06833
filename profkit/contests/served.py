"""Samples of the operations that a program calls, at its shapes and their shares of its calls."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyzers.ledger.ledger import Ledger, Row
from collectors.operations import BYTES, Operation, parsed
from profkit.contests.sources import GETTERS, Sources, write_new
from profkit.errors import ProfkitError

LARGEST = 2 << 30
"""Bytes of the inputs of one call from which a shape is left out: they are drawn on the host, over and over."""
MOST_SHAPES = 16
_TYPES = {
    "c10::BFloat16": "bfloat16",
    "c10::Half": "float16",
    "float": "float32",
    "double": "float64",
    "long int": "int64",
}
_HEADS = (
    "F.scaled_dot_product_attention({q}, {k}, {v}, is_causal=bool({causal}), enable_gqa={q}.shape[1] != {k}.shape[1])"
)
_SEQUENCE = {"q": "a0.transpose(1, 2)", "k": "a1.transpose(1, 2)", "v": "a2.transpose(1, 2)"}
_PLAIN = {"q": "a0", "k": "a1", "v": "a2"}
CALLS = {
    "mm": "torch.mm(a0, a1)",
    "addmm": "torch.addmm(a0, a1, a2)",
    "bmm": "torch.bmm(a0, a1)",
    "baddbmm": "torch.baddbmm(a0, a1, a2, beta=a3, alpha=a4)",
    "add": "torch.add(a0, a1)",
    "mul": "torch.mul(a0, a1)",
    "gelu": "F.gelu(a0)",
    "silu": "F.silu(a0)",
    "_softmax": "torch.softmax(a0, a1)",
    "native_layer_norm": "F.layer_norm(a0, a2.shape, a2, a3, a4)",
    "_fused_rms_norm": "F.rms_norm(a0, a2.shape, a2, a3)",
    "embedding": "F.embedding(a1, a0)",
    "index_select": "torch.index_select(a0, a1, a2)",
    "cudnn_convolution": "F.conv{rank}d(a0, a1, None, a3, a2, a4, a5)",
    "convolution": "F.conv{rank}d(a0, a1, a2, a3, a4, a5, a8)",
    "_flash_attention_forward": _HEADS.format(**_SEQUENCE, causal="a8") + ".transpose(1, 2)",
    "_efficient_attention_forward": _HEADS.format(**_SEQUENCE, causal="a9") + ".transpose(1, 2)",
    "_scaled_dot_product_cudnn_attention": _HEADS.format(**_PLAIN, causal="a6"),
}
"""Operation -> the call of it, a0, a1, ... being its arguments by place."""
_REFERENCE = '''"""{name} as a program called it: {count} shapes; {share:.1%} of its time waits for them. Written by `profkit tasks` from {source}."""

import torch
import torch.nn as nn
import torch.nn.functional as F

_CASES = {cases}
# Of each case its share of the calls, get_inputs() first; the speed-up is weighted by them.
SHARES = {shares}
# Share of the program's time that waits for these calls.
PROGRAM_SHARE = {share:.6g}


class Model(nn.Module):
    def forward(self, {arguments}):
        return {call}


def _drawn(case):
    return [_tensor(*one) if isinstance(one, tuple) else one for one in case]


def _tensor(sizes, kind, order, below):
    """Numbers below a bound, or normal ones; order: the dimensions from the largest stride to the smallest."""
    laid = [sizes[place] for place in order]
    made = torch.randint(below, laid) if below else torch.randn(laid).to(kind)
    return made.permute([order.index(place) for place in range(len(order))])
'''
_CANDIDATE = '''"""A candidate for {name}: it makes the reference's own call. Replace it."""

import torch
import torch.nn as nn
import torch.nn.functional as F

OPERATION, PLACES = "{name}", {places}


class ModelNew(nn.Module):
    def forward(self, {arguments}):
        return {call}
'''


@dataclass(frozen=True)
class _Case:
    """One shape of an operation: its arguments as literals, and its row of the ledger."""

    row: Row
    arguments: tuple[Any, ...]


def tasks(found: Ledger, source: str, most: int) -> list[Sources]:
    """A sample of each of the hottest operations that can be called again, the hottest first.

    Raises ProfkitError where no call's shapes are known.
    """
    groups: dict[tuple[str, tuple[int, ...]], list[_Case]] = {}
    for row in found.rows:
        op = parsed(row.op) if row.op else Operation("")
        call = _call(op)
        arguments = _arguments(op, call) if call else None
        if arguments is not None:
            key = call, tuple(at for at, one in enumerate(arguments) if isinstance(one, tuple))
            groups.setdefault(key, []).append(_Case(row, arguments))
    if not groups:
        raise ProfkitError(
            f"{source}: no operation here that a sample can be made of",
            fix=f"record shapes (torch.profiler.profile(record_shapes=True)); known are {', '.join(CALLS)}",
        )
    ranked = sorted(groups.items(), key=lambda one: -sum(case.row.own for case in one[1]))[:most]
    return [_sources(n, call, cases, found.step, source) for n, ((call, _), cases) in enumerate(ranked, 1)]


def write(samples: Sequence[Sources], folder: Path) -> list[Path]:
    """The folders of the samples. Raises ProfkitError where one is there."""
    return [write_new(one, folder / one.name) for one in samples]


def _call(op: Operation) -> str:
    call = CALLS.get(op.short.replace("miopen", "cudnn"), "")
    first = next((dims for _, _, dims, _ in op.tensors()), ())
    return call.format(rank=len(first) - 2)


def _places(call: str) -> list[int]:
    return sorted({int(one) for one in re.findall(r"\ba(\d)\b", call)})


def _arguments(op: Operation, call: str) -> tuple[Any, ...] | None:
    """The arguments that a call names, as literals; None where one cannot be made again."""
    tensors = {at: (kind, dims, steps) for at, kind, dims, steps in op.tensors()}
    made: list[Any] = []
    size = 0.0
    for at in _places(call):
        if at in tensors:
            kind, dims, steps = tensors[at]
            if kind not in _TYPES:
                return None
            size += math.prod(dims) * BYTES[kind]
            made.append(_tensor(op, _TYPES[kind], dims, steps))
        elif (value := _number(op, at)) is not None:
            made.append(value)
        elif at == 2 and "conv" in call:
            made.append(None)  # A bias that is not there.
        else:
            return None
    packed = "attention" in op.short and (len(op.dims[0]) != 4 or (op.types[3:4] or [""])[0] in BYTES)
    return None if size > LARGEST or packed else tuple(made)


def _tensor(op: Operation, kind: str, dims: Sequence[int], steps: Sequence[int] | None) -> tuple[Any, ...]:
    """(sizes, type, dimensions by stride, bound of an index)."""
    order = sorted(range(len(dims)), key=lambda at: (-(steps[at] if steps else 0), at))
    rows = {"embedding": 0, "index_select": (op.ints(1) or [0])[0]}.get(op.short)
    below = op.dims[0][rows] if kind == "int64" and rows is not None else 16 if kind == "int64" else 0
    return tuple(dims), _Type(f"torch.{kind}"), tuple(order), below


class _Type(str):
    """A type of torch, which is written without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _number(op: Operation, at: int) -> Any:
    """A number, a truth or the one number of a list of equal ones; None for what was not recorded."""
    text = op.value(at)
    if text in ("True", "False"):
        return text == "True"
    numbers = re.findall(r"-?\d+(?:\.\d*)?(?:e-?\d+)?", text)
    if not numbers or len(set(numbers)) > 1:
        return None
    return float(numbers[0]) if re.search(r"[.e]", numbers[0]) else int(numbers[0])


def _sources(number: int, call: str, cases: Sequence[_Case], step: float, source: str) -> Sources:
    kept = sorted(cases, key=lambda one: -one.row.own)[:MOST_SHAPES]
    calls = sum(one.row.calls for one in kept)
    name = parsed(kept[0].row.op).name
    places = _places(call)
    told = {
        "name": name,
        "count": len(kept),
        "share": sum(one.row.gone for one in kept if one.row.gone == one.row.gone) / step,
        "source": source,
        "cases": _listed(f"{list(one.arguments)!r}," for one in kept),
        "shares": _listed(f"{one.row.calls / calls:.6g},  # {one.row.shapes}" for one in kept),
        "arguments": ", ".join(f"a{at}" for at in places),
        "places": tuple(places),
        "call": call,
    }
    folder = f"{number:02d}-{name.rpartition('::')[2].strip('_')}"
    return Sources(folder, _REFERENCE.format(**told) + GETTERS, {"candidate": _CANDIDATE.format(**told)})


def _listed(lines: Iterator[str]) -> str:
    return "[\n" + "".join(f"    {line}\n" for line in lines) + "]"
