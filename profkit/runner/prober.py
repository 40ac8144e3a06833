"""What passes by accident? Answers that nobody should get away with, tried before any candidate.

Zeros, ones, the mean, an answer to other inputs, half an answer, the input itself: whatever passes at the
usual tolerance makes it tighter for this problem, down to the rounding an honest implementation may have.
Where that does not help, unusual inputs may still tell (a relu of positive inputs is no copy); where they do not, the
problem cannot tell, and the run says so. A task whose answer is its input, whatever the input, is a copy: to give the
input back as a copy is its work then. Rounding is the reference against
itself in float64; where that is larger than the usual tolerance allows, the tolerance follows it. So it does the rounding
of TF32 where torch's switches allow that for what the reference computes, whatever kernel it happened to get.
"""

from __future__ import annotations

import math
import operator
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from profkit.runner import inputs, precision
from profkit.runner.check import Tolerances, equal, inexact, rest, rest_off, rtol_of, share_off, small, tensors
from profkit.runner.events import Events
from profkit.runner.lowered import PRECISIONS, Again, lowered, thin, thinned
from profkit.runner.properties import Trial
from profkit.runner.trivial import trivial
from profkit.runner.work import FlopModel

_SAFETY = {torch.float32: 16.0, torch.float64: 16.0, torch.complex64: 16.0}
_SAFETY_OTHER = 4.0
JUMPS = "it jumps, or cancels"
WIDER, _NARROW = 4.0, 2.0
"""Times the reference's own rounding, and times what TF32 changes at most, that an honest answer may be off."""
WIDEST = 0.05
"""The largest rtol that rounding explains."""
_UNEVEN = 0.5
"""A trivial answer must miss the tolerance by this factor."""
_DEEPEST = float(1 << 14)
"""Operations in a row from which rounding grows no more: longer sums are made in parts."""
AS_IT_CAME, OTHERS = "an input as it came", "the answer to other inputs"


@dataclass(frozen=True)
class Probe:
    """What is known of a problem before any candidate is judged.

    `told`: trivial answers that pass for the inputs as drawn, and the unusual inputs on which they do not; `copies`:
    whether the answer is the input by all that was asked. `tolerances`: rtol by output, where it is not the usual one; `rounding`: largest error of the reference
    against itself in float64, in the units of rtol (None: not known); `passing`: trivial answers that pass
    all the same; `still`: outputs of several that are the same for all inputs; `tightened`: those that would have passed; `indistinct`: precisions the tolerance lets
    pass; `mutates`: whether the reference changes its inputs; `random`: whether it draws random numbers; `keeps`: whether its answer depends on what calls
    before have left in it; `varied`: how inputs that are drawn the same every time are made other ones;
    """

    tolerances: Tolerances = field(default_factory=Tolerances)
    rounding: float | None = None
    passing: list[str] = field(default_factory=list)
    still: list[str] = field(default_factory=list)
    tightened: list[str] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)
    copies: bool = False
    indistinct: list[str] = field(default_factory=list)
    mutates: bool = False
    random: bool = False
    keeps: bool = False
    varied: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def repeatable(self) -> bool:
        """Whether the same call gives the same answer again, so that timed calls can be compared."""
        return not (self.mutates or self.random or self.keeps)

    def report(self, events: Events) -> None:
        """Say what was found, and what of it weakens a verdict."""
        events.send("probe", **asdict(self))
        for doubt in self._doubts():
            events.send("doubt", **doubt)

    def _doubts(self) -> Iterator[dict[str, str]]:
        if self.passing:
            yield {
                "what": f"trivial answers pass for this task: {', '.join(self.passing)}",
                "how_much": "no tolerance that leaves room for rounding tells them from the reference's answer",
                "fix": "draw inputs on which the output depends",
            }
        if self.still:
            yield {
                "what": f"{', '.join(self.still)} of the answer is the same for all inputs that were tried",
                "how_much": "who does not compute it is right",
                "fix": "draw inputs on which it depends",
                "code": "output-still",
            }
        for note in () if self.random else self.notes:
            if note.endswith(JUMPS):
                yield {
                    "what": "rounding alone changes the reference's answer by more than any tolerance",
                    "how_much": note,
                    "fix": "draw inputs away from jumps, or return what is compared before them",
                }
        if self.random:
            yield {
                "what": "timed calls are not compared with the reference",
                "how_much": "the reference draws random numbers",
                "fix": "give a reference whose answer depends on its inputs alone",
            }


