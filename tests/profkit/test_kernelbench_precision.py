"""`--precision` and backends of `profkit kernelbench`, from files to files on the CPU."""

import json
import platform

import pytest
import torch

from profkit.cli.contests.kernelbench import kernelbench_ as command
from profkit.contests.kernelbench.files import read_baseline, read_results
from profkit.guest import facts, settings
from profkit.guest.build import loading
from profkit.study.study import open_study
from profkit.targets import backends

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, shift):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 32))
        self.shift = nn.Parameter(shift)
    def forward(self, x, index, keep):
        x = x @ self.weight + self.shift
        return torch.where(keep, x[index], torch.zeros_like(x))

def get_inputs():
    return [torch.randn(48, 64), torch.randint(0, 48, (48,)), torch.rand(48, 32) > 0.3]

def get_init_inputs():
    return [torch.randn(32)]
"""
GOOD = PROBLEM.split("def get_inputs")[0].replace("class Model(", "class ModelNew(")
TILED = "import tilelang\nimport tilelang.language as T\n" + GOOD


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A checkout with one problem and a run with an honest candidate and one in TileLang."""
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1/7_Gather.py").write_text(PROBLEM)
    run = tmp_path / "runs/mine"
    run.mkdir(parents=True)
    for sample, text in enumerate((GOOD, TILED)):
        (run / f"level_1_problem_7_sample_{sample}_kernel.py").write_text(text)
    options = [
        *["--level", "1", "--device", "cpu", "--trials", "2", "--budget", "0.1", "-q", "--runs"],
        str(tmp_path / "pr"),
    ]
    return tmp_path, run, options


def evaluate(place, *more):
    root, run, options = place
    code = command.main(["eval", str(root), str(run), *options, *more], standalone_mode=False)
    return code, read_results(run / "eval_results.json")["7"]


@pytest.mark.slow
def test_bf16_casts_what_is_floating_on_both_sides_and_nothing_else(place):
    (place[1] / "level_1_problem_7_sample_1_kernel.py").unlink()
    code, rows = evaluate(place, "--precision", "bf16")
    assert code == 0
    own = rows[0]["metadata"]["profkit"]
    assert (own["precision"], own["backend"], own["reduced_precision"]) == ("bf16", "torch", None)
    manifest = open_study(own["run"]).manifest
    assert manifest.precision == "bf16"
    inputs = ["bfloat16", "bool", "int64"]
    assert manifest.task == {"inputs": inputs, "weights": ["bfloat16"], "outputs": ["bfloat16"]}
    assert all(check.precision == "bf16" for check in manifest.candidates[0].checks)
    differences = rows[0]["metadata"]
    assert len(differences["max_difference"]) == len(differences["avg_difference"]) == 2
    # Another precision is another question: it is asked again.
    again = evaluate(place)[1]
    assert [row["metadata"]["profkit"]["precision"] for row in again] == ["fp32"]


@pytest.mark.skipif(not backends.missing("tilelang"), reason="TileLang is installed here")
def test_a_backend_that_is_not_installed_is_said(place, capsys):
    (place[1] / "level_1_problem_7_sample_0_kernel.py").unlink()
    code, rows = evaluate(place)
    assert code == 1
    assert [row["sample_id"] for row in rows] == [1]
    assert rows[0]["compiled"] is False
    assert rows[0]["metadata"]["compilation_error"] == "tilelang is not installed: pip install tilelang"
    assert rows[0]["metadata"]["profkit"] == {"level": 1, "status": "not-installed", "backend": "tilelang"}
    assert "tilelang is not installed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("handler", "backend"),
    [
        ("except ImportError:\n    T = None", "torch"),
        ("except (OSError, ModuleNotFoundError):\n    T = None", "torch"),
        ("except Exception:\n    raise", "tilelang"),
        ("except ValueError:\n    T = None", "tilelang"),
        ("except ImportError:\n    T = None\nimport tilelang", "tilelang"),
    ],
)
def test_who_does_without_a_package_is_not_skipped_for_it(handler, backend, monkeypatch):
    source = f"try:\n    import tilelang.language as T\n{handler}\n"
    monkeypatch.setattr(backends.importlib.util, "find_spec", lambda name: None)
    assert backends.detect(source) == backend
    monkeypatch.setattr(backends.importlib.util, "find_spec", lambda name: name)
    assert backends.detect(source) == "tilelang"


def test_missing_names_the_package_to_install(monkeypatch):
    monkeypatch.setattr(backends.importlib.util, "find_spec", lambda name: None)
    assert "nvidia-cutlass-dsl" in backends.missing("cute")
    assert backends.missing("cuda") == backends.missing("torch") == ""


def test_casting_keeps_layout_integers_and_nesting():
    strided = torch.arange(24.0).reshape(4, 6).t()[::2]
    done = loading.cast([strided, (torch.arange(3), {"x": torch.ones(2) > 0}), 2.5, "text"], torch.float16)
    assert done[0].dtype == torch.float16
    assert done[0].stride() == strided.stride()
    assert torch.equal(done[0].float(), strided)
    assert done[1][0].dtype == torch.int64
    assert done[1][1]["x"].dtype == torch.bool
    assert done[2:] == [2.5, "text"]


class Heard:
    def __init__(self):
        self.caveats = []

    def send(self, kind, impl="", **data):
        self.caveats.append(data)


def test_a_candidate_cannot_switch_the_precision_of_the_reference():
    before, heard = settings.read(), Heard()
    settings._keep(before, "fast", heard.send, False)
    assert heard.caveats == []
    try:
        torch.set_float32_matmul_precision("high")
        settings._keep(before, "fast", heard.send, False)
        assert torch.get_float32_matmul_precision() == before["float32 matmul precision"]
    finally:
        torch.set_float32_matmul_precision(before["float32 matmul precision"])
    assert heard.caveats[0]["what"].startswith("settings: fast switches torch's")
    assert "high" in heard.caveats[0]["how_much"]


@pytest.mark.slow(30)
def test_both_baselines_have_the_official_form(place):
    root, _, options = place
    eager, fast = root / "t/baseline_time_torch.json", root / "t/baseline_time_torch_compile.json"
    arguments = ["baseline", str(root), *options, "-o", str(eager), "--compiled", str(fast)]
    assert command.main(arguments, standalone_mode=False) == 0
    for file in (eager, fast):
        rows = read_baseline(file)
        assert list(rows) == ["level1"]
        assert list(rows["level1"]) == ["7_Gather.py"]
        figures = rows["level1"]["7_Gather.py"]
        assert list(figures) == ["mean", "std", "min", "max", "num_trials", "hardware", "device"]
        assert all(float(f"{figures[key]:.3g}") == figures[key] for key in ("mean", "std", "min", "max"))
        assert json.loads(file.read_text()) == rows


def test_the_heap_is_kept_where_the_c_library_can():
    assert facts.keep_heap() == (platform.libc_ver()[0] == "glibc")
