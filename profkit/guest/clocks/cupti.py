"""Device activity as CUPTI records it, through torch's profiler; this clock decides.

Every call stands between two spin kernels. The first holds the queue, so launching costs no device time; the second
follows when the device is idle. Activity between them, on any stream, is the call: `span` from first start to last
end, `busy` the time anything ran.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from profkit.guest.clocks.clocks import CudaClock, witness
from profkit.guest.clocks.kineto import kind_of, recorder
from profkit.guest.clocks.timing import DECIDING, Call, Sample, known_to, trials_of
from profkit.rundir.files import write_rows

LEAST, ROUNDS = 12, 24
"""Least and most rounds of a recording."""
PER_ROUND = 2
NOTE = "CUPTI activity: from the first start to the last end on the device, behind a held queue"
MARK = "spin_kernel"


class CuptiError(Exception):
    """CUPTI gave no usable record."""


@dataclass(frozen=True)
class Activity:
    """One device activity: times in seconds on the profiler's clock."""

    name: str
    start: float
    end: float
    stream: int


class Recording:
    """Activities of this process's calls while it is open; others may record meanwhile."""

    def __init__(self, clock: CudaClock) -> None:
        self._clock = clock
        self._plan: list[tuple[str, int, int]] = []
        self._profiler: Any = None

    def ask(self, question: str) -> None:
        """See RemoteRecording.ask: other processes begin and end before this one."""

    def begin(self) -> None:
        _set_up()
        self._profiler = recorder(cpu=False, cuda=True)
        self._profiler.__enter__()

    def take(self, name: str, call: Call, number: int, trial: int) -> tuple[float, bool]:
        """One call between two marks: its event pair's time [s], and whether that is sound."""
        seconds, _, sound = self._clock.sample(call, look=False)
        torch.cuda._sleep(1)
        self._plan.append((name, number, trial))
        torch.cuda.synchronize()
        witness(call)
        return seconds, sound

    def end(self) -> tuple[list[Sample], dict[str, list[Activity]]]:
        """(samples, activities of a median call of each implementation). Raises CuptiError."""
        torch.cuda.synchronize()
        profiler = self._profiler
        self.close()
        return _attributed(self._plan, activities_of(profiler), self._clock.l2)

    def close(self) -> None:
        open_, self._profiler = self._profiler, None
        if open_ is not None:
            open_.__exit__(None, None, None)


@functools.cache
def _set_up() -> None:
    """Start CUPTI once: it takes a tenth of a second in which launches are slow."""
    with recorder(cpu=False, cuda=True):
        torch.cuda._sleep(1)
        torch.cuda.synchronize()


def sample(
    calls: Mapping[str, Call],
    clock: CudaClock,
    *,
    target: float = 0.0,
    end: float = math.inf,
    seed: int = 0,
    before: Callable[[str], None] = lambda _: None,
    after: Callable[[str, int], None] = lambda _name, _round: None,
) -> tuple[list[Sample], dict[str, list[Activity]]]:
    """Samples by method "cupti", and the activities of one median call per implementation.

    It ends when event pairs round the same launches have medians known to `target`. After `end` [s, monotonic]
    DECIDING rounds suffice. Calls in another process have their own `recording`. Raises CuptiError when records are missing or another tool holds CUPTI.
    """
    recordings = _recordings(calls, clock)
    order, shuffle = list(calls), random.Random(seed)
    samples: list[Sample] = []
    pairs: dict[str, list[float]] = {}
    activities: dict[str, list[Activity]] = {}
    with _begun(recordings):
        for number in range(ROUNDS):
            shuffle.shuffle(order)
            for name in order:
                for trial in range(trials_of(number, PER_ROUND, end)):
                    before(name)
                    seconds, sound = recordings[name].take(name, calls[name], number, trial)
                    after(name, number)
                    if sound:
                        pairs.setdefault(name, []).append(seconds)
            if number + 1 >= DECIDING and time.monotonic() > end:
                break
            if number + 1 >= LEAST and number % 4 == 3 and known_to(pairs.get(name, ()) for name in calls) <= target:
                break
        for recording in _each(recordings):
            recording.ask("records")
        for recording in _each(recordings):
            mine, seen = recording.end()
            samples += mine
            activities |= seen
    return samples, activities


def set_up(calls: Mapping[str, Call], clock: CudaClock) -> None:
    """Start CUPTI in the processes of all calls. Raises CuptiError."""
    with _begun(_recordings(calls, clock)):
        pass


