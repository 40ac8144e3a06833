"""A candidate that would end its neighbours or its judge: refused where the kernel can, told by its turn elsewhere."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest
from candidates import write_sample

from profkit.api import profile
from profkit.launch import fence, isolation, process, waiting

CODE = """
import os, resource, signal, subprocess, sys

def tried(act):
    try:
        return str(act() or "done")
    except OSError as error:
        return type(error).__name__

other = int(sys.argv[1])
mine = subprocess.Popen(["sleep", "99"], start_new_session=True)
signal.signal(signal.SIGUSR1, lambda *_: None)
print(*(tried(act) for act in (
    lambda: os.kill(other, signal.SIGKILL),
    lambda: os.kill(-1, signal.SIGTERM),
    lambda: os.kill(os.getppid(), signal.SIGKILL),
    lambda: os.kill(other, 0),
    lambda: os.kill(2**22 - 1, signal.SIGKILL),
    lambda: resource.prlimit(other, resource.RLIMIT_CPU, (1, 1)) and None,
    lambda: os.pidfd_open(other) and None,
    lambda: os.killpg(mine.pid, signal.SIGKILL) or mine.wait() and None,
    lambda: os.kill(os.getpid(), signal.SIGUSR1),
    lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
)), flush=True)
os.abort()
"""
REFUSED = "PermissionError PermissionError PermissionError done ProcessLookupError PermissionError PermissionError"
MODEL = """
import os, pathlib, signal
import torch

PLACE = pathlib.Path({place!r})
{act}

class ModelNew(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight)
        self.calls = 0
    def forward(self, x):
        self.calls += 1
        if self.calls == 3:
            strike()
        return torch.relu(x @ self.weight)
"""
VICTIM = """
PLACE.write_text(str(os.getpid()))
def strike():
    pass
"""
KILLER = """
def strike():
    if not {when}:
        return
    try:
        os.kill(int(PLACE.read_text()), signal.SIGKILL)
    except PermissionError:
        pass
