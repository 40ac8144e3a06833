"""The rounds of the timing engine, on a clock that is not one."""

import csv
import functools
from dataclasses import replace

import pytest

pytest.importorskip("torch")
from profkit.guest.clocks import timing


class FakeClock:
    method, note, l2, flush_bytes = "event", "fake", "cold", 0

    def __init__(self, unsound=()):
        self.calls, self.unsound = [], list(unsound)

    def warm_up(self, call):
        return 1

    def sample(self, call):
        seconds = call()
        self.calls.append(seconds)
        sound = not (self.unsound and self.unsound.pop(0))
        return seconds, seconds / 2, sound

    def state(self):
        return {"sm_clock": 1.98e9}


def measured(clock, **options):
    calls = {"reference": lambda: 2e-6, "candidate": lambda: 1e-6}
    return timing.measure(calls, clock, timing.Plan(1.0, 0.01), **options)


def test_every_round_visits_everybody_in_varying_order():
    order = []
    result = measured(FakeClock(), before=order.append)
    visits = order[2 :: timing.PER_ROUND]  # before every cold sample, so that each gets other data
    rounds = [tuple(visits[i : i + 2]) for i in range(0, len(visits), 2)]
    assert all(set(pair) == {"reference", "candidate"} for pair in rounds)
    assert len(set(rounds)) == 2
    assert result.rounds == timing.MIN_ROUNDS


def test_rows_say_what_they_are(tmp_path):
    file = tmp_path / "timings.csv"
    timing.write(measured(FakeClock()).samples, file)
    with file.open() as stream:
        rows = list(csv.DictReader(stream))
    assert {row["method"] for row in rows} == {"event"}
    assert {row["l2"] for row in rows} == {"cold"}
    assert {row["kept"] for row in rows} == {"1"}
    assert {row["busy"] for row in rows} == {""}
    assert float(rows[0]["sm_clock"]) == 1.98e9


def test_an_unsound_sample_is_taken_again_and_dropped_only_then():
    retried = measured(FakeClock(unsound=[True]))
    assert all(sample.kept for sample in retried.samples)
    stubborn = measured(FakeClock(unsound=[True] * (1 + timing.RETRIES)))
    assert sum(not sample.kept for sample in stubborn.samples) == 1


@pytest.mark.parametrize(
    ("seconds", "rounds", "late"), [(0.01, 12, 0), (0.15, 6, 0), (1.0, 6, 0), (2.5, 5, 0), (10.0, 3, 0), (10.0, 6, 6)]
)
def test_rounds_that_decide_get_more_time_than_others(monkeypatch, seconds, rounds, late):
    """The budget is 1 s; a round is two calls, PER_ROUND times, and once beyond the budget."""
    now = [0.0]

    class Slow(FakeClock):
        def sample(self, call):
            now[0] += seconds
            return super().sample(call)

    monkeypatch.setattr(timing.time, "monotonic", lambda: now[0])
    found = timing.measure({"a": lambda: 1, "b": lambda: 1}, Slow(), timing.Plan(1.0, 0.0, most=12, late=late))
    assert found.rounds == rounds


def test_slow_rounds_are_dropped_unless_slow_is_the_rule():
    sample = timing.Sample("a", "event", 0, 0, 1.0)
    clocks = [1.98e9, 1.98e9, 1.0e9]
    samples = [replace(sample, round=i, sm_clock=clock) for i, clock in enumerate(clocks)]
    assert [s.kept for s in timing.drop_slow_rounds(samples, 1.98e9)] == [1, 1, 0]
    slow = [replace(sample, round=i, sm_clock=clock) for i, clock in enumerate([1e9, 1e9, 1.98e9])]
    assert [s.kept for s in timing.drop_slow_rounds(slow, 1.98e9)] == [1, 1, 1]
    unknown = [replace(sample, round=i) for i in range(3)]
    assert [s.kept for s in timing.drop_slow_rounds(unknown, 1.98e9)] == [1, 1, 1]


def test_cupti_records_again_until_the_median_is_known(monkeypatch):
    from types import SimpleNamespace

    from profkit.guest.clocks import cupti
    from profkit.judge.timing import engine

    made = []

    def sample(calls, clock, *, target, budget, before, after, number):
        made.append(number)
        noise = 0.5 if len(made) < 3 else 0.0
        rounds = range(number * cupti.ROUNDS, (number + 1) * cupti.ROUNDS)
        rows = [timing.Sample("a", "cupti", i, 0, 1.0 + noise * (i % 2)) for i in rounds]
        return rows, {"a": []}

    monkeypatch.setattr(engine.cupti, "sample", sample)
    job = SimpleNamespace(budget=60.0, target=0.01)
    samples, _ = engine._judged(job, {}, None, lambda _: None, lambda _name, _round: None)
    assert 3 <= len(made) < engine.MOST_RECORDINGS
    assert len({s.round for s in samples}) == len(samples) == len(made) * cupti.ROUNDS
    made.clear()
    engine._judged(SimpleNamespace(budget=0.0, target=0.01), {}, None, lambda _: None, lambda _name, _round: None)
    assert len(made) == 1


@pytest.mark.parametrize(
    ("quotient", "rounds"), [(1.5, timing.DECIDING), (0.6, timing.DECIDING), (1.1, timing.MIN_ROUNDS)]
)
def test_what_is_far_apart_in_every_round_needs_fewer(quotient, rounds):
    calls = {"reference": lambda: 1e-3 * quotient, "mine": lambda: 1e-3}
    enough = functools.partial(timing.apart, reference="reference", by=0.2)
    found = timing.measure(calls, FakeClock(), timing.Plan(60.0, 0.0, enough=enough))
    assert found.rounds == rounds
    assert not timing.apart([], "reference", 0.2)
    nothing = [timing.Sample(name, "wall", 0, 0, took) for name, took in (("reference", 1.0), ("mine", 0.0))]
    assert timing.apart(nothing, "reference", 0.2)
