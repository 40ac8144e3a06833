"""The judge's view of a candidate in a process of its own: called and timed as if it were here.

Whatever the candidate's process answers is a claim. Outputs are compared here and time limits are kept here; how
it is timed is in claims.py.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from profkit.launch import protocol, waiting
from profkit.launch.process import FAMILY
from profkit.launch.protocol import LIMITS, Job, Subject
from profkit.runner import exchange, staging
from profkit.runner.channel import Channel, EndedError, OverdueError
from profkit.runner.company import Company
from profkit.runner.compare import tensors
from profkit.runner.events import Events

_QUIET = 1.0
"""Seconds between two announcements of the same phase."""
_LAST_BREATH = 10.0
_LOOK, _DRAINED = 0.1, 0.05
"""Seconds between two looks whether somebody waits for the device, and in which what was launched there ends."""
_ANSWER, _SMALL = 4, 64 << 20
"""Answers get so many times the memory of what was given, of so many bytes, or of the reference's; larger ones go by files."""


class LostCandidateError(Exception):
    """The process of candidate `impl` is gone or was told to go: the parent says how it ended."""

    def __init__(self, impl: str, what: str = "") -> None:
        super().__init__(what or f"the process of {impl} has ended")
        self.impl = impl


class RemoteError(RuntimeError):
    """The process of candidate `impl` reported an exception, or answered what is no answer. `status` is what it is
    called in the manifest, "" for that of the phase.
    """

    def __init__(self, impl: str, told: dict[str, Any]) -> None:
        super().__init__(str(told.get("reason", ""))[:500])
        self.impl = impl
        self.status = str(told.get("status", ""))
        self.tail = str(told.get("tail", ""))[-3000:]

    def report(self, subject: Subject, events: Events, status: str) -> None:
        sys.stderr.write(f"{subject.name}: {self.tail}\n")
        events.send("impl", subject.name, status=self.status or status, reason=str(self), tail=self.tail)


class Sources:
    """The files of all implementations, as far as the system tells that somebody has written into one."""

    def __init__(self, subjects: Iterable[Subject], *, new: bool = True) -> None:
        """new: whether what is no longer what it was when the run began has to be told."""
        self._files = {Path(one.file): one.sha256 for one in subjects}
        self._seen = [() if new and _is_other(file, known) else _state(file) for file, known in self._files.items()]

    def changed(self) -> list[str]:
        """Names of those that are not what they were when this was last asked."""
        before, self._seen = self._seen, [_state(file) for file in self._files]
        return [file.name for file, old, new in zip(self._files, before, self._seen, strict=True) if old != new]


def _is_other(file: Path, sha256: str) -> bool:
    try:
        return bool(sha256) and hashlib.sha256(file.read_bytes()).hexdigest() != sha256
    except OSError:
        return True


def _state(file: Path) -> tuple[int, ...]:
    """What changes with every writing, and cannot be set back; nothing for a file that is gone."""
    try:
        found = file.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_ctime_ns


class Rota:
    """Whose turn it is of the candidates' processes. When it passes on, the others and the sources are looked at: what became
    of them is told of who had it.
    """

    def __init__(self, remotes: Sequence[Remote], sources: Sources, events: Events) -> None:
        self._remotes, self._sources, self._events = remotes, sources, events
        self._last: Remote | None = None

    def pass_to(self, remote: Remote | None) -> None:
        """Before a process is asked; None: nobody has it."""
        last, self._last = self._last, remote
        if last is not None and last is not remote:
            self.look_round(last)

    def look_round(self, whose: Remote | None = None) -> None:
        """Say who was ended in this one's turn: they stand still, and can have done nothing themselves."""
        # They are loaded side by side: nobody has a turn of its own then.
        by = whose.subject.name if whose is not None and whose.phase != "build" else ""
        for other in self._remotes:
            if whose is not None and other is not whose and other.struck():
                self._events.send("struck", other.subject.name, by=whose.subject.name, phase=whose.phase)
        for file in self._sources.changed():
            self._events.send("doubt", by, **_written_into(file, by))


