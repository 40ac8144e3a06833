"""The prober: what would pass by accident, and what the tolerance becomes for it."""

from __future__ import annotations

from operator import attrgetter
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from profkit.runner import precision, prober
from profkit.runner.backward import Slopes
from profkit.runner.check import compare
from profkit.runner.lowered import lowered, rounded_to_tf32
from profkit.runner.prober import Probe, probe
from profkit.runner.properties import Trial


def probed(model, *shape, draw=torch.randn):
    def inputs(seed):
        torch.manual_seed(seed)
        return [draw(*shape)]

    with torch.no_grad():
        # As in a run, where the reference has answered once before it is probed: the first call of all is slow.
        model(*inputs(0))
        return probe(model, inputs, (1, 2))


def test_complex_weights_are_whole_in_another_precision():
    class Filter(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(33, dtype=torch.complex64))

        def forward(self, x):
            return torch.fft.irfft(torch.fft.rfft(x) * self.weight)

    found = probed(Filter(), 40, 64)
    assert found.rounding < 1e-6
    assert not any(note.endswith(prober.JUMPS) for note in found.notes)


def test_a_plain_task_keeps_its_tolerance():
    found = probed(nn.Linear(256, 32).eval(), 16, 256)
    assert found.tolerances == {}
    assert found.passing == found.tightened == found.indistinct == []
    assert found.rounding is not None, found.notes
    assert 0 < found.rounding < 1e-5


def test_what_overflows_is_no_jump():
    found = probed(lambda x: torch.exp(60 * x), 64, 64)
    assert [note for note in found.notes if note.endswith(prober.JUMPS)] == []
    assert found.rounding < 1e-2


def test_of_a_reference_that_draws_its_answers_rounding_is_not_told():
    found = probed(lambda x: x + torch.rand_like(x), 16, 16)
    assert [doubt["what"] for doubt in found._doubts()] == ["timed calls are not compared with the reference"]


def test_a_constant_that_nearly_passes_tightens_the_tolerance():
    found = probed(lambda x: 1.0 + 1e-5 * x, 64, 64)
    assert "ones" in found.tightened
    (rtol,) = found.tolerances.values()
    assert 1e-6 < rtol < 1e-4
    answer = 1.0 + 1e-5 * torch.randn(64, 64)
    assert compare(torch.ones_like(answer), answer).status == "ok"
    assert compare(torch.ones_like(answer), answer, found.tolerances).status == "mismatch"
    assert compare(answer * (1 + 1e-7), answer, found.tolerances).status == "ok"


@pytest.mark.parametrize(
    ("model", "passes"),
    [
        (lambda x: x.softmax(-1).sum(-1), "ones"),
        (lambda x: (x - 100).relu(), "zeros"),
        (lambda x: x * 1, "an input as it came"),
        (lambda x: (x > 100).int(), "zeros"),
    ],
)
def test_what_no_tolerance_can_tell_is_reported(model, passes):
    assert passes in probed(model, 64, 64).passing


def test_one_of_several_outputs_that_never_changes_is_told():
    def model(x):
        return x.sum(-1), (x.abs() + 2).clamp_max(1.9)

    found = probed(model, 16, 16)
    assert found.still == ["output[1]"]
    assert found.passing == []
    assert [doubt["code"] for doubt in found._doubts()] == ["output-still"]
    other = model(torch.randn(16, 16))
    # For none of these inputs it is another one: nothing tells it apart.
    same, small = torch.randn(16, 16) * 1e3, torch.full((16, 16), -1.0)
    asked = Trial("inputs times 1e3", "values", [same], model(same), False)
    assert prober.told_apart(found, [asked], other).still == ["output[1]"]
    moved = Trial("another", "values", [small], (small.sum(-1), small), False)
    assert prober.told_apart(found, [asked, moved], other).still == []


def test_one_of_several_outputs_that_hardly_changes_has_a_tolerance_of_its_own():
    found = probed(lambda x: (x, 1 + 1e-5 * x), 64, 64)
    assert set(found.tolerances) == {"output[1]"}
    assert found.tolerances["output[1]"] < 5e-5
    assert found.still == []


def test_what_a_reference_is_off_for_these_inputs_is_room_for_others():
    """A divergence of two distributions that are hardly any: of the difference of their logarithms little is left."""

    def model(a, b):
        return (b.softmax(-1) * (b.log_softmax(-1) - a.log_softmax(-1))).sum(), a.sum(-1)

    a, b = torch.randn(64, 32), torch.randn(64, 32)
    assert prober.rounded(model, [a, b], {}) == {}
    found = prober.rounded(model, [a * 1e-3, b * 1e-3], {})
    assert set(found) == {"output[0]"}
    assert found["output[0]"] > 1e-3


