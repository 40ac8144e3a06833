"""Who is late for a reason."""

import os
import subprocess
import sys
import time

from profkit.launch import waiting

SPIN = "print(flush=True)\nwhile True: pass"


def test_a_process_that_sleeps_has_no_excuse():
    code = "import time; print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        while waiting.state_of(child.pid) != "sleeping":
            time.sleep(0.01)
        excuse = waiting.Excuse(child.pid, 0.05, 10.0)
        time.sleep(0.3)
        assert excuse.left() == 0.0
        assert not excuse.more()
        child.kill()


def test_a_compiler_of_it_excuses_up_to_the_limit_of_a_build():
    with subprocess.Popen(["cc1plus", "-c", SPIN], executable=sys.executable, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        excuse = waiting.Excuse(os.getpid(), 0.05, 10.0)
        assert waiting.compiling(os.getpid())
        assert excuse.more()
        assert excuse.left() > 0
        over = waiting.Excuse(os.getpid(), 0.01, 0.01)
        time.sleep(0.05)
        assert waiting.compiling(os.getpid())
        assert not over.more() or over._starved(1.0)
        child.kill()


def test_a_process_that_spins_is_late_by_itself(monkeypatch):
    monkeypatch.setattr(waiting, "state_of", lambda pid: "running")
    burnt = iter([1.0, 1.9, 1.0, 1.1])
    monkeypatch.setattr(waiting, "seconds_of", lambda pid: next(burnt))
    assert not waiting.Excuse(1, 0.1, 1.0)._starved(1.0)
    assert waiting.Excuse(1, 0.1, 1.0)._starved(1.0)


def test_nobody_known_has_no_excuse():
    assert not waiting.compiling(0)
    assert not waiting.Excuse(0, 0.0, 10.0).more()