class Remote:
    """A candidate's process: one question at a time, each with the time limit of its phase. `turns`: changes of data that go
    along with the next one.
    """

    def __init__(self, subject: Subject, job: Job, device: torch.device, events: Events) -> None:
        self.subject = subject
        self.channel = Channel(job.channels[subject.name])
        self.device = device
        self.phase = "build"
        self._folder = Path(job.exchange) / subject.name
        self._limits = {**LIMITS, **job.limits}
        self._mark = job.marks.get(subject.name, "")
        self._events = events
        self._said = ("", 0.0)
        self._files = 0
        self.gone = False
        self.turns: list[dict[str, Any]] = []
        self.company: Company | None = None
        self.process = self._above = 0
        self.patience = 0.0
        self.forgiven = False
        self._halted: list[int] = []
        self.rota = Rota([self], Sources(()), events)
        self._struck = False
        # What goes there and what comes back, where both see memory of the device.
        self._areas = {way: staging.Area(device) for way in ("given", "answer")} if device.type == "cuda" else {}
        self._wanted, self._alone = 0, False
        self.expected = 0
        """Bytes of the device that the reference's answer takes."""

    def ask(self, question: str, **told: Any) -> dict[str, Any]:
        """The answer. Raises RemoteError for an exception there, LostCandidateError when none will come."""
        self.post(question, **told)
        return self.due()

    def post(self, question: str, **told: Any) -> None:
        """Ask, and go on; the answer is `due`. Others may time before."""
        if self.company is not None:
            self.company.step_aside()
        turns, self.turns = self.turns, []
        self.send(question, turns=turns, **told)

    def due(self) -> dict[str, Any]:
        """The answer to the question sent, within the limit of the phase."""
        self._announce()
        limit = self._limits[self.phase]
        return self.answer(max(limit, self.patience) if self.phase in ("check", "time") else limit)

    def send(self, question: str, **told: Any) -> None:
        if self.gone:
            raise LostCandidateError(self.subject.name)
        self.rota.pass_to(self)
        self._announce()
        self._halt(False)
        try:
            self.channel.send({"ask": question, **told})
        except EndedError as error:
            raise self._lost() from error

    def answer(self, limit: float) -> dict[str, Any]:
        """What comes within `limit` seconds, or later where the process is at a compiler's mercy or a busy machine's."""
        try:
            reply = self._heard(limit)
        finally:
            for area in self._areas.values():
                area.rewind()
        wanted = reply.get("wanted", 0)
        self._wanted = wanted if isinstance(wanted, int) else 0
        return reply

    def _heard(self, limit: float) -> dict[str, Any]:
        """The next message, its doubts passed on."""
        reply = self._received(limit)
        self._halt(self.phase != "build")
        doubts, failed = reply.get("doubts", []), reply.get("failed", {})
        if not (isinstance(failed, dict) and isinstance(doubts, list) and all(isinstance(d, dict) for d in doubts)):
            raise self.nonsense()
        for doubt in doubts:
            self._events.send(
                "doubt", self.subject.name, **{k: str(doubt.get(k, "")) for k in ("what", "how_much", "fix", "code")}
            )
        if "failed" in reply:
            error = RemoteError(self.subject.name, failed)
            if self.forgiven and error.status == "corrupt":
                # Nothing can run there any more, and that is as little a fault as an end of the process.
                self._lost()
            raise error
        return reply

    def _received(self, limit: float) -> dict[str, Any]:
        excuse = waiting.Excuse(self.process, limit, self._limits["build"])
        shares = self.company is not None and self.phase in ("build", "first", "check")
        while True:
            try:
                return self.channel.receive(min(excuse.left(), _LOOK) if shares else excuse.left())
            except OverdueError as error:
                if excuse.left():
                    self._let_others_time(excuse)
                    continue
                if not excuse.more():
                    raise self.overdue(limit) from error
                self._announce()
            except EndedError as error:
                raise self._lost() from error

    def _let_others_time(self, excuse: waiting.Excuse) -> None:
        """Where it waits for a compiler: it stands still, and what it started compiles on."""
        if self.company is None or not self.company.wanted or not waiting.compiling(self.process):
            return
        began = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGSTOP)
            time.sleep(_DRAINED)
            try:
                self.company.step_aside()
            finally:
                os.kill(self.process, signal.SIGCONT)
        excuse.extend(time.monotonic() - began)

    def struck(self) -> bool:
        """Whether it was ended while it stood still; once."""
        if self._halted and not (self.gone or self._struck) and waiting.dying(self.process):
            self._struck = True
            return True
        return False

    def nonsense(self) -> RemoteError:
        """What to raise when an answer is none."""
        return RemoteError(
            self.subject.name, {"reason": "its process gave an answer of another form than the question's"}
        )

    def overdue(self, limit: float) -> LostCandidateError:
        """Have the process killed and wait until it is gone, so that it disturbs nobody else."""
        if not self.forgiven:
            self._events.send("overdue", self.subject.name, phase=self.phase, limit=limit)
            self.channel.wait_for_end(_LAST_BREATH)
        return self._lost(told=True, what=f"no answer within {limit:g} s")

    def _lost(self, *, told: bool = False, what: str = "") -> LostCandidateError:
        if not (told or self.forgiven):
            self._events.send("lost", self.subject.name, phase=self.phase)
        self.gone = True
        self.channel.close()
        staging.leave(self.process, self._areas.values())
        return LostCandidateError(self.subject.name, what)

    def _announce(self) -> None:
        """Let the parent know what is going on; it gives this process more time than the candidate's limit."""
        now = time.monotonic()
        if self._said[0] != self.phase or now > self._said[1] + _QUIET:
            self._said = (self.phase, now)
            self._events.phase(self.phase, self.subject.name)

    def meet(self, process: int) -> None:
        """Take note of its process, if it is the one that was started for this candidate."""
        if self._is_mine(process):
            warden = waiting.parent_of(process)
            self.process, self._above = process, warden if self._is_mine(warden) else process

    def _is_mine(self, process: int) -> bool:
        """Whether it was started with the candidate's mark."""
        try:
            known = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        return bool(self._mark) and f"{FAMILY}={self._mark}".encode() in known

    def _halt(self, yes: bool) -> None:
        """While others have their turn the process and what it started stand still: nothing of theirs disturbs. What has
        left the process has its warden for a parent.
        """
        if not self.process or yes == bool(self._halted):
            return
        number = signal.SIGSTOP if yes else signal.SIGCONT
        family = list({self.process, *waiting.descendants(self._above)}) if yes else self._halted
        for pid in family:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        self._halted = family if yes else []

    def rest(self) -> None:
        """Stand still until it is asked again."""
        self._halt(not self.gone)

    def let_go(self) -> None:
        """Hang up; the process ends when it notices."""
        self.rota.pass_to(None)
        self._halt(False)
        if not self.gone:
            self.gone = True
            self.channel.close()
            staging.leave(self.process, self._areas.values())

    def hand_over(self, value: Any) -> str:
        """Write a value where the candidate's process reads it; the file's name."""
        file = self.fresh_file()
        area = None
        if self._areas:
            staging.give_back(staging.free)
            # What the last answer found no room for, or what the next one will take.
            wanted, self._wanted = max(self._wanted, self.expected), 0
            if wanted <= _ANSWER * max(self._areas["given"].size, _SMALL, self.expected):
                self._roomy("answer", wanted)
            area = self._roomy("given", staging.size(value, self.device))
        exchange.write(value, file, area)
        return file.name

    def _roomy(self, way: str, wanted: int) -> staging.Area | None:
        """The area with room for so many bytes, None where there is none: files hold them then."""
        area = self._areas[way]
        if wanted > area.left and not self._alone:
            self._widen(way, wanted)
        return area if 0 < wanted <= area.left else None

    def _widen(self, way: str, wanted: int) -> None:
        """Share more memory with its process; never again where that cannot be done."""
        area = self._areas[way]
        try:
            bytes_ = area.larger(wanted, torch.cuda.mem_get_info(self.device)[0])
            memory, handle = staging.allocate(bytes_, self.device) if bytes_ else (None, b"")
        except RuntimeError:
            self._alone = True
            return
        if memory is None:
            return
        # No answer to a question: what lies in the areas is still to be read.
        self.send("share", way=way, handle=handle.hex(), size=bytes_)
        try:
            self._alone = self._heard(self._limits[self.phase]).get("shared") is not True
        except RemoteError:
            self._alone = True
        if not self._alone:
            area.add(memory)

    def fresh_file(self) -> Path:
        self._files += 1
        return self._folder / f"{self._files}.pt"

    def output(self, file: Path) -> Any:
        """What the candidate wrote. Raises RemoteError when it is nothing that can be read as data."""
        try:
            told = exchange.read(file, torch.device("cpu"), trusted=False, area=self._areas.get("answer"))
            return exchange.restore(told, self.device)
        except Exception as error:
            what = str(error).partition("\n")[0][:300]
            reason = f"its output cannot be read as tensors: {what}"
            raise RemoteError(self.subject.name, {"reason": reason}) from error