Pause = Callable[[], None]
"""Called between the reference's calls: whoever waits for a device that is shared need not wait for all of them."""


def probe(model: Any, draw: Callable[[int], list[Any]], seeds: Sequence[int], pause: Pause = lambda: None) -> Probe:
    """Try the trivial answers on the reference's answers to two seeds."""
    drawn = draw(seeds[1])
    # Whoever draws may have to wait.
    began = time.perf_counter()
    other = thinned(model(*drawn))
    took = time.perf_counter() - began
    arguments = draw(seeds[0])
    kept, generators = inputs.clone(arguments), _generators()
    whole, depth = _depth(model, arguments)
    again = Again(model, kept, took, pause)
    mutates, random = not same(arguments, kept), not same(_generators(), generators)
    answer, given = thinned(whole), _passed_through(kept, whole)
    del whole, arguments, drawn
    exact = again.thinned("float64")
    moved = _moved(answer, exact or {}, again) if depth >= _COMPUTED else {}
    noise = {where: far for where, far in distances(exact, answer).items() if where not in moved}
    others = {where: leaf for where, leaf in answer.items() if where not in moved}
    tolerances = Tolerances(wider(others, noise, again) | moved)
    floors = _floors(noise, depth, _made_in(answer, noise, again))
    tightened: list[str] = []
    passing: list[str] = []
    still: set[str] = set()
    for name, trial in trivial(answer, given, other):
        far = distances(trial, answer, moved)
        found = _tightened(far, answer, tolerances, floors)
        if found is not None:
            (tightened if found else passing).append(name)
            tolerances |= found
            if name == "zeros" and not found:
                break  # so does every part of an answer
        elif len(answer) > 1:
            # One of several outputs may be as good as constant, and nobody has to compute it.
            for where, leaf in answer.items():
                if isinstance(leaf, torch.Tensor):
                    floor = {where: floors[where]} if where in floors else {}
                    own = _tightened({where: far[where]}, {where: leaf}, tolerances, floor)
                    tolerances |= own or {}
                    still |= {where} if own == {} and name == OTHERS else set()
    lower = _indistinct(again, answer, tolerances)
    tolerances |= _small(answer, exact or {}, tolerances)
    return Probe(
        tolerances=tolerances,
        rounding=_finite(noise),
        passing=passing,
        still=sorted(still),
        tightened=tightened,
        indistinct=lower,
        mutates=mutates,
        random=random,
        notes=again.notes,
    )


def told_apart(found: Probe, asked: Iterable[Trial], other: Any) -> Probe:
    """The probe with those of the passing answers taken out that unusual inputs tell from the right one. other: the
    reference's answer to drawn inputs.
    """
    told: dict[str, str] = {}
    copied, still = 0, found.still
    for trial in asked:
        if trial.rough or trial.blank:
            continue
        # Where nobody can be held to anything nothing is told apart.
        own = found.tolerances if trial.room is None else trial.room()
        if own is None:
            continue
        answer = thinned(trial.answer)
        differs = distances(answer, thinned(other), own) if still else {}
        still = [where for where in still if differs.get(where, math.inf) <= _allowed(own, where, answer.get(where))]
        for name, given in _trivial(trial, other):
            far = distances(given, answer, own)
            if any(far[where] > _allowed(own, where, leaf) for where, leaf in answer.items()):
                told.setdefault(name, trial.name)
            elif name == AS_IT_CAME and not any(far.values()):
                copied += 1
    copies = AS_IT_CAME in found.passing and AS_IT_CAME not in told and copied >= _COPIED
    left = [name for name in found.passing if name not in told and not (copies and name == AS_IT_CAME)]
    apart = {name: told[name] for name in found.passing if name in told}
    return replace(found, passing=left, told=apart, copies=copies, still=still)


_COPIED = 3
"""Unusual inputs that must come back as they are before a task is taken for a copy."""


