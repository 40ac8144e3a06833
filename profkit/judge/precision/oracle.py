"""Measured precision: number of correct bits of an answer.

Truth is the reference in float64. Small random relative steps in inputs and weights give each element's response per
unit of the step. The error, minus the answer's own rounding, is divided by the response, quantile by quantile, for all
elements and for the smaller half. The worst ratio is 2**-bits. Elements that jump may have the value of any perturbed
run.
"""

from __future__ import annotations

import functools
import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from profkit.guest.tensors.compare import (
    Left,
    Verdict,
    chunks,
    equal,
    errors,
    figures,
    form,
    inexact,
    numbers,
    rms,
    scalars,
    step,
    strange,
    tensors,
)
from profkit.judge.precision import twin
from profkit.judge.precision.bits import (
    ANSWER,
    BLOCKS,
    BORDERS,
    FLOAT64,
    OWN_TYPES,
    UNITS,
    Precision,
    over,
    share,
    to_bits,
)
from profkit.judge.precision.rows import Block, blocks

SMOOTH, KINK = 2.0**-20, 2.0**-11
"""Relative steps: far above float64's rounding, and as coarse as accepted types."""
_LEAST = 1.0 / 64
"""Smallest response of an element, relative to its size."""
_TIMES = 2.0
_DRAWS, _FEW = 2, 4096
"""Runs with the smooth step; outputs up to this many elements get one more."""
_MANY = (8, 32)
"""Perturbed runs to find ties among integers, and before rejecting: eight miss one of 256 ties."""
_OFFENDERS = 1 << 12
_STRAY = 8
"""Ratio of integers changed by a perturbed run to those changed only by the candidate."""
_ROUGH, _RARE = 2.0, 3.0
_ANY = 0.05
"""Fewest bits to report as a number; below, "no bit agrees"."""
_NOISE = 0.5
_QUANTILES = (0.5, 0.9, 0.99, 0.9999)


@dataclass
class _Leaf:
    """One output at some elements, flat.

    `kinks`: (step, value) of the coarse runs; `smooth`: response to the smooth step; `rounded`: half an ulp; `base`:
    subtracted from an answer before comparison.
    """

    truth: torch.Tensor
    response: torch.Tensor
    kinks: list[tuple[float, torch.Tensor]]
    smooth: torch.Tensor
    rounded: float
    base: torch.Tensor | float = 0.0

    @functools.cached_property
    def small(self) -> torch.Tensor:
        """Which elements are smaller than the median."""
        return self.truth.abs() < self.truth.abs().median()

    @functools.cached_property
    def moved(self) -> torch.Tensor:
        """The response; 0 if it or the truth is not finite."""
        return torch.where(self.truth.isfinite() & self.response.isfinite(), self.response, 0.0)

    @functools.cached_property
    def expected(self) -> tuple[list[float], list[float]]:
        """Quantiles of the response over all and over small elements."""
        return _quantiles(self.moved), _quantiles(self.moved[self.small])


class Oracle:
    """Judges answers by a reference. pause: called before each run of the reference."""

    def __init__(
        self, model: Any, precision: Precision | None = None, pause: Callable[[], None] = lambda: None
    ) -> None:
        self.model = model
        self.precision = precision or Precision()
        self._pause = pause
        self._wide = True
        self.any_dtype = False

    def case(self, arguments: list[Any], want: Any, view: twin.View = twin.called, *, drawn: bool = False) -> Case:
        """Inputs with the expected answer `want`. drawn: not unusual inputs."""
        return Case(self, arguments, want, view, drawn=drawn)

    def runs(self, case: Case, index: Sequence[Any], draws: int) -> list[tuple[float, list[Any]]]:
        """(step, elements `index` of outputs) of the truth, smooth runs (`draws`), two coarse ones."""
        plan = [(0.0, 0, 1.0), *((SMOOTH, 1 + n, 1.0) for n in range(draws))]
        coarse = max(KINK, 2 * UNITS[self.precision.type])
        plan += [(coarse, 1 + draws, sign) for sign in (1.0, -1.0)]
        while True:
            parts = case.blocks if self._wide else []
            self.precision.truth = BLOCKS if len(parts) > 1 else FLOAT64 if parts else OWN_TYPES
            try:
                return [self._run(case, parts, index, one) for one in plan]
            except Exception:
                if not parts:
                    raise
                traceback.print_exc()
                self._wide = False

    def _run(self, case: Case, parts: Sequence[Block], index: Sequence[Any], step: Any) -> tuple[float, list[Any]]:
        each = []
        for part in parts or [Block(case.arguments)]:
            self._pause()
            value, taken = twin.asked(self.model, part.arguments, case.view, *step, wide=bool(parts))
            each.append(_taken(value, list(map(part.places, index, case.counts))))
            del value
        return taken, [one[0] and (torch.cat([few for few, _ in one]), one[0][1]) for one in zip(*each, strict=True)]


