"""Limits of time and memory: what goes over them is named soon, and nothing of it stays."""

import os
import time

import click
import pytest
from candidates import _HEAD, write_sample
from test_process import alive, start

from profkit.api import profile
from profkit.cli.options import size
from profkit.launch import cache

pytestmark = pytest.mark.usefixtures("private_cache")

HEAD = f"import os, signal, subprocess, sys, time\n{_HEAD}"
EATER = f"{HEAD}        self.food = [torch.ones(1 << 24) for _ in range(1000)]\n        return x\n"


def test_memory_of_children_counts(tmp_path):
    eat = "import time; food = bytearray(b'x' * (150 << 20)); time.sleep(60)"
    code = f"import subprocess, sys\nboth = [subprocess.Popen([sys.executable, '-c', {eat!r}]) for _ in range(2)]\nboth[0].wait()"
    done = start(code, tmp_path / "log", limit=60, memory=250 << 20)
    assert done.memory > 250 << 20


@pytest.mark.slow
def test_libraries_do_not_count_as_memory(tmp_path):
    done = start("import torch; torch.ones(9).sum()", tmp_path / "log", limit=100, memory=1 << 30)
    assert (done.code, done.memory) == (0, 0)


@pytest.mark.slow
def test_a_greedy_candidate_is_named_and_the_rest_goes_on(tmp_path):
    folder = write_sample(tmp_path, "honest")
    (folder / "eater.py").write_text(EATER)
    run = profile(folder, device="cpu", budget=0.05, trials=1, memory=1 << 30, runs=tmp_path / "runs")
    found = {impl.name: impl for impl in run.manifest.impls}
    assert found["eater"].status == "memory-limit"
    assert "the limit is 1 GiB" in found["eater"].reason
    assert found["honest"].ok


def test_a_crash_is_told_when_it_happens_and_a_hang_after_its_limit(tmp_path, monkeypatch):
    """The crash is told while the other one still hangs."""
    mark = f"93{os.getpid()}.5"
    stamp = "open(os.environ['PROFKIT_STAMP'] + type(self).__module__[-5:], 'w').write(repr(time.time()))"
    folder = write_sample(tmp_path)
    (folder / "crash.py").write_text(f"{HEAD}        {stamp}; os.kill(os.getpid(), signal.SIGSEGV)\n")
    (folder / "hang.py").write_text(
        f"{HEAD}        {stamp}; subprocess.Popen(['sleep', '{mark}'], start_new_session=True)\n        time.sleep(600)\n"
    )
    heard: dict[str, float] = {}
    # Where a candidate may write.
    builds = cache.builds()
    builds.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("PROFKIT_STAMP", str(builds / "stamp"))
    options = {"device": "cpu", "budget": 0.2, "trials": 1, "timeout": 0.01}
    run = profile(folder, runs=tmp_path / "runs", progress=lambda text: heard.setdefault(text, time.time()), **options)
    died, hung = (float((builds / f"stamp{name}").read_text()) for name in ("crash", "_hang"))
    crash = next(moment for text, moment in heard.items() if text.startswith("crash: killed by SIGSEGV"))
    hang = next(moment for text, moment in heard.items() if text.startswith("hang: its "))
    assert died <= crash < hang
    assert hung < hang
    assert {impl.name: impl.status for impl in run.manifest.candidates} == {"crash": "crash", "hang": "hang"}
    assert alive(mark) == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("8GiB", 8 << 30), ("512M", 512 << 20), ("1.5 g", 3 << 29), ("1000", 1000), ("2kb", 2048)],
)
def test_sizes(text, wanted):
    assert size(text) == wanted


@pytest.mark.parametrize("text", ["much", "-1G", "8 Gi B s", ""])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(click.BadParameter, match="8GiB"):
        size(text)
