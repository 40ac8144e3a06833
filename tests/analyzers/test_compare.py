"""Comparison of runs as a ladder."""

import math
from dataclasses import replace

import pytest

from analyzers.compare import Step, compare
from analyzers.errors import AnalyzeError

FACTS = {"device": "H200", "sample": "A", "method": "event", "l2": "cold", "sm_clock": 1.98e9}


def step(label, time, impl="cuda", facts=FACTS, **row):
    numbers = {"time": time, "time_low": time * 0.99, "time_high": time * 1.01, "bound_by": "dram", **row}
    return Step(label, impl, numbers, {}, facts, {"cuda.py": label})


def test_a_ladder():
    ladder = compare([step("a", 1e-3, bytes=4e9), step("b", 5e-4, bytes=2e9), step("c", 4.99e-4, bytes=2e9)])
    first, second, third = ladder.rungs
    assert (second.step, second.total, second.verdict) == (2.0, 2.0, "faster")
    assert second.changed == ("cuda.py",)
    assert [(m.name, m.before, m.after) for m in second.moved] == [("bytes", 4e9, 2e9)]
    assert third.verdict == "inconclusive"
    assert third.moved == ()
    assert first.total == 1.0
    assert ladder.caveats == ()
    assert ladder.regressions(0.05) == []
    assert ladder.to_dict()["convention"]["formula"] == "old / new"


def test_against_the_reference_of_its_run_a_step_has_that_runs_speed_up():
    """The medians' quotient was 2.87x where the run's page says 2.86x."""
    own = {"speedup": 2.86, "speedup_low": 2.855, "speedup_high": 2.88, "verdict": "inconclusive"}
    own |= {f"caller_{name}": value - 1 for name, value in own.items() if name != "verdict"}
    reference = replace(step("reference", 462e-6, "reference", verdict="reference"), run="r")
    candidate = replace(step("cuda", 161e-6, **own), run="r")
    rung = compare([reference, candidate]).rungs[1]
    assert (rung.step, rung.low, rung.high, rung.total, rung.verdict) == (2.86, 2.855, 2.88, 2.86, "inconclusive")
    assert (rung.caller.value, rung.caller.low) == pytest.approx((1.86, 1.855))
    assert compare([reference, replace(candidate, run="s")]).rungs[1].step == pytest.approx(462 / 161)
    assert compare([candidate, reference]).rungs[1].step == pytest.approx(161 / 462)


def test_the_callers_clock_is_told_where_the_devices_says_same():
    """ "same" by the device's clock hid 9.44x by the caller's."""
    waits = {"caller_time": 80e-6, "caller_time_low": 79e-6, "caller_time_high": 81e-6}
    rung = compare(
        [step("a", 2e-6, **waits), step("b", 2e-6, **{name: one / 9.44 for name, one in waits.items()})]
    ).rungs[1]
    assert (rung.since.value, rung.caller.value, rung.caller.verdict) == (1.0, pytest.approx(9.44), "faster")


def test_launches_are_compared_with_launches():
    """Eight launches of a kernel and one of it were 8.16x apart, of 57.9 and 56.8 ms each."""
    eight, one = (replace(step(str(n), n * 57e-3, kernels=n), kernel={"kernel": "k"}) for n in (8, 1))
    ladder = compare([eight, one])
    assert ladder.rungs[1].step == ladder.rungs[1].total == pytest.approx(1.0)
    assert [caveat.code for caveat in ladder.caveats] == ["launches"]
    assert ladder.caveats[0].how_much == "8: 8, 1: 1"
    timed = [replace(each, row={**each.row, "n": 12.0}) for each in (eight, one)]
    assert compare(timed).rungs[1].step == pytest.approx(8.0)


def test_regressions_are_against_the_first_step():
    ladder = compare([step("a", 1e-3), step("b", 1.04e-3), step("c", 1.08e-3)])
    assert [rung.label for rung in ladder.regressions(0.05)] == ["c"]


def test_beside_load_no_step_is_plainly_slower_or_faster():
    """Two runs of one file on a busy machine were 0.272x slower, the other way round 3.68x faster."""
    for times in ((1e-3, 3.7e-3), (3.7e-3, 1e-3)):
        quiet = [step("a", times[0]), step("b", times[1])]
        busy = compare([replace(one, loaded=14.5) for one in quiet])
        assert (busy.rungs[1].verdict, busy.regressions(0.05), busy.inconclusive(0.05)) == (
            "inconclusive",
            [],
            [busy.rungs[1]],
        )
        assert compare(quiet).rungs[1].verdict != "inconclusive"
    # Load lengthens a time: what is slower than a time beside load is slower still.
    assert compare([replace(step("a", 1e-3), loaded=14.5), step("b", 3.7e-3)]).regressions(0.05)


@pytest.mark.parametrize(
    ("fact", "value", "apart"),
    [
        ("device", "A100", ["device"]),
        ("sm_clock", 1.4e9, ["sm_clock"]),
        ("driver", "1", []),
        ("inputs", "float32 [2]", ["inputs"]),
        ("method", "ncu", ["method"]),
    ],
)
def test_unlike_runs_are_told_apart(fact, value, apart):
    facts = {**FACTS, "driver": "2", "inputs": "float32 [1]"}
    ladder = compare([step("a", 1e-3, facts=facts), step("b", 1e-3, facts={**facts, fact: value})])
    assert list(ladder.apart) == apart
    assert len(ladder.caveats) == 1
    assert "a: " in ladder.caveats[0].how_much
    # A clock explains a difference up to its own; whatever else counts in a time leaves nothing to compare.
    comparable = fact in ("sm_clock", "driver")
    assert (ladder.rungs[1].verdict == "not-comparable", math.isnan(ladder.rungs[1].step)) == (not comparable,) * 2


def test_what_cannot_be_compared():
    with pytest.raises(AnalyzeError, match="two steps"):
        compare([step("a", 1e-3)])
    with pytest.raises(AnalyzeError, match="no time"):
        compare([step("a", 1e-3), step("b", float("nan"))])