class Case:
    """Inputs, the reference's answer, and the truth, computed on demand."""

    def __init__(self, oracle: Oracle, arguments: list[Any], want: Any, view: twin.View, *, drawn: bool) -> None:
        self._oracle, self.arguments, self.view, self._drawn = oracle, arguments, view, drawn
        self.want = want
        self._leaves = [(where, _as_tensor(leaf)) for where, leaf in tensors(twin.after(want))]
        self.counts = [leaf.numel() if isinstance(leaf, torch.Tensor) else None for _, leaf in self._leaves]
        self._bases = _bases(want, len(self._leaves))
        self._thin: list[_Leaf | None] | None = None

    @functools.cached_property
    def blocks(self) -> list[Block]:
        """Parts in which the truth is computed, [] if it is too large."""
        return blocks(self._oracle.model, self.arguments, [leaf for _, leaf in self._leaves], self.view)

    def judged(self, got: Any, *, exact: bool = False, full: bool = False, strict: bool = False) -> Verdict:
        """Verdict on an answer.

        exact: measure bits even if the error's size suffices. full: with the figures. strict: reject a type coarser
        than the task's.
        """
        known = self._oracle.precision
        least = known.required if strict else known.least
        if wrong := form(twin.after(got), twin.after(self.want), any_dtype=self._oracle.any_dtype):
            return wrong
        mine = [_as_tensor(leaf) for _, leaf in tensors(twin.after(got))]
        bits, exactly, measured = math.inf, True, False
        for n, ((where, want), have) in enumerate(zip(self._leaves, mine, strict=True)):
            if not isinstance(want, torch.Tensor):
                if have != want and not (have != have and want != want):
                    return Verdict("mismatch", f"{where} is {have!r}, the reference gives {want!r}")
                continue
            if (where in known.noise and self._bases[n] is None) or not want.numel():
                continue
            if not inexact(want):
                if what := self._whole(n, have):
                    return Verdict("mismatch", f"{where}: {what}")
                continue
            exactly = False
            if what := self._strange(n, have):
                return Verdict("nan", f"{where}: {what}")
            found = math.inf
            if exact or not self._near(n, have):
                (found, what), measured = self._measured(n, have), True
                # On unusual inputs the reference itself may have fewer bits.
                if found < least and (self._drawn or found < min(least, self._own(n) - _RARE)):
                    return Verdict("mismatch", f"{where}: {what}", bits=found)
            bits = min(bits, found)
        shown: dict[str, Any] = figures(twin.after(got), twin.after(self.want)) if full else {}
        if exactly:
            return Verdict("ok", **shown)
        return Verdict(
            "ok", precision=known.named(bits), bits=max(-99.0, min(99.0, bits)) if measured else None, **shown
        )

    def noise(self) -> list[str]:
        """Outputs that rounding alone changes by as much as their size."""
        found = []
        for n, (where, leaf) in enumerate(self._leaves):
            one = self._sampled(n) if _is_float(leaf) else None
            if one is not None and one.truth.numel():
                response, size = scalars(one.smooth.square().mean(), one.truth.abs().square().mean())
                moved = math.sqrt(response) * UNITS[self._oracle.precision.type]
                if (response > 0 and moved >= _NOISE * math.sqrt(size)) or self._own(n) < BORDERS["fp8"]:
                    found.append(where)
        return found

    def bits(self, answer: Mapping[str, Any]) -> dict[str, float]:
        """Bits of thinned answers by output: inf if exact, -inf if no bit is right."""
        found = {}
        for n, (where, leaf) in enumerate(self._leaves):
            got = answer.get(where)
            if not isinstance(leaf, torch.Tensor):
                found[where] = math.inf if got == leaf else -math.inf
            elif not isinstance(got, torch.Tensor) or got.numel() != -(-leaf.numel() // step(leaf.numel())):
                found[where] = -math.inf
            elif not inexact(leaf):
                found[where] = math.inf if torch.equal(got, leaf.reshape(-1)[:: step(leaf.numel())]) else -math.inf
            else:
                one = self._sampled(n)
                found[where] = -math.inf if one is None else self._ratio(one, got, leaf.dtype)
        return found

    def own(self) -> float:
        noise = self._oracle.precision.noise
        each = [self._own(n) for n, (where, leaf) in enumerate(self._leaves) if _is_float(leaf) and where not in noise]
        return min(each, default=math.inf)

    # One output

    def _own(self, n: int) -> float:
        want, one = self._leaves[n][1], self._sampled(n)
        if one is None or not want.numel():
            return math.inf
        index = slice(None, None, step(want.numel()))
        return self._ratio(one, _flat(want, index), want.dtype)

    def _near(self, n: int, have: torch.Tensor) -> bool:
        """Whether the error is small enough without running the reference again."""
        want = self._leaves[n][1]
        if have.dtype == want.dtype and equal(have, want):
            return True
        if self._bases[n] is not None:
            return False
        room, scale, unit = 2.0 ** -(self._oracle.precision.required + _ROUGH), rms(want), 2.0 * _half_unit(have.dtype)
        found = ((error - unit * (size - scale) > room * size).any() for error, size in errors(have, want, scale))
        return not any(map(bool, found))

    def _measured(self, n: int, have: torch.Tensor) -> tuple[float, str]:
        """(bits, mismatch in words) against the truth, at a sample and at the worst elements."""
        want = self._leaves[n][1]
        sample = self._sampled(n)
        if sample is None:
            # Memory may not suffice for a further run: this is not the candidate's fault.
            self._oracle.precision.truth = ANSWER
            far = max(scalars(*((error / size).max() for error, size in errors(have, want, rms(want)))))
            return to_bits(far), self._far(n, have)
        index = slice(None, None, step(want.numel()))
        bits = self._ratio(sample, _flat(have, index), have.dtype)
        if want.numel() > sample.truth.numel():
            every = torch.arange(0, want.numel(), index.step, device=want.device)
            look = torch.cat([every, self._worst(n, have)]).sort().values
            more = self._evaluated(n, look)
            if more is not None:
                worst = scalars(self._error(more, _flat(have, look), have.dtype).max(), more.moved.max())
                bits = min(bits, to_bits(share(*worst)))
        known = self._oracle.precision
        right = f"right to {bits:.1f} bits" if bits >= _ANY else "no bit agrees"
        return bits, f"{right} where {known.type} has {known.required:.1f}: {self._far(n, have)}"

    def _far(self, n: int, have: torch.Tensor) -> str:
        """Distance of an output from the reference's, in words."""
        want = self._leaves[n][1]
        scale, room = rms(want), 2.0**-self._oracle.precision.required
        found = [scalars((error > size * room).sum(), error.max()) for error, size in errors(have, want, scale)]
        off, worst = sum(int(count) for count, _ in found), max(most for _, most in found)
        differ = f"{off} of {want.numel()} elements differ, the worst" if off else "the worst element differs"
        return f"{differ} by {worst:.3g} (rms {scale:.3g})"

    def _worst(self, n: int, have: torch.Tensor) -> torch.Tensor:
        """Indices of the elements with the largest relative error."""
        want = self._leaves[n][1]
        index = slice(None, None, step(want.numel()))
        scale = _flat(want, index).abs().nan_to_num(0.0, 0.0, 0.0).mean()
        worst, places, start = scale.new_empty(0), scale.new_empty(0, dtype=torch.long), 0
        for a, b in chunks(have, want):
            far = ((a - b).abs() / (b.abs() + scale).clamp_min(1e-38)).nan_to_num(0.0, 0.0, 0.0)
            every = torch.cat([places, torch.arange(start, start + len(b), device=b.device)])
            worst, most = torch.cat([worst, far]).topk(min(_OFFENDERS, len(every)))
            places, start = every[most], start + len(b)
        return places

    def _ratio(self, one: _Leaf, have: torch.Tensor, dtype: torch.dtype) -> float:
        error = self._error(one, have, dtype)
        found = _quantiles(error), _quantiles(error[one.small])
        return to_bits(max(map(over, found, one.expected)))

    def _error(self, one: _Leaf, have: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Error beyond rounding at the elements of a leaf, 0 if one side is not finite."""
        y = _flat(have)
        value = y - one.base
        half = _half_unit(dtype) * y.abs().nan_to_num(0.0, 0.0, 0.0).clamp_min(torch.finfo(dtype).smallest_normal)
        slack = half + one.rounded * one.truth.abs().nan_to_num(0.0, 0.0, 0.0)
        error = ((value - one.truth).abs() - slack).clamp_min(0.0)
        for size, moved in one.kinks:
            near = (value - moved).abs() <= _TIMES * one.smooth * size + slack
            error = torch.where(near & ((moved - one.truth).abs() > _TIMES * 2 * one.smooth * size), 0.0, error)
        return torch.where(value.isfinite() & one.truth.isfinite() & one.response.isfinite(), error, 0.0)

    def _sampled(self, n: int) -> _Leaf | None:
        """Truth and response at a sample of the elements; None if the reference fails."""
        if self._thin is None:
            self._thin = self._evaluate([None if n is None else slice(None, None, step(n)) for n in self.counts])
        return self._thin[n]

    def _evaluated(self, n: int, index: torch.Tensor, draws: int = 0) -> _Leaf | None:
        return self._evaluate([index if m == n else None for m in range(len(self._leaves))], draws)[n]

    def _evaluate(self, index: Sequence[Any], draws: int = 0) -> list[_Leaf | None]:
        """Truth and response of the outputs at these elements."""
        least = min((one for one in self.counts if one is not None), default=0)
        draws = draws or _DRAWS + (least < _FEW)
        try:
            runs = self._oracle.runs(self, index, draws)
        except Exception:
            traceback.print_exc()
            return [None] * len(index)
        return [self._leaf(n, runs, at) if at is not None else None for n, at in enumerate(index)]

    def _leaf(self, n: int, runs: list[tuple[float, Any]], at: Any) -> _Leaf | None:
        want = self._leaves[n][1]
        if not isinstance(want, torch.Tensor):
            return None
        values = [(size, taken[n]) for size, taken in runs]
        (_, (truth, dtype)), others = values[0], [(size, value) for size, (value, _) in values[1:]]
        if not inexact(want):
            # Integers are exact at steps below the task's own precision.
            finest = max(SMOOTH, 2 * UNITS[self._oracle.precision.type])
            return _Leaf(truth, truth, [(size, value) for size, value in others if size <= finest], truth, 0.0)
        draws = len(others) - 2
        wide = torch.complex128 if want.is_complex() else torch.float64
        truth = truth.to(wide)
        smooth = sum((value.to(wide) - truth).abs() / size for size, value in others[:draws]) / draws
        kinks = [(size, value.to(wide)) for size, value in others[draws:]]
        response = smooth
        for size, value in kinks:
            response = torch.maximum(response, (value - truth).abs() / size)
        response = torch.maximum(response, truth.abs() * _LEAST)
        base = 0.0 if self._bases[n] is None else _flat(self._bases[n], at)
        return _Leaf(truth, response, kinks, smooth, _half_unit(dtype), base)

    # What is exact

    def _whole(self, n: int, have: torch.Tensor) -> str:
        """Mismatch of integers or booleans: exact unless a perturbed run changes them."""
        want = self._leaves[n][1]
        a, b = have.reshape(-1), want.reshape(-1)
        off = (a != b).nonzero().flatten()
        if not len(off):
            return ""
        look = off[:: step(len(off), 1 << 16)]
        for draws in _MANY:
            one = self._evaluated(n, look, draws)
            if one is None:
                break
            jumps = one.truth != b[look]
            for _, value in one.kinks:
                jumps |= value != b[look]
            if int((~jumps).sum()) * _STRAY <= int(jumps.sum()):
                return ""
        return f"{len(off)} of {want.numel()} elements differ"

    def _strange(self, n: int, have: torch.Tensor) -> str:
        """Mismatch of non-finite elements, unless truth and all perturbed runs agree with it."""
        want = self._leaves[n][1]
        if not (what := strange(have, want)):
            return ""
        odd = [_class_of(a) != _class_of(b) for a, b in chunks(have, want)]
        look = torch.cat(odd).nonzero().flatten()[: 1 << 16]
        one = self._evaluated(n, look)
        if one is None:
            return what
        mine = _class_of(_flat(have, look))
        agree = [_class_of(value) == mine for value in [one.truth, *(value for _, value in one.kinks)]]
        return "" if bool(torch.stack(agree).any(0).all()) else what


def _bases(value: Any, count: int) -> list[Any]:
    if not isinstance(value, Left):
        return [None] * count
    return [leaf if isinstance(leaf, torch.Tensor) and inexact(leaf) else None for _, leaf in tensors(value.before)]


def _taken(value: Any, index: Sequence[Any]) -> list[Any]:
    """(elements, dtype) of the wanted outputs, minus the values before the call."""
    leaves = [_as_tensor(leaf) for _, leaf in tensors(twin.after(value))]
    bases = _bases(value, len(leaves))
    found: list[Any] = []
    for leaf, base, at in zip(leaves, bases, index, strict=True):
        if at is None or not isinstance(leaf, torch.Tensor):
            found.append(None)
            continue
        chosen = leaf.detach().reshape(-1)[at] if not inexact(leaf) else _flat(leaf, at)
        found.append((chosen.clone() if base is None else chosen - _flat(base, at), leaf.dtype))
    return found


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and inexact(leaf) and leaf.numel() > 0


def _as_tensor(leaf: Any) -> Any:
    return torch.tensor(leaf, dtype=torch.float32) if isinstance(leaf, float) else leaf


def _flat(tensor: torch.Tensor, at: torch.Tensor | slice = slice(None)) -> torch.Tensor:
    """Elements in float64 or complex128; at: indices into the flat tensor."""
    tensor = numbers(tensor.detach().reshape(-1)[at])
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _half_unit(dtype: torch.dtype) -> float:
    """Half an ulp of a type, relative."""
    return float(torch.finfo(dtype).eps) / 2


def _quantiles(values: torch.Tensor) -> list[float]:
    """The _QUANTILES and the maximum; [] for an empty tensor."""
    if not values.numel():
        return []
    last, values = values.numel() - 1, values.to(torch.float64)
    places = [*(math.ceil(q * last) for q in _QUANTILES), last]
    if values.is_cuda:
        found: list[float] = values.sort().values[places].tolist()
    else:  # Sorting takes seven times as long on a CPU.
        found = numpy.partition(values.numpy(), places)[places].tolist()
    return found


def _class_of(values: torch.Tensor) -> torch.Tensor:
    """0 for finite numbers, 1 for NaN, 2 and 3 for infinities."""
    real = values.real if values.is_complex() else values
    return torch.where(real.isnan(), 1, torch.where(real.isinf(), torch.where(real > 0, 2, 3), 0))
