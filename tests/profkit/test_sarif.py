"""SARIF of runs and gates: the shape that code scanning asks for, the line a finding is about, sameness between runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from recorded import opened
from synthetic_runs import PLANTED, planted_run
from test_gate import H200, ROOT, runs

from analyzers.rules.rule import RULES
from profkit.campaign import gate
from profkit.cli.group import invoke
from profkit.report.dialects import agent, sarif
from profkit.report.places import Place, place_of
from profkit.report.writers.sarif import NOTE, Notice, Result, Rule, document
from profkit.rundir.files import sha256
from profkit.rundir.manifest import FileRef

DATA = ROOT / "tests/data/ncu"
pytestmark = pytest.mark.xdist_group("recorded")


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def checked(text):
    """The one run of a log, by what SARIF 2.1.0 requires and by what GitHub asks of every result beyond that."""
    log = json.loads(text)
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    assert log["$schema"].endswith("sarif-2.1.0.json")
    run = log["runs"][0]
    driver = run["tool"]["driver"]
    assert driver["name"] == "profkit"
    assert re.fullmatch(r"\d+\.\d+\.\d+", driver["semanticVersion"])
    names = [one["id"] for one in driver["rules"]]
    assert len(set(names)) == len(names)
    assert all(one[key]["text"] for one in driver["rules"] for key in ("shortDescription", "help"))
    assert re.fullmatch(r"profkit/\w+/", run["automationDetails"]["id"])
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is True
    messages = [one["message"]["text"] for one in [*run["results"], *invocation["toolExecutionNotifications"]]]
    # Brackets and braces begin a link or a placeholder there.
    assert all(said and not re.search(r"[][{}]", said) for said in messages)
    for one in run["results"]:
        assert names[one["ruleIndex"]] == one["ruleId"]
        assert one["level"] in ("error", "warning", "note")
        (place,) = one["locations"]
        where = place["physicalLocation"]
        assert where["region"]["startLine"] >= 1
        uri = where["artifactLocation"]["uri"]
        assert (where["artifactLocation"].get("uriBaseId") == "%SRCROOT%") != uri.startswith("file:///")
        assert " " not in uri
        assert "\\" not in uri
        assert place["logicalLocations"][0]["fullyQualifiedName"]
    prints = [one["partialFingerprints"]["primaryLocationLineHash"] for one in run["results"]]
    assert len(set(prints)) == len(prints)
    return run


def uri(result):
    return result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("h200/*/run.json")), ids=lambda file: file.parent.name)
def test_a_recorded_run(file):
    study = opened(file.parent)
    results = list(sarif.results_of(study))
    run = checked(document("report", results, sarif.notices_of(study)))
    told = {one["ruleId"] for one in run["results"]}
    assert told <= {*RULES, *sarif.VERDICTS}
    for name, verdict in study.verdicts.items():
        if verdict.word in sarif.VERDICTS:
            assert any(
                one["ruleId"] == verdict.word and f" {name}: " in one["message"]["text"] for one in run["results"]
            )
    for one in run["results"]:
        assert (ROOT / uri(one)).is_file()


def test_report_writes_several_runs_as_one_log(tmp_path, capsys):
    assert invoke(["report", "examples/h200/ICJTRP", "examples/h200/ICLSUM", "-o", str(tmp_path / "a.sarif")]) == 0
    run = checked((tmp_path / "a.sarif").read_text("utf-8"))
    assert {one["message"]["text"].split()[0] for one in run["results"]} == {"ICJTRP", "ICLSUM"}
    assert {"void": "warning"}.items() <= {one["ruleId"]: one["level"] for one in run["results"]}.items()
    assert invoke(["report", "examples/h200/ICJTRP", "--for", "sarif", "--lang", "zh"]) == 0
    said = checked(capsys.readouterr().out)["results"][0]["message"]["text"]
    assert "下一步：" in said


def test_a_regression_is_an_error_in_the_file_that_brought_it(tmp_path, capsys):
    before, after = runs(tmp_path / "before", "ICJTRP"), runs(tmp_path / "after", "ICJTRP", slower=1.2)
    out = tmp_path / "out"
    assert invoke(["gate", str(before), str(after), "-o", str(out), "--sarif", str(tmp_path / "g.sarif")]) == 1
    assert (out / "profkit.sarif").read_bytes() == (tmp_path / "g.sarif").read_bytes()
    run = checked((out / "profkit.sarif").read_text("utf-8"))
    (error,) = [one for one in run["results"] if one["level"] == "error"]
    assert (error["ruleId"], uri(error)) == ("regression", "S1/ICJTRP/example_cudacode.py")
    assert "% slower, 5.0% allowed (161 us -> 193 us)" in error["message"]["text"]
    assert error["properties"]["seconds"] == pytest.approx(1.2 * error["properties"]["seconds_before"], rel=0.01)
    # The findings of the run after the change stand in it, known again by the same fingerprints.
    again = checked(gate.log(*gate.judge(before, before, 0.05)))
    prints = [{one["partialFingerprints"]["primaryLocationLineHash"] for one in r["results"]} for r in (run, again)]
    assert len(prints[0]) == len(prints[1]) + 1
    assert prints[1] < prints[0]


def test_compare_writes_it_too(tmp_path):
    line = ["compare", str(H200 / "ICJTRP:cuda"), str(H200 / "ICJTRP:ori"), "--sarif", str(tmp_path / "c.sarif")]
    assert invoke([*line, "--fail-on-regression", "5%"]) == 1
    run = checked((tmp_path / "c.sarif").read_text("utf-8"))
    assert [uri(one) for one in run["results"] if one["level"] == "error"] == ["S1/ICJTRP/cudacode_ori.py"]


def test_what_is_wrong_is_an_error(tmp_path):
    impls = json.loads((H200 / "ICJTRP/run.json").read_text("utf-8"))["impls"]
    wrong = [one | {"status": "mismatch", "reason": "[all] of {it}"} if one["name"] == "cuda" else one for one in impls]
    folder = runs(tmp_path / "after", "ICJTRP", impls=wrong)
    run = checked(sarif.DIALECT.document([str(folder / "ICJTRP")], "en").text)
    (error,) = [one for one in run["results"] if one["level"] == "error"]
    assert error["message"]["text"] == "ICJTRP cuda: mismatch: (all) of (it)"


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A run whose kernel's lines were recorded; its CUDA stands in a string of the sample's file, 29 lines down."""
    monkeypatch.chdir(tmp_path)
    text = dict(sorted({one.number: one.text for one in _planted_lines(tmp_path / "first")}.items()))
    body = [text.get(number, f"// line {number}") for number in range(1, max(text) + 1)]
    sample = tmp_path / "S 1"
    sample.mkdir()
    (sample / "cuda.py").write_text("\n".join(["# python"] * 28 + ['source = """', *body, '"""', ""]), "utf-8")
    study = planted_run(tmp_path / "second")
    study.manifest.sample.path = "S 1"
    study.manifest.sample.files["cuda"] = FileRef("cuda.py", sha256(sample / "cuda.py"))
    return study


