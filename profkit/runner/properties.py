"""Inputs as `get_inputs()` never draws them: other signs and sizes, rows that are equal, zero or sorted, odd layouts.

Only those count on which the reference is finite and deterministic. Where the rounding of the inputs' last digit changes
its answer, numbers are not compared, but an answer that is not finite is still wrong. An answer that is wrong there
is wrong when the inputs are ones that the task has to take: values inside `input_domain()`, and other layouts where it says
`any_layout = True`. Otherwise the candidate is fragile.
"""

from __future__ import annotations

import functools
import math
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from profkit.runner import inputs, reach
from profkit.runner.alike import Common, whole
from profkit.runner.check import RTOL, Verdict, coded, compare, identical, inexact, numbers, rtol_of, tensors

VALUES = ("values",)
FORMS = ("layout", "shape", "constant")
"""Kinds of which it is no fault to break down on."""
PATIENCE = 10.0
"""Seconds for the reference's answers; no further input is tried after them."""
_GUARD = 4.0
"""Times below the tolerance that an answer has to keep where rounding changes it; of types that RTOL does not name one step
is already as much as a quarter of theirs."""
Domain = Sequence[Any] | None


@dataclass(frozen=True)
class Trial:
    """Inputs, named, with the reference's answer. kind: values, layout, shape or constant (what is no floating number); binding: whether a candidate has to
    be right there; rough: whether only what is not finite tells anything; room: the tolerances that hold there, asked for where the usual
    ones do not do, None from it where nobody can be held to any; rounding: those with room for what the reference is off from itself in
    float64 there, of inputs that have no such; blank: numbers of the outputs that are not finite, which tell nothing.
    """

    name: str
    kind: str
    arguments: list[Any]
    answer: Any
    binding: bool
    rough: bool = False
    room: Callable[[], Mapping[str, float] | None] | None = None
    rounding: Callable[[], Mapping[str, float]] | None = None
    blank: frozenset[int] = frozenset()

    def told(self, got: Any) -> Any:
        """An answer as it is to be compared: with the reference's own outputs where these tell nothing."""
        return _filled(got, self.answer, self.blank)

    def judged(self, verdict: Verdict) -> Verdict:
        """What a comparison with the answer says; nothing of numbers where rounding alone changes them."""
        return Verdict("ok") if self.rough and verdict.status == "mismatch" else verdict


def domain(module: ModuleType) -> Domain:
    """What the reference says of its inputs: (lowest, highest) each, None for one it says nothing of; None in all.

    Raises ValueError when it is nothing such.
    """
    if not hasattr(module, "input_domain"):
        return None
    said = list(module.input_domain())
    for entry in said:
        if entry is not None and not (len(entry) == 2 and float(entry[0]) <= float(entry[1])):
            raise ValueError(f"input_domain(): {entry!r} is no pair (lowest, highest)")
    return said


