"""profkit report: which form is written where, and what is refused."""

import shutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from synthetic_runs import make_run

from profkit.cli.reading import report_ as command
from profkit.errors import ProfkitError
from profkit.record.importing import import_files
from profkit.report.dialects import DIALECTS
from profkit.study.study import open_study

RECORDED = Path(__file__).parents[2] / "examples/h200/ICJTRP"


@pytest.fixture
def folder(tmp_path):
    make_run(tmp_path / "r", {"reference": 3e-4, "cuda": 2e-4})
    return tmp_path


def report(*arguments):
    return CliRunner().invoke(command, [str(a) for a in arguments], standalone_mode=False)


def test_the_page_by_extension_and_no_overwriting(folder):
    page = folder / "report.html"
    assert report(folder / "r", "-o", page).return_value == 0
    assert page.read_text("utf-8").startswith("<!doctype html>")
    refused = report(folder / "r", "-o", page)
    assert isinstance(refused.exception, click.UsageError)
    assert "--force" in str(refused.exception)
    assert report(folder / "r", "-o", page, "--force").return_value == 0


@pytest.mark.parametrize("name", ["timings.csv", "ncu.csv"])
def test_a_run_that_lost_its_files_keeps_what_its_metrics_say(tmp_path, name):
    run = tmp_path / "run"
    shutil.copytree(RECORDED, run)
    before = (run / "metrics.json").read_bytes()
    (run / name).unlink()
    refused = report(run)
    assert isinstance(refused.exception, ProfkitError)
    assert str(run / name) in str(refused.exception)
    assert "restore the file" in refused.exception.fix
    assert (run / "metrics.json").read_bytes() == before
    told = [caveat for caveat in open_study(run).analysis.caveats if "are gone" in caveat.what]
    assert [caveat.what for caveat in told] == [f"files of this run are gone: {name}"]
    shutil.copy(RECORDED / name, run)
    assert report(run).return_value == 0


def test_pr_is_written_into_the_run(folder):
    done = report(folder / "r", "--for", "pr")
    assert done.exception is None
    assert "## T1: measured on" in done.output
    for name in ("pr.md", "roofline-light.png", "roofline-dark.png"):
        assert (folder / "r" / name).stat().st_size > 500


def test_a_picture_is_not_overwritten(folder):
    (folder / "roofline-dark.png").write_bytes(b"mine")
    done = report(folder / "r", "--for", "pr", "-o", folder / "readme.md")
    assert isinstance(done.exception, click.UsageError)
    assert (folder / "roofline-dark.png").read_bytes() == b"mine"
    assert not (folder / "readme.md").exists()


def test_tensorrt_without_any_input_is_a_frame_of_gaps():
    done = report("--for", "tensorrt", "--lang", "zh")
    assert done.exception is None
    assert "【待作者补充" in done.output


@pytest.mark.parametrize("arguments", [[], ["--for", "pr"], ["a", "b"], ["a", "--for", "pr", "--json"]])
def test_usage(arguments):
    assert isinstance(report(*arguments).exception, click.UsageError)


@pytest.mark.parametrize("dialect", [["--for", "pr"], [], ["--for", "html"]])
def test_an_option_of_another_dialect_is_refused_by_name(folder, dialect):
    refused = report(folder / "r", *dialect, "--notes", "x.toml")
    assert isinstance(refused.exception, click.UsageError)
    assert "--notes goes with --for tensorrt" in str(refused.exception)


def test_the_command_line_is_built_from_the_dialects():
    choices = next(option for option in command.params if "--for" in option.opts).type.choices
    assert list(choices) == list(DIALECTS)
    for dialect in DIALECTS.values():
        assert all(option in command.params for option in dialect.options)
    assert isinstance(report("r", "--for", "nobody").exception, click.BadParameter)


def test_an_import_fills_its_places_for_tensorrt(tmp_path):
    import_files([RECORDED / "ncu.csv"], tmp_path / "run")
    shown = report(tmp_path / "run", "--for", "tensorrt", "-o", "-").stdout
    assert "launches of" in shown
    assert "| `transpose_kernel` |" in shown
    assert "evidence: " in shown


def test_the_terminal_speaks_the_language_that_was_asked_for(tmp_path):
    shutil.copytree(RECORDED, tmp_path / "run")
    shown = report(tmp_path / "run", "--lang", "zh")
    assert "cuda：正确，更快：2.86x" in shown.stdout
    assert "存疑之处：" in shown.stdout
    assert "下一步：profkit explain" in shown.stderr
