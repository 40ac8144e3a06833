"""When one process of each implementation is enough, and what its interval says then."""

import math

import numpy as np
import pandas as pd
import pytest

from analyzers.verdicts.statistics import ratio, widened
from analyzers.verdicts.timing import check, choose, speedups, spreads
from profkit.record import measure
from profkit.record.measure import Measure
from profkit.record.request import Request


def table(quotient, noise=0.002, *, rounds=24, method="wall", seed=1):
    """timings.csv of one process: `quotient` is the reference's time over the candidate's."""
    chance = np.random.default_rng(seed)
    rows = []
    for number in range(rounds):
        for name, seconds in (("reference", 1e-3 * quotient), ("mine", 1e-3)):
            rows += [
                [name, method, str(number), f"{seconds * math.exp(chance.normal(0, noise)):.9g}"] for _ in range(3)
            ]
    return pd.DataFrame(rows, columns=["impl", "method", "round", "seconds"])


@pytest.mark.parametrize(
    ("quotient", "noise", "device", "known"),
    [
        (1.5, 0.002, "cuda", True),
        (0.7, 0.002, "cuda", True),
        (1.0, 0.0002, "cuda", False),
        (1.03, 0.0002, "cuda", False),
        (1.08, 0.002, "cuda", True),
        (1.08, 0.002, "cpu", False),
        (5.0, 0.6, "cuda", False),
    ],
)
def test_one_process_is_enough_for_what_is_far_from_the_threshold(quotient, noise, device, known):
    assert measure.settled(table(quotient, noise), "reference", ["mine"], device) is known


def test_all_that_were_timed_have_to_be_known():
    near = table(1.5)
    rows = pd.concat([near, near[near["impl"] == "reference"].assign(impl="near")])
    assert measure.settled(rows, "reference", ["mine"], "cuda")
    assert not measure.settled(rows, "reference", ["mine", "near"], "cuda")
    assert not measure.settled(rows, "reference", ["mine", "gone"], "cuda")
    assert not measure.settled(table(1.5, rounds=5), "reference", ["mine"], "cuda")
    for nothing in (pd.DataFrame(), table(1.5)[:0]):
        assert not measure.settled(nothing, "reference", ["mine"], "cuda")
    assert not measure.settled(table(1.5), "reference", [], "cuda")


def test_where_two_clocks_disagree_one_process_is_not_enough():
    rows = pd.concat([table(1.5, method="cupti"), table(0.9, method="event")])
    assert not measure.settled(rows, "reference", ["mine"], "cuda")


def test_what_another_process_may_differ_by_is_in_the_interval_and_in_that_of_the_times():
    rows = check(table(1.5))
    chosen = choose(rows)
    bare, wide = (speedups(chosen, "reference", spread=spread)["mine"] for spread in (0.0, 0.04))
    assert (wide.value, wide.within) == (bare.value, bare.within)
    assert wide.low < bare.value / 1.039 < bare.low < bare.high < bare.value * 1.039 < wide.high
    timed = spreads(chosen, rows, 0.04)["mine"].spread
    assert (timed.high / timed.median, timed.median / timed.low) > (1.04, 1.04)


@pytest.mark.parametrize(
    ("processes", "share", "high"), [(1, 0.0, 1.04), (1, 0.4, 1.1), (2, 0.4, 1.07), (2, 0.0, 1.0), (3, 0.4, 1.0)]
)
def test_gaps_between_kernels_are_taken_to_differ_from_process_to_process(processes, share, high):
    rows = table(1.5, noise=0.0001)
    rows = check(
        rows.assign(busy=rows["seconds"].astype(float) * (1 - share), process=rows["round"].astype(int) % processes)
    )
    found = speedups(choose(rows), "reference", spread=0.04)["mine"]
    assert found.processes == processes
    assert found.high / found.value == pytest.approx(high, abs=0.003)
    without = speedups(choose(rows), "reference")["mine"]
    assert without.high / without.value == pytest.approx(1.0, abs=0.003)


def test_several_processes_say_themselves_what_they_differ_by():
    one, other = np.full(24, 1.5), np.full(24, 1.0)
    arguments = one, other, np.arange(24), None, np.repeat([0, 1, 2], 8)
    assert ratio(*arguments) == ratio(*arguments, spread=0.5)


def test_an_interval_that_is_none_is_not_widened():
    assert widened(1.0, math.nan, math.nan, 0.04) == pytest.approx((math.nan, math.nan), nan_ok=True)
    assert widened(2.0, 1.9, 2.1, 0.0) == (1.9, 2.1)


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_nothing_is_called_the_same_or_wrongly_ordered_after_one_process(device):
    """Where processes differ as they are taken to, the verdict of one alone is wrong in less than one case of a hundred."""
    chance, wrong = np.random.default_rng(5), 0
    for seed in range(60):
        shift = math.exp(chance.normal(0, math.log1p(measure.SPREAD[device]) / 1.96))
        wrong += measure.settled(table(shift, 0.003, seed=seed), "reference", ["mine"], device)
    assert wrong <= 1


