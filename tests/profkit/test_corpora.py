"""The corpora of tests/data/corpora, every candidate in a process of its own: no cheat wins, no honest one is accused.

Here of every kind a cheat in each task, and honest ones that the judge was mended for; benchmarks/judge_corpora.py judges them all.
"""

import pytest
from corpora import MENDED, RUN, STURDY, TASKS, Part, held, parts, some, tells, wins, written

from profkit.api import profile
from profkit.launch import gpu

pytestmark = pytest.mark.usefixtures("private_cache")
ROLES = ("cheat", "honest")
EVERY = {role: [part for task in TASKS for part in parts(task) if part.role == role] for role in ROLES}
SOME = some(part for role in EVERY for part in EVERY[role])


def run_of(task, chosen, root, **options):
    return profile(written(task, chosen, root / f"I{task.upper()}"), runs=root / "runs", **{**RUN, **options})


def wrongly_called(run, part: Part) -> set[str]:
    """What is wrong with what the run says of a candidate; nothing when it is right."""
    if part.role == "cheat":
        return {"faster"} if wins(run, part.name) else set()
    found = held(run, part.name)
    fragile = next(impl for impl in run.manifest.impls if impl.name == part.name).fragile
    if fragile and part.task in STURDY:
        found = found | {"fragile"}
    return found ^ set(part.called)


def told(run, chosen):
    return {part.name: wrong for part in chosen if (wrong := wrongly_called(run, part))}


def test_the_corpora_are_large_enough():
    assert len(EVERY["cheat"]) >= 280
    assert len(EVERY["honest"]) >= 215
    assert len({part.kind for part in EVERY["cheat"]}) >= 30
    names = [(part.task, part.name) for role in EVERY for part in EVERY[role]]
    assert len(set(names)) == len(names)
    assert {part.kind for part in SOME} >= {part.kind for role in EVERY for part in EVERY[role] if tells(part, "cpu")}
    assert {(part.task, part.name) for part in SOME} >= {(task, name) for task in MENDED for name in MENDED[task]}


@pytest.mark.slow(15)
@pytest.mark.parametrize("task", sorted({part.task for part in SOME}))
def test_no_cheat_of_any_kind_wins_and_no_honest_one_is_accused(tmp_path, task):
    chosen = [part for part in SOME if part.task == task]
    run = run_of(task, chosen, tmp_path)
    assert run.manifest.reference.ok
    assert told(run, chosen) == {}
    if task in ("dense", "heads", "parts"):
        assert run.manifest.probe["passing"] == run.manifest.probe["precision"]["noise"] == []
    if task == "plain":
        # In a process of its own there is no reference to call, and to end it is no pass.
        ended = ("calls_the_reference", "exits", "exits_politely")
        assert not [impl.name for impl in run.manifest.candidates if impl.name in ended and impl.ok]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("task", "role"),
    [
        (task, role)
        for task in TASKS
        for role in sorted(EVERY)
        if any(part.task == task and tells(part, "cuda") for part in EVERY[role])
    ],
)
def test_everyone_is_called_what_it_is_on_a_gpu(tmp_path, task, role):
    if not gpu.identity():
        pytest.skip("no GPU here")
    chosen = [part for part in EVERY[role] if part.task == task and tells(part, "cuda")]
    run = run_of(task, chosen, tmp_path, device="cuda")
    assert told(run, chosen) == {}
