"""Roles by content, not by name."""

from pathlib import Path

import pytest
from candidates import REFERENCE, candidate, write_sample

from profkit.errors import CannotProfileError, ProfkitError
from profkit.record.profile import _implementations, choose
from profkit.record.request import Request
from profkit.record.tools.ncu import planned
from profkit.targets import find_samples, resolve
from profkit.targets.backends import detect
from profkit.targets.source import Source
from profkit.targets.target import Part


def test_names_do_not_matter(tmp_path):
    folder = tmp_path / "IXXXXX"
    folder.mkdir()
    (folder / "zz.py").write_text(REFERENCE)
    (folder / "aa.py").write_text(candidate("honest"))
    (folder / "run_code.py").write_text("from zz import Model, get_inputs, get_init_inputs\nfrom aa import ModelNew\n")
    sample = resolve(folder)
    assert sample.reference.name == "zz.py"
    assert [c.path.name for c in sample.candidates] == ["aa.py"]
    assert sample.id == "IXXXXX"


def test_a_candidate_that_repeats_the_reference_is_still_a_candidate(tmp_path):
    folder = write_sample(tmp_path)
    (folder / "opt.py").write_text(REFERENCE + candidate("honest"))
    sample = resolve(folder)
    assert sample.reference.name == "example_torchcode.py"
    assert [c.name for c in sample.candidates] == ["opt"]


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (("example_cudacode.py", "cudacode_ori.py", "example_cppcode.py"), ["cpp", "cuda", "ori"]),
        (("example_cudacode.py", "cudacode_opt.py"), ["cudacode_opt", "example_cudacode"]),
    ],
)
def test_contest_names_become_short_unless_they_clash(tmp_path, files, names):
    folder = write_sample(tmp_path)
    for name in files:
        (folder / name).write_text(candidate("honest"))
    assert sorted(c.name for c in resolve(folder).candidates) == names


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda f: None, "no reference"),
        (lambda f: (f / "a.py").write_text(REFERENCE), "no candidate"),
        (
            lambda f: (f / "a.py").write_text(candidate("honest")),
            "no reference.*missing: Model, get_init_inputs, get_inputs",
        ),
        (lambda f: (f / "a.py").write_text("def broken(:\n"), r"a\.py, line 1: not Python"),
        (
            lambda f: [(f / n).write_text(REFERENCE) for n in ("a.py", "b.py")],
            "more than one reference: a.py, b.py",
        ),
    ],
)
def test_what_is_missing_is_named(tmp_path, prepare, message):
    prepare(tmp_path)
    with pytest.raises(ProfkitError, match=message) as caught:
        resolve(tmp_path)
    assert caught.value.fix


def test_a_sample_nobody_can_run_here_says_so(tmp_path):
    folder = write_sample(tmp_path)
    (folder / "example_cudacode.py").write_text(candidate("honest") + "\n# __global__ void k();\n")
    sample = resolve(folder)
    with pytest.raises(CannotProfileError, match=r"no candidate runs on the CPU: cuda \(cuda\)"):
        choose(sample, Request(), "cpu")
    assert choose(sample, Request(only=("cuda",)), "cpu") == sample.candidates
    assert choose(sample, Request(), "cuda") == sample.candidates
    counters = planned(sample, Request(counters="off"), "cpu")
    assert counters.why.startswith("the CPU has no hardware counters"), "nobody asked watch for --events"
    why = [_implementations(sample, (), only)[1].reason for only in ((), ("other",))]
    assert why == ["not run: a cuda candidate does not run on this device", "not run: not asked for"]


@pytest.mark.parametrize(
    ("body", "there"),
    [
        ("return at::relu(x);", True),
        ("float* p = x.data_ptr<float>();", False),
        ("x.packed_accessor32<float, 2>();", False),
    ],
)
def test_cpp_that_calls_torchs_operators_alone_runs_where_the_tensors_are(tmp_path, body, there):
    """Refused before, with "no candidate runs on a GPU"."""
    file = tmp_path / "candidate.py"
    file.write_text(INLINE.format(body))
    part = Part("candidate", file, detect(file.read_text()))
    assert part.backend == "cpp"
    assert part.runs_on("cpu")
    assert part.runs_on("cuda") is there


def test_a_typo_gets_a_suggestion(tmp_path):
    write_sample(tmp_path, "honest", name="ICVXKH")
    with pytest.raises(ProfkitError) as caught:
        resolve(tmp_path / "ICVXHK")
    assert "ICVXKH" in caught.value.fix


def test_find_samples(tmp_path):
    write_sample(tmp_path, "honest", name="IBBBBB")
    write_sample(tmp_path, "honest", name="IAAAAA")
    (tmp_path / "notes").mkdir()
    assert [path.name for path in find_samples(tmp_path)] == ["IAAAAA", "IBBBBB"]


INLINE = "from torch.utils.cpp_extension import load_inline\nload_inline(name='x', cpp_sources='''{}''')"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import triton\n", "triton"),
        (
            "from torch.utils.cpp_extension import load_inline\nload_inline(cpp_sources=a, cuda_sources=b)",
            "cuda",
        ),
        ("from torch.utils.cpp_extension import load_inline\nload_inline(name='x', cpp_sources=a)", "cpp"),
        ("from torch.utils.cpp_extension import load\nload(name='x', sources=['k.cu'])", "cuda"),
        (INLINE.format("#include <ATen/cuda/CUDAContext.h>"), "cuda"),
        (INLINE.format("cublasGemmStridedBatchedEx(handle);"), "cuda"),
        (INLINE.format("auto s = at::cuda::getCurrentCUDAStream();"), "cuda"),
        (INLINE.format("// no cublas here, and no cuda"), "cpp"),
        (INLINE.format("// as cublasSgemm() does\n/* at::cuda:: */"), "cpp"),
        ("import cutlass.cute as cute\nimport cutlass", "cute"),
        ("import tilelang.language as T\nimport triton", "tilelang"),
        ('s = """\nimport triton\n"""\n__import__("torch").compile', "torch"),
        ("import torch\nf = torch.compile(torch.relu)", "torch-compile"),
        ("import torch\n", "torch"),
    ],
)
def test_detect(source, expected):
    assert detect(source) == expected


MODEL = "class Model:\n    {doc}\n    def forward(self, x):\n        {body}\n"


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ('"""Reference: the sum of x[8] in fp32.\n\nMore."""\n', "the sum of x[8] in fp32"),
        ('"""Step 0: the block, in fp32. Between blocks bf16."""\n', "the block, in fp32"),
        (MODEL.format(doc='"""Simple model that\n    adds."""', body="return x + 1"), "Simple model that adds"),
        (MODEL.format(doc="", body="return torch.relu(x @ self.w)"), "torch.relu(x @ self.w)"),
        (MODEL.format(doc="", body="x.add_(1)"), ""),
    ],
)
def test_the_task_is_told_in_the_words_of_its_reference(text, task):
    assert Source(Path("reference.py"), text).task == task
