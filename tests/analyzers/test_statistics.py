"""Intervals and verdicts of times; speed-ups in their two conventions, and their mean over shapes."""

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.errors import AnalyzeError
from analyzers.verdicts.shapes import Shape, geometric, shape, to_dict
from analyzers.verdicts.speedup import shown, speedup
from analyzers.verdicts.statistics import (
    Ratio,
    drift,
    median_interval,
    precision_caveat,
    ratio,
    summary,
    verdict,
)

times = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=60)


def test_summary_by_hand():
    s = summary([1.0, 2.0, 3.0, 4.0, 100.0])
    assert (s.n, s.median) == (5, 3.0)
    assert math.isnan(s.low)
    assert not s.reached(0.5)


@given(times)
def test_summary_is_ordered(values):
    s = summary(values)
    assert math.isnan(s.low) or min(values) <= s.low <= s.median <= s.high <= max(values)


def test_empty_and_bad_samples():
    assert summary([]).n == 0
    with pytest.raises(AnalyzeError):
        summary([1.0, math.nan])
    with pytest.raises(AnalyzeError):
        ratio([1.0], [0.0], [0])
    with pytest.raises(AnalyzeError):
        ratio([1.0, 2.0], [1.0, 1.0], [0])


@pytest.mark.parametrize(("n", "rank"), [(6, 1), (8, 1), (9, 2), (10, 2), (20, 6), (25, 8), (100, 40)])
def test_median_interval_takes_the_tabled_order_statistics(n, rank):
    low, high = median_interval(np.arange(1.0, n + 1))
    assert (low, high) == (rank, n - rank + 1)


def test_median_interval_needs_six_and_joins_its_approximation():
    assert math.isnan(median_interval(np.arange(5.0))[0])
    low, high = median_interval(np.arange(1.0, 1002))
    assert low == pytest.approx(470, abs=1.5)
    assert high == pytest.approx(532, abs=1.5)


def test_precision_is_reached_or_given_a_caveat():
    s = summary(1e-3 * (1 + 0.01 * np.random.default_rng(0).standard_normal(40)))
    assert s.reached(0.02)
    assert not s.reached(1e-4)
    caveat = precision_caveat({"a": s}, 1e-4)
    assert "a " in caveat.how_much
    assert precision_caveat({"a": s}, 0.02) is None


def test_drift_is_seen_and_noise_is_not():
    noise = 0.005 * np.random.default_rng(3).standard_normal(100)
    assert drift(1 + noise + 0.02 * np.arange(100) / 100) == pytest.approx(0.0133, abs=0.004)
    assert drift(1 + noise) == drift(np.ones(20)) == drift([1.0, 2.0]) == 0.0


@pytest.mark.parametrize(
    ("low", "high", "n", "expected"),
    [
        (1.011, 1.2, 12, "faster"),
        (1.005, 1.2, 12, "inconclusive"),
        (0.8, 0.989, 12, "slower"),
        (0.8, 0.995, 12, "inconclusive"),
        (0.995, 1.005, 12, "same"),
        (1.002, 1.009, 12, "same"),
        (1.2, 1.3, 5, "inconclusive"),
        (1.2, 1.3, 6, "faster"),
        (math.nan, math.nan, 12, "inconclusive"),
    ],
)
def test_verdict_rule(low, high, n, expected):
    assert verdict(low, high, n) == expected


def rounds_of(values, per=3):
    return np.arange(len(values)) // per


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 30), st.integers(0, 99))
def test_ratio_mirrors_and_scales(rounds, seed):
    generator = np.random.default_rng(seed)
    a, b = generator.lognormal(0, 0.1, rounds * 3), generator.lognormal(0, 0.1, rounds * 3)
    where = rounds_of(a)
    one, other = ratio(a, b, where, resamples=200), ratio(b, a, where, resamples=200)
    assert one.value == pytest.approx(1 / other.value)
    assert one.low == pytest.approx(1 / other.high)
    mirror = {"faster": "slower", "slower": "faster"}
    assert other.verdict == mirror.get(one.verdict, one.verdict)
    assert one.low <= one.value <= one.high
    assert ratio(a * 7, b * 7, where, resamples=200).value == pytest.approx(one.value)


def test_ratio_is_exact_without_noise_and_deterministic():
    a, where = np.full(30, 3e-6), rounds_of(np.zeros(30))
    r = ratio(a, a / 1.5, where)
    assert (r.value, r.low, r.high, r.n, r.verdict) == (
        pytest.approx(1.5),
        pytest.approx(1.5),
        pytest.approx(1.5),
        10,
        "faster",
    )
    noisy = np.random.default_rng(0).lognormal(0, 0.05, 30)
    assert ratio(a * noisy, a, where) == ratio(a * noisy, a, where)


