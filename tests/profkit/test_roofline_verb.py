"""profkit roofline: several runs in one figure; and declared work held against the launches."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from profkit.study.study import Study

sys.path.insert(0, str(Path(__file__).parent.parent / "collectors"))

from nsys_exports import Op, sqlite_export

from profkit.cli.group import invoke
from profkit.record.importing import import_files
from profkit.report.figures import kernels_scene
from profkit.report.names import names_of
from profkit.rundir.directory import create_run
from profkit.rundir.manifest import Capture, Counters, SampleInfo
from profkit.study.study import open_study

NCU = Path(__file__).parent.parent / "data" / "ncu" / "h200_default.csv"


@pytest.fixture
def run(tmp_path):
    return Study(import_files([NCU], tmp_path / "one").run)


@pytest.mark.parametrize("form", ["svg", *(pytest.param(form, marks=pytest.mark.slow) for form in ("png", "pdf"))])
def test_a_figure_is_written(run, tmp_path, form):
    out = tmp_path / f"r.{form}"
    assert (
        invoke(["roofline", str(run.path), "-o", str(out), "--level", "dram,l2", "--theme", "dark", "--top", "3"]) == 0
    )
    assert out.stat().st_size > 1000
    assert invoke(["roofline", str(run.path), "-o", str(out)]) == 2
    assert invoke(["roofline", str(run.path), "-o", str(out), "--force"]) == 0


def test_every_level_gets_a_point_at_its_own_intensity(run):
    scene = kernels_scene([run], levels=("dram", "l2"), top=2)
    assert [point.level for point in scene.points] == ["dram", "l2"] * 2
    first = run.kernels.sort_values("time", ascending=False).iloc[0]
    assert scene.points[1].intensity == pytest.approx(first["flops"] / first["l2_bytes"])
    assert any("shorter kernels are not drawn" in line for line in scene.caption)


def test_where_no_kernel_was_counted_the_calls_are_drawn_as_on_the_page():
    run = open_study(NCU.parents[3] / "examples" / "transformer_ladder" / "runs" / "batch1")
    drawn = {point.label: point.flops_per_s for point in kernels_scene([run]).points if point.placed}
    assert drawn == {name: pytest.approx(row["achieved_flops"]) for name, row in run.analysis.rows.items()}


def test_equal_short_names_are_numbered_within_an_implementation():
    rows = [{"impl": impl, "kernel": f"void scale<{n}>(float *)"} for impl in "ab" for n in (1, 2)]
    assert names_of(rows) == ["scale", "scale #2"] * 2


def test_runs_are_merged_and_told_apart(run, tmp_path):
    other = Study(import_files([NCU], tmp_path / "two").run)
    scene = kernels_scene([run, other], top=100)
    assert len(scene.points) == 2 * len(run.kernels)
    assert {point.impl.split()[0] for point in scene.points} == {"one:", "two:"}
    # A kernel's share is of its own implementation, as on the page.
    by_impl = {point.impl: sum(one.share for one in scene.points if one.impl == point.impl) for point in scene.points}
    assert list(by_impl.values()) == pytest.approx([1.0] * len(by_impl))


def test_different_devices_are_refused(run, tmp_path, capsys):
    text = NCU.read_text().replace("NVIDIA H200", "NVIDIA H100 80GB HBM3")
    (tmp_path / "h100.csv").write_text(text)
    other = Study(import_files([tmp_path / "h100.csv"], tmp_path / "two").run)
    out = tmp_path / "r.svg"
    assert invoke(["roofline", str(run.path), str(other.path), "-o", str(out)]) == 2
    assert "draw each device separately" in capsys.readouterr().err


def test_times_alone_are_no_roofline(tmp_path, capsys):
    trace = sqlite_export(tmp_path / "t.sqlite", [Op(0, 500), Op(900, 500)])
    import_files([trace], tmp_path / "run")
    assert invoke(["roofline", str(tmp_path / "run"), "-o", str(tmp_path / "r.png")]) == 2
    assert "only times" in capsys.readouterr().err


@pytest.mark.parametrize("line", [["--level", "dram,l9"], ["-o", "r.txt"]])
def test_what_is_not_known_is_usage(run, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert invoke(["roofline", str(run.path), *line]) == 2


def program_run(tmp_path, lines, filtered=False):
    """A run of a program whose recorded launches lie in the ranges of the recording."""
    run = create_run(SampleInfo("prog", "", "program"), tmp_path / "runs")
    shutil.copyfile(NCU, (run.path / "ncu.csv"))
    run.manifest.captures = [Capture("ncu.csv", "ncu", filtered=filtered)]
    run.manifest.counters = Counters("collected")
    run.manifest.device = {"kind": "cuda", "name": "NVIDIA H200", "cc": "9.0"}
    run.manifest.program = ["python", "x.py"]
    run.save()
    text = []
    for number, (path, flops, moved, passages) in enumerate(lines):
        text += [json.dumps({"id": f"1.{number}", "range": path, "flops": flops, "bytes": moved})]
        text += [json.dumps(f"1.{number}")] * passages
    run.annotations("ncu").write_text("\n".join(text) + "\n")
    return open_study(run.path)


def test_declared_work_is_compared_with_what_was_counted(tmp_path, capsys):
    run = program_run(tmp_path, [("ICVXKH/reference", 1e11, 1e6, 2), ("ICVXKH", None, None, 1)])
    row = run.metrics.set_index("impl").loc["ICVXKH/reference"]
    assert row["lower_bound_time"] > 0
    assert row["lower_bound_ratio"] == pytest.approx(row["time"] / row["lower_bound_time"])
    (work,) = run.analysis.works
    assert sum(work.flops.values()) == 2e11
    assert work.bytes == 2e6
    assert invoke(["report", str(run.path)]) == 0
    shown = capsys.readouterr().out
    assert "declared [TFLOP]" in shown or "declared [GFLOP]" in shown
    assert "x lower bound" in shown
    assert "python x.py" in (run.path / "report.md").read_text()


def test_declared_work_is_not_compared_with_a_part_of_the_launches(tmp_path):
    impossible = program_run(tmp_path, [("ICVXKH/reference", {"fp32": 1e15}, None, 1)])
    assert any("ICVXKH/reference" in caveat.what for caveat in impossible.analysis.caveats)
    run = program_run(tmp_path / "part", [("ICVXKH/reference", 1e11, 1e6, 2)], filtered=True)
    assert run.analysis.works == ()
    assert any("only some launches were captured" in caveat.what for caveat in run.analysis.caveats)
