"""Checked calls, one model at a time, without a runner."""

from __future__ import annotations

import _thread
import builtins
import contextlib
import ctypes
import functools
import math
import mmap
import queue
import re
import statistics
import sys
import threading
import time
from collections import namedtuple
from typing import ClassVar

import pytest
import torch

from profkit.runner import busy, conduct, inputs, integrity, lazy, leftovers, prober, settings
from profkit.runner.check import compare, identical
from profkit.runner.conduct import Watched
from profkit.runner.offence import OffenceError
from profkit.runner.prober import Probe
from profkit.runner.trials import Trials, added, left

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def sealed(prepared):
    with torch.no_grad():
        integrity.seal()
        yield
        integrity.restore()


def asked(model, seeds=range(5), reference=None, probe=None, size=(16, 16)):
    """The last verdict of these trials; an offence is raised."""
    watched = Watched(model, CPU, "candidate", None)
    watched.kinds = (probe or Probe()).kinds
    trials = Trials(lambda given: watched(*given), lambda given: (reference or model)(*given), probe or Probe())
    verdict = None
    for seed in seeds:
        torch.manual_seed(seed)
        verdict = trials.on([torch.randn(*size)], seed)
        if verdict.status != "ok":
            break
    return verdict


def test_both_sides_draw_the_same_random_numbers():
    assert asked(lambda x: x + torch.rand(16, 16)).status == "ok"
    late = asked(lambda x: (torch.rand(1), x + torch.rand(16, 16))[1], reference=lambda x: x + torch.rand(16, 16))
    assert late.status == "mismatch"


def test_the_candidate_is_asked_first():
    order = []
    asked(
        lambda x: order.append("candidate") or x * 2,
        [0],
        reference=lambda x: order.append("reference") or x * 2,
    )
    assert order.index("reference") == len(order) - 1


def test_changed_inputs_are_named_unless_the_reference_changes_them_too():
    assert asked(lambda x: x.mul_(2), reference=lambda x: x * 2).status == "mutates-inputs"
    both = Probe(mutates=True)
    assert asked(lambda x: x.mul_(2), probe=both).status == "ok"
    elsewise = asked(lambda x: (x * 2, x.zero_())[0], reference=lambda x: x.mul_(2), probe=both)
    assert elsewise.status == "mismatch"
    assert "leaves other values in its inputs" in elsewise.what


def test_an_answer_of_the_trial_before_is_no_mismatch_but_named():
    known = []

    def remembers(x):
        known.append(x * 2)
        return known[0].clone()

    verdict = asked(remembers, reference=lambda x: x * 2)
    assert verdict.status == "caches-results"


@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16])
def test_answers_of_changing_precision_are_no_memory(narrow):
    """As of a candidate that times FP32 against a half type in every call and takes whichever was faster."""
    precisions = iter([torch.float32] * 3 + [narrow, torch.float32] * 9)

    def tunes(x):
        chosen = next(precisions)
        return (x.to(chosen) @ x.to(chosen)).float()

    with pytest.raises(OffenceError, match=r"change from call to call \(2 of 4 more were right\)") as caught:
        asked(tunes, reference=lambda x: x @ x)
    assert caught.value.status == "mismatch"
    assert "of 256 elements differ, the worst by" in str(caught.value)


@pytest.mark.parametrize("kept", [1, 3, 16])
def test_a_memory_by_address_is_named_whatever_part_of_the_answer_it_keeps(kept):
    known = {}

    def remembers(x):
        answer = x @ x
        # The tensor is kept as well: nothing else is ever at its address.
        _, old = known.setdefault(x.data_ptr(), (x, answer.clone()))
        answer[:kept] = old[:kept]
        return answer

    with pytest.raises(OffenceError, match=r"^(right on new tensors|other data got)") as caught:
        asked(remembers, reference=lambda x: x @ x)
    assert caught.value.status == "caches-results"


