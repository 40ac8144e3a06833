"""Correctness trials: unseen inputs, the candidate's answer first, then the reference's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from profkit.guest.tensors import inputs
from profkit.guest.tensors.compare import Left, Verdict, close, figures, form, same, tensors
from profkit.judge.precision.oracle import Oracle
from profkit.judge.precision.probe import Probe

_LOOSE = 6.0
"""Bits of agreement at the same seed, for references that draw random numbers."""


class Trials:
    """Calls of candidate and reference, generators at the trial's seed."""

    def __init__(
        self, candidate: Callable[[list[Any]], Any], reference: Callable[[list[Any]], Any], oracle: Oracle, probe: Probe
    ) -> None:
        self._candidate, self._reference, self._oracle, self._probe = candidate, reference, oracle, probe
        self._last: Any = None

    def on(self, arguments: list[Any], seed: int, *, exact: bool = False, drawn: bool = True) -> Verdict:
        """Compare on these arguments, which are used up. exact: measure the bits."""
        mine = inputs.clone(arguments)
        inputs.seed_all(seed)
        got = self._candidate(mine)
        if not self._probe.mutates and not same(mine, arguments):
            return Verdict("mutates-inputs", f"changes its inputs: {_changes(mine, arguments)}")
        inputs.seed_all(seed)
        given = inputs.clone(arguments) if self._probe.mutates else arguments
        want = self._reference(arguments)
        if self._probe.random:
            return self._loosely(got, want)
        verdict = self._oracle.case(given, want, drawn=drawn).judged(got, exact=exact, full=True)
        if verdict.status == "mismatch" and self._last is not None and close(got, self._last, _LOOSE):
            verdict = replace(verdict, what=f"stale: gave the answer to the inputs of the trial before: {verdict.what}")
        self._last = inputs.clone(want)
        if verdict.status == "ok" and self._probe.mutates:
            added = self._oracle.case(given, Left(given, arguments), left).judged(Left(given, mine), strict=True)
            if added.status != "ok":
                what = added.what.replace("output", "input", 1)
                return Verdict("mismatch", f"leaves other values in its inputs than the reference does: {what}")
        return verdict

    def _loosely(self, got: Any, want: Any) -> Verdict:
        if wrong := form(got, want, any_dtype=self._oracle.any_dtype):
            return wrong
        shown: dict[str, Any] = figures(got, want)
        if close(got, want, _LOOSE):
            return Verdict("ok", **shown)
        return Verdict(
            "mismatch", f"output differs from the reference's from the same seed, the worst by {shown['max_abs']:.3g}"
        )


def left(model: Any, arguments: list[Any]) -> Left:
    """The view of what a call leaves in its inputs."""
    before = inputs.clone(arguments)
    model(*arguments)
    return Left(before, arguments)


def _changes(mine: Any, given: Any) -> str:
    """How many elements of which inputs were mutated."""
    found = []
    for (where, now), (_, before) in zip(tensors(mine, "input"), tensors(given, "input"), strict=True):
        if not same(now, before):
            count = int((now != before).sum()) if now.shape == before.shape else before.numel()
            found.append(f"{count} of {before.numel()} elements of {where}")
    return ", ".join(found)
