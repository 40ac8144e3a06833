"""Measured precision: bits of answers of known precision, elements that jump, integers, noise, and what calls leave."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from profkit.guest.tensors import compare, state
from profkit.guest.tensors.compare import Left
from profkit.judge.precision import probe, rows, twin
from profkit.judge.precision.bits import ANSWER, BLOCKS, OWN_TYPES, Precision
from profkit.judge.precision.oracle import Oracle
from profkit.judge.timed import _as_exact


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        torch.manual_seed(7)
        yield


def case(model, *arguments, type="fp32", **options):
    given = list(arguments)
    return Oracle(model, Precision(type)).case(given, model(*[one.clone() for one in given]), **options)


def bits(model, candidate, *arguments, type="fp32"):
    got = candidate(*[one.clone() for one in arguments])
    return case(model, *arguments, type=type).judged(got, exact=True)


def product(x, y):
    return x @ y


def rounded_to_tf32(x):
    return ((x.contiguous().view(torch.int32) + (1 << 12)) & -(1 << 13)).view(torch.float32)


A, B = torch.randn(128, 512), torch.randn(512, 96)
WAYS = {
    "the same": (product, 17.0, 25.0, "fp32"),
    "float64": (lambda x, y: (x.double() @ y.double()).float(), 20.0, 99.0, "fp32"),
    "tf32": (lambda x, y: rounded_to_tf32(x) @ rounded_to_tf32(y), 10.0, 12.9, "tf32"),
    "fp16": (lambda x, y: x.half().float() @ y.half().float(), 10.0, 12.9, "tf32"),
    "bf16": (lambda x, y: x.bfloat16().float() @ y.bfloat16().float(), 7.0, 9.2, "bf16"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_product_has_the_bits_of_the_type_it_is_computed_in(way):
    candidate, least, most, name = WAYS[way]
    found = bits(product, candidate, A, B)
    assert found.status == "ok"
    assert least <= found.bits <= most
    assert found.precision == name


@pytest.mark.parametrize(
    "candidate",
    [
        lambda x, y: x[:, 8:] @ y[8:],
        lambda x, y: (x @ y) * 1.04,
        lambda x, y: (x @ y).roll(1, 0),
        lambda x, y: torch.zeros(128, 96),
        lambda x, y: torch.where((x @ y).abs() < 5, 0.9 * (x @ y), x @ y),
    ],
)
def test_left_out_rough_and_misplaced_work_is_wrong(candidate):
    found = bits(product, candidate, A, B)
    assert found.status == "mismatch"
    assert "elements differ" in found.what


def test_that_nothing_is_right_is_said_without_a_number():
    found = bits(product, lambda x, y: -(x @ y), A, B)
    assert found.what.startswith("output: no bit agrees where fp32 has 13.0: "), found.what


def test_small_elements_count_by_themselves():
    x = torch.randn(64, 512)

    def rough(x):
        y = x.softmax(-1)
        return torch.where(y < y.median(), y * 1.04, y)

    assert bits(lambda x: x.softmax(-1), rough, x).status == "mismatch"


def test_work_in_the_tasks_own_type_is_right_and_coarser_work_is_named():
    x, y = A.bfloat16(), B.bfloat16()
    assert bits(product, lambda x, y: (x.float() @ y.float()).bfloat16(), x, y, type="bf16").precision == "bf16"

    def eight(x, y):
        return (x.to(torch.float8_e4m3fn).float() @ y.to(torch.float8_e4m3fn).float()).bfloat16()

    assert bits(product, eight, x, y, type="bf16").precision == "fp8"


def test_an_element_that_jumps_may_have_any_value_of_a_moved_run():
    def levels(x, y):
        return (x @ y).round()

    def other_order(x, y):
        return (x[:, :100] @ y[:100] + x[:, 100:] @ y[100:]).round()

    assert bits(levels, other_order, A, B).status == "ok"
    assert bits(levels, lambda x, y: levels(x, y) + 1, A, B).status == "mismatch"


def test_integers_are_exact_where_no_moved_run_changes_them():
    x = torch.randn(64, 256)

    def top(x):
        return x.topk(4, -1).indices

    def by_few_bits(x):
        return ((x.view(torch.int32) >> 16) << 16).view(torch.float32).topk(4, -1).indices

    assert bits(top, top, x).status == "ok"
    assert bits(top, by_few_bits, x).what.endswith("of 256 elements differ")
    ties = torch.randn(8, 32).repeat(1, 2)
    assert bits(top, lambda x: (x.flip(-1).topk(4, -1).indices - 63).abs(), ties).status == "ok", "either of equals"


def test_what_is_not_finite_must_agree_unless_the_truth_does_not():
    x = torch.tensor([1.0, -1.0, 60000.0, 2.0])
    assert bits(torch.sqrt, lambda x: x.clamp_min(0).sqrt(), x).status == "nan"
    half = x.half()
    # The product overflows in half precision, not in truth.
    assert (
        bits(lambda x: x * 2, lambda x: (x.float() * 2).clamp(max=65504).half(), half, type="fp16").status == "mismatch"
    )


def test_a_zero_by_construction_is_noise():
    x = torch.randn(4, 32, 8, 8)
    found = case(lambda x: functional.group_norm(x, 4).mean((1, 2, 3)), x)
    assert found.noise() == ["output"]
    assert case(product, A, B).noise() == []


def test_an_answer_that_is_near_by_its_size_spares_the_truth():
    x, y = torch.randn(128, 512), torch.randn(512, 96)
    other = Oracle(product, Precision()).case([x, y], x @ y)
    near = other.judged((x.double() @ y.double()).float())
    assert (near.status, near.bits) == ("ok", None)
    assert other._thin is None, "the truth was not asked for"
    assert other.judged(rounded_to_tf32(x) @ y).precision == "tf32"
    assert other._thin is not None


def test_weights_closures_and_plain_tensors_are_converted():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(64, 32)
            self.scale = torch.rand(32)
            self.parts = [torch.rand(32)]
            weight = self.linear.weight
            self.inner = lambda x: x @ weight.t()

        def forward(self, x):
            return self.inner(x) * self.scale + self.parts[0]

    model, x = Plain(), torch.randn(16, 64)
    found = case(model, x).judged(model(x.double().float()), exact=True)
    assert found.bits > 17
    assert model.linear.weight.dtype is torch.float32, "as it was"
    assert case(model, x).judged(model(x) + 0.05).status == "mismatch"


def test_a_reference_that_double_breaks_is_asked_in_its_own_type():
    def model(x, y):
        if x.dtype is torch.float64:
            raise NotImplementedError
        return x @ y

    assert bits(model, product, A.bfloat16(), B.bfloat16(), type="bf16").status == "ok"
    assert bits(model, lambda x, y: x[:, 16:] @ y[16:], A.bfloat16(), B.bfloat16(), type="bf16").status == "mismatch"


def test_what_cannot_be_copied_of_a_reference_is_shared():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    model[1].library, model[1].chance = math, torch.Generator()
    drawn = [torch.randn(4, 8)]
    case = Oracle(model).case(drawn, model(*drawn))
    assert case.judged(model(*drawn).bfloat16().float(), exact=True).precision == "bf16"


def test_what_a_call_adds_to_its_inputs_is_judged_by_itself():
    def update(x, step):
        x.add_(step, alpha=1e-4)
        return x.sum()

    given = [torch.randn(64), torch.randn(64)]
    after = [one.clone() for one in given]
    want = update(*after)
    oracle = Oracle(update, Precision())
    assert oracle.case(given, want).judged(want).status == "ok"
    left = oracle.case(given, Left(given, after), twin.left)
    assert left.judged(Left(given, after), strict=True).status == "ok"
    assert left.judged(Left(given, [given[0].clone(), given[1]]), strict=True).status == "mismatch"


SQUARE = torch.randn(128, 128), torch.randn(128, 128)
LARGE = {
    "rows of softmax": (lambda x: x.softmax(-1), [A], BLOCKS),
    "a square product": (product, SQUARE, BLOCKS),
    "places": (lambda x: (x.amax(-1), x.argmax(-1)), [A], BLOCKS),
    "columns": (lambda x: x.cumsum(0), [A], OWN_TYPES),
    "the whole": (lambda x: x / x.norm(), [A], OWN_TYPES),
    "positions": (lambda x: x * torch.arange(len(x))[:, None], [A], OWN_TYPES),
    "indices": (lambda x, y: x[y], [A, torch.arange(128).flip(0)], OWN_TYPES),
}


@pytest.mark.parametrize("which", LARGE)
def test_a_large_task_is_judged_in_blocks_where_rows_stand_alone(monkeypatch, which):
    model, given, truth = LARGE[which]

    def rough(*arguments):
        return model(*(one.bfloat16().to(one.dtype) if one.is_floating_point() else one for one in arguments))

    whole = bits(model, rough, *given)
    monkeypatch.setattr(rows, "LARGE", 0)
    one = case(model, *given)
    found = one.judged(rough(*given), exact=True)
    assert found.status == whole.status
    assert found.bits == pytest.approx(whole.bits, abs=0.5)
    assert one._oracle.precision.truth == truth


def test_state_is_judged_by_what_a_call_adds_to_it():
    norm = nn.BatchNorm1d(8)
    x = torch.randn(32, 8)
    before = {name: one.clone() for name, one in state.held(norm)}
    twin = nn.BatchNorm1d(8)
    twin.load_state_dict(norm.state_dict())
    twin(x)
    after = {name: one.clone() for name, one in state.held(twin)}
    judged = Oracle(norm, Precision()).case([x], Left(before, after), state.keeping(list(before)))
    assert judged.judged(Left(before, after), strict=True).status == "ok"
    biased = {**after, "running_var": before["running_var"] * 0.9 + 0.1 * x.var(0, unbiased=False)}
    assert judged.judged(Left(before, biased), strict=True).status == "mismatch"


ONE, TWO = torch.zeros(3), torch.ones(2)


def test_forms_are_compared_first():
    want = {"a": torch.zeros(3), "b": [torch.ones(2, dtype=torch.int32), 1.5]}
    right = {"b": [torch.ones(2, dtype=torch.int32), 1.5], "a": torch.zeros(3)}
    assert compare.form(right, want) is None
    for wrong, status in (
        ({"a": torch.zeros(3)}, "wrong-type"),
        ({**right, "a": torch.zeros(4)}, "wrong-shape"),
        ({**right, "a": torch.zeros(3, dtype=torch.float64)}, "wrong-dtype"),
        ({**right, "a": torch.zeros(3, device="meta")}, "wrong-device"),
        ({"c": torch.zeros(3), "b": right["b"]}, "wrong-type"),
    ):
        assert compare.form(wrong, want).status == status
    assert compare.form(torch.zeros(3, dtype=torch.float64), torch.zeros(3), any_dtype=True) is None


@pytest.mark.parametrize(
    ("got", "want", "same"),
    [
        ((ONE,), ONE, True),
        ([ONE], ONE, True),
        ([[ONE, TWO]], (ONE, TWO), True),
        ({"a": [ONE]}, {"a": ONE}, True),
        ({"a": ONE}, ONE, False),
        ([ONE, TWO], {"a": ONE, "b": TWO}, False),
        ({"a": {"c": ONE}, "b": TWO}, {"a": {"d": ONE}, "b": TWO}, False),
    ],
)
def test_lists_may_be_nested_otherwise_but_keys_are_names(got, want, same):
    assert (compare.form(got, want) is None) == same


def test_the_figures_are_what_they_are_called():
    want = torch.tensor([3.0, -3.0, 3.0, 3.0], dtype=torch.float64)
    found = compare.figures(want + torch.tensor([0.0, 1e-10, 2e-10, 6e-10], dtype=torch.float64), want)
    assert found["max_abs"] == pytest.approx(6e-10, rel=1e-3)
    assert found["max_rel"] == pytest.approx(1e-10, rel=1e-3)
    assert found["mean_abs"] == pytest.approx(9e-10 / 4, rel=1e-3)
    assert found["median_abs"] == pytest.approx(1e-10, rel=1e-3)
    assert compare.figures(want * math.inf, want)["max_abs"] == 0


def test_comparing_by_parts_changes_nothing(monkeypatch):
    x = torch.randn(1000)
    whole = compare.figures(x + 1e-3, x)
    monkeypatch.setattr(compare, "CHUNK", 64)
    assert compare.figures(x + 1e-3, x)["max_abs"] == pytest.approx(whole["max_abs"])
    assert compare.close(x + 1e-3, x, 8.0)
    assert not compare.close(x + 1e-3, x, 12.0)


# The probe


def probed(model, draw=lambda: [torch.randn(64, 64)]):
    def inputs(seed):
        torch.manual_seed(seed)
        return draw()

    return probe.probe(model, inputs, (1, 2))


@pytest.mark.parametrize(
    ("model", "passes"),
    [
        (lambda x: x.softmax(-1).sum(-1), "the mean"),
        (lambda x: (x - 100).relu(), "zeros"),
        (lambda x: x * 1, probe.AS_IT_CAME),
        (lambda x: (x > 100).int(), "zeros"),
    ],
)
def test_trivial_answers_that_pass_are_named(model, passes):
    assert passes in probed(model).passing


def test_of_a_plain_task_nothing_trivial_passes():
    found = probed(nn.Linear(64, 32).eval())
    assert (found.passing, found.still, found.precision.noise) == ([], [], [])
    assert found.precision.type == "fp32"
    assert found.precision.own > 17
    assert found.precision.required == 13
    told = {**{k: v for k, v in vars(found).items() if k != "precision"}, "precision": vars(found.precision)}
    assert probe.known({**told, "required": 13.0}).precision == found.precision


def test_an_output_that_never_changes_is_told():
    found = probed(lambda x: (x.sum(-1), (x.abs() + 2).clamp_max(1.9)))
    assert found.still == ["output[1]"]


@pytest.mark.parametrize(
    ("draw", "model", "type"),
    [
        (lambda: [torch.randn(8, 8)], lambda x: x @ x, "fp32"),
        (lambda: [torch.randn(8, 8).bfloat16()], lambda x: x @ x, "bf16"),
        (lambda: [torch.randn(8, 8)], lambda x: (x.half() @ x.half()).float(), "fp16"),
        (lambda: [torch.randn(8, 8), torch.randn(8, 8).half()], lambda x, y: x + y, "fp32"),
        (lambda: [torch.randn(8, 8).to(torch.float8_e4m3fn)], lambda x: x.float() @ x.float(), "fp32"),
        (lambda: [torch.randn(8, 8, dtype=torch.complex64)], lambda x: x @ x, "fp32"),
    ],
)
def test_a_tasks_type_is_that_of_its_inputs_weights_and_arithmetic(draw, model, type):
    assert probed(model, draw).precision.type == type


def test_a_reference_that_draws_or_writes_is_told():
    assert probed(lambda x: x + torch.rand_like(x)).random
    assert probed(lambda x: x.add_(1)).mutates
    assert probed(lambda x: x.nan_to_num()).holes


@pytest.mark.parametrize(("bits", "status"), [(6.8, "ok"), (13.0, "mismatch")])
def test_a_timed_answer_is_about_as_exact_as_the_trials_or_the_task(bits, status):
    right = compare.Verdict("ok", bits=8.8)
    assert _as_exact(lambda *_: right, bits, [], None, None).status == status


def test_a_reference_that_runs_only_once_judges_by_its_answer():
    """Memory may suffice for no further run."""

    def once(x):
        raise torch.OutOfMemoryError("no room")

    x = torch.rand(64, 64)
    oracle = Oracle(once)
    case = oracle.case([x], torch.relu(x), drawn=True)
    assert case.judged(torch.relu(x), exact=True).status == "ok"
    assert case.judged(torch.relu(x) * (1 + 1e-6), exact=True).status == "ok"
    assert case.judged(torch.relu(x) + 0.1, exact=True).status == "mismatch"
    assert oracle.precision.truth == ANSWER
