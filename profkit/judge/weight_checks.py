"""Checks of a candidate's weights: redrawn constants, and other values after timing."""

from __future__ import annotations

import itertools
import time
import traceback
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from profkit.errors import ProfkitError
from profkit.guest import settings
from profkit.guest.implementation import Implementation
from profkit.guest.tensors import inputs, weights
from profkit.guest.tensors.compare import Verdict, close, coded, tensors
from profkit.judge import guests as judge
from profkit.judge import implementation
from profkit.judge.events import Events
from profkit.judge.precision import memory_stress
from profkit.judge.remote import LostCandidateError

if TYPE_CHECKING:
    from profkit.judge.session import Session

_MOST_ASKED = 32
"""Weights to test one by one for being ignored."""
_MOST_NAMED = 4
_SIZES = (2.0, 3.0)
"""Factors of all weights."""
_PATIENCE, _MOST_REMEMBERING = 4.0, 32
"""Seconds of the reference, and weights with a longer memory, to try."""
_TELLS = 9.0
"""Bits of agreement below which answers count as different."""


NOTE, CONDITION, MISMATCH = "note", "condition", "mismatch"
"""What a wrong answer with other weights is."""
Others = tuple[str, str, dict[str, torch.Tensor]]
"""Weights unlike the constructed ones: (what they are like, what a wrong answer is, values)."""