def _planted_lines(folder):
    return [one for one in planted_run(folder).lines if one.file.endswith("cuda.cu")]


def test_the_line_that_is_waited_for_is_told_in_the_files_own_numbers(planted):
    hot = planted.lines[0]
    assert (hot.number, hot.text) == (12, "float c = x[index[i]];")
    assert place_of(planted, "cuda", PLANTED) == Place("S 1/cuda.py", 29 + 12, "float c = x[index[i]];")
    log = checked(document("report", list(sarif.results_of(planted)), []))
    found = next(one for one in log["results"] if "planted" in one["message"]["text"])
    where = found["locations"][0]["physicalLocation"]
    assert where["artifactLocation"] == {"uri": "S%201/cuda.py", "uriBaseId": "%SRCROOT%"}
    assert where["region"] == {"startLine": 41, "snippet": {"text": "float c = x[index[i]];"}}
    told = json.loads(agent.document(planted))["findings"]
    assert "cuda.py:41" in {one["source"] for one in told if one["kernel"]}


def test_of_a_file_that_changed_the_compiled_line_is_told(planted):
    Path("S 1/cuda.py").write_text("another\n", "utf-8")
    assert place_of(planted, "cuda", PLANTED) == Place("planted_lines/cuda.cu", 12, "float c = x[index[i]];")
    assert place_of(planted, "cuda", "other()") == Place("S 1/cuda.py")


def test_places_of_programs_and_of_other_systems(tmp_path):
    study = opened(ROOT / "tests/data/triggers/slow_host")
    results = list(sarif.results_of(study))
    assert place_of(study, "anything") is None
    checked(document("report", results, []))
    rule = Rule("r", "about", "help")
    paths = {
        "a b/c.py": "a%20b/c.py",
        f"{ROOT}/S1/x.cu": "S1/x.cu",
        "/elsewhere/x.cu": "file:///elsewhere/x.cu",
        "C:\\code\\x.cu": "file:///C:/code/x.cu",
    }
    for path, wanted in paths.items():
        one = Result(rule, NOTE, "says", ("s", "i"), Place(path, 3), {"known": 1.0, "unknown": float("nan")})
        (found,) = checked(document("report", [one], [Notice("n")]))["results"]
        assert uri(found) == wanted
        assert found["properties"] == {"known": 1.0}


def test_no_name_is_taken_twice():
    assert not {*RULES} & {*sarif.VERDICTS, *(one.name for one in gate.RULES.values())}
