"""Nsight Systems' command lines, what it says, and torch's profiler in its place."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from candidates import write_sample

from collectors import read
from profkit.errors import ProfkitError
from profkit.launch import tools
from profkit.record.profile import profile
from profkit.torch_tools import trace
from profkit.vendor.nvidia import nsys


def test_a_tool_that_does_not_run_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("PROFKIT_NSYS", str(tmp_path / "none"))
    assert tools.find(tools.NSYS) is None


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("Importer error status: Importation succeeded with non-fatal errors.", "imported its record with errors"),
        ("Unknown runtime API function index: 471", "does not know this CUDA"),
        ("Not all CUDA events might have been collected.", "not all events"),
        ("Generated: report.nsys-rep", ""),
    ],
)
def test_what_nsys_says_becomes_a_caveat(said, words):
    caveats = nsys.caveats(f"Processing events...\n{said}\n")
    assert [words in one.what for one in caveats] == ([True] if words else [])
    assert all(one.fix for one in caveats)


def test_why_there_is_no_report(tmp_path):
    newer = "Exportation error: Report was created in Nsight Systems version (2099.1), newer than your current version"
    assert "newer than your" in nsys.failure(newer, tmp_path / "r")[0]
    assert "no space" in nsys.failure("a\nno space left\n", tmp_path / "r")[0]
    (tmp_path / "r.qdstrm").touch()
    assert "qdstrm" in nsys.failure("", tmp_path / "r")[0]


def test_a_sample_has_no_timeline(tmp_path):
    with pytest.raises(ProfkitError, match="nsys: not for a sample"):
        profile(write_sample(tmp_path, "honest"), nsys=True, runs=tmp_path / "runs")


def traced(tmp_path, *target):
    out = tmp_path / "trace.json"
    argv = [sys.executable, "-m", trace.__name__, str(out), *target]
    return subprocess.run(argv, capture_output=True, text=True, check=False), out


@pytest.mark.slow
def test_the_traced_program_is_itself(tmp_path):
    script = tmp_path / "main.py"
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    script.write_text(
        "import sys, beside, torch\nfrom profkit import annotate\n"
        "with annotate('a', flops=1): torch.ones(4).sum()\n"
        "print(__name__, sys.argv[1:], beside.NAME)\nraise SystemExit(6)\n"
    )
    done, out = traced(tmp_path, str(script), "--x", "1")
    assert (done.returncode, done.stdout) == (6, "__main__ ['--x', '1'] beside\n")
    frame = read(out)
    assert ("a", "aten::sum") in set(zip(frame["range"], frame["kernel"], strict=True))


@pytest.mark.slow
def test_an_exception_in_the_traced_program_is_shown(tmp_path):
    done, out = traced(tmp_path, "-c", "import sys; print(sys.argv)\n1/0", "y")
    assert (done.returncode, done.stdout) == (1, "['-c', 'y']\n")
    assert "ZeroDivisionError" in done.stderr
    assert out.exists()


@pytest.mark.slow
def test_a_callable_is_profiled_in_this_process(tmp_path):
    torch = pytest.importorskip("torch")
    import profkit
    from profkit.report.writers import terminal

    def gelu_times(x, y):
        return torch.nn.functional.gelu(x) * y

    run = profkit.profile(gelu_times, torch.ones(64, 64), torch.ones(64, 64), budget=0.05, runs=tmp_path, device="cpu")
    row = run.metrics.iloc[0]
    assert (row["impl"], row["work_source"]) == ("gelu_times", "modelled")
    assert row["time"] > 0
    assert row["flops"] == 2 * 64 * 64
    assert math.isfinite(row["lower_bound_time"])
    text = terminal.summary(run)
    assert "not checked" in text
    assert "no candidate" not in text
    again = profkit.open_run(run.path)
    assert (again.manifest.sample.kind, again.manifest.status) == ("callable", "done")
    assert json.loads((run.path / "run.json").read_text())["schema"] == "profkit/1"


def test_what_a_callable_raises_is_raised(tmp_path):
    pytest.importorskip("torch")
    import profkit

    def wrong(_):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        profkit.profile(wrong, 1, budget=0.05, runs=tmp_path, device="cpu")
    assert profkit.open_run(tmp_path).manifest.status == "failed"


@pytest.mark.slow
def test_the_example_runs_without_a_gpu():
    example = Path(__file__).parents[2] / "examples" / "transformer_block.py"
    argv = [sys.executable, str(example), "--steps", "2", "--backward"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 steps" in done.stdout
