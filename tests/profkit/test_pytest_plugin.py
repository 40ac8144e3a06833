"""pytest --profkit: what it skips, what it fails, the baselines it keeps, two workers at once."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

from profkit.bridges.pytest_plugin import _judge

ROOT = Path(__file__).parents[2]

TESTS = """
import time
import pytest, torch

X = torch.ones(256, 256)

def wait(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

def double(x):
    return x * 2

@pytest.mark.profkit(max_ratio=1000)
def test_right(profkit):
    run = profkit.measure(double, X, reference=lambda x: x + x)
    assert run.verdicts["double"].right

def test_wrong(profkit):
    profkit.measure(lambda x: x * 3, X, reference=double)

@pytest.mark.profkit(max_ratio=1.05)
def test_slow(profkit):
    def slow(x):
        wait(0.02)
        return x * 2
    profkit.measure(slow, X, reference=double)

@pytest.mark.profkit(max_ratio=50.0)
@pytest.mark.parametrize("n", [1, 2])
def test_kept(profkit, n):
    profkit.measure(double, X)
"""

# Where nothing is measured nobody needs torch, which takes longer to import than all the rest.
SKIPPED = TESTS.replace("import pytest, torch", "import pytest").replace("torch.ones(256, 256)", "[]")


def run(folder, *options, text=TESTS, **variables):
    (folder / "test_measured.py").write_text(text, encoding="utf-8")
    path = f"{ROOT / 'tests/fakes/warm'}{os.pathsep}{ROOT}"  # A CPU's ceilings are given.
    env = {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **variables}
    plugins = ("-p", "profkit.bridges.pytest_plugin", "-p", "no:cacheprovider")
    line = [sys.executable, "-m", "pytest", *plugins, "-rfsw", *options]
    return subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, check=False)


CPU = ("--profkit", "--profkit-cpu", "--profkit-budget", "0.1")


@pytest.mark.slow
def test_nothing_measures_unasked(tmp_path):
    done = run(tmp_path, text=SKIPPED)
    assert done.returncode == 0
    assert "measures: add --profkit" in done.stdout
    assert "5 skipped" in done.stdout


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.slow
def test_skipped_with_a_reason_without_a_gpu(tmp_path):
    done = run(tmp_path, "--profkit", text=SKIPPED)
    assert "no GPU here: --profkit-cpu measures on the CPU" in done.stdout
    assert "5 skipped" in done.stdout


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The first session of a folder, of two workers, and the folder."""
    folder = tmp_path_factory.mktemp("first")
    done = run(folder, *CPU, "-p", "xdist", "-n", "2")
    assert "3 passed" in done.stdout, done.stdout
    assert "2 failed" in done.stdout
    return done, folder


@pytest.mark.slow
def test_a_reference_decides(first):
    done, _ = first
    assert set(re.findall(r"^FAILED test_measured.py::(\w+)", done.stdout, re.M)) == {"test_wrong", "test_slow"}
    assert "-lambda-: mismatch" in done.stdout or "lambda: mismatch" in done.stdout
    assert "slow over the reference" in done.stdout
    assert "1.05 allowed" in done.stdout


@pytest.mark.slow(30)
def test_baselines_are_kept_and_hold_with_two_workers(first):
    done, folder = first
    assert "no baseline before" in done.stdout
    kept = sorted(path.parent.name for path in folder.glob(".profkit-baselines/*/*/run.json"))
    assert kept.count("1") == 2, kept
    for file in folder.glob(".profkit-baselines/*/*/timings.csv"):
        millionth(file)
    slower = run(folder, *CPU, "-k", "kept")
    assert "2 failed" in slower.stdout, slower.stdout
    assert "double over its baseline" in slower.stdout
    again = run(folder, *CPU, "-k", "kept", "--profkit-update")
    assert "2 passed" in again.stdout
    assert not list(folder.glob(".profkit-baselines/*/.new-*"))


def millionth(file):
    """Every time of a timings.csv divided by a million."""
    frame = pd.read_csv(file)
    frame["seconds"] /= 1e6
    frame.to_csv(file, index=False)


def test_a_speed_up_that_may_be_anything_warns():
    with pytest.warns(UserWarning, match="0.377 to inf times the time"):
        _judge(0.0, 2.65, 1.05, "x")


def test_the_plugin_costs_a_session_nothing(tmp_path):
    code = "import sys, profkit.bridges.pytest_plugin; print([n for n in ('torch', 'pandas', 'numpy', 'click') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_it_is_registered_for_pytest():
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert '[project.entry-points.pytest11]\nprofkit = "profkit.bridges.pytest_plugin"' in text
