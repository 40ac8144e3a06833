"""Is an output a result, or only the promise of one?

A tensor subclass, a proxy or a container with its own `__getitem__` can put the work off until somebody
looks: after the clock was stopped. So outputs must be plain, to the exact type, unless the reference's are
of that very type as well.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch

from profkit.runner.compare import tensors
from profkit.runner.offence import OffenceError

_TENSORS = (torch.Tensor, torch.nn.Parameter)
_PLAIN = (*_TENSORS, list, tuple, dict, OrderedDict)
_SCALARS = (str, bytes, bool, int, float, complex, type(None))
_HOOKS = ("__torch_function__", "__torch_dispatch__", "__array__", "__await__", "result", "wait")


def kinds(output: Any) -> frozenset[str]:
    """The types an output is made of, by their full names."""
    return frozenset(_name(type(part)) for _, part in _parts(output, "output"))


def refuse(output: Any, allowed: Collection[str] = ()) -> None:
    """Raise OffenceError when some part of the output may do its work later. `allowed`: the reference's kinds; a tensor that
    only poses as a plain one is in none.
    """
    for where, part in _parts(output, "output"):
        kind = type(part)
        if kind in _TENSORS:
            deferred = _wrapped(part) or _disguised(part)
        else:
            deferred = _name(kind) not in allowed and _deferred(part, kind)
        if deferred:
            raise OffenceError(
                "lazy-output", f"{where} is a {_name(kind)}, no plain tensor: it can work when looked at"
            )


SHARED = "the memory of its inputs"
"""Among the kinds of an output: part of it lies in memory that was handed in."""


def shares(output: Any, arguments: Any) -> bool:
    """Whether a tensor of the output lies in the memory of an argument."""
    given = _memories(arguments)
    return any(start < end and begin < stop for start, stop in _memories(output) for begin, end in given)


def refuse_shared(allowed: Collection[str]) -> None:
    """Raise OffenceError for an answer that shares memory with its inputs, where the reference's does not."""
    if SHARED not in allowed:
        raise OffenceError("mismatch", "the answer lies in the memory of an input, where the reference gives a new one")


def refuse_hooked(arguments: Any, types: Sequence[type]) -> None:
    """Raise OffenceError when a tensor that was handed in is no longer of its type, or something of its own hides a method:
    what is done with it later would call the candidate. types: those of the leaves as they were.
    """
    leaves = list(tensors(arguments, "input"))
    if len(leaves) != len(types):
        raise OffenceError("mutates-inputs", f"changes its inputs: {len(leaves)} instead of {len(types)}")
    for (where, leaf), kind in zip(leaves, types, strict=True):
        if type(leaf) is not kind:
            raise OffenceError("mutates-inputs", f"changes its inputs: {where} is a {_name(type(leaf))} now")
        if isinstance(leaf, torch.Tensor) and _disguised(leaf):
            raise OffenceError("mutates-inputs", f"changes its inputs: {where} has a method of its own")


def types(arguments: Any) -> list[type]:
    """Of each leaf its type."""
    return [type(leaf) for _, leaf in tensors(arguments)]


def _memories(item: Any) -> list[tuple[int, int]]:
    """(first byte, the byte behind the last) of every tensor's storage."""
    leaves = [leaf for _, leaf in tensors(item) if type(leaf) is torch.Tensor and leaf.layout is torch.strided]
    storages = [leaf.untyped_storage() for leaf in leaves if leaf.numel() and not leaf.is_meta]
    return [(one.data_ptr(), one.data_ptr() + one.nbytes()) for one in storages]


def _deferred(part: Any, kind: type) -> bool:
    if kind in _PLAIN or kind in _SCALARS:
        return False
    if isinstance(part, tuple) and _is_record(kind):
        return False
    if isinstance(part, (torch.Tensor, Mapping, Sequence, Iterator)) or callable(part):
        return True
    return any(hasattr(kind, hook) for hook in _HOOKS)


def _wrapped(tensor: torch.Tensor) -> bool:
    """Whether it is one of functorch's wrappers, which pose as plain tensors."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def _disguised(tensor: torch.Tensor) -> bool:
    """Whether something of this one tensor hides a method or a property that every tensor has."""
    return any(hasattr(torch.Tensor, name) for name in tensor.__dict__)


def _is_record(kind: type) -> bool:
    """Named tuples and torch.return_types: tuples with names and nothing of their own to run on access."""
    own = vars(kind)
    return "__getitem__" not in own and "__iter__" not in own and ("_fields" in own or "n_fields" in own)


def _parts(output: Any, where: str) -> Iterator[tuple[str, Any]]:
    """The output and everything in it; a container that is not plain is not opened."""
    yield where, output
    if isinstance(output, dict) and type(output) in _PLAIN:
        for key, value in output.items():
            yield from _parts(value, f"{where}[{key!r}]")
    elif type(output) in (list, tuple) or (isinstance(output, tuple) and _is_record(type(output))):
        for index, value in enumerate(output):
            yield from _parts(value, f"{where}[{index}]")


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
