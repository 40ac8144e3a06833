"""Programs by their step: intervals of what nothing pairs, steps one by one, and when windows do not compare."""

from dataclasses import replace

import numpy as np
import pytest
from test_program_budget import loop

from analyzers.errors import AnalyzeError
from analyzers.timeline.budget import SLICES, budget
from analyzers.timeline.compare import FEWEST, MOST_UNPAIRED, SERIAL, Rung, compare_steps, each_step, unpaired


@pytest.fixture
def rng():
    """The same numbers whatever tests ran before."""
    return np.random.default_rng(20_261_122)


def taken(label="a", *, facts=None, edit=None, within="", **shape):
    """A program of `loop`'s shape; `edit` changes its launches."""
    work, calls = loop(**shape)
    if edit is not None:
        work, calls = edit(work), None
    found = budget(work, host=calls, within=within, passages=2 if within else 1)
    return Rung(label, found, each_step(work, found), within=within, facts=facts or {})


def without(name):
    return lambda work: work[work["kernel"] != name].reset_index(drop=True)


def unlike(work):
    """Nothing repeats."""
    return work.assign(kernel=[f"k{at}" for at in range(len(work))])


def longer(name, times):
    def edit(work):
        return work.assign(time=work["time"].where(work["kernel"] != name, work["time"] * times))

    return edit


def depending(rng, count, on, noise=0.03):
    """Values of which each is like the one before by `on`."""
    steps = rng.standard_normal(count + 30)
    for at in range(1, count + 30):
        steps[at] = on * steps[at - 1] + np.sqrt(1 - on * on) * steps[at]
    return np.exp(noise * steps[30:])


@pytest.mark.parametrize(("n", "m", "on"), [(4, 4, 0.7), (5, 5, 0.4), (8, 8, 0.4), (10, 12, 0.7), (20, 20, 0.0)])
def test_equal_programs_are_seldom_told_apart(rng, n, m, on):
    """However much steps depend on those before them, up to 0.7."""
    found = [unpaired(depending(rng, n, on), depending(rng, m, on)) for _ in range(120)]
    assert sum(not one.low <= 1 <= one.high for one in found) <= 12
    assert sum(one.verdict in ("faster", "slower") for one in found) <= 6


def test_a_difference_beyond_the_spread_is_told_and_mirrors(rng):
    before, after = depending(rng, 20, 0.3), depending(rng, 20, 0.3) / 1.2
    found, back = unpaired(before, after), unpaired(after, before)
    assert (found.verdict, back.verdict) == ("faster", "slower")
    assert found.low < 1.2 < found.high
    assert (1 / back.high, 1 / back.low) == pytest.approx((found.low, found.high))
    assert unpaired(before, before * 1.0001).verdict in ("same", "inconclusive")
    assert unpaired(np.full(12, 1.0), np.full(12, 1.001)).verdict == "same"


def test_few_steps_have_to_lie_apart_by_more_than_they_differ():
    assert unpaired([1.0, 1.1, 1.05, 1.02], [0.9, 0.92, 0.95, 0.97]).verdict == "inconclusive"
    assert unpaired([1.0, 1.1, 1.05, 1.02], [0.5, 0.52, 0.55, 0.51]).verdict == "faster"
    assert FEWEST == 4 < SERIAL
    alone = unpaired([2.0, 2.0, 2.0], [1.0, 1.0, 1.0])
    assert (alone.value, alone.verdict) == (2.0, "inconclusive")
    assert np.isnan(alone.low)
    with pytest.raises(AnalyzeError, match="not above 0"):
        unpaired([1.0, 0.0], [1.0, 1.0])


def test_many_steps_are_as_quick(rng):
    before = depending(rng, 40 * MOST_UNPAIRED, 0.0)
    found = unpaired(before, before / 1.05)
    assert (found.n, found.verdict) == (MOST_UNPAIRED, "faster")


def test_steps_one_by_one_add_up_to_the_window():
    work, calls = loop(hole=300.0, apart=40.0, steps=9)
    found = budget(work, host=calls)
    steps = each_step(work, found)
    assert len(steps.lengths) == len(steps.busy) == found.steady.steps
    assert steps.lengths.sum() == pytest.approx(found.window)
    assert steps.busy.mean() == pytest.approx(found.busy)
    spent = {(one.name, one.kind): one.time for one in found.spent}
    sums = dict(zip(zip(steps.work["name"], steps.work["kind"], strict=True), steps.times.sum(axis=1), strict=True))
    assert sums == pytest.approx(spent)
    assert float(steps.work["count"].sum()) * found.parts == found.launches + found.copies + found.fills


