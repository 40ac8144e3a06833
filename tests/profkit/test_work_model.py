"""FLOP and bytes of the reference by operation, as how-numbers-are-made says; operators that a call makes."""

import math
import subprocess
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from torch import nn

from profkit.guest.operators import LARGE, recorded
from profkit.torch_tools.work import FlopModel, _moved, declared, modelled

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
        ("norm over axes", lambda x: torch.ops.aten.norm(x, 2, [0], False), 2),
        ("sum", lambda x: x.sum(), 1),
        ("amax", lambda x: x.amax(-1), 1),
        ("relu", torch.relu, 1),
        ("a copy", lambda x: x.clone(), 0),
        ("a view", lambda x: x.permute(1, 0, 2, 3), 0),
    ],
)
def test_an_element_costs_what_is_said(name, function, each):
    assert sum(flops(function, X).values()) == each * N, name


def test_a_norm_that_is_one_operation_on_a_gpu_alone():
    """A CPU takes it apart before anybody could count it, and older versions of torch on a GPU as well."""
    counter = FlopModel("9.0")
    if hasattr(torch.ops.aten, "_fused_rms_norm"):
        norm = torch.ops.aten._fused_rms_norm.default
    else:
        norm = Mock(_overloadpacket=Mock(_qualified_op_name="aten::_fused_rms_norm"), tags=(), is_view=False)
    counter._count(norm, (X, [5], None, 1e-5), {}, X)
    assert dict(counter.flops) == {"fp32": 4 * N}


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


@pytest.mark.parametrize(
    ("name", "dtype", "cc", "pipe"),
    [
        ("mm", torch.float32, "8.0", "tensor_tf32"),
        ("mm", torch.float32, "12.0", "tensor_tf32"),
        ("mm", torch.float32, "7.5", "fp32"),
        ("mm", torch.float32, "", "fp32"),
        ("convolution", torch.float32, "9.0", "fp32"),
        ("mm", torch.float8_e4m3fn, "9.0", "tensor_fp8"),
        ("mm", torch.int8, "8.0", "tensor_int8"),
        ("mm", torch.int32, "8.0", "fp32"),
        ("mm", torch.float64, "10.0", "tensor_fp64"),
        ("mm", torch.float64, "12.0", "fp64"),
        ("mm", torch.int8, "", "fp32"),
        ("mm", None, "", "fp32"),
        ("mm", None, "9.0", "fp32"),
    ],
)
def test_the_pipe_of_a_product_follows_the_settings_of_torch(monkeypatch, name, dtype, cc, pipe):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    assert FlopModel(cc)._matmul_pipe(name, dtype) == pipe
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert FlopModel(cc)._matmul_pipe(name, dtype) == ("fp32" if pipe == "tensor_tf32" else pipe)


def test_element_wise_work_counts_what_it_gives_and_only_where_it_is_arithmetic():
    assert flops(lambda x: x + torch.randn(6, 8)[0], FLAT) == {"fp32": 48}
    assert flops(lambda x: (x.double() * 2).sum(), FLAT) == {"fp64": 2 * 48}
    assert flops(lambda x: x.half() + 1, FLAT) == {"fp32": 48}
    assert flops(lambda x: torch.arange(8) + 1, FLAT) == {}
    assert flops(lambda x: torch.cat([x, x]).clone(), FLAT) == {}
    assert flops(lambda x: torch.baddbmm(x[None], x[None], FLAT.T[None] @ x), FLAT)["fp32"] == 2 * 48 * 8 * 2


def test_distinct_tensors_count_once_and_sparse_ones_not():
    assert modelled(torch.add, [FLAT, FLAT], "")["read"] == 4 * 48
    assert modelled(torch.add, [FLAT, FLAT.clone()], "")["read"] == 2 * 4 * 48
    assert modelled(lambda x, s: x + 1, [FLAT, FLAT.to_sparse()], "")["read"] == 4 * 48
    assert modelled(lambda x: (x + 1, {"n": 2, "y": x - 1}), [FLAT], "")["written"] == 2 * 4 * 48


