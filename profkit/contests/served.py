"""Samples of a program's operations, at its shapes and their shares of its calls."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from analyzers.ledger.ledger import Ledger, Row
from collectors.operations import Operation, Tensor, parsed
from profkit.contests.sources import GETTERS, Sources
from profkit.errors import ProfkitError

LARGEST = 2 << 30
"""Bytes of the inputs of one call above which a shape is left out, as inputs are drawn on the host."""
MOST_SHAPES = 16
_Case = tuple[Row, list[Any]]
"""One shape of an operation: its row of the ledger, and its arguments as literals."""
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
"""Operation -> its call, with arguments a0, a1, ... by position."""
_REFERENCE = '''"""{name} as a program called it: {count} of its shapes; {takes:.1%} of its time. Written by `profkit tasks` from {source}."""

import torch
import torch.nn as nn
import torch.nn.functional as F

_CASES = [
{cases}]
# Of each case its share of the calls, get_inputs() first; the speed-up is weighted by them.
SHARES = [
{shares}]
# Of the program's time: what these calls take, what it would win without them, what the GPU is busy; calls per second.
PROGRAM_SHARE = {takes:.6g}, {waits:.6g}, {busy:.6g}, {rate:.6g}


class Model(nn.Module):
    def forward(self, {arguments}):
        return {call}


def _drawn(case):
    return [_tensor(*one) if isinstance(one, tuple) else one for one in case]


def _tensor(sizes, kind, order, below):
    """Numbers below a bound, or normal ones; order: the dimensions from the largest stride to the smallest."""
    laid = [sizes[place] for place in order]
    made = torch.randint(below, laid) if below else torch.randn(laid).to(getattr(torch, kind))
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


def tasks(found: Ledger, source: str, most: int) -> list[Sources]:
    """One sample per repeatable hot operation, the hottest first.

    Raises ProfkitError if no call's shapes are known.
    """
    groups: dict[tuple[str, tuple[int, ...]], list[_Case]] = {}
    for row in found.rows:
        op = parsed(row.op)
        call = CALLS.get(op.short.replace("miopen", "cudnn"), "")
        call = call.format(rank=len(next(op.tensors()).dims) - 2) if call and op.types else ""
        arguments = _arguments(op, call) if call else None
        if arguments is not None:
            key = call, tuple(at for at, one in enumerate(arguments) if isinstance(one, tuple))
            groups.setdefault(key, []).append((row, arguments))
    if not groups:
        raise ProfkitError(
            f"{source}: no operation that can become a sample",
            fix=f"record shapes (torch.profiler.profile(record_shapes=True)); known are {', '.join(CALLS)}",
        )
    ranked = sorted(groups.items(), key=lambda one: -sum(row.own for row, _ in one[1]))[:most]
    return [_sources(n, call, cases, found, source) for n, ((call, _), cases) in enumerate(ranked, 1)]


def _places(call: str) -> list[int]:
    return sorted({int(one) for one in re.findall(r"\ba(\d)\b", call)})


def _arguments(op: Operation, call: str) -> list[Any] | None:
    """Arguments of a call as literals; None if one cannot be recreated."""
    tensors = {one.at: one for one in op.tensors()}
    made = [_tensor(op, tensors[at]) if at in tensors else _number(op.value(at)) for at in _places(call)]
    size = sum(math.prod(one[0]) * 4 for one in made if isinstance(one, tuple))
    bias = "conv" in call and 2 not in tensors and 2 in _places(call)
    packed = "attention" in op.short and (len(op.dims[0]) != 4 or 3 in tensors)
    lacking = made.count(None) > bias or any(isinstance(one, tuple) and not one[1] for one in made)
    return None if lacking or packed or size > LARGEST else made


def _tensor(op: Operation, one: Tensor) -> tuple[Any, ...]:
    """(sizes, type, dimensions by stride, bound of an index)."""
    order = sorted(range(len(one.dims)), key=lambda at: (-(one.steps[at] if one.steps else 0), at))
    rows = {"embedding": 0, "index_select": (op.ints(1) or [0])[0]}.get(op.short)
    below = 0 if one.kind != "long int" else op.dims[0][rows] if rows is not None else 16
    return one.dims, _TYPES.get(one.kind, ""), tuple(order), below


def _number(text: str) -> Any:
    """A number, a boolean or the one number of a list of equal ones; None if not recorded."""
    if text in ("True", "False"):
        return text == "True"
    numbers = set(re.findall(r"-?\d+(?:\.\d*)?(?:e-?\d+)?", text))
    one = numbers.pop() if len(numbers) == 1 else ""
    return None if not one else float(one) if re.search(r"[.e]", one) else int(one)


def _sources(number: int, call: str, cases: Sequence[_Case], found: Ledger, source: str) -> Sources:
    kept = sorted(cases, key=lambda one: -one[0].own)[:MOST_SHAPES]
    calls, step = sum(row.calls for row, _ in kept), found.step
    name = parsed(kept[0][0].op).name
    told = {
        "name": name,
        "count": len(kept),
        "takes": sum(row.own for row, _ in kept) / step,
        "waits": sum(row.gone for row, _ in kept if row.gone == row.gone) / step,
        "busy": 1 - found.accounts["idle"] / step,
        "rate": calls / step,
        "source": source,
        "cases": "".join(f"    {arguments!r},\n" for _, arguments in kept),
        "shares": "".join(f"    {row.calls / calls:.6g},  # {row.shapes}\n" for row, _ in kept),
        "arguments": ", ".join(f"a{at}" for at in _places(call)),
        "places": tuple(_places(call)),
        "call": call,
    }
    folder = f"{number:02d}-{name.rpartition('::')[2].strip('_')}"
    return Sources(folder, _REFERENCE.format(**told) + GETTERS, {"candidate": _CANDIDATE.format(**told)})
