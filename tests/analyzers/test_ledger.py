"""The ledger of a program, from small traces made here."""

import json
import math
from pathlib import Path

import pytest
from served import trace

import collectors
from analyzers.ledger.ledger import ledger
from analyzers.ledger.work import need
from collectors.frame import host_of
from collectors.operations import told
from roofline.ceilings import Roofline, datasheet_ceilings
from roofline.device import find_spec

H100 = find_spec("NVIDIA H100 80GB HBM3")
ROOF = Roofline("NVIDIA H100 80GB HBM3", datasheet_ceilings(H100))
BIG = [8192, 8192]
BF16, FP32 = "c10::BFloat16", "float"
MM = ("aten::mm", [BIG, BIG], [BF16, BF16], [], "nvjet_tst")
GELU = ("aten::gelu", [BIG, []], [BF16, ""], [], "gelu_kernel")
COPY = ("aten::copy_", [BIG, BIG, []], [BF16, BF16, "Scalar"], [], "copy_kernel")


def of(tmp_path, *calls, **how):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace(*calls, **how)), encoding="utf-8")
    frame = collectors.read(path)
    return ledger(frame, host_of(frame), ROOF, l2_bytes=H100.l2_bytes)


def row(found, name):
    return next(one for one in found.rows if one.name == name)


def least(name, dims, types, values=(), strides=(), kernel=""):
    return need(told(name, dims, types, list(strides), list(values)), kernel).work


@pytest.mark.parametrize(
    ("call", "flops", "bytes_"),
    [
        (("aten::mm", [[64, 32], [32, 16]], [BF16, BF16]), 2 * 64 * 32 * 16, 2 * (64 * 32 + 32 * 16 + 64 * 16)),
        (("aten::addmm", [[16], [64, 32], [32, 16]], [FP32] * 3), 2 * 64 * 32 * 16, 4 * (16 + 2048 + 512 + 1024)),
        # A bias that was expanded is one row.
        (
            ("aten::copy_", [[64, 16], [64, 16], []], [FP32, FP32, "Scalar"], (), [[16, 1], [0, 1], []]),
            0,
            4 * (1024 + 16),
        ),
        (("aten::add", [[8, 16], [16], []], [BF16, FP32, "Scalar"]), 0, 2 * 128 + 4 * 16 + 4 * 128),
        (("aten::mul", [[8, 16], []], [BF16, "double"]), 0, 2 * 2 * 128),
        (("aten::eq", [[8, 16], []], ["long int", "Scalar"]), 0, 9 * 128),
        (
            ("aten::native_layer_norm", [[4, 8], [], [8], [8], []], [BF16, "ScalarList", BF16, BF16, "Scalar"]),
            0,
            2 * 80,
        ),
        (("aten::embedding", [[1000, 8], [5]], [FP32, "long int"]), 0, 5 * 8 + 5 * 8 * 4),
        # Taps outside the image are none: at both ends of a row of 4 two of three.
        (
            (
                "aten::cudnn_convolution",
                [[1, 1, 4, 4], [1, 1, 3, 3]],
                [FP32] * 2,
                ["", "", "[1, 1]", "[1, 1]", "[1, 1]", "1"],
            ),
            2 * 10 * 10,
            4 * (16 + 9 + 16),
        ),
        (
            ("aten::_flash_attention_forward", [[1, 4, 2, 8]] * 3, [BF16] * 3, [""] * 8 + ["True"]),
            2 * 2 * (1 + 2 + 3 + 4) * 16,
            2 * 4 * 64,
        ),
    ],
)
def test_bytes_and_flop_are_those_of_the_call(call, flops, bytes_):
    work = least(*call)
    assert (work.total, work.bytes) == (flops, bytes_)


def test_what_is_not_known_has_no_bound():
    assert least("vllm::moe_forward", [[8, 8]], [BF16]) is None
    assert least("aten::mm", [], []) is None
    convolved = [[1, 1, 4, 4], [1, 1, 3, 3]], [FP32] * 2, ["", "", "", "[1]", "[1]", "[1]"]
    assert not least("aten::convolution", *convolved, kernel="winograd").flops
    causal = least("aten::_flash_attention_forward", [[1, 4, 2, 8]] * 3, [BF16] * 3)
    assert not causal.flops
    assert causal.bytes > 0


