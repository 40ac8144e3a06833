"""Walls that the kernel keeps round a candidate: what it writes, whom it calls, whom it ends."""

import os
import platform
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from candidates import write_sample
from test_isolation import HEAD, RELU, impl, measure

from profkit.launch import walls

walled = pytest.mark.skipif(bool(walls.missing()), reason="no Landlock of this kind in this kernel")

TRIES = """
import os, socket, sys
from pathlib import Path
from profkit.launch import walls

def tried(what, act):
    try:
        act()
        print(what, "done")
    except OSError as error:
        print(what, type(error).__name__)

inside, outside, port, other = sys.argv[1:]
outside = Path(outside)
held = open(outside / "held", "w")
walls.put_up([inside])
tried("inside", lambda: Path(inside, "new").write_text("x"))
tried("child", lambda: os.system(f"echo x > {inside}/child && ! echo x > {outside}/child 2>/dev/null") and 1 / 0)
tried("write", lambda: Path(outside, "old").write_text("x"))
tried("new", lambda: Path(outside, "new").write_text("x"))
tried("folder", lambda: Path(outside, "folder").mkdir())
tried("link", lambda: os.symlink("/", outside / "link"))
tried("rename", lambda: os.rename(outside / "old", Path(inside, "stolen")))
tried("remove", lambda: os.unlink(outside / "old"))
tried("truncate", lambda: os.truncate(outside / "old", 0))
tried("read", lambda: Path(outside, "old").read_text())
tried("held", lambda: (held.write("x"), held.flush()))
tried("null", lambda: Path("/dev/null").write_text("x"))
tried("tcp", lambda: socket.create_connection(("127.0.0.1", int(port)), 5))
tried("bind", lambda: socket.socket().bind(("127.0.0.1", 0)))
tried("signal", lambda: os.kill(int(other), 0))
tried("itself", lambda: os.kill(os.getpid(), 0))
"""


@walled
def test_what_is_outside_is_read_and_not_changed(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "old").write_text("was")
    with socket.create_server(("127.0.0.1", 0)) as server:
        arguments = [str(inside), str(outside), str(server.getsockname()[1]), str(os.getpid())]
        said = subprocess.run([sys.executable, "-c", TRIES, *arguments], capture_output=True, text=True, check=False)
    found = dict(line.split() for line in said.stdout.splitlines())
    done = {"inside", "child", "read", "held", "null", "itself"}
    assert {what for what, how in found.items() if how == "done"} == done, said.stderr
    assert {how for what, how in found.items() if what not in done} <= {"PermissionError", "OSError"}
    assert (outside / "old").read_text() == "was"
    assert sorted(path.name for path in outside.iterdir()) == ["held", "old"]


OTHERS = """
import os, resource, subprocess
from profkit.launch import walls

other = subprocess.Popen(["sleep", "60"])
now = os.getpriority(os.PRIO_PROCESS, other.pid)
walls.gain_no_rights()
print("up", walls.keep_priorities())

def tried(what, act):
    try:
        act()
        print(what, "done")
    except OSError as error:
        print(what, type(error).__name__)

# Nothing would change, were it let through.
tried("other", lambda: os.setpriority(os.PRIO_PROCESS, other.pid, now))
tried("group", lambda: os.setpriority(os.PRIO_PGRP, other.pid, now))
tried("user", lambda: os.setpriority(os.PRIO_USER, 54321, now))
tried("higher", lambda: os.setpriority(os.PRIO_PROCESS, 0, -1))
tried("policy", lambda: os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0)))
tried("cores", lambda: os.sched_setaffinity(other.pid, os.sched_getaffinity(0)))
tried("limit", lambda: resource.prlimit(other.pid, resource.RLIMIT_CPU))
tried("lower", lambda: os.nice(1))
tried("own-cores", lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)))
tried("own-limit", lambda: resource.prlimit(0, resource.RLIMIT_CPU))
tried("child", lambda: subprocess.run(["true"], check=True))
other.kill()
"""


@pytest.mark.skipif(platform.machine() not in walls.MACHINES, reason="no numbers of this machine's calls")
def test_nobody_else_is_given_another_priority_other_cores_or_limits():
    said = subprocess.run([sys.executable, "-c", OTHERS], capture_output=True, text=True, check=False)
    found = dict(line.split() for line in said.stdout.splitlines())
    assert found.pop("up") == "True", said.stderr
    refused = {"other", "group", "user", "higher", "policy", "cores", "limit"}
    assert {what for what, how in found.items() if how == "PermissionError"} == refused
    assert {what for what, how in found.items() if how == "done"} == {"lower", "own-cores", "own-limit", "child"}


ATTACK = """
import os, signal, socket
from pathlib import Path

def attack():
    for name in {places!r}:
        try:
            Path(name).write_text("raise SystemExit")
            return f"wrote {{name}}"
        except PermissionError:
            continue
    logs = list(Path({runs!r}).rglob("*events.jsonl"))
    if not logs:
        return "found no events"
    for file in logs:
        for how in ("a", "w", "r+"):
            try:
                open(file, how).close()
                return f"opened {{file}}"
            except PermissionError:
                continue
        try:
            os.replace(__file__, file)
            return f"replaced {{file}}"
        except OSError:
            continue
    folder = Path(__file__).parent
    for beside in folder.iterdir():
        try:
            beside.write_text("raise SystemExit")
            return f"wrote {{beside}}"
        except PermissionError:
            continue
    for pid in {pids!r}:
        try:
            os.kill(pid, signal.SIGCONT)
            return f"ended {{pid}}"
        except PermissionError:
            continue
    try:
        socket.create_connection(("127.0.0.1", 9), 5)
    except PermissionError:
        return ""
    except OSError:
        pass
    return "called somebody"
"""


@walled
def test_a_candidate_stays_within_its_walls(tmp_path, monkeypatch):
    """Its sample, a neighbour, the run, the user's files and Python's stay as they were; it is right all the same."""
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bashrc").write_text("")
    monkeypatch.setenv("HOME", str(home))
    folder = write_sample(tmp_path, "honest")
    packages = Path(pytest.__file__).parents[1] / "profkit_was_here.pth"
    places = [str(folder / "honest.py"), str(folder / "new.py"), str(home / ".bashrc"), str(packages)]
    places += [str(tmp_path / "runs" / "stolen"), str(tmp_path / "anything")]
    attack = ATTACK.format(places=places, runs=str(tmp_path / "runs"), pids=[os.getpid(), os.getppid()])
    (folder / "attacker.py").write_text(
        f"{attack}{HEAD}    def forward(self, x):\n        if attack(): raise ValueError(attack())\n        return {RELU}\n"
    )
    before = (folder / "honest.py").read_text()
    run = measure(folder, tmp_path, counters="off")
    assert (impl(run, "attacker").status, impl(run, "attacker").reason) == ("ok", "")
    assert impl(run, "honest").status == "ok"
    assert (folder / "honest.py").read_text() == before
    assert not packages.exists()
    assert not [caveat for caveat in run.manifest.caveats if caveat.code == "walls"]


def test_a_kernel_that_lacks_walls_is_told_of(monkeypatch):
    for version, lacks in ((0, 3), (1, 2), (4, 1), (6, 0)):
        monkeypatch.setattr(walls, "version", lambda version=version: version)
        said = walls.caveat()
        assert len(walls.missing()) == lacks
        assert (said is None) == (lacks == 0)
        if said:
            assert said["code"] == "walls"
            assert "signals" in said["how_much"]
