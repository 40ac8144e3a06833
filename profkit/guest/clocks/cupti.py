"""Device activity recorded by CUPTI through torch's profiler; this clock decides.

Every call stands between two spin kernels. The first holds the queue, so launching costs no device time; the second
follows when the device is idle. Activity between them, on any stream, is the call: `span` from first start to last
end, `busy` the time with any activity.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from profkit.guest.clocks.clocks import CudaClock, witness
from profkit.guest.clocks.timing import DECIDING, Call, Clock, Plan, Sample, measure
from profkit.rundir.files import write_rows

LEAST, ROUNDS = 12, 24
"""Least and most rounds of a recording."""
PER_ROUND = 2
NOTE = "CUPTI activity: from the first start to the last end on the device, behind a held queue"
MARK = "spin_kernel"

WORK = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
"""Kineto's types of GPU work -> kinds in the launches frame."""
_NO_WORK = ("gpu_", "Context Sync", "Stream", "Event", "Device")


class CuptiError(Exception):
    """CUPTI gave no usable record."""


@dataclass(frozen=True)
class Activity:
    """One device activity: times in seconds on the profiler's clock."""

    name: str
    start: float
    end: float
    stream: int


class CuptiClock(Clock):
    """Records this process's calls from `warm_up` on; other processes may record meanwhile.

    A sample is an event pair's, to decide when to stop; `calls` returns the recording.
    """

    method, note = "cupti", NOTE

    def __init__(self, pairs: CudaClock) -> None:
        self.l2, self._pairs = pairs.l2, pairs
        self._profiler: Any = None
        self._count = 0

    def warm_up(self, call: Call) -> None:
        if self._profiler is None:
            _set_up()
            self._profiler, self._count = recorder(cpu=False, cuda=True), 0
            self._profiler.__enter__()

    def sample(self, call: Call) -> tuple[float, float, bool]:
        seconds, _, _ = self._pairs.sample(call, look=False)
        torch.cuda._sleep(1)
        self._count += 1
        torch.cuda.synchronize()
        witness(call)
        return seconds, math.nan, True

    def calls(self) -> list[list[Activity]]:
        """The activities of each sampled call; ends the recording. Raises CuptiError."""
        torch.cuda.synchronize()
        profiler = self._profiler
        self.close()
        return between_marks(activities_of(profiler), self._count)

    def close(self) -> None:
        open_, self._profiler = self._profiler, None
        if open_ is not None:
            open_.__exit__(None, None, None)


@functools.cache
def _set_up() -> None:
    """Start CUPTI once: for a tenth of a second launches are slow."""
    with recorder(cpu=False, cuda=True):
        torch.cuda._sleep(1)
        torch.cuda.synchronize()


def sample(
    calls: Mapping[str, Any],
    clock: CudaClock,
    *,
    target: float = 0.0,
    budget: float = math.inf,
    number: int = 0,
    before: Callable[[str], None] = lambda _: None,
    after: Callable[[str, int], None] = lambda _name, _round: None,
) -> tuple[list[Sample], dict[str, list[Activity]]]:
    """Samples by method "cupti", and the activities of one median call per implementation.

    It ends when medians of event pairs around the same launches are known to `target`; after `budget` [s] DECIDING
    rounds suffice. number: of this recording, for round numbers. Calls in another process are recorded there. Raises
    CuptiError if records are missing or another tool holds CUPTI.
    """
    plan = Plan(budget, target, LEAST, ROUNDS, PER_ROUND, number, late=DECIDING)
    with recording(calls, clock) as own:
        taken = measure(calls, own, plan, before, after).samples
        elsewhere = _elsewhere(calls)
        for call in elsewhere.values():
            call.ask_records()
        here = [one.impl for one in taken if one.impl not in elsewhere]
        pairs = list(zip(here, own.calls(), strict=True))
        found = {name: summed([mine for impl, mine in pairs if impl == name]) for name in dict.fromkeys(here)}
        found |= {name: call.records() for name, call in elsewhere.items()}
    samples: list[Sample] = []
    for name, (spans, _) in found.items():
        mine = [one for one in taken if one.impl == name]
        if len(mine) != len(spans):
            raise CuptiError(f"{name}: its process sent records of other calls than its own")
        for one, (span, busy) in zip(mine, spans, strict=True):
            late = one.round + number * ROUNDS
            samples.append(replace(one, round=late, seconds=span, busy=busy, kept=int(span == span)))
    return samples, {name: middle for name, (_, middle) in found.items()}


