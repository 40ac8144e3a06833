"""profkit timers: on a simulated GPU every cause is found; on a CPU the two clocks that there are."""

import csv
import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from profkit.cli.group import cli
from profkit.launch import process
from profkit.record import timers as court
from profkit.report.timers import clocks, figure

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
    ],
)
def test_each_cause_is_found(gpu, name, cache, causes):
    row = told(gpu, clock(name, cache))
    assert row["gap"] == pytest.approx(sum(row[one] for one in timers.CAUSES))
    assert {one: row[one] for one in timers.CAUSES if abs(row[one]) > 0.3 * US} == pytest.approx(causes)


def test_on_a_cpu_the_two_clocks_there_are(tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "kernels.py"
    file.write_text(
        "import torch\n\ndef get_inputs():\n    return [torch.ones(9)]\n\ndef twice(x):\n    return x + x\n"
    )
    done = CliRunner().invoke(cli, ["timers", f"{file}:twice", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {(row["clock"], row["cache"]) for row in found["kernels"][0]["rows"]} >= {
        ("profkit", "cold"),
        ("profkit", "warm"),
        ("torch.utils.benchmark", "warm"),
    }
    assert "CUPTI" not in clocks(found)
    assert figure(found).get_size_inches()[0] == 8


def test_what_does_not_run_is_said_with_its_place(tmp_path):
    with pytest.raises(court.ProfkitError, match="no timing method gave a time: FileNotFoundError"):
        court.measure([f"{tmp_path / 'none.py'}:f"])
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(99)\n")
    with pytest.raises(court.ProfkitError, match="no timing method gave a time: no end after 1 s"):
        court.measure([f"{tmp_path / 'slow.py'}:f"], limit=1)


def test_ncu_times_are_put_to_their_kernels(tmp_path, monkeypatch):
    names = ["spin_kernel", *["a", "b"] * court.CALLS, "spin_kernel", *["a"] * court.CALLS, "spin_kernel"]

    def run(argv, **_):
        head = [*("ID", "Process ID", "Process Name", "Kernel Name", "Context", "Stream"), *("Block Size", "Grid Size")]
        head += ["Device", "CC"]
        with Path(argv[argv.index("--log-file") + 1]).open("w", newline="") as stream:
            table = csv.writer(stream, quoting=csv.QUOTE_ALL)
            table.writerows([[*head, "gpu__time_duration.sum"], [*[""] * len(head), "ns"]])
            table.writerows(
                [n, 1, "python", name, 1, 7, "(1, 1, 1)", "(1, 1, 1)", 0, "9.0", 1500] for n, name in enumerate(names)
            )
        return process.Exit(0, 1.0, "")

    monkeypatch.setattr(court.process, "run", run)
    monkeypatch.setattr(court, "unavailable", lambda: None)
    monkeypatch.setattr(court, "identity", dict)
    monkeypatch.setattr(court.tools, "find", lambda _: SimpleNamespace(path="ncu"))
    times, why = court._durations(["python"], "all")
    assert why == ""
    assert times[:2] == pytest.approx([3e-6, 1.5e-6])
    assert math.isnan(times[2])
    judged = {"clock": "CUPTI", "cache": "cold", "time": 2e-6, "gap": 0.0, "busy": 1.5e-6}
    row = court._row(3e-6, "cold", [judged, {**judged, "cache": "warm"}], "")
    assert row["rest"] == pytest.approx(1.5e-6)
