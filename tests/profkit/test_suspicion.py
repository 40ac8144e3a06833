"""What a candidate's source is suspected of, and what honest sources have that looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from profkit.targets.source import Source
from profkit.targets.suspicion import suspicions

HEAD = """
import sys, threading, time
import torch
from torch.nn import functional as F
"""
PROGRAM = """
def main():
    return rows(sys.argv)
def rows(words):
    return len(words)
def shared():
    sys.exit(1)
@torch.no_grad()
class ModelNew:
    def forward(self, x):
        {used}
if __name__ == "__main__":
    shared()
    sys.exit(main())
"""
MODEL = "class ModelNew:\n    def forward(self, x):\n"


def found(text: str) -> list[str]:
    source = Source(Path("candidate.py"), HEAD + text)
    return [f"{one.name} {one.line}" for one in suspicions(source, "reference")]


def forward(*lines: str) -> list[str]:
    return found(MODEL + "".join(f"        {line}\n" for line in lines))


def test_what_runs_as_a_program_alone_is_no_candidate():
    assert found(PROGRAM.format(used="return x")) == []
    assert found(PROGRAM.format(used="return shared()")) == ["exit 11"]


@pytest.mark.parametrize(
    "lines",
    [
        [
            "try:",
            "    room = self.rooms[x.shape]",
            "except KeyError:",
            "    room = self.rooms[x.shape] = x.new_empty(3)",
        ],
        ["try:", "    room = self.room", "except AttributeError:", "    room = self.room = x.new_empty(3)"],
        ["with torch.autograd.profiler.record_function('a'):", "    return x"],
        ["F = torch.ones(3)", "F.requires_grad = False", "return x * F"],
        ["many = [threading.Thread(target=f) for f in x]", "for one in many:", "    one.join()", "return x"],
        ["many = []", "many.append(threading.Thread(target=f))", "[one.join() for one in many]", "return x"],
        ["return [one.result() for one in [self.pool.submit(f, y) for y in x]]"],
        ["one = threading.Thread(target=f)", "one.join()", "return x"],
    ],
)
def test_honest_ways(lines):
    assert forward(*lines) == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["try:", "    y = self.quick(x)", "except KeyError:", "    y = torch.relu(x)"], "fallback 9"),
        (["try:", "    y = x @ self.w", "except RuntimeError:", "    y = torch.relu(x)"], "fallback 9"),
        (["if torch.autograd.profiler._is_profiler_enabled:", "    return x"], "profiler detection 7"),
        (["global F", "F.linear = 3", "return x"], "patching 8"),
        (["time.clock = x", "return x"], "patching 7"),
        (["self.pool.submit(self.watch)", "return x"], "threads 7"),
        (["many = [threading.Thread(target=f) for f in x]", "return x"], "threads 7"),
        (["many = [threading.Thread(target=f) for f in x]", "for one in x:", "    one.join()"], "threads 7"),
    ],
)
def test_ways_that_are_told(lines, expected):
    assert forward(*lines) == [expected]


def test_a_model_of_its_own_is_not_the_references():
    own = "class Model:\n    pass\nclass ModelNew(Model):\n    def __init__(self):\n        self.inner = Model()\n"
    assert found(own) == []
    assert found("from reference import Model\n" + own.partition("pass\n")[2]) != []


def test_names_for_ranges_may_be_profkits():
    assert found("import profkit\nfrom profkit import annotate\n") == []
    assert found("from profkit.runner import clocks\n") == ["tampering 5"]
    assert found("from profkit import launch\n") == ["tampering 5"]


@pytest.mark.parametrize("path", ["site.getusersitepackages() + '/usercustomize.py'", "f'/proc/{pid}/oom_score_adj'"])
def test_what_reaches_beyond_the_candidates_own_process_is_named(path):
    assert found(f"open({path}, 'w').write('0')\n") == ["tampering 5"]


def test_what_profkit_does_not_offer_is_no_candidates():
    assert found("import profkit as p\np.runner.integrity.seal()\n") == ["tampering 6"]
    assert found("import profkit\nwith profkit.annotate('mlp'):\n    pass\n") == []


def test_a_module_that_calls_itself_the_program_hides_nothing():
    body = "if __name__ == '__main__':\n    torch.matmul = None\n"
    assert found("__name__ = '__main__'\n" + body)
    assert found(body) == []
