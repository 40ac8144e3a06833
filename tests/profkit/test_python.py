"""In Python what the verbs do; runs, blocks and sweeps that show themselves, in a notebook too."""

import json
import re
import sys
import traceback
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import profkit
from profkit.cli.group import cli
from profkit.errors import CannotProfileError, ProfkitError

ROOT = Path(__file__).parents[2]
H200 = ROOT / "examples/h200"
QUICK = {"budget": 0.05, "device": "cpu"}
pytestmark = [pytest.mark.xdist_group("recorded"), pytest.mark.usefixtures("given_ceilings")]


@pytest.fixture(scope="module")
def run():
    return profkit.open_run(H200 / "ICJTRP")


def test_an_option_has_the_values_that_it_names():
    with pytest.raises(ProfkitError, match="l2='hot' is unknown") as caught:
        profkit.measure(len, "", l2="hot")
    assert "'cold', 'warm'" in caught.value.fix


def test_a_run_shows_itself(run):
    html = run._repr_html_()
    assert "faster: 2.86x" in html
    assert "lower bound of the task 120 us" in html
    assert "data:image/png;base64," in html
    assert "<script" not in html
    assert repr(run).startswith("<Run ICJTRP on NVIDIA H200: ")
    assert len(repr(run)) < 400
    odd = profkit.Run.of(profkit.open_run(H200 / "ICJTRP"))
    odd.manifest.sample.id = "<b>&"
    assert "&lt;b&gt;&amp;" in odd._repr_html_()
    words = profkit.api.Text("a <b>")._repr_html_()
    assert "pre-wrap" in words
    assert "a &lt;b&gt;" in words


def test_an_option_that_there_is_not_is_named_with_the_nearest():
    for asked in (lambda **more: profkit.profile("S1/ICVXKH", **more), lambda **more: profkit.measure(len, "", **more)):
        with pytest.raises(TypeError, match=r"profkit\.profile\(\).* no option 'budgt'; did you mean 'budget'"):
            asked(budgt=1)


def test_a_run_does_what_the_verbs_do(run):
    assert "DRAM-bound" in repr(run.explain())
    assert run.report().startswith(
        "# the transpose of x[8192, 8192] in fp32, as a contiguous tensor on NVIDIA H200 (ICJTRP)"
    )
    assert json.loads(run.report("agent"))["subject"] == "cuda"
    with pytest.raises(ProfkitError, match="no report for 'nobody'"):
        run.report("nobody")
    assert profkit.draw(H200 / "ICJTRP").axes
    assert profkit.roofline(H200 / "ICJTRP", H200 / "ICVXKH", top=3).axes


def test_compare(run):
    path = H200 / "ICJTRP"
    found = profkit.compare(f"{path}:ori", f"{path}:cuda")
    assert "\x1b" not in repr(found)
    assert [rung.impl for rung in found.ladder.rungs] == ["ori", "cuda"]
    assert found.slower(0.05) == []
    assert list(found.frame["impl"]) == ["ori", "cuda"]
    assert "speed-up: old time / new time" in repr(found)
    assert profkit.compare(run, path, impl="ori").ladder.rungs[1].step == 1
    with pytest.raises(ProfkitError, match="one run"):
        profkit.compare(run)
    with pytest.raises(ProfkitError, match="differ in sample"):
        profkit.compare(run, H200 / "ICVXKH").slower()


def test_measure_against_a_reference(tmp_path):
    def ours(x):
        return torch.clamp_min(x, 0)

    run = profkit.measure(ours, torch.randn(64, 64), reference=torch.relu, runs=tmp_path, **QUICK)
    verdict = run.verdicts["ours"]
    assert verdict.right
    assert verdict.word in ("faster", "slower", "same", "inconclusive")
    assert any(one.code == "compared-once" for one in run.analysis.caveats)
    assert "ours: correct" in run._repr_html_()
    again = profkit.open_run(tmp_path)
    assert again.verdicts["ours"].word == verdict.word


def test_measure_says_what_is_wrong_and_changes_nothing(tmp_path):
    x = torch.randn(16)
    kept = x.clone()

    def reference(x):
        return x.mul_(2)

    run = profkit.measure(lambda x: x * 3, x, reference=reference, runs=tmp_path, **QUICK)
    verdict = next(iter(run.verdicts.values()))
    assert (verdict.word, verdict.kind) == ("wrong", "mismatch")
    assert set(run.metrics["impl"]) == {"reference"}
    assert not torch.equal(x, kept)  # The reference was timed on it as it is.


def test_a_callable_may_be_called_reference(tmp_path):
    def reference(x):
        return x + 1

    run = profkit.measure(reference, torch.ones(4), reference=lambda x: x + 1, runs=tmp_path, **QUICK)
    assert list(run.verdicts) == ["candidate"]


@pytest.mark.slow
def test_sweep_is_tidy(tmp_path):
    def ours(x, y):
        return x @ y

    found = profkit.sweep(
        ours, {"n": [8, 16], "k": [4]}, inputs=lambda n, k: (torch.ones(n, k), torch.ones(k, n)), runs=tmp_path, **QUICK
    )
    assert list(found[["n", "k", "impl"]].itertuples(index=False, name=None)) == [(8, 4, "ours"), (16, 4, "ours")]
    assert (found["time"] > 0).all()
    assert all(Path(path).is_dir() for path in found["run"])


