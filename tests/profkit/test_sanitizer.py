"""`--sanitize` with a fake compute-sanitizer: command line, findings, reports, exit codes."""

import json
from pathlib import Path

import pytest
from candidates import write_sample
from test_failures import on_gpu  # noqa: F401

from profkit.cli.group import invoke
from profkit.launch import tools
from profkit.study.study import open_study

KERNEL = '\nSOURCE = """__global__ void scale(float* y, const float* x, int n) {}"""\n'


@pytest.fixture
def fake(install_tool, monkeypatch, tmp_path):
    """fake(mode): a fake compute-sanitizer on PATH."""
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROFKIT_SANITIZER", raising=False)

    def install(mode="found"):
        monkeypatch.setenv("FAKE_SANITIZER_MODE", mode)
        monkeypatch.setenv("FAKE_SANITIZER_LOG", str(tmp_path / "calls"))
        install_tool("compute-sanitizer", Path(__file__).parents[1] / "fakes" / "sanitizer.py")

    return install


def sample(root):
    folder = write_sample(root, "honest")
    (folder / "honest.py").write_text((folder / "honest.py").read_text() + KERNEL)
    return str(folder)


def calls(root):
    return [json.loads(line) for line in (root / "calls").read_text().splitlines()]


def test_findings_are_told_everywhere_and_fail_the_run(on_gpu, fake, tmp_path, capsys):  # noqa: F811
    fake()
    code = invoke(["profile", sample(tmp_path), "--events", "-q", "--sanitize", "all"])
    out = capsys.readouterr().out
    assert code == 1
    run = open_study(tmp_path / "profkit-runs")
    honest = run.manifest.impls[1]
    assert [one.tool for one in honest.sanitized] == ["memcheck", "racecheck", "initcheck", "synccheck"]
    assert {one.state for one in honest.sanitized} == {"findings"}
    first = honest.sanitized[0].findings[0]
    assert (first.tool, first.place, first.count, first.own) == ("memcheck", "cuda.cu:9", 2, True)
    assert len(honest.unsound) == 5
    for place in (out, (run.path / "report.md").read_text()):
        assert "memcheck: Invalid __global__ write of size 4 bytes in scale" in place
        assert "racecheck: Race between write and read" in place
    assert [d for d in run.manifest.caveats if "library kernels" in d.what]
    assert run.manifest.versions["compute-sanitizer"] == "2025.3.0"
    assert sum(command.step == "sanitize" for command in run.manifest.commands) == 4


def test_each_candidate_and_tool_is_a_run_of_its_own(on_gpu, fake, tmp_path):  # noqa: F811
    fake("clean")
    assert invoke(["profile", sample(tmp_path), "--events", "-q", "--sanitize", "memcheck,racecheck"]) == 0
    (mem, argv, caching), (race, _, _) = calls(tmp_path)
    assert (mem["--tool"], race["--tool"]) == ("memcheck", "racecheck")
    assert mem["--report-api-errors"] == "no"
    assert race["--racecheck-report"] == "analysis"
    assert caching == "1"
    job = json.loads(Path(argv[-2]).read_text())
    assert job["mode"] == "sanitize"
    assert [subject["name"] for subject in job["subjects"]] == ["reference", "honest"]


def test_a_context_that_died_keeps_its_findings_and_nothing_runs_again(on_gpu, fake, tmp_path):  # noqa: F811
    fake("died")
    assert invoke(["profile", sample(tmp_path), "--events", "-q", "--sanitize", "memcheck"]) == 1
    (one,) = open_study(tmp_path / "profkit-runs").manifest.impls[1].sanitized
    assert (one.state, len(one.findings)) == ("findings", 2)
    assert len(calls(tmp_path)) == 1


@pytest.mark.parametrize(
    ("mode", "why"), [("untracked", "Internal Sanitizer Error"), ("cut", ""), ("silent", "No such file")]
)
def test_what_was_not_checked_is_a_caveat_and_not_clean(on_gpu, fake, tmp_path, capsys, mode, why):  # noqa: F811
    fake(mode)
    assert invoke(["profile", sample(tmp_path), "--events", "-q", "--sanitize", "memcheck"]) in (0, 1)
    out = capsys.readouterr().out
    (one,) = open_study(tmp_path / "profkit-runs").manifest.impls[1].sanitized
    assert one.state != "clean"
    assert why in one.why
    assert "clean" not in out


def test_an_unsupported_device_exits_3(on_gpu, fake, tmp_path, capsys):  # noqa: F811
    fake("unsupported")
    assert invoke(["profile", sample(tmp_path), "--events", "-q", "--sanitize", "memcheck"]) == 3
    assert "compute-sanitizer cannot work here: Error: Device not supported" in capsys.readouterr().err


def test_a_missing_tool_exits_3_before_anything_runs(on_gpu, tmp_path, monkeypatch, capsys):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tools, "find", lambda _: None)
    assert invoke(["profile", sample(tmp_path), "--sanitize", "memcheck"]) == 3
    err = capsys.readouterr().err
    assert "compute-sanitizer was not found" in err
    assert "PROFKIT_SANITIZER" in err
    assert not (tmp_path / "profkit-runs").exists()


def test_on_the_cpu_there_is_nothing_to_sanitize(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert invoke(["profile", sample(tmp_path), "--device", "cpu", "--sanitize", "memcheck"]) == 3
    assert "checks GPU kernels" in capsys.readouterr().err


def test_a_strange_tool_is_refused(tmp_path, capsys):
    assert invoke(["profile", str(tmp_path), "--sanitize", "asan"]) == 2
    assert "the tools are memcheck, racecheck" in capsys.readouterr().err