def test_an_answer_far_off_that_comes_and_goes_is_no_memory():
    """As of a kernel with a race: clones come out wrong as well, and the same tensors right."""
    wrong = iter([False] * 3 + [True, False, False, True] + [False] * 9)
    with pytest.raises(OffenceError, match=r"change from call to call \(3 of 4 more were right\)") as caught:
        asked(lambda x: x @ x + float(next(wrong)), reference=lambda x: x @ x)
    assert caught.value.status == "mismatch"


def test_a_memory_that_a_clone_met_as_well_is_one():
    """A clone lay where a remembered tensor had been; the same tensors give the same wrong answer again."""
    wrong = iter([False] * 3 + [True, True, False, False, False, True])
    with pytest.raises(OffenceError, match="right on new tensors") as caught:
        asked(lambda x: x @ x + float(next(wrong)), reference=lambda x: x @ x)
    assert caught.value.status == "caches-results"


def test_data_seen_before_must_not_be_answered_faster():
    seen = set()

    def slow_at_first(x):
        key = x.numpy().tobytes()
        if key not in seen:
            time.sleep(2e-3)
            seen.add(key)
        return x * 2

    with pytest.raises(OffenceError, match="times faster") as caught:
        asked(slow_at_first)
    assert caught.value.status == "caches-results"


def test_data_seen_before_times_a_factor_must_not_be_answered_faster(monkeypatch):
    monkeypatch.setattr(busy.Watch, "slower", 1.0)
    integrity.seal()
    seen = set()

    def slow_for_what_is_new(x):
        first, second, third = x.flatten()[:3].tolist()
        key = round(second / first, 3), round(third / first, 3)
        if key not in seen:
            time.sleep(2e-3)
            seen.add(key)
        return x * 2

    with pytest.raises(OffenceError, match="seen before times a factor is answered") as caught:
        asked(slow_for_what_is_new)
    assert caught.value.status == "caches-results"


def test_an_output_that_is_the_input_or_a_constant_is_fine():
    constant, views = torch.ones(16, 16), Probe(kinds=frozenset({lazy.SHARED}))
    assert asked(lambda x: x, probe=views).status == "ok"
    assert asked(lambda x: constant).status == "ok"
    assert asked(lambda x: x.t(), probe=views).status == "ok"


@pytest.mark.parametrize("model", [lambda x: x, lambda x: x[:8].t(), lambda x: (x + 1, x.view(-1))])
def test_an_output_in_the_memory_of_an_input_is_none_where_the_reference_gives_a_new_one(model):
    with pytest.raises(OffenceError, match="lies in the memory of an input") as caught:
        asked(model)
    assert caught.value.status == "mismatch"


def test_plain_outputs_of_all_kinds_pass():
    pair = namedtuple("pair", "a b")
    x = torch.randn(4, 4)
    for output in (
        x,
        torch.nn.Parameter(x),
        (x, [x]),
        {"a": x, "b": 1.5},
        pair(x, 2),
        x.max(0),
        None,
        "text",
        x.t(),
    ):
        lazy.refuse(output)


@pytest.mark.parametrize("output", [iter([1]), (part for part in "ab"), lambda: 1, {"a": [print]}])
def test_promises_are_refused(output):
    with pytest.raises(OffenceError, match="no plain tensor"):
        lazy.refuse(output)
    with pytest.raises(OffenceError, match="no plain tensor"):
        asked(lambda x: (x + 1, output), reference=lambda x: x + 1)


class Mine(torch.Tensor):
    """Whatever is done with it, its author could hear of."""


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [("numel", lambda: 0, "has a method of its own"), ("__class__", Mine, "is a .*Mine now")],
)
def test_inputs_come_back_as_the_tensors_that_they_were(name, value, said):
    with pytest.raises(OffenceError, match=said) as caught:
        asked(lambda x: (x + 1, setattr(x, name, value))[0], reference=lambda x: x + 1)
    assert caught.value.status == "mutates-inputs"


