"""Live weights: initially constant weights get drawn values, the same on both sides.

A new LayerNorm multiplies by one and adds zero, so a candidate that leaves it out would be right. Constant weights,
biases and statistics, and parameters that every construction repeats (identity, a range), are redrawn before any
comparison. Random ones stay: their seed is drawn for the run.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from profkit.guest.tensors.compare import equal, leaves, numbers, rms, tensors

_SHARES = (1.0, 0.25, 0.0625)
"""Shares of the change to try, until the answer stays steady."""
_CALM = 1e3
"""Largest accepted change of the answer's size."""
_TINY = 0.1
"""Size below which a constant parameter is enlarged, as rounding would lose its effect."""
_LOOKED_AT, _AGAIN = 4096, 0.9
_LARGEST = 1 << 27
"""Size of the largest model to construct twice."""
MOST_NAMED = 4


@dataclass(frozen=True)
class Weights:
    """`constructed` and `live` values of redrawn tensors, by name; `unsteady`: no values work."""

    constructed: dict[str, torch.Tensor] = field(default_factory=dict)
    live: dict[str, torch.Tensor] = field(default_factory=dict)
    unsteady: bool = False

    def mixed(self, alive: Collection[str]) -> dict[str, torch.Tensor]:
        """All values: live for these names, as constructed for the others."""
        return {name: self.live[name] if name in alive else value for name, value in self.constructed.items()}


