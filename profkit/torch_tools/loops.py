"""Timing loops of common benchmarks, with a switch for each cause of a difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import torch

from profkit.guest import facts
from profkit.guest.clocks import cupti
from profkit.guest.clocks.cupti import recorder

BIG = 256 << 20
"""Bytes that other benchmarks write to flush a cache."""
_QUEUE = 800
"""Launches that fit into a held queue; the driver blocks at about a thousand."""
_MOST_HOLD = 0.02
_RECORDED = 2400
_TRIES = 8


Call = Callable[[], Any]


class ClockError(Exception):
    """A timing method is unavailable or gives no result for this call."""


@dataclass(frozen=True)
class Loop:
    """Switches of a loop.

    flush: how the L2 is flushed before the time stamps: "" (it stays warm), read, fill, zero, memset. each: calls
    between two time stamps. wait: for an idle device before the first stamp. held: the queue, by a spin kernel, so that
    launching takes no time. graph: the calls as one CUDA graph. wall: the host's clock.
    """

    flush: str = ""
    each: int = 1
    wait: bool = True
    held: bool = False
    graph: bool = False
    wall: bool = False


class Stand:
    """One call, and all ways to repeat it on one device."""

    def __init__(self, call: Call, device: torch.device) -> None:
        self.call, self.device = call, device
        self.l2 = int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)) or 64 << 20
        self._ones = torch.ones(2 * self.l2 // 4, dtype=torch.int32, device=device)
        self._zeros = torch.empty(BIG // 4, dtype=torch.int32, device=device)
        self.judged: dict[str, float] = {}
        """A call by CUPTI [s], by the state of the L2."""
        self._graphs: dict[int, Any] = {}
        self._flushes = {"": 0}
        self._hold, self._replay = 2.0, 0.0
        end = perf_counter() + 0.2
        while perf_counter() < end:
            call()
            torch.cuda.synchronize(device)
        self.host = self._host()
        self.launches = len(self._record(call))
        if not self.launches:
            raise ClockError("the call does nothing on the GPU")
        self.batch = max(2, min(100, _QUEUE // self.launches, int(_MOST_HOLD / self.host)))
        """Calls that fit into a held queue."""

    def _host(self) -> float:
        """Median seconds of the host in one call."""
        found = []
        for _ in range(9):
            torch.cuda.synchronize(self.device)
            began = perf_counter()
            self.call()
            found.append(perf_counter() - began)
        torch.cuda.synchronize(self.device)
        return sorted(found)[4]

    def flush(self, kind: str) -> None:
        """Flush L2 like a benchmark: read (profkit), fill (KernelBench), zero (Triton, nvbench)."""
        if kind == "read":
            self._ones.max()
        elif kind == "fill":
            torch.empty(BIG // 8, dtype=torch.int64, device=self.device).fill_(42)
        elif kind:
            (self._zeros if kind == "zero" else self._zeros[: self.l2 // 4]).zero_()

    def read(self, loop: Loop, count: int, *, slack: float = 1.0) -> list[float]:
        """Seconds per call by the loop's own clock. Raises ClockError if the queue drains."""
        for _ in range(_TRIES if loop.held else 1):
            marks = [self._once(loop, slack) for _ in range(count)]
            torch.cuda.synchronize(self.device)
            told = [start.elapsed_time(stop) * 1e-3 if stop else start for start, stop, sound in marks if sound]
            if 2 * len(told) > count:
                return [seconds / loop.each for seconds in told]
            self._hold *= 1.5
        raise ClockError("the queue cannot be held: the call waits for the device itself")

    def _once(self, loop: Loop, slack: float) -> tuple[Any, Any, bool]:
        """(start event, stop event) or (seconds, None), and whether the queue was held to the end."""
        graph = self._graph(loop.each) if loop.graph else None
        if loop.wait:
            torch.cuda.synchronize(self.device)
        self.flush(loop.flush)
        if loop.held:
            seconds = slack * self._hold * (self._replay if graph else loop.each * self.host) + 60e-6
            torch.cuda._sleep(int(seconds * facts.CYCLES))
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began = perf_counter()
        if not loop.wall:
            start.record()
        if graph is not None:
            graph.replay()
        else:
            for _ in range(loop.each):
                self.call()
        if loop.wall:
            torch.cuda.synchronize(self.device)
            return perf_counter() - began, None, True
        stop.record()
        return start, stop, not loop.held or not start.query()

    def _graph(self, each: int) -> Any:
        """So many calls as a CUDA graph. Raises RuntimeError if capture fails."""
        if each not in self._graphs:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(each):
                    self.call()
            graph.replay()
            torch.cuda.synchronize(self.device)
            began = perf_counter()
            graph.replay()
            self._replay = perf_counter() - began
            torch.cuda.synchronize(self.device)
            self._graphs = {each: graph}
        return self._graphs[each]

    def count(self, most: int) -> int:
        """Repetitions in about a tenth of a second, at least eight."""
        return max(8, min(most, int(0.1 / (self.judged["cold"] + 1e-4))))

    def seen(self, loop: Loop, count: int) -> tuple[list[float], list[float]]:
        """Calls of a loop by CUPTI [s]: whole span, anything running.

        Raises CuptiError if records are missing.
        """
        if loop.flush not in self._flushes:
            self._flushes[loop.flush] = len(self._record(lambda: self.flush(loop.flush)))
        if loop.graph:
            self._graph(loop.each)
        before = self._flushes[loop.flush]
        size = before + loop.each * self.launches
        count = max(2, min(count, _RECORDED // size))
        found = self._record(lambda: [self._once(loop, 3.0) for _ in range(count)])
        if len(found) != count * size:
            raise cupti.CuptiError(f"CUPTI: {len(found)} activities, {count * size} expected: launches vary by call")
        spans, busy = [], []
        for at in range(0, len(found), size):
            for first in range(at + before, at + size, self.launches):
                mine = found[first : first + self.launches]
                spans.append(max(one.end for one in mine) - mine[0].start)
                busy.append(cupti.union(mine))
        return spans, busy

    def _record(self, work: Call) -> list[cupti.Activity]:
        """Activities of `work` in order of start, without the spin kernels."""
        torch.cuda.synchronize(self.device)
        with recorder(cpu=False, cuda=True) as profiler:
            work()
            torch.cuda.synchronize(self.device)
        return [one for one in cupti.activities_of(profiler) if cupti.MARK not in one.name]


def held(loop: Loop, most: int) -> Loop:
    """The same by events behind a held queue, with at most the calls that fit the queue."""
    return replace(loop, held=True, wall=False, each=loop.each if loop.graph else min(loop.each, most))