@contextlib.contextmanager
def recording(calls: Mapping[str, Any], clock: CudaClock) -> Iterator[CuptiClock]:
    """Record in the processes of all calls, starting together. Raises CuptiError."""
    own, elsewhere = CuptiClock(clock), _elsewhere(calls).values()
    with contextlib.ExitStack() as after:
        for close in (*(call.stop_recording for call in elsewhere), own.close):
            after.push(_giving_way(close))
        for call in elsewhere:
            call.ask_warm_up(own.method)
        own.warm_up(lambda: None)
        yield own


def _giving_way(close: Callable[[], None]) -> Callable[..., None]:
    """Exit callback that drops its own error if another is being raised."""

    def leave(kind: object, error: BaseException | None, trace: object) -> None:
        with contextlib.suppress(*([] if error is None else [Exception])):
            close()

    return leave


def _elsewhere(calls: Mapping[str, Any]) -> dict[str, Any]:
    """Calls in other processes."""
    return {name: call for name, call in calls.items() if hasattr(call, "records")}


def event_offset(clock: CudaClock, device: torch.device) -> float:
    """Overhead of an event pair [s]: one tiny kernel by events and CUPTI, medians of 24."""
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
    """Device activities in order of start, on a clock that starts with the first.

    Nanoseconds since 1970 do not fit a double, so they are made relative as integers.
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


def between_marks(activities: Sequence[Activity], count: int) -> list[list[Activity]]:
    """Activities of so many calls, each between its marks. Raises CuptiError."""
    marks = [activity for activity in activities if MARK in activity.name]
    if len(marks) != 2 * count:
        raise CuptiError(f"{len(marks)} of {2 * count} marker kernels are in CUPTI's record")
    work = [activity for activity in activities if MARK not in activity.name]
    starts = [activity.start for activity in work]
    at = [bisect.bisect_left(starts, mark.start) for mark in marks]
    return [work[begin:end] for begin, end in zip(at[::2], at[1::2], strict=True)]


def summed(calls: Sequence[list[Activity]]) -> tuple[list[tuple[float, float]], list[Activity]]:
    """((span, busy) [s] of each call, NaN if nothing ran; activities of a median call)."""
    spans = [(max(a.end for a in mine) - mine[0].start if mine else math.nan, union(mine)) for mine in calls]
    order = sorted(range(len(calls)), key=lambda at: spans[at][0])
    return spans, calls[order[len(order) // 2]]


def union(activities: Sequence[Activity]) -> float:
    """Seconds with at least one activity; the activities are sorted by start."""
    total, reached = 0.0, float("-inf")
    for activity in activities:
        total += max(0.0, activity.end - max(activity.start, reached))
        reached = max(reached, activity.end)
    return total if activities else float("nan")


def write(calls: Mapping[str, Sequence[Activity]], path: Path) -> None:
    """Write cupti.csv: one row per device activity of a median call of each implementation."""
    rows = [["impl", "kernel", "launch", "start", "time", "stream", "kind"]]
    for impl, activities in calls.items():
        for number, a in enumerate(activities):
            kind = next((k for k in ("memcpy", "memset") if a.name.lower().startswith(k)), "kernel")
            rows.append([impl, a.name, f"{number}", f"{a.start:.9f}", f"{a.end - a.start:.9f}", f"{a.stream}", kind])
    write_rows(path, rows)


def recorder(*, cpu: bool, cuda: bool) -> Any:
    """torch's profiler of the host, the device or both.

    torch.profiler.profile wraps this one, but imports torch's compiler and Triton, which takes seconds.
    """
    return torch.autograd.profiler.profile(use_cpu=cpu, use_device="cuda" if cuda else None, use_kineto=True)


def kind_of(event: Any) -> str:
    """ "kernel", "memcpy" or "memset" of a GPU record; "" if it is no work."""
    if hasattr(event, "activity_type"):
        return WORK.get(event.activity_type(), "")
    if said_by_user(event):
        return ""
    name = event.name()
    # Demangled kernels have a parameter list.
    if name.startswith(_NO_WORK) and "(" not in name:
        return ""
    return next((kind for kind in ("memcpy", "memset") if name.lower().startswith(kind)), "kernel")


def said_by_user(event: Any) -> bool:
    """Whether a record is a range of record_function, or its copy on the GPU."""
    return bool(hasattr(event, "is_user_annotation") and event.is_user_annotation())