@pytest.mark.parametrize("name", ["numel", "clone", "is_cuda", "shape", "is_contiguous"])
def test_a_tensor_with_methods_of_its_own_is_none(name):
    output = torch.ones(3)
    output.note = "of the author's"
    lazy.refuse(output)
    output.__dict__[name] = lambda: print("now it works")
    with pytest.raises(OffenceError, match="no plain tensor") as caught:
        lazy.refuse([output], lazy.kinds([torch.ones(3)]))
    assert caught.value.status == "lazy-output"


def test_memory_of_an_input_is_found_wherever_it_begins():
    given = torch.arange(12.0)
    within = torch.from_numpy(given.numpy()[5:])
    assert lazy.shares((torch.ones(2), within), [given])
    assert not lazy.shares(within.clone(), [given])


def test_what_the_reference_gives_is_allowed():
    class Own(dict):
        pass

    with pytest.raises(OffenceError):
        lazy.refuse(Own())
    lazy.refuse(Own(), lazy.kinds(Own()))


def test_replaced_functions_are_put_back():
    real = torch.cuda.synchronize
    torch.cuda.synchronize = lambda: None
    with pytest.raises(OffenceError, match=r"torch\.cuda\.synchronize"):
        integrity.check()
    assert torch.cuda.synchronize is real
    integrity.check()


def _in_its_place(holder, name, other):
    return lambda: setattr(holder, name, other)


REPLACED = {
    "builtins.all": _in_its_place(builtins, "all", lambda _: True),
    "math.fsum": lambda: delattr(math, "fsum"),
    "statistics.mean": _in_its_place(statistics.mean, "__code__", statistics.median.__code__),
    "torch.nn.functional.relu": _in_its_place(torch.nn.functional.relu, "__defaults__", (True,)),
    "profkit.runner.integrity._hold": lambda: integrity._hold.__kwdefaults__.update(everything=True),
    "torch.Tensor.add": _in_its_place(torch.Tensor, "add", lambda one, other: one),
    "torch.nn.ReLU.forward": _in_its_place(torch.nn.ReLU, "forward", lambda self, x: x),
}


@pytest.mark.parametrize("name", REPLACED)
def test_whatever_is_replaced_is_named_and_put_back(name):
    integrity.check()
    REPLACED[name]()
    with pytest.raises(OffenceError, match=re.escape(f"replaces {name}")):
        integrity.check()
    integrity.check()


def test_what_was_found_before_a_fork_holds_until_something_is_another(monkeypatch):
    integrity.prepare()
    try:
        found = integrity._SEAL.found
        integrity.seal()
        assert found.lasts()
        monkeypatch.setattr(statistics, "invented", lambda: 0, raising=False)
        assert not found.lasts()
        integrity.seal()
        del statistics.invented
        with pytest.raises(OffenceError, match=r"replaces statistics\.invented"):
            integrity.check()
        monkeypatch.delattr(statistics, "invented")
        monkeypatch.setattr(statistics.mean, "__kwdefaults__", {})
        assert not found.lasts()
    finally:
        monkeypatch.undo()
        integrity._SEAL.found = None
        integrity.seal()


def test_a_wrapper_of_torchs_own_is_none_once_it_wraps_something_else():
    real, made = torch.nn.functional.gelu, {}
    exec(compile("wrapper = lambda x: x", f"{torch.__path__[0]}/made.py", "exec"), made)
    wrapper = functools.update_wrapper(made["wrapper"], real)
    for _ in range(2):
        torch.nn.functional.gelu, wrapper.__wrapped__ = wrapper, real
        integrity.check()
        integrity.check()
        wrapper.__wrapped__ = print
        with pytest.raises(OffenceError, match=r"replaces torch\.nn\.functional\.gelu"):
            integrity.check()
        assert torch.nn.functional.gelu is real