"""
QUICK = {"device": "cpu", "counters": "off", "budget": 0.02, "trials": 1, "processes": 1}


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))


def here():
    return fence._MACHINES.get(os.uname().machine) is not None and fence._release() >= (5, 5)


def test_a_fenced_process_reaches_its_own_alone(tmp_path):
    if not here():
        pytest.skip("no user notification in this kernel")
    with subprocess.Popen(["sleep", "99"]) as other:
        argv = [sys.executable, "-c", CODE, str(other.pid)]
        ended = process.run(argv, log=tmp_path / "log", env=dict(os.environ), fenced=True, limit=60)
        assert other.poll() is None
        other.kill()
    assert ended.tail == f"{REFUSED} done done done"
    assert ended.signal == "SIGABRT"
    assert ended.refused == (
        "!SIGKILL to another process of this run",
        "!SIGTERM to every process there is",
        "?SIGKILL to the process that stands over it",
        "?prlimit64 on another process of this run",
        "?pidfd_open on another process of this run",
    )


def test_without_a_fence_nothing_is_said_of_one(tmp_path):
    ended = process.run([sys.executable, "-c", "print(1)"], log=tmp_path / "log", env=dict(os.environ), limit=60)
    assert ended.refused is None


def sample(root, when="True"):
    folder, place = write_sample(root), str(root / "pid")
    (folder / "honest.py").write_text(MODEL.format(place=place, act=VICTIM))
    (folder / "killer.py").write_text(MODEL.format(place=place, act=KILLER.format(when=when)))
    return folder


def statuses(run):
    return {one.name: one.status for one in run.manifest.candidates}


@pytest.mark.parametrize(
    ("name", "arguments", "refused"),
    [
        ("setpriority", [0, 0, 19], False),
        ("setpriority", [0, "mine", 19], False),
        ("setpriority", [0, 0, os.getpriority(os.PRIO_PROCESS, 0) - 1], True),
        ("sched_setscheduler", [0, os.SCHED_BATCH, 0], False),
        ("sched_setscheduler", [0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, 0], True),
        ("setpriority", [0, "other", 19], True),
        ("setpriority", [2, 0, 19], True),
        ("setpriority", [2, os.getuid(), 19], True),
        ("ioprio_set", [1, "other", 0], True),
        ("ioprio_set", [1, 0, 0], False),
        ("ioprio_set", [3, os.getuid(), 0], True),
        ("sched_setaffinity", [0, 8, 0], False),
        ("sched_setaffinity", ["mine", 8, 0], False),
        ("sched_setaffinity", ["other", 8, 0], True),
        ("sched_setscheduler", ["other", 5, 0], True),
        ("sched_setattr", ["other", 0, 0], True),
        ("migrate_pages", ["other", 1, 0], True),
    ],
)
def test_how_others_are_scheduled_is_nobodys_to_say(name, arguments, refused):
    """The warden is a child of this process, who stands for the judge; `mine` is below the warden."""
    script = "import subprocess; p = subprocess.Popen(['sleep', '99']); print(p.pid, flush=True); input(); p.kill()"
    warden = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pids = {"mine": int(warden.stdout.readline()), "other": os.getpid()}
    given = [pids.get(one, one) for one in arguments]
    said = fence._objection(name, given, pids["mine"], warden.pid, os.getpid())
    warden.communicate("\n")
    assert bool(said) is refused
    assert not refused or said.startswith((f"{fence.TOLD}{name} on ", f"{fence.TOLD}{name} to a higher priority"))


def test_who_would_kill_a_neighbour_is_named_and_the_neighbour_measured(tmp_path):
    if not here():
        pytest.skip("no user notification in this kernel")
    run = profile(sample(tmp_path), runs=tmp_path / "runs", **QUICK)
    assert statuses(run) == {"honest": "ok", "killer": "sabotage"}
    killer = next(one for one in run.manifest.candidates if one.name == "killer")
    assert killer.reason == "sent SIGKILL to another process of this run; that was refused"
    assert run.verdicts["killer"].word == "wrong"
    assert "killer" not in (run.path / "timings.csv").read_text()


@pytest.mark.slow
def test_without_a_fence_the_turn_tells_it_the_second_time(tmp_path, monkeypatch):
    monkeypatch.setattr(isolation, "FENCED", False)
    run = profile(sample(tmp_path), runs=tmp_path / "runs", **QUICK)
    assert statuses(run) == {"honest": "ok", "killer": "sabotage"}
    killer = next(one for one in run.manifest.candidates if one.name == "killer")
    assert killer.reason == "honest was ended from outside in its turn, twice"


@pytest.mark.slow
def test_a_stroke_that_does_not_come_again_is_a_doubt(tmp_path, monkeypatch):
    monkeypatch.setattr(isolation, "FENCED", False)
    mark = tmp_path / "mark"
    when = f"(not pathlib.Path({str(mark)!r}).exists() and not pathlib.Path({str(mark)!r}).touch())"
    run = profile(sample(tmp_path, when), runs=tmp_path / "runs", **QUICK)
    assert statuses(run) == {"honest": "ok", "killer": "ok"}
    (doubt,) = [one for one in run.manifest.doubts if one.code == "struck"]
    assert doubt.what == "honest was killed by a signal from outside while killer had its turn"


def test_a_process_that_a_signal_waits_for_is_dying():
    with subprocess.Popen(["sleep", "99"]) as child:
        os.kill(child.pid, signal.SIGSTOP)
        while waiting.state_of(child.pid) != "T":
            pass
        assert not waiting.dying(child.pid)
        os.kill(child.pid, signal.SIGTERM)
        assert waiting.dying(child.pid)
        os.kill(child.pid, signal.SIGCONT)
    assert waiting.dying(child.pid)


def test_who_keeps_a_fence_round_nobody_ends(monkeypatch):
    """Newer kernels answer at once, and for ever, when everybody behind it has gone: a core was spent on asking again."""
    fcntl = pytest.importorskip("fcntl")
    asked = []

    def nobody(*_):
        asked.append(1)
        if len(asked) == 3:
            os.close(ours)
        raise OSError(errno.ENOENT, "")

    theirs, ours = os.pipe()
    report = os.open(os.devnull, os.O_WRONLY)
    monkeypatch.setattr(fcntl, "ioctl", nobody)
    fence._keep(theirs, report)
    assert len(asked) == 3
    os.close(theirs)
    os.close(report)
