"""Floating numbers of one byte, with which torch hardly computes, among a task's inputs, weights and outputs."""

import pytest
import torch
from torch import nn

from profkit.guest.tensors import alike, inputs, weights
from profkit.guest.tensors.compare import equal
from profkit.judge import cases
from profkit.judge.precision.bits import Precision
from profkit.judge.precision.oracle import Oracle
from profkit.torch_tools.work import FlopModel

TYPES = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu)


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        torch.manual_seed(3)
        yield


def drawn(dtype, *shape):
    return (torch.rand(shape) * 8 + 0.5).to(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_inputs_are_changed_as_others_are_and_never_by_units_in_the_last_place(dtype):
    one, other = drawn(dtype, 24, 32), drawn(dtype, 24, 32)
    assert inputs.scalable([one, torch.randn(3)]) == [False, True]
    assert not inputs.repeated([one], [other])
    assert equal(inputs.stirred(inputs.STIRRED, 0, one.clone()), one)
    assert alike.Common([one, one], [other, other]).kept([other, one]) is not None
    assert not alike.whole(torch.full((4,), 0.5).to(dtype))


@pytest.mark.parametrize("dtype", TYPES)
def test_unusual_inputs_are_tried(dtype):
    scale = torch.rand(24)
    ask = lambda given: given[0].float() @ given[1].float().t() * given[2]  # noqa: E731
    given, again = [[drawn(dtype, 8, 32), drawn(dtype, 24, 32), scale] for _ in range(2)]
    found = {one.name: one for one in cases.trials((given, again), ask)}
    assert {"rows that are all the first", "rows in order of size", "inputs times 10"} <= found.keys()
    assert all(one.arguments[0].dtype is dtype for one in found.values())
    rows = found["rows that are all the first"].arguments[0]
    assert equal(rows, rows[:1].expand_as(rows))


def test_two_numbers_in_a_byte_are_moved_and_never_computed_with():
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("this torch has no such type")
    one, other = (torch.randint(0, 256, (8, 32), dtype=torch.uint8).view(torch.float4_e2m1fn_x2) for _ in range(2))
    assert inputs.scalable([one]) == [False]
    assert not inputs.repeated([one], [other])
    ask = lambda given: (given[0].view(torch.uint8) & 15).float() @ given[1].t()  # noqa: E731
    found = {one.name for one in cases.trials(([one, torch.randn(4, 32)], [other, torch.randn(4, 32)]), ask)}
    assert "inputs times 10" in found


def test_weights_of_one_byte_are_looked_at_and_drawn():
    model = nn.Module()
    model.register_buffer("codes", drawn(torch.float8_e4m3fn, 24, 32))
    model.register_buffer("ones", torch.ones(8).to(torch.float8_e4m3fn))
    model.weight = nn.Parameter(drawn(torch.float8_e5m2, 8, 8), requires_grad=False)
    assert set(weights.constants(model)) == {"ones"}
    live = weights.draw(model, lambda: model.ones.float() * 2, 1)
    assert live.live["ones"].dtype is torch.float8_e4m3fn
    assert not equal(live.live["ones"], live.constructed["ones"])


def test_answers_off_codes_and_codes_as_answers_are_judged():
    codes, w = drawn(torch.float8_e4m3fn, 40, 40), torch.randn(40, 8)
    assert weights.steady(codes, codes.clone())

    def model(x, w):
        return x.float() @ w

    want = model(codes, w)
    case = Oracle(model, Precision()).case([codes, w], want)
    assert case.judged((codes.double() @ w.double()).float()).status == "ok"
    off = want.clone()
    off[0, 0] += 5
    assert case.judged(off).status == "mismatch"
    eight = Oracle(lambda x: x.to(torch.float8_e4m3fn), Precision()).case([w], w.to(torch.float8_e4m3fn))
    assert eight.judged(w.to(torch.float8_e4m3fn)).status == "ok"
    assert eight.judged((w * 1.5).to(torch.float8_e4m3fn)).status == "mismatch"


def test_a_reference_that_rounds_on_its_way_is_judged_by_float64():
    x, w, scale = drawn(torch.float8_e4m3fn, 64, 128), drawn(torch.float8_e4m3fn, 32, 128), torch.rand(32) + 0.5
    product = lambda x, w, scale: ((x.to(torch.bfloat16) @ w.to(torch.bfloat16).t()).float() * scale).to(torch.bfloat16)  # noqa: E731
    case = Oracle(product, Precision("bf16")).case([x, w, scale], product(x, w, scale))
    assert case.noise() == []
    assert 7.0 < case.own() < 11.0


def test_products_of_codes_are_bounded_by_the_rate_of_codes():
    x, w = drawn(torch.float8_e4m3fn, 16, 32), drawn(torch.float8_e4m3fn, 24, 32)
    for narrow, pipe in (("fp8", "tensor_fp8"), ("", "tensor_bf16")):
        with FlopModel("9.0", narrow) as counted:
            x.to(torch.bfloat16) @ w.to(torch.bfloat16).t()
        assert counted.flops[pipe] == 2 * 16 * 24 * 32