def test_what_a_sample_declares():
    assert declared(SimpleNamespace()) is None
    found = declared(SimpleNamespace(get_work=lambda: {"flops": 7}))
    assert (found["flops"], math.isnan(found["bytes"])) == ({"fp32": 7.0}, True)
    found = declared(SimpleNamespace(get_work=lambda: {"flops": {"fp64": 3}, "bytes": 4}))
    assert (found["flops"], found["bytes"], found["source"]) == ({"fp64": 3.0}, 4.0, "declared")


@pytest.mark.slow
def test_counting_loads_no_compiler():
    code = "import sys, torch\nfrom profkit.guest.tensors import inputs\nfrom profkit.torch_tools import work\ninputs.seed_all(1)\nlayer = torch.nn.Linear(8, 8)\n"
    code += "with work.FlopModel('') as counter: layer(torch.ones(4, 8)).relu()\n"
    code += "print(counter.flops['fp32'], 'torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["576.0", "False"]


@pytest.mark.xdist_group("dynamo")
def test_what_is_compiled_is_counted_as_it_is():
    def layer(x):
        return torch.relu(x @ x + 1)

    counts = []
    for call in (layer, torch.compile(layer, backend="eager")):
        for _ in range(2):
            counts.append(flops(call, torch.ones(8, 8)))
            call(torch.ones(8, 8))
    assert counts == [counts[0]] * 4
    assert counts[0]["fp32"] > 0


def test_products_are_priced_at_what_the_task_allows():
    given = [torch.randn(16, 32).bfloat16(), torch.randn(32, 8).bfloat16()]
    model = lambda x, y: (x.float() @ y.float()).bfloat16()  # noqa: E731
    assert modelled(model, given, "9.0", "bf16")["flops"]["tensor_bf16"] == 2 * 16 * 32 * 8
    assert "tensor_bf16" not in modelled(model, given, "", "bf16")["flops"]


BASE = torch.empty(64, 1024)
VIEWS = [
    (BASE, 64 * 1024 * 4),
    (BASE.t(), 64 * 1024 * 4),
    (BASE[:, ::2], 64 * 1024 * 4 - 4),  # each sector holds four of its elements
    (BASE[:, ::8], 64 * 1024 * 4 - 28),
    (BASE[:, ::16], 64 * 64 * 32),  # every other sector
    (BASE[:, :64:7], 64 * 256),  # gaps of 24 bytes, then a gap of many sectors
    (BASE[:, 0], 64 * 32),
    (BASE[::2], 32 * 1024 * 4),
    (BASE[:, :8], 64 * 32),
    (torch.empty(5, 1).expand(5, 7), 5 * 4),
    (torch.empty(100).unfold(0, 10, 1), 100 * 4),
    (torch.empty(()), 4),
    (torch.empty(0, 3), 0),
]


@pytest.mark.parametrize(("view", "moved"), VIEWS, ids=[str(tuple(v.stride())) for v, _ in VIEWS])
def test_bytes_of_a_view(view, moved):
    assert _moved(view) == moved


GIVEN = torch.ones(LARGE // 4)


@pytest.fixture
def uncompiled(monkeypatch):
    """Other tests of this process may have imported the compiler."""
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)


@pytest.mark.usefixtures("uncompiled")
def test_calls_and_types():
    found = recorded(lambda: [GIVEN[i].add(1) for i in range(10)])
    assert found["calls"] == 20
    assert found["fp64"] == found["allocated"] == 0.0
    wide = recorded(lambda: GIVEN.double().exp().float())
    assert 0 < wide["fp64"] == wide["seconds"]
    plain = recorded(lambda: GIVEN + 1)
    assert plain["fp64"] == plain["copies"] == 0.0
    copied = recorded(lambda: GIVEN.view(2, -1).t().contiguous())
    assert 0 < copied["copies"] <= copied["seconds"]


@pytest.mark.usefixtures("uncompiled")
def test_bytes_of_large_results_alone():
    assert recorded(lambda: GIVEN.exp())["allocated"] == LARGE
    assert recorded(lambda: GIVEN.clone().exp_().view(2, -1))["allocated"] == LARGE
    assert recorded(lambda: GIVEN[: LARGE // 8] + 1)["allocated"] == 0.0


def test_a_compiled_call_is_not_recorded(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch._dynamo", torch)
    assert recorded(lambda: GIVEN + 1) == {}