def trials(
    drawn: list[Any],
    allowed: Domain,
    ask: Callable[[list[Any]], Any],
    tolerances: Mapping[str, float],
    wanted: Sequence[str],
    layouts: bool = False,
    other: list[Any] | None = None,
    room: Callable[[list[Any]], Mapping[str, float] | None] | None = None,
    clock: reach.Clock = time.monotonic,
    writes: bool = False,
    rounding: Callable[[list[Any]], Mapping[str, float]] | None = None,
) -> Iterator[Trial]:
    """The unusual inputs of these kinds that tell anything. ask: the reference's answer, as a copy; layouts: whether the
    task has to take any layout; other: inputs drawn once more, which show what of them is always the same; room: the
    tolerances that hold for inputs with which more is remembered, None where they tell nothing; clock: seconds in which others
    are waited for not counted; writes: whether the task changes its inputs; rounding: see Trial, of these inputs.
    """
    end = clock() + PATIENCE
    common = _common(drawn, allowed, other)
    for name, kind, arguments in reach.quietly(variants(drawn, allowed, other, common)):
        # Nobody knows what lies in a row that several are written to.
        if kind not in wanted or (name == ONE_ROW and writes):
            continue
        began = clock()
        answer, rough, blank = _settled(arguments, ask, tolerances, equals=name in (ALL_FIRST, ONE_ROW))
        took = clock() - began
        if answer is not None:
            binding = layouts if kind == "layout" else kind == "values" and _inside(arguments, allowed)
            own = functools.cache(functools.partial(rounding, arguments)) if rounding is not None else None
            yield Trial(name, kind, arguments, answer, binding, rough, rounding=own, blank=blank)
            # The candidates' time is not the reference's.
            end += clock() - began - took
        if clock() + took > end:
            break
    if "values" not in wanted or room is None or other is None:
        return

    def remembered() -> Iterator[Trial]:
        """Inputs with which the answer depends on more."""
        found = reach.Reach(ask, drawn, other, tolerances, clock)
        for name, arguments in reach.remembering(found):
            kept = common.kept(arguments) if common is not None else arguments
            if kept is None:
                continue
            arguments = kept
            answer, rough, blank = _settled(arguments, ask, tolerances)
            if answer is not None and not rough and not blank:
                own = functools.cache(functools.partial(room, arguments))
                with found.patience.aside():
                    yield Trial(name, "values", arguments, answer, _inside(arguments, allowed), room=own)

    yield from reach.quietly(remembered())


def _settled(
    arguments: list[Any], ask: Callable[[list[Any]], Any], tolerances: Mapping[str, float], *, equals: bool = False
) -> tuple[Any, bool, frozenset[int]]:
    """The reference's answer to these, None when it fails, no output is finite, or it is not the same again but for the last digits, as
    of sums in the order that they come in; whether it is another on nearly the same: numbers that rounding of the
    inputs' last digit changes say nothing of a candidate; and the numbers of the outputs that are not finite. equals: whether
    rows were made equal that are not.
    """
    nothing: frozenset[int] = frozenset()
    try:
        answer = ask(inputs.clone(arguments))
        leaves = [leaf for _, leaf in tensors(answer)]
        blank = frozenset(n for n, leaf in enumerate(leaves) if not _finite(leaf))
        if blank and not any(isinstance(leaf, torch.Tensor) and n not in blank for n, leaf in enumerate(leaves)):
            return None, False, nothing
        close = {
            where: (tolerances.get(where) or rtol_of(leaf.dtype)) / _GUARD
            for where, leaf in tensors(answer)
            if isinstance(leaf, torch.Tensor) and inexact(leaf)
        }
        if compare(_filled(ask(inputs.clone(arguments)), answer, blank), answer, close).status != "ok":
            return None, False, nothing
        near = _filled(ask(inputs.mapped(inputs.clone(arguments), _nudged)), answer, blank)
        whole = any(isinstance(leaf, torch.Tensor) and not inexact(leaf) for leaf in leaves)
        # Which of equals comes first is nobody's answer: whole numbers that a little noise changes hang on that, and what is made of
        # the first jumps. With a noise the first may be first again, with its opposite it is not.
        noises = (inputs.STIRRED, -inputs.STIRRED) if whole or equals else ()
        moved = [ask(inputs.mapped(_apart(arguments), functools.partial(inputs.stirred, units=by))) for by in noises]
        jumps = any(
            compare(_filled(one, answer, blank), answer, dict.fromkeys(close, _JUMP)).status != "ok" for one in moved
        )
    except Exception:
        traceback.print_exc()
        return None, False, nothing
    tighter = {where: rtol / _GUARD for where, rtol in tolerances.items()}
    tighter |= {
        where: RTOL[leaf.dtype] / _GUARD
        for where, leaf in tensors(answer)
        if isinstance(leaf, torch.Tensor) and leaf.dtype in RTOL and where not in tolerances
    }
    pairs = [pair for one in moved for pair in zip(tensors(one), leaves, strict=True)]
    same = all(torch.equal(a, b) for (_, a), b in pairs if isinstance(b, torch.Tensor) and not inexact(b))
    return answer, not same or (equals and jumps) or compare(near, answer, tighter).status != "ok", blank