def test_ratio_uses_only_rounds_with_both_sides():
    r = ratio([2.0, 2.0, 9.0], [1.0, 1.0], [0, 1, 2], [0, 1])
    assert (r.value, r.n, r.verdict) == (2.0, 2, "inconclusive")
    assert ratio([1.0], [1.0], [0], [1]).n == 0
    assert math.isnan(ratio([], [], []).value)


# --- simulated measurements: what the verdict is worth -----------------------------------------------------------


def measured(generator, rounds, per, noise, drift_by, rho=0.0, sequential=False):
    """Times of two equal implementations as (time, who, round): 2 % outliers, linear drift over the whole measurement."""
    n = 2 * rounds * per
    error = generator.standard_normal(n)
    for i in range(1, n if rho else 1):
        error[i] = rho * error[i - 1] + math.sqrt(1 - rho**2) * error[i]
    time = (1 + noise * error) * (1 + drift_by * np.arange(n) / n)
    spikes = generator.random(n) < 0.02
    time[spikes] *= 1 + generator.exponential(0.3, spikes.sum())
    if sequential:
        return time, np.repeat([0, 1], rounds * per), np.tile(np.repeat(np.arange(rounds), per), 2)
    first = generator.integers(2, size=rounds)
    who = np.repeat(np.stack([first, 1 - first], axis=1).ravel(), per)
    return time, who, np.repeat(np.arange(rounds), 2 * per)


def rates(true, runs=200, rounds=34, per=3, noise=0.005, drift_by=0.02, rho=0.0, sequential=False):
    """Shares of verdicts, and under "differs" the share of intervals that exclude 1."""
    found = Counter()
    for seed in range(runs):
        time, who, where = measured(np.random.default_rng(seed), rounds, per, noise, drift_by, rho, sequential)
        time[who == 1] /= true
        r = ratio(time[who == 0], time[who == 1], where[who == 0], where[who == 1], resamples=500)
        found[r.verdict] += 1 / runs
        found["differs"] += (r.low > 1 or r.high < 1) / runs
    return found


