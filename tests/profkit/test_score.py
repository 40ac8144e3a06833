"""Points, similar optimisation, ranking."""

import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.verdicts.statistics import Ratio
from analyzers.verdicts.verdict import Verdict
from profkit.cli.contests.gpucodeforces import score_ as command
from profkit.contests.gpucodeforces import score as scoring
from profkit.contests.gpucodeforces.score import (
    Scored,
    case_of,
    ordered,
    rank,
    score,
    similar,
    to_dict,
)
from profkit.targets.source import Source

ROOT = Path(__file__).resolve().parents[2]


def scored(id_="IAAAAA", contestant="a", accepted=True, base=14, bonus=0, case="", speedup=None):
    return Scored(id_, contestant, accepted, "", {"time": base}, bonus, speedup or Ratio(), case)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (2.0, 2.2, "inconclusive"),
        (2.0 * (1 + 1e-9), 2.2, "improved"),
        (0.5, 1.009, "similar"),
        (0.5, 1.011, "inconclusive"),
        (math.nan, 3.0, "unknown"),
        (3.0, math.nan, "unknown"),
    ],
)
def test_similar_at_its_edges(low, high, verdict):
    """The earlier one lies between 1 and 2, so the ratio lies between low / 2 and high / 1."""
    assert similar(Ratio(1.5, 1.0, 2.0), Ratio(2.0, low, high)) == verdict


@given(st.tuples(*[st.floats(0.1, 10)] * 4))
def test_no_pair_is_an_improvement_both_ways(edges):
    a, b = Ratio(1, *sorted(edges[:2])), Ratio(1, *sorted(edges[2:]))
    assert not (similar(a, b) == "improved" and similar(b, a) == "improved")
    if similar(a, b) == "improved":
        assert similar(b, a) == "similar"


def test_ranking():
    rows = [
        scored("IAAAA1", "few", base=14),
        scored("IAAAA2", "many", base=7),
        scored("IAAAA3", "many", base=7),
        scored("IAAAA4", "bonus", base=14, bonus=1),
        scored("IAAAA5", "none", accepted=False),
        scored("IAAAA0", "early", base=14),
    ]
    assert [(s.contestant, s.place) for s in rank(rows)] == [
        ("many", 1),
        ("bonus", 2),
        ("early", 3),
        ("few", 4),
        ("none", 0),
    ]


def test_twelve_places():
    standings = rank([scored(f"IAAA{n:02}", f"c{n}") for n in range(15)])
    assert [s.place for s in standings] == [*range(1, 13), 0, 0, 0]


def test_points_without_a_run(tmp_path):
    folder = Path(shutil.copytree(ROOT / "S1/ICVXKH", tmp_path / "ICVXKH"))
    bare = score(folder, None)
    assert bare.accepted is None
    assert (bare.points, bare.bonus) == ({"gt": 2, "time": 5, "throughput": 0, "bandwidth": 0}, 0)
    assert bare.why == "not measured"


@pytest.mark.parametrize("line", ["参赛者: 张三", "**作者**：张三", "- Contestant: 张三", "Author: 张三"])
def test_the_contestant_in_a_readme(tmp_path, line):
    folder = Path(shutil.copytree(ROOT / "S1/ICVXKH", tmp_path / "ICVXKH"))
    (folder / "readme.md").write_text(f"# Title\n\n{line}\n", "utf-8")
    assert score(folder, None).contestant == "张三"


@pytest.mark.slow
def test_a_run_on_a_cpu_is_listed_without_points(tmp_path, monkeypatch, capsys):
    from candidates import REFERENCE, candidate

    from profkit.api import profile

    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "S1" / "IABCDE"
    folder.mkdir(parents=True)
    for name in ("run_code.py", "prompt.txt", "readme.md"):
        shutil.copy(ROOT / "S1/ICVXKH" / name, folder)
    (folder / "example_torchcode.py").write_text(REFERENCE)
    (folder / "example_cudacode.py").write_text(candidate("honest"))
    (folder / "example_cppcode.py").write_text(candidate("honest"))
    profile(folder, device="cpu", budget=0.1, trials=1, runs=tmp_path / "runs")
    arguments = [str(tmp_path / "S1"), "--runs", str(tmp_path / "runs"), "--json"]
    assert command.main(arguments, standalone_mode=False) == 0
    document = json.loads(capsys.readouterr().out)
    (row,) = document["samples"]
    assert (row["accepted"], row["why"]) == (None, "measured on a CPU: the contest times CUDA")
    assert (row["base"], document["ranking"][0]["accepted"]) == (7, 0)
    assert command.main(arguments[:-1], standalone_mode=False) == 0
    assert "7/14" in capsys.readouterr().out


