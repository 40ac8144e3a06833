"""What another process's clock makes of a claim; no process needed."""

import dataclasses
import math
from types import SimpleNamespace

import pytest

from analyzers.verdicts.verdict import brief

torch = pytest.importorskip("torch")
from profkit.guest.clocks.timing import Sample  # noqa: E402
from profkit.guest.subject import place  # noqa: E402
from profkit.judge.timing import outside  # noqa: E402

CPU, COUNT = torch.device("cpu"), 100


def exam(name, claimed, real, *, wait=5e-3):
    """An exam of calls that take `real` seconds, of which the process claims `claimed`."""
    return outside._exam(name, (claimed, 0.0), COUNT, [(wait + real, wait + real * (COUNT + 1))] * 7)


def bounds(*exams):
    return outside.bounds(list(exams), {"candidate": None}, outside.MARGIN["cpu"])


def test_an_honest_claim_stands():
    assert bounds(exam("reference", 1e-3, 0.9e-3), exam("candidate", 0.5e-3, 0.45e-3)) == {}
    assert bounds(exam("reference", 1e-3, 1e-3), exam("candidate", 5e-3, 1e-3)) == {}, "cold calls beside warm batches"
    assert bounds(exam("reference", 1e-6, 1e-3), exam("candidate", 1e-3, 1e-3)) == {}, "the reference is no suspect"


@pytest.mark.parametrize("claimed", [0.0, 1e-6, 0.3e-3])
def test_a_claim_that_no_batch_bears_out_is_raised(claimed):
    least = bounds(exam("reference", 1e-3, 1e-3), exam("candidate", claimed, 0.5e-3))["candidate"]
    assert least == pytest.approx(0.5e-3 / outside.MARGIN["cpu"], rel=0.01)
    rows = [
        Sample(impl, method, n, 0, claimed * (1 + n / 10), kept=n % 2)
        for impl in ("candidate", "other")
        for n in range(5)
        for method in ("wall", "graph")
    ]
    after = outside.raised(rows, "candidate", least)
    mine = [s.seconds for s in after if s.impl == "candidate" and s.method == "wall"]
    assert sorted(mine)[2] == pytest.approx(least)
    assert [s for s in after if s.impl == "other" or s.method == "graph"] == [
        s for s in rows if s.impl == "other" or s.method == "graph"
    ]


def test_as_much_as_the_reference_suffers_is_forgiven():
    assert bounds(exam("reference", 1e-3, 2e-3), exam("candidate", 0.5e-3, 1e-3)) == {}
    assert bounds(exam("reference", 1e-3, 2e-3), exam("candidate", 0.1e-3, 1e-3)).keys() == {"candidate"}


def test_what_is_said_names_both_times_and_a_load_that_may_explain_them():
    one = exam("candidate", 0.3e-3, 1e-3)
    said = outside.caveat(one, 0.9e-3, "")
    assert (said["code"], said["about"]) == ("outside", "candidate")
    assert said["how_much"].startswith("its process reports 300 us a call, from outside at least 99")
    load = "CPU contention 100% of the time (12.3 runnable tasks on 2 cores)"
    busy = outside.caveat(dataclasses.replace(one, claimed=0.01234), 0.9e-3, load)
    assert busy["code"] == "busy"
    assert brief(busy["how_much"]).endswith(load), "it stands whole in the verdict"


def test_the_least_of_the_deciding_methods_is_the_claim():
    rows = [
        Sample("a", method, n, 0, seconds, host=1e-5)
        for n in range(3)
        for method, seconds in (("event", 3e-6), ("cupti", 2e-6), ("graph", 1e-6), ("host", 9e-6))
    ]
    assert outside._claim(rows, "a") == (2e-6, 1e-5)


@pytest.mark.parametrize(("real", "raised"), [(0.4e-6, False), (1.2e-6, False), (4e-6, True)])
def test_less_than_a_timer_tells_is_no_claim(real, raised):
    """A call that launches nothing takes a little less than the pair of events round it."""
    one = dataclasses.replace(exam("candidate", -0.96e-6, real), tick=outside.TICK["cuda"], least=real)
    found = outside.bounds([exam("reference", 1e-3, 1e-3), one], {"candidate": None}, outside.MARGIN["cuda"])
    assert bool(found) == raised


