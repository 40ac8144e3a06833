"""A candidate's process as the judge sees it: one request at a time, each with a limit.

Answers are claims. Outputs are compared and time limits kept here; timing is in claims.py.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import torch

from profkit.guest import facts
from profkit.guest.channel import Channel, EndedError, OverdueError
from profkit.guest.tensors import exchange, inputs, weights
from profkit.guest.tensors.compare import tensors
from profkit.judge.timing.company import Company
from profkit.launch import waiting
from profkit.launch.process import running
from profkit.launch.protocol import LIMITS, PATIENT, Events, Job, Subject

_QUIET = 1.0
"""Seconds before the same phase is announced again."""
_LAST_BREATH = 10.0
_LOOK, _DRAINED = 0.1, 0.05
"""Polling interval of waiting judges [s]; time in which launched work drains [s]."""


class LostCandidateError(Exception):
    """The process of candidate `impl` has ended or must end; the parent reports how."""

    def __init__(self, impl: str, what: str = "") -> None:
        super().__init__(what or f"the process of {impl} has ended")
        self.impl = impl


class RemoteError(RuntimeError):
    """Exception or malformed answer of candidate `impl`; `status` "": the phase's default."""

    def __init__(self, impl: str, failure: dict[str, Any]) -> None:
        super().__init__(str(failure.get("reason", ""))[:500])
        self.impl = impl
        self.status = str(failure.get("status", ""))
        self.tail = str(failure.get("tail", ""))[-3000:]

    def report(self, subject: Subject, events: Events, status: str) -> None:
        sys.stderr.write(f"{subject.name}: {self.tail}\n")
        events.send("impl", subject.name, status=self.status or status, reason=str(self), tail=self.tail)