@pytest.mark.parametrize(("norm", "counts"), [(True, False), (False, True)])
def test_a_bias_that_a_norm_takes_off_again_counts_by_rounding_alone(norm, counts):
    torch.manual_seed(5)
    model = nn.Sequential(nn.Conv2d(4, 6, 3), nn.InstanceNorm2d(6) if norm else nn.ReLU()).eval()
    given, answers = [torch.randn(2, 4, 12, 12)], []

    def larger(by):
        with torch.no_grad():
            model[0].bias.fill_(by)

    with torch.no_grad():
        for by in (9e3, -9e3):
            larger(by)
            answers.append(model(*given))
        changes = [lambda: larger(9e3), lambda: larger(-9e3)]
        assert compare(answers[1], answers[0]).status != "ok"
        assert prober.differ(model, given, changes, answers[0], {}) is counts
        assert prober.differ(model, given, [lambda: 1 / 0], answers[0], {}), "float64 says nothing"


def test_complex_numbers_are_asked_for_in_double():
    weight = torch.randn(64, 64, dtype=torch.complex64)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(weight)

        def forward(self, z):
            return z @ self.weight

    given = [torch.randn(16, 64, dtype=torch.complex64)]
    exact = lowered(Layer(), given, "float64")
    assert exact.dtype is torch.complex128
    room = prober.room(Layer(), given, {})
    assert 1e-8 < room["output"] < 1e-3


def test_precisions_that_pass_are_named():
    assert probed(lambda x: x.mean(0), 10_000, 16, draw=torch.rand).indistinct == ["tf32"]
    assert probed(nn.Linear(256, 32).eval(), 16, 256).indistinct == []


def test_rounding_beyond_the_tolerance_widens_it():
    """Differences of large numbers: float32 has four digits left of them."""
    found = probed(lambda x: (x + 3000.0) - 3000.0, 64, 64)
    (rtol,) = found.tolerances.values()
    assert 1e-4 < rtol < 1e-3


def test_a_wide_sum_of_narrow_numbers_is_right_to_the_narrow_ones():
    layer = nn.Linear(48, 32).eval()
    found = probed(lambda x: layer(x).double().sum(), 200, 48)
    assert found.tolerances["output"] > 1e-6
    assert "output" not in probed(lambda x: x.double().sum(), 200, 48).tolerances


def test_whole_numbers_made_of_computed_ones_may_move_a_little():
    class Levels(nn.Linear):
        def forward(self, x):
            return (super().forward(x) * 100).round().to(torch.int32)

    found = probed(Levels(256, 256).eval(), 128, 256)
    share = found.tolerances["output"]
    assert 2 / 2**15 <= share < 0.005
    assert found.notes == [], "no jump: so much is allowed"
    answer = torch.arange(2**15)
    off = answer + (torch.arange(2**15) < 2)
    assert compare(off, answer, found.tolerances).status == "ok"
    assert compare(off, answer).status == "mismatch"
    assert compare(answer + (answer < 0.01 * 2**15), answer, found.tolerances).status == "mismatch"


@pytest.mark.parametrize(
    "model", [lambda x: x.sort(-1).indices, lambda x: x > 0.5, lambda x: (x @ x.t()).argmax() + torch.zeros(4).int()]
)
def test_whole_numbers_that_are_compared_alone_or_few_are_equal(model):
    assert probed(model, 64, 64).tolerances == {}


class Rare(nn.Linear):
    """What is large, of half precision: one of 600."""

    def forward(self, x):
        return super().forward(x) > 1.7


class Routes(nn.Linear):
    """Which of 128 an element goes to; the larger the offset, the less bfloat16 tells them by."""

    def __init__(self, offset):
        super().__init__(256, 128)
        self.offset = offset

    def forward(self, x):
        return nn.functional.one_hot((super().forward(x) + self.offset).argmax(-1), 128).bool()


@pytest.mark.parametrize(
    ("model", "dtype", "told"),
    [
        (Rare(256, 64), torch.float16, False),
        (Routes(0), torch.bfloat16, False),
        (Routes(60), torch.bfloat16, True),
    ],
)
def test_an_answer_of_nothing_is_wrong_or_told_whatever_rounding_moves(model, dtype, told):
    model = model.to(dtype)
    found = probed(model, 2048, 256, draw=lambda *shape: torch.randn(shape).to(dtype))
    with torch.no_grad():
        answer = model(torch.randn(2048, 256).to(dtype))
    assert ("zeros" in found.passing) is told
    assert compare(torch.zeros_like(answer), answer, found.tolerances).status == ("ok" if told else "mismatch")
    two = torch.arange(answer.numel()).view(answer.shape) < 2
    assert compare(answer ^ two, answer, found.tolerances).status == "ok"


