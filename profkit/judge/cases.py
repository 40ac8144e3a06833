"""Inputs that `get_inputs()` never draws: other signs, sizes, ties, orders.

An input is used only if the reference's answer is finite and steady. A wrong answer rejects inside
`input_domain()`. A silently wrong answer to other values is a condition of the verdict. Refusals are notes.
"""

from __future__ import annotations

import functools
import math
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch

from profkit.guest.tensors import inputs
from profkit.guest.tensors.alike import Common
from profkit.guest.tensors.compare import close, coded, equal, inexact, leaves, numbers, parts, tensors, whole

VALUES, CONSTANT = "values", "constant"
"""Kinds of unusual inputs; of the second no failure rejects."""
PATIENCE = 10.0
"""Seconds of reference calls after which no more inputs are tried."""
_JUMP, _CODES = 4.3, 0.125
"""Bits of agreement for stirred inputs, which may have ties; share of quantized codes that may change."""
LARGER = 256.0
"""Ratio of elements at the two ends of an axis, so that fading terms matter."""
_LONG = 16
_SPARSE = 97
ALL_FIRST = "rows that are all the first"
IN_TURN = "columns in order of size"
HOLED = "inputs with a NaN here and there"
AS_WELL = ", one-dimensional ones too"
REPEATED = "inputs that are drawn the same every time, with other values"
ONE_VALUE = "a mask or whole numbers that are all the same"
GIVEN = "a mask, whole numbers or a setting drawn the same every time, with another value"
Domain = Sequence[Any] | None
Make = Callable[[], list[Any] | None]
"""Makes changed inputs; None if they would lose a property common to all draws."""


@dataclass(frozen=True)
class Trial:
    """Unusual inputs or weights with the reference's answer; binding: a wrong answer rejects."""

    name: str
    kind: str
    arguments: list[Any]
    answer: Any
    binding: bool
    values: Mapping[str, torch.Tensor] = field(default_factory=dict)


def domain(module: ModuleType) -> Domain:
    """Bounds (lowest, highest) of each input by `input_domain()`, or None. Raises ValueError."""
    if not hasattr(module, "input_domain"):
        return None
    said = list(module.input_domain())
    for entry in said:
        if entry is not None and not (len(entry) == 2 and float(entry[0]) <= float(entry[1])):
            raise ValueError(f"input_domain(): {entry!r} is no pair (lowest, highest)")
    return said


def trials(
    draws: tuple[list[Any], list[Any]],
    ask: Callable[[list[Any]], Any],
    *,
    allowed: Domain = None,
    holes: bool = False,
    clock: Callable[[], float] = time.monotonic,
    missed: list[str] | None = None,
) -> Iterator[Trial]:
    """Unusual inputs that make a difference, the most sensitive first.

    draws: two draws, to find properties common to all draws. ask: a copy of the reference's answer, inputs unchanged.
    holes: the reference checks for NaN. clock: seconds without waiting for other judges. missed: filled with the names
    that no time was left for; the first is always tried.
    """
    drawn, other = draws
    # A declared domain allows all of its values.
    common = Common(drawn, other) if allowed is None else None
    usual = _finite(ask(drawn))
    found = list(quietly(variants(drawn, allowed, other, common)))
    del draws, other
    end, took = clock() + PATIENCE, 0.0
    for name, kind, make in found:
        if name.startswith(HOLED) and not holes:
            continue
        if clock() + took > end:
            if missed is not None:
                missed.append(name)
            continue
        began = clock()
        arguments, answer = _settled(make, ask, finite=usual)
        took = clock() - began
        if answer is not None:
            yield Trial(name, kind, arguments, answer, kind == VALUES and _inside(arguments, allowed))
            end += clock() - began - took
        del arguments, answer


def quietly(found: Iterator[Any]) -> Iterator[Any]:
    """Yield items until the source raises an exception."""
    try:
        yield from found
    except Exception:
        traceback.print_exc()


def _settled(make: Make, ask: Callable[[list[Any]], Any], *, finite: bool) -> tuple[list[Any], Any]:
    """Inputs with the reference's answer; None if it fails, is not finite or steady."""
    nothing: tuple[list[Any], Any] = [], None
    try:
        arguments = make()
        if arguments is None:
            return nothing
        answer = ask(arguments)
        if finite and not _finite(answer):
            return nothing
        for by in (inputs.STIRRED, -inputs.STIRRED):
            moved = ask(inputs.numbered(arguments, functools.partial(inputs.stirred, by)))
            if not close(moved, answer, _JUMP, _CODES):
                return nothing
    except Exception:
        traceback.print_exc()
        return nothing
    return arguments, answer