def test_sweep_calls_with_the_point_and_compares(tmp_path):
    def ours(n):
        return torch.arange(n) + 1

    found = profkit.sweep(ours, {"n": [8]}, reference=lambda n: torch.arange(1, n + 1), runs=tmp_path, **QUICK)
    assert list(found["impl"]) == ["reference", "ours"]
    with pytest.raises(ProfkitError, match="without points"):
        profkit.sweep(ours, {"n": []})


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU there is a run")
def test_a_block_without_a_gpu_has_its_wall_time_and_operators(tmp_path, capfd, monkeypatch):
    monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    with profkit.record("step", runs=tmp_path) as block:
        torch.ones(8).sum()
    assert capfd.readouterr().err == "", "torch's profiler says nothing of itself"
    assert block.seconds > 0
    assert "aten::sum" in set(block.run.hottest["kernel"])
    with profkit.record("nothing", runs=tmp_path / "none") as block:
        pass
    with pytest.raises(CannotProfileError, match="nothing: nothing ran on a GPU"):
        _ = block.run
    assert not (tmp_path / "none").exists()


@pytest.mark.gpu
def test_a_block_on_a_gpu_is_a_run(tmp_path):
    x = torch.ones(1 << 20, device="cuda")
    with profkit.record("step", runs=tmp_path) as block:
        with profkit.annotate("twice"):
            x.mul_(2)
        x.add_(1)
    assert {part.name for part in block.run.parts} >= {"step", "step/twice"}
    assert re.search(r"step.* on .*of GPU work, .*; hottest: ", block.run._repr_html_())


def test_a_program_shows_itself_with_the_causes_of_its_idle_time(tmp_path):
    file = Path(__file__).parents[1] / "data" / "kineto" / "resnet_h100.trace.json.gz"
    assert CliRunner().invoke(cli, ["import", str(file), "-o", str(tmp_path / "run")]).exit_code == 0
    shown = profkit.open_run(tmp_path / "run")._repr_html_()
    assert "the host launched too late" in shown
    assert shown.count("inline-block") > 4


def test_a_traceback_of_an_error_shows_its_fix():
    with pytest.raises(ProfkitError) as caught:
        profkit.open_run("nothere")
    shown = "".join(traceback.format_exception(caught.value))
    assert f"fix: {caught.value.fix}" in shown or sys.version_info < (3, 11)


def test_a_block_raises_what_it_raises(tmp_path):
    with pytest.raises(KeyError), profkit.record("step", runs=tmp_path) as block:
        raise KeyError("mine")
    with pytest.raises(ProfkitError, match="has not ended"):
        _ = block.run


NOTEBOOK = [
    "%load_ext profkit",
    "import profkit, torch\nrun = profkit.open_run('examples/h200/ICJTRP')\nrun",
    "%%profkit first\nx = torch.ones(8).sum()",
    "profkit.sweep(lambda n: torch.ones(n), {'n': [4, 8]}, device='cpu', budget=0.02, runs=RUNS)",
    "profkit.draw(run)",
    "assert x == 8\nrun.explain()",
]


@pytest.mark.slow(20)
@pytest.mark.usefixtures("given_to_others")
def test_a_notebook_shows_them(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    cells = [nbformat.v4.new_code_cell(text.replace("RUNS", repr(str(tmp_path)))) for text in NOTEBOOK]
    book = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(book, timeout=240, resources={"metadata": {"path": str(ROOT)}}).execute()
    shown = [output for cell in book.cells for output in cell.outputs]
    kinds = [set(output.get("data", {})) for output in shown]
    assert any("2.86x" in output.get("data", {}).get("text/html", "") for output in shown)
    assert any("image/png" in kind for kind in kinds)
    assert any("DRAM-bound" in output.get("data", {}).get("text/plain", "") for output in shown)
    if not torch.cuda.is_available():
        assert any("of CPU time" in output.get("data", {}).get("text/html", "") for output in shown)


EXAMPLE = ROOT / "examples/recorded_runs.ipynb"


def test_the_example_notebook_is_shipped_with_what_it_showed():
    cells = [one for one in json.loads(EXAMPLE.read_text("utf-8"))["cells"] if one["cell_type"] == "code"]
    assert len(cells) >= 5
    kinds = [set(output["data"]) for cell in cells for output in cell["outputs"]]
    assert len(kinds) == len(cells)
    assert {"text/html", "image/png"} <= set().union(*kinds)
    html = "".join(map("".join, (o["data"].get("text/html", "") for cell in cells for o in cell["outputs"])))
    assert "data:image/png;base64," in html
    assert str(ROOT) not in EXAMPLE.read_text("utf-8")


@pytest.mark.slow(10)
def test_the_example_notebook_runs():
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.reads(EXAMPLE.read_text("utf-8"), 4)
    nbclient.NotebookClient(book, timeout=240, resources={"metadata": {"path": str(EXAMPLE.parent)}}).execute()
    assert all(cell.outputs for cell in book.cells if cell.cell_type == "code")
