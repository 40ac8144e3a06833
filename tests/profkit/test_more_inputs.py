"""A reference that cannot do its own other shapes is to blame itself."""

import pytest
from candidates import ANSWERS, task

from profkit.api import profile
from profkit.report.derived import document
from profkit.report.messages import speaking
from profkit.report.sections.tables import shapes_table
from profkit.report.writers.terminal import summary

MORE = "\ndef get_more_inputs():\n    {}\n"
REFERENCE = task("x.reshape(4, 8) * 2", "torch.randn(32)") + MORE
CANDIDATE = ANSWERS + "        return x.reshape(4, 8) + x.reshape(4, 8)\n"


def run_of(tmp_path, monkeypatch, files, **options):
    """A run of a sample with these files."""
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "IMORE"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    wanted = {"device": "cpu", "counters": "off", "budget": 0.05, "trials": 1, "processes": 1}
    return profile(folder, runs=tmp_path / "runs", **wanted, **options)


@pytest.mark.parametrize(
    ("more", "words"), [("raise ValueError('no more')", "ValueError: no more"), ("return [[torch.randn(33)]]", "33")]
)
def test_other_inputs_that_raise_or_that_the_reference_fails_on(tmp_path, monkeypatch, more, words):
    run = run_of(tmp_path, monkeypatch, {"reference": REFERENCE.format(more), "candidate": CANDIDATE})
    assert run.manifest.reference.status == "error"
    assert words in run.manifest.reference.reason
    assert [impl.status for impl in run.manifest.candidates] == ["skipped"]


TASK = task("torch.tanh(x) + 1", "torch.randn(64, 48)")
TASK += MORE.format("return [[torch.randn(3, 48)], [torch.randn(200, 48)]]")
SOUND = "        return x.tanh().add_(1)\n"
TIRED = "        self.calls += len(x) == 200\n        return x * 0 + 1 if self.calls > 20 and len(x) == 200 else x.tanh() + 1\n"


@pytest.mark.slow
def test_every_shape_is_timed_and_compared(tmp_path, monkeypatch):
    files = {"reference": TASK, "sound": ANSWERS + SOUND, "tired": ANSWERS + TIRED}
    run = run_of(tmp_path, monkeypatch, files, shapes="all")
    by_name = {impl.name: impl.status for impl in run.manifest.impls}
    assert by_name == {"reference": "ok", "sound": "ok", "tired": "stops-computing"}
    shapes = ["float32 [64, 48]", "float32 [3, 48]", "float32 [200, 48]"]
    assert [one.inputs for one in run.shapes] == [(one,) for one in shapes]
    assert all(one.ratios.keys() == {"sound"} for one in run.shapes)
    metrics = document(run)
    assert metrics["shapes"]["geometric_mean"]["sound"]["value"] > 0
    assert len(metrics["shapes"]["rows"]) == 3
    with speaking("zh"):
        table = shapes_table(run)
    assert table.head == ["输入", "sound"]
    assert [row[0] for row in table.rows] == [*shapes, "几何平均"]
    assert "geometric mean" in summary(run)


@pytest.mark.slow
def test_one_shape_alone_has_no_table(tmp_path, monkeypatch):
    run = run_of(tmp_path, monkeypatch, {"reference": TASK, "sound": ANSWERS + SOUND})
    assert run.shapes == []
    assert "shapes" not in document(run)
    assert shapes_table(run).rows == []