def test_a_tool_that_watches_the_interpreter_is_sent_away(monkeypatch):
    """As Python has them from 3.12 on: numbers with names, asked for what they are told of."""

    class Monitoring:
        names: ClassVar = {2: "a debugger's"}
        get_tool = staticmethod(names.get)
        free_tool_id = staticmethod(names.pop)
        set_events = staticmethod(lambda number, events: None)

    monkeypatch.setattr(sys, "monitoring", Monitoring, raising=False)
    integrity.seal()
    integrity.check()
    Monitoring.names[3] = "mine"
    with pytest.raises(OffenceError, match=r"replaces sys\.monitoring's tool 3"):
        integrity.check()
    assert Monitoring.names == {2: "a debugger's"}
    integrity.check()


def test_what_is_switched_in_a_call_is_told_by_a_code_of_its_own():
    told = []

    class Told:
        def send(self, kind, impl, **data):
            told.append((data["code"], data["how_much"]))

    calls = set()
    # What is switched in the first call alone is off in the timed ones.
    for called in (None, calls, calls):
        before = settings.read()
        torch.backends.cudnn.benchmark = True
        settings.keep(before, "candidate", Told(), called=called)
        assert torch.backends.cudnn.benchmark is False
    assert [code for code, _ in told] == ["settings", "settings", settings.CALLED]
    assert all("cuDNN benchmark: False -> True" in how for _, how in told)


def test_a_default_device_is_a_setting_and_no_patch():
    events = []

    class Told:
        def send(self, kind, impl, **data):
            events.append(data["how_much"])

    before = settings.read()
    torch.set_default_device("meta")
    settings.keep(before, "candidate", Told())
    integrity.check()
    assert torch.empty(1).device.type == "cpu"
    assert "default device: cpu -> meta" in events[0]


def test_inputs_are_refilled_in_place_whatever_their_layout():
    for one, other in (
        (torch.randn(4, 6).t(), torch.randn(4, 6).t()),
        (torch.randn(1, 6).expand(4, 6), torch.randn(1, 6).expand(4, 6)),
        (torch.randn(8, 8)[2:5, ::2], torch.randn(8, 8)[2:5, ::2]),
    ):
        target = inputs.clone([one, {"n": 3}])
        assert inputs.alike(target, inputs.clone([other, {"n": 3}]))
        address = target[0].data_ptr()
        inputs.refill(target, inputs.clone([other, {"n": 3}]))
        assert target[0].data_ptr() == address
        assert torch.equal(target[0], other)
    assert not inputs.alike([torch.ones(2)], [torch.ones(3)])
    assert not inputs.alike([1], [2])


def test_other_data_are_made_where_elements_are_one_in_memory():
    spread = [torch.tensor([1.0, 2.0, 4.0])[:, None].expand(3, 5), torch.arange(3)]
    other = conduct._unseen(spread)
    assert other[0].stride() == (1, 0)
    assert other[0][:, 0].tolist() == [3.0, 0.75, 1.5]
    conduct._nudge(other)
    assert other[0][0].tolist() == [3.0 * conduct._NUDGE] * 5


def test_whole_numbers_in_order_and_pairs_of_places_stay_what_they_are():
    bounds, places = torch.tensor([0, 3, 3, 7]), torch.tensor([[0, 2, 1, 2], [90, 91, 95, 93]])
    given = [torch.ones(4), bounds.clone(), places.clone(), torch.tensor(3)]
    conduct._nudge(given)
    assert torch.equal(given[1], bounds)
    assert torch.equal(given[2], places.roll(1, 1))
    assert int(given[3]) == 3
    conduct._nudge(given, moved=False)
    assert torch.equal(given[2], places.roll(1, 1))