class WeightChecks:
    """Weight checks of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._events = session.events

    def give(self, candidate: Implementation) -> None:
        """Give the candidate the drawn weights where it has counterparts."""
        live = self._session.live
        candidate.alive = frozenset(live.live)
        if candidate.alive:
            candidate.take(live.live)

    def _by_layer(self, names: Collection[str]) -> str:
        return weights.by_layer(self._session.reference.model, names)

    def explained(self, candidate: Implementation, verdict: Verdict) -> Verdict | None:
        """Compare again what folds or names its weights in its own way; else say which weights it ignores."""
        session, match, every = self._session, candidate.match, candidate.alive
        if not weights.changeable(session.reference.model, session.live.live):
            return verdict
        self._events.phase("check", candidate.subject.name, factor=2.0)
        if self.born(candidate):
            return session.compared(candidate)
        unknown = every if match.ordered else every.intersection(match.missing).difference(match.bare)
        if unknown and self._right(candidate, every - unknown):
            why = f"no counterpart for {self._by_layer(sorted(unknown))}"
            told = "several of one form were told apart by their order alone"
            unmatched(self._events, candidate, told if match.ordered else why)
            candidate.alive = every - unknown
            return session.compared(candidate)
        if not self._right(candidate, frozenset()):
            return verdict
        asked = sorted(every - unknown)[:_MOST_ASKED]
        ignored = [one for one in asked if not self._right(candidate, frozenset({one}))]
        if not ignored:
            return verdict
        return Verdict("mismatch", f"ignores {self._by_layer(ignored)}: right only for the initial values")

    def _right(self, candidate: Implementation, alive: frozenset[str]) -> bool:
        """Whether one call is right with these weights drawn and the others as constructed."""
        candidate.take(self._session.live.mixed(alive))
        arguments, seed = self._session.unseen(), judge.draw(1)[0]
        got = candidate.plain(inputs.clone(arguments), seed)
        return self._session.verdict(got, arguments, alive, seed).status == "ok"

    def born(self, candidate: Implementation) -> bool:
        """Whether it is right when its constructor sees the drawn weights; else it is restored.

        With the reference's weights put into it, or as its constructor makes them at the reference's seed.
        """
        for loaded in (True, False):
            self._events.phase("build", candidate.subject.name)
            try:
                self._rebuild(candidate, loaded=loaded)
                if self._right(candidate, candidate.alive):
                    return True
            except LostCandidateError:
                raise
            except Exception:
                # It cannot be built that way; the earlier result stands.
                traceback.print_exc()
        candidate.restore()
        return False

    def _rebuild(self, candidate: Implementation, *, loaded: bool) -> None:
        session, live = self._session, self._session.live
        session.put(frozenset(live.live))
        spec = implementation.spec(session.reference, session.built_with, live, loaded=loaded)
        with settings.kept(candidate.subject.name, self._events):
            candidate.rebuild(spec, session.built_with, session.device)

    def follow(self, sound: list[Implementation]) -> list[Implementation]:
        """Check an in-place update, then other weights; returns the candidates that are still right."""
        session, reference = self._session, self._session.reference
        names = weights.changeable(reference.model, session.live.live)
        every = [*names, *sorted(reference.drawn.difference(names))]
        if not every or self._session.probe.random or weights.too_many(reference.model):
            return sound
        others: list[Others] = []
        try:
            others.extend(self._found(names, every) if sound else ())
        except Exception as error:
            session.refuse_lost(error)
            traceback.print_exc()
        left: list[Implementation] = []
        for candidate in sound:
            with session.blame(candidate.subject, "error") as failed:
                wrong = self._wrong_with(others, candidate, every)
            if failed or wrong:
                session.forget([candidate])
            elif self._as_before(candidate, every):
                left.append(candidate)
        return left

    def _wrong_with(self, others: list[Others], candidate: Implementation, every: list[str]) -> bool:
        """Whether a candidate that follows in-place updates is wrong with weights unlike the constructed ones."""
        session, name = self._session, candidate.subject.name
        missing = [one for one in candidate.match.unnamed if one in every]
        for like, wrong, values in others:
            held = {w: value for w, value in session.reference.model.state_dict().items() if w in every}
            verdict = self._verdict_with(candidate, {**held, **values}, values, wrong)
            if wrong == NOTE:
                if verdict.status == "error":
                    session.note(name, f"weights: an in-place update is refused: {verdict.what[:200]}")
                elif verdict.status != "ok" and missing:
                    session.note(name, f"weights: no counterpart of {', '.join(missing[:_MOST_NAMED])} to update")
                elif verdict.status != "ok":
                    session.note(name, "weights are folded at build: in-place updates are not followed")
                if verdict.status != "ok" or missing or candidate.alive != session.live.live.keys():
                    return False
            elif verdict.status != "ok":
                where = f"{like} ({self._by_layer(values)})"
                candidate.take(held)
                if session.usual(candidate, session.live.live.keys()).status != "ok":
                    session.note(name, "weights are folded at the first update")
                    return False
                if wrong == MISMATCH:
                    what = f"right for weights as they are constructed, wrong where {where}: {verdict.what}"
                    self._events.send("impl", name, status="mismatch", reason=what)
                    return True
                session.fragile(name, f"weights where {where}", verdict.what)
        return False

    def _verdict_with(
        self,
        candidate: Implementation,
        given: Mapping[str, torch.Tensor],
        values: Mapping[str, torch.Tensor],
        wrong: str,
    ) -> Verdict:
        """The verdict with these weights; an exception is one too, unless a wrong answer rejects."""
        session = self._session
        self._events.phase("check", candidate.subject.name)
        candidate.forgive(wrong == CONDITION)
        try:
            candidate.take(given)
            arguments = session.unseen()
            got = candidate.plain(inputs.clone(arguments), 0)
            with session.weights_as(values):
                want = session.ask_reference(inputs.clone(arguments))
                return session.oracle.case(arguments, want).judged(got)
        except (LostCandidateError, ProfkitError):
            raise
        except Exception as error:
            if wrong == MISMATCH:
                raise
            return Verdict("error", str(error).partition("\n")[0])
        finally:
            candidate.forgive(False)

    def _as_before(self, candidate: Implementation, names: list[str]) -> bool:
        """Restore the weights as timed; whether the candidate is right with them."""
        session = self._session
        candidate.forgive(True)
        try:
            session.put(candidate.alive)
            held = session.reference.model.state_dict()
            candidate.take({name: held[name] for name in names})
            return session.usual(candidate, candidate.alive).status == "ok"
        except ProfkitError:
            raise
        except Exception as error:
            session.refuse_lost(error)
            return False
        finally:
            candidate.forgive(False)

    def _found(self, names: list[str], every: list[str]) -> Iterator[Others]:
        """Weights unlike the constructed ones that change the answer; none where an update does not."""
        session, model = self._session, self._session.reference.model
        self._events.phase("work", session.reference.subject.name, factor=2.0)
        session.put(frozenset(session.live.live))
        held = {name: one.clone() for name, one in model.state_dict().items() if name in names and not coded(one)}
        arguments = session.unseen()
        before = session.ask_reference(inputs.clone(arguments))
        trained = {name: held[name] for name, _ in model.named_parameters(remove_duplicate=False) if name in held}
        seed = judge.draw(1)[0]
        tried = [("updated in place", NOTE, weights.moved(model, every))]
        # With some signs the answer may be rounding noise.
        for signs in (True, False):
            other = weights.unlike(model, trained, seed, signs=signs)
            tried.append(("they have other signs and sizes", MISMATCH, other))
        # Iterations may diverge with these.
        for times in _SIZES:
            larger = {name: value * times for name, value in trained.items()}
            tried.append((f"they are {times:g} times as large", CONDITION, larger))
        if (length := _longest(arguments)) >= memory_stress.LONG:
            more = itertools.islice(memory_stress.remembering(model, held, length), _MOST_REMEMBERING)
            tried += [("they have it remember longer", MISMATCH, values) for values in more]
        end = time.thread_time() + _PATIENCE
        for like, wrong, values in tried:
            answer = self._with(arguments, values) if values and time.thread_time() < end else None
            if answer is not None and weights.steady(before, answer) and not close(answer, before, _TELLS):
                yield like, wrong, values
            elif wrong == NOTE:
                return

    def _with(self, arguments: list[Any], values: Mapping[str, torch.Tensor]) -> Any:
        """The reference's answer with these weights; None where it fails."""
        self._events.phase("work", self._session.reference.subject.name, factor=2.0)
        try:
            with self._session.weights_as(values):
                return self._session.ask_reference(inputs.clone(arguments))
        except Exception as error:
            self._session.refuse_lost(error)
            return None


def unmatched(events: Events, candidate: Implementation, why: str) -> None:
    """Send a caveat: some weights were compared as constructed."""
    name = candidate.subject.name
    events.send(
        "caveat",
        name,
        what=f"weights: {name} was compared with some as they are constructed",
        how_much=f"{why}: whether it uses them is not known",
        fix="name parameters and buffers as the reference does",
        code="weights-unmatched",
    )


def _longest(arguments: list[Any]) -> int:
    return max(
        (max(leaf.shape, default=0) for _, leaf in tensors(arguments) if isinstance(leaf, torch.Tensor)), default=0
    )