class Remote:
    """A candidate in its own process; its Guest answers requests of the same names.

    `turns`: changes of data that are sent with the next request. `meanwhile`: done once while its compilers run.
    `match`: its tensors that correspond to the reference's. `alive`: weights with drawn values on both sides in
    comparisons. `bits`: precision of its answers in the trials. `gone`: its process has ended. `forgiven`: it may end
    or fall silent without failing.
    """

    def __init__(
        self, subject: Subject, job: Job, device: torch.device, events: Events, company: Company | None = None
    ) -> None:
        self.subject = subject
        self.match = weights.Match()
        self.alive: frozenset[str] = frozenset()
        self.bits, self.gone = math.inf, False
        self.channel = Channel(job.channels[subject.name])
        self.device = device
        self.phase = "build"
        self._folder = Path(job.exchange) / subject.name
        self._limits = {**LIMITS, **job.limits}
        self._events = events
        self._said = ("", 0.0)
        self._files = 0
        self._called = self._posted = False
        self.turns: list[dict[str, Any]] = []
        self.company = company
        self.meanwhile: Callable[[], None] | None = None
        self.process = self._above = 0
        self.patience = 0.0
        self.forgiven = False
        self._halted: list[int] = []
        # Memory shared with the other process, in both directions.
        self._areas: dict[str, exchange.Area] = {}
        self._shared: list[torch.Tensor] = []

    def ask(self, question: str, **arguments: Any) -> dict[str, Any]:
        """The answer. Raises RemoteError for an exception there, LostCandidateError without answer."""
        self.post(question, **arguments)
        return self.due()

    def post(self, question: str, **arguments: Any) -> None:
        """Send a request; `due` returns the answer. Other judges may time before it is sent."""
        if self._posted:
            # Nobody waited for the last answer.
            with contextlib.suppress(RemoteError):
                self.due()
        if self.company is not None:
            self.company.step_aside()
        turns, self.turns = self.turns, []
        self.send(question, turns=turns, **arguments)
        self._posted = True

    def due(self) -> dict[str, Any]:
        """Answer to the request sent, within the phase's limit."""
        self._posted = False
        self._announce()
        limit = self._limits[self.phase]
        return self.answer(max(limit, self.patience) if self.phase in ("check", "time") else limit)

    def send(self, question: str, **arguments: Any) -> None:
        if self.gone:
            raise LostCandidateError(self.subject.name)
        self._announce()
        self._halt(False)
        try:
            self.channel.send({"ask": question, **arguments})
        except EndedError as error:
            raise self._lost() from error

    def answer(self, limit: float) -> dict[str, Any]:
        """Answer within `limit` seconds; compilers or a busy machine extend the limit."""
        try:
            return self._heard(limit)
        finally:
            for area in self._areas.values():
                area.rewind()

    def _heard(self, limit: float) -> dict[str, Any]:
        """The next message; its caveats are forwarded."""
        reply = self._received(limit)
        if not self.process and reply.keys() == {"process"}:
            # It is there, and imports or builds what it is now.
            self.meet(int(reply["process"]))
            reply = self._received(limit)
        self._halt(self.phase != "build")
        caveats, failed = reply.get("caveats", []), reply.get("failed", {})
        if not (isinstance(failed, dict) and isinstance(caveats, list) and all(isinstance(d, dict) for d in caveats)):
            raise self.nonsense()
        for caveat in caveats:
            self._events.send(
                "caveat", self.subject.name, **{k: str(caveat.get(k, "")) for k in ("what", "how_much", "fix", "code")}
            )
        if "failed" in reply:
            error = RemoteError(self.subject.name, failed)
            if self.forgiven and error.status == "corrupt":
                # A lost context is forgiven like a lost process.
                self._lost()
            raise error
        return reply

    def _received(self, limit: float) -> dict[str, Any]:
        excuse = waiting.Excuse(self.process, limit, max(LIMITS["build"], self._limits["build"]))
        shares = (self.company and self.phase in ("first", "check")) or self.phase == "build"
        while True:
            try:
                return self.channel.receive(min(excuse.left(), _LOOK) if shares else excuse.left())
            except OverdueError as error:
                if excuse.left():
                    self._use_the_build(excuse)
                    self._let_others_time(excuse)
                    continue
                if not excuse.more():
                    raise self.overdue(limit) from error
                self._announce(limit)
            except EndedError as error:
                raise self._lost() from error

    def _use_the_build(self, excuse: waiting.Excuse) -> None:
        """Do what waits for a compiler to run, once, and announce the interrupted phase again."""
        if self.meanwhile is not None and self.phase == "build" and waiting.compiling(self.process):
            act, self.meanwhile = self.meanwhile, None
            act()
            self._said = ("", 0.0)
            self._announce(excuse.left())

    def _let_others_time(self, excuse: waiting.Excuse) -> None:
        """Pause a process that constructs or compiles (not its compilers) while another judge times."""
        # A process that is not known to be the candidate's own is never stopped.
        if self.company is None or not self.company.wanted or not self.process:
            return
        if self.phase != "build" and not waiting.compiling(self.process):
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

    def nonsense(self) -> RemoteError:
        """The error for a malformed answer."""
        return RemoteError(self.subject.name, {"reason": "its process sent a malformed answer"})

    def overdue(self, limit: float) -> LostCandidateError:
        """Have the process killed and wait for its end, so that it does not disturb others."""
        if not self.forgiven:
            self._events.send("overdue", self.subject.name, phase=self.phase, limit=limit)
            self.channel.wait_for_end(_LAST_BREATH)
        return self._lost(reported=True, what=f"no answer within {limit:g} s")

    def _lost(self, *, reported: bool = False, what: str = "") -> LostCandidateError:
        if not (reported or self.forgiven):
            self._events.send("lost", self.subject.name, phase=self.phase)
        self.gone = True
        self.channel.close()
        exchange.leave(self.process, self._shared)
        return LostCandidateError(self.subject.name, what)

    def _announce(self, least: float = 0.0) -> None:
        """Report the phase; the parent's limit exceeds the candidate's and `least` seconds."""
        now = time.monotonic()
        if self._said[0] != self.phase or now > self._said[1] + _QUIET:
            self._said = (self.phase, now)
            self._events.phase(self.phase, self.subject.name, least=least)

    def meet(self, process: int) -> None:
        """Store the process id, which its first message has, sent before the candidate is imported."""
        self.process = self._above = process
        with contextlib.suppress(psutil.Error):
            # Its warden, who is the parent of orphans.
            self._above = psutil.Process(process).ppid()

    def _halt(self, yes: bool) -> None:
        """Stop or continue the process and its descendants. Its warden is the parent of orphans."""
        if not self.process or yes == bool(self._halted):
            return
        number = signal.SIGSTOP if yes else signal.SIGCONT
        family = list({self.process, *waiting.descendants(self._above)}) if yes else self._halted
        for pid in family:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        self._halted = family if yes else []

    def rest(self) -> None:
        """Pause the process until the next request."""
        self._halt(not self.gone)

    def let_go(self) -> None:
        """Close the connection; the process then ends."""
        self._halt(False)
        if not self.gone:
            self.gone = True
            self.channel.close()
            exchange.leave(self.process, self._shared)

    def running(self) -> bool:
        """Whether its process or a descendant is still running."""
        return running(self._above)

    def share(self, room: Mapping[str, int]) -> None:
        """Share device memory of this size in each direction; if that fails, files are used."""
        for way, wanted in room.items() if self.device.type == "cuda" else ():
            exchange.give_back(exchange.free)
            if wanted <= (self._areas[way].size if way in self._areas else 0):
                continue
            with contextlib.suppress(RuntimeError):
                memory, handle = exchange.allocate(wanted, self.device)
                self._shared.append(memory)
                if self.ask("share", way=way, handle=handle.hex(), size=memory.numel()).get("shared") is True:
                    self._areas[way] = exchange.Area(memory)

    def hand_over(self, value: Any) -> str:
        """Write a value for the candidate's process; return the file's name."""
        file = self.fresh_file()
        if self._shared:
            exchange.give_back(exchange.free)
        exchange.write(value, file, self._areas.get("given"))
        return file.name

    def fresh_file(self) -> Path:
        self._files += 1
        return self._folder / f"{self._files}.pt"

    def output(self, file: Path) -> Any:
        """The candidate's output. Raises RemoteError if it is not readable as data."""
        try:
            described = exchange.read(file, torch.device("cpu"), trusted=False, area=self._areas.get("answer"))
            return exchange.restore(described, self.device)
        except Exception as error:
            what = str(error).partition("\n")[0][:300]
            reason = f"its output cannot be read as tensors: {what}"
            raise RemoteError(self.subject.name, {"reason": reason}) from error

    # What an implementation does

    def plain(self, arguments: list[Any], seed: int) -> tuple[Any, list[Any]]:
        self.phase = "check" if self._called else "first"
        facts.release(self.device)
        clock = self.company.clock if self.company is not None else time.monotonic
        given, answer, began = self.hand_over(list(arguments)), self.fresh_file(), clock()
        try:
            self.ask("call", given=given, output=answer.name, seed=seed)
        finally:
            # Of a call that failed the inputs are still there.
            (self._folder / given).unlink(missing_ok=True)
        if not self._called:
            # Later calls may be as slow.
            self._called, self.patience = True, PATIENT * (clock() - began)
        both = self.output(answer)
        if not isinstance(both, tuple) or len(both) != 2:
            raise self.nonsense()
        output, changed = both
        if changed is None:
            return output, arguments
        # Repeat the in-place mutation of the other process.
        left = inputs.clone(arguments)
        for (_, mine), (_, theirs) in zip(tensors(left), tensors(changed), strict=False):
            if isinstance(mine, torch.Tensor) and isinstance(theirs, torch.Tensor) and mine.shape == theirs.shape:
                mine.copy_(theirs)
        return output, left

    def operators(self, arguments: list[Any], seed: int) -> dict[str, float]:
        found = self.do("operators", arguments, seed)
        if not isinstance(found, dict) or not all(type(one) is float and math.isfinite(one) for one in found.values()):
            raise self.nonsense()
        return found

    def parameters(self) -> dict[str, list[int]]:
        shapes = self.do("parameters")
        if not isinstance(shapes, dict):
            raise self.nonsense()
        return shapes

    def do(self, method: str, *arguments: Any, phase: str = "check") -> Any:
        """Result of a method of the implementation in the other process; see Implementation."""
        self.phase, result = phase, self.fresh_file()
        self._called &= method not in ("rebuild", "restore")
        self.ask("do", method=method, given=self.hand_over(list(arguments)), output=result.name)
        return self.output(result)
