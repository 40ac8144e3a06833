"""--for agent: short, by its schema, with commands that run, for every recorded run and for failures."""

import json
import re
import shlex
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from candidates import write_sample
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import opened, some_slow
from synthetic_runs import kernel, make_run

from profkit.cli.group import cli, invoke
from profkit.report import explain
from profkit.report.dialects import agent
from profkit.report.layout import cut
from profkit.report.messages import in_each
from profkit.report.names import short_name
from profkit.report.page.run import next_card
from profkit.report.sections import method
from profkit.rundir.manifest import Impl

ROOT = Path(__file__).parents[2]
RUNS = sorted({*ROOT.glob("examples/**/run.json"), *ROOT.glob("tests/data/**/run.json")})
SCHEMA = json.loads((files("profkit.report") / "agent.schema.json").read_text("utf-8"))
pytestmark = pytest.mark.xdist_group("recorded")


def checked(text):
    """The document, which must be by the schema and short."""
    assert len(text) <= agent.LIMIT, len(text)
    found = json.loads(text)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    return found


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("run", some_slow([file.parent.relative_to(ROOT) for file in RUNS], keep=4), ids=str)
def test_recorded_runs(run):
    study = opened(run)
    found = checked(agent.document(study))
    assert found["run"] == run.as_posix()
    if found["waterfall"]:
        parts = sum(one["s"] for one in found["waterfall"]["slices"]) + found["waterfall"]["rest"]
        assert parts == pytest.approx(found["waterfall"]["time"], rel=2e-3)
    for verdict in study.verdicts.values():
        told = next((one for one in found["results"] if one["name"] == verdict.impl), None)
        assert told is None or (told["verdict"], told["wins"]) == (verdict.word, verdict.wins)
    same_first_step(study, found)
    for command in commands(found):
        words = shlex.split(command)
        assert words[0] == "profkit"
        assert words[1] in cli.list_commands(None)


def same_first_step(study, found):
    """What a script reads first is what the full report tells: finding, bound, lever, command."""
    verdict = study.verdicts.get(found["subject"])
    if verdict is not None and verdict.word == "void":
        assert found["next"].startswith("fix the task first: void: ")
        assert found["at_lower_bound"] is None
    if not study.manifest.impls:
        return
    report, mine = explain.text(study, study.findings()), [f for f in study.findings() if f.impl == found["subject"]]
    full = report[report.index(f"\n{explain.headline(study, found['subject'])}\n") :]
    first = next((one for one in mine if one.severity != "collect"), None)
    assert (first is None) == (found["findings"] == [])
    if first is not None:
        told, step = found["findings"][0], explain.runnable(first.next_step, study)
        assert (told["rule"], told["bound"]) == (first.rule, float(f"{first.upper_bound:.4g}"))
        assert said_in(told["title"], first.title)
        assert said_in(told["next"], step)
        assert said_in(told["expect"], first.words()[2])
        assert told["kernel"] is None or told["kernel"] == short_name(first.kernel, 40)
        assert told["evidence"] == [cut(explain.proof(one), 60) for one in first.evidence[:3]]
        if found["at_lower_bound"] is False:
            assert said_in(found["next"], step)
        if not first.ratio < explain.MINOR:
            assert full.split("  1. ")[1].startswith(f"{explain.gain(first)}: {first.title}\n")
            assert full.split("     next: ")[1].startswith(f"{step}\n")
    if found["subject"] and study.best is not None:
        assert said_in(found["next"], next_card(study, found["subject"], study.findings()).answer)
    missing = [one for one in mine if one.severity == "collect"]
    assert bool(missing) == bool(found["not_checked"])
    if missing:
        assert found["not_checked"].endswith(f": {explain.runnable(missing[0].next_step, study)}")
        assert f"    collect: {explain.runnable(missing[0].next_step, study)}" in full
    assert found["measure"] is None or found["measure"].startswith(method.again(study))


def said_in(short, whole):
    """Whether a sentence is the whole one, or its beginning and dots."""
    return short == whole or (short.endswith("...") and whole.startswith(short[:-3]) and len(short) > 30)


def commands(found):
    wanted = [found["measure"], found["gate"], found["more"], *(one["verify"] for one in found["findings"])]
    return [one for one in wanted if one]


def test_the_chinese_one_is_by_the_schema_too():
    text = in_each(lambda: agent.document(opened(Path("examples/h200/ICLSUM"))))[1]
    assert "无效" in text
    checked(text)


def test_the_source_line_is_where_the_kernel_stands():
    found = checked(agent.document(opened(Path("examples/h200/ICJTRP"))))
    file, _, line = found["findings"][0]["source"].partition(":")
    assert found["findings"][0]["kernel"] in (ROOT / "S1/ICJTRP" / file).read_text("utf-8").splitlines()[int(line) - 1]


