"""profkit compare and gate of two programs: a recorded train loop, and the same with its clock or a kernel changed."""

import gzip
import json
import re
import shutil
from pathlib import Path

import browser
import pytest

from profkit import api
from profkit.bridges.mcp import _short
from profkit.cli.group import invoke
from profkit.errors import ProfkitError
from profkit.record.importing import import_files
from profkit.report.compare import compared
from profkit.report.page.compare import page_of
from profkit.study.study import open_study

ROOT = Path(__file__).parents[2]
TRACE = ROOT / "tests/data/kineto/gpt_h100.trace.json.gz"
SOFTMAX = "softmax"


def clock(times):
    """Everything takes so many times as long."""

    def edit(events):
        return [one | {"ts": one["ts"] * times, "dur": one["dur"] * times} if "dur" in one else one for one in events]

    return edit


def without(word):
    """Kernels of that name are not in the record; what ran beside them stays where it was."""
    return lambda events: [one for one in events if one.get("cat") != "kernel" or word not in one["name"].lower()]


def beginning(events):
    """So little of it that nothing repeats."""
    work = sorted(one["ts"] for one in events if one.get("cat") == "kernel")
    return [one for one in events if "dur" not in one or one["ts"] < work[12]]


EDITS = {"gpt": list, "fast": clock(0.5), "less": without(SOFTMAX), "cut": beginning}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Run directories of the recorded trace and its transformations, by name."""
    folder = tmp_path_factory.mktemp("programs")
    trace = json.loads(gzip.decompress(TRACE.read_bytes()))
    for name, edit in EDITS.items():
        file = folder / f"{name}.trace.json"
        file.write_text(json.dumps(trace | {"traceEvents": edit(trace["traceEvents"])}), "utf-8")
        import_files([file], folder / name)
    return folder


@pytest.fixture(scope="module")
def opened(runs):
    """Their studies, each once."""
    return {name: open_study(runs / name) for name in EDITS}


@pytest.fixture
def said(runs, opened, monkeypatch, capsys):
    """said(words): exit code and stdout of a command line about these runs, which are read once."""
    by_path = {str(runs / name): study for name, study in opened.items()}
    monkeypatch.setattr("profkit.study.study.open_study", lambda path: by_path.get(str(path)) or open_study(path))

    def run(verb, *words):
        code = invoke([verb, *(str(runs / word) if word in EDITS else str(word) for word in words)])
        return code, capsys.readouterr()

    return run


def of(opened, *names):
    return compared([(opened[name], "") for name in names])


def test_a_step_not_the_record_is_compared(said):
    code, text = said("compare", "gpt", "fast")
    assert code == 0
    assert "gpt 23.3 ms -> fast 11.6 ms per step, faster: 2.00x [1.29, 3.09] of 5 and 5 steps" in text.out.splitlines()
    for words in (
        "steady state, 5 steps",
        "20.5 to 25.6 ms",
        "304 kernels, 2 memcpy, 14 memset",
        "- the host launched too late",
        "verdict",
        "another start may differ by more",
        "caveat: gpt: the steady state has 5 steps: they took 20.5 to 25.6 ms (fix: record more of them)",
    ):
        assert words in text.out
    assert text.out.count("torch's profiler slowed the host's launches") == 1


def test_a_kernel_that_is_gone_is_told_though_the_step_is_not_shorter(opened):
    """The GPU works less for sure; the step, in which the host is late, is not known to be shorter."""
    found = of(opened, "gpt", "less").ladder
    rung = found.rungs[1]
    gone = [one for one in rung.pieces if one.word == "gone"]
    assert len(gone) == 2
    assert all(SOFTMAX in one.name.lower() for one in gone)
    assert rung.verdict == "inconclusive"
    assert rung.busy.verdict == "faster"
    assert rung.budget.launches == found.rungs[0].budget.launches - 2 * 5


@pytest.mark.parametrize(
    ("before", "after", "code", "words"),
    [
        ("gpt", "fast", 0, ""),
        ("fast", "gpt", 1, "Gate failed: slower than the first by more than 5.00%: gpt +100%"),
        ("gpt", "less", 0, "Gate inconclusive: the limit of 5.00% lies inside the interval of less"),
        ("gpt", "cut", 2, "cannot gate: the runs differ in window"),
        ("cut", "cut", 2, "cannot gate: too few steps for an interval"),
    ],
)
def test_the_gate_follows_the_steps(said, before, after, code, words):
    got, text = said("compare", before, after, "--fail-on-regression", "5%")
    assert got == code
    assert words in text.err


def test_json_has_both_sides_and_the_work(said):
    code, text = said("compare", "gpt", "less", "--json", "--fail-on-regression", "5%")
    found = json.loads(text.out)
    assert (code, found["schema"]) == (0, "profkit-compare-steps/1")
    one, other = found["steps"]
    assert one["window"] == {"kind": "steps", "count": 5, "range": ""}
    assert sum(one["slices"].values()) == pytest.approx(one["time"])
    assert one["busy"] + one["idle"] == pytest.approx(one["time"])
    assert (other["total"]["verdict"], other["gpu"]["verdict"]) == ("inconclusive", "faster")
    assert other["total"]["low"] < 1 < other["total"]["high"]
    assert {one["word"] for one in found["work"]} >= {"gone", "same"}
    assert found["gate"] == {"limit": 0.05, "regressions": [], "inconclusive": ["less"]}
    assert len(json.loads(_short(found))["steps"]) == 2  # an agent is told less of the work, and not of the steps


def test_windows_that_are_not_alike_are_told_and_give_no_speed_up(said):
    code, text = said("compare", "gpt", "cut")
    assert code == 0
    assert "s, not comparable\nthe windows differ: no speed-up is given" in text.out
    assert "steady state, 5 steps" in text.out
    assert "the whole record, without repeating steps" in text.out


def test_what_does_not_compare_is_refused(said):
    code, text = said("compare", "gpt", ROOT / "examples/h200/ICVXKH")
    assert (code, "implementations of a sample: cannot be compared with a program" in text.err) == (2, True)
    code, text = said("compare", "gpt", "fast", "-o", "ladder.png")
    assert (code, "write a page, .html" in text.err) == (2, True)


def test_a_range_is_no_program(runs, opened):
    with pytest.raises(ProfkitError, match="compared by their step"):
        compared([(opened["gpt"], ""), (opened["less"], "Optimizer.step#AdamW.step")])


def test_from_python(opened):
    done = api.compare(opened["fast"], opened["gpt"])
    assert [one.label for one in done.slower(0.05)] == ["gpt"]
    assert done.frame["time"].tolist() == pytest.approx([11.6e-3, 23.3e-3], rel=0.01)
    assert "slower: 0.500x [" in repr(done)


def test_a_pull_request_is_judged_by_the_step(runs, opened, tmp_path, capsys):
    """Names of programs pair the runs; kernels of the record are not judged one by one."""
    for name, run in (("before", "fast"), ("after", "gpt"), ("later", "less")):
        folder = shutil.copytree(runs / run, tmp_path / name / "train")
        known = json.loads((folder / "run.json").read_text("utf-8"))
        known["sample"]["id"] = "train"
        (folder / "run.json").write_text(json.dumps(known), "utf-8")
    assert invoke(["gate", str(tmp_path / "before"), str(tmp_path / "after")]) == 1
    out = capsys.readouterr().out
    assert "1 of 1 fail" in out
    assert re.search(
        r"train.step \|.*11\.6.ms \| 23\.3.ms.*\*\*slower\*\*: at least 29\.\d% slower, 5\.0% allowed", out
    )
    assert invoke(["gate", str(tmp_path / "after"), str(tmp_path / "later")]) == 0
    assert "inconclusive: the limit lies inside the interval" in capsys.readouterr().out


def test_the_page_says_what_became_of_the_gate(opened):
    assert "Gate failed: slower than the first by more than 5.00%: gpt +" in page_of(of(opened, "fast", "gpt"), 0.05)


@pytest.mark.slow
@pytest.mark.skipif(browser.find() is None, reason="no chromium here")
def test_the_page_in_a_browser(opened, tmp_path):
    file = tmp_path / "compare.html"
    file.write_text(page_of(of(opened, "gpt", "less"), 0.05), "utf-8")
    with browser.open_browser() as tab:
        tab.goto(file)
        assert tab.problems() == []
        assert tab.js("[...document.querySelectorAll('nav a')].filter((a) => a.hidden).length") == 0
        check_switching(tab)
        tab.js("document.querySelector('[data-lang=zh-CN]').click()")
        assert "尚无定论：" in tab.js("document.querySelector('.lead').innerText")
        assert tab.problems() == []


def check_switching(tab):
    """A step of one run, then of the other at the same place; the flame graph keeps its scale."""
    said = "document.getElementById('line-said').textContent"
    shown, all_in_view = "document.getElementById('line-swap')", "document.querySelector('#flame-graph .f')"
    until = "new Promise((done) => setTimeout(done, 400))"
    before = tab.js(said)
    assert re.match(r"gpt: In view: .* 304 kernels", before)
    assert tab.js(f"{shown}.textContent") == "Shown: gpt. Switch to less (b)"
    tab.js(until)
    assert tab.js(f"{all_in_view}.style.width") == "100%"
    tab.js(f"{shown}.focus()")
    tab.key("b", 66)
    assert tab.js("document.activeElement.id") == "line-swap"
    tab.js(until)
    after = tab.js(said)
    assert after.startswith("less: " + before[5:].split(",")[0])  # as long
    assert int(re.search(r"(\d+) kernels", after)[1]) < 304
    assert 50 < float(tab.js(f"parseFloat({all_in_view}.style.width)")) < 100
    assert "of gpt" in tab.js("document.getElementById('flame-said').textContent")
    tab.js(f"{shown}.click()")
    assert tab.js(said) == before
