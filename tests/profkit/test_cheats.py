"""Every trick of the cheat corpus is caught, and called by its name."""

from __future__ import annotations

import pytest
from corpora import DATA, RUN, Entry, as_sample, entries

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


def name_given(run, entry: Entry) -> str:
    """What the run calls a candidate, in the words of `expect`. Where a candidate begins at a call that load puts before or
    behind the trials, `expect` has a name for each ("status ONE|OTHER").
    """
    impl = next(impl for impl in run.manifest.impls if impl.name == entry.name)
    if entry.expect.startswith("doubt"):
        named = entry.expect.partition(" ")[2]
        mine = [doubt.what for doubt in run.manifest.doubts if entry.name in doubt.what]
        as_named = (what == f"{entry.name}: {named}" or what.startswith(f"{named}: {entry.name} ") for what in mine)
        return f"doubt {named}" if any(as_named) else f"{impl.status}: {mine}"
    said = entry.expect.split()[1:]
    words = " ".join(said[1:])
    if impl.status in said[0].split("|") and not words:
        return entry.expect
    return (
        f"status {impl.status} {words if words in impl.reason else impl.reason}".strip()
        if words
        else f"status {impl.status}"
    )


@pytest.fixture(scope="module")
def caught(tmp_path_factory):
    root = tmp_path_factory.mktemp("cheats")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROFKIT_CACHE", str(root / "cache"))
        patch.setenv("OMP_NUM_THREADS", "1")
        return run_of(HERE, root)


def test_the_corpus_is_large_enough():
    assert len({entry.expect.split()[1] for entry in HERE + ALONE + GPU}) >= 14
    assert len(HERE + ALONE + GPU) >= 35


@pytest.mark.parametrize("entry", HERE, ids=lambda entry: entry.name)
def test_a_cheat_is_named(caught, entry):
    assert name_given(caught, entry) == entry.expect


def test_the_reference_is_unharmed(caught):
    assert caught.manifest.reference.ok
    assert caught.manifest.status == "done"


def test_only_doubted_cheats_are_timed(caught):
    timed = {impl.name for impl in caught.manifest.candidates if impl.ok}
    assert timed <= {entry.name for entry in HERE if entry.expect.startswith("doubt")}
    # In a process of its own there is no reference to call.
    assert "calls_the_reference" not in timed


@pytest.mark.parametrize("entry", ALONE, ids=lambda entry: entry.name)
def test_ending_the_process_is_no_pass(tmp_path, monkeypatch, entry):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert name_given(run_of([entry], tmp_path, trials=1), entry) == entry.expect


TOGETHER = (
    "cached_by_address",
    "cached_by_contents",
    "cached_when_timed",
    "lazy_proxy",
    "works_in_a_thread",
    "patched_timer",
    "mutates_inputs",
    "unwritten",
    "exits",
)


def test_a_cheat_in_its_judges_process_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    chosen = [entry for entry in HERE + ALONE if entry.name in TOGETHER]
    run = run_of(chosen, tmp_path, trust=True)
    assert {e.name: name_given(run, e) for e in chosen} == {e.name: e.expect for e in chosen}


@pytest.mark.gpu
@pytest.mark.parametrize("part", range(4))
def test_every_cheat_is_named_on_a_gpu(tmp_path, part):
    if not gpu.identity():
        pytest.skip("no GPU here")
    apart = ("switches_threads", "patched_operator", "fake_tensor", "calls_the_reference")
    every = [e for e in HERE + GPU if e.name not in apart][part::4]
    run = run_of(every, tmp_path, device="cuda", trust=True)
    assert {e.name: name_given(run, e) for e in every} == {e.name: e.expect for e in every}
