"""profkit's ranges under a bare ncu and a bare nsys: does backward belong to the range it was called in?

Needs an NVIDIA GPU; each test skips itself without its tool (PATH, PROFKIT_NCU, PROFKIT_NSYS).
"""

import os
import subprocess
import sys

import pytest

from collectors import CollectError, read
from profkit.launch import gpu, tools
from profkit.launch.alone import counting
from profkit.vendor.nvidia import ncu, nsys

pytestmark = pytest.mark.gpu

PROGRAM = """
import torch
from profkit import annotate
weight = torch.randn(512, 512, device="cuda", requires_grad=True)
x = torch.randn(512, 512, device="cuda", requires_grad=True)
for _ in range(2):
    with annotate("forward"):
        loss = torch.tanh(x @ weight).square().sum()
    with annotate("backward"):
        loss.backward()
torch.cuda.synchronize()
"""
STEPS, LEAST = 2, 3
"""Steps of the program, and kernels that the backward of one step has at least: tanh and two products."""


@pytest.fixture(autouse=True)
def one_gpu():
    if not gpu.identity():
        pytest.skip("no NVIDIA GPU")


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "steps.py"
    file.write_text(PROGRAM)
    return [sys.executable, str(file)]


@pytest.fixture
def counter():
    tool = tools.find(tools.NCU)
    if tool is None or ncu.counters_restricted():
        pytest.skip("no ncu, or it may not count")
    return tool.path


@pytest.fixture
def recorder():
    tool = tools.find(tools.NSYS)
    if tool is None:
        pytest.skip("no nsys")
    return tool.path


def under_ncu(tool, program, tmp_path, *options):
    log = tmp_path / "bare.csv"
    argv = [tool, "--config-file", "off", "--nvtx", *options, "--metrics", "gpu__time_duration.sum"]
    argv += ["--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)]
    env = {**os.environ, "LC_ALL": "C"}
    with counting(gpu.identity()["uuid"]):
        done = subprocess.run([*argv, *program], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr + (log.read_text("utf-8") if log.is_file() else "no log")
    return log


def read_or_refused(file, words):
    """The launches; None when the reader says in these words that there are none."""
    try:
        return read(file)
    except CollectError as error:
        if words not in str(error):
            raise
        return None


def test_a_filter_of_a_bare_ncu_takes_backward(counter, program, tmp_path):
    log = under_ncu(counter, program, tmp_path, "--nvtx-include", "profkit@backward/")
    frame = read(log)
    assert set(frame["range"]) == {"backward"}
    assert len(frame) >= STEPS * LEAST


def under_nsys(tool, program, tmp_path):
    base = tmp_path / "bare"
    sqlite = base.with_suffix(".sqlite")
    said = ""
    for argv in (
        [*nsys.prefix(tool, base), *program],
        nsys.export(tool, base.with_suffix(".nsys-rep"), sqlite),
    ):
        # An nsys that could not import all it recorded says so here and leaves nothing in the export.
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        said += done.stdout + done.stderr
    return sqlite, said


def whole(frame):
    """Whether the record reaches the end: an nsys older than the driver loses what comes after the first moments."""
    return (frame["kind"] == "kernel").sum() >= STEPS * 2 * LEAST


def test_backward_has_its_range_under_a_bare_nsys_or_a_caveat_says_what_is_missing(recorder, program, tmp_path):
    file, said = under_nsys(recorder, program, tmp_path)
    frame = read_or_refused(file, "no GPU work")
    if frame is None:
        return
    backward = frame[(frame["range"] == "backward") & (frame["kind"] == "kernel")]
    if whole(frame):
        assert len(backward) >= STEPS * LEAST
    else:
        assert frame.attrs["caveats"] or nsys.caveats(said), said
