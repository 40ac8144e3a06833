"""Samples of a program's operations, and a verdict weighted by its calls."""

import json
import math

import pytest
import torch
from click.testing import CliRunner
from served import trace

from analyzers.verdicts.shapes import Program, Shape, Weighted, weighted
from analyzers.verdicts.statistics import Ratio
from analyzers.verdicts.verdict import Evidence, decide
from profkit.api import profile
from profkit.cli.group import cli
from profkit.study.study import open_study
from profkit.study.verdicts import _served

FP32, INT = "float", "long int"
NONE = ["Scalar", "Scalar"]
OPERATIONS = {
    "mm": ([[4, 8], [8, 6]], [FP32] * 2, []),
    "addmm": ([[6], [4, 8], [8, 6], [], []], [FP32] * 3 + NONE, ["", "", "", "1", "1"]),
    "bmm": ([[2, 4, 8], [2, 8, 6]], [FP32] * 2, []),
    "_flash_attention_forward": ([[2, 5, 4, 8], [2, 5, 2, 8], [2, 5, 2, 8]], [FP32] * 3, [""] * 8 + ["True"]),
    "_scaled_dot_product_cudnn_attention": ([[2, 4, 5, 8]] * 3, [FP32] * 3, [""] * 6 + ["False"]),
    "native_layer_norm": (
        [[3, 8], [], [8], [8], []],
        [FP32, "ScalarList", FP32, FP32, "Scalar"],
        ["", "[8]", "", "", "1e-5"],
    ),
    "_fused_rms_norm": ([[3, 8], [], [8], []], [FP32, "ScalarList", FP32, "Scalar"], ["", "[8]", "", "1e-6"]),
    "_softmax": ([[3, 8], [], []], [FP32, "Scalar", "Scalar"], ["", "-1", "False"]),
    "gelu": ([[3, 8], []], [FP32, ""], []),
    "silu": ([[3, 8]], [FP32], []),
    "embedding": ([[10, 4], [7]], [FP32, INT], []),
    "cudnn_convolution": ([[1, 2, 6, 6], [3, 2, 3, 3]], [FP32] * 2, ["", "", "[1, 1]", "[2, 2]", "[1, 1]", "1"]),
}


def made(tmp_path, *calls):
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(trace(*calls)), encoding="utf-8")
    words = ["tasks", str(file), "-o", str(tmp_path / "tasks"), "--most", "99"]
    found = CliRunner().invoke(cli, words, catch_exceptions=False, standalone_mode=False)
    return sorted((tmp_path / "tasks").iterdir()) if found.return_value == 0 else []


def loaded(file):
    space = {}
    exec(compile(file.read_text("utf-8"), str(file), "exec"), space)
    return space


def test_a_folder_of_each_operation_runs_and_its_candidate_is_right(tmp_path):
    calls = [((f"aten::{name}", *how, f"{name}_kernel"), 50) for name, how in OPERATIONS.items()]
    folders = made(tmp_path, *calls)
    assert len(folders) == len(OPERATIONS)
    for folder in folders:
        reference, candidate = loaded(folder / "reference.py"), loaded(folder / "candidate.py")
        inputs = reference["get_inputs"]()
        assert torch.equal(reference["Model"]()(*inputs), candidate["ModelNew"]()(*inputs))
        assert len(reference["SHARES"]) == 1 + len(reference["get_more_inputs"]())


def test_the_hottest_shape_is_first_and_shares_are_of_the_calls(tmp_path):
    small, large = (("aten::silu", [[size, 8]], [FP32], [], "silu_kernel") for size in (3, 999))
    (folder,) = made(tmp_path, (small, 1), (small, 1), (small, 1), (large, 90))
    reference = loaded(folder / "reference.py")
    assert [one.shape for one in reference["get_inputs"]()] == [(999, 8)]
    assert reference["SHARES"] == [0.25, 0.75]
    takes, waits, busy, calls = reference["PROGRAM_SHARE"]
    assert 0 < waits <= takes <= busy < 1
    assert calls > 0


