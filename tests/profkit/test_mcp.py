"""The server of the Model Context Protocol, asked by the SDK's own client; and the skill file."""

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest
from candidates import write_sample
from click.testing import CliRunner

from profkit.bridges import mcp as bridge
from profkit.cli.group import cli
from profkit.errors import CannotProfileError

ROOT = Path(__file__).parents[2]


def ask(roots, *calls, seconds=200.0):
    """The answers of the server to (tool, arguments), in order, and the tools it lists."""
    mcp = pytest.importorskip("mcp")

    async def talk():
        async with mcp.Client(bridge.server(roots, seconds)) as client:
            listed = [tool.name for tool in (await client.list_tools()).tools]
            answers = [await client.call_tool(name, arguments) for name, arguments in calls]
            return listed, [answer.content[0].text for answer in answers]

    return asyncio.run(talk())


def test_a_client_sees_few_tools_and_gets_documents():
    run = "examples/h200/ICJTRP"
    listed, answers = ask(
        [ROOT],
        ("explain", {"run": run}),
        ("compare", {"before": run, "after": run}),
        ("ceilings", {"run": run}),
        ("explain", {"run": "nowhere"}),
        ("lines", {"run": run}),
    )
    assert listed == ["profile", "explain", "compare", "lines", "ceilings"]
    found = [json.loads(answer) for answer in answers]
    assert found[0]["subject"] == "cuda"
    assert len(answers[0]) <= 3000
    assert [step["impl"] for step in found[1]["steps"]] == ["cuda", "cuda"]
    assert {"dram", "fp32"} <= {one["name"] for one in found[2]["ceilings"]}
    assert (found[3]["ok"], found[4]["ok"]) == (False, False)
    assert "no source lines" in found[4]["error"]["message"]


def test_lines_where_they_were_recorded(tmp_path):
    with_lines(tmp_path)
    _, [answer, whole] = ask([tmp_path], ("lines", {"run": ".", "top": 2}), ("explain", {"run": "."}))
    lines = json.loads(answer)["lines"]
    assert [line["impl"] for line in lines] == ["cuda", "cuda", "ori", "ori"]
    assert lines[0]["share"] >= lines[1]["share"] > 0
    place = f"{Path(lines[0]['file']).name}:{lines[0]['number']}"
    assert json.loads(whole)["findings"][0]["source"] == place


def with_lines(folder):
    """A recorded run with a source page, of another kernel, as that of its own."""
    for name in ("run.json", "ncu.csv", "timings.csv", "cupti.csv"):
        (folder / name).write_bytes((ROOT / "examples/h200/ICJTRP" / name).read_bytes())
    page = (ROOT / "tests/data/ncu/source_cuda.csv").read_text("utf-8")
    own, ours = (
        "planted(const float *, const int *, float *, int)",
        "transpose_kernel(const float *, float *, int, int)",
    )
    (folder / "source.csv").write_text(page.replace(own, ours), "utf-8")
    manifest = json.loads((folder / "run.json").read_text("utf-8"))
    manifest["captures"] = [{"file": "source.csv", "tool": "ncu", "role": "lines"}]
    (folder / "run.json").write_text(json.dumps(manifest), "utf-8")


def test_paths_stay_inside_the_roots(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(ROOT / "examples/h200/ICJTRP")
    paths = ("../..", str(ROOT / "examples/h200/ICJTRP"), "link", "/etc")
    _, answers = ask([inside], *(("explain", {"run": path}) for path in paths), ("profile", {"path": "../.."}))
    for answer in answers:
        assert "outside the server's roots" in json.loads(answer)["error"]["message"]
    other = bridge.Tools([inside, ROOT], 10)
    assert json.loads(other.explain(str(ROOT / "examples/h200/ICJTRP")))["ok"]


@pytest.mark.slow
@pytest.mark.usefixtures("lent_to_others")
def test_profile_measures_only_with_options_of_its_own(tmp_path):
    folder = write_sample(tmp_path, "honest")
    options = "--device cpu --budget 0.05 --trials 1"
    _, answers = ask(
        [tmp_path],
        ("profile", {"path": folder.name, "options": options}),
        ("profile", {"path": folder.name, "options": "--runs=/tmp"}),
    )
    found = json.loads(answers[0])
    assert found["ok"], found
    assert (tmp_path / "profkit-runs" / folder.name).is_dir()
    assert "--runs=/tmp is not an option of this tool" in json.loads(answers[1])["error"]["message"]


def test_a_measurement_that_takes_too_long_ends(tmp_path):
    folder = write_sample(tmp_path, "hang")
    _, [answer] = ask([tmp_path], ("profile", {"path": folder.name, "options": "--device cpu"}), seconds=1.0)
    assert json.loads(answer)["error"] == {
        "message": "not done after 1 s",
        "fix": "measure fewer candidates, lower --budget, or raise --seconds",
        "exit_code": 3,
    }


def test_answers_are_short():
    text = bridge._short({"steps": [{"n": "x" * 100}] * 1000, "ok": True})
    assert len(text) <= bridge.LIMIT
    assert json.loads(text)["left_out"] > 0


def test_without_the_sdk_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    with pytest.raises(CannotProfileError, match="not installed") as caught:
        bridge.server([ROOT])
    assert "profkit[mcp]" in caught.value.fix


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_skill_names_commands_that_there_are(lang):
    done = CliRunner().invoke(cli, ["skill", "--lang", lang])
    assert done.exit_code == 0
    assert re.match(r"---\nname: profkit\ndescription: .+\n---\n", done.output)
    verbs = set(re.findall(r"`profkit ([a-z]+)", done.output))
    assert verbs <= set(cli.list_commands(None))
    fields = set(re.findall(r"`([a-z_]+)`", done.output)) - {"get_inputs", "get_init_inputs"}
    schema = (ROOT / "profkit/report/agent.schema.json").read_text("utf-8")
    assert all(f'"{name}"' in schema for name in fields)