_JUMP = 0.05
"""The rtol beyond which a little noise makes an answer jump."""


def _apart(arguments: list[Any]) -> Any:
    """A copy in which no two elements are one in memory."""

    def own(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.contiguous() if inputs.memory(tensor).numel() < tensor.numel() else tensor

    return inputs.mapped(inputs.clone(arguments), own)


def _finite(leaf: Any) -> bool:
    return not isinstance(leaf, torch.Tensor) or not inexact(leaf) or bool(numbers(leaf).isfinite().all())


def _filled(got: Any, answer: Any, blank: frozenset[int]) -> Any:
    """An answer with the outputs of these numbers as another has them, where it has as many."""
    theirs = [leaf for _, leaf in tensors(answer)] if blank else []
    if not blank or len(list(tensors(got))) != len(theirs):
        return got
    return inputs.numbered(got, lambda number, leaf: theirs[number] if number in blank else leaf)


def _nudged(tensor: torch.Tensor) -> torch.Tensor:
    """Every other element one unit in the last place further."""
    if inexact(tensor) and not coded(tensor):
        flat = inputs.real(inputs.memory(tensor)).reshape(-1)[::2]
        flat.copy_(torch.nextafter(flat, torch.full_like(flat, math.inf)))
    return tensor


def _inside(arguments: list[Any], allowed: Domain) -> bool:
    """Whether all floating numbers lie where the task says that they may."""
    if allowed is None or len(allowed) != len(arguments):
        return False
    for item, bounds in zip(arguments, allowed, strict=True):
        for leaf in map(numbers, inputs.floating(item)):
            if bounds is None or not bool(((leaf >= bounds[0]) & (leaf <= bounds[1])).all()):
                return False
    return True


def _common(drawn: list[Any], allowed: Domain, other: list[Any] | None) -> Common | None:
    """What changed inputs have to have as well. Where the task says which numbers may come, all of these may."""
    return Common(drawn, other) if other is not None and allowed is None else None


def variants(
    drawn: list[Any], allowed: Domain = None, other: list[Any] | None = None, common: Common | None = None
) -> Iterator[tuple[str, str, list[Any]]]:
    """(name, kind, inputs) of every change that makes a difference. common: what they have to have as well, where anything."""
    changes: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "inputs with the other sign": torch.neg,
        "inputs times 1e-3": lambda t: t * 1e-3,
        "inputs times 10": lambda t: t * 10,
        "inputs times 1e3": lambda t: t * 1e3,
        ALL_FIRST: lambda t: t[:1].expand_as(t).contiguous(),
        "rows in order of size": lambda t: t.sort(-1).values,
        IN_TURN: lambda t: t.sort(0).values,
        "every other row zero": lambda t: _rows(t, torch.zeros_like),
        "rows with a single one": _one_hot,
        "every other row denormal": lambda t: _rows(t, _denormal),
    }
    # What is as long as a dimension of others is a scale or a bias of theirs; else one long row is as good as many.
    sides = {size for leaf in inputs.floating(drawn) if leaf.dim() > 1 for size in leaf.shape}
    rows = {len(leaf) for leaf in inputs.floating(drawn) if leaf.dim() == 1 and len(leaf) > 1} - sides
    nothing: set[int] = set()
    for name, change in changes.items():
        # What has one dimension may say in which order the rows come, and may bear less than the others.
        for alone in (
            [None] if name == IN_TURN else [rows] if rows and not sides else [nothing, rows] if rows else [nothing]
        ):
            changed = _floats(drawn, change, alone)
            kept = changed if common is None or not (sides or rows) else common.kept(changed)
            if kept is not None:
                yield f"{name}{AS_WELL * bool(sides and alone)}", "values", kept
    if allowed is not None and len(allowed) == len(drawn):
        for name, share in {"the lowest values allowed": 0.0, "the highest values allowed": 1.0}.items():
            yield name, "values", [_at(item, bounds, share) for item, bounds in zip(drawn, allowed, strict=True)]
    if other is not None and (changed := _constants_changed(drawn, other)) is not None:
        yield CONSTANT, "values", changed
    for changed in _each_changed(drawn, other) if other is not None else ():
        yield GIVEN, "constant", changed
    for changed in _of_one_value(drawn, other) if other is not None else ():
        yield ONE_VALUE, "constant", changed
    yield "inputs with gaps between the elements", "layout", inputs.mapped(inputs.clone(drawn), _spread)
    yield "inputs that start one element later", "layout", inputs.mapped(inputs.clone(drawn), _offset)
    yield ONE_ROW, "layout", _floats(drawn, lambda t: t[:1].expand_as(t), set())
    single = _single(drawn)
    if single is not None:
        yield "a batch of one", "shape", single


