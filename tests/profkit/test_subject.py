"""Timed calls: the data is new in each, the memory of every answer is spoiled, any of them is compared."""

import threading
import weakref

import pytest
import torch

from profkit.guest import subject
from profkit.guest.clocks import timing
from profkit.guest.clocks.clocks import CpuClock
from profkit.guest.implementation import classified
from profkit.guest.subject import Data, TimedCall
from profkit.guest.tensors.compare import Verdict, close
from profkit.judge.timing.engine import _Comparing


@pytest.fixture(autouse=True)
def no_graphs():
    with torch.no_grad():
        yield


def data(count=3, draw=lambda: [torch.randn(16, 16)]):
    return Data(draw, count, double, judged)


def timed(model, **options):
    mine = data()
    call = TimedCall(model, mine.turn, **options)
    call.recheck = lambda: mine.check(call.last)
    return call


def double(given):
    return given[0] * 2


def judged(given, want, got):
    return Verdict("ok" if close(got, want, 13.0) else "mismatch", "off")


def asked(model, turns=1, **options):
    """A call of the model after so many turns, each called; the last output is compared."""
    call = timed(model, **options)
    call.wanted = True
    for _ in range(turns):
        call.turn()
        CpuClock(cold=False).sample(call)
        call.recheck()
    return call


def test_no_turn_brings_what_was_seen_before():
    seen = []
    asked(lambda x: seen.append(float(x.sum())) or x * 2, 40)
    assert len(set(seen)) == len(seen) == 40


def test_every_set_is_compared_sooner_or_later():
    homes: set[int] = set()

    def one_of_three(x):
        homes.add(x.data_ptr())
        return x * 2 if x.data_ptr() == min(homes) else x * 0

    calls = {"cheat": timed(one_of_three)}
    after = _Comparing(calls)
    after.compared = calls

    def before(name):
        calls[name].turn()
        after.choose(name)

    with pytest.raises(subject.ChangedResultError):
        timing.measure(calls, CpuClock(cold=False), timing.Plan(5.0, 0.0), before, after)


KEPT: list[torch.Tensor] = []


def stale(x):
    KEPT.append(x * 2)
    return KEPT[max(0, len(KEPT) - 2)].clone()


def kept(x):
    """The output of before, of which it writes half."""
    KEPT.append(KEPT[0] if KEPT else x * 2)
    KEPT[0][:8] = x[:8] * 2
    return KEPT[0]


class Buffered(torch.nn.Module):
    """Its output is an attribute; what it does not write anew is what it was."""

    def forward(self, x):
        self.output = getattr(self, "output", torch.zeros(16, 16))
        self.output[:8] = x[:8] * 2
        return self.output


def unwritten(x):
    """The allocator's memory, in which an answer lay before."""
    return torch.empty_like(x)


@pytest.mark.parametrize("model", [stale, kept, Buffered(), unwritten, lambda x: x.zero_().clone()])
def test_what_is_kept_or_not_written_is_wrong(model):
    KEPT.clear()
    with pytest.raises(subject.ChangedResultError) as caught:
        asked(model, 3)
    assert caught.value.status == "stops-computing"


class Table(torch.nn.Module):
    """Part of its answer is what it holds, which the reference holds too or not."""

    def __init__(self):
        super().__init__()
        self.register_buffer("held", torch.ones(4))
        self.table = torch.ones(4)

    def forward(self, x):
        return x * 2, self.held, self.table


def test_weights_and_what_the_reference_holds_too_are_not_spoiled():
    model = Table()
    for own, left in ((["table"], True), ([], False)):
        subject.spoil(model(torch.randn(4)), model, own)
        assert model.held.equal(torch.ones(4))
        assert model.table.equal(torch.ones(4)) == left
    x = torch.ones(4)
    subject.spoil((x, x[:2], None, 3), None, (), but=[x])
    assert x.equal(torch.ones(4))


class Late(torch.Tensor):
    """Does its work when somebody looks."""

    @classmethod
    def __torch_function__(cls, function, types, given=(), keywords=None):
        LOOKED.append(function)
        with torch._C.DisableTorchFunctionSubclass():
            return function(*given, **(keywords or {})).as_subclass(torch.Tensor) * 2


LOOKED: list[object] = []


def test_what_an_output_puts_off_is_done_in_the_call():
    LOOKED.clear()
    call = TimedCall(lambda x: [x.as_subclass(Late), (torch.nn.Parameter(x),)], data().turn)
    call.turn()
    output = call()
    assert LOOKED
    assert [type(output[0]), type(output[1][0])] == [torch.Tensor] * 2


def test_an_answer_is_what_it_was_when_its_time_had_been_taken():
    stopped, threads = threading.Event(), []

    def later(x):
        y = torch.empty_like(x)
        threads.append(threading.Thread(target=lambda: (stopped.wait(), y.copy_(x * 2))))
        threads[-1].start()
        return y

    call = timed(later)
    call.turn()
    call.wanted = True
    CpuClock(cold=False).sample(call)
    stopped.set()
    for thread in threads:
        thread.join()
    with pytest.raises(subject.ChangedResultError):
        call.recheck()


def test_who_is_told_that_its_answer_was_let_go_sees_no_new_data():
    seen, given = [], []
    call = TimedCall(lambda x: (given.append(x), x * 2)[1], data(1).turn)
    call.turn()
    call()
    before = given[-1].clone()
    weakref.finalize(call.last, lambda: seen.append(given[-1].clone()))
    call.turn()
    assert torch.equal(seen[0], before)
    assert not torch.equal(given[-1], before)


def test_no_context_is_lost_where_none_was_made(monkeypatch):
    """torch's words for what a layout cannot do name CUDA, and a CUDA torch without a GPU cannot wait for one."""

    def no_gpu(*_):
        raise RuntimeError("No CUDA GPUs are available")

    monkeypatch.setattr("torch.cuda.synchronize", no_gpu)
    with pytest.raises(NotImplementedError, match="AutogradCUDA") as found:
        torch.eye(4).to_sparse().as_strided((4,), (1,))
    assert not classified(found.value, "error").lost
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    assert classified(RuntimeError("CUDA error: an illegal memory access was encountered"), "error").lost


def test_what_a_model_puts_onto_its_inputs_is_not_told_of_new_data():
    told = []

    def hooks(x):
        x.copy_ = told.append
        x.__class__ = Late
        return x.as_subclass(torch.Tensor) * 2

    asked(hooks, 5)
    assert told == []
