"""The correctness trials of one candidate: inputs it has not seen, its answer first, then the reference's.

When the candidate is called, the reference's answer to these inputs exists nowhere it could be read from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from profkit.runner import inputs, jumps
from profkit.runner.check import Verdict, compare, tensors
from profkit.runner.prober import Probe, same


class Trials:
    """`candidate` and `reference` are called with lists of arguments, generators at the trial's seed."""

    def __init__(
        self, candidate: Callable[[list[Any]], Any], reference: Callable[[list[Any]], Any], probe: Probe
    ) -> None:
        self._candidate = candidate
        self._reference = reference
        self._probe = probe
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
            return Verdict("caches-results", "gave the answer to the inputs of the trial before")
        self._last = inputs.clone(want)
        left = None if self._probe.random else self._left
        if (
            verdict.status == "ok"
            and self._probe.mutates
            and jumps.judged(mine, arguments, given, left, {}).status != "ok"
        ):
            return Verdict("mismatch", "leaves other values in its inputs than the reference does")
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


def _changes(mine: Any, given: Any) -> str:
    """How many elements of which inputs were changed."""
    found = []
    for (where, now), (_, before) in zip(tensors(mine, "input"), tensors(given, "input"), strict=True):
        if not same(now, before):
            count = int((now != before).sum()) if now.shape == before.shape else before.numel()
            found.append(f"{count} of {before.numel()} elements of {where}")
    return ", ".join(found)
