"""Waiting for a quiet device, and energy by its counter."""

from __future__ import annotations

import math
import shutil
from types import SimpleNamespace

import pytest
import torch
from recorded_runs import H200, recorded, write

from profkit.errors import CannotProfileError
from profkit.guest.clocks.timing import Sample
from profkit.judge.timing import energy, outside
from profkit.launch import quiet
from profkit.record import profile
from profkit.record.request import Request
from profkit.report.writers.json import document
from profkit.rundir.manifest import Manifest, SampleInfo
from profkit.study.study import open_study


class Clock:
    def __init__(self, loads):
        self.now, self.loads, self.said = 0.0, list(loads), []

    def wait(self, limit, device="cuda"):
        quiet.wait(device, limit, self.said.append, busy=self.busy, now=lambda: self.now, rest=self.rest)

    def busy(self):
        return self.loads.pop(0) if len(self.loads) > 1 else self.loads[0]

    def rest(self, seconds):
        self.now += seconds


def test_a_device_has_to_be_quiet_for_a_while():
    clock = Clock([0.9, 0.9, 0.0, 0.5, 0.0])
    clock.wait(60)
    assert clock.now == pytest.approx(1.5 + quiet.LEAST)
    assert clock.said == ["waiting for a quiet GPU: busy 90% of the time"]


def test_one_that_does_not_become_quiet_is_not_measured():
    with pytest.raises(CannotProfileError, match=r"the processor was not quiet within 10 s: it is busy 100%") as raised:
        Clock([1.0]).wait(10, "cpu")
    assert "wait_quiet" in raised.value.fix


def test_where_nobody_says_how_busy_it_is_it_is_quiet():
    clock = Clock([math.nan])
    clock.wait(60)
    assert clock.now == quiet.LEAST


def test_the_processor_says_how_busy_it_is():
    assert 0 <= quiet.processor() <= 1


class Meter:
    """A GPU that takes 2 J a call."""

    def __init__(self):
        self.calls = 0

    def batch(self, count, hold):
        self.calls += count
        return 1.0, 1.0


def test_energy_is_counted_over_a_second_of_calls(monkeypatch):
    one, other = Meter(), Meter()
    monkeypatch.setattr(energy, "counter", lambda device: 100.0 + 2.0 * (one.calls + other.calls))
    samples = [Sample("a", "event", 0, 0, 1e-3, host=4e-3), Sample("b", "event", 0, 0, 0.5, host=1e-5)]
    turns = []
    found = energy.per_call({"a": one, "b": other}, samples, torch.device("cpu"), turns.append)
    assert found == {"a": 2.0, "b": 2.0}
    assert (one.calls, other.calls) == (300, 3)
    assert turns == ["a", "b"]


def test_without_a_counter_nothing_is_called(monkeypatch):
    monkeypatch.setattr(outside, "batch", lambda *_: pytest.fail("called"))
    assert energy.per_call({"a": object()}, [], torch.device("cpu"), lambda _: None) == {}


def test_energy_stands_in_the_metrics_of_who_was_measured(tmp_path):
    run, metrics = recorded()
    run["timing"]["energy"] = {"reference": 1.5}
    path = write(tmp_path, run, metrics)
    shutil.copy(H200 / "ICFSMX/timings.csv", path)
    rows = {row["impl"]: row["energy"] for row in document(open_study(path))["impls"]}
    assert rows.pop("reference") == 1.5
    assert rows
    assert set(rows.values()) == {None}


@pytest.mark.parametrize(("asked", "joules", "said"), [(True, {}, 1), (True, {"reference": 1.5}, 0), (False, {}, 0)])
def test_energy_that_was_asked_for_and_is_not_there_is_said(asked, joules, said):
    manifest = Manifest(SampleInfo("S", "s"), "now")
    manifest.timing.rounds, manifest.timing.energy = 3, joules
    session = SimpleNamespace(run=SimpleNamespace(manifest=manifest), request=Request(energy=asked), target=None)
    profile._close(session, {})
    assert sum("energy" in caveat.what for caveat in manifest.caveats) == said