def test_steps_of_launches_out_of_order_are_the_same():
    work, calls = loop(steps=9)
    mixed = work.iloc[::-1]
    again = each_step(mixed, budget(mixed, host=calls))
    np.testing.assert_allclose(again.lengths, each_step(work, budget(work, host=calls)).lengths)


def test_what_appeared_is_gone_slower_and_faster():
    before, after = taken(steps=12), taken("b", steps=12, edit=longer("sgd", 3.0))
    gone = taken("c", steps=12, edit=without("sgd"))
    found = compare_steps([before, after, gone, after])
    words = [{one.name: one.word for one in rung.pieces} for rung in found.rungs]
    assert [one.get("sgd") for one in words] == [None, "slower", "gone", "appeared"]
    sgd = next(one for one in found.rungs[1].pieces if one.name == "sgd")
    assert found.rungs[1].pieces[0] is sgd  # the largest change is first
    assert (sgd.count_before, sgd.count_after) == (1.0, 1.0)
    assert sgd.ratio.value == pytest.approx(1 / 3)
    assert "same" in words[1].values()


def test_the_parts_of_a_step_add_up_to_it():
    one = taken(hole=300.0, apart=40.0)
    assert sum(one.part(kind) for kind in SLICES) == pytest.approx(one.budget.step)


def test_the_gate_fails_for_what_is_slower_for_sure_alone():
    before, slower = taken(steps=12, apart=40.0), taken("b", steps=12, apart=48.0)
    found = compare_steps([before, slower])
    rung = found.rungs[1]
    assert rung.verdict == "slower"
    assert found.regressions(0.05) == [rung]
    assert found.regressions(0.5) == []
    assert found.inconclusive(0.5) == []
    unsure = replace(
        found,
        rungs=(found.rungs[0], replace(rung, since=replace(rung.since, low=0.5, high=1.2, verdict="inconclusive"))),
    )
    assert unsure.regressions(0.05) == []
    assert unsure.inconclusive(0.05) == list(unsure.rungs[1:])
    assert unsure.inconclusive(1.5) == []


def test_windows_that_are_not_alike_have_no_speed_up():
    steps, record = taken(steps=12), taken("b", edit=unlike)
    found = compare_steps([steps, record])
    assert found.apart == ("window",)
    assert np.isnan(found.rungs[1].since.value)
    assert found.rungs[1].pieces == ()
    assert found.caveats[0].how_much == "a: 11 steps; b: the whole record, without repeating steps"
    assert found.to_dict()["steps"][1]["total"]["ratio"] is None
    same = compare_steps([record, replace(record, label="c")])
    assert (same.apart, same.rungs[1].since.value, same.rungs[1].verdict) == ((), 1.0, "inconclusive")
    assert same.unknown == ("c",)
    assert "too-few-steps" in {one.code for one in same.caveats}


def test_passages_compare_with_those_of_the_same_range():
    def ranged(name):
        return lambda work: work.assign(range=name)

    one, other = taken(edit=ranged("train"), within="train"), taken("b", edit=ranged("eval"), within="eval")
    assert compare_steps([one, replace(one, label="c")]).apart == ()
    assert compare_steps([one, other]).apart == ("window",)


def test_a_gain_that_a_profilers_cost_of_launches_explains_is_inconclusive():
    before, after = taken(apart=20.0), taken("b", apart=50.0, launches=10)
    slowed = [replace(one, slowed=True) for one in (before, after)]
    assert compare_steps([before, after]).rungs[1].verdict == "faster"
    since = compare_steps(slowed).rungs[1].since
    assert (since.verdict, since.value, since.low) == ("inconclusive", *[pytest.approx(2.0, rel=0.1)] * 2)
    assert since.value * since.slack < 1


def test_other_work_is_told():
    def renamed(work):
        return work.assign(kernel=["x" + name for name in work["kernel"]])

    found = compare_steps([taken(), taken("b", edit=renamed)])
    assert "other-work" in {one.code for one in found.caveats}
    training = taken(edit=lambda work: work.assign(range="Optimizer.step#SGD.step"))
    stranger = compare_steps([training, taken("b", edit=renamed)])
    assert (stranger.apart, stranger.rungs[1].verdict, stranger.rungs[1].pieces) == (("program",), "not-comparable", ())
    assert compare_steps([training, taken("b")]).apart == ()
    with pytest.raises(AnalyzeError, match="two programs"):
        compare_steps([taken()])