def test_data_that_are_made_of_others_are_none_that_anybody_has_to_bear():
    """Said before: an error, of who factorises a matrix that is positive definite in every draw."""
    asked = []

    def roots(x):
        asked.append(bool((x == x.mT).all()))
        return torch.linalg.cholesky(x)

    watched = Watched(roots, CPU, "candidate", None)
    watched._times = [(conduct._Spent(1.0, 1.0), conduct._Spent(1e-3, 1e-3))] * conduct._PAIRS
    half = torch.randn(16, 16)
    watched._remembers([half @ half.mT + torch.eye(16)])
    assert not all(asked), "other data were tried"
    assert asked[-1], "and then such that it bears"
    broken = Watched(lambda x: 1 / 0, CPU, "candidate", None)
    broken._times = watched._times
    broken._remembers([half])


def test_a_second_call_is_compared_by_the_tolerances_of_the_problem():
    calls = []

    def wavers(x):
        calls.append(x)
        return x * (1 + 1e-3 * (len(calls) % 2))

    watched = Watched(wavers, CPU, "candidate", None)
    with pytest.raises(OffenceError, match="another answer"):
        watched(torch.ones(16, 16))
    watched = Watched(wavers, CPU, "candidate", None)
    watched.tolerances = {"output": 1e-2}
    watched(torch.ones(16, 16))


class Late:
    """Answers right, and a thread that was there before any call changes the answer `delay` seconds later."""

    def __init__(self, delay):
        self.todo = queue.SimpleQueue()
        # No thread that Python counts, and none that a call starts.
        _thread.start_new_thread(self.work, (delay,))

    def work(self, delay):
        while (output := self.todo.get()) is not None:
            time.sleep(delay)
            output.mul_(2)

    def __call__(self, x):
        output = x + 1
        self.todo.put(output)
        return output


def test_an_answer_that_changes_after_the_return_is_told_apart_from_a_wrong_one():
    model = Late(0.01)
    try:
        with pytest.raises(OffenceError) as raised:
            asked(model, reference=lambda x: x + 1)
        assert raised.value.status == "works-after-return"
    finally:
        model.todo.put(None)


def test_memory_that_is_given_again_changes_nothing_after_a_return():
    kept = torch.empty(16, 16)
    assert asked(lambda x: torch.add(x, 1, out=kept), reference=lambda x: x + 1).status == "ok"
    views = Probe(kinds=frozenset({lazy.SHARED}))
    assert asked(lambda x: x.view(256), reference=lambda x: x.view(256), probe=views).status == "ok"
    threading.Thread(target=time.sleep, args=(2,), daemon=True).start()
    assert asked(lambda x: x + 1).status == "ok"


class Remembers:
    """Answers what it was asked the last time at once."""

    wait = staticmethod(time.sleep)

    def __init__(self):
        self.data = self.answer = None

    def __call__(self, x):
        if self.data is None or not torch.equal(self.data, x):
            self.wait(0.03)
            self.data, self.answer = x.clone(), x + 1
        return self.answer.clone()


class ByTheWall(Watched):
    """Knows nothing of the seconds of a core."""

    def _spared(self, pairs, times):
        return False


