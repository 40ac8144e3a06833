"""A kernelbot task, hand-written in the published form (gpu-mode/reference-kernels), measured on the CPU."""

import ast
import json
import re

import pytest

from profkit.api import profile
from profkit.contests import formats
from profkit.contests.kernelbot import buffers, read
from profkit.contests.sources import pair
from profkit.errors import ProfkitError
from profkit.targets.source import Source

TASK = """
files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "task.py", "source": "task.py"}
  - {"name": "utils.py", "source": "../utils.py"}
  - {"name": "reference.py", "source": "reference.py"}
  - {"name": "eval.py", "source": "../eval.py"}
lang: "py"
description: |
  y = a * x + b
config:
  main: "eval.py"
tests:
  - {"rows": 3, "cols": 5, "flat": False, "seed": 4242}
benchmarks:
  - {"rows": 16, "cols": 32, "flat": False, "seed": 54352}
  - {"rows": 64, "cols": 32, "flat": False, "seed": 93246}
  - {"rows": 64, "cols": 16, "flat": True, "seed": 93246}
ranking_by: "geom"
"""
UTILS = """
def make_match_reference(reference, **limits):
    return lambda data, output: ""
"""
REFERENCE = '''
import torch
from task import input_t, output_t
from utils import make_match_reference


def ref_kernel(data: input_t) -> output_t:
    """y = a * x + b, into y."""
    x, scale, y = data
    y[...] = x * scale["a"] + scale["b"]
    return y


def generate_input(rows: int, cols: int, flat: bool, seed: int) -> input_t:
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    shape = (rows * cols,) if flat else (rows, cols)
    x = torch.randn(shape, device='cuda', generator=gen)
    scale = {name: torch.randn(shape[-1:], device="cuda", generator=gen) for name in "ab"}
    return x, scale, torch.empty(shape, device="cuda")


check_implementation = make_match_reference(ref_kernel, rtol=1e-3, atol=1e-3)
'''
SUBMISSION = """#!POPCORN leaderboard scale_add
import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, scale, y = data
    return torch.addcmul(scale["b"], x, scale["a"], out=y)
"""


@pytest.fixture
def task(tmp_path):
    folder = tmp_path / "problems/scale_add"
    (folder / "submissions").mkdir(parents=True)
    (folder / "task.yml").write_text(TASK)
    (folder / "task.py").write_text("input_t = output_t = object\n")
    (folder.parent / "utils.py").write_text(UTILS)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "submission.py").write_text(SUBMISSION)
    fresh = SUBMISSION.replace('torch.addcmul(scale["b"], x, scale["a"], out=y)', 'x * scale["a"] + scale["b"]')
    (folder / "submissions/new-tensor.py").write_text(fresh)
    (folder / "submissions/wrong.py").write_text(fresh.replace(" + ", " - "))
    (folder / "submissions/wide.py").write_text(fresh.replace('scale["b"]', 'scale["b"].double()'))
    return folder


