"""profkit timers: on a simulated GPU every cause is found; on a CPU the two clocks that there are."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from profkit.guest.clocks.cupti import Activity  # noqa: E402
from profkit.torch_tools import loops, timers  # noqa: E402

US = 1e-6
LAUNCH, REACH, GAP, STAMP = 4 * US, 3 * US, 1 * US, 0.5 * US
KERNEL = {"warm": 5 * US, "read": 8 * US, "fill": 9 * US}
FLUSH = {"read": 40 * US, "fill": 80 * US}


class Gpu:
    """One queue: what it does, when, and what the host waits for."""

    def __init__(self):
        self.now = self.free = 0.0
        self.l2 = "warm"
        self.seen = []

    def launch(self, name, seconds):
        self.now += LAUNCH
        start = max(self.free + GAP, self.now + REACH)
        self.free = start + seconds
        self.seen.append(Activity(name, start, self.free, 7))

    def call(self):
        self.launch("kernel", KERNEL[self.l2])
        self.l2 = "warm"

    def flush(self, kind):
        if kind:
            self.launch("flush", FLUSH[kind])
            self.l2 = kind

    def stamp(self):
        self.free = max(self.free, self.now + REACH) + STAMP
        return self.free

    def wait(self, *_):
        self.now = max(self.now, self.free)


@pytest.fixture
def gpu(monkeypatch):
    """torch.cuda, as far as the loops use it, on a simulated queue."""
    one = Gpu()

    class Event:
        def __init__(self, enable_timing):
            self.at = math.inf

        def record(self):
            self.at = one.stamp()

        def query(self):
            return one.now >= self.at

        def elapsed_time(self, other):
            return (other.at - self.at) * 1e3

    class Recorder:
        def __enter__(self):
            one.seen.clear()
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", one.wait)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: one.launch("spin_kernel", cycles / 2e9))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(L2_cache_size=1 << 10))
    monkeypatch.setattr(loops, "perf_counter", lambda: one.now)
    monkeypatch.setattr(loops, "recorder", lambda **_: Recorder())
    monkeypatch.setattr(loops.cupti, "activities_of", lambda _: list(one.seen))
    monkeypatch.setattr(loops.Stand, "flush", lambda _, kind: one.flush(kind))
    return one


def told(gpu, clock):
    """The row of a clock for a kernel of the simulated GPU."""
    stand = loops.Stand(gpu.call, torch.device("cpu"))
    stand.judged = {"cold": KERNEL["read"], "warm": KERNEL["warm"]}
    reading, loop = clock.take(stand)
    return timers._row("", "", reading, KERNEL["read"], **timers.causes(stand, clock, loop))


def clock(name, cache):
    return next(one for one in timers.CLOCKS if (one.name, one.cache) == (name, cache))


@pytest.mark.parametrize(
    ("name", "cache", "causes"),
    [
        ("events, per call", "cold", {"events": GAP + STAMP}),
        ("events, per call", "warm", {"events": GAP + STAMP, "l2": -3 * US, "launch": LAUNCH - STAMP - GAP}),
        ("KernelBench", "cold", {"events": GAP + STAMP, "flush": 1 * US}),
        ("events, N calls", "warm", {"events": GAP + STAMP / 100, "l2": -3 * US}),
        ("events, N calls", "cold", {"events": 2 * GAP + STAMP / 20, "flush": FLUSH["read"]}),
    ],
)
def test_each_cause_is_found(gpu, name, cache, causes):
    row = told(gpu, clock(name, cache))
    assert row["gap"] == pytest.approx(sum(row[one] for one in timers.CAUSES))
    assert {one: row[one] for one in timers.CAUSES if abs(row[one]) > 0.3 * US} == pytest.approx(causes)