def burn(seconds):
    """Compute for so long, as a core sees it."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.mark.parametrize(
    ("slower", "wait", "accused"), [(1.0, time.sleep, True), (1e9, time.sleep, False), (1e9, burn, True)]
)
def test_what_load_may_explain_is_a_doubt_and_no_memory(monkeypatch, slower, wait, accused):
    """Load makes a call longer by the clock; it does not make it work more."""
    monkeypatch.setattr(busy.Watch, "slower", slower)
    monkeypatch.setattr(Remembers, "wait", staticmethod(wait))
    integrity.seal()
    told = []
    events = type("Events", (), {"send": lambda self, kind, name, **data: told.append((kind, name, data["code"]))})()
    watched = (Watched if accused else ByTheWall)(Remembers(), CPU, "candidate", events)
    raised = contextlib.nullcontext() if not accused else pytest.raises(OffenceError, match="seen before is answered")
    with raised:
        for seed in range(6):
            torch.manual_seed(seed)
            watched(torch.randn(16, 16))
    assert bool(told) is not accused
    assert set(told) <= {("doubt", "candidate", "busy")}


class Interrupted:
    """Remembers every answer; the machine is busy during its third and fourth call on data seen before."""

    def __init__(self):
        self.known, self.again = {}, 0

    def __call__(self, x):
        key = x[0, 0].item()
        self.again += key in self.known
        if key not in self.known or self.again in (3, 4):
            burn(0.003)
        return self.known.setdefault(key, x + 1).clone()


def test_one_call_beside_others_hides_no_memory():
    integrity.seal()
    watched = Watched(Interrupted(), CPU, "candidate", None)
    torch.manual_seed(0)
    watched(torch.randn(16, 16))
    torch.manual_seed(1)
    with pytest.raises(OffenceError, match="seen before is answered"):
        watched(torch.randn(16, 16))


class Lucky:
    """Remembers every answer, and takes these data for known that it has not seen: by their numbers, as they are new."""

    def __init__(self, *taken):
        self.known, self.taken, self.new = {}, taken, 0

    def __call__(self, x):
        key = x[0, 0].item()
        self.new += key not in self.known
        if key not in self.known and self.new not in self.taken:
            burn(0.003)
        return self.known.setdefault(key, x + 1).clone()


@pytest.mark.parametrize("taken", [(), (5,), (8,)])
def test_one_that_is_taken_for_known_by_chance_acquits_nobody(taken):
    """Two are given, and six more looked at: who remembers whole numbers by the first two was not told once in forty."""
    integrity.seal()
    watched = Watched(Lucky(*taken), CPU, "candidate", None)
    # In no order: bounds stay as they are, since others would be none.
    numbers = torch.randperm(512, generator=torch.Generator().manual_seed(0)).view(2, 16, 16)
    watched(numbers[0])
    with pytest.raises(OffenceError, match="seen before is answered"):
        watched(numbers[1])


def test_an_answer_in_memory_that_nobody_may_read_yet_is_none():
    size = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * size)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    hidden = torch.frombuffer(area, dtype=torch.float32, count=256, offset=size).view(16, 16)
    given = iter([torch.zeros(16, 16)])
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(start + size), size, mmap.PROT_READ * 0) == 0
    try:
        with pytest.raises(OffenceError, match="nobody may read yet"):
            asked(lambda x: next(given, hidden))
    finally:
        libc.mprotect(ctypes.c_void_p(start + size), size, mmap.PROT_READ | mmap.PROT_WRITE)


def test_what_lay_in_freed_memory_is_no_answer():
    kind, mark = leftovers._MARKS[4]
    unwritten = torch.full((16, 16), mark, dtype=kind).view(torch.float32)
    unwritten[0] = 1.0
    with pytest.raises(OffenceError, match="240 of 256 elements of output are what lay in freed memory") as caught:
        asked(lambda x: unwritten.clone(), reference=lambda x: x)
    assert caught.value.status == "unwritten-output"


def test_before_a_call_freed_memory_of_an_outputs_size_is_marked():
    """As an allocator hands it out again: at the latest a few blocks later. Nobody else here has outputs of this size."""
    _, mark = leftovers._MARKS[4]

    def takes(x):
        blocks = [torch.empty(24, 31) for _ in range(8)]
        return next((one for one in blocks if (one.view(torch.int32) == mark).any()), x).clone()

    with pytest.raises(OffenceError, match="freed memory"):
        asked(takes, size=(24, 31))


def test_a_library_may_listen_and_nobody_in_its_name(tmp_path, monkeypatch):
    """Torch's compiler imports filelock, which adds an audit hook: an honest candidate was called *patched* for it."""
    monkeypatch.setattr(integrity, "_LIBRARIES", f"{tmp_path}/")
    file = tmp_path / "locks.py"
    file.write_text("def register():\n    listen()\n", "utf-8")

    def made(text, where):
        space = {}
        exec(compile(text, where, "exec", dont_inherit=True), space)
        return space["register"].__code__

    assert integrity._of_library(made(file.read_text("utf-8"), str(file)))
    assert not integrity._of_library(made("def register():\n    spy()\n", str(file))), "code under another's name"
    assert not integrity._of_library(made(file.read_text("utf-8"), "candidate.py"))
    assert not integrity._of_library(made("def register():\n    listen()\n", str(tmp_path / "gone.py")))


