"""profkit ledger: terminal, page and data."""

import json

import pytest
from click.testing import CliRunner
from served import CALLS, trace

from profkit.cli.group import cli


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace(*CALLS * 4)), encoding="utf-8")
    return path


def run(*words):
    found = CliRunner().invoke(cli, list(map(str, words)), catch_exceptions=False, standalone_mode=False)
    return found.return_value, found.output


def test_the_terminal_says_where_a_step_goes_and_what_to_do(file):
    code, said = run("ledger", file)
    assert code == 0
    assert "mm [8192, 8192] [8192, 8192] bf16" in said
    assert "fuse with mm" in said
    assert "ceilings: datasheet" in said


def test_data_and_page(file, tmp_path):
    code, said = run("ledger", file, "--json")
    told = json.loads(said)
    assert (code, told["schema"]) == (0, "profkit-ledger/1")
    assert sum(told["accounts"].values()) == pytest.approx(told["step"])
    page = tmp_path / "ledger.html"
    assert run("ledger", file, "-o", page)[0] == 0
    text = page.read_text("utf-8")
    assert "与 mm 融合" in text
    assert "fuse with mm" in text


def test_measured_ceilings_of_a_device_of_this_name_come_first(file, tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path))
    (tmp_path / "ceilings").mkdir()
    row = {"name": "tensor_bf16", "kind": "compute", "peak": 800e12, "source": "measured"}
    kept = {
        "device": {"name": "NVIDIA H100 80GB HBM3"},
        "ceilings": [row],
        "refused": [],
        "created": "2026-01-01T00:00:00Z",
    }
    (tmp_path / "ceilings" / "one.json").write_text(json.dumps(kept))
    told = json.loads(run("ledger", file, "--json")[1])
    assert told["roofline"]["ceilings"][0] == row
    assert told["rows"][0]["bound"] == pytest.approx(2 * 8192**3 / 800e12)
