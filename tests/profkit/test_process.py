"""Children: what they see, drained, timed out, excused for a reason, killed with all they started."""

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from profkit.errors import ProfkitError
from profkit.launch import process, waiting
from profkit.launch.environment import allowed, environment
from profkit.launch.live import Live


def start(code: str, log: Path, **options: object) -> process.Exit:
    return process.run([sys.executable, "-c", code], log=log, env=dict(os.environ), **options)  # type: ignore[arg-type]


def alive(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "cmdline").read_text("utf-8", "replace") and entry.name != str(os.getpid()):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_megabytes_do_not_block_and_are_bounded(tmp_path):
    done = start("for i in range(6000): print(i, 'z' * 1000)\nprint('the last line')", tmp_path / "log")
    assert done.code == 0
    assert "the last line" in done.tail
    assert (tmp_path / "log").stat().st_size < process.HEAD_BYTES + process.TAIL_BYTES + 200
    assert (tmp_path / "log").read_text().rstrip().endswith("the last line")


def test_grandchild_holding_the_pipe_does_not_delay_the_end(tmp_path):
    mark = f"97{os.getpid()}.5"
    done = start(f"import subprocess; subprocess.Popen(['sleep', '{mark}']); print('bye')", tmp_path / "log", limit=60)
    assert not done.hung
    assert done.code == 0
    assert alive(mark) == []


ON_SIGINT = """
import sys, time
print(sys.stdin.readline().strip(), sys.stdout.isatty(), flush=True)
try:
    print("beside", file=sys.stderr)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(1.5)
    print("checkpointed")
    sys.exit(3)
"""


@pytest.mark.parametrize("terminal", [False, True])
def test_a_programs_streams_and_its_first_interrupt_are_its_own(tmp_path, terminal):
    """What it prints is copied at once, where that goes to a terminal from a terminal; its exit code stays."""
    (tmp_path / "given").write_text("hello\n")
    ours, out = pty.openpty() if terminal else os.pipe()
    os.set_blocking(ours, False)
    with (tmp_path / "given").open() as given, (tmp_path / "beside").open("w") as beside:
        live = Live(out, beside.fileno(), given)

        def interrupt() -> None:
            while Path(beside.name).read_text() != "beside\n":
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        done = start(ON_SIGINT, tmp_path / "log", live=live)
    said = os.read(ours, 4096).decode()
    os.close(ours)
    os.close(out)
    assert (said.split(), done.code, live.signalled) == (["hello", str(terminal), "checkpointed"], 3, True)
    assert (tmp_path / "beside").read_text() == "beside\n"
    # Letters of two streams may come in any order.
    assert sorted("".join((tmp_path / "log").read_text().split())) == sorted("".join([*said.split(), "beside"]))


def test_interrupt_leaves_no_child(tmp_path):
    mark = f"96{os.getpid()}.5"
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        start(f"import subprocess; subprocess.run(['sleep', '{mark}'])", tmp_path / "log", limit=60)
    timer.join()
    assert alive(mark) == []


def test_missing_program_says_so(tmp_path):
    with pytest.raises(ProfkitError, match="cannot start /no/such/program"):
        process.run(["/no/such/program"], log=tmp_path / "log", env={})


@pytest.mark.parametrize(("then", "limit"), [("", 60), ("time.sleep(600)", 1.5)])
def test_a_daemon_with_another_session_and_no_environment_dies_with_its_ancestor(tmp_path, then, limit):
    mark = f"95{os.getpid()}.5"
    daemon = f"(setsid env -i /bin/sleep {mark} >/dev/null 2>&1 </dev/null &)"
    done = start(
        f"import subprocess, time; subprocess.run('{daemon}', shell=True); {then}", tmp_path / "log", limit=limit
    )
    assert done.hung if then else done.code == 0
    assert alive(mark) == []


def test_a_hang_waits_while_a_compiler_is_at_work(tmp_path):
    begun, since = tmp_path / "begun", []

    def limit(elapsed: float) -> float | None:
        since.extend([elapsed] if begun.exists() and not since else [])
        return since[0] + 0.3 if since else None

    work = f"import time; open({str(begun)!r}, 'w'); [0 for _ in iter(lambda: time.process_time() > 1.0, True)]"
    code = f"import subprocess, sys; subprocess.run(['cc1plus', '-c', {work!r}], executable=sys.executable); print('built')"
    done = start(code, tmp_path / "log", limit=limit)
    assert not done.hung
    assert "built" in done.tail
    assert start("import time; time.sleep(600)", tmp_path / "log", limit=lambda elapsed: 0.3).hung


def test_a_child_that_others_keep_from_running_gets_more_time(tmp_path, monkeypatch):
    said = []
    whole = waiting.Excuse.more
    monkeypatch.setattr(waiting, "state_of", lambda pid: "running")
    monkeypatch.setattr(waiting, "seconds_of", lambda pid: 0.0)
    monkeypatch.setattr(waiting.Excuse, "more", lambda self: said.append(whole(self)) or said[-1])
    ended = process.run(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        log=tmp_path / "log",
        env=dict(os.environ),
        limit=lambda _: 0.2,
    )
    assert ended.hung
    assert said[0] is True
    assert said[-1] is False


def test_a_child_that_is_given_up_gets_none(tmp_path, monkeypatch):
    monkeypatch.setattr(waiting.Excuse, "more", lambda self: True)
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    assert process.run(argv, log=tmp_path / "log", env=dict(os.environ), limit=lambda _: 0.0).hung


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


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "HF_TOKEN", "HF_HOME", "AWS_SECRET_ACCESS_KEY", "TORCH_API_KEY", "GITHUB_TOKEN", "MY_PASSWORD"],
)
def test_secrets_and_strangers_stay_here(name):
    assert allowed({name: "x"}) == {}


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "LC_ALL", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "TORCH_LOGS"]
    + ["TRITON_INTERPRET", "OMP_NUM_THREADS", "PYTHONHASHSEED", "TMPDIR", "PROFKIT_CACHE", "CXX", "MAX_JOBS"],
)
def test_what_is_of_use_goes_on(name):
    assert allowed({name: "x"}) == {name: "x"}


def test_relative_places_to_import_from_are_left_out(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", ".", "relative", "/somewhere"]))
    places = environment()["PYTHONPATH"].split(os.pathsep)
    assert "/somewhere" in places
    assert all(os.path.isabs(place) for place in places)
