"""The runner on real candidates that go wrong; each is reported as what it is, the rest is kept."""

import json
import os
import re
import signal

import pytest
from candidates import ANSWERS, timings, write_sample

from profkit.api import profile
from profkit.guest.build.extensions import refusal

EXPECTED = {
    "mismatch": ("mismatch", "elements differ"),
    "nan": ("nan", "NaN"),
    "wrong-shape": ("wrong-shape", r"\(4, 16\), the reference gives \(8, 16\)"),
    "wrong-dtype": ("wrong-dtype", "float64"),
    "wrong-device": ("wrong-device", "meta"),
    "wrong-type": ("wrong-type", "str"),
    "error": ("error", "too many resources"),
    "load-error": ("load-error", "no such architecture"),
    "crash": ("crash", "SIGSEGV"),
    "corrupt": ("corrupt", "illegal memory access"),
    "exit": ("crash", "exit code 0"),
    "hang": ("hang", "its first call did not end within"),
    "loud": ("ok", ""),
    "mutates": ("mutates-inputs", "256 of 256 elements of input"),
    "honest": ("ok", ""),
}


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    """One run of every kind of trouble at once."""
    root = tmp_path_factory.mktemp("gallery")
    patch = pytest.MonkeyPatch()
    patch.setenv("PROFKIT_CACHE", str(root / "cache"))
    run = profile(write_sample(root, *EXPECTED), device="cpu", budget=0.2, trials=2, timeout=0.02, runs=root / "runs")
    patch.undo()
    return run


def named(run, name):
    return next(impl for impl in run.manifest.impls if impl.name == name)


@pytest.mark.parametrize("kind", EXPECTED)
def test_what_is_wrong_is_named(gallery, kind):
    status, reason = EXPECTED[kind]
    impl = named(gallery, kind.replace("-", "_"))
    assert impl.status == status
    assert re.search(reason, impl.reason), impl.reason


def test_the_rest_is_measured_in_the_same_rounds(gallery):
    assert gallery.manifest.status == "done"
    assert gallery.manifest.isolated
    assert gallery.manifest.reference.ok
    rounds = {}
    for row in timings(gallery):
        if row["method"] == "wall":
            rounds.setdefault(row["impl"], set()).add(int(row["round"]))
    assert set(rounds) == {"reference", "honest", "loud"}
    assert rounds["honest"] | rounds["loud"] <= rounds["reference"]
    assert len(rounds["honest"]) >= 3


def test_seeds_are_drawn_by_the_judge_and_kept(gallery):
    assert len(gallery.manifest.seeds) == 2
    assert [check.seed for check in named(gallery, "honest").checks] == gallery.manifest.seeds


def test_a_candidates_job_names_neither_reference_nor_seeds(gallery):
    job = json.loads((gallery.logs / "measure-honest.job.json").read_text())
    assert job["seeds"] == []
    assert [subject["name"] for subject in job["subjects"]] == ["honest"]
    assert "example_torchcode" not in json.dumps(job)


def test_every_process_is_in_the_manifest_and_nothing_is_left_of_the_exchange(gallery):
    argv = [" ".join(command.argv) for command in gallery.manifest.commands]
    assert sum("measure-honest.job.json" in one for one in argv) == 1
    crashed = next(c for c in gallery.manifest.commands if "measure-crash.job.json" in " ".join(c.argv))
    assert crashed.exit_code == -signal.SIGSEGV
    places = [json.loads(file.read_text())["exchange"] for file in gallery.logs.glob("*.job.json")]
    assert places
    assert not [place for place in places if os.path.exists(place)]


def test_honest_claims_stand_from_outside(gallery):
    for name in ("reference", "honest"):
        # A batch that others keep from running may seem to take nothing more than a single call.
        clocks = [r["method"] for r in timings(gallery) if r["impl"] == name and float(r["seconds"]) >= 0]
        assert clocks.count("outside") >= 3
        assert "wall" in clocks