def measured(rows, impls, verdicts=(), device="cuda"):
    """A run as far as scoring asks for it: rows of figures, (name, status) of candidates, their verdicts."""
    candidates = [SimpleNamespace(name=name, status=status, ok=status == "ok") for name, status in impls]
    manifest = SimpleNamespace(candidates=candidates, device={"kind": device})
    analysis = SimpleNamespace(rows=rows)
    named = {one.impl: one for one in verdicts}
    return SimpleNamespace(manifest=manifest, analysis=analysis, verdicts=named, path=Path("runs/R1"))


def test_the_best_speedup_that_counts():
    given = {"slower": 2.0, "faster": 3.0, "void": 9.0, "same": math.nan}
    verdicts = [Verdict(word, word, "", "", value, value - 0.1, value + 0.1) for word, value in given.items()]
    assert scoring._speedup(measured({}, [], verdicts)) == Ratio(3.0, 2.9, 3.1)
    assert math.isnan(scoring._speedup(measured({}, [])).value)
    assert math.isnan(scoring._speedup(measured({}, [], verdicts, device="cpu")).value)


@pytest.mark.parametrize(
    ("impls", "accepted", "why"),
    [
        ([("a", "ok"), ("b", "ok")], True, "run R1"),
        ([("a", "ok"), ("b", "mismatch")], False, "b: mismatch"),
        ([("a", "ok"), ("b", "skipped")], True, "run R1"),
        ([("b", "skipped")], None, "no candidate ran"),
    ],
)
def test_what_a_run_says_of_a_sample(impls, accepted, why):
    run = measured({}, impls)
    assert scoring._accepted([], run) == (accepted, why)
    assert scoring._accepted(["no readme"], run) == (False, "form: no readme")


def test_a_run_brings_points_and_the_bonus_takes_a_prompt_and_a_time(tmp_path):
    folder = Path(shutil.copytree(ROOT / "S1/ICVXKH", tmp_path / "ICVXKH"))
    run = measured({"a": {"time": 1.0, "compulsory_bytes": 1.0}}, [("a", "ok")])
    seen = score(folder, run)
    assert (seen.points, seen.bonus, seen.base) == ({"gt": 2, "time": 5, "throughput": 4, "bandwidth": 3}, 1, 14)
    assert (seen.id, seen.accepted, seen.why) == ("ICVXKH", True, "run R1")
    (folder / "prompt.txt").unlink()
    assert score(folder, run).bonus == 0
    (folder / "run_code.py").write_text("print('吞吐量')", "utf-8")
    assert score(folder, None).points == {"gt": 2, "time": 0, "throughput": 4, "bandwidth": 0}
    (folder / "readme.md").write_text("nothing", "utf-8")
    assert score(folder, None).contestant == scoring.UNNAMED


def test_a_case_is_its_code_not_its_words():
    def case(text):
        return case_of(Source("ref.py", text))

    code = 'class Model:\n    """Says it."""\n    K = 3\n    def forward(self, x):\n        return x * self.K\n'
    assert case(code) == case("import torch\n# a comment\n" + code.replace('"""Says it."""', '"""Otherwise."""'))
    assert case(code) == case(code + "\ndef get_work():\n    return {}\n")
    assert case(code) != case(code.replace("K = 3", "K = 4"))
    assert case(code) != case(code + "\ndef get_inputs():\n    return []\n")
    assert case('class A:\n    """Only words."""\n') == case("class A:\n    pass\n")


def test_the_newest_of_a_case_is_the_one_to_beat_and_samples_without_one_are_apart():
    fast, slow = Ratio(2.0, 1.99, 2.01), Ratio(1.0, 0.99, 1.01)
    rows = ordered([scored("A1", speedup=fast), scored("A2", speedup=slow), scored("A3", case="c", speedup=slow)])
    assert [(row.accepted, row.similar_to) for row in rows] == [(True, "")] * 3
    rows = ordered([scored(f"A{n}", case="c", speedup=one) for n, one in enumerate((slow, fast, slow))])
    assert [(row.accepted, row.similar_to, row.similar) for row in rows] == [
        (True, "", ""),
        (True, "A0", "improved"),
        (False, "A1", "similar"),
    ]
    assert rows[2].why == "相近优化: not faster than A1"


def test_standings_name_their_samples_and_json_has_no_nan():
    (one,) = rank([scored("A2", "a", base=7, bonus=1), scored("A1", "a", base=5), scored("A3", "a", accepted=None)])
    assert (one.accepted, one.base, one.bonus, one.samples, one.place) == (2, 12, 1, ("A1", "A2"), 1)
    assert to_dict(scored(speedup=Ratio(1.5, 1.4)))["speedup"] == {"value": 1.5, "low": 1.4, "high": None}
    assert to_dict(scored(base=7))["base"] == 7
