"""`profkit kernelbench models` against a real server on loopback."""

import json
import sys

import pytest
from candidates import task
from chat_server import serving

from profkit.cli.contests.kernelbench import kernelbench_ as command
from profkit.contests.kernelbench.files import read_results
from profkit.contests.kernelbench.models import Endpoint, Model, ask, client_for, read_config
from profkit.contests.prompt import first_code
from profkit.errors import ProfkitError

PROBLEM = task("torch.relu(x) * 2", "torch.randn(32, 32)")
CODE = PROBLEM[: PROBLEM.index("def get_inputs")].replace("Model(", "ModelNew(").strip()
ANSWER = f"Here it is:\n\n```python\n{CODE}\n```\n\nAnd a usage example:\n\n```python\nModelNew()\n```\n"


@pytest.fixture(scope="module", autouse=True)
def client():
    """The library is imported where these tests run, and nowhere else."""
    return pytest.importorskip("openai")


@pytest.fixture
def server():
    with serving(ANSWER) as running:
        yield running


def endpoint(server, **options):
    return Endpoint(**{"base_url": server.url, "retries": 2, "timeout": 10.0} | options)


def put_question(server, steps, **options):
    model = Model(steps, request={"temperature": 0.5, "top_k": 3})
    return ask(client_for(endpoint(server, **options)), model, "the prompt")


@pytest.mark.parametrize(
    ("steps", "asked", "error"),
    [
        ("ok", 1, ""),
        ("429+ok", 2, ""),
        ("cut+ok", 2, ""),
        ("empty", 1, "an empty answer"),
        ("cut", 3, "closed connection"),
        ("500", 3, "HTTP 500"),
        ("401", 1, "HTTP 401"),
        ("404", 1, "HTTP 404"),
        ("garbage", 1, "no chat completion"),
    ],
)
def test_servers(server, steps, asked, error):
    answer = put_question(server, steps)
    assert error in answer.error, answer
    assert server.asked[steps] == asked
    if not error:
        assert (answer.text, answer.error) == (ANSWER, "")
        assert (answer.prompt_tokens, answer.completion_tokens) == (100, len(ANSWER) // 4)


def test_nobody_there():
    with serving("") as gone:
        pass
    assert "refused" in put_question(gone, "ok", retries=1).error


def test_what_is_asked(server):
    put_question(server, "ok")
    path, headers, body = server.requests[0]
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == "Bearer none"
    assert (body["temperature"], body["top_k"]) == (0.5, 3)
    assert body["messages"] == [{"role": "user", "content": "the prompt"}]


def test_the_key_comes_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("A_KEY", "secret-7")
    put_question(server, "ok", api_key_env="A_KEY")
    assert server.requests[0][1]["authorization"] == "Bearer secret-7"
    monkeypatch.delenv("A_KEY")
    far = Endpoint(base_url="https://api.example.com/v1", api_key_env="A_KEY")
    with pytest.raises(ProfkitError, match="A_KEY is empty"):
        client_for(far)


def test_without_the_package_there_is_a_hint(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ProfkitError) as caught:
        client_for(endpoint(server))
    assert "profkit[llm]" in caught.value.fix


@pytest.mark.parametrize(
    ("text", "code", "why"),
    [
        (ANSWER, CODE + "\n", ""),
        ("```\na = 1\n```", "a = 1\n", ""),
        ("no code", "", "no fenced block"),
        ("```python\na = 1", "", "never closed"),
        ("```python\n```", "", "is empty"),
    ],
)
def test_the_first_block_is_the_code(text, code, why):
    found, reason = first_code(text)
    assert found == code
    assert why in reason
    assert bool(reason) == bool(why)


def write_config(tmp_path, server, models, **task):
    (tmp_path / "KernelBench/level1").mkdir(parents=True)
    for number in (1, 2):
        (tmp_path / f"KernelBench/level1/{number}_Relu.py").write_text(PROBLEM)
    lines = [f'[endpoint]\nbase_url = "{server.url}"\nretries = 1\nconcurrency = 3\n\n[task]\nproblems = "KernelBench"']
    lines += [f"{key} = {value!r}" for key, value in task.items()]
    lines += [f'\n[[model]]\nid = "{model}"\nname = "{name}"' for model, name in models]
    file = tmp_path / "config.toml"
    file.write_text("\n".join(lines))
    return file


@pytest.mark.slow
def test_from_config_to_table(tmp_path, server, monkeypatch, capsys):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "secret-9")
    file = write_config(tmp_path, server, [("429+ok", "Good"), ("empty", "Silent")], problem_ids=[1])
    options = ["--device", "cpu", "--trials", "1", "--budget", "0.1", "--runs", str(tmp_path / "pr"), "-q"]
    assert command.main(["models", str(file), *options, "--json"], standalone_mode=False) == 0
    good, silent = json.loads(capsys.readouterr().out)["models"]
    assert (good["asked"], good["answered"], good["compiled"], good["correct"]) == (1, 1, 1, 1)
    assert good["geo_mean_speedup"] > 0
    assert (silent["answered"], silent["correct"], silent["fast_1"]) == (0, 0, 0.0)
    assert any("empty" in why for why in silent["failures"])
    folder = tmp_path / "runs/models/429_ok"
    assert (folder / "level_1_problem_1_sample_0_kernel.py").read_text() == CODE + "\n"
    assert "class Model(" in (folder / "level_1_problem_1_sample_0_prompt.txt").read_text()
    kept = json.loads((folder / "level_1_problem_1_sample_0_answer.json").read_text())
    assert kept["text"] == ANSWER
    assert read_results(folder / "eval_results.json")["1"][0]["correctness"] is True
    written = "".join(p.read_text("utf-8", "replace") for p in (tmp_path / "runs").rglob("*") if p.is_file())
    assert "secret-9" not in written
    asked = server.asked["429+ok"]
    assert command.main(["models", str(file), *options], standalone_mode=False) == 0
    assert server.asked["429+ok"] == asked, "what is answered is not asked again"
    assert "Good" in capsys.readouterr().out


def test_several_at_a_time_but_not_more(tmp_path, server):
    file = write_config(tmp_path, server, [("ok", "A")], samples=6)
    assert command.main(["models", str(file), "--no-eval", "-q"], standalone_mode=False) == 0
    assert server.asked["ok"] == 12
    assert server.most_busy <= 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "missing required field `endpoint`"),
        ("x = ", "config.toml"),
        ('[endpoint]\nbase_url = "u"\ntypo = 1\n[task]\nproblems = "p"\n[[model]]\nid = "m"', "typo"),
        (
            '[endpoint]\nbase_url = "u"\n[task]\nproblems = "p"\n[[model]]\nid = "a/b"\n[[model]]\nid = "a:b"',
            "share the folder",
        ),
        ('model = []\n[endpoint]\nbase_url = "u"\n[task]\nproblems = "p"', "no \\[\\[model\\]\\]"),
    ],
)
def test_a_config_that_is_wrong_is_named(tmp_path, text, message):
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(ProfkitError, match=message):
        read_config(file)
