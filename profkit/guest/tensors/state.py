"""State of a model between calls: buffers and tensor attributes that a call changes.

Changes of the reference's buffers are part of its work: a candidate must make the same changes. If answers depend on
state, both sides begin every compared call with the same state.
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
    """State that the reference changes in a call.

    `values`: before it, by name; `tells`: answers depend on them; `binding`: names a candidate must change too, all if
    `tells`, else the registered ones.
    """

    values: dict[str, torch.Tensor] = field(default_factory=dict)
    tells: bool = False
    binding: frozenset[str] = frozenset()


def changed(model: Any, call: Callable[[], Any]) -> State:
    """State changed by a call; makes two calls and restores it."""
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
    """Bind the model's tensors of these names to copies of the values.

    Other references to the old tensors stay valid.
    """
    modules = dict(model.named_modules()) if values and isinstance(model, torch.nn.Module) else {}
    for name, value in values.items():
        path, _, leaf = name.rpartition(".")
        holder = modules.get(path)
        own = getattr(holder, leaf, None)
        if holder is not None and isinstance(own, torch.Tensor) and not isinstance(own, torch.nn.Parameter):
            setattr(holder, leaf, value.to(own.device, own.dtype, copy=True))


def left(model: Any, values: Mapping[str, torch.Tensor], call: Callable[[], object]) -> dict[str, torch.Tensor]:
    """Copies of these names' values after a call that began with these values."""
    put(model, values)
    call()
    return {name: tensor.clone() for name, tensor in held(model) if name in values}


def keeping(names: Collection[str]) -> Callable[[Any, list[Any]], Left]:
    """View of a model's state under these names."""

    def view(model: Any, arguments: list[Any]) -> Left:
        def kept() -> dict[str, torch.Tensor]:
            return {name: tensor.clone() for name, tensor in held(model) if name in names}

        before = kept()
        model(*arguments)
        return Left(before, kept())

    return view


def held(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Buffers of a model and tensor attributes of its modules, by name."""
    if not isinstance(model, torch.nn.Module):
        return
    yield from model.named_buffers()
    for path, module in model.named_modules():
        for name, item in vars(module).items():
            if isinstance(item, torch.Tensor):
                yield f"{path}.{name}" if path else name, item