@pytest.mark.slow
def test_a_task_is_measured(task, tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    run = profile(task, device="cpu", trials=2, budget=0.05, runs=tmp_path / "runs")
    assert {i.name: i.status for i in run.manifest.impls} == {
        "reference": "ok",
        "new_tensor": "ok",
        "submission": "ok",
        "wide": "ok",  # as for the contest, whose check compares values
        "wrong": "mismatch",
    }
    right = next(i for i in run.manifest.impls if i.name == "submission")
    assert len(right.checks) == 2 + 3, "every other case is checked as well"
    assert {"reference.py", "submission.py", "wrong.py", "task.py", "utils.py"} <= {f.name for f in run.path.iterdir()}
    codes = {caveat.code for caveat in run.manifest.caveats}
    assert {"one-case-timed", "own-tolerance", "moved-to-cpu"} <= codes
    assert run.manifest.inputs[0] == "float32 [64, 32]"


def test_the_largest_benchmark_is_timed(task):
    assert formats.targets(task) == formats.targets(task.parent) == [task]
    made = read(task, "cuda")
    found = ast.literal_eval(re.search(r"^_CASES = (.*)$", made.reference, re.M)[1])
    assert [(case["rows"], case["cols"]) for case in found] == [(64, 32), (16, 32), (64, 16), (3, 5)]
    assert json.dumps(found[0]["flat"]) == "false"
    assert 'device="cuda"' in made.reference
    assert "moved-to-cpu" not in {caveat.code for caveat in made.caveats}


@pytest.mark.parametrize(
    ("body", "places"),
    [
        ("a, b, c = data\n    c[...] = a + b\n    return c", (2,)),
        ("a, c = data\n    c[:] = a\n    return c", (1,)),
        ("a, c = data\n    c.copy_(a)\n    return c", (1,)),
        ("a, c = data\n    torch.exp(a, out=c)\n    return c", (1,)),
        ("data, c = data\n    c[...] = data.sum()\n    return c", (1,)),
        ("a, c, d = data\n    c[...] = a\n    d[...] = a\n    return c, d", (1, 2)),
        ("a, c = data\n    c += a\n    return c", ()),
        ("a, c = data\n    c[0] = a\n    return c", ()),
        ("a, c = data\n    c[...] = a + c.mean()\n    return c", ()),
        ("a, b = data\n    return a + b", ()),
        ("return data + 1", ()),
    ],
)
def test_buffers_are_what_is_only_written(tmp_path, body, places):
    assert buffers(Source(tmp_path, f"import torch\ndef ref_kernel(data):\n    {body}\n")) == places


EMPTY = """
import torch
def generate_input(size, seed):
    a = torch.empty(size)
    a.uniform_(0, 1)
    c = torch.empty(size).contiguous()
    return a, {second}
def ref_kernel(data):
    a, c = data
    return a @ a
"""


@pytest.mark.parametrize(
    ("second", "places"), [("c", (1,)), ("c.contiguous()", (1,)), ("a", ()), ("c.zero_()", ()), ("c, c", ())]
)
def test_what_is_handed_over_empty_is_a_buffer(tmp_path, second, places):
    """In GPU MODE's matmul, conv2d, vectorsum and prefixsum the reference ignores the buffer."""
    assert buffers(Source(tmp_path, EMPTY.format(second=second))) == places


def test_seeds_are_of_the_size_that_the_task_lists(task):
    """GPU MODE's sort adds the seed to its values."""
    assert "torch.randint(93246, ())" in read(task, "cpu").reference
    text = (task / "task.yml").read_text()
    (task / "task.yml").write_text(re.sub(r'("?seed"?: *)\d+', r"\g<1>423011", text, count=1))
    assert "torch.randint(423011, ())" in read(task, "cpu").reference


def test_only_the_devices_own_string_moves():
    text = "x = torch.ones(3, device='cuda')  # on 'cuda'\ny = \"cuda:0\"; z = 'cuda cores'; torch.cuda.synchronize()\n"
    moved = pair("x", text, text).on("cpu")
    assert (
        moved.reference
        == moved.candidates["candidate"]
        == text.replace("='cuda'", '="cpu"').replace('"cuda:0"', '"cpu"')
    )


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("task.yml", 'lang: "py"', 'lang: "cu"', "its language is cu"),
        ("task.yml", 'lang: "py"', "multi_gpu: true", "several GPUs"),
        ("task.yml", "../utils.py", "../gone.py", "gone.py: No such file"),
        ("task.yml", "tests:", "tests: [", "task.yml: "),
        ("reference.py", "def ref_kernel", "def kernel", "does not define ref_kernel"),
        ("reference.py", "def generate_input", "Model = 1\ndef generate_input", "the name Model is taken"),
    ],
)
def test_what_cannot_be_a_sample_is_said(task, file, old, new, message):
    text = (task / file).read_text()
    assert old in text
    (task / file).write_text(text.replace(old, new))
    with pytest.raises(ProfkitError, match=message):
        read(task, "cpu")
    (task / file).write_text(text)
    for one in (task / "submission.py", *(task / "submissions").iterdir()):
        one.unlink()
    with pytest.raises(ProfkitError, match="no file defines custom_kernel"):
        read(task, "cpu")
