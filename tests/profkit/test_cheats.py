"""No trick of the cheat corpus wins."""

from __future__ import annotations

import pytest
from corpora import DATA, RUN, as_sample, entries, wins

from profkit.api import profile
from profkit.launch import gpu

pytestmark = pytest.mark.slow

CHEATS = DATA / "cheats"
HERE = entries(CHEATS, "cpu")
ALONE = entries(CHEATS, "cpu alone")
GPU = entries(CHEATS, "gpu")


def run_of(chosen, root, *, device="cpu", **options):
    """One run of all of them."""
    folder = as_sample(CHEATS, chosen, root / "ICHEAT")
    return profile(folder, runs=root / "runs", **{**RUN, "device": device, **options})


@pytest.fixture(scope="module")
def caught(tmp_path_factory):
    root = tmp_path_factory.mktemp("cheats")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROFKIT_CACHE", str(root / "cache"))
        patch.setenv("OMP_NUM_THREADS", "1")
        return run_of(HERE, root)


@pytest.mark.parametrize("entry", HERE, ids=lambda entry: entry.name)
def test_a_cheat_does_not_win(caught, entry):
    assert not wins(caught, entry.name)


def test_the_reference_is_unharmed(caught):
    assert caught.manifest.reference.ok
    assert caught.manifest.status == "done"
    # In a process of its own there is no reference to call.
    assert not next(impl for impl in caught.manifest.candidates if impl.name == "calls_the_reference").ok


@pytest.mark.parametrize("entry", ALONE, ids=lambda entry: entry.name)
def test_ending_the_process_is_no_pass(tmp_path, monkeypatch, entry):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert [impl.ok for impl in run_of([entry], tmp_path, trials=1).manifest.candidates] == [False]


TOGETHER = ("cached_by_address", "cached_by_contents", "cached_when_timed", "works_in_a_thread", "unwritten", "exits")


def test_a_cheat_in_the_process_of_its_judge_does_not_win(tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    chosen = [entry for entry in HERE + ALONE if entry.name in TOGETHER]
    run = run_of(chosen, tmp_path, trust=True)
    assert [e.name for e in chosen if wins(run, e.name)] == []


@pytest.mark.gpu
@pytest.mark.parametrize("part", range(4))
def test_no_cheat_wins_on_a_gpu(tmp_path, part):
    if not gpu.identity():
        pytest.skip("no GPU here")
    every = (HERE + GPU)[part::4]
    run = run_of(every, tmp_path, device="cuda")
    assert [e.name for e in every if wins(run, e.name)] == []