def _finite(answer: Any) -> bool:
    return all(bool(part.isfinite().all()) for leaf in leaves(answer) if inexact(leaf) for part in parts(leaf))


def _inside(arguments: list[Any], allowed: Domain) -> bool:
    """Whether all floating-point values lie in the allowed domain."""
    if allowed is None or len(allowed) != len(arguments):
        return False
    for item, bounds in zip(arguments, allowed, strict=True):
        for leaf in map(numbers, inputs.floating(item)):
            if bounds is None or not bool(((leaf >= bounds[0]) & (leaf <= bounds[1])).all()):
                return False
    return True


def variants(
    drawn: list[Any],
    allowed: Domain = None,
    other: list[Any] | None = None,
    common: Common | None = None,
) -> Iterator[tuple[str, str, Make]]:
    """(name, kind, maker) of changes. common: properties to keep."""
    for name, make in _other_values(drawn, allowed, common):
        yield name, VALUES, make
    yield from _each_changed(drawn, other or [])
    for make in _of_one_value(drawn, other or []):
        yield ONE_VALUE, CONSTANT, make


def _other_values(drawn: list[Any], allowed: Domain, common: Common | None) -> Iterator[tuple[str, Make]]:
    changes: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "inputs times 1e3": lambda t: t * 1e3,
        "inputs with the other sign": torch.neg,
        "inputs times 1e-3": lambda t: t * 1e-3,
        "inputs times 10": lambda t: t * 10,
        ALL_FIRST: lambda t: t[:1].expand_as(t).contiguous(),
        "rows in order of size": lambda t: t.sort(-1).values,
        IN_TURN: lambda t: t.sort(0).values,
        "every other row zero": _every_other_zero,
        "rows with a single one": lambda t: torch.zeros_like(t).scatter_(-1, t.argmax(-1, keepdim=True), 1.0),
        "inputs whose first elements are the largest": lambda t: _falling(t, last=False),
        "inputs whose last elements are the largest": lambda t: _falling(t, last=True),
        HOLED: _holed,
    }
    # A vector as long as another tensor's dimension is its scale or bias; else it is like one row.
    sides = {size for leaf in inputs.floating(drawn) if leaf.dim() > 1 for size in leaf.shape}
    rows = {len(leaf) for leaf in inputs.floating(drawn) if leaf.dim() == 1 and len(leaf) > 1} - sides
    nothing: set[int] = set()
    for name, change in changes.items():
        # Vectors may encode the order of rows, and may tolerate less than the others.
        for alone in (
            [None] if name == IN_TURN else [rows] if rows and not sides else [nothing, rows] if rows else [nothing]
        ):
            make = functools.partial(_floats, drawn, change, alone)
            if common is not None and (sides or rows):
                make = functools.partial(lambda common, make: common.kept(make()), common, make)
            yield f"{name}{AS_WELL * bool(sides and alone)}", make
    if allowed is not None and len(allowed) == len(drawn):
        for end, name in enumerate(("the lowest values allowed", "the highest values allowed")):
            yield name, functools.partial(_bounded, drawn, allowed, end)


def _bounded(drawn: list[Any], allowed: Sequence[Any], end: int) -> list[Any]:
    return [_at(item, bounds, end) for item, bounds in zip(drawn, allowed, strict=True)]


def _each_changed(drawn: list[Any], other: list[Any]) -> Iterator[tuple[str, str, Make]]:
    """Inputs with repeated draws changed: all floating tensors at once, other leaves one by one."""
    pairs = list(zip(tensors(drawn), tensors(other), strict=False))
    same = {at: one for at, ((_, one), (_, again)) in enumerate(pairs) if _same(one, again)}
    floating = {at for at, one in same.items() if isinstance(one, torch.Tensor) and one.is_floating_point()}
    if floating:
        move = lambda at, one: inputs.through(one, _moved) if at in floating else one  # noqa: E731
        yield REPEATED, VALUES, lambda: inputs.numbered(drawn, move)
    for place in sorted(same.keys() - floating):
        if (value := _another(same[place])) is not None:
            yield GIVEN, CONSTANT, functools.partial(_with_leaf, drawn, place, value)