ALL_FIRST, ONE_ROW = "rows that are all the first", "rows that are one row in memory"
IN_TURN = "columns in order of size"
AS_WELL = ", those of one dimension too"
CONSTANT = "inputs that are drawn the same every time, with other values"
ONE_VALUE = "a mask or whole numbers that are all the same"
GIVEN = "a mask, whole numbers or a setting drawn the same every time, with another value"


def _constants_changed(drawn: list[Any], other: list[Any]) -> list[Any] | None:
    """The inputs with other numbers in the floating tensors that a second draw has the same; None where it has none."""
    again = [leaf for _, leaf in tensors(other)]
    floating = [isinstance(leaf, torch.Tensor) and leaf.is_floating_point() for leaf in again]
    same = [yes and _same(one, leaf) for yes, (_, one), leaf in zip(floating, tensors(drawn), again, strict=False)]
    return (
        inputs.numbered(drawn, lambda at, leaf: inputs.through(leaf, _moved) if same[at] else leaf)
        if any(same)
        else None
    )


def _each_changed(drawn: list[Any], other: list[Any]) -> Iterator[list[Any]]:
    """The inputs with another value for one of what a second draw has the same and is not floating numbers in a tensor."""
    for place, ((_, one), (_, again)) in enumerate(zip(tensors(drawn), tensors(other), strict=False)):
        floating = isinstance(one, torch.Tensor) and one.is_floating_point()
        if not floating and _same(one, again) and (value := _another(one)) is not None:
            yield inputs.numbered(drawn, lambda at, leaf, place=place, value=value: value if at == place else leaf)  # type: ignore[misc]