def _recordings(calls: Mapping[str, Call], clock: CudaClock) -> dict[str, Any]:
    local = Recording(clock)
    return {name: call.recording() if hasattr(call, "recording") else local for name, call in calls.items()}


@contextlib.contextmanager
def _begun(recordings: Mapping[str, Any]) -> Iterator[None]:
    """Begin all recordings in parallel; close them afterwards."""
    with contextlib.ExitStack() as stack:
        for recording in _each(recordings):
            stack.callback(recording.close)
            recording.ask("record")
        for recording in _each(recordings):
            recording.begin()
        yield


def _each(recordings: Mapping[str, Any]) -> list[Any]:
    """Every recording once, in the order of the calls."""
    return list({id(recording): recording for recording in recordings.values()}.values())


def event_offset(clock: CudaClock, device: torch.device) -> float:
    """Seconds an event pair reads too much: one tiny kernel by events and CUPTI, medians of 24."""
    cell = torch.zeros(32, device=device)

    def tiny() -> Any:
        return cell.add_(1.0)

    clock.warm_up(tiny)
    pairs = [clock.sample(tiny) for _ in range(24)]
    sound = [seconds for seconds, _, good in pairs if good]
    judged, _ = sample({"tiny": tiny}, clock, target=1.0)
    spans = [s.seconds for s in judged if s.kept]
    if min(len(sound), len(spans)) < LEAST:
        raise CuptiError("too few sound samples of the empty kernel")
    return max(0.0, statistics.median(sound) - statistics.median(spans))


def activities_of(profiler: Any) -> list[Activity]:
    """Device activities in order of start, on a clock that begins with the first.

    Nanoseconds since 1970 do not fit a double; they are made relative as integers.
    """
    events = [
        event
        for event in profiler.kineto_results.events()
        if event.device_type() == torch.autograd.DeviceType.CUDA and kind_of(event)
    ]
    origin = min((event.start_ns() for event in events), default=0)
    found = []
    for event in events:
        start = event.start_ns() - origin
        end = start + event.duration_ns()
        found.append(Activity(event.name(), start * 1e-9, end * 1e-9, event.device_resource_id()))
    return sorted(found, key=lambda activity: activity.start)


def _attributed(
    plan: Sequence[tuple[str, int, int]], activities: Sequence[Activity], l2: str
) -> tuple[list[Sample], dict[str, list[Activity]]]:
    """Assign activities to the planned calls between whose marks they lie.

    Raises CuptiError when marks are missing.
    """
    marks = [activity for activity in activities if MARK in activity.name]
    if len(marks) != 2 * len(plan):
        raise CuptiError(f"{len(marks)} of {2 * len(plan)} marker kernels are in CUPTI's record")
    work = [activity for activity in activities if MARK not in activity.name]
    starts = [activity.start for activity in work]
    samples: list[Sample] = []
    calls: dict[str, list[tuple[float, list[Activity]]]] = {}
    for (name, number, trial), opening, closing in zip(plan, marks[::2], marks[1::2], strict=True):
        mine = work[bisect.bisect_left(starts, opening.start) : bisect.bisect_left(starts, closing.start)]
        span = max(a.end for a in mine) - mine[0].start if mine else float("nan")
        samples.append(Sample(name, "cupti", number, trial, span, l2=l2, kept=int(bool(mine)), busy=union(mine)))
        calls.setdefault(name, []).append((span, mine))
    middle = {name: sorted(rows, key=lambda row: row[0])[len(rows) // 2][1] for name, rows in calls.items()}
    return samples, middle


def union(activities: Sequence[Activity]) -> float:
    """Seconds in which at least one of them ran; they come in order of start."""
    total, reached = 0.0, float("-inf")
    for activity in activities:
        total += max(0.0, activity.end - max(activity.start, reached))
        reached = max(reached, activity.end)
    return total if activities else float("nan")


def write(calls: Mapping[str, Sequence[Activity]], path: Path) -> None:
    """Write cupti.csv: a row per device activity of a median call of each implementation."""
    rows = [["impl", "kernel", "launch", "start", "time", "stream", "kind"]]
    for impl, activities in calls.items():
        for number, a in enumerate(activities):
            kind = next((k for k in ("memcpy", "memset") if a.name.lower().startswith(k)), "kernel")
            rows.append([impl, a.name, f"{number}", f"{a.start:.9f}", f"{a.end - a.start:.9f}", f"{a.stream}", kind])
    write_rows(path, rows)
