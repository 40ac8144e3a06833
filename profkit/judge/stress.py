"""Checks on unusual inputs."""

from __future__ import annotations

from profkit.guest import facts
from profkit.guest.tensors import inputs
from profkit.guest.whole import CannotWriteError
from profkit.judge import cases
from profkit.judge.implementation import Implementation
from profkit.judge.knowing import Knowing
from profkit.judge.precision import probe
from profkit.judge.remote import LostCandidateError, RemoteError

_SPARED = 3
"""Unusual inputs that may end a candidate's process before it is timed; each restarts all."""


class Stress(Knowing):
    def _hold(self, sound: list[Implementation], wanted: tuple[str, ...]) -> list[Implementation]:
        """Check on unusual inputs; returns the candidates that are not rejected."""
        if not sound or self.reference.probe.random:
            return sound
        names = [candidate.subject.name for candidate in sound]
        self.events.phase("work", self.reference.subject.name, factor=2.0)
        for trial in self._unusual(wanted):
            for candidate in list(sound):
                if not (candidate.gone or self._bears(candidate, trial)):
                    sound = [one for one in sound if one is not candidate]
            self.events.phase("work", self.reference.subject.name, factor=2.0)
        self.events.send("properties", names=names, kinds=list(wanted))
        return sound

    def _bears(self, candidate: Implementation, trial: cases.Trial) -> bool:
        name, timed = candidate.subject.name, trial.kind in cases.FORMS
        known = self._job.spared.get(name, {})
        if trial.name in known:
            self.note(name, f"{trial.name}: {known[trial.name]}")
            return True
        self.events.phase("check", name)
        candidate.forgive(timed or (not trial.binding and len(known) < _SPARED))
        try:
            got = candidate.plain(inputs.clone(trial.arguments), 0)
            if candidate.alive == self.live.live.keys():
                self.put(candidate.alive)
                verdict = self.oracle.case(trial.arguments, trial.answer).judged(got)
            else:
                verdict = self.verdict(got, trial.arguments, candidate.alive, drawn=False)
        except CannotWriteError:
            raise
        except Exception as error:
            return self._refuses(candidate, trial, error)
        finally:
            candidate.forgive(False)
        if verdict.status == "ok":
            return True
        with self.blame(candidate.subject, "error") as failed:
            usual = self.usual(candidate, candidate.alive)
        if failed:
            return False
        if usual.status != "ok":
            what = f"right in the trials, wrong in later calls on inputs of the same kind: {usual.what}"
            self.events.send("impl", name, status="stops-computing", reason=what)
        elif trial.binding:
            self.events.send("impl", name, status=verdict.status, reason=f"{trial.name}: {verdict.what}")
        elif given := probe.gives(trial, got, self.reference.probe, self._drawn):
            what = f"gives {given}, which is right for the inputs as they are drawn alone; wrong for {trial.name}"
            self.events.send("impl", name, status="mismatch", reason=what)
        elif trial.kind in ("layout", "shape"):
            self.note(name, f"wrong for {trial.name}: {verdict.what}")
            return True
        else:
            self.fragile(name, trial.name, verdict.what)
            return True
        return False

    def _refuses(self, candidate: Implementation, trial: cases.Trial, error: Exception) -> bool:
        """Handle an exception or lost process on unusual inputs; False if it rejects the candidate."""
        name = candidate.subject.name
        if (trial.binding and trial.kind != "layout") or facts.context_lost(error):
            self._accuse(candidate.subject, error, "error")
            return False
        line = str(error).partition("\n")[0]
        there = isinstance(error, (RemoteError, LostCandidateError))
        line = line if there else f"{type(error).__name__}: {line}"
        self.note(name, f"refuses {trial.name}: {line}")
        known = self._job.spared.get(name, {})
        if candidate.gone and trial.kind not in cases.FORMS and len(known) < _SPARED:
            self._spare(name, trial.name, line)
        return True

    def _spare(self, name: str, what: str, why: str) -> None:
        """Restart all candidates, and skip these inputs for this one."""
        self._spared = True
        self.events.send("spared", name, input=what, what=why[:300])