@pytest.mark.parametrize("noise", [0.002, 0.005, 0.02, 0.05])
@pytest.mark.parametrize("rho", [0.0, pytest.param(0.8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rounds", [12, pytest.param(34, marks=pytest.mark.slow)])
def test_equal_sides_under_two_percent_drift_get_no_false_verdict(noise, rho, rounds):
    found = rates(1.0, noise=noise, rho=rho, rounds=rounds, runs=120)
    assert found["faster"] + found["slower"] <= 0.05
    assert found["differs"] <= 0.12
    if noise <= 0.005:
        assert found["same"] >= 0.95


def test_three_percent_is_found():
    assert rates(1.03)["faster"] >= 0.99
    assert rates(1 / 1.03)["slower"] >= 0.99
    assert rates(1.03, rounds=12)["faster"] >= 0.95
    assert rates(1.03, noise=0.02, rho=0.8)["faster"] >= 0.9


# --- several processes: an interval that holds for the next run ---------------------------------------------------


def of_processes(generator, count, between, *, noise=0.02, speedup=1.0, rounds=12):
    """(reference times, candidate times, rounds, processes): one ratio a process, noisy rounds of 3 in each."""
    shifts = np.exp(between * generator.standard_normal(count))
    process = np.repeat(np.arange(count), rounds * 3)
    x = np.exp(noise * generator.standard_normal(process.size))
    y = np.exp(noise * generator.standard_normal(process.size)) / (speedup * shifts[process])
    return x, y, np.repeat(np.arange(count * rounds), 3), process


# What the rounds of one process leave of its ratio, with the noise above.
EXPLAINED = 0.007


@pytest.mark.parametrize("between", [EXPLAINED, 3 * EXPLAINED, 10 * EXPLAINED])
def test_an_interval_of_two_processes_holds_though_they_may_agree_by_luck(between):
    generator, missed = np.random.default_rng(24), 0
    for _ in range(300):
        x, y, rounds, process = of_processes(generator, 2, between)
        whole = ratio(x, y, rounds, processes=process, resamples=400)
        missed += not whole.low <= 1.0 <= whole.high
    assert missed / 300 <= 0.07


@pytest.mark.parametrize("count", [3, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("between", [0.0, EXPLAINED, 10 * EXPLAINED])
def test_an_interval_over_processes_holds_for_the_next_run(count, between):
    generator = np.random.default_rng(20)
    held = alone = wrong = 0
    runs = 300
    for _ in range(runs):
        x, y, rounds, process = of_processes(generator, count, between)
        whole = ratio(x, y, rounds, processes=process, resamples=400)
        pooled = ratio(x, y, rounds, resamples=400)
        held += whole.low <= 1.0 <= whole.high
        alone += pooled.low <= 1.0 <= pooled.high
        wrong += whole.verdict in ("faster", "slower")
    assert 0.90 <= held / runs <= 0.995
    assert wrong / runs <= 0.05
    if between > EXPLAINED:
        assert alone / runs < 0.6


def test_a_true_difference_is_found_over_processes():
    generator = np.random.default_rng(22)
    found = sum(
        ratio(*data[:3], processes=data[3], resamples=400).verdict == "faster"
        for data in (of_processes(generator, 5, 0.005, speedup=1.05) for _ in range(100))
    )
    assert found >= 90


def test_it_is_said_which_part_of_the_width_is_between_processes():
    x, y, rounds, process = of_processes(np.random.default_rng(23), 5, 0.1)
    apart, together = ratio(x, y, rounds, processes=process), ratio(x, y, rounds)
    assert apart.processes == 5
    assert apart.precision > 5 * apart.within > 0
    assert (together.processes, together.within) == (1, together.precision)
    times = summary(y, rounds, process)
    assert times.processes == 5
    assert times.low <= times.median <= times.high
    assert times.within < times.precision / 3
    # More rounds would not help.
    assert times.reached(0.03)
    assert times.precision > 0.03


def test_without_rounds_to_resample_the_processes_decide_alone():
    whole = ratio([1.0, 1.1, 1.2], [1.0, 1.0, 1.0], [0, 1, 2], processes=[0, 1, 2])
    assert whole.processes == 3
    assert whole.within == 0.0
    assert whole.low < 1.0 < 1.1 < whole.high
    same = ratio([1.0] * 4, [2.0] * 4, [0, 1, 2, 3], processes=["a", "a", "b", "b"])
    assert (same.value, same.low, same.high) == pytest.approx((0.5, 0.5, 0.5))


def test_two_processes_that_agree_are_given_three_and_a_half_times_their_rounds():
    """_TWO: with less an interval of two processes would miss too often, with more it would be needlessly wide."""
    noise = np.exp(0.02 * np.random.default_rng(3).standard_normal(36))
    twice = ratio(np.tile(noise, 2), np.ones(72), np.repeat(np.arange(24), 3), processes=np.repeat([0, 1], 36))
    assert math.log(twice.high / twice.low) / 2 == pytest.approx(3.5 * twice.within)


@pytest.mark.parametrize(("name", "value", "text"), [("ratio", 2.5, "2.50x"), ("gain", 1.5, "150.0%")])
def test_each_convention_by_hand(name, value, text):
    assert speedup(5.0, 2.0, name) == pytest.approx(value)
    assert shown(speedup(5.0, 2.0, name), name) == text
    for old, new in ((0.0, 2.0), (5.0, 0.0), (math.nan, 2.0)):
        assert math.isnan(speedup(old, new, name))
    assert shown(math.nan, name) == "-"
    assert shown(3212.0, "ratio") == "3210x"


def of(value, width):
    return Ratio(value, value / width, value * width, n=20)


def test_the_mean_is_that_of_the_logarithms_and_known_better_than_each():
    shapes = [Shape(("a",), {}, {"x": of(2.0, 1.1)}), Shape(("b",), {}, {"x": of(8.0, 1.1)})]
    mean = geometric(shapes)["x"]
    assert mean.value == pytest.approx(4.0)
    assert math.log(mean.high / mean.value) == pytest.approx(math.log(1.1) / math.sqrt(2))
    assert mean.low * mean.high == pytest.approx(mean.value**2)


def test_who_is_missing_on_a_shape_has_no_mean_and_one_shape_has_none():
    one = Shape(("a",), {}, {"x": of(2.0, 1.1), "y": of(1.0, 1.1)})
    assert geometric([one, Shape(("b",), {}, {"x": of(2.0, 1.1)})]).keys() == {"x"}
    assert geometric([one]) == {}
    assert geometric([]) == {}


def test_a_shape_is_read_from_samples():
    rows = [
        (name, n, seconds) for n in range(12) for name, seconds in (("reference", 2e-3), ("x", 1e-3)) for _ in "abc"
    ]
    frame = pd.DataFrame(rows, columns=["impl", "round", "seconds"]).assign(method="wall", l2="warm")
    found = shape(["float32 [4]"], frame, "reference")
    assert found.times == {"reference": pytest.approx(2e-3), "x": pytest.approx(1e-3)}
    assert found.ratios["x"].value == pytest.approx(2.0)
    said = to_dict([found, found])
    assert said["rows"][0]["inputs"] == ["float32 [4]"]
    assert said["geometric_mean"]["x"]["value"] == pytest.approx(2.0)