def _of_one_value(drawn: list[Any], other: list[Any]) -> Iterator[Make]:
    """The inputs with one mask or integer tensor filled with one of its values."""
    for place, ((_, one), (_, again)) in enumerate(zip(tensors(drawn), tensors(other), strict=False)):
        if not isinstance(one, torch.Tensor) or one.is_complex() or coded(one) or _same(one, again):
            continue
        # Bounds (offsets with a fixed end) are no categories.
        if (one.is_floating_point() and not whole(one)) or (
            _bounds(one, again) and torch.equal(one[..., -1], again[..., -1])
        ):
            continue
        kinds = one.unique()
        if 1 < len(kinds) < one.numel():
            for value in kinds[[0, -1] if len(kinds) == 2 else [0, len(kinds) // 2, -1]].tolist():
                yield functools.partial(_with_leaf, drawn, place, torch.full_like(one, value))


def _with_leaf(drawn: list[Any], place: int, value: Any) -> list[Any]:
    """The inputs with another value for one leaf, by its index in `tensors`."""
    changed: list[Any] = inputs.numbered(drawn, lambda at, leaf: value if at == place else leaf)
    return changed


def _bounds(one: Any, again: Any) -> bool:
    """Whether both are sorted along the last axis."""
    pair = one, again
    if not all(isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.shape[-1] > 2 for leaf in pair):
        return False
    return one.shape[:-1] == again.shape[:-1] and all(bool((leaf[..., 1:] >= leaf[..., :-1]).all()) for leaf in pair)


def _same(one: Any, again: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(again, torch.Tensor) and one.numel() > 0 and equal(one, again)
    return type(one) is type(again) and bool(one == again)


def _moved(tensor: torch.Tensor) -> torch.Tensor:
    """Roll by one place; scale by 0.75 unless integral. All zeros are replaced by drawn values."""
    if bool((tensor == 0).all()):
        return torch.randn(tensor.shape, generator=torch.Generator().manual_seed(tensor.numel())).to(tensor)
    moved = tensor.roll(1, -1) if tensor.dim() else tensor
    return moved if whole(tensor) and not torch.equal(moved, tensor) else moved * 0.75


def _another(one: Any) -> Any:
    """Another valid value for a flag, mask, integer or number; None without one."""
    if isinstance(one, bool):
        return not one
    if isinstance(one, int):
        return one - 1 if one > 1 else one + 1
    if isinstance(one, float):
        return 0.75 * one or 0.5
    if not isinstance(one, torch.Tensor) or one.is_complex():
        return None
    if one.dtype == torch.bool:
        places = torch.arange(one.numel(), device=one.device).view(one.shape) if one.dim() else 1
        return one ^ (places % 3 == 1)
    return _whole(one)


def _whole(tensor: torch.Tensor) -> torch.Tensor | None:
    """Other integers in the same range: constants lowered, one bound moved, other values rolled."""
    flat = tensor.flatten()
    if bool((flat == flat[0]).all()):
        lower = flat.clone()
        lower[::2] -= 1
        return lower.view(tensor.shape) if int(flat[0]) > 0 else None
    steps = flat.diff()
    wide = (steps > 1).nonzero().flatten()
    if tensor.dim() == 1 and bool((steps >= 0).all()) and len(wide):
        moved = flat.clone()
        # The last bound is a size.
        at = int(wide[0]) + 1
        moved[at] -= 1
        return moved if at + 1 < len(moved) else None
    return flat.roll(1).view(tensor.shape)


def _floats(item: Any, change: Callable[[torch.Tensor], torch.Tensor], rows: Collection[int] | None) -> Any:
    """Floating tensors changed, the others shared; one-dimensional of these lengths, or all."""

    def wanted(tensor: torch.Tensor) -> bool:
        if not inexact(tensor) or not tensor.numel() or not tensor.dim():
            return False
        return tensor.dim() > 1 or rows is None or len(tensor) in rows

    return inputs.mapped(item, lambda tensor: inputs.through(tensor, change) if wanted(tensor) else tensor)


def _every_other_zero(tensor: torch.Tensor) -> torch.Tensor:
    changed = tensor.clone()
    changed[1::2] = 0
    return changed


def _at(item: Any, bounds: Any, end: int) -> Any:
    """Every floating-point value at one bound; unchanged if the bound is infinite."""
    value = math.inf if bounds is None else float(bounds[end])
    if not math.isfinite(value):
        return inputs.clone(item)
    return inputs.mapped(inputs.clone(item), lambda t: torch.full_like(t, value) if t.is_floating_point() else t)


def _falling(tensor: torch.Tensor, *, last: bool) -> torch.Tensor:
    """Elements scaled down along the longest axis, from one end."""
    axis = max(range(tensor.dim()), key=tensor.shape.__getitem__)
    if tensor.shape[axis] < _LONG:
        return tensor
    steps = torch.linspace(1.0, 0.0, tensor.shape[axis], dtype=torch.float64)
    sizes = LARGER ** (steps.flip(0) if last else steps)
    return tensor * sizes.to(tensor).view([-1 if at == axis else 1 for at in range(tensor.dim())])


def _holed(tensor: torch.Tensor) -> torch.Tensor:
    holed = tensor.clone()
    holed.view(-1)[_SPARSE // 2 :: _SPARSE] = math.nan
    return holed
