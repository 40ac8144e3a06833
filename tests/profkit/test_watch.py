"""The first line before the end, what amends it, and watching for the next save."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from candidates import REFERENCE, candidate, write_sample

from analyzers.verdicts.verdict import Condition, Verdict
from profkit.api import profile
from profkit.cli.group import invoke
from profkit.report.writers import terminal
from profkit.rundir.directory import open_run
from profkit.study.study import Study

pytestmark = pytest.mark.usefixtures("private_cache")
QUICK = ("--device", "cpu", "--budget", "0.05", "--trials", "1")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path):
    """An honest candidate, and one that is wrong for values that the task says may come."""
    found = write_sample(tmp_path, "honest")
    (found / "example_torchcode.py").write_text(REFERENCE + "\ndef input_domain():\n    return [(-1e9, 1e9)]\n")
    wrong = "return torch.relu(x @ self.weight) * (1 + (x.abs().max() > 100).float())"
    (found / "late.py").write_text(candidate("honest").replace("return torch.clamp_min(x @ self.weight, 0)", wrong))
    return found


def test_an_answer_is_told_before_the_stress_cases_and_the_end(folder, tmp_path):
    told = []

    def answer(run):
        told.append(({name: one.word for name, one in Study(run).verdicts.items()}, open_run(run.path).manifest.status))

    run = profile(folder, device="cpu", counters="off", budget=0.05, trials=1, runs=tmp_path / "runs", answer=answer)
    (words, status), *_ = told
    assert status == "running"
    assert words["late"] not in ("wrong", "failed", "skipped")
    assert Study(run.run).verdicts["late"].word == "wrong"


def test_what_is_amended_is_told_again_and_nothing_else(folder, tmp_path, capsys):
    assert invoke(["profile", str(folder), *QUICK, "--events", "-q", "--runs", str(tmp_path / "runs")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("amended: late: ")]
    assert len([line for line in lines if line.startswith("late: correct")]) == 1
    # Its lower bound comes with the ceilings, which are measured last.
    assert len({line.removeprefix("amended: ").partition(",")[0] for line in lines if "honest: correct" in line}) == 1
    (folder / "honest.py").unlink()
    again = ["--events", "--json", "--processes", "1", "--runs", str(tmp_path / "runs")]
    assert invoke(["profile", str(folder), *QUICK, *again]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("{")
    assert "  amended: late: " in said.err


def test_wrong_alone_is_told_before_anything_is_timed(tmp_path):
    told, folder = [], write_sample(tmp_path, "mismatch")

    def answer(run):
        told.append((Study(run).verdicts["mismatch"].word, run.manifest.timing.rounds))

    profile(folder, device="cpu", counters="off", budget=0.05, trials=1, runs=tmp_path / "runs", answer=answer)
    assert told[0] == ("wrong", 0)


class Watching:
    """`profkit watch` in a process of its own; `until` reads what it says up to a pattern."""

    def __init__(self, folder, runs):
        argv = [sys.executable, "-m", "profkit", "watch", str(folder), *QUICK, "-q", "--runs", str(runs)]
        self.process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def until(self, pattern):
        said = ""
        for line in self.process.stdout:
            said += line
            if re.search(pattern, line):
                return said
        raise AssertionError(said)


@pytest.mark.slow(20)
@pytest.mark.usefixtures("lent_to_others")
def test_each_save_is_measured_and_told_against_the_last(tmp_path):
    folder, runs = write_sample(tmp_path, "honest"), tmp_path / "runs"
    file = folder / "honest.py"
    watching = Watching(folder, runs)
    try:
        assert "->" not in watching.until(r"^honest: correct, ")
        file.write_text(candidate("honest") + "# saved\n")
        assert "honest: correct, " in watching.until(r"^  honest: \S+x -> \S+x")
        file.write_text("class ModelNew(:\n")
        watching.until(r"^honest: .*SyntaxError")
        watching.until(r"^  honest: \S+x -> failed")
        (folder / "example_torchcode.py").write_text("def (\n")
        watching.until(r"^error: .*not Python")
        write_sample(tmp_path, "honest")
        watching.until(r"^  honest: \S+x -> \S+x")
        watching.process.send_signal(signal.SIGINT)
        assert "run directory" in watching.until(r"^interrupted")
        assert watching.process.wait(60) == 130
    finally:
        watching.process.kill()
        watching.process.wait()
    # Each that came to its end is a row of `profkit list`.
    assert len([*runs.glob("*/*/metrics.json")]) >= 3


def test_a_time_of_a_busy_machine_makes_no_later_one_worse():
    now = Verdict("cpp", "faster", speedup=1.13, low=1.01, high=1.25)
    for conditions, worse in (((), 1), ((Condition("busy", {"load": "x"}),), 0)):
        before = Verdict("cpp", "inconclusive", speedup=1.59, low=1.36, high=3.94, conditions=conditions)
        assert len([*terminal.worsened(before, now)]) == worse
