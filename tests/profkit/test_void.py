"""A task whose answer is its input, one that only looks like it, and one that cannot tell: three different things."""

import pytest
from candidates import ANSWERS, task
from corpora import RUN

from profkit.api import profile

SET_WEIGHT = "def set_weight(layer):\n    layer.weight.data = torch.eye(48).flip(0)\n    return layer\n"
TASKS = {
    "copies": (
        "x.clone()",
        "torch.randn(64, 48)",
        {
            "copies": "        return torch.empty_like(x).copy_(x)\n",
            "gives_it_back": "        return x\n",
            "gives_a_view": "        return x.view(-1).view_as(x)\n",
        },
    ),
    "positive": (
        "torch.relu(x)",
        "torch.rand(64, 48) + 0.1",
        {"clamps": "        return x.clamp_min(0)\n", "only_copies": "        return x.clone()\n"},
    ),
    "nothing": ("(x - x).relu()", "torch.randn(64, 48)", {"zeros": "        return torch.zeros_like(x)\n"}),
    "layer_built": (
        "torch.nn.functional.linear(x, set_weight(torch.nn.Linear(48, 48, bias=False)).weight)",
        "torch.randn(64, 48)",
        {"flipped": "        return x.flip(1)\n", "sums": "        return x.sum(1, keepdim=True).expand_as(x)\n"},
    ),
    "long_sum": (
        "x.sum()",
        "torch.rand(1 << 20)",
        {
            "halves": "        a, b = x.chunk(2)\n        return a.sum() + b.sum()\n",
            "expected": f"        return torch.full((), {2.0**19})\n",
        },
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("void")
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROFKIT_CACHE", str(root / "cache"))
        for name, (body, drawn, candidates) in TASKS.items():
            folder = root / f"I{name.upper()}"
            folder.mkdir()
            (folder / "reference.py").write_text(task(body, drawn) + SET_WEIGHT)
            for one, source in candidates.items():
                (folder / f"{one}.py").write_text(ANSWERS + source)
            found[name] = profile(folder, runs=root / "runs", **RUN)
    return found


def status(run, name):
    return next((impl.status, impl.reason) for impl in run.manifest.impls if impl.name == name)


TIMED = ("faster", "slower", "same", "inconclusive")


def test_a_copy_is_a_task_and_to_copy_is_its_work(runs):
    run = runs["copies"]
    assert run.manifest.probe["passing"] == []
    assert run.verdicts["copies"].word in TIMED
    # Where an answer lies is nobody's business, but the caller's.
    assert {status(run, name)[0] for name in ("gives_it_back", "gives_a_view")} == {"ok"}


def test_what_looks_like_a_copy_for_the_inputs_drawn_is_told_by_others(runs):
    run = runs["positive"]
    assert run.manifest.probe["told"] == {"an input as it came": "inputs with the other sign"}
    assert run.verdicts["clamps"].word in TIMED
    said = "gives an input as it came, which is right only for the drawn inputs; wrong for inputs with the"
    assert status(run, "only_copies")[0] == "mismatch"
    assert status(run, "only_copies")[1].startswith(said)


def test_numbers_that_no_answer_depends_on_are_no_random_answer(runs):
    """GPU MODE's trimul constructs its layers in the call, and then sets their weights."""
    assert not runs["layer_built"].manifest.probe["random"]
    verdicts = runs["layer_built"].verdicts
    assert verdicts["flipped"].word in TIMED
    assert verdicts["sums"].kind == "mismatch"


def test_a_task_that_no_input_saves_is_void(runs):
    assert "zeros" in runs["nothing"].manifest.probe["passing"]
    assert runs["nothing"].verdicts["zeros"].word == "void"


def test_a_sum_that_hardly_depends_on_its_inputs_is_told_by_unusual_ones(runs):
    run = runs["long_sum"]
    assert run.manifest.probe["passing"] == []
    assert run.verdicts["halves"].word in TIMED
    assert run.verdicts["expected"].word == "wrong"


@pytest.mark.slow
def test_an_overflow_counts_although_rounding_changes_the_numbers(tmp_path):
    folder = tmp_path / "IFLOW"
    folder.mkdir()
    (folder / "reference.py").write_text(task("torch.softmax(x, -1)", "torch.randn(64, 48)"))
    (folder / "naive.py").write_text(ANSWERS + "        return x.exp() / x.exp().sum(-1, keepdim=True)\n")
    (folder / "sound.py").write_text(ANSWERS + "        return torch.log_softmax(x, -1).exp()\n")
    run = profile(folder, runs=tmp_path / "runs", **RUN)
    fragile = {impl.name: impl.fragile for impl in run.manifest.candidates}
    assert fragile["sound"] == []
    assert fragile["naive"][0].startswith("inputs times 1e3: output: ")
    assert "where the reference is not" in fragile["naive"][0]
