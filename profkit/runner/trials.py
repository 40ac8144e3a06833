"""The correctness trials of one candidate: inputs it has not seen, its answer first, then the reference's.

When the candidate is called, the reference's answer to these inputs exists nowhere it could be read from.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import torch

from profkit.runner import inputs, jumps
from profkit.runner.check import Verdict, compare, identical, rtol_of, tensors
from profkit.runner.lowered import thin
from profkit.runner.prober import WIDER, WIDEST, Probe, distances, same


class Trials:
    """`candidate` and `reference` are called with lists of arguments, generators at the trial's seed. exact: what the reference
    leaves of its inputs in float64.
    """

    def __init__(
        self,
        candidate: Callable[[list[Any]], Any],
        reference: Callable[[list[Any]], Any],
        probe: Probe,
        exact: Callable[[list[Any]], list[Any]] | None = None,
    ) -> None:
        self._candidate = candidate
        self._reference = reference
        self._probe = probe
        self._exact = exact
        self._last: Any = None

    def on(self, arguments: list[Any], seed: int) -> Verdict:
        """Compare the two on these arguments, which are used up."""
        mine = inputs.clone(arguments)
        inputs.seed_all(seed)
        got = self._candidate(mine)
        if not self._probe.mutates and not same(mine, arguments):
            return Verdict("mutates-inputs", f"changes its inputs: {_changes(mine, arguments)}")
        inputs.seed_all(seed)
        given = inputs.clone(arguments) if self._probe.mutates else arguments
        want = self._reference(arguments)
        ask = None if self._probe.random else self._reference
        verdict = jumps.judged(got, want, given, ask, self._probe.tolerances, figures=True)
        if verdict.status != "ok" and self._is_old(got, want):
            return Verdict("mismatch", "gave the answer to the inputs of the trial before")
        self._last = inputs.clone(want)
        if verdict.status == "ok" and self._probe.mutates:
            left = None if self._probe.random else self._left
            if jumps.judged(mine, arguments, given, left, {}).status != "ok":
                return Verdict("mismatch", "leaves other values in its inputs than the reference does")
            if self._exact is not None and not self._probe.random:
                exact = functools.partial(self._exact, inputs.clone(given))
                if off := added(mine, arguments, given, exact, self._probe.tolerances):
                    return Verdict("mismatch", off)
        return verdict

    def _left(self, arguments: list[Any]) -> list[Any]:
        """What the reference leaves of these."""
        self._reference(arguments)
        return arguments

    def _is_old(self, got: Any, want: Any) -> bool:
        """Whether this is the answer to the last trial, and another one than is wanted."""
        own = self._probe.tolerances
        if self._last is None or compare(self._last, want, own).status == "ok":
            return False
        return compare(got, self._last, own).status == "ok"


def added(
    mine: Any, after: Any, given: Any, exact: Callable[[], Any], tolerances: Mapping[str, float], what: str = "input"
) -> str:
    """Where what a call adds to its inputs, or to what it keeps, is another: it may be little beside them, as a step of an optimiser
    or of a running mean is, and is all of the work. mine, after: what the candidate and the reference leave; given: what was there;
    exact: what the reference leaves in float64, asked for whoever is off.
    """
    if not _far(mine, after, given, {}, what=what):
        return ""
    if (wide := _told(exact)) is None:
        return ""
    least, own = _least(tolerances), _far(wide, after, given, {}, most=0.0, what=what)
    far = _far(mine, after, given, {where: max(least, off * WIDER) for where, off in own.items()}, what=what)
    return "; ".join(f"adds something else to {where}: off by {off:.2g} of what is added" for where, off in far.items())


def left(
    mine: Mapping[str, Any],
    after: Mapping[str, Any],
    given: Mapping[str, Any],
    exact: Callable[[], Any] | None,
    tolerances: Mapping[str, float],
) -> str:
    """Which of the values that a call keeps for the next, by name, are others than the reference leaves, or what is added to
    them is; see `added`. exact: None for a reference that draws random numbers, of which the values alone are compared.
    """
    once = functools.cache(exact) if exact is not None else None

    def others(room: Mapping[str, float]) -> list[str]:
        own = {name: {"output": room[name]} if name in room else {} for name in after}
        return [name for name in after if compare(mine[name], after[name], own[name]).status != "ok"]

    if (off := others({})) and once is not None:
        # As where products are rounded on their way, which shows in a mean as it does in the answer.
        least, far = _least(tolerances), distances(_told(once), after)
        held = {name: max(least, rtol_of(one.dtype)) for name, one in after.items() if one.is_floating_point()}
        off = others({name: min(WIDEST, max(room, WIDER * far.get(name, 0.0))) for name, room in held.items()})
    if off:
        return f"leaves other values in {off[0]} than the reference does"
    return added(mine, after, given, once, tolerances, "state") if once is not None else ""


def _told(exact: Callable[[], Any]) -> Any:
    """What the reference leaves in float64; None where it fails."""
    try:
        return exact()
    except Exception:
        traceback.print_exc()
        return None


def _least(tolerances: Mapping[str, float]) -> float:
    """The rtol that holds for whatever a call leaves: the widest that an answer is held to."""
    return max((rtol for rtol in tolerances.values() if rtol < WIDEST), default=0.0)


_ULPS = 2.0
_MOST = 0.01
"""Share of the elements that may be off, for what is rounded to levels on its way."""


def _far(
    mine: Any, after: Any, given: Any, room: Mapping[str, float], most: float = _MOST, what: str = "input"
) -> dict[str, float]:
    """By input, or `what` it is, how far what was added to it is off, in units of what the reference adds and the rms of that, where more
    elements are than may be. room: the rtol of some; most: the share of elements.
    """
    found = {}
    triples = zip(tensors(mine, what), tensors(after, what), tensors(given, what), strict=True)
    for (where, got), (_, want), (_, old) in triples:
        if not isinstance(want, torch.Tensor) or not want.is_floating_point() or identical(want, old):
            continue
        # Of caches of gigabytes some elements do.
        a, b, c = (thin(one).to(torch.float64) for one in (got, want, old))
        added = (b - c).nan_to_num(0.0, 0.0, 0.0)
        if not bool(added.any()):
            continue
        size = added.abs() + added.square().sum().div((added != 0).sum().clamp_min(1)).sqrt()
        rounding = _ULPS * torch.finfo(want.dtype).eps * (b.abs() + c.abs())
        off = ((a - b).nan_to_num(0.0, 0.0, 0.0).abs() - rounding).clamp_min(0.0) / size.clamp_min(1e-300)
        if float((off > max(room.get(where, 0.0), rtol_of(want.dtype))).to(torch.float64).mean()) > most or not most:
            found[where] = float(off.max())
    return found


def _changes(mine: Any, given: Any) -> str:
    """How many elements of which inputs were changed."""
    found = []
    for (where, now), (_, before) in zip(tensors(mine, "input"), tensors(given, "input"), strict=True):
        if not same(now, before):
            count = int((now != before).sum()) if now.shape == before.shape else before.numel()
            found.append(f"{count} of {before.numel()} elements of {where}")
    return ", ".join(found)
