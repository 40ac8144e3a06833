"""Honest candidates, however they compute, are never called anything but ok, and no caveat names them."""

from __future__ import annotations

import pytest
from corpora import DATA, RUN, as_sample, entries

from profkit.api import profile
from profkit.launch import gpu

pytestmark = pytest.mark.slow

HONEST = DATA / "honest"
TASKS = ("dense", "attention", "mixed")
HERE = [(task, entry) for task in TASKS for entry in entries(HONEST / task, "cpu")]
GPU = [(task, entry) for task in TASKS for entry in entries(HONEST / task, "gpu")]


def flags(run, name: str, expected: str = "") -> list[str]:
    """Everything the run holds against a candidate; what a busy machine left open holds nothing against it, nor does what
    is `expected` of it, as its file says.
    """
    impl = next(impl for impl in run.manifest.impls if impl.name == name)
    told = [caveat for caveat in run.manifest.caveats if name in caveat.what and caveat.code != "busy"]
    caveats = [caveat.what for caveat in told if f"caveat {caveat.code}" != expected]
    return caveats if impl.ok else [f"{impl.status}: {impl.reason}", *caveats]


def run_of(task, chosen, root, device="cpu"):
    folder = as_sample(HONEST / task, chosen, root / f"I{task.upper()}")
    return profile(folder, runs=root / "runs", **{**RUN, "device": device})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One run of every task with all its candidates."""
    root = tmp_path_factory.mktemp("honest")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROFKIT_CACHE", str(root / "cache"))
        patch.setenv("OMP_NUM_THREADS", "1")
        return {task: run_of(task, [e for t, e in HERE if t == task], root) for task in TASKS}


def test_the_corpus_is_large_enough():
    assert len(HERE) >= 30


@pytest.mark.parametrize(("task", "entry"), HERE, ids=lambda part: getattr(part, "name", part))
def test_an_honest_candidate_is_not_flagged(runs, task, entry):
    assert flags(runs[task], entry.name, entry.expect) == []


@pytest.mark.parametrize("task", TASKS)
def test_no_trivial_answer_passes(runs, task):
    probe = runs[task].manifest.probe
    assert probe["passing"] == []
    assert probe["precision"]["noise"] == []


@pytest.mark.gpu
@pytest.mark.parametrize("task", TASKS)
def test_no_honest_candidate_is_flagged_on_a_gpu(tmp_path, task):
    if not gpu.identity():
        pytest.skip("no GPU here")
    chosen = [e for t, e in HERE + GPU if t == task]
    run = run_of(task, chosen, tmp_path, device="cuda")
    assert {e.name: flags(run, e.name, e.expect) for e in chosen} == {e.name: [] for e in chosen}