def _written_into(file: str, by: str) -> dict[str, str]:
    turn, loading = (
        f"somebody wrote into {file} while {by} had its turn",
        f"somebody wrote into {file} while all were loaded",
    )
    return {
        "what": turn if by else loading,
        "how_much": "what runs is what was in it when the run began",
        "fix": "see who it was: the candidate, or you in an editor",
        "code": "written-into",
    }


class RemoteModel:
    """A candidate's model, called as if it were in this process: inputs go over, outputs come back.

    The generators there get the seed that this process's were last given. What the call changes in its inputs
    is changed in these as well.
    """

    kinds: Collection[str] = ()
    """What the reference's outputs are made of (lazy.kinds)."""
    tolerances: Mapping[str, float] = {}
    """rtol by output, where this problem has another than the usual one."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self._called = False

    def take(self, values: Mapping[str, torch.Tensor], *, every: bool = False) -> None:
        """Put these values into the weights there, as Guest.take says."""
        self.remote.phase = "check"
        self.remote.ask("take", given=self.remote.hand_over(dict(values)), every=every)

    def rebuild(self, told: Mapping[str, Any], seed: int) -> None:
        """Have it constructed once more, as Guest.rebuild says."""
        self.remote.phase = "first"
        self._called = False
        self.remote.ask("rebuild", given=self.remote.hand_over(dict(told)), seed=seed)

    def restore(self) -> None:
        """Have it go on with what there was before `rebuild`."""
        self._called = False
        self.remote.ask("restore")

    def shift(self, names: Sequence[str], still: Sequence[str] = ()) -> list[str]:
        """Change its weights in place: see weights.shift_counterparts."""
        self.remote.phase = "check"
        missing = self.remote.ask("shift", names=list(names), still=list(still)).get("missing")
        if not (isinstance(missing, list) and all(name in names for name in missing)):
            raise self.remote.nonsense()
        return missing

    def keep(self, values: Mapping[str, torch.Tensor]) -> None:
        """Have it begin every call that is compared with these values of what the reference keeps."""
        self.remote.phase = "check"
        self.remote.ask("keep", given=self.remote.hand_over(dict(values)))

    def left(self, arguments: list[Any], seed: int, values: Mapping[str, torch.Tensor]) -> Any:
        """What it has under these names after a call that began with these values."""
        self.remote.phase = "check"
        answer = self.remote.fresh_file()
        told = self.remote.hand_over([arguments, dict(values)])
        self.remote.ask("left", given=told, output=answer.name, seed=seed)
        return self.remote.output(answer)

    def plain(self, arguments: list[Any], seed: int) -> Any:
        """The answer of one call, made as anybody would."""
        self.remote.phase = "check"
        self._make_room()
        answer = self.remote.fresh_file()
        self.remote.ask("plain", given=self.remote.hand_over(arguments), output=answer.name, seed=seed)
        return self.remote.output(answer)

    def _make_room(self) -> None:
        """What the judge has let go of is the candidate's."""
        if self.remote.device.type == "cuda":
            torch.cuda.empty_cache()

    def parameters(self) -> dict[str, list[int]]:
        """The shapes of its floating parameters by name, as its process says."""
        self.remote.phase = "check"
        told = self.remote.ask("parameters").get("shapes")
        if not isinstance(told, dict):
            raise self.remote.nonsense()
        return told

    def gradients(self, given: list[Any], wanted: Sequence[str]) -> Any:
        """What backward.Gradients gives there."""
        self.remote.phase = "first"
        answer = self.remote.fresh_file()
        self.remote.ask("gradients", given=self.remote.hand_over(given), output=answer.name, wanted=list(wanted))
        return self.remote.output(answer)

    def __call__(self, *arguments: Any) -> Any:
        self.remote.phase = "check" if self._called else "first"
        self._make_room()
        told, answer = self.remote.hand_over(list(arguments)), self.remote.fresh_file()
        clock = self.remote.company.clock if self.remote.company is not None else time.monotonic
        began = clock()
        reply = self.remote.ask(
            "call",
            given=told,
            output=answer.name,
            seed=torch.initial_seed(),
            kinds=sorted(self.kinds),
            tolerances=dict(self.tolerances),
        )
        if not self._called:
            # The first question is two calls, or more; what comes may be as slow and be nothing bad.
            self._called, self.remote.patience = True, protocol.PATIENT * (clock() - began)
        output = self.remote.output(answer)
        if reply.get("changed"):
            self._change(arguments, self.remote.output(answer.with_name(str(reply["changed"]))))
        return output

    def _change(self, arguments: Sequence[Any], changed: Any) -> None:
        pairs = zip(tensors(list(arguments)), tensors(changed), strict=False)
        for (_, mine), (_, theirs) in pairs:
            if isinstance(mine, torch.Tensor) and isinstance(theirs, torch.Tensor) and mine.shape == theirs.shape:
                mine.copy_(theirs)


__all__ = ["LostCandidateError", "Remote", "RemoteError", "RemoteModel"]
