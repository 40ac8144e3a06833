"""A candidate's process: load it, then answer the judge's requests.

It gets from the reference only what a call needs: inputs, weights, constructor arguments. Its reports about itself are
claims, which the judge checks.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import torch

from profkit.guest import backward, facts, settings
from profkit.guest.build import extensions, loading
from profkit.guest.channel import Channel, EndedError
from profkit.guest.clocks import cupti
from profkit.guest.clocks.clocks import SETTLE, CpuClock, CudaClock, HostClock
from profkit.guest.implementation import candidate, classified
from profkit.guest.subject import Change, TimedCall, batch, place, spoil
from profkit.guest.tensors import exchange, inputs, state
from profkit.guest.tensors.compare import same, tensors
from profkit.launch.protocol import Job


def serve(job: Job) -> None:
    """Load the job's one candidate and answer until the judge closes the connection."""
    channel = Channel(job.channels[job.subjects[0].name])
    try:
        guest = Guest(job)
        channel.send({"process": os.getpid()})
        channel.send(guest.answer(guest.load, "load-error"))
        while True:
            question = channel.receive()
            name = str(question.pop("ask"))
            act = partial(guest.asked, name, **question)
            channel.send(guest.answer(act, "load-error" if name == "build" else ""))
    except EndedError:
        return


