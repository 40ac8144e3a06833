"""FLOP of the reference by operation: what how-numbers-are-made says an element of each costs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from profkit.runner.work import FlopModel, modelled

X = torch.randn(3, 4, 5, 5)
FLAT = torch.randn(6, 8)
N = X.numel()


def flops(function, *args, cc=""):
    with FlopModel(cc) as counter, torch.no_grad():
        function(*args)
    assert not counter.unknown
    return dict(counter.flops)


@pytest.mark.parametrize(
    ("name", "function", "each"),
    [
        ("softmax", lambda x: torch.softmax(x, -1), 5),
        ("log_softmax", lambda x: torch.log_softmax(x, -1), 5),
        ("layer_norm", lambda x: nn.functional.layer_norm(x, x.shape[-1:]), 8),
        ("group_norm", lambda x: nn.functional.group_norm(x, 2), 8),
        ("batch_norm", nn.BatchNorm2d(4).eval(), 4),
        ("batch_norm in training", nn.BatchNorm2d(4).train(), 4),
        ("var", lambda x: x.var(-1), 4),
        ("std", lambda x: x.std(-1), 4),
        ("var_mean", lambda x: torch.var_mean(x, -1), 4),
        ("logsumexp", lambda x: torch.logsumexp(x, -1), 4),
        ("norm", lambda x: torch.linalg.vector_norm(x), 2),
        ("sum", lambda x: x.sum(), 1),
        ("amax", lambda x: x.amax(-1), 1),
        ("relu", torch.relu, 1),
        ("a copy", lambda x: x.clone(), 0),
        ("a view", lambda x: x.permute(1, 0, 2, 3), 0),
    ],
)
def test_an_element_costs_what_is_said(name, function, each):
    assert sum(flops(function, X).values()) == each * N, name


def test_a_product_counts_two_a_multiply_add_and_its_bias_one():
    assert flops(nn.Linear(8, 3), FLAT) == {"fp32": 2 * 6 * 8 * 3 + 6 * 3}
    assert flops(torch.mm, FLAT, FLAT.T) == {"fp32": 2 * 6 * 8 * 6}


@pytest.mark.parametrize(
    ("dtype", "cc", "pipe"),
    [
        (torch.float32, "9.0", "fp32"),
        (torch.float64, "9.0", "tensor_fp64"),
        (torch.float64, "8.6", "fp64"),
        (torch.float64, "", "fp64"),
        (torch.bfloat16, "9.0", "tensor_bf16"),
        (torch.float16, "8.0", "tensor_fp16"),
        (torch.bfloat16, "", "fp32"),
    ],
)
def test_a_product_stands_on_the_pipe_of_its_type(dtype, cc, pipe):
    assert list(flops(torch.mm, FLAT.to(dtype), FLAT.T.to(dtype), cc=cc)) == [pipe]


def test_bytes_are_inputs_parameters_and_outputs_once():
    found = modelled(nn.Linear(8, 3), [FLAT], "")
    assert (found["read"], found["written"]) == (4 * (48 + 24 + 3), 4 * 18)
    assert found["bytes"] == found["read"] + found["written"]
    assert found["note"] == ""
    strange = modelled(lambda x: torch.sort(x)[0], [FLAT], "")
    assert strange["note"] == "not in the FLOP model: sort"