@pytest.mark.parametrize(("quotient", "apart"), [(1.04, 0.01), (1.06, 0.02), (1.3, 0.02), (0.8, 0.01)])
def test_what_one_process_says_three_say_too_and_its_interval_holds(quotient, apart):
    """apart: standard deviation of the logarithms of what processes give."""
    chance, one, rounds = np.random.default_rng(6), np.ones(24), np.arange(24)
    missed = []
    for _ in range(100):
        every = [quotient * np.exp(chance.normal(0, apart) + chance.normal(0, 0.006, 24)) for _ in range(3)]
        first = ratio(every[0], one, rounds, spread=measure.SPREAD["cuda"], resamples=400)
        if first.verdict != "inconclusive":
            whole = np.concatenate(every)
            all_ = ratio(whole, np.ones(72), np.arange(72), processes=np.repeat([0, 1, 2], 24), resamples=400)
            missed.append(not first.low <= quotient <= first.high)
            assert all_.verdict in (first.verdict, "inconclusive")
    assert sum(missed) <= max(2, 0.12 * len(missed))


def _asked(monkeypatch, tmp_path, campaign, quotient=3.0, noise=0.002, **options):
    """(processes that were started, the first's target, the spread, codes of caveats) for a candidate that is `quotient` times faster."""
    from profkit.rundir.manifest import Impl

    class Here:
        chosen = parts = ()
        device = "cpu"
        request = Request(device="cpu", runs=tmp_path, **options)
        progress = staticmethod(lambda _: None)
        run = planned(tmp_path, campaign)
        answer = staticmethod(lambda _: None)

    run = Here.run
    run.manifest.impls = [
        Impl("reference", "reference", "r.py", status="ok"),
        Impl("mine", "candidate", "m.py", status="ok"),
    ]
    started = []

    def start(session, made, stem, spread=0.0):
        started.append(made)
        table(quotient, noise, seed=len(started)).to_csv(made.timings, index=False)
        return measure.runner.Outcome(finished=True)

    monkeypatch.setattr(measure, "_start", start)
    Measure().record(Here)
    codes = [caveat.code for caveat in run.manifest.caveats]
    return len(started), started[0].target, run.manifest.timing.spread, codes


def planned(tmp_path, campaign):
    from profkit.rundir.directory import create_run
    from profkit.rundir.manifest import SampleInfo

    run = create_run(SampleInfo("A", str(tmp_path)), tmp_path / "runs")
    run.manifest.campaign = campaign
    return run


@pytest.mark.parametrize(
    ("campaign", "options", "found"),
    [
        ("id/piece", {}, (1, measure.TARGET, measure.SPREAD["cpu"], ["one-process"])),
        ("id/piece", {"target": 0.002}, (1, 0.002, measure.SPREAD["cpu"], ["one-process"])),
        ("id/piece", {"processes": 3}, (3, 0.005, 0.0, [])),
        ("id/piece", {"budget": 1.0}, (1, 0.005, measure.SPREAD["cpu"], ["one-process"])),
        ("id/piece", {"processes": 1}, (1, 0.005, measure.SPREAD["cpu"], ["one-process"])),
        ("", {}, (1, measure.TARGET, measure.SPREAD["cpu"], ["one-process"])),
    ],
)
def test_no_more_processes_are_asked_than_it_takes_unless_it_is_told_how_many(
    tmp_path, monkeypatch, campaign, options, found
):
    assert _asked(monkeypatch, tmp_path, campaign, **options) == found


@pytest.mark.parametrize(
    ("campaign", "quotient", "noise", "started"),
    [
        ("id/piece", 1.0, 0.0002, 2),
        ("id/piece", 1.04, 0.0002, 2),
        ("id/piece", 1.5, 0.0002, 2),
        ("id/piece", 1.0, 0.05, 5),
        ("", 1.0, 0.0002, 2),
    ],
)
def test_what_two_processes_tell_no_third_is_asked(tmp_path, monkeypatch, campaign, quotient, noise, started):
    count, target, spread, codes = _asked(monkeypatch, tmp_path, campaign, quotient, noise)
    assert (count, spread, codes) == (started, measure.SPREAD["cpu"], [])
    assert target == measure.TARGET
    tables = pd.read_csv(next(tmp_path.glob("runs/*/*/timings.csv")))
    assert tables["process"].nunique() == started


def test_a_small_word_of_the_only_process_is_asked_for_again(tmp_path, monkeypatch):
    assert _asked(monkeypatch, tmp_path, "", 0.7, budget=1.0)[0] == 2