def test_last_words_are_kept(gallery):
    assert "about to die" in named(gallery, "crash").tail
    assert "still here" in named(gallery, "hang").tail
    # By the user's file, and not by the copy that was run.
    assert re.search(r'File "(?!.*/code/).*/ITESTS/error\.py", line \d+, in forward', named(gallery, "error").tail)


def test_output_is_bounded(gallery):
    assert sum(file.stat().st_size for file in gallery.logs.glob("*.log")) < 4_000_000


@pytest.mark.slow
def test_compile_error_has_the_compilers_words(tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    run = profile(write_sample(tmp_path, "compile-error"), device="cpu", budget=0.1, trials=1, runs=tmp_path / "runs")
    impl = run.manifest.candidates[0]
    assert impl.status == "compile-error"
    assert re.match(r"broken\.cpp:1:\d+: error: expected primary-expression", impl.reason), impl.reason
    assert impl.tail.startswith(impl.reason), "and what follows it"
    assert len(impl.tail.splitlines()) <= 8
    assert not (run.path / "timings.csv").exists(), "there is nothing to compare a reference with"


def test_a_chip_that_the_compiler_does_not_know():
    said = "[1/2] nvcc -arch=sm_70 -c a.cu\nnvcc fatal   : Unsupported gpu architecture 'compute_70'\nninja: stopped"
    assert refusal(said) == "nvcc fatal   : Unsupported gpu architecture 'compute_70'"
    said = "at 2:4:\n    qk = dot(q, k, trans_b=True)\n    ^\ndot() got an unexpected keyword argument 'trans_b'"
    assert refusal(said) == "dot() got an unexpected keyword argument 'trans_b'"


LOSES = """import inspect
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        # As it is asked what is right for a candidate.
        if any(frame.function == "{where}" for frame in inspect.stack()):
            torch.cuda.is_initialized, torch.cuda.synchronize = lambda: True, self.lost
        if torch.cuda.is_initialized():
            self.lost()
        return torch.relu(x)

    def lost(self, *_):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

def get_inputs():
    return [torch.randn(8, 16)]

def get_init_inputs():
    return []
"""


def beside_an_honest_one(tmp_path, monkeypatch, reference):
    """The manifest of a sample with that reference."""
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "ILOST"
    folder.mkdir()
    (folder / "reference.py").write_text(reference)
    (folder / "honest.py").write_text(ANSWERS + "        return x.clamp_min(0)\n")
    return profile(folder, device="cpu", budget=0.05, trials=1, runs=tmp_path / "runs").manifest


def test_a_context_that_cannot_be_made_for_the_reference_is_said(tmp_path, monkeypatch):
    """As where others have taken the memory of the device."""
    lost = LOSES.replace("an illegal memory access was encountered", "out of memory").replace("{where}", "nowhere")
    lost = lost.replace(
        "    def forward",
        "    def to(self, *_):\n        torch.cuda.is_initialized, torch.cuda.synchronize = lambda: True, self.lost\n        self.lost()\n\n    def forward",
    )
    manifest = beside_an_honest_one(tmp_path, monkeypatch, lost)
    assert manifest.reference.status == "corrupt"
    assert "CUDA error: out of memory" in manifest.reference.reason
    assert manifest.candidates[0].status == "skipped"


@pytest.mark.parametrize(
    "where", ["_trial", *(pytest.param(one, marks=pytest.mark.slow) for one in ("_settled", "recheck"))]
)
def test_a_context_that_the_reference_loses_is_no_candidates_fault(tmp_path, monkeypatch, where):
    manifest = beside_an_honest_one(tmp_path, monkeypatch, LOSES.replace("{where}", where))
    assert manifest.reference.status == "corrupt"
    assert manifest.candidates[0].status in ("skipped", "ok")
    assert manifest.candidates[0].fragile == []