def test_an_answer_that_is_rounding_alone_is_a_doubt():
    found = probed(lambda x: (x - x.mean(-1, keepdim=True)).sum(-1), 64, 1000)
    assert any("cancels" in note for note in found.notes)
    assert any("rounding" in doubt["what"] for doubt in found._doubts())


def test_inputs_that_are_changed_and_numbers_that_are_drawn_are_noticed():
    changed, drawn = probed(lambda x: x.add_(1), 8, 8), probed(lambda x: x + torch.rand(8, 8), 8, 8)
    assert (changed.mutates, changed.random) == (True, False)
    assert (drawn.mutates, drawn.random) == (False, True)
    assert not changed.repeatable
    assert not drawn.repeatable


def test_a_model_of_one_precision_is_probed_without_the_others():
    found = probed(lambda x: x @ torch.ones(64, 4, dtype=torch.float32), 8, 64)
    assert found.rounding is None
    assert any(note.startswith("float64 not tried") for note in found.notes)
    assert found.passing == []


def test_half_precision_has_its_own_floor():
    found = probed(nn.functional.gelu, 64, 64, draw=lambda *shape: torch.randn(*shape).half())
    assert found.tolerances == {}
    assert found.indistinct == []


def test_tf32_keeps_ten_bits():
    x = torch.tensor([1.0, 1 + 2**-10, 1 + 2**-12, -3.14159274, 0.0, float("inf")])
    assert rounded_to_tf32(x).tolist() == [1.0, 1 + 2**-10, 1.0, -3.140625, 0.0, float("inf")]


ALL = frozenset(precision.KINDS)
CONVOLVES = nn.Conv2d(8, 16, 5, bias=False).eval()


def in_tf32(x):
    """What a library gives that takes TF32 for this convolution."""
    return nn.functional.conv2d(rounded_to_tf32(x), rounded_to_tf32(CONVOLVES.weight))


@pytest.fixture
def allowed(monkeypatch):
    """Lets torch's switches allow TF32 for these operations, as on a GPU."""
    return lambda kinds: monkeypatch.setattr(precision, "narrowed", lambda device: frozenset(kinds))


def test_tf32_is_right_where_torch_may_take_it_for_the_reference(allowed):
    """A reference that its library computes in FP32 all the same."""
    torch.manual_seed(3)
    x = torch.randn(4, 8, 24, 24)
    with torch.no_grad():
        answer, other = CONVOLVES(x), in_tf32(x)
    plain = probed(CONVOLVES, 4, 8, 24, 24)
    assert plain.tolerances == {}
    assert plain.indistinct == []
    assert compare(other, answer, plain.tolerances).status == "mismatch"
    allowed({"convolution"})
    found = probed(CONVOLVES, 4, 8, 24, 24)
    assert compare(other, answer, found.tolerances).status == "ok"
    assert compare(answer + 0.05 * answer.std(), answer, found.tolerances).status == "mismatch"
    assert "tf32" in found.indistinct
    assert "bf16" not in found.indistinct