def test_a_step_adds_up_and_each_row_says_what_to_do(tmp_path):
    found = of(tmp_path, *[(MM, 1500), (GELU, 120), (COPY, 200)] * 4, pace=10)
    assert sum(found.accounts.values()) == pytest.approx(found.step)
    assert [row(found, name).advice for name in ("mm", "gelu", "copy_")] == ["make faster", "fuse", "eliminate"]
    assert row(found, "gelu").partner == "mm"
    assert row(found, "mm").bound == pytest.approx(2 * 8192**3 / 989.4e12, rel=1e-3)
    assert found.together <= found.step
    assert found.together >= max(one.wins[1] for one in found.rows)
    assert found.bounded == 1
    near = row(of(tmp_path, *[(MM, 1150)] * 4, pace=10), "mm")
    assert (near.advice, near.wins) == ("at its ceiling", (0, 0))
    low, high = row(found, "copy_").wins
    assert 0 < low < high <= row(found, "copy_").own * 1.01


def test_a_faster_kernel_wins_nothing_where_the_host_is_late(tmp_path):
    found = of(tmp_path, *[(MM, 2000)] * 6, pace=5000)
    assert row(found, "mm").advice == "host too late"
    assert row(found, "mm").wins[1] == pytest.approx(0, abs=1e-6)
    assert found.queued / found.step > 0.5
    assert found.together < found.step


def test_two_element_wise_operations_do_not_both_go(tmp_path):
    tanh = ("aten::tanh", [BIG], [BF16], [], "tanh_kernel")
    found = of(tmp_path, *[(GELU, 120), (tanh, 130)] * 4, pace=10)
    assert [one.advice for one in found.rows].count("fuse") == 1


def test_bytes_that_l2_can_hold_may_be_faster_than_dram(tmp_path):
    small = ("aten::add", [[1024, 1024]] * 2 + [[]], [BF16, BF16, "Scalar"], [], "add_kernel")
    found = of(tmp_path, *[(small, 1.2)] * 4, pace=1)
    one = row(found, "add")
    assert one.bound_by == "l2"
    assert not one.bound > one.each
    # 400 MB do not fit, and no ceiling lets them through so fast.
    beaten = of(tmp_path, *[(GELU, 20)] * 4, pace=1)
    assert math.isnan(row(beaten, "gelu").bound)
    assert [one.code for one in beaten.caveats if one.code == "beaten"]


def test_a_captured_kernel_is_its_operations(tmp_path):
    found = of(tmp_path, (MM, 1500), (GELU, 120), graph=3)
    assert {one.name for one in found.rows} == {"mm", "gelu"}
    assert found.accounts["kernels"] == 0


def test_of_an_old_trace_the_operation_round_the_call_is_taken(tmp_path):
    found = of(tmp_path, *[(MM, 1500), (GELU, 120)] * 4, old=True)
    now = of(tmp_path, *[(MM, 1500), (GELU, 120)] * 4)
    assert {one.name: one.calls for one in found.rows} == {one.name: one.calls for one in now.rows}
    assert found.bounded == 1


def test_without_shapes_bounds_are_missing_and_it_says_how_to_record_them(tmp_path):
    bare = ("aten::mm", [], [], [], "nvjet_tst")
    found = of(tmp_path, *[(bare, 1500)] * 4, pace=10)
    assert math.isnan(found.rows[0].bound)
    assert "record_shapes=True" in found.caveats[0].fix
    assert json.loads(found.data)["rows"][0]["bound"] is None


def test_a_recorded_trace_accounts_for_all_its_time():
    frame = collectors.read(Path(__file__).parent.parent / "data" / "kineto" / "resnet_h100.trace.json.gz")
    found = ledger(frame, host_of(frame), ROOF)
    assert sum(found.accounts.values()) == pytest.approx(found.step)
    assert 0 < found.accounts["copies"] < found.accounts["kernels"]
    assert found.queued <= found.together <= found.step
