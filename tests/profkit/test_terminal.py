"""What a terminal shows: lines that fit, colour where it is wanted, progress with a clock; a pipe gets plain lines."""

import io
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from ptys import on_a_terminal
from recorded import opened
from rich.console import Console
from synthetic_runs import two_parts

from profkit.cli.group import cli
from profkit.cli.terminal import Drawn, progress
from profkit.doctor.finding import Finding
from profkit.report.layout import Column, Table, folded, on_screen, terminal_table
from profkit.report.page.run import page
from profkit.report.sections import answer, caveats
from profkit.report.writers import markdown, terminal
from profkit.rundir.manifest import Impl

LADDER = Path(__file__).parents[2] / "examples/transformer_ladder/runs/batch8"


@pytest.fixture(autouse=True)
def no_wishes(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def study(tmp_path):
    return two_parts(tmp_path / "r")


@pytest.mark.xdist_group("recorded")
@pytest.mark.parametrize("width", [120, 80, 60, 40, 20, 1])
def test_a_summary_fits_the_terminal(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    text = click.unstyle(on_screen(terminal.summary(opened(LADDER))))
    for line in text.splitlines():
        # A word that is wider, like a kernel's name, is not broken.
        assert len(line) <= width or len(line.split()) == 1 or width < 40, line
    assert width < 40 or "compiled: correct, faster: 12.2x" in re.sub(r"\s+", " ", text)


def test_a_narrow_table_keeps_its_first_column_and_says_what_it_left_out():
    table = Table.of([Column("kernel", ["k" * 30]), Column("time", ["12.3"]), Column("bound by", ["dram " * 9], 2)])
    assert terminal_table(table, 24).splitlines() == [
        "kernel              time",
        "------------------  ----",
        "kkkkkkkkkkkkkkk...  12.3",
        "(too narrow here for:",
        "bound by)",
    ]
    alone = Table(["name", "a" * 30, "b" * 30], [["n" * 20, "1", "2"]])
    assert terminal_table(alone, 20).splitlines()[0] == "name"


def test_words_at_the_end_of_a_row_are_cut_before_its_name():
    table = Table(["run", "verdict"], [["runs/ICVXKH/20261121", "faster: " + "very " * 20]])
    row = terminal_table(table, 50).splitlines()[2]
    assert row.startswith("runs/ICVXKH/20261121  faster: very")
    assert len(row) == 50


def test_prose_is_folded_between_words_with_what_follows_further_in(monkeypatch):
    assert folded("  - one two three", 12, "    ") == "  - one two\n    three"
    assert folded("屋顶线 屋顶线", 8) == "屋顶线\n屋顶线"
    assert on_screen("a " * 100) == "a " * 100, "a pipe"
    monkeypatch.setenv("COLUMNS", "10")
    red = click.style("one two three", fg="red")
    assert click.unstyle(on_screen(red)).splitlines() == ["one two", "  three"]


@pytest.fixture
def coloured(monkeypatch):
    """Whether `profkit doctor`, with these words about it, has colour on a terminal."""
    monkeypatch.setattr("profkit.doctor.check_all", lambda **_: [Finding("torch", "ok", "2.13.0")])
    return lambda *words: "\x1b[" in CliRunner().invoke(cli, words, color=True).output


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_the_environment_says_no_colour(coloured, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert coloured("doctor") is False


def test_what_is_fragile_is_counted_first_and_told_with_the_caveats(study):
    notes = [f"inputs {how}: RuntimeError: x must be contiguous" for how in ("times 10", "x")]
    study.manifest.impls[1].fragile = notes
    for name in ("verdicts", "_unjudged", "analysis"):
        study.__dict__.pop(name, None)
    (first,) = answer.first_lines(study)
    assert first.startswith("cuda: correct, faster: 1.50x")
    assert "fragile: refuses 2 unusual inputs" in first
    assert "contiguous" not in first
    (caveat,) = [one for one in caveats.that_matter(study) if one.code == "fragile"]
    assert caveat.how_much == "; ".join(notes)


def test_the_same_reason_not_to_run_is_told_once_and_what_was_not_called_has_not_failed(study):
    for name in ("t1", "t2", "t3"):
        study.manifest.impls.append(
            Impl(name, "candidate", f"{name}.py", status="skipped", reason="not run: no triton")
        )
    for name in ("verdicts", "_unjudged", "analysis"):
        study.__dict__.pop(name, None)
    assert answer.first_lines(study)[1:] == ["3 candidates (t1, t2, t3): not run: no triton"]
    study.manifest.reference.status, study.manifest.status = "skipped", "interrupted"
    assert answer.first_lines(study) == [
        "nothing was measured: the run ended (interrupted) before the reference was called"
    ]


def test_what_a_candidate_refuses_stands_in_the_report_and_not_in_its_verdict(study):
    study.manifest.impls[1].notes = ["refuses inputs times 10: RuntimeError: x must be contiguous"]
    assert "times 10" not in answer.first_lines(study)[0]
    said = "Notes, beyond the tested inputs: cuda: refuses inputs times 10: RuntimeError"
    assert said in markdown.report(study)
    assert said in page(study)


# ---- progress


@pytest.fixture
def drawn(monkeypatch):
    """(progress on a terminal, seconds of its clock as a list of one, the text it would show at a width)."""
    clock = [0.0]
    monkeypatch.setattr("profkit.cli.terminal.time.monotonic", lambda: clock[0])
    now = Drawn()
    now.bars.live.console = Console(file=io.StringIO(), width=200, record=True)

    def shown(width=80):
        console = Console(width=width, color_system=None, legacy_windows=False)
        with console.capture() as captured:
            console.print(now.bars.get_renderable())
        return captured.get().rstrip()

    return now, clock, shown


def test_the_line_has_a_clock_a_bar_and_what_is_waited_for(drawn):
    now, clock, shown = drawn
    now("building cuda")
    clock[0] = 65.0
    assert re.fullmatch(r"\d:\d\d:\d\d \S+ +building cuda", shown())
    now("timing cuda")
    assert shown().endswith("timing cuda")
    now("[3/12] S1/ICVXKH")
    now.within("checking cuda")
    clock[0] = 68.0
    assert shown().endswith("[3/12] S1/ICVXKH: checking cuda")
    now("[4/12] S1/ICJTRP")
    said = now.bars.console.export_text()
    assert "building cuda: 65.0 s" in said, "what took its time stays"
    assert "  [3/12] S1/ICVXKH: 3.0 s" in said


@pytest.mark.parametrize("width", [200, 80, 40, 20])
def test_the_line_is_one_line(drawn, width):
    now, _, shown = drawn
    now("reading " + "a very long name " * 20)
    assert len(shown(width)) <= width
    assert "\n" not in shown(width)


def test_a_pipe_gets_a_line_a_step_and_quiet_none(capsys):
    with progress(False) as now:
        now("timing cuda")
        now("[1/2] S1/A")
        now.within("timing reference")
    assert capsys.readouterr().err == "  timing cuda\n[1/2] S1/A\n"
    with progress(True) as now:
        now("timing cuda")
    assert capsys.readouterr().err == ""


def test_a_line_that_stays_is_printed_once_and_its_head_is_drawn_on():
    code = (
        "import time\nfrom profkit.cli import terminal\n"
        "with terminal.progress(False) as now:\n    now.line('1 of 3 done: c: faster')\n    time.sleep(0.5)\n"
    )
    said = on_a_terminal(code, width=80)
    assert said.count(b": c: faster") == 1
    assert said.count(b"1 of 3 done") > 1


@pytest.mark.parametrize("wish", ["", "NO_COLOR"])
def test_a_real_terminal(study, wish):
    """A line that is drawn again ends up gone; with NO_COLOR nothing is drawn again."""
    code = (
        "import sys, time\nfrom profkit.cli import terminal\nimport click\n"
        "@click.command()\ndef run():\n"
        "    terminal.settle(click.get_current_context())\n"
        "    with terminal.progress(False) as now:\n        now('timing cuda')\n        time.sleep(0.4)\n"
        "run([])\n"
    )
    said = on_a_terminal(code, width=80, **({"NO_COLOR": "1"} if wish == "NO_COLOR" else {}))
    assert b"timing cuda" in said
    assert (b"\x1b" in said) == (not wish)
    assert (b"0:00" in said) == (not wish)