def gives(trial: Trial, got: Any, found: Probe, other: Any) -> str:
    """Which of the trivial answers that pass for inputs as drawn this one is; "" for none."""
    if not found.told:
        return ""
    mine = thinned(got)
    for name, given in _trivial(trial, other):
        far = distances(mine, given, found.tolerances) if name in found.told else {}
        if far and all(far[where] <= _allowed(found.tolerances, where, leaf) for where, leaf in given.items()):
            return name
    return ""


def _trivial(trial: Trial, other: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return trivial(thinned(trial.answer), _passed_through(trial.arguments, trial.answer), thinned(other))


def _allowed(tolerances: Mapping[str, float], where: str, leaf: Any) -> float:
    return (tolerances.get(where) or rtol_of(leaf.dtype)) if isinstance(leaf, torch.Tensor) else 0.0


def known(told: Mapping[str, Any]) -> Probe:
    """What another process has reported of this problem."""
    return Probe(**{**told, "tolerances": Tolerances(told.get("tolerances") or {})})


def _finite(noise: Mapping[str, float]) -> float | None:
    known = [value for value in noise.values() if math.isfinite(value)]
    return max(known, default=None)


def _generators() -> list[Any]:
    """The state of torch's generators."""
    found = [torch.get_rng_state()]
    return found + (torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [])


def _depth(model: Any, arguments: list[Any]) -> tuple[Any, float]:
    """(the answer, operations an element of it took): rounding grows with the root of those operations."""
    with FlopModel("") as counter:
        answer = inputs.clone(model(*arguments))
    elements = sum(leaf.numel() for _, leaf in tensors(answer) if isinstance(leaf, torch.Tensor))
    return answer, sum(counter.flops.values()) / max(1, elements)


def _passed_through(arguments: list[Any], answer: Any) -> torch.Tensor | None:
    """An input of the very form of the only output."""
    (_, only), *more = tensors(answer)
    if more or not isinstance(only, torch.Tensor):
        return None
    given = (leaf for _, leaf in tensors(arguments) if isinstance(leaf, torch.Tensor))
    return next((thin(leaf) for leaf in given if (leaf.shape, leaf.dtype) == (only.shape, only.dtype)), None)


def distances(
    trial: Mapping[str, Any] | None, answer: Mapping[str, Any], moved: Collection[str] = ()
) -> dict[str, float]:
    """By output, how far `trial` is off in the units of rtol, of integers and booleans that rounding may have `moved` the
    share that differs; infinite where no tolerance would do.
    """
    found = {}
    for where, want in answer.items() if trial is not None else ():
        got = trial.get(where) if trial is not None else None
        if not isinstance(want, torch.Tensor):
            found[where] = 0.0 if type(got) is type(want) and got == want else math.inf
        elif not isinstance(got, torch.Tensor) or got.shape != want.shape:
            found[where] = math.inf
        elif inexact(want):
            found[where] = _distance(got, want)
        else:
            wrong = _differing(got, want)
            found[where] = wrong / want.numel() if wrong and where in moved else math.inf if wrong else 0.0
    return found


def _distance(got: torch.Tensor, want: torch.Tensor) -> float:
    wide = torch.complex128 if want.is_complex() else torch.float64
    a, b = got.to(wide), want.to(wide)
    if want.is_floating_point():
        # What is beyond the largest number of the task's type is infinite in it, however wide `got` is.
        most = torch.finfo(want.dtype).max
        a = torch.where(a.abs() > most, a * math.inf, a)
    finite = b.isfinite()
    if bool((finite != a.isfinite()).any()):
        return math.inf
    a, b = a[finite], b[finite]
    if b.numel() == 0:
        return 0.0
    scale = b.abs().square().mean().sqrt()
    size = (b.abs() + scale).clamp_min(1e-300)
    return float(((a - b).abs() / size).max())


def _made_in(answer: Mapping[str, Any], noise: Mapping[str, float], again: Again) -> dict[str, torch.dtype]:
    """By output, the type whose rounding it has: its own, or what goes in where its rounding is nearer to that one's. A sum in
    float64 of what float32 computed is right to float32, and one number's error may be small by chance.
    """
    given, found = again.widest(), {}
    for where, leaf in answer.items():
        if isinstance(leaf, torch.Tensor) and inexact(leaf):
            inside = given or leaf.dtype
            own, theirs = torch.finfo(leaf.dtype).eps, torch.finfo(inside).eps
            found[where] = (
                inside if theirs > own and noise.get(where, math.inf) > math.sqrt(own * theirs) else leaf.dtype
            )
    return found


def wider(answer: Mapping[str, Any], noise: Mapping[str, float], again: Again) -> dict[str, float]:
    """rtol of the outputs to which the usual one leaves no room for their own rounding, or for TF32 where torch may take
    it for this task. What the reference got is its library's choice: another layout, and the choice is another.
    """
    found, narrow = {}, distances(_narrowed(answer, again), answer)
    inside = _made_in(answer, noise, again)
    for where, leaf in answer.items():
        own, tf32 = noise.get(where, 0.0), narrow.get(where, 0.0)
        usual = rtol_of(inside.get(where, leaf.dtype)) if isinstance(leaf, torch.Tensor) else 0.0
        if isinstance(leaf, torch.Tensor) and inexact(leaf):
            usual = max(usual, _in_common(leaf, again))
        if not isinstance(leaf, torch.Tensor) or max(own * WIDER, tf32 * _NARROW, usual) <= rtol_of(leaf.dtype):
            continue
        if tf32 > WIDEST:
            again.notes.append(
                f"{where} is off by {tf32:.2g} of its size from itself in TF32, which is allowed: {JUMPS}"
            )
            tf32 = 0.0
        if own * WIDER > WIDEST:
            again.notes.append(f"{where} is off by {own:.2g} of its size from itself in float64: {JUMPS}")
        elif (room := max(own * WIDER, tf32 * _NARROW, usual)) > rtol_of(leaf.dtype):
            found[where] = min(room, WIDEST)
    return found


def _answered(model: Any, arguments: list[Any], pause: Pause) -> tuple[dict[str, Any], Again]:
    """The reference's answer to these, thinned, and it to be asked again."""
    began = time.perf_counter()
    answer = thinned(model(*inputs.clone(arguments)))
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return answer, Again(model, arguments, time.perf_counter() - began, pause)


def _of_kind(usual: Mapping[str, float], found: Mapping[str, float]) -> Tolerances:
    """These tolerances, for answers of any type where the usual ones are."""
    made = Tolerances(found)
    made.any_dtype = isinstance(usual, Tolerances) and usual.any_dtype
    return made


def room(
    model: Any, arguments: list[Any], usual: Mapping[str, float], pause: Pause = lambda: None
) -> Tolerances | None:
    """The tolerances for weights or inputs unlike those that the usual ones were found with, never finer than a type's; None
    where rounding may change the answer by more than any allows, or how much is not known.
    """
    answer, again = _answered(model, arguments, pause)
    exact, stirred = again.thinned("float64"), again.stirred(1.0 if again.coarse else _UNITS)
    narrow = _narrowed(answer, again)
    # What was to be tried and was not may move the answer.
    if exact is None or stirred is None or (narrow is None and again.notes):
        return None
    found = _of_kind(usual, _moved(answer, exact, again))
    # Of floating numbers alone nothing is asked of it.
    whole = any(isinstance(leaf, torch.Tensor) and not inexact(leaf) for leaf in answer.values())
    strong = again.stirred(_STRONG * inputs.STIRRED) if whole else None
    far = [(distances(exact, answer), WIDER), (distances(stirred, answer), WIDER)]
    far += [(distances(narrow, answer), _NARROW)] if narrow is not None else []
    for where, leaf in answer.items():
        if not isinstance(leaf, torch.Tensor):
            if (
                not (isinstance(leaf, float) and math.isclose(exact[where], leaf, rel_tol=_SAME))
                and exact[where] != leaf
            ):
                return None
        elif inexact(leaf):
            found[where] = max(
                _allowed(usual, where, leaf),
                rtol_of(leaf.dtype),
                _in_common(leaf, again),
                *(one[where] * times for one, times in far),
            )
            if not found[where] <= WIDEST:
                return None
        elif where not in found and (strong is None or _differing(strong.get(where), leaf)):
            return None
    return found


def rounded(
    model: Any, arguments: list[Any], usual: Mapping[str, float], pause: Pause = lambda: None
) -> Mapping[str, float]:
    """The usual tolerances, wider for floating outputs that the reference gives far less exactly for these inputs than for drawn ones:
    differences of numbers that are nearly equal there, as the divergence of two distributions that are hardly any.
    """
    answer, again = _answered(model, arguments, pause)
    exact = again.thinned("float64")
    if exact is None:
        return usual
    found = _of_kind(usual, usual)
    for where, far in distances(exact, answer).items():
        leaf = answer[where]
        if isinstance(leaf, torch.Tensor) and inexact(leaf) and _allowed(usual, where, leaf) < far * WIDER < math.inf:
            found[where] = far * WIDER
    return found


def differ(
    model: Any, arguments: list[Any], changes: Iterable[Callable[[], object]], answer: Any, usual: Mapping[str, float]
) -> bool:
    """Whether a model's answers to these after either change of it differ in float64 too, by more than an answer of the type of
    `answer` may: else rounding alone is what makes them differ. True where float64 says nothing.
    """
    found = []
    try:
        for change in changes:
            change()
            found.append(thinned(lowered(model, inputs.clone(arguments), "float64")))
    except Exception:
        traceback.print_exc()
        return True
    far = distances(found[1], found[0])
    return any(far[where] > _allowed(usual, where, leaf) for where, leaf in thinned(answer).items() if where in far)


def left(model: Any, arguments: list[Any]) -> list[Any]:
    """What a call in float64 leaves of these inputs, which are used up."""
    found: list[Any] = lowered(_Left(model), arguments, "float64")
    return found


def kept(model: Any, arguments: list[Any], names: Collection[str]) -> dict[str, Any]:
    """What a call in float64 with these inputs, which are used up, leaves in a model under these names."""
    found: dict[str, Any] = lowered(_Kept(model, names), arguments, "float64")
    return found


class _Kept(torch.nn.Module):  # type: ignore[misc]
    """Gives what a call of a model has left under names in it."""

    def __init__(self, model: Any, names: Collection[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *arguments: Any) -> dict[str, Any]:
        self.model(*arguments)
        return {name: operator.attrgetter(name)(self.model) for name in self.names}


class _Left(torch.nn.Module):  # type: ignore[misc]
    """Gives back its inputs as a call of a model has left them."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, *arguments: Any) -> list[Any]:
        self.model(*arguments)
        return list(arguments)


def _in_common(leaf: torch.Tensor, again: Again) -> float:
    """The rtol of a mean, or a sum, of what a coarse type computed: rounding that its terms have in common does not average out."""
    inside = again.widest()
    if inside is None or not again.coarse or torch.finfo(leaf.dtype).eps >= torch.finfo(inside).eps:
        return 0.0
    return float(torch.finfo(inside).eps) / 2


_SAME = 1e-5
"""What a number that is no tensor may differ by in float64, as a share of itself."""
_UNITS = 4.0
"""Units in the last place of the largest inputs by which sums in another order may differ."""
_COARSE_UNITS = 4.0
"""Units of a coarse type that show what one of them may move, where one moves nothing by chance."""


def _moved(answer: Mapping[str, Any], exact: Mapping[str, Any], again: Again) -> dict[str, float]:
    """Of integers and booleans that are made of what was computed, the share that honest rounding may move: a few, and more
    where float64 or allowed TF32 moves more, or what rounding is taken to be, scaled down from what shows. None of those that
    nothing moves.
    """
    whole = {where: leaf for where, leaf in answer.items() if isinstance(leaf, torch.Tensor) and not inexact(leaf)}
    if not any(leaf.numel() >= _MANY for leaf in whole.values()):
        return {}
    # So many units of a coarse type would be all that its numbers are.
    units, strong = (_COARSE_UNITS, _COARSE_UNITS) if again.coarse else (_STRONG * inputs.STIRRED, _STRONG)
    others = [(again.stirred(units), 1 / strong), (exact, WIDER), (_narrowed(answer, again), _NARROW)]
    found: dict[str, float] = {}
    for where, leaf in whole.items():
        moved = [times * _differing((one or {}).get(where), leaf) for one, times in others]
        room = WIDEST * leaf.numel() - _FEW
        most = next((wrong for wrong in (max(moved), max(moved[:2])) if wrong <= room), 0.0)
        if most and leaf.numel() >= _MANY:
            found[where] = (_FEW + most) / leaf.numel()
    return found


def _differing(got: Any, want: torch.Tensor) -> int:
    """The elements that differ; 0 where there is nothing to compare."""
    return int((got != want).sum()) if isinstance(got, torch.Tensor) and got.shape == want.shape else 0


_COMPUTED = 2.0
"""Operations an element from which on an answer is not just a comparison of what came in."""
_STRONG, _MANY, _FEW = 128.0, 100, 2
"""Times the rounding there is, so that it shows; elements below which none may differ; those that always may."""


def _narrowed(answer: Mapping[str, Any], again: Again) -> Mapping[str, Any] | None:
    """The reference's answer in TF32 where torch's switches allow it; None where they do not."""
    device = next((leaf.device for leaf in answer.values() if isinstance(leaf, torch.Tensor)), torch.device("cpu"))
    operations = precision.narrowed(device)
    return again.narrowed(operations) if operations else None


def _floors(noise: Mapping[str, float], depth: float, made_in: Mapping[str, torch.dtype]) -> dict[str, float]:
    """By floating output, the rtol below which honest implementations would fail."""
    found = {}
    for where, dtype in made_in.items():
        least = torch.finfo(dtype).eps * max(16.0 if dtype in _SAFETY else 2.0, 2.0 * math.sqrt(min(depth, _DEEPEST)))
        found[where] = max(_SAFETY.get(dtype, _SAFETY_OTHER) * noise.get(where, 0.0), least)
    return found


def _tightened(
    far: Mapping[str, float],
    answer: Mapping[str, Any],
    tolerances: Mapping[str, float],
    floors: Mapping[str, float],
) -> dict[str, float] | None:
    """None when the answer fails anyway; else the one rtol that makes it fail, {} when none can."""
    if any(far[where] > _allowed(tolerances, where, leaf) for where, leaf in answer.items()):
        return None
    where = max(floors, key=lambda w: far[w] / floors[w], default="")
    if not where or far[where] * _UNEVEN < floors[where]:
        return {}
    return {where: far[where] * _UNEVEN}


def _small(answer: Mapping[str, Any], exact: Mapping[str, Any], tolerances: Mapping[str, float]) -> dict[str, float]:
    """Of outputs whose smaller half is of no account beside a few large elements, the share of elements that may be far off
    for their own size: a few times what the reference itself has, and none where that is most of them.
    """
    found = {}
    for where, leaf in answer.items():
        if (
            not isinstance(leaf, torch.Tensor)
            or not leaf.is_floating_point()
            or not isinstance(exact.get(where), torch.Tensor)
        ):
            continue
        sizes = leaf.to(torch.float64).abs()
        real = sizes[sizes.isfinite() & (sizes > 0)]
        if real.numel() < _FEWEST:
            continue
        larger = torch.where(sizes >= real.median(), leaf, torch.zeros_like(leaf))
        most = max(_OFF, WIDER * share_off(exact[where], leaf))
        usual = _allowed(tolerances, where, leaf)
        if _distance(larger, leaf) <= usual and most < _MOST_OFF:
            found[small(where)] = most
            if (room := max(usual, rtol_of(leaf.dtype), WIDER * rest_off(exact[where], leaf))) <= WIDEST:
                found[rest(where)] = room
    return found


_FEWEST = 64
_OFF, _MOST_OFF = 0.05, 0.4


def _indistinct(again: Again, answer: Mapping[str, Any], tolerances: Mapping[str, float]) -> list[str]:
    """The lower precisions in which the reference passes for itself; a float32 problem's only."""
    types = {v.dtype for v in answer.values() if isinstance(v, torch.Tensor) and v.is_floating_point()}
    if types != {torch.float32}:
        return []
    found = []
    for name in PRECISIONS:
        far = distances(again.thinned(name), answer)
        if far and all(d <= (tolerances.get(w) or rtol_of(torch.float32)) for w, d in far.items()):
            found.append(name)
    return found


def same(one: Any, other: Any) -> bool:
    """Equal element by element, NaN being equal to itself; what is no tensor does not count."""
    pairs = zip(tensors(one), tensors(other), strict=True)
    return all(equal(a, b) for (_, a), (_, b) in pairs if isinstance(a, torch.Tensor))
