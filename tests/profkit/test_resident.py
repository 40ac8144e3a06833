"""The server that keeps torch imported for the next command: found again, replaced, killed, and out of a candidate's reach."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from test_warm import RUN

from profkit.doctor import place as where
from profkit.launch import process, walls
from profkit.launch import warm as resident
from profkit.launch.protocol import BARE
from profkit.launch.warm import Warm, _fork

pytestmark = pytest.mark.skipif(not walls.version(), reason="without Landlock there is none")
ROOT = Path(process.__file__).parents[2]


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """ask(code, **variables): (what a child of the lasting server says, the server's number), as a command would ask."""
    (tmp_path / "ran.py").write_text(RUN)
    (tmp_path / "kept.py").write_text("import os\npid = os.getpid()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    # Those that the user of these tests has are left alone.
    monkeypatch.setattr(resident, "_beginning", lambda: f"profkit-test-{os.getpid()}-")
    servers = set()

    def asked(code="pass", **variables):
        argv = [*BARE, "ran", f"import kept; print(kept.pid, flush=True); {code}"]
        with closing(Warm(["kept"], {"ran"}, lasting=True)) as warm, pytest.MonkeyPatch.context() as patch:
            patch.setattr(process, "start", warm)
            ended = process.run(argv, log=tmp_path / "log", env={**os.environ, **variables}, limit=60)
        server, _, said = ended.tail.partition("\n")
        servers.add(int(server))
        return said, int(server)

    yield asked
    for server in servers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)


def gone(server, seconds=30):
    """Whether a process ends within a time."""
    try:
        descriptor = os.pidfd_open(server)
    except ProcessLookupError:
        return True
    with os.fdopen(descriptor) as ended:
        return bool(select.select([ended], [], [], seconds)[0])


def test_the_next_command_finds_it_and_the_doctor_names_it(ask):
    _, first = ask()
    said, second = ask("print(os.getcwd())")
    assert first == second
    assert said == os.getcwd()
    assert str(first) in next(where.servers()).what


def test_what_a_fork_inherits_makes_another_and_the_one_before_leaves(ask):
    _, first = ask()
    _, other = ask(OMP_NUM_THREADS="3")
    assert first != other
    assert gone(first)
    assert not gone(other, 0)


def test_killed_it_leaves_nothing_and_the_next_command_works(ask):
    for code in ("pass", "import time; os.kill(kept.pid, 9); time.sleep(600)"):
        _, server = ask(code)
        if code == "pass":
            os.kill(server, signal.SIGKILL)
        assert gone(server)
        assert not [*resident.running()]
    assert ask("print('here')")[0] == "here"


def test_who_is_behind_walls_is_not_served(ask):
    """Nor is it believed when it stands where a server is looked for."""
    _, server = ask()
    (name,) = (one for one in resident.running() if resident.peer(resident.joined(one))[0] == server)
    tries = (
        "import os, sys\nfrom profkit.launch import warm as resident\nfrom profkit.launch import walls\n"
        "from profkit.launch.warm import _fork\nwalls.gain_no_rights()\n"
        "options = {'env': dict(os.environ), 'stdout': sys.stderr}\n"
        "print(_fork(resident.joined(sys.argv[1]), ['ran', 'pass'], options))\n"
        "door = resident.listening('profkit-test-false')\nprint('up', flush=True)\nsys.stdin.read()"
    )
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ['PYTHONPATH']}"}
    argv = [sys.executable, "-c", tries, name]
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as walled:
        assert [walled.stdout.readline().strip() for _ in range(2)] == ["None", "up"]
        assert resident.joined("profkit-test-false") is None
        walled.stdin.close()
    line = resident.joined(name)
    forked = _fork(line, ["ran", "pass"], {"env": dict(os.environ), "stdout": sys.__stderr__})
    assert forked.wait() == 0, "others are"


def test_children_end_with_the_command_that_asked_and_the_server_stays(ask, tmp_path):
    _, server = ask()
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom profkit.launch import process, warm as resident\n"
        "from profkit.launch.warm import Warm\nresident._beginning = lambda: f'profkit-test-{os.getppid()}-'\n"
        "process.start = Warm(['kept'], {'ran'}, lasting=True)\nsource = \"import kept, os, sys, time; \"\n"
        "source += \"open(sys.argv[2], 'w').write(f'{os.getpid()} {kept.pid}'); time.sleep(600)\"\n"
        "argv = [sys.executable, *sys.argv[3:], 'ran', source, sys.argv[1]]\n"
        "env = {**os.environ, 'PYTHONPATH': os.environ['ONLY']}\n"
        "process.run(argv, log=Path(sys.argv[2]), env=env)"
    )
    told, only = tmp_path / "pid", os.environ["PYTHONPATH"]
    env = {**os.environ, "PYTHONPATH": f"{only}{os.pathsep}{ROOT}", "ONLY": only}
    with subprocess.Popen([sys.executable, "-c", code, str(told), str(tmp_path / "log2"), *BARE[1:]], env=env) as asker:
        while not (told.exists() and told.read_text()):
            assert asker.poll() is None
            time.sleep(0.01)
        child, of = map(int, told.read_text().split())
        assert of == server
        asker.kill()
        assert gone(child)
    assert not gone(server, 0)


def test_it_leaves_when_nobody_has_asked_for_long():
    code = (
        "import sys\nfrom profkit.launch import server, warm as resident\nresident.IDLE = 0.2\nserver._PLACE = 0\n"
        "server._main(*sys.argv[1:])"
    )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    argv = [sys.executable, "-c", code, str(theirs.fileno()), str(os.getpid()), f"profkit-{os.getuid()}-0d1e"]
    with subprocess.Popen(argv, pass_fds=[theirs.fileno()], cwd=ROOT) as server:
        theirs.close()
        time.sleep(0.5)
        assert server.poll() is None, "somebody may ask"
        ours.close()
        assert server.wait(60) == 0


@pytest.mark.parametrize(("asked", "used"), [(None, False), (True, True)])
def test_in_tests_and_ci_it_is_asked_for(monkeypatch, asked, used):
    monkeypatch.setenv("CI", "true")
    assert resident.wanted(asked) is used
