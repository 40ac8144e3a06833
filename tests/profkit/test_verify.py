"""A change tried in a program, beside what the ledger predicted."""

import json
import sys

import pytest
from click.testing import CliRunner
from served import CALLS, trace

from profkit.cli.group import cli
from profkit.errors import ProfkitError, ProgramFailedError
from profkit.record import verify

PROGRAM = 'took = 100\nprint("step", took, "ms")\nprint("loss 0.5")\n'
PATCH = '--- a/prog.py\n+++ b/prog.py\n@@ -1,3 +1,3 @@\n-took = 100\n+took = {took}\n print("step", took, "ms")\n-print("loss 0.5")\n+print("{said}")\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.json").write_text(json.dumps(trace(*CALLS * 4)))
    (tmp_path / "prog.py").write_text(PROGRAM)
    return tmp_path


def run(*words):
    words = ["verify", "trace.json", "--json", "--pairs", "3", "--seconds", "step (.*) ms", *words]
    found = CliRunner().invoke(
        cli, [*words, "--", sys.executable, "prog.py"], catch_exceptions=False, standalone_mode=False
    )
    return found.return_value, json.loads(found.stdout)


@pytest.mark.parametrize(
    ("took", "said", "held", "agrees"),
    [
        (94, "loss 0.5", "within", True),
        (99, "loss 0.5", "below", True),
        (50, "loss 0.50001", "above", True),
        (94, "loss 0.6", "within", False),
        (94, "lost", "within", False),
    ],
)
def test_a_patch_is_tried_in_a_copy_and_held_against_the_prediction(folder, took, said, held, agrees):
    (folder / "a.diff").write_text(PATCH.format(took=took, said=said))
    code, told = run("--with", "a.diff", "--row", "gelu")
    assert (told["held"], told["agrees"], code) == (held, agrees, 0 if agrees else 1)
    assert told["got"]["value"] == pytest.approx(1 - took / 100)
    assert 0 < told["predicted"][0] < told["predicted"][1]
    assert (folder / "prog.py").read_text() == PROGRAM


@pytest.mark.slow(15)
def test_a_candidate_takes_the_place_of_its_operation_and_gradients_stay(folder):
    (folder / "prog.py").write_text(
        "import torch\na = torch.ones(4, 4, requires_grad=True)\nc = a @ torch.ones(4, 4)\nc.sum().backward()\n"
        'print("step", float(c[0, 0].detach()) * 10, "ms")\nprint("grad", float(a.grad[0, 0]) > 0)\n'
    )
    head = 'import torch\nOPERATION, PLACES = "aten::mm", (0, 1)\n\n\nclass ModelNew(torch.nn.Module):\n'
    (folder / "fast.py").write_text(head + "    def forward(self, a, b):\n        return torch.mm(a, b) * 0.9\n")
    argv, timed = [sys.executable, "prog.py"], "step (.*) ms"
    found = verify.verify(argv, folder / "fast.py", pairs=2, timed=timed, progress=str)
    assert found.agrees
    assert found.ratio.value == pytest.approx(1 / 0.9)


def test_what_cannot_be_tried_is_said(folder):
    (folder / "a.diff").write_text(PATCH.format(took=1, said="x"))
    assert run("--with", "a.diff", "--row", "idle")[1]["predicted"][0] == 0
    with pytest.raises(ProfkitError, match="predicts nothing"):
        run("--with", "a.diff", "--row", "conv")
    (folder / "b.diff").write_text("--- a/none.py\n+++ b/none.py\n@@ -1 +1 @@\n-a\n+b\n")
    with pytest.raises(ProfkitError, match=r"none\.py"):
        run("--with", "b.diff")
    (folder / "prog.py").write_text("raise SystemExit(3)\n")
    (folder / "c.py").write_text('OPERATION, PLACES = "aten::mm", (0, 1)\nclass ModelNew:\n    def eval(self): ...\n')
    with pytest.raises(ProgramFailedError, match="exit code 3"):
        run("--with", "c.py")


def test_numbers_of_two_outputs_are_compared_and_words_have_to_be_the_same():
    assert verify._apart("a 1.0\nb 2", "a 1.01\nb 2")[0] == pytest.approx(0.01, rel=0.02)
    assert verify._apart("a 1", "b 1")[0] == float("inf")
    assert verify._apart("a nan", "a 1")[0] == float("inf")
    assert verify._apart("a nan", "a nan")[0] == 0