def step(weight, grad, size=4e-5, kind=torch.float32):
    """A step of an optimiser, in place: two thousandths of what it is added to."""
    weight.sub_((grad.to(kind) @ grad.to(kind).t() @ grad.to(kind)).to(weight.dtype), alpha=size)
    return len(weight)


def counts(texts, sizes):
    live = torch.arange(texts.shape[1]) < sizes[:, None]
    return torch.stack([((texts == letter) & live).sum(1) for letter in range(4)], 1), sizes * 2


class CountsOnce:
    """Counts that are kept by what is looked at of texts and sizes."""

    def __init__(self, key):
        self.kept, self.key = {}, key

    def __call__(self, texts, sizes):
        key = self.key(texts, sizes)
        if key not in self.kept:
            self.kept[key] = counts(texts, sizes)[0]
        return self.kept[key].clone(), sizes * 2


@pytest.mark.parametrize(
    ("candidate", "status"),
    [
        (counts, "ok"),
        (CountsOnce(lambda _, sizes: int(sizes.sum())), "caches-results"),
        (CountsOnce(lambda texts, _: int(texts.sum())), "caches-results"),
        (CountsOnce(lambda texts, sizes: (tuple(texts[0].tolist()), int(sizes.sum()))), "caches-results"),
        (CountsOnce(lambda *given: tuple(tuple(one.flatten().tolist()) for one in given)), "ok"),
        (lambda texts, sizes: (counts(texts, sizes)[0] * 0 + texts[0, 0], sizes * 2), "ok"),
    ],
)
def test_who_knows_data_by_a_part_of_them_gives_the_last_answer_when_another_part_changes(candidate, status):
    """Who is wrong otherwise is not told of: the parts may not fit to each other."""
    torch.manual_seed(2)
    drawn = [torch.randint(0, 4, (8, 40)), torch.randint(1, 40, (8,))]
    asked = Trials(lambda given: candidate(*given), lambda given: counts(*given), Probe())
    asked.on(inputs.clone(drawn), 0)
    found = [asked.on_part(moved, 0) for moved in inputs.moved_by_parts(drawn)]
    assert status in {verdict.status for verdict in found} <= {"ok", status}
    assert status == "ok" or any("output[0]" in verdict.what for verdict in found)


def test_the_largest_input_is_moved_first_and_then_the_others():
    drawn = [torch.randint(0, 4, (8, 40)), torch.randint(1, 40, (8,)), torch.arange(9), 3, torch.randn(1).expand(8, 80)]
    one, all_of_them = inputs.moved_by_parts(drawn)
    assert torch.equal(one[0].sort(1).values, drawn[0].sort(1).values)
    assert not torch.equal(one[0], drawn[0])
    assert torch.equal(all_of_them[0], one[0])
    assert not torch.equal(all_of_them[1], one[1])
    assert all(torch.equal(a, b) for a, b in zip(one[1:3], drawn[1:3], strict=True))
    assert torch.equal(all_of_them[2], drawn[2])


@pytest.mark.parametrize(
    "drawn", [[], [3, None], [torch.zeros(4)], [torch.arange(9)], [torch.randn(1).expand(8, 8)], [torch.randn(0, 4)]]
)
def test_what_is_all_the_same_in_order_or_one_element_is_not_moved(drawn):
    assert list(inputs.moved_by_parts(drawn)) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.uint8, torch.float8_e4m3fn])
