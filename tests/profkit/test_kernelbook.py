"""KernelBook rows become pairs that run."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profkit.cli.contests.kernelbench import kernelbench_ as command
from profkit.contests.kernelbench.kernelbook import adapt, read_rows
from profkit.contests.sources import rename_names
from profkit.errors import ProfkitError
from profkit.targets import resolve

PYTHON = '''
import torch
from torch import nn

class Helper(nn.Module):
    def forward(self, x):
        return torch.tanh(x)

class Gate(nn.Module):
    """Gate of something."""
    def __init__(self, size, bias=True):
        super(Gate, self).__init__()
        self.Gate = nn.Linear(size, size, bias=bias)  # Gate stays an attribute
        self.helper = Helper()
    def forward(self, x):
        return self.helper(self.Gate(x))

def get_inputs():
    return [torch.rand([4, 4])]

def get_init_inputs():
    return [[], {"size": 4, "bias": False}]
'''
NEW = """
import torch
from torch import nn

class GateNew(nn.Module):
    def __init__(self, size, bias=True):
        super(GateNew, self).__init__()
        self.Gate = nn.Linear(size, size, bias=bias)
    def forward(self, x):
        return torch.tanh(self.Gate(x))
"""


def row(**changes):
    known = {"uuid": 7, "entry_point": "Gate", "python_code": PYTHON, "triton_code": NEW}
    return known | {"licenses": ["MIT"], "stars": 1} | changes


def test_names_change_where_they_stand_for_the_class():
    pair = adapt(row())
    assert "class Model(" in pair.reference
    assert "super(Model, self)" in pair.reference
    assert "self.Gate = nn.Linear" in pair.reference
    assert '"""Gate of something."""' in pair.reference
    assert "# Gate stays" in pair.reference
    assert "class ModelNew(" in pair.candidates["candidate"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"entry_point": ""}, "no field entry_point"),
        ({"triton_code": None}, "no field triton_code"),
        ({"entry_point": "Door"}, "no class Door"),
        ({"python_code": PYTHON.replace("Helper", "Model")}, "the name Model is taken"),
        ({"python_code": PYTHON.replace("get_inputs", "inputs")}, "does not define get_inputs"),
        ({"python_code": PYTHON + "\nf(Gate=1)\n"}, "name of an argument"),
        ({"python_code": "def x(:"}, "not Python"),
    ],
)
def test_rows_that_cannot_be_pairs(changes, message):
    with pytest.raises(ProfkitError, match=message):
        adapt(row(**changes))


@pytest.mark.parametrize("lines", [False, True])
def test_files(tmp_path, lines):
    file = tmp_path / "dataset_permissive.json"
    rows = [row(), row(entry_point="Door")]
    file.write_text("\n".join(map(json.dumps, rows)) if lines else json.dumps(rows))
    assert len(list(read_rows(file))) == 2
    assert command.main(["book", str(file), "-o", str(tmp_path / "pair")], standalone_mode=False) == 0
    sample = resolve(tmp_path / "pair")
    assert sample.reference.name == "reference.py"
    with pytest.raises(ProfkitError, match="not empty"):
        command.main(["book", str(file), "-o", str(tmp_path / "pair")], standalone_mode=False)


@pytest.mark.slow
def test_a_pair_runs(tmp_path, monkeypatch):
    from profkit.api import profile
    from profkit.contests.sources import write_new

    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    folder = write_new(adapt(row()), tmp_path / "Gate")
    run = profile(folder, device="cpu", trials=2, budget=0.1, runs=tmp_path / "runs")
    assert [impl.status for impl in run.manifest.impls] == ["ok", "ok"]


def test_broken_files(tmp_path):
    file = tmp_path / "x.json"
    file.write_text("[1")
    with pytest.raises(ProfkitError, match="not JSON"):
        list(read_rows(file))
    with pytest.raises(ProfkitError):
        list(read_rows(Path(tmp_path / "none.parquet")))


@given(st.lists(st.sampled_from(["A", "A.A", "b.A", "'A'", "A()", "AA"]), min_size=1, max_size=6))
def test_renaming_there_and_back(parts):
    text = "\n".join(parts) + "\n"
    there = rename_names(text, {"A": "Z"})
    assert rename_names(there, {"Z": "A"}) == text
    assert there.count("'A'") == text.count("'A'")
