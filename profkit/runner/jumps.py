"""Answers that jump: a number that rounding puts on one side of an edge or on the other, and all that is made of it.

What a task rounds to levels, chooses or cuts off jumps where it lies within rounding of an edge: in one call of a hundred an
honest answer is off in all that hangs on one such number, by more than any tolerance, and right everywhere else. An element
is held against nobody where the reference gives as much for inputs that are a few units in the last place off. Numbers that come again
stay: what is right for zeros, levels and equals is no matter of rounding. Nor is what is NaN.
"""

from __future__ import annotations

import functools
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from profkit.runner import inputs
from profkit.runner.check import CHUNK, Verdict, coded, compare, inexact, rtol_of, tensors

PATIENCE = 5.0
"""Seconds for the reference's answers."""
_MOST = 0.25
"""Share of an output's elements that may jump in one call."""
_OFTEN = 4096
"""The part of a tensor's elements from which on a number comes again for other reasons than chance."""
_FINE, _COARSE = (1.0, 4.0, 16.0, inputs.STIRRED), (0.5, 1.0, 2.0)
"""Units in the last place of the largest inputs, of those as fine as float32 and of coarser ones."""


def judged(
    got: Any,
    want: Any,
    arguments: list[Any],
    ask: Callable[[list[Any]], Any] | None,
    tolerances: Mapping[str, float],
    *,
    figures: bool = False,
) -> Verdict:
    """What `compare` says, but for elements that jump there. ask: the reference's answer, which leaves its inputs as they are;
    None where it gives another each time.
    """
    verdict = compare(got, want, tolerances, figures=figures)
    if ask is None or verdict.status not in ("mismatch", "nan"):
        return verdict
    leaves = _stirrable(arguments)
    pairs = [(a, b, tolerances.get(where)) for (_, a), (where, b) in zip(tensors(got), tensors(want), strict=True)]
    if not leaves or any(isinstance(b, torch.Tensor) and b.numel() > CHUNK for _, b, _ in pairs):
        return verdict
    off = [_off(a, b, rtol) for a, b, rtol in pairs]
    if not any(bool(one.any()) for one in off) or any(float(one.float().mean()) > _MOST for one in off if one.dim()):
        return verdict
    left = off
    for near in nearby(arguments, ask):
        others = [leaf for _, leaf in tensors(near)]
        if any(isinstance(b, torch.Tensor) and b.shape != c.shape for (_, b, _), c in zip(pairs, others, strict=True)):
            return verdict
        left = [
            one & (_off(a, c, rtol) | _none(a, b)) for one, (a, b, rtol), c in zip(left, pairs, others, strict=True)
        ]
        if not any(bool(one.any()) for one in left):
            right = inputs.numbered(got, lambda at, leaf: _mended(leaf, pairs[at][1], off[at]))
            again, count = compare(right, want, tolerances, figures=figures), sum(int(one.sum()) for one in off)
            return (
                replace(again, tolerance=f"{again.tolerance}; {count} elements jump")
                if again.status == "ok"
                else verdict
            )
    return verdict


def nearby(arguments: list[Any], ask: Callable[[list[Any]], Any]) -> Iterator[Any]:
    """The reference's answers to these inputs a few units in the last place off, as long as it gives any and there is time."""
    leaves = _stirrable(arguments)
    coarse = max((torch.finfo(leaf.dtype).eps for leaf in leaves), default=0.0) > torch.finfo(torch.float32).eps
    end = time.monotonic() + PATIENCE
    for units in (sign * size for size in (_COARSE if coarse else _FINE) for sign in (1, -1)) if leaves else ():
        try:
            near = ask(inputs.mapped(inputs.clone(arguments), functools.partial(_near, units=units)))
        except Exception:
            traceback.print_exc()
            return
        yield near
        if time.monotonic() > end:
            return


def _stirrable(arguments: list[Any]) -> list[torch.Tensor]:
    """Tensors whose numbers may be a little off."""
    given = [leaf for _, leaf in tensors(arguments) if isinstance(leaf, torch.Tensor)]
    return [leaf for leaf in given if inexact(leaf) and not coded(leaf)]


def _off(got: Any, want: Any, rtol: float | None) -> torch.Tensor:
    """Which elements are no answer to be had, as `compare` sees them; of what is no tensor a single one."""
    if not isinstance(want, torch.Tensor):
        return torch.tensor(compare(got, want).status != "ok")
    same = (got == want) | ((got != got) & (want != want))
    if not want.is_floating_point() and not want.is_complex():
        return ~same
    wide = torch.complex128 if want.is_complex() else torch.float64
    a, b = got.to(wide), want.to(wide)
    finite = a.isfinite() & b.isfinite()
    size = torch.where(finite, b.abs(), 0.0)
    scale = (size.square().sum() / finite.sum().clamp_min(1)).sqrt()
    near = finite & ((a - b).abs() <= (rtol or rtol_of(want.dtype)) * (size + scale))
    return ~(same | near)


def _near(tensor: torch.Tensor, units: float) -> torch.Tensor:
    """Stirred in place, but for numbers that come again."""
    if not inexact(tensor) or not tensor.numel() or coded(tensor):
        return tensor
    flat = inputs.real(inputs.memory(tensor)).reshape(-1)
    _, which, counts = flat.unique(return_inverse=True, return_counts=True)
    often = counts[which] > max(2, flat.numel() // _OFTEN)
    kept = flat[often]
    inputs.stirred(tensor, units)
    flat[often] = kept
    return tensor


def _none(got: Any, want: Any) -> torch.Tensor:
    """Which elements are no number on one of the sides."""
    return (got != got) | (want != want) if isinstance(want, torch.Tensor) else torch.tensor(False)


def _mended(got: Any, want: Any, off: torch.Tensor) -> Any:
    """An answer with what is wanted where it is off."""
    if not isinstance(want, torch.Tensor):
        return want if bool(off) else got
    return torch.where(off, want, got)