def test_weights_decide_and_the_program_is_told(tmp_path):
    def shape(name, time, value):
        return Shape((name,), {"reference": time}, {"mine": Ratio(value, value * 0.99, value * 1.01, n=9)})

    # 90 calls of 1 s at half the speed, 10 calls of 1 s ten times as fast: slower, whatever the mean of the two says.
    one = weighted([shape("small", 1.0, 0.5), shape("large", 1.0, 10.0)], [0.9, 0.1], (0.5, 0.5, 1.0, 0.0))["mine"]
    assert one.ratio.value == pytest.approx(1 / (0.9 / 0.5 + 0.1 / 10))
    assert one.ratio.low < one.ratio.value < one.ratio.high
    said = decide(
        Evidence(impl="mine", ratio="slower", speedup=0.55, low=0.54, high=0.56, served=one.conditions)
    ).text()
    assert "weighted by calls over 2 shapes" in said
    assert "slower at 1 of 2 shapes: small 0.500x" in said
    assert "worth -41.4% to -39.6%" in said
    assert not weighted([shape("small", 1.0, 0.5)], [0.9, 0.1], (0.5, 0.5, 1.0, 0.0))


@pytest.mark.parametrize(
    ("speedup", "host", "saved"),
    [
        (2.0, 0.0, (0.25, 0.3125)),  # at the recorded pace, and where the host is never late
        (100.0, 0.0, (0.3, 0.61875)),
        (0.5, 0.0, (-0.625, -0.3)),
        (
            2.0,
            1e-2,
            (-0.15, 0.3125),
        ),  # a launch costs the host 10 ms more, 100 times a second; it is late for 40 % of it
        (2.0, -1e-3, (0.29, 0.3125)),
    ],
)
def test_a_program_wins_by_its_gpus_time_and_by_its_hosts(speedup, host, saved):
    program = Program(takes=0.5, waits=0.3, busy=0.8, calls=100.0)
    assert program.saved(Ratio(speedup, speedup, speedup, n=9), host) == pytest.approx(saved)


def test_calls_that_take_no_time_win_none():
    assert Program(takes=0.0, waits=0.0, busy=1.0, calls=0.0).saved(Ratio(2.0, 1.9, 2.1, n=9), 1e-3) == (0, 0)


def test_launching_is_weighted_by_calls_and_unknown_without_a_clock():
    def shape(host):
        return Shape(
            ("one",), {"reference": 1.0}, {"mine": Ratio(1.0, 1.0, 1.0, n=9)}, {"reference": 1e-3, "mine": host}
        )

    program = 0.5, 0.25, 1.0, 20.0
    said = [weighted([shape(3e-3), shape(5e-3)], [0.5, 0.5], program), weighted([shape(math.nan)], [1.0], program)]
    assert [one["mine"].conditions[-1].values["low"] for one in said] == ["-3.0%", "0.0%"]


@pytest.mark.slow
def test_a_served_folder_is_judged_on_all_its_shapes(tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    small, large = (("aten::silu", [[size, 8]], [FP32], [], "silu_kernel") for size in (30, 999))
    (folder,) = made(tmp_path, (small, 1), (small, 1), (small, 1), (large, 90))
    options = {"device": "cpu", "counters": "off", "budget": 0.05, "trials": 1, "processes": 1}
    study = open_study(profile(folder, runs=tmp_path / "runs", **options).path)
    assert study.manifest.served.shares == [0.25, 0.75]
    assert "weighted" in {one.code for one in study.verdicts["candidate"].conditions}
    assert study.verdicts["candidate"].speedup == study.weighted["candidate"].ratio.value


def test_clocks_of_one_shape_are_not_told_of_all():
    known = Evidence(impl="c", ratio="inconclusive", speedup=1.3, low=1.2, high=1.4, caller="0.7x", clocks="cupti 1.3x")
    told = decide(_served(known, Weighted(Ratio(2.0, 1.98, 2.02), ())))
    assert told.text() == "faster: 2.00x [1.98, 2.02]"