def test_no_source_line_of_a_file_that_changed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "S1/ICJTRP").mkdir(parents=True)
    (tmp_path / "S1/ICJTRP/example_cudacode.py").write_text("__global__ void transpose_kernel(int) {}\n")
    found = json.loads(agent.document(opened(ROOT / "examples/h200/ICJTRP")))
    assert found["findings"][0]["source"] is None


def test_the_verify_command_runs_on_the_run_itself():
    run = ROOT / "examples/h200/ICJTRP"
    words = shlex.split(checked(agent.document(opened(run)))["findings"][0]["verify"])
    words[2] = str(run)
    done = CliRunner().invoke(cli, words[1:])
    assert ("cuda", "dram-bound") in {(one["impl"], one["rule"]) for one in json.loads(done.output)["findings"]}


@pytest.mark.slow
def test_measured_on_a_cpu_with_a_wrong_candidate(tmp_path, capsys, monkeypatch):
    folder = write_sample(tmp_path, "honest", "mismatch")
    options = ["--device", "cpu", "--budget", "0.05", "--trials", "1", "--runs", str(tmp_path / "runs"), "-q"]
    assert invoke(["profile", str(folder), *options, "--for", "agent"]) == 1
    found = checked(capsys.readouterr().out.strip())
    assert found["subject"] == "honest"
    assert {one["name"]: one["verdict"] for one in found["results"]}["mismatch"] == "wrong"
    assert str(tmp_path / "runs") in found["measure"]
    assert invoke(["explain", str(tmp_path / "runs"), "--for", "agent"]) == 0
    assert checked(capsys.readouterr().out.strip())["results"] == found["results"]


def test_a_wrong_candidate_is_mended_first(tmp_path):
    run = make_run(tmp_path / "r", {"reference": 3e-4})
    impl = Impl(
        "cuda", "candidate", "cuda.py", status="compile-error", reason="no ;", tail="error: expected a ;\n" * 99
    )
    run.manifest.impls.append(impl)
    found = checked(agent.document(run))
    assert found["subject"] == "cuda"
    assert found["next"] == "make it correct first: compile-error: no ;"
    assert found["results"][0]["tail"].endswith("expected a ;\n")


@pytest.mark.parametrize(
    "line",
    [
        "explain nowhere --for agent",
        "explain --for agent",
        "profile nowhere --for agent",
        "profile --frobnicate --for agent",
        "report nowhere --for=agent",
        "report --for agent",
        "explain examples/h200/ICJTRP --json --for agent",
        "profile nowhere --json",
        "compare nowhere nothing --json",
        "timers nowhere --json",
        "list --top all --json",
        "kernelbench wrapper docs/waterfall.png --json",
        "kernelbench models docs/waterfall.png --json",
    ],
)
def test_failures_have_the_same_shape(line, capsys):
    code = invoke(line.split())
    told, words = capsys.readouterr()
    found = checked(told.strip())
    assert found["ok"] is False
    assert found["error"]["exit_code"] == code == 2
    assert found["error"]["message"].split(":")[0] in words


def test_prose_failures_stay_prose(capsys):
    assert invoke(["report", "nowhere", "--for", "pr"]) == 2
    assert capsys.readouterr().out == ""
    assert invoke(["profile", "nowhere", "--", "x", "--for", "agent"]) == 2
    assert capsys.readouterr().out == ""


@settings(max_examples=12)
@given(
    impls=st.lists(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=300), min_size=1, max_size=9, unique=True
    ),
    sample=st.text("abc \"\\'", min_size=1, max_size=200),
)
@pytest.mark.slow
def test_it_fits_whatever_names_there_are(impls, sample, tmp_path_factory):
    names = ["reference", *(f"i{number}{name}" for number, name in enumerate(impls))]
    rows = [kernel(name, f"k{name}(int)", 2e-4, dram_bytes=4e8, flop_fp32=1e9) for name in names]
    folder = tmp_path_factory.mktemp("run") / "r"
    run = make_run(folder, {name: 3e-4 * (1 + n) for n, name in enumerate(names)}, rows, sample="T1")
    run.manifest.sample.id = sample
    run.manifest.sample.path = f"S1/{sample}"
    checked(agent.document(run))


def test_docs_name_every_field():
    page = (ROOT / "docs/agent.md").read_text("utf-8")
    named = set(re.findall(r"`(\w+)`", page))
    assert set(SCHEMA["$defs"]["run"]["required"]) - named <= {"sample", "device", "findings_left_out"}


def test_a_folder_with_a_dash_in_front_is_named_by_its_path(tmp_path, monkeypatch, capsys):
    (tmp_path / "-MINI").mkdir()
    monkeypatch.chdir(tmp_path)
    assert invoke(["profile", "-MINI"]) == 2
    assert "fix: write ./-MINI" in capsys.readouterr().err
