"""profkit compare: names, gate, JSON, picture."""

import json
import re
from pathlib import Path

import browser
import pytest
from click.testing import CliRunner
from synthetic_runs import kernel, make_run

from profkit.cli.compare import compare_ as command
from profkit.errors import ProfkitError
from profkit.rundir.manifest import FileRef

ROOT = Path(__file__).parents[2]


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two runs on disk, opened with their analyses: `old` 2e-4 s, `new` 1e-4 s."""
    made = {}
    for name, time in (("old", 2e-4), ("new", 1e-4)):
        rows = [
            kernel("reference", "r(int)", 3e-4, dram_bytes=6e8, flop_fp32=1e9),
            kernel("cuda", "k(int)", time, dram_bytes=time * 3e12, flop_fp32=1e9),
        ]
        files = {"reference": FileRef("ref.py", "a" * 64), "cuda": FileRef("cuda.py", name * 20)}
        made[str(tmp_path / name)] = make_run(tmp_path / name, {"reference": 3e-4, "cuda": time}, rows, files=files)
    monkeypatch.setattr("profkit.report.compare.open_study", lambda path: made[str(path)])
    return tmp_path, made


def run_command(*arguments):
    return CliRunner().invoke(command, [str(a) for a in arguments], standalone_mode=False, catch_exceptions=False)


def test_two_runs(runs):
    folder, _ = runs
    done = run_command(folder / "old", folder / "new")
    assert done.return_value == 0
    for word in ("speed-up over the row above", "2.000x [", "faster", "of its ceiling", "what changed with it"):
        assert word in done.output


def test_the_gate(runs):
    folder, made = runs
    assert run_command(folder / "new", folder / "old", "--fail-on-regression", "5%").return_value == 1
    assert run_command(folder / "old", folder / "new", "--fail-on-regression", "0.05").return_value == 0
    assert run_command(folder / "new", folder / "old", "--fail-on-regression", "200%").return_value == 0
    made[str(folder / "old")].manifest.device["name"] = "Other GPU"
    with pytest.raises(ProfkitError, match="cannot gate: the runs differ in device"):
        run_command(folder / "new", folder / "old", "--fail-on-regression", "5%")
    told = run_command(folder / "new", folder / "old").output
    assert "cuda (new) 100 us -> cuda (old) 200 us, not comparable\nthe device differs" in told
    assert "slower" not in told


def test_json_and_picture(runs):
    folder, _ = runs
    picture = folder / "ladder.png"
    done = run_command(f"{folder / 'old'}:reference", folder / "old", folder / "new", "--json", "-o", picture)
    document = json.loads(done.stdout)
    assert [round(row["total"]) for row in document["steps"]] == [1, 2, 3] or len(document["steps"]) == 3
    assert document["gate"] is None
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_names_that_mean_nothing(runs):
    folder, _ = runs
    with pytest.raises(ProfkitError, match="no time of 'nobody'"):
        run_command(f"{folder / 'old'}:nobody", folder / "new")


def seen(text):
    """What a reader of English sees of a page, without tags."""
    text = re.sub(r'<span lang="zh-CN">.*?</span>', "", text, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text[: text.index('<script type="application/json"')]))


def test_the_page_of_two_runs(runs):
    """The ladder, how the waterfalls differ, what moved, and the gate, on one page."""
    folder, _ = runs
    file = folder / "compare.html"
    assert run_command(folder / "new", folder / "old", "--fail-on-regression", "5%", "-o", file).return_value == 1
    text = file.read_text("utf-8")
    shown = seen(text)
    assert "cuda (new) 100 us -&gt; cuda (old) 200 us, slower: 0.5" in shown
    assert "Gate failed: slower than the first by more than 5.00%: cuda (old) +100%." in shown
    assert "occupancy" in shown or "dram" in shown
    for label in ("cuda (new)", "cuda (old)"):
        assert f'data-part="{label}"' in text
    run_command(folder / "old", folder / "new", "-o", file, "--force", "--fail-on-regression", "5%")
    assert "Gate passed: no step is slower than the first by more than 5.00%." in seen(file.read_text("utf-8"))
    run_command(folder / "old", folder / "new", "-o", file, "--force")
    assert "Gate" not in seen(file.read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.skipif(browser.find() is None, reason="no chromium here")
def test_the_page_of_two_runs_in_a_browser(tmp_path):
    run, file = ROOT / "examples/h200/ICVXKH", tmp_path / "compare.html"
    assert run_command(f"{run}:reference", f"{run}:cuda", "-o", file).return_value == 0
    with browser.open_browser() as tab:
        tab.goto(file)
        assert tab.problems() == []
        assert tab.js("document.querySelectorAll('.mark').length") == 3
        tab.js("document.querySelector('.stackrow[data-part=reference]').click()")
        assert tab.js("document.querySelector('.fall:not([hidden])').dataset.part") == "reference"
        tab.js("document.querySelector('[data-lang=zh-CN]').click()")
        assert "更快：1.73x" in tab.js("document.querySelector('.lead').innerText")
        assert tab.problems() == []
