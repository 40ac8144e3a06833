"""The corpora of tests/data/corpora, every candidate in a process of its own: no cheat wins, no honest one is accused."""

from __future__ import annotations

import pytest
from corpora import DATA, RUN, TASKS, Part, entries, held, parts, written

from profkit.api import profile
from profkit.launch import gpu

QUICK = "counts"
OLDER = {
    "cheat": [DATA / "cheats", DATA / "cheats/weights"],
    "honest": [DATA / "honest" / task for task in ("dense", "attention", "mixed", "weights")],
}
EVERY = {role: [part for task in TASKS for part in parts(task) if part.role == role] for role in OLDER}


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def run_of(task, chosen, root, **options):
    return profile(written(task, chosen, root / f"I{task.upper()}"), runs=root / "runs", **{**RUN, **options})


def wrongly_called(run, part: Part) -> set[str]:
    """What is wrong with what the run says of a candidate; nothing when it is right."""
    found = held(run, part.name)
    if part.role == "honest":
        return found ^ set(part.called)
    word = run.verdicts[part.name].word
    if next(impl for impl in run.manifest.impls if impl.name == part.name).fragile:
        found = found | {"fragile"}
    if word == "slower" and part.kind == "memory of answers" and run.manifest.device.get("kind") == "cuda":
        return set()  # it never had the answer, and what it does then is not so much slower there that it would show
    clean = word in ("faster", "same", "slower", "undecided") and not found
    return set() if found & set(part.called) and not clean else found or {"nothing"}


def told(run, chosen):
    return {part.name: wrong for part in chosen if (wrong := wrongly_called(run, part))}


def number(role):
    older = {
        entry.file for folder in OLDER[role] for runs in ("cpu", "cpu alone", "gpu") for entry in entries(folder, runs)
    }
    return len(EVERY[role]) + len(older)


def test_the_corpora_are_large_enough():
    assert number("cheat") >= 280
    assert number("honest") >= 215
    assert len({part.kind for part in EVERY["cheat"]}) >= 30
    names = [(part.task, part.name) for role in EVERY for part in EVERY[role]]
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_cheats_and_honest_ones_side_by_side(tmp_path):
    chosen = parts(QUICK)
    run = run_of(QUICK, chosen, tmp_path)
    assert run.manifest.reference.ok
    assert told(run, chosen) == {}


ROLES = {task: sorted(role for role in EVERY if any(part.task == task for part in EVERY[role])) for task in TASKS}
FEW = 20
"""Candidates of a task that are measured in one run, cheats beside honest ones."""
LARGE = [task for task in TASKS if sum(part.task == task for role in EVERY for part in EVERY[role]) > FEW]


@pytest.mark.slow(15)
@pytest.mark.parametrize(
    ("task", "role"),
    [(task, role) for task in LARGE for role in ROLES[task]]
    + [(task, "") for task in TASKS if task not in (*LARGE, QUICK)],
)
def test_everyone_is_called_what_it_is(tmp_path, task, role):
    chosen = [part for part in parts(task) if not role or part.role == role]
    run = run_of(task, chosen, tmp_path)
    assert run.manifest.reference.ok
    assert told(run, chosen) == {}


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("task", "role"),
    [(task, role) for task in TASKS if task not in ("process", "tricks", "schemes", "blocks") for role in ROLES[task]],
)
def test_everyone_is_called_what_it_is_on_a_gpu(tmp_path, task, role):
    if not gpu.identity():
        pytest.skip("no GPU here")
    chosen = [part for part in EVERY[role] if part.task == task and "threading" not in part.source]
    run = run_of(task, chosen, tmp_path, device="cuda")
    assert told(run, chosen) == {}
