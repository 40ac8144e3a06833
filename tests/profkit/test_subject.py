"""Timed calls: the data is new in each, the output is looked at the moment its time is taken, any of them is compared."""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
import threading
import weakref

import pytest
import torch

from profkit.runner import integrity, pages, subject, timing
from profkit.runner.clocks import CpuClock
from profkit.runner.engine import _Comparing
from profkit.runner.failure import classified
from profkit.runner.offence import OffenceError
from profkit.runner.subject import Data, TimedCall


@pytest.fixture(autouse=True)
def sealed(prepared):
    with torch.no_grad():
        integrity.seal()
        yield
        integrity.restore()


def data(count=3, draw=lambda: [torch.randn(16, 16)]):
    return Data(draw, count)


@pytest.fixture(params=["drawn", "scaled"])
def source(request, monkeypatch):
    """Data whose sets are drawn anew at every turn, or too slow to be, and scaled."""
    if request.param == "scaled":
        monkeypatch.setattr(subject, "_HEAD_START", -1.0)
        monkeypatch.setattr(subject, "_DRAWING", 0.0)
        integrity.seal()
    return data()


def test_no_turn_brings_what_was_seen_before(source):
    seen = []
    call = TimedCall(lambda x: seen.append(float(x[3, 5])) or x * 2, source, lambda given: given[0] * 2)
    for _ in range(40):
        call.turn()
        call()
        call.recheck()
    assert len(set(seen)) == len(seen) == 40


def test_a_memo_by_one_element_is_never_of_use(source):
    known, hits = {}, []

    def remembers(x):
        key = float(x[0, 0])
        hits.append(key in known)
        return known.setdefault(key, x * 2).clone()

    call = TimedCall(remembers, source, lambda given: given[0] * 2)
    clock = CpuClock(cold=False)
    clock.warm_up(call)
    hits.clear()
    list(timing._visit("memo", call, clock, 0, lambda name: call.turn(), lambda name, number: None))
    assert hits == [False] * timing.PER_ROUND


def test_data_that_masks_or_counts_is_not_scaled(monkeypatch):
    monkeypatch.setattr(subject, "_HEAD_START", -1.0)
    monkeypatch.setattr(subject, "_DRAWING", 0.0)
    drawn = [torch.rand(8, 8), (torch.rand(8, 8) > 0.5).float(), torch.arange(8)]
    source = data(1, lambda: [leaf.clone() for leaf in drawn])
    for _ in range(5):
        source.turn()
    assert not torch.equal(source.now[0], drawn[0])
    assert bool((source.now[0] <= 1).all())
    assert torch.equal(source.now[1], drawn[1])
    assert torch.equal(source.now[2], drawn[2])


def test_what_is_drawn_before_the_timing_comes_by_chance_and_nothing_is_drawn_in_it():
    drawn = []

    def draw():
        drawn.append(torch.randn(4))
        return [drawn[-1]]

    source = data(2, draw)
    source.lay_in()
    ahead = len(drawn)
    assert ahead == 2 + subject._MOST_AHEAD
    fresh = [source.turn().fresh is not None for _ in range(60)]
    assert len(drawn) == ahead
    assert sum(fresh) == subject._MOST_AHEAD - subject._LOOKED_AT
    assert not all(fresh[: sum(fresh)])
    # A look at habits takes what was kept for it, and draws when that is used up.
    assert [source.drawn().fresh is not None for _ in range(3)] == [True] * 3
    assert len(drawn) == ahead + 1


def test_a_twin_has_the_same_data_and_goes_its_own_way():
    source = data(2)
    source.lay_in()
    twin = source.twin()
    assert all(torch.equal(one[0], other[0]) for one, other in zip(source.sets, twin.sets, strict=True))
    before = [one[0].clone() for one in twin.sets]
    for _ in range(40):
        source.turn()
    assert all(torch.equal(one[0], was) for one, was in zip(twin.sets, before, strict=True))
    assert len(twin._stock) == subject._MOST_AHEAD


def test_what_takes_long_to_draw_is_drawn_for_a_look_alone_and_what_is_large_not_at_all(monkeypatch):
    monkeypatch.setattr(subject, "_AHEAD", -1.0)
    slow = data(1)
    slow.lay_in()
    monkeypatch.setattr(subject, "_AHEAD", 1.0)
    monkeypatch.setattr(subject, "_STOCK", 1)
    large = data(1)
    large.lay_in()
    assert (len(slow._stock), len(large._stock)) == (subject._LOOKED_AT, 0)
    assert large.turn().fresh is None
    assert large.drawn().fresh is not None


def test_every_set_is_compared_sooner_or_later():
    source = data()
    homes: set[int] = set()

    def one_of_three(x):
        homes.add(x.data_ptr())
        return x * 2 if x.data_ptr() == min(homes) else x * 0

    calls = {"cheat": TimedCall(one_of_three, source, lambda given: given[0] * 2)}
    with pytest.raises(subject.ChangedResultError):
        timing.measure(
            calls,
            CpuClock(cold=False),
            budget=5.0,
            target=0.0,
            before=lambda name: calls[name].turn(),
            after=_Comparing(calls),
        )


def test_an_answer_to_what_was_asked_before_is_named():
    kept = []

    def stale(x):
        kept.append(x * 2)
        return kept[max(0, len(kept) - 2)].clone()

    source = data()
    call = TimedCall(stale, source, lambda given: given[0] * 2)
    call.turn()
    call()
    call.recheck()
    call.turn()
    call()
    with pytest.raises(subject.ChangedResultError) as caught:
        call.recheck()
    assert caught.value.status == "stops-computing"


def test_inputs_that_a_timed_call_changes_do_not_make_it_right():
    call = TimedCall(lambda x: x.zero_().clone(), data(), lambda given: given[0] * 2)
    call.turn()
    call()
    with pytest.raises(subject.ChangedResultError):
        call.recheck()