class Guest:
    """The candidate; each public method after `asked` answers one request of the judge."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._caveats: list[dict[str, Any]] = []
        self._folder = Path(job.exchange)
        self._device = facts.choose(job.device)
        self._clocks: dict[str, Any] = {}
        self._areas: dict[str, exchange.Area] = {}
        torch.set_grad_enabled(False)
        if self._device.type == "cpu":
            facts.keep_heap()

    def send(self, kind: str, impl: str = "", **data: Any) -> None:
        """Send a caveat with the next answer."""
        self._caveats.append(data)

    def answer(self, act: Callable[[], dict[str, Any] | None], status: str) -> dict[str, Any]:
        """Result or failure of `act`, and new caveats; the judge has read the last answer."""
        if "answer" in self._areas:
            self._areas["answer"].rewind()
        try:
            reply = act() or {}
        except Exception as error:
            traceback.print_exception(error, file=sys.stderr)
            found = classified(error, status)
            status = "corrupt" if found.lost else found.status
            reply = {"failed": {"status": status, "reason": found.reason, "tail": found.tail}}
        caveats, self._caveats = self._caveats, []
        return {**reply, "caveats": caveats}

    def share(self, way: str, handle: str, size: int) -> dict[str, Any]:
        """Open device memory that the judge has allocated."""
        try:
            self._areas[way] = exchange.Area(exchange.opened(bytes.fromhex(handle), size, self._device))
        except Exception:
            traceback.print_exc()
            return {"shared": False}
        return {"shared": True}

    def _take(self, given: str, device: torch.device | None = None, *, keep: bool = False) -> Any:
        """Receive a value from the judge, on this device or another; keep: to receive it again."""
        place, area = device or self._device, self._areas.get("given")
        return inputs.to_device(exchange.read(self._folder / given, place, trusted=True, area=area, keep=keep), place)

    def _give(self, value: Any, file: str) -> None:
        """Send an answer to the judge."""
        facts.settle(self._device)
        exchange.write(exchange.describe(value), self._folder / file, self._areas.get("answer"))

    def load(self) -> dict[str, Any]:
        """Import the candidate; its extensions are built here, in parallel with other processes."""
        subject = self._job.subjects[0]
        if self._device.type == "cuda":
            loading.one_architecture(self._device)
            if self._job.lines:
                loading.with_line_tables()
        began = time.perf_counter()
        self._builds = extensions.followed(Path(subject.file), self._job.campaign)
        with loading.BuildLock(Path(subject.file), Path(self._job.cache)) as lock, self._settings_kept():
            self._loaded = loading.import_file(Path(subject.file), subject.name), lock
        return {"seconds": time.perf_counter() - began}

    def asked(self, question: str, /, turns: Sequence[dict[str, Any]] = (), **arguments: Any) -> dict[str, Any] | None:
        """Answer a request after `turns` to other input sets; afresh: with restored state."""
        for change in turns:
            self.expect(change)
            self._call.turn()
            if change.get("afresh"):
                state.put(self._one.model, self._one.kept)
        act: Callable[..., dict[str, Any] | None] = getattr(Guest, question)
        return act(self, **arguments)

    def build(self, given: str, seed: int) -> dict[str, Any]:
        """Construct the model with the reference's arguments and weights."""
        began = time.perf_counter()
        spec = self._take(given, torch.device("cpu"))
        with self._settings_kept():
            subject, kind = self._job.subjects[0], self._job.precision
            self._one = candidate(subject, self._loaded, spec, seed, self._device, kind)
        self._unbuilt()
        found = {name: getattr(self._one.match, name) for name in ("missing", "ordered", "unnamed")}
        return {"seconds": time.perf_counter() - began, **found}

    def do(self, method: str, given: str, output: str) -> None:
        """Result of a method of the implementation."""
        # What is constructed is made on the host, as the reference was.
        arguments = self._take(given, torch.device("cpu") if method == "rebuild" else None)
        with self._settings_kept():
            result = getattr(self._one, method)(*arguments)
        self._give(result, output)

    def call(self, given: str, output: str, seed: int) -> None:
        """One call; returns the output, and the inputs after in-place mutation."""
        arguments = self._take(given, keep=True)
        with self._settings_kept(called=True):
            got = self._one.afresh(arguments, seed)
            facts.settle(self._device)
        self._give((got, None if same(arguments, self._take(given)) else arguments), output)
        spoil(got, self._one.model, self._one.own)
        del got, arguments
        facts.release(self._device)

    def ready(self, of: str, wanted: Sequence[str]) -> None:
        """Time the call itself, or a pass of backward.PASSES, from now on."""
        model = backward.timed(self._one.model, of, wanted)
        self._given = deque[Change]()
        self._call = TimedCall(model, self._given.popleft, own=self._one.own)

    def expect(self, change: dict[str, Any]) -> None:
        self._given.append(Change(int(change["at"]), self._take(str(change["given"]))))

    def run(self, wanted: bool) -> None:
        self._call.wanted = wanted
        self._call()
        facts.settle(self._device)
        self._call.witness()

    def output(self, output: str) -> None:
        self._give(self._call.last, output)

    def warm_up(self, method: str) -> None:
        self._clock(method).warm_up(self._call)

    def sample(self, method: str, wanted: bool) -> dict[str, Any]:
        self._call.wanted = wanted
        clock = self._clock(method)
        seconds, host, sound = clock.sample(self._call)
        facts.settle(self._device)
        return {"seconds": seconds, "host": host, "sound": sound, "waits": clock.waits}

    def batch(self, count: int, hold: float, probes: list[list[int]]) -> dict[str, Any]:
        """Make calls back to back; return elements of the last output as evidence."""
        batch(self._call, count, hold, self._device)
        leaves = [leaf for _, leaf in tensors(self._call.last)]
        return {"values": [_element(leaves, leaf, index) for leaf, index in probes]}

    def records(self, output: str) -> None:
        spans, middle = cupti.summed(self._clock("cupti").calls())
        self._give([spans, [astuple(activity) for activity in middle]], output)

    def stop_recording(self) -> None:
        self._clock("cupti").close()

    def _clock(self, method: str) -> Any:
        if method not in self._clocks:
            cold = self._job.l2 == "cold"
            makers: dict[str, Callable[[], Any]] = {
                "event": lambda: CudaClock(self._device, cold=cold),
                "host": lambda: HostClock(self._device),
                "wall": lambda: CpuClock(cold=cold, settle=SETTLE),
                "cupti": lambda: cupti.CuptiClock(self._clock("event")),
            }
            self._clocks[method] = makers[method]()
        return self._clocks[method]

    def _settings_kept(self, *, called: bool = False) -> contextlib.AbstractContextManager[None]:
        return settings.kept(self._job.subjects[0].name, self.send, called=called)

    def _unbuilt(self) -> None:
        """Send a caveat if the candidate runs without any extension of its own."""
        name, said = self._job.subjects[0].name, extensions.unbuilt(self._builds)
        if said:
            self.send(
                "caveat",
                name,
                what=f"{name}: its own extension does not compile here",
                how_much=said,
                fix="fix the build, or let it fail: it was measured without its extension",
                code="not-built",
            )


def _element(leaves: list[Any], leaf: int, index: int) -> float | None:
    """One element as a number, None if there is no such tensor."""
    found = leaves[leaf] if leaf < len(leaves) else None
    if not isinstance(found, torch.Tensor) or index >= found.numel():
        return None
    return float(found[place(index, found.shape)])
