"""Gradients where a task asks for them: a right candidate, wrong ones, what is told of the passes."""

import csv
import json

import pytest
import torch

from profkit.api import profile
from profkit.cli.group import invoke
from profkit.guest.backward import Gradients
from profkit.judge.precision.bits import Precision
from profkit.judge.timed import Slopes
from profkit.report.derived import document
from profkit.report.messages import judged, speaking
from profkit.report.sections.tables import passes_table
from profkit.report.writers.terminal import summary

REFERENCE = """
import torch

backward = {word}

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(48))
    def forward(self, x, count):
        return torch.tanh(x) * self.scale + count

def get_inputs():
    return [torch.randn(64, 48), 3]

def get_init_inputs():
    return []
"""
HEAD = """
import torch

class Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y
    @staticmethod
    def backward(ctx, given):
        (y,) = ctx.saved_tensors
        return given * (1 - y{power})

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.zeros(48))
    def forward(self, x, count):
        return {body}
"""
CANDIDATES = {
    "right": HEAD.format(power=" * y", body="Tanh.apply(x) * self.scale + count"),
    "wrong": HEAD.format(power="", body="Tanh.apply(x) * self.scale + count"),
    "detached": HEAD.format(power=" * y", body="Tanh.apply(x.detach()) * self.scale + count"),
    "lost": HEAD.format(power=" * y", body="Tanh.apply(x.detach()) * self.scale.detach() + count"),
    "broken": HEAD.format(power=" * z", body="Tanh.apply(x) * self.scale + count"),
}
REASONS = {
    "right": ("ok", ""),
    "wrong": ("wrong-gradient", "the gradient of input[0]: "),
    "detached": ("wrong-gradient", "no gradient reaches input[0]: its output is detached from it"),
    "lost": ("wrong-gradient", "no gradient reaches input[0]: its output is detached from it"),
    "broken": ("wrong-gradient", "NameError: name 'z' is not defined"),
}
QUICK = {"device": "cpu", "counters": "off", "budget": 0.05, "trials": 1, "processes": 1}


def sample(root, *names, word="False"):
    folder = root / "IBACK"
    folder.mkdir()
    (folder / "reference.py").write_text(REFERENCE.format(word=word))
    for name in names:
        (folder / f"{name}.py").write_text(CANDIDATES[name])
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("backward")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROFKIT_CACHE", str(root / "cache"))
        return profile(sample(root, *CANDIDATES), runs=root / "runs", backward=True, **QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("name", CANDIDATES)
def test_gradients_are_compared(run, name):
    impl = next(one for one in run.manifest.candidates if one.name == name)
    status, reason = REASONS[name]
    assert impl.status == status
    assert impl.reason.startswith(reason)
    assert run.verdicts[name].word == ("wrong" if reason else run.verdicts["right"].word)
    assert not [caveat for caveat in run.manifest.caveats if caveat.code == "no-gradients"]


@pytest.mark.slow
def test_the_passes_are_timed_apart(run):
    assert [name for name, _ in run.passes] == ["forward", "backward", "both"]
    assert [one.name for one in run.manifest.passes] == ["backward", "both"]
    assert run.manifest.passes[0].wanted == ["input[0]", "scale"]
    for one in run.manifest.passes:
        with (run.path / one.file).open() as stream:
            assert {row["impl"] for row in csv.DictReader(stream)} == {"reference", "right"}
    times = [one.times["right"] for _, one in run.passes]
    assert times[2] > max(times[0], times[1]) * 0.5
    told = document(run)["passes"]
    assert set(told["backward"]["times"]) == {"reference", "right"}
    assert told["backward"]["speedups"]["right"]["value"] > 0
    assert told["both"]["by"] == ["input[0]", "scale"]
    json.dumps(told, allow_nan=False)


@pytest.mark.slow
def test_they_are_told_to_people(run):
    with speaking("zh"):
        table, said = passes_table(run), judged(run.verdicts["wrong"])
    assert [row[0] for row in table.rows] == ["前向", "反向", "前向与反向"]
    assert table.head == ["阶段", "参考实现", "right", "加速比"]
    assert "forward and backward" in summary(run)
    assert passes_table(run).rows[1][0] == "backward"
    assert said.startswith("wrong-gradient：input[0] 的梯度：")


@pytest.mark.slow
@pytest.mark.parametrize(("word", "status"), [("False", "ok"), ("True", "wrong-gradient")])
def test_a_sample_asks_by_a_word_and_else_nothing_is_compared(tmp_path, monkeypatch, word, status):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    folder = sample(tmp_path, "right", "detached", word=word)
    run = profile(folder, runs=tmp_path / "runs", **QUICK)
    assert {one.name: one.status for one in run.manifest.candidates} == {"right": "ok", "detached": status}
    assert bool(run.passes) == ("passes" in document(run)) == (word == "True")


@pytest.mark.slow
def test_a_reference_without_gradients_is_a_caveat(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    folder = sample(tmp_path, "right")
    reference = (folder / "reference.py").read_text().replace("torch.tanh(x)", "torch.tanh(x.detach())")
    (folder / "reference.py").write_text(reference.replace("self.scale +", "self.scale.detach() +"))
    code = invoke(["profile", str(folder), "--events", "-q", "--backward", "--device", "cpu", "--budget", "0.05"])
    assert code == 0
    out = capsys.readouterr().out
    assert "gradients were neither compared nor timed: ValueError: no gradient reaches an input" in out


class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([2.0, 3.0]))

    def forward(self, x, unused):
        return (x[0] * self.weight, x[1].round() * 0, torch.arange(2))


def test_what_has_no_gradient_is_left_out_and_what_is_dead_told():
    arguments = [[torch.ones(2), torch.ones(2)], torch.ones(3)]
    slopes = Slopes(Twice(), arguments, Precision())
    assert slopes.wanted == ("input[0][0]", "input[0][1]", "weight")
    assert slopes.dead == ["input[0][1]"]
    given = [arguments, [torch.tensor([1.0, 10.0]), torch.ones(2)]]
    found = slopes.answer(given, slopes.wanted)
    assert [one.tolist() for one in found] == [[2.0, 30.0], [0.0, 0.0], [1.0, 10.0]]
    assert slopes.judged(found, given, slopes.wanted).status == "ok"
    assert slopes.judged(found[:2], given, slopes.wanted).what == "its process gave another number of gradients"
    assert Gradients(Twice(), ["input[1]"])(*given) == [None]
    assert not any(leaf.requires_grad for leaf in arguments[0])