def test_work_that_goes_on_after_the_clock_has_stopped_is_seen():
    stopped, threads = threading.Event(), []

    def later(x):
        y = torch.empty_like(x)
        threads.append(threading.Thread(target=lambda: (stopped.wait(), y.copy_(x * 2))))
        threads[-1].start()
        return y

    call = TimedCall(later, data(), lambda given: given[0] * 2)
    call.turn()
    CpuClock(cold=False).sample(call)
    stopped.set()
    for thread in threads:
        thread.join()
    with pytest.raises(OffenceError) as caught:
        call.turn()
    assert caught.value.status == "works-after-return"


def test_nobody_knows_which_elements_are_looked_at(monkeypatch):
    output = torch.zeros(10_000)
    step = output.numel() // subject._WITNESSES
    turns = subject.Turns([[torch.zeros(1)]])
    monkeypatch.setattr(turns._chance, "random", lambda: 0.99)
    turns.output = output
    turns.witness()
    # Where one would look who looks at the same places every time, all was done in time.
    output[torch.arange(output.numel()) % step != 0] = 1.0
    with pytest.raises(OffenceError, match="changed after the call"):
        turns.settled()


def test_an_output_that_nobody_may_read_is_none():
    region = mmap.mmap(-1, 4096)
    at = ctypes.addressof(ctypes.c_char.from_buffer(region))
    output = torch.frombuffer(region, dtype=torch.float32)
    pages.refuse(output)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert libc.mprotect(at, 4096, 0) == 0
    try:
        with pytest.raises(OffenceError, match="nobody may read") as caught:
            pages.refuse([output])
    finally:
        libc.mprotect(at, 4096, 3)
    assert caught.value.status == "lazy-output"


def test_pages_are_looked_at_only_where_the_output_is():
    region = mmap.mmap(-1, 4096, prot=0)
    pages.refuse([torch.ones(4096), 3, None])
    region.close()


def test_who_is_told_that_its_answer_was_let_go_sees_no_new_data():
    seen = []
    call = TimedCall(lambda x: (given.append(x), x * 2)[1], Data(lambda: [torch.randn(4)], 1))
    given = []
    call()
    before = given[-1].clone()
    weakref.finalize(call.last, lambda: seen.append(given[-1].clone()))
    call.turn()
    assert torch.equal(seen[0], before)
    assert not torch.equal(given[-1], before)


def test_who_is_told_by_the_collector_sees_no_new_data():
    given, seen = [], []

    class Ring:
        def __init__(self):
            self.ring = self

        def __del__(self):
            seen.append(given[-1].clone())

    call = TimedCall(lambda x: (given.append(x), Ring(), x * 2)[-1], Data(lambda: [torch.randn(4)], 1))
    gc.collect()  # or what the call leaves may not be young any more when the turn comes
    call()
    before = given[-1].clone()
    call.turn()
    assert torch.equal(seen[0], before)
    assert not gc.isenabled()
    call()
    assert gc.isenabled()


def test_a_name_of_pythons_that_a_module_of_ours_gets():
    subject.zip = lambda *_, **__: ()
    with pytest.raises(OffenceError, match=r"replaces profkit\.runner\.subject\.zip; put back"):
        integrity.check()
    assert "zip" not in vars(subject)
    integrity.check()


class Hooked(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x: setattr(x, "__class__", Hooked), "is a .*Hooked now"),
        (lambda x: setattr(x, "copy_", print), "has a method of its own"),
    ],
)
def test_inputs_stay_plain_tensors(change, said):
    call = TimedCall(lambda x: (change(x), torch.zeros(4))[1], Data(lambda: [torch.randn(4)], 2))
    call.turn()
    call()
    with pytest.raises(OffenceError, match=said) as caught:
        call.turn()
    assert caught.value.status == "mutates-inputs"
    marked = TimedCall(lambda x: (setattr(x, "seen", True), x * 2)[1], Data(lambda: [torch.randn(4)], 2))
    for _ in range(3):
        marked.turn()
        marked()


def test_an_audit_hook_is_told_of_once():
    sys.addaudithook(lambda *_: None)
    with pytest.raises(OffenceError, match=r"replaces Python's audit hooks by one more, which stays$"):
        integrity.check()
    integrity.check()


class TestWhatIsKept:
    """Objects of profkit's in a candidate's process: what it puts into them is seen, and taken out."""

    @pytest.fixture
    def call(self):
        call = TimedCall(torch.relu, Data(lambda: [torch.randn(4)], 2))
        call.keep()
        yield call
        integrity.restore()
        integrity._SEAL.things.clear()

    def test_nothing_is_said_of_what_changes_lawfully(self, call):
        call.turn()
        call()
        integrity.check()

    def test_a_method_of_its_own(self, call):
        call.settled = lambda: None
        with pytest.raises(OffenceError, match=r"its timed call\.settled") as caught:
            integrity.check()
        assert caught.value.status == "patched"
        assert "settled" not in vars(call)

    def test_another_model_turns_of_another_kind(self, call):
        model, kind = call._model, type(call._turns)
        call._model = torch.zeros_like
        call._turns.__class__ = type("Quick", (kind,), {})
        with pytest.raises(OffenceError, match=r"its timed call\._model, the type of the turns"):
            integrity.check()
        assert call._model is model
        assert type(call._turns) is kind

    def test_what_is_in_a_dict(self, call):
        clocks = {"wall": 1}
        integrity.keep("clocks", clocks)
        clocks["wall"] = 2
        with pytest.raises(OffenceError, match="clocks"):
            integrity.check()
        assert clocks.pop("wall") == 1
        integrity._SEAL.tables.pop("clocks")


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