def test_what_is_moved_keeps_its_layout(dtype):
    drawn = [torch.randn(6, 8).mul(50).abs().to(dtype).t(), torch.randn(4)]
    moved = next(inputs.moved_by_parts(drawn))
    assert inputs.alike(moved, drawn)
    assert not identical(moved[0], drawn[0])
    assert identical(moved[1], drawn[1])


class Running(torch.nn.Module):
    """Statistics of batches, of which a call adds a hundredth to those that are kept."""

    def __init__(self, times=1.0):
        super().__init__()
        self.register_buffer("mean", torch.ones(16))
        self.times = times

    def forward(self, x):
        self.mean.lerp_(self.times * x.mean(0), 0.01)
        return x - x.mean(0)


@pytest.mark.parametrize(("times", "told"), [(1.0, False), (1.0 + 1e-6, False), (1.005, True)])
def test_what_is_added_to_what_is_kept_is_compared_however_small_it_is(times, told):
    x, before = torch.randn(64, 16), {"mean": torch.ones(16)}
    left = {}
    for name, model in {"mine": Running(times), "theirs": Running()}.items():
        model(x)
        left[name] = {"mean": model.mean}
    assert compare(left["mine"], left["theirs"]).status == "ok"
    exact = functools.partial(prober.kept, Running(), [x], ["mean"])
    off = added(left["mine"], left["theirs"], before, exact, {}, "state")
    assert bool(off) is told
    assert not told or off.startswith("adds something else to state['mean']: off by ")


@pytest.mark.parametrize(
    ("off", "exact", "tolerances", "told"),
    [
        (1e-3, 0.0, {}, True),
        (1e-3, None, {}, True),
        (1e-3, 0.0, {"output": 8e-3}, False),
        (2e-2, 0.0, {"output": 8e-3}, True),
        (1e-3, -5e-4, {}, False),
        (1e-2, -5e-4, {}, True),
        (0.5, 10.0, {}, True),
    ],
)
def test_what_is_kept_is_held_to_what_answers_are_and_to_the_references_own_rounding(off, exact, tolerances, told):
    """As where a reference's products are rounded, which shows in the mean of them that it keeps."""
    mean, given = torch.rand(16) + 1, {"mean": torch.zeros(16), "calls": torch.tensor(0)}

    def kept(by):
        return {"mean": mean * (1 + by), "calls": torch.tensor(1)}

    def wide():
        if exact is None:
            raise RuntimeError("no arithmetic for that in float64")
        return {name: one.double() if name == "mean" else one for name, one in kept(exact).items()}

    found = left(kept(off), kept(0.0), given, wide, tolerances)
    assert found == ("leaves other values in mean than the reference does" if told else "")
    assert left(kept(0.0), kept(0.0), given, None, {}) == ""
    calls = {**kept(0.0), "calls": torch.tensor(2)}
    assert left(calls, kept(0.0), given, wide, {"output": 0.05}).startswith("leaves other values in calls")


@pytest.mark.parametrize(
    ("candidate", "status"),
    [
        (lambda w, g: step(w, g), "ok"),
        (lambda w, g: step(w, g, kind=torch.float64), "ok"),
        (lambda w, g: step(w, g, kind=torch.bfloat16), "mismatch"),
        (lambda w, g: step(w, g, size=3.98e-5), "mismatch"),
    ],
)
def test_what_is_added_in_place_is_compared_however_small_it_is(candidate, status):
    def told(exact):
        drawn = [torch.randn(32, 32), torch.randn(32, 32)]
        probe = Probe(mutates=True)
        trials = Trials(lambda given: candidate(*given), lambda given: step(*given), probe, exact)
        return trials.on(drawn, 0)

    verdict = told(lambda given: prober.left(step, given))
    assert verdict.status == status, verdict.what
    assert status == "ok" or "input[0]" in verdict.what
    assert told(None).status == "ok", "what is left in them alone does not tell"
