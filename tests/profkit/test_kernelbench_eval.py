"""`profkit kernelbench eval` and `baseline` on the CPU, from files to files."""

import json
from pathlib import Path

import pytest

from profkit.cli.contests.kernelbench import kernelbench_ as command
from profkit.contests.kernelbench import pairs
from profkit.contests.kernelbench.files import read_baseline, read_results
from profkit.errors import ProfkitError
from profkit.rundir.directory import open_run

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
    def forward(self, x):
        return torch.relu(x) * self.scale

def get_inputs():
    return [torch.randn(64, 64)]

def get_init_inputs():
    return [2.0]
"""
GOOD = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
    def forward(self, x):
        return torch.clamp_min(x, 0) * self.scale
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A checkout with one problem, and a run with a right, a wrong and a broken candidate, evaluated once."""
    root = tmp_path_factory.mktemp("kernelbench")
    (root / "KernelBench/level1").mkdir(parents=True)
    (root / "KernelBench/level1/1_Scaled_relu.py").write_text(PROBLEM)
    run = root / "runs/mine"
    run.mkdir(parents=True)
    for sample, text in enumerate((GOOD, GOOD.replace("* self.scale", "+ self.scale"), "def broken(:")):
        (run / f"level_1_problem_1_sample_{sample}_kernel.py").write_text(text)
    patch = pytest.MonkeyPatch()
    patch.setenv("PROFKIT_CACHE", str(root / "cache"))
    options = [
        *["--level", "1", "--device", "cpu", "--trials", "2", "--budget", "0.2", "-q", "--runs"],
        str(root / "pr"),
    ]
    yield root, run, options
    patch.undo()


def test_eval_writes_the_official_file_and_resumes_by_sample(place, capsys):
    root, run, options = place
    arguments = ["eval", str(root), str(run), *options]
    names = [f"level_1_problem_1_sample_{n}_kernel.py" for n in (1, 2)]
    aside = {name: (run / name).rename(root / name) for name in names}
    assert command.main(arguments, standalone_mode=False) == 0
    first = read_results(run / "eval_results.json")["1"][0]
    for name, file in aside.items():
        file.rename(run / name)
    assert command.main([*arguments, "--k", "1,2"], standalone_mode=False) == 1
    rows = read_results(run / "eval_results.json")["1"]
    assert rows[0] == first
    assert [(row["compiled"], row["correctness"]) for row in rows] == [(True, True), (True, False), (False, False)]
    good, wrong, broken = rows
    assert good["runtime"] == good["runtime_stats"]["mean"] > 0
    assert good["metadata"]["correctness_trials"] == "(2 / 2)"
    assert good["metadata"]["profkit"]["speedup"] > 0
    assert 0 < good["metadata"]["profkit"]["attainable_share"] <= 1
    assert wrong["runtime"] == -1.0
    assert wrong["metadata"]["correctness_issue_name"] == "mismatch"
    assert wrong["metadata"]["correctness_trials"].endswith("/ 2)")
    assert "not Python" in broken["metadata"]["compilation_error"]
    passes = json.loads((run / "pass_at_k_results.json").read_text())
    assert passes["averages"]["avg_pass@1"] == pytest.approx(1 / 3)
    assert "problem 1 sample 1" in capsys.readouterr().out
    there = open_run(good["metadata"]["profkit"]["run"])
    assert {"reference.py", "candidate.py"} <= {file.name for file in there.path.iterdir()}
    assert Path(there.manifest.sample.path) == there.path


def test_baseline_then_analyze(place, capsys):
    root, run, options = place
    file = root / "timing/baseline.json"
    assert command.main(["baseline", str(root), *options, "-o", str(file)], standalone_mode=False) == 0
    base = read_baseline(file)["level1"]["1_Scaled_relu.py"]
    assert {"mean", "std", "min", "max", "num_trials", "hardware", "device"} == set(base)
    assert base["min"] <= base["mean"] <= base["max"]
    before = file.read_bytes()
    assert command.main(["baseline", str(root), *options, "-o", str(file)], standalone_mode=False) == 0
    assert file.read_bytes() == before
    if not (run / "eval_results.json").exists():
        pytest.skip("the evaluation did not run")
    capsys.readouterr()
    arguments = ["analyze", str(run), "--baseline", str(file), "--level", "1", "--problems", str(root), "--json"]
    code = command.main(arguments, standalone_mode=False)
    document = json.loads(capsys.readouterr().out)
    assert document["baseline"]["checked"] == 1
    assert code == bool(document["baseline"]["disagree"])
    assert document["official"]["correct_count"] == 1
    assert document["official"]["fast_p"]["0.0"] == 1.0


def test_nothing_to_do_is_said(place, tmp_path):
    root, _, options = place
    with pytest.raises(ProfkitError, match="no candidates of level 1"):
        command.main(["eval", str(root), str(tmp_path), *options], standalone_mode=False)
    with pytest.raises(ProfkitError, match="no problem 5"):
        command.main(["eval", str(root), str(tmp_path), *options, "--problem", "1,5-7"], standalone_mode=False)


@pytest.mark.xdist_group("dynamo")
def test_the_compiled_candidate_keeps_the_references_weights():
    source = pairs.compiled(PROBLEM.replace("self.scale = scale", "self.scale = nn.Parameter(torch.ones(3))"))
    namespace = {}
    exec(source, namespace)
    names = [set(namespace[name](1.0).state_dict()) for name in ("Model", "ModelNew")]
    assert names[0] == names[1] == {"scale"}


def test_another_level_in_the_same_run_is_refused(place):
    root, run, options = place
    (root / "KernelBench/level2").mkdir(exist_ok=True)
    (root / "KernelBench/level2/1_Twice.py").write_text(PROBLEM)
    (run / "level_2_problem_1_sample_0_kernel.py").write_text(GOOD)
    before = (run / "eval_results.json").read_bytes()
    arguments = ["eval", str(root), str(run), *options]
    arguments[arguments.index("--level") + 1] = "2"
    with pytest.raises(ProfkitError, match="has results of level 1"):
        command.main(arguments, standalone_mode=False)
    assert (run / "eval_results.json").read_bytes() == before