@pytest.mark.parametrize("methods", [("event", "cupti"), ("cupti", "event")])
def test_a_method_that_saw_nothing_claims_nothing(methods):
    """CUPTI sees no kernel of a call that launches none."""
    rows = [
        Sample("a", method, n, 0, 3e-6 if method == "event" or n else math.nan) for method in methods for n in range(3)
    ]
    assert outside._claim(rows, "a") == (3e-6, 0.0)
    nothing = [Sample("a", method, n, 0, math.nan) for method in methods for n in range(3)]
    claim = outside._claim(nothing, "a")
    assert math.isnan(claim[0])
    assert outside._plan(SimpleNamespace(batch=lambda *_: 1.0), claim, torch.device("cpu"))[1] >= 1
    assert bounds(exam("reference", 1e-3, 1e-3), exam("candidate", math.nan, 1e-3)) == {}


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1e-4, 10.0])
def test_batches_are_bounded(seconds):
    for kind in ("cpu", "cuda"):
        call = SimpleNamespace(batch=lambda count, _: count * seconds)
        few, count, hold = outside._plan(call, (seconds, min(seconds, 1.0)), torch.device(kind))
        assert few == int(seconds < 1.0)
        assert 1 <= count <= outside._MOST_CALLS[kind]
        assert 0 < hold <= outside._MOST_HOLD


@pytest.mark.parametrize(("claimed", "rounds"), [(1e-3, 3), (0.1e-3, outside.ROUNDS)])
def test_more_rounds_are_for_those_of_whom_something_would_be_said(monkeypatch, claimed, rounds):
    seen = []

    class Call:
        def batch(self, count, hold):
            seen.append(count)
            return 1e-3 * count

    monkeypatch.setattr(outside, "_plan", lambda *_: (1, 10, 0.0))
    samples = [Sample("candidate", "wall", n, 0, claimed) for n in range(3)]
    (exam,) = outside.examine({"candidate": Call()}, samples, CPU, lambda _: None)
    assert len(exam.samples) == len(seen) / 2 == rounds


@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4)])
def test_every_element_has_a_place(shape):
    whole = torch.arange(torch.Size(shape).numel()).reshape(shape)
    assert [int(whole[place(n, whole.shape)]) for n in range(whole.numel())] == list(range(whole.numel()))


class Queue:
    """A candidate's process and a GPU that takes 1,024 launches ahead: `launches` a call, of `host` seconds each where they
    are launched and `device` seconds where they run.
    """

    def __init__(self, launches, host, device):
        self.launches, self.host, self.device = launches, host, device
        self.asked = []

    def batch(self, count, hold):
        self.asked.append(count)
        launched, ended = 0.0, [hold]
        for number in range(count * self.launches):
            room = ended[number + 1 - 1024] if number >= 1024 else 0.0
            launched = max(launched, room) + self.host
            ended.append(max(ended[-1], launched) + self.device)
        return 1e-4 + ended[-1]


def looked_at(call, claimed, host):
    cuda = torch.device("cuda")
    samples = [Sample("candidate", "event", n, 0, claimed, host=host) for n in range(3)]
    claim = outside._claim(samples, "candidate")
    few, count, hold = outside._plan(call, claim, cuda)
    rows = [(call.batch(few, hold), call.batch(few + count, hold))] * 7
    exam = outside._exam("candidate", claim, count, rows, outside.TICK["cuda"])
    below = bool(outside.bounds([exam], {"candidate": call}, outside.MARGIN["cuda"]))
    return below, below and outside.launching(exam, call, samples, cuda, lambda _: None)


@pytest.mark.parametrize("slower", [1.0, 3.0])
def test_launching_that_no_queue_hides_is_no_lie(slower):
    """768 kernels of 2.8 us: of two calls the queue does not hold all, so one is timed; a busy machine may launch late."""
    call = Queue(768, slower * 16e-6, 2.8e-6)
    late = slower > 1.5
    assert looked_at(call, 768 * 2.8e-6, 768 * 16e-6) == (late, late)
    assert 0 in call.asked


@pytest.mark.parametrize("host", [16e-6, 48e-6])
def test_who_claims_less_than_its_kernels_take_is_not_excused_by_launching(host):
    assert looked_at(Queue(768, host, 9e-6), 768 * 2.8e-6, 768 * 16e-6) == (True, False)


def test_who_launches_for_less_than_it_claims_to_compute_is_not_asked_again():
    call = Queue(4, 5e-6, 0.25e-3)
    assert looked_at(call, 1e-3, 2e-5) == (False, False)
    assert looked_at(call, 1e-4, 2e-5) == (True, False)
    assert 0 not in call.asked
