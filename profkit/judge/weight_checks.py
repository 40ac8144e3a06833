"""Checks of a candidate's weights: redrawn constants, and other values after timing."""

from __future__ import annotations

import itertools
import time
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from profkit.guest.tensors import weights
from profkit.guest.tensors.compare import Verdict, close, coded, leaves
from profkit.judge import guests as judge
from profkit.judge.cases import Trial
from profkit.judge.precision import memory_stress
from profkit.judge.remote import LostCandidateError, Remote
from profkit.judge.timed import Timed
from profkit.launch.protocol import Events, Job

UPDATED = "updated"
"""Kind of the trial after an in-place update; candidates that ignore it get no other weights."""
_MOST_ASKED = 32
"""Weights tested one by one for being ignored."""
_SIZES = (2.0, 3.0)
"""Factors applied to all weights."""
_PATIENCE, _MOST_REMEMBERING = 4.0, 32
"""Seconds of reference calls, and number of long-memory weights, to try."""
_TELLS = 9.0
"""Bits of agreement below which answers count as different."""


class WeightChecks(Timed):
    def __init__(self, job: Job, events: Events) -> None:
        super().__init__(job, events)
        self._held: dict[str, torch.Tensor] = {}
        """Weights as timed, saved while others are tried."""
        self._folded: set[str] = set()
        """Candidates that ignore an in-place update."""

    def _give(self, candidate: Remote) -> None:
        """Set the drawn weights in the candidate's counterparts."""
        candidate.alive = frozenset(self.live.live)
        if candidate.alive:
            candidate.do("take", self.live.live)

    def _explained(self, candidate: Remote, verdict: Verdict) -> Verdict | None:
        """Verdict on the weights it ignores; None: compare again, as it folds or renames them."""
        match, every, model = candidate.match, candidate.alive, self.reference.model
        if not weights.changeable(model, self.live.live):
            return verdict
        self.events.phase("check", candidate.subject.name, factor=2.0)
        if self._born(candidate):
            return None
        unknown = every if match.ordered else every.intersection(match.missing)
        if unknown and self._right(candidate, every - unknown):
            why = f"no counterpart for {weights.by_layer(model, sorted(unknown))}"
            told = "several of one form were told apart by their order alone"
            self.unmatched(candidate, told if match.ordered else why)
            candidate.alive = every - unknown
            return None
        if not self._right(candidate, frozenset()):
            return verdict
        asked = sorted(every - unknown)[:_MOST_ASKED]
        ignored = [one for one in asked if not self._right(candidate, frozenset({one}))]
        if not ignored:
            return verdict
        return Verdict("mismatch", f"ignores {weights.by_layer(model, ignored)}: right only for the initial values")

    def _right(self, candidate: Remote, alive: frozenset[str]) -> bool:
        """Whether one call is correct with these weights drawn, the others as constructed."""
        candidate.do("take", self.live.mixed(alive))
        arguments, seed = self.unseen(), judge.draw(1)[0]
        got, _ = candidate.plain(arguments, seed)
        return self.verdict(got, arguments, alive, seed).status == "ok"

    def _born(self, candidate: Remote) -> bool:
        """Whether it is correct if its constructor sees the drawn weights; else restore it.

        Once with the reference's weights loaded, once as its constructor makes them at the reference's seed.
        """
        for loaded in (True, False):
            self.events.phase("build", candidate.subject.name)
            try:
                self.put(frozenset(self.live.live))
                spec = judge.spec(self.reference, self.built_with, self.live, loaded=loaded)
                candidate.do("rebuild", spec, self.built_with, phase="first")
                if self._right(candidate, candidate.alive):
                    return True
            except LostCandidateError:
                raise
            except Exception:
                # It cannot be built that way; the earlier result stands.
                traceback.print_exc()
        candidate.do("restore")
        return False

    def _weight_trials(self) -> Iterator[Trial]:
        """An in-place update, then other weights; nothing if an update has no effect."""
        model = self.reference.model
        names = weights.changeable(model, self.live.live)
        if not names or weights.too_many(model):
            return
        self.put(frozenset(self.live.live))
        self._held = {name: one.clone() for name, one in model.state_dict().items() if name in names}
        held = {name: one for name, one in self._held.items() if not coded(one)}
        arguments = self.unseen()
        before = self.ask_reference(arguments)
        trained = {name: held[name] for name, _ in model.named_parameters(remove_duplicate=False) if name in held}
        longest, spent = max((size for leaf in leaves(arguments) for size in leaf.shape), default=0), 0.0
        missed: list[str] = []
        for like, kind, values in self._others(trained, held, longest):
            began, late = time.thread_time(), bool(values) and spent >= _PATIENCE
            missed += [f"weights where {like}"] * late
            answer = self._with(arguments, values) if values and not late else None
            spent += time.thread_time() - began
            if answer is not None and weights.steady(before, answer) and not close(answer, before, _TELLS):
                name = f"weights where {like} ({weights.by_layer(model, values)})"
                yield Trial(name, kind, arguments, answer, kind == "weights", values)
            elif kind == UPDATED:
                return
        self.no_time(missed, _PATIENCE)

    def _others(
        self, trained: dict[str, torch.Tensor], held: Mapping[str, torch.Tensor], length: int
    ) -> Iterator[tuple[str, str, dict[str, torch.Tensor]]]:
        """(description, kind, values) of other weights; kind "weights": a wrong answer rejects."""
        model, seed = self.reference.model, judge.draw(1)[0]
        yield "they are updated in place", UPDATED, weights.moved(model, held)
        # With some signs the answer may be rounding noise.
        for signs in (True, False):
            yield "they have other signs and sizes", "weights", weights.unlike(model, trained, seed, signs=signs)
        # Iterations may diverge with these.
        for times in _SIZES:
            yield f"they are {times:g} times as large", "sizes", {name: one * times for name, one in trained.items()}
        if length >= memory_stress.LONG:
            for values in itertools.islice(memory_stress.remembering(model, held, length), _MOST_REMEMBERING):
                yield "they have it remember longer", "weights", values

    def _with(self, arguments: list[Any], values: Mapping[str, torch.Tensor]) -> Any:
        """The reference's answer with these weights; None if it fails."""
        self.events.phase("work", self.reference.subject.name, factor=2.0)
        try:
            with self.weights_as(values):
                return self.ask_reference(arguments)
        except Exception as error:
            self.refuse_lost(error)
            return None

    def _updated(self, candidate: Remote, wrong: bool) -> None:
        """Record the result of an in-place update; if part of it was missed, skip other weights."""
        name, missing = candidate.subject.name, [one for one in candidate.match.unnamed if one in self._held]
        if wrong and missing:
            self.note(name, f"weights: no counterpart of {', '.join(missing[: weights.MOST_NAMED])} to update")
        elif wrong:
            self.note(name, "weights are folded at build: in-place updates are not followed")
        if wrong or missing or candidate.alive != self.live.live.keys():
            self._folded.add(name)