@dataclass(frozen=True)
class Match:
    """Counterparts of the reference's weights in a candidate.

    `pairs`: the reference's name -> the candidate's; `missing`: redrawn ones without counterpart, which may be part of
    another tensor; `ordered`: some were matched by order only; `unnamed`: weights without a counterpart of the same
    name.
    """

    pairs: dict[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    ordered: bool = False
    unnamed: tuple[str, ...] = ()


def draw(model: Any, ask: Callable[[], Any], seed: int, fixed: Collection[str] = ()) -> Weights:
    """Redraw the constants of a model, in place. fixed: the first of `by_another_seed`.

    The answer of `ask` must stay finite and keep about its size. Otherwise the change is made smaller, then left out,
    and `unsteady` is set.
    """
    state = constants(model, fixed)
    if not state:
        return Weights()
    constructed = {name: tensor.clone() for name, tensor in state.items()}
    trained = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    before = ask()
    for bold, share in itertools.product((True, False), _SHARES):
        chance = torch.Generator().manual_seed(seed)
        live = _drawn(state, constructed, share, chance, trained if bold else ())
        put(model, live)
        if steady(before, ask()):
            return Weights(constructed, live)
        put(model, constructed)
    return Weights(unsteady=True)


def constants(model: Any, fixed: Collection[str] = ()) -> dict[str, torch.Tensor]:
    """Floating parameters and kept buffers that are one finite number, or named in `fixed`."""
    if not isinstance(model, torch.nn.Module):
        return {}
    return {name: tensor for name, tensor in model.state_dict().items() if name in fixed or constant(tensor)}


def by_another_seed(model: Any, again: Callable[[], Any]) -> frozenset[str]:
    """Trained parameters that are not constant but equal at another seed."""
    named = model.named_parameters(remove_duplicate=False) if isinstance(model, torch.nn.Module) else ()
    regular = {name: one for name, one in named if _regular(one)}
    if not regular or too_many(model):
        return frozenset()
    try:
        other = dict(again().state_dict())
    except Exception:
        traceback.print_exc()
        return frozenset()
    return frozenset(name for name, one in regular.items() if name in other and alike(other[name], one))


def too_many(model: torch.nn.Module) -> bool:
    """Whether a model is too large to be held twice."""
    return bool(sum(one.numel() for one in leaves(model.state_dict()) if not is_lazy(one)) > _LARGEST)


def _regular(tensor: torch.Tensor) -> bool:
    """Whether numbers repeat or are sorted, which drawn numbers seldom are."""
    if not _plain(tensor) or not tensor.requires_grad or constant(tensor):
        return False
    few = tensor.detach().reshape(-1)[:_LOOKED_AT].double()
    steps = few.diff()
    again = len(few.unique()) < _AGAIN * len(few)
    return bool(few.isfinite().all()) and (again or bool((steps >= 0).all()) or bool((steps <= 0).all()))


def constant(tensor: Any) -> bool:
    """Whether a floating tensor, neither empty nor lazy, holds one finite number throughout."""
    if not _plain(tensor):
        return False
    tensor = numbers(tensor)
    first = tensor.reshape(-1)[0]
    return bool(first.isfinite()) and bool((tensor == first).all())


def _drawn(
    state: Mapping[str, torch.Tensor],
    constructed: Mapping[str, torch.Tensor],
    share: float,
    chance: torch.Generator,
    bold: Collection[str],
) -> dict[str, torch.Tensor]:
    """Fresh values. bold: names that may be enlarged."""

    def drawn(name: str, tensor: torch.Tensor) -> torch.Tensor:
        old = constructed[name].to("cpu", torch.float32)
        wanted = name in bold or constant(old)
        new = old + share * (_values(name, old, chance, name in bold) - old) if wanted else old
        return new.to(tensor.device, tensor.dtype)

    return _each(state, drawn)


def _values(name: str, old: torch.Tensor, chance: torch.Generator, bold: bool) -> torch.Tensor:
    """Values to set: variances positive, zeros drawn around zero, others around their value."""
    draw, size = torch.rand(old.shape, generator=chance), float(old.square().mean().sqrt())
    if "var" in name.rpartition(".")[2]:
        return torch.where(old == 0, 1.0, old) * (0.5 + 1.5 * draw)
    if bold and 0.0 < size < _TINY and constant(old):
        old = old.sign() * 0.25
    return torch.where(old == 0, 0.25 * (size or 1.0) * torch.randn(old.shape, generator=chance), old * (0.5 + draw))


def by_layer(model: torch.nn.Module, names: Collection[str]) -> str:
    """These tensors by layer: "weight, bias of LayerNorm (ln)"."""
    parts: dict[str, list[str]] = {}
    for name in names:
        path, _, leaf = name.rpartition(".")
        kind = type(model.get_submodule(path)).__name__
        parts.setdefault(f"{kind} ({path})" if path else kind, []).append(leaf)
    listed = [f"{', '.join(leaves)} of {owner}" for owner, leaves in parts.items()]
    more = f" and of {len(listed) - MOST_NAMED} more" if len(listed) > MOST_NAMED else ""
    return "; ".join(listed[:MOST_NAMED]) + more


def steady(before: Any, after: Any) -> bool:
    """Whether an answer is finite where it was, and its size within a factor of _CALM."""
    for (_, old), (_, new) in zip(tensors(before), tensors(after), strict=True):
        if not isinstance(old, torch.Tensor) or not old.is_floating_point():
            continue
        if old.shape != new.shape or not bool((numbers(old).isfinite() == numbers(new).isfinite()).all()):
            return False
        sizes = [rms(leaf) for leaf in (old, new)]
        if sizes[0] > 0 and not 1 / _CALM < sizes[1] / sizes[0] < _CALM:
            return False
    return True


def put(model: Any, values: Mapping[str, torch.Tensor], pairs: Mapping[str, str] | None = None) -> None:
    """Write values into a model's own tensors. pairs: its names, if they differ."""
    state = model.state_dict() if values and isinstance(model, torch.nn.Module) else {}
    with torch.inference_mode():
        for name, value in values.items():
            own = state.get(name if pairs is None else pairs.get(name, ""))
            if own is not None:
                own.copy_(value.reshape(own.shape))


def match(model: Any, known: Mapping[str, Any], constructed: Mapping[str, torch.Tensor]) -> Match:
    """Find the reference's weights in a candidate: by name, else by contents.

    known: all; constructed: those to be redrawn, which must match in shape too, since constants look alike.
    """
    state = model.state_dict() if isinstance(model, torch.nn.Module) else {}
    own = {name: one for name, one in state.items() if _readable(one)}
    known = {name: one for name, one in known.items() if _readable(one)}
    pairs = {name: name for name, value in known.items() if name in own and near(own[name], value)}
    ordered, missing = False, []
    left = [name for name in constructed if name not in pairs]
    while left:
        value = constructed[left[0]]
        names = [name for name in left if alike(constructed[name], value)]
        left = [name for name in left if name not in names]
        free = [name for name, one in own.items() if name not in pairs.values() and _plain(one) and alike(one, value)]
        if len(free) == len(names):
            pairs |= dict(zip(names, free, strict=True))
            # Without a name the identity may also be transposed.
            ordered |= len(names) > 1 or not constant(value)
        else:
            missing += names
    sizes = _free(model, {*pairs.values(), *known})
    missing = [name for name in missing if any(size >= constructed[name].numel() for size in sizes)]
    return Match(pairs, tuple(missing), ordered, tuple(name for name in known if pairs.get(name) != name))


def _readable(tensor: Any) -> bool:
    """Whether it holds real numbers, integers or booleans that can be read."""
    if not isinstance(tensor, torch.Tensor) or is_lazy(tensor) or tensor.layout is not torch.strided:
        return False
    return not tensor.is_quantized and not tensor.is_complex() and tensor.numel() > 0


def _plain(tensor: Any) -> bool:
    return _readable(tensor) and tensor.is_floating_point()


def alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same shape and numbers, in any type and on any device."""
    return equal(one.detach().double().cpu(), other.detach().double().cpu())


def _free(model: Any, taken: Collection[str]) -> list[int]:
    """Sizes of a candidate's unmatched tensors, in its state and among its attributes."""
    module = isinstance(model, torch.nn.Module)
    free = [one for name, one in model.state_dict().items() if name not in taken] if module else []
    for holder in model.modules() if module else [model]:
        # Registered tensors are in the state already.
        free += [one for name, one in getattr(holder, "__dict__", {}).items() if name not in _REGISTERED]
    return [one.numel() for one in leaves(free) if not is_lazy(one)]


_REGISTERED = ("_parameters", "_buffers", "_modules")


def changeable(model: Any, live: Collection[str]) -> list[str]:
    """Names, aliases included, of a model's floating parameters and redrawn tensors."""
    if not isinstance(model, torch.nn.Module):
        return []
    state = model.state_dict(keep_vars=True).items()
    return [name for name, one in state if (isinstance(one, torch.nn.Parameter) or name in live) and _plain(one)]


def moved(model: Any, names: Collection[str]) -> dict[str, torch.Tensor]:
    """These weights after an update: rolled by one place, and halved.

    Zeros stay, like the padding row of a table in training.
    """

    def update(_: str, value: torch.Tensor) -> torch.Tensor:
        new = value.clone()
        new[value != 0] = value[value != 0].roll(1) * 0.5
        return new

    return _each({name: one for name, one in model.state_dict().items() if name in names}, update)


def unlike(model: Any, names: Collection[str], seed: int, *, signs: bool) -> dict[str, torch.Tensor]:
    """These weights scaled at random by 0.5 to 1.5, and with `signs` half of them negated."""
    chance = torch.Generator().manual_seed(seed)

    def scale(_: str, value: torch.Tensor) -> torch.Tensor:
        factor = 0.5 + torch.rand(value.shape, generator=chance)
        turned = torch.rand(value.shape, generator=chance) < 0.5
        return value * torch.where(turned & signs, -factor, factor).to(value)

    return _each({name: one for name, one in model.state_dict().items() if name in names}, scale)


def _each(
    state: Mapping[str, torch.Tensor], change: Callable[[str, torch.Tensor], torch.Tensor]
) -> dict[str, torch.Tensor]:
    """These tensors changed; aliases of one tensor share one value."""
    new: dict[tuple[int, torch.Size], torch.Tensor] = {}
    for name, one in state.items():
        key = one.data_ptr(), one.shape
        new[key] = new[key] if key in new else change(name, one)
    return {name: new[one.data_ptr(), one.shape] for name, one in state.items()}


def near(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors differ by no more than the rounding to 8 bits or more."""
    if one.shape != other.shape:
        return False
    a, b = one.detach().to(other.device, torch.float64), other.detach().to(torch.float64)
    return bool(((a - b).abs() <= _NARROW * (b.abs() + b.square().mean().sqrt())).all())


_NARROW = 0.07