def _of_one_value(drawn: list[Any], other: list[Any]) -> Iterator[list[Any]]:
    """The inputs with one of the values alone in a mask, or in whole numbers that come again, of whatever type, where a second
    draw has others.
    """
    for place, ((_, one), (_, again)) in enumerate(zip(tensors(drawn), tensors(other), strict=False)):
        if not isinstance(one, torch.Tensor) or one.is_complex() or coded(one) or _same(one, again):
            continue
        # Bounds are no kinds: that they begin and end where they do is what makes them bounds.
        if (one.is_floating_point() and not whole(one)) or (
            _bounds(one, again) and torch.equal(one[..., -1], again[..., -1])
        ):
            continue
        kinds = one.unique()
        if 1 < len(kinds) < one.numel():
            for value in kinds[[0, -1] if len(kinds) == 2 else [0, len(kinds) // 2, -1]].tolist():
                yield reach.one_leaf(drawn, place, functools.partial(torch.full_like, fill_value=value))


def _bounds(one: Any, again: Any) -> bool:
    """Whether both are numbers in order."""
    pair = one, again
    if not all(isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.shape[-1] > 2 for leaf in pair):
        return False
    return one.shape[:-1] == again.shape[:-1] and all(bool((leaf[..., 1:] >= leaf[..., :-1]).all()) for leaf in pair)


def _same(one: Any, again: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return (
            isinstance(again, torch.Tensor) and one.numel() > 0 and one.shape == again.shape and identical(one, again)
        )
    return type(one) is type(again) and bool(one == again)


def _moved(tensor: torch.Tensor) -> torch.Tensor:
    """A quarter smaller and one place on, whole numbers of several kinds as large as they were; drawn, where all of it is one
    number that this would leave as it is.
    """
    if bool((tensor == 0).all()):
        return torch.randn(tensor.shape, generator=torch.Generator().manual_seed(tensor.numel())).to(tensor)
    moved = tensor.roll(1, -1) if tensor.dim() else tensor
    return moved if whole(tensor) and not torch.equal(moved, tensor) else moved * 0.75


def _another(one: Any) -> Any:
    """Another value for a flag, a mask, whole numbers or a number, as valid as it as far as can be seen; None for none."""
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
    """Whole numbers among those that were there, or between: equal ones one smaller here and there, bounds in order of size
    with one of them one lower, others one place on.
    """
    flat = tensor.flatten()
    if bool((flat == flat[0]).all()):
        lower = flat.clone()
        lower[::2] -= 1
        return lower.view(tensor.shape) if int(flat[0]) > 0 else None
    steps = flat.diff()
    wide = (steps > 1).nonzero().flatten()
    if tensor.dim() == 1 and bool((steps >= 0).all()) and len(wide):
        moved = flat.clone()
        # The last bound is the size of something.
        at = int(wide[0]) + 1
        moved[at] -= 1
        return moved if at + 1 < len(moved) else None
    return flat.roll(1).view(tensor.shape)


def _floats(item: Any, change: Callable[[torch.Tensor], torch.Tensor], rows: Collection[int] | None) -> Any:
    """Copies with floating tensors of two dimensions and more changed, and those of one that are so long; None: all of one."""

    def wanted(tensor: torch.Tensor) -> bool:
        if not inexact(tensor) or not tensor.numel() or not tensor.dim():
            return False
        return tensor.dim() > 1 or rows is None or len(tensor) in rows

    return inputs.mapped(
        inputs.clone(item), lambda tensor: inputs.through(tensor, change) if wanted(tensor) else tensor
    )


def _rows(tensor: torch.Tensor, make: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    changed = tensor.clone()
    changed[1::2] = make(changed[1::2])
    return changed


def _one_hot(tensor: torch.Tensor) -> torch.Tensor:
    place = tensor.argmax(-1, keepdim=True)
    return torch.zeros_like(tensor).scatter_(-1, place, 1.0)


def _denormal(tensor: torch.Tensor) -> torch.Tensor:
    return torch.full_like(tensor, torch.finfo(tensor.dtype).tiny / 4)


def _at(item: Any, bounds: Any, share: float) -> Any:
    """Every floating number at one end of the bounds; where that is not finite as drawn."""
    if bounds is None or not math.isfinite(bounds[0] if share == 0.0 else bounds[1]):
        return inputs.clone(item)
    value = float(bounds[0] if share == 0.0 else bounds[1])
    return inputs.mapped(inputs.clone(item), lambda t: torch.full_like(t, value) if t.is_floating_point() else t)


def _spread(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements with one unused between any two."""
    if not tensor.dim() or not tensor.is_contiguous():
        return tensor
    wide = torch.zeros(*tensor.shape[:-1], 2 * tensor.shape[-1], dtype=tensor.dtype, device=tensor.device)
    wide[..., ::2] = tensor
    return wide[..., ::2]


def _offset(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements, contiguous, one element behind the start of their memory."""
    if not tensor.dim() or not tensor.is_contiguous():
        return tensor
    longer = torch.zeros(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)
    longer[1:] = tensor.reshape(-1)
    return longer[1:].view(tensor.shape)


def _single(drawn: list[Any]) -> list[Any] | None:
    """The first of every tensor's first dimension, where all have the same; None where they have not."""
    sizes = {leaf.shape[0] if leaf.dim() > 1 else 0 for _, leaf in tensors(drawn) if isinstance(leaf, torch.Tensor)}
    if len(sizes) != 1 or sizes <= {0, 1}:
        return None
    single: list[Any] = inputs.mapped(inputs.clone(drawn), lambda t: t[:1].clone())
    return single
