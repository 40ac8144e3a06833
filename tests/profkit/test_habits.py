"""Work that is begun before it is asked for, and answers made out of those to like data: seen beside calls that cannot profit."""

from __future__ import annotations

import time

import pytest
import torch

from profkit.runner import busy, habits
from profkit.runner.habits import Look
from profkit.runner.offence import OffenceError
from profkit.runner.subject import Ahead, Data, TimedCall

CPU = torch.device("cpu")


@pytest.fixture
def load(monkeypatch):
    """How many times slower the machine is said to be."""
    said = [1.0]
    monkeypatch.setattr(busy.Watch, "slower", property(lambda _: said[0]))
    return said


def asked(*looks):
    """(what is doubted, how many looks were taken), of a candidate that shows these, the last of them again and again."""
    taken = []

    def look():
        taken.append(looks[min(len(taken), len(looks) - 1)])
        return taken[-1]

    return habits.refuse("mine", look, CPU), len(taken)


EVEN = Look([3e-3, 3e-3, 3e-3], [3e-3, 3e-3, 3e-3])


def test_one_look_is_enough_where_nothing_is_seen(load):
    assert asked(EVEN) == ([], 1)
    # A process that slept, threads that were asleep: calls made later are slower.
    assert asked(Look([1e-3, 4e-3, 1e-3], [1e-3, 1.5e-3, 1e-3])) == ([], 1)
    assert asked(Look([4e-5, 1e-5, 1e-5], [4e-5, 1e-5, 1e-5])) == ([], 1)


def test_threads_that_have_to_be_woken_are_no_habit(load):
    """Seen of an honest x * 2 + 1: 0.4 ms on new data, for which threads slept, 0.2 on data that they had just multiplied."""
    assert asked(Look([4e-4, 5e-4, 2e-4], [4e-4, 4e-4, 2e-4])) == ([], 1)


def test_threads_that_spin_after_the_copying_are_no_habit(load):
    assert asked(Look([3e-3, 3e-3, 3e-3], [48e-3, 3e-3, 48e-3])) == ([], 5)


def test_on_a_gpu_load_explains_what_the_clock_alone_says(load, monkeypatch):
    gpu, late = torch.device("cuda"), Look([1e-2, 5e-3, 1e-2], [0.0, 0.0, 0.0])
    load[0] = 9.0
    assert [one["code"] for one in habits.refuse("mine", lambda: late, gpu)] == ["busy"]
    load[0] = 1.0
    with pytest.raises(OffenceError, match="2 times"):
        habits.refuse("mine", lambda: late, gpu)


def test_work_begun_ahead_shows_in_short_calls_where_both_clocks_say_so(load):
    load[0] = 9.0
    assert asked(Look([4e-4, 1e-4, 4e-4], [4e-4, 4e-4, 4e-4])) == ([], 1)
    with pytest.raises(OffenceError) as caught:
        asked(Look([4e-4, 1e-4, 4e-4], [4e-4, 1e-4, 4e-4]))
    assert caught.value.status == "works-before-call"


def test_one_slow_call_is_chance(load):
    assert asked(Look([9e-3, 3e-3, 3e-3], [3e-3, 3e-3, 3e-3]), EVEN) == ([], 2)


@pytest.mark.parametrize(
    ("seconds", "status"), [([3e-3, 1e-3, 3e-3], "works-before-call"), ([3e-3, 3e-3, 1e-3], "caches-results")]
)
@pytest.mark.parametrize("by", ["wall", "cpu"])
def test_a_habit_is_called_by_its_name(load, seconds, status, by):
    even = [3e-3, 3e-3, 3e-3] if status == "caches-results" else [3e-3, 2e-3, 3e-3]
    with pytest.raises(OffenceError, match=r"\b3 times") as caught:
        asked(Look(seconds, even) if by == "wall" else Look(even, seconds))
    assert caught.value.status == status


def test_what_load_explains_is_a_doubt_and_seconds_of_a_core_it_does_not_explain(load):
    load[0] = 4.0
    (doubt,), _ = asked(Look([3e-3, 1e-3, 3e-3], [3e-3, 3e-3, 3e-3]))
    assert doubt["code"] == "busy"
    assert "busy machine" in doubt["how_much"]
    with pytest.raises(OffenceError):
        asked(Look([3e-3, 1e-3, 3e-3], [3e-3, 1e-3, 3e-3]))


def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_who_has_seen_the_data_before_is_quicker_later_or_on_their_like(monkeypatch):
    """The calls as they are really made, by seconds of a core: load changes nothing about them."""
    came = {}
    monkeypatch.setattr(habits, "_clock", habits._cpu_clock)
    monkeypatch.setattr(habits.time, "sleep", lambda seconds: came.update(long_ago=True))

    class Given(Data):
        def _drawn(self):
            came.update(long_ago=False, new=True)
            return super()._drawn()

        def scaled(self):
            came.update(long_ago=False, new=False)
            return super().scaled()

    def looks(quick):
        sets = Given(lambda: [torch.randn(8, 8)], 2)
        call = TimedCall(lambda x: (spin(1e-3 if quick() else 8e-3), x * 2)[1], sets)
        return lambda: habits.look(Ahead(call, sets.for_a_look()), CPU)

    for status, quick in (
        ("works-before-call", lambda: came["long_ago"]),
        ("caches-results", lambda: not came["new"]),
    ):
        with pytest.raises(OffenceError) as caught:
            habits.refuse("mine", looks(quick), CPU)
        assert caught.value.status == status
    assert habits.refuse("mine", looks(lambda: True), CPU) == []


def test_copies_of_the_data_are_none_of_the_call_that_follows(monkeypatch):
    """A GPU makes them on its own time; a call made at once would pay for them, and one made later not."""
    said = []

    class Call:
        def turn(self):
            said.append("turn")

        def __call__(self):
            said.append("call")

    monkeypatch.setattr(habits.facts, "settle", lambda _: said.append("settled"))
    habits.look(Call(), CPU)
    assert said == ["turn", "settled", "call", "settled"] * 4
