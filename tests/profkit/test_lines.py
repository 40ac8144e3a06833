"""--lines from the command line to the lines that are named; findings in words, as JSON, for one kernel."""

import json
import sys

import click
import pytest
from click.testing import CliRunner
from synthetic_runs import PLANTED, kernel, make_run, planted_run

from analyzers.lower_bound import Work
from profkit.api import profile
from profkit.cli.group import invoke
from profkit.cli.reading import explain_ as command
from profkit.errors import ProfkitError
from profkit.guest.build import loading
from profkit.report import derived, explain
from profkit.report.messages import in_each
from profkit.report.page.data import data_of, shown_of
from profkit.report.writers import markdown
from profkit.study.study import open_study
from profkit.targets.program import Program

OK = [sys.executable, "-c", "import os; print('flags', os.environ.get('NVCC_APPEND_FLAGS'))"]


@pytest.fixture
def program(fake_ncu, tmp_path, monkeypatch):
    """A program recorded with --lines; (the study, ncu's command lines)."""
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PROFKIT_NCU", raising=False)

    def record(**settings):
        log = tmp_path / "argv.jsonl"
        fake_ncu("ok", log=log, **settings)
        study = profile(Program.of(OK), runs=tmp_path / "runs", counters="ncu", lines=True)
        return study, [json.loads(line) for line in log.read_text().splitlines() if "--version" not in line]

    return record


def test_one_start_of_ncu_counts_and_samples_and_its_report_becomes_a_page(program):
    study, (counted, page) = program()
    for part in ("--section SourceCounters", "--import-source yes", "-o ", "smsp__average_warp"):
        assert part in " ".join(counted)
    assert "--page source --print-source cuda,sass --csv" in " ".join(page)
    assert "flags -lineinfo" in (study.logs / "ncu.log").read_text()
    captured = {one.role: one for one in study.run.captures}
    assert (captured["lines"].file, captured["counters"].file) == ("lines.csv", "ncu.csv")
    assert not list(study.path.glob("*.ncu-rep"))
    # No kernel of the recording is in that page: nothing is said of others.
    assert open_study(study.path).lines == []


def test_without_a_page_the_run_says_why_and_keeps_its_counters(program):
    study, _ = program(page="h200_no_kernels.csv")
    assert study.manifest.counters.state == "collected"
    (caveat,) = [one for one in study.manifest.caveats if "source lines" in one.what]
    assert "no instructions" in caveat.how_much


@pytest.fixture
def planted(tmp_path):
    return planted_run(tmp_path)


def test_a_line_holds_a_slice_of_the_waterfall(planted):
    study = planted
    told = study.lines
    assert {one.kernel for one in told} == {PLANTED}
    first = told[0]
    assert (first.impl, first.number, first.text) == ("cuda", 12, "float c = x[index[i]];")
    assert first.bound == pytest.approx(min(first.share * 200e-6, 140e-6), rel=1e-3)
    held = sum(part.seconds for part in study.waterfalls["cuda"].slices if part.kernel == PLANTED)
    assert all(one.bound <= held * (1 + 1e-9) for one in told)


def test_explain_report_and_json_tell_the_lines(planted, capsys):
    study = planted
    text = explain.lines_text(study.lines)
    assert "cuda.cu line 12: " in text
    assert "of stalls, long scoreboard" in text
    assert "at most 1" in text
    assert "第 12 行" in in_each(lambda: explain.lines_text(study.lines))[1]
    assert explain.lines_text(study.lines, kernel="nothing") == ""
    assert explain.document(study, [])["lines"][0]["number"] == 12
    assert derived.document(study)["lines"][0]["reason"] == "long scoreboard"
    assert json.dumps(explain.document(study, []), allow_nan=False)
    of_page = next(row for row in data_of(shown_of(study))["kernels"] if row["kernel"] == PLANTED)["lines"]
    assert of_page[0][0].startswith("cuda.cu line 12: ")
    assert "第 12 行" in of_page[0][1]
    assert ": float c = x[index[i]];\n" in markdown.report(study).partition("## Source lines")[2]


def test_a_run_without_lines_says_how_to_get_them(tmp_path, capsys):
    run = make_run(tmp_path, {"cuda": 3e-4}, [kernel("cuda", "k", 2e-4)])
    assert invoke(["explain", str(run.path), "--lines"]) != 0
    assert "--lines" in capsys.readouterr().err


def test_line_tables_are_part_of_what_a_build_is(tmp_path, monkeypatch):
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-O3")
    file = tmp_path / "kernel.py"
    file.write_text("x = 1\n")
    before = loading.build_key(file)
    loading.with_line_tables()
    loading.with_line_tables()
    assert loading.os.environ["NVCC_APPEND_FLAGS"] == "-O3 -lineinfo"
    assert loading.build_key(file) != before


@pytest.fixture
def run(tmp_path):
    rows = [
        kernel("reference", "a_kernel(float*)", 2e-4, dram_bytes=6e8),
        kernel("reference", "b_kernel(float*)", 1e-4, dram_bytes=3e8),
        kernel("cuda", "fused(float*)", 1e-4, dram_bytes=3.8e8),
    ]
    return make_run(tmp_path / "r", {"reference": 3e-4, "cuda": 1e-4}, rows, Work({}, 3.7e8))


def test_text_has_all_a_person_needs(run):
    text = explain.text(run, run.findings())
    assert text.index("cuda: ") < text.index("reference: ")
    for word in ("because:", "next:", "expect:", "up to ", "not checked, counters missing:", "--deep"):
        assert word in text


def test_one_kernel(run):
    assert {f.kernel for f in run.findings("b_ker") if f.severity == "time"} == {"b_kernel(float*)"}


def test_the_command(run, monkeypatch):
    monkeypatch.setattr("profkit.rundir.directory.open_run", lambda _: run)
    done = CliRunner().invoke(command, [str(run.path)], standalone_mode=False, catch_exceptions=False)
    assert done.return_value == 0
    assert "profkit profile S1/T1 --deep" in done.output
    with pytest.raises(ProfkitError, match="no kernel's name contains 'zzz'"):
        CliRunner().invoke(command, [str(run.path), "--kernel", "zzz"], standalone_mode=False, catch_exceptions=False)
    assert isinstance(command, click.Command)


def test_without_counters_the_lower_bound_is_all(tmp_path):
    run = make_run(tmp_path / "r", {"reference": 3e-4, "cuda": 2e-4})
    found = run.findings()
    assert found[0].rule == "modelled"
    assert {f.severity for f in found} == {"time", "collect"}