def test_whole_numbers_may_be_those_of_tf32_where_torch_may_take_it(allowed):
    class Levels(nn.Sequential):
        def forward(self, x):
            return (super().forward(x) * 20).round().to(torch.int32)

    levels = Levels(CONVOLVES).eval()
    torch.manual_seed(3)
    x = torch.randn(4, 8, 24, 24)
    with torch.no_grad():
        answer, other = levels(x), (in_tf32(x) * 20).round().to(torch.int32)
    assert compare(other, answer, probed(levels, 4, 8, 24, 24).tolerances).status == "mismatch"
    allowed({"convolution"})
    found = probed(levels, 4, 8, 24, 24)
    assert compare(other, answer, found.tolerances).status == "ok"
    assert compare(answer // 2 * 2, answer, found.tolerances).status == "mismatch"
    assert found.notes == []


def test_tf32_is_allowed_by_operation(allowed):
    """A product keeps FP32 where convolutions alone may take less."""
    linear = nn.Linear(256, 32).eval()
    allowed({"convolution", "recurrence"})
    assert probed(linear, 16, 256).tolerances == {}
    assert probed(lambda x: x * 2, 16, 256).tolerances == {}
    allowed({"matmul"})
    assert probed(CONVOLVES, 4, 8, 24, 24).tolerances == {}
    assert 1e-4 < probed(linear, 16, 256).tolerances["output"] < 1e-2


def test_gradients_are_given_the_same_room(allowed):
    torch.manual_seed(3)
    x = torch.randn(2, 8, 12, 12)
    assert Slopes(CONVOLVES, [x]).tolerances == {}
    allowed({"convolution"})
    assert set(Slopes(CONVOLVES, [x]).tolerances) == {"weight", "input[0]"}


def test_a_jump_that_tf32_makes_is_a_doubt_and_no_tolerance(allowed):
    allowed({"convolution"})
    found = probed(lambda x: (CONVOLVES(x) * 1e5).sin(), 4, 8, 24, 24)
    assert found.tolerances.get("output", 0.0) <= 0.05
    assert any("jumps" in note for note in found.notes)


def test_a_jump_that_tf32_makes_takes_no_room_from_the_references_own_rounding(monkeypatch):
    answer = {"output": torch.ones(3)}
    monkeypatch.setattr(prober, "_narrowed", lambda answer, again: {"output": torch.full((3,), 1.12)})
    again = SimpleNamespace(widest=lambda: None, notes=[])
    assert prober.wider(answer, {"output": 2e-3}, again) == {"output": pytest.approx(8e-3)}
    assert len(again.notes) == 1
    assert prober.wider(answer, {"output": 1e-6}, again) == {}


def test_a_cpu_has_no_tf32():
    assert precision.narrowed(torch.device("cpu")) == frozenset()


@pytest.mark.parametrize(
    ("now", "kinds"),
    [
        ({"TF32 in cuDNN": True, "float32 matmul precision": "highest"}, {"convolution", "recurrence"}),
        ({"TF32 in cuDNN": False, "float32 matmul precision": "high"}, {"matmul"}),
        ({"float32 convolution": "ieee", "float32 recurrence": "tf32", "float32 matmul": "none"}, {"recurrence"}),
        ({"float32 convolution": "tf32", "float32 recurrence": "tf32", "float32 matmul": "tf32"}, ALL),
        ({}, set()),
    ],
)
def test_switches_say_what_may_take_tf32(now, kinds):
    assert precision._switched(now) == kinds


def test_torch_as_it_comes_lets_convolutions_take_tf32_and_no_product():
    assert precision._switched(precision.switches()) == {"convolution", "recurrence"}


@pytest.mark.parametrize("place", ["", "mkldnn", "mkldnn.conv", "mkldnn.matmul"])
def test_the_switches_of_a_cpu_are_put_back(place):
    holder = attrgetter(place)(torch.backends) if place else torch.backends
    if not hasattr(holder, "fp32_precision"):
        pytest.skip("this torch has no such switch")
    # Another test may have set it.
    before, was, told = precision.switches(), holder.fp32_precision, []
    holder.fp32_precision = "bf16"
    listener = SimpleNamespace(send=lambda kind, impl, **data: told.append(data["how_much"]))
    precision.keep(before, "mine", listener)
    assert len(told) == 1
    assert f"{was} -> bf16" in told[0]
    assert precision.switches() == before


def test_nothing_is_made_for_fp16_by_a_library_that_may_never_be_done_with_it(monkeypatch):
    switched, really = [], torch._C._set_mkldnn_enabled
    monkeypatch.setattr(torch._C, "_set_mkldnn_enabled", lambda on: (switched.append(on), really(on)))
    before = torch._C._get_mkldnn_enabled()
    probed(nn.Conv1d(4, 4, 3).requires_grad_(False), 2, 4, 32)
    assert switched == []
    probed(nn.Conv1d(4, 4, 3, groups=4).requires_grad_(False), 2, 4, 32)
    assert switched == [False, before]
    assert torch._C._get_mkldnn_enabled() is before


def test_where_nobody_is_held_to_anything_no_trivial_answer_is_told_apart():
    given = torch.randn(64, 64)
    trials = [Trial("larger", "values", [given], given * 5, False, room=room) for room in (lambda: None, dict)]
    told = [prober.told_apart(Probe(passing=["zeros"]), [one], torch.zeros(64, 64)).told for one in trials]
    assert told == [{}, {"zeros": "larger"}]


class Loss(nn.Module):
    """One number of what bfloat16 computes, in as many parts."""

    def __init__(self, parts):
        super().__init__()
        self.first, self.second, self.parts = nn.Linear(128, 192).bfloat16(), nn.Linear(192, 40).bfloat16(), parts

    def forward(self, x):
        given = zip(self.first(x).relu().chunk(self.parts, 1), self.second.weight.chunk(self.parts, 1), strict=True)
        scores = sum(one @ weight.t() for one, weight in given) + self.second.bias
        return scores.float().logsumexp(-1).mean()


def test_rounding_that_all_terms_have_in_common_is_no_fault():
    worst = 0.0
    for seed in range(12):
        torch.manual_seed(seed)
        model, other = Loss(1).requires_grad_(False), Loss(2).requires_grad_(False)
        model.first.bias += 4.0
        other.load_state_dict(model.state_dict())
        given = [torch.randn(96, 128).bfloat16()]
        far = prober.distances({"output": other(*given)}, {"output": model(*given)})["output"]
        worst = max(worst, far)
        usual = probed(model, 96, 128, draw=lambda *shape: torch.randn(*shape).bfloat16()).tolerances
        assert usual["output"] > far
        assert prober.room(model, given, {})["output"] > far
    assert worst > 1e-4
