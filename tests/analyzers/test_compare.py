"""Ladders, the four conventions, and slips in published tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.compare import Step, compare
from analyzers.errors import AnalyzeError
from analyzers.verdicts.speedup import conventions_of, follows, printed, shown, speedup
from profkit.contests.hackathon.encoder_table import read
from profkit.contests.hackathon.slips import check_evaluation

CONTEST = Path(__file__).parents[1] / "data/contest"
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


@pytest.mark.parametrize(
    ("fact", "value", "apart"),
    [
        ("device", "A100", ["device"]),
        ("sm_clock", 1.4e9, ["sm_clock"]),
        ("driver", "1", []),
        ("method", "ncu", ["method"]),
    ],
)
def test_unlike_runs_are_told_apart(fact, value, apart):
    before = step("a", 1e-3, facts={**FACTS, "driver": "2"})
    ladder = compare([before, step("b", 1e-3, facts={**FACTS, "driver": "2", fact: value})])
    assert list(ladder.apart) == apart
    assert len(ladder.caveats) == 1
    assert "a: " in ladder.caveats[0].how_much


def test_what_cannot_be_compared():
    with pytest.raises(AnalyzeError, match="two steps"):
        compare([step("a", 1e-3)])
    with pytest.raises(AnalyzeError, match="no time"):
        compare([step("a", 1e-3), step("b", float("nan"))])


TIMES = st.floats(1e-7, 1e3)


@given(TIMES, TIMES)
def test_conventions_say_the_same_thing(old, new):
    ratio = speedup(old, new)
    assert speedup(old, new, "gain") == pytest.approx(ratio - 1, abs=1e-9)
    assert speedup(old, new, "saved") == pytest.approx(1 - 1 / ratio)
    assert speedup(old, new, "percent") == ratio


@given(TIMES, TIMES, st.integers(0, 5), st.sampled_from(["gain", "saved", "percent"]))
def test_honest_rounding_is_no_slip(old, new, places, convention):
    result = printed(f"{speedup(old, new, convention):.{places}%}")
    cells = [printed(f"{value:.{places}e}") for value in (old, new)]
    assert convention in conventions_of(*cells, result)


def test_printed_numbers_keep_their_rounding():
    assert (printed("1.585").low, printed("1.585").high) == pytest.approx((1.5845, 1.5855))
    assert printed("1.010e+04").half == pytest.approx(5)
    assert printed("faster than 58.597%").value == pytest.approx(0.58597)
    assert follows(printed("1.010e+04"), lambda lt: 16 / lt * 1000, (printed("1.585"),))
    assert not follows(printed("1.020e+04"), lambda lt: 16 / lt * 1000, (printed("1.585"),))


def test_the_ladder_of_the_third_place_is_by_throughput():
    """Step gains follow from queries a second, not from the latencies beside them."""
    rows = [(22.3029, 26.5501, "19.04%"), (26.5501, 57.9584, "118.30%"), (57.9584, 59.1553, "2.07%")]
    for old, new, result in rows:
        # Throughput is the reciprocal of a time: its gain is the gain of times exchanged.
        assert "gain" in conventions_of(printed(f"{new:.4f}"), printed(f"{old:.4f}"), printed(result))
    assert "gain" not in conventions_of(printed("46.2253"), printed("39.5283"), printed("19.04%"))
    assert shown(speedup(70.4344, 22.3029, "percent"), "percent") == "315.8%"


def test_evaluation_tables():
    assert check_evaluation(read(CONTEST / "eval_encoder.txt")) == []
    slips = check_evaluation(read(CONTEST / "eval_variants.txt"))
    assert [(slip.printed, slip.recomputed) for slip in slips] == [("9.000e+01", "1.000e+02")]
    (part,) = read(CONTEST / "eval_variants.txt")
    strict = [replace(part, targets={})]
    assert ("Good", "Bad") in [(s.printed, s.recomputed) for s in check_evaluation(strict)]
