"""The findings of a run: in words, as JSON, for one kernel."""

import click
import pytest
from click.testing import CliRunner
from synthetic_runs import kernel, make_run

from analyzers.lower_bound import Work
from profkit.cli.reading import explain_ as command
from profkit.errors import ProfkitError
from profkit.report import explain


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
