"""What a model keeps from call to call: buffers, and tensors among its modules' attributes, that a call changes.

What the reference keeps in its buffers is part of its work: a candidate has to leave the same in its own. Where the next
answer depends on what it keeps, both sides begin every call that is compared with the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from profkit.guest.tensors import inputs
from profkit.guest.tensors.compare import Left, close, same

_TELLS = 13.0


@dataclass(frozen=True)
class State:
    """What the reference changes in a call: `values` before it, by name; `tells`: whether its answer is another one with what
    a call has left; `binding`: names of what a candidate has to leave as well: all of it then, else what is registered.
    """

    values: dict[str, torch.Tensor] = field(default_factory=dict)
    tells: bool = False
    binding: frozenset[str] = frozenset()


def changed(model: Any, call: Callable[[], Any]) -> State:
    """What a call changes; it is asked twice, and what it changed put back."""
    before = {name: tensor.clone() for name, tensor in held(model)}
    first = inputs.clone(call()) if before else None
    now = dict(held(model))
    values = {name: one for name, one in before.items() if name in now and not same(one, now[name])}
    if not values:
        return State()
    tells = not close(call(), first, _TELLS)
    put(model, values)
    registered = {name for name, _ in model.named_buffers()}
    return State(values, tells, frozenset(name for name in values if tells or name in registered))


def put(model: Any, values: Mapping[str, torch.Tensor]) -> None:
    """Give a model copies of these values, under the names that it has; what it has handed out stays as it is."""
    modules = dict(model.named_modules()) if values and isinstance(model, torch.nn.Module) else {}
    for name, value in values.items():
        path, _, leaf = name.rpartition(".")
        holder = modules.get(path)
        own = getattr(holder, leaf, None)
        if holder is not None and isinstance(own, torch.Tensor) and not isinstance(own, torch.nn.Parameter):
            setattr(holder, leaf, value.to(own.device, own.dtype, copy=True))


def left(model: Any, values: Mapping[str, torch.Tensor], call: Callable[[], object]) -> dict[str, torch.Tensor]:
    """Copies of what a model holds under these names, where it does, after a call that began with these values."""
    put(model, values)
    call()
    return {name: tensor.clone() for name, tensor in held(model) if name in values}


def keeping(names: Collection[str]) -> Callable[[Any, list[Any]], Left]:
    """The view of what a call of a model leaves under these names in it."""

    def view(model: Any, arguments: list[Any]) -> Left:
        def kept() -> dict[str, torch.Tensor]:
            return {name: tensor.clone() for name, tensor in held(model) if name in names}

        before = kept()
        model(*arguments)
        return Left(before, kept())

    return view


def held(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The buffers of a model and the tensors among its modules' attributes, by name."""
    if not isinstance(model, torch.nn.Module):
        return
    yield from model.named_buffers()
    for path, module in model.named_modules():
        for name, item in vars(module).items():
            if isinstance(item, torch.Tensor):
                yield f"{path}.{name}" if path else name, item
