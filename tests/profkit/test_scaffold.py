"""`profkit new`: folders that pass the check and run with torch alone; `prompt` on them."""

import os
import subprocess
import sys

import pytest
import torch

from profkit.api import profile
from profkit.cli.contests.gpucodeforces import new_ as new
from profkit.cli.contests.gpucodeforces import prompt_ as prompt
from profkit.contests.gpucodeforces.form import check
from profkit.contests.gpucodeforces.scaffold import FUNCTIONS, WHOLE
from profkit.errors import ProfkitError
from profkit.targets import resolve


def make(tmp_path, *arguments, name="IABCDE"):
    folder = tmp_path / "S1" / name
    assert new.main([str(folder), *arguments], standalone_mode=False) == 0
    return folder


@pytest.fixture
def softmax(tmp_path):
    return make(tmp_path, "--op", "softmax", "--shape", "16,64", "--contestant", "某人")


def test_c_and_torch_say_the_same_of_every_function(tmp_path):
    x, y = torch.linspace(0.5, 2.0, 4), torch.linspace(2.0, -1.0, 4)
    lines = [
        f'printf("%.9g ", {one.c.format(f"{a}f", f"({b}f)")});'
        for one in FUNCTIONS.values()
        for a, b in zip(x.tolist(), y.tolist(), strict=True)
    ]
    (tmp_path / "all.cpp").write_text(
        "#include <cmath>\n#include <cstdio>\nint main() {\n" + "\n".join(lines) + "\n}\n"
    )
    subprocess.run(["c++", "-o", "all", "all.cpp"], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "all"], capture_output=True, text=True, check=True).stdout
    got = torch.tensor([float(word) for word in said.split()]).reshape(-1, 4)
    wanted = [
        eval(one.torch.format("x", "y"), {"torch": torch, "nn": torch.nn, "x": x, "y": y}) for one in FUNCTIONS.values()
    ]
    torch.testing.assert_close(got, torch.stack(wanted))


@pytest.mark.parametrize("op", sorted(FUNCTIONS))
def test_a_new_folder_passes_the_check(tmp_path, op, capsys):
    folder = make(tmp_path, "--op", op, "--shape", "64,256")
    found = check(folder)
    assert not found.defects
    assert {c.name for c in resolve(folder).candidates} == {"cuda", "cpp"}
    namespace = {}
    exec((folder / "example_torchcode.py").read_text("utf-8"), namespace)
    output = namespace["Model"]()(*namespace["get_inputs"]())
    assert tuple(output.shape) == (64, 256)
    assert not output.isnan().any()
    assert namespace["get_work"]()["bytes"] == 4 * 64 * 256 * (len(namespace["get_inputs"]()) + 1)


@pytest.mark.parametrize("op", [*WHOLE, "layernorm"])
def test_a_folder_of_any_name_for_an_operation_that_is_not_element_wise(tmp_path, op):
    folder = make(tmp_path, "--op", op, "--shape", "16,32", name="my-first")
    assert [defect.code for defect in check(folder).defects] == ["F2"]
    assert f"profkit profile {folder.as_posix()}" in (folder / "readme.md").read_text("utf-8")
    found = {}
    for file, name in (("example_torchcode.py", "Model"), ("example_cudacode.py", "ModelNew")):
        namespace = found[name] = {}
        exec((folder / file).read_text("utf-8"), namespace)
    inputs = found["Model"]["get_inputs"]()
    assert found["Model"]["Model"]()(*inputs).equal(found["ModelNew"]["ModelNew"]()(*inputs))


def run_code(folder, **env):
    return subprocess.run(
        [sys.executable, "run_code.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONUTF8": "1", **env},
        check=False,
    )


@pytest.mark.slow
def test_a_whole_operation_runs_and_prints_the_grammar(softmax):
    assert not check(softmax).defects
    ran = run_code(softmax)
    assert ran.returncode == 0, ran.stderr
    assert "✅ 精度对齐" in ran.stdout
    assert all(word in ran.stdout for word in ("加速比 (Speedup): ", "吞吐量", "内存带宽"))
    assert "某人" in (softmax / "readme.md").read_text("utf-8")


@pytest.mark.slow(20)
@pytest.mark.usefixtures("fewer_headers")
def test_the_cpp_candidate_builds_and_agrees(tmp_path):
    folder = make(tmp_path, "--op", "swiglu", "--shape", "64,256")
    ran = run_code(folder, TORCH_EXTENSIONS_DIR=str(tmp_path / "ext"))
    assert ran.returncode == 0, ran.stderr
    assert "✅ 精度对齐" in ran.stdout


def test_refusals(tmp_path, softmax):
    for arguments, message in [
        ([str(tmp_path / "S1/rows"), "--op", "softmax", "--shape", "64"], "two sizes or more"),
        ([str(softmax), "--op", "relu"], "not empty"),
        ([str(tmp_path / "S1/IXXXXX"), "--op", "x @ y"], "not an operation"),
    ]:
        with pytest.raises(ProfkitError, match=message):
            new.main(arguments, standalone_mode=False)
    assert not (tmp_path / "S1/IXXXXX").exists()


@pytest.mark.slow
def test_a_prompt_with_evidence(tmp_path, softmax, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    runs = tmp_path / "runs"
    profile(softmax, device="cpu", budget=0.05, trials=1, runs=runs)
    text = (softmax / "prompt.txt").read_text("utf-8")
    assert prompt.main([str(softmax), "--runs", str(runs), "--force"], standalone_mode=False) == 0
    written = (softmax / "prompt.txt").read_text("utf-8")
    assert "What was measured" in written
    assert "a call" in written
    assert "What was measured" not in text
    assert not check(softmax).defects


def test_a_prompt_is_not_overwritten_without_force(softmax):
    import click

    with pytest.raises(click.UsageError, match="--force"):
        prompt.main([str(softmax)], standalone_mode=False)
