"""Children that are forks of a server: the same in every respect as children with a start of their own."""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from test_process import alive

from profkit.launch import process, runner
from profkit.launch import warm as warming
from profkit.launch.environment import environment
from profkit.launch.protocol import BARE, Job
from profkit.launch.warm import Warm, _Server

# As the modules that are served: before Python 3.11 there is no -P, and they drop where they were started themselves.
RUN = """
import os, sys
if sys.version_info < (3, 11) and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]
exec(sys.argv[1])
"""
SEEN = """
import json, os, resource, signal, sys
print(json.dumps({
    "argv": sys.argv[2:], "cwd": os.getcwd(), "path": sys.path[0], "name": __name__, "env": dict(os.environ),
    "session": os.getsid(0) == os.getpid(), "group": os.getpgid(0) == os.getpid(), "stdin": os.read(0, 1).decode(),
    # Some libffi keep a descriptor of their own library.
    "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")
                  and "libffi" not in os.readlink(f"/proc/self/fd/{fd}")),
    "files": resource.getrlimit(resource.RLIMIT_NOFILE), "tty": sys.stdout.isatty(), "encoding": sys.stdout.encoding,
    "through": sys.stdout.write_through, "child": str(signal.getsignal(signal.SIGCHLD)),
    "wakeup": signal.set_wakeup_fd(-1), "kept": "kept" in sys.modules,
}))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a module `ran`, which executes its first argument, and one to be imported once, `kept`."""
    root = tmp_path_factory.mktemp("warm")
    (root / "ran.py").write_text(RUN)
    (root / "kept.py").write_text("import os, random, tempfile\npid, place = os.getpid(), tempfile.gettempdir()\n")
    return root


@pytest.fixture(scope="module")
def warm(place):
    with pytest.MonkeyPatch.context() as patch, closing(Warm(["kept"], {"ran"})) as starter:
        patch.setenv("PYTHONPATH", str(place))
        yield starter


@pytest.fixture(scope="module")
def lent(place):
    with (
        pytest.MonkeyPatch.context() as patch,
        closing(Warm(["kept"], {"ran"})) as own,
    ):
        patch.setenv("PYTHONPATH", str(place))
        with borrowing(own, PYTHONUNBUFFERED="1") as starter:
            yield starter
            assert any(one._started is None for one in starter._servers.values())


def borrowing(own, preload="kept", **variables):
    """Servers of another process that is lent the one of `own` for this environment."""
    name, lent = own.lend({**os.environ, **variables})
    return closing(Warm([preload], {"ran"}, lent={name: os.dup(lent)}))


@pytest.fixture(params=["forked", "forked of another's", "started"])
def start(request, warm, lent, place, monkeypatch, tmp_path):
    """start(code, *arguments, **options of process.run): the child's end, from a fork and from a start of its own."""
    monkeypatch.setenv("PYTHONPATH", str(place))
    ways = {"forked": warm, "forked of another's": lent, "started": process.guarded}
    monkeypatch.setattr(process, "start", ways[request.param])

    def run(code, *arguments, **options):
        argv = [*BARE, "ran", code, *arguments]
        return process.run(argv, log=tmp_path / "log", **{"env": {**os.environ, "PYTHONUNBUFFERED": "1"}, **options})

    return run


def test_a_fork_sees_what_a_process_of_its_own_sees(warm, place, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(place))
    ours, theirs = socket.socketpair()
    both = []
    for way in (warm, process.guarded):
        monkeypatch.setattr(process, "start", way)
        given = theirs.dup()
        ended = process.run(
            [*BARE, "ran", SEEN, "one", "two words"],
            log=tmp_path / "log",
            env={**os.environ, "PYTHONUNBUFFERED": "1", "MINE": "ä"},
            cwd=tmp_path,
            hand_over=[given],
        )
        assert ended.code == 0, ended.tail
        both.append(json.loads((tmp_path / "log").read_text()))
    ours.close()
    theirs.close()
    forked, started = both
    assert (forked.pop("kept"), started.pop("kept")) == (True, False)
    assert forked == started
    assert forked["argv"] == ["one", "two words"]
    assert forked["env"]["MINE"] == "ä"


def test_temporary_files_go_where_a_child_is_told(start, tmp_path):
    """Also where what its server has imported has asked for that place: torch's compiler does."""
    for place in (tmp_path / "one", tmp_path / "two"):
        place.mkdir()
        ended = start("import tempfile; print(tempfile.gettempdir())", env={**os.environ, "TMPDIR": str(place)})
        assert ended.tail == str(place)


def test_descriptors_of_any_number_arrive(start, tmp_path):
    """Also those that a fork would itself have used on the way: whoever has many files open hands over high numbers."""
    with open(os.devnull, "wb") as nowhere:
        given = [os.fdopen(fcntl.fcntl(nowhere, fcntl.F_DUPFD, at), "wb", 0) for at in (200, 201, 202, 203)]
    code = "import os; [os.write(int(one), b'x') for one in sys.argv[2:]]; print('all')"
    ended = start(code, *(str(one.fileno()) for one in given), hand_over=given)
    assert (ended.code, (tmp_path / "log").read_text()) == (0, "all\n"), ended.tail


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("print('bye')", 0),
        ("sys.exit(7)", 7),
        ("sys.exit('no')", 1),
        ("raise ValueError('no')", 1),
        ("import os; os._exit(9)", 9),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT),
    ],
)
def test_ends_are_told(start, code, exit_code):
    assert start(code).code == exit_code


def test_last_words_are_kept(start, tmp_path):
    ended = start("import os; print('out'); print('err', file=sys.stderr); os.system('echo shell'); 1 / 0")
    head = ["out", "err", "shell", "Traceback (most recent call last):"]
    assert (tmp_path / "log").read_text().splitlines()[:4] == head
    assert ended.tail.endswith("ZeroDivisionError: division by zero")


def test_what_hangs_is_killed_with_what_it_started(start):
    mark = f"92{os.getpid()}.5"
    code = (
        "import os, signal, subprocess, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"subprocess.Popen(['sleep', '{mark}'])\nsubprocess.Popen(['sleep', '{mark}'], start_new_session=True)\n"
        "time.sleep(600)"
    )
    ended = start(code, limit=1.0)
    assert ended.hung
    assert ended.signal == "SIGKILL"
    assert alive(mark) == []


def test_a_daemon_that_executed_nothing_is_found(start, tmp_path):
    """It has left session and parent, and no execve has written its variables where others can read them."""
    code = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        open(sys.argv[2], 'w').write(str(os.getpid()))\n        time.sleep(600)\n    os._exit(0)\nos.wait()\n"
        "while not os.path.exists(sys.argv[2]) or not open(sys.argv[2]).read(): time.sleep(0.01)"
    )
    assert start(code, str(tmp_path / "pid")).code == 0
    daemon = (tmp_path / "pid").read_text()
    status = Path(f"/proc/{daemon}/stat")
    assert not status.exists() or status.read_text().rpartition(") ")[2][0] in "ZX"


def test_too_much_memory_ends_it(start):
    code = "import time\nfood = []\nwhile True: food.append(bytearray(b'x' * (8 << 20))); time.sleep(0.01)"
    assert start(code, limit=60, memory=200 << 20).memory > 200 << 20


def test_many_at_once(warm, place, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(place))
    monkeypatch.setattr(process, "start", warm)
    ends = {}

    def one(number):
        argv = [*BARE, "ran", f"import kept, random; print(kept.pid, random.random()); sys.exit({number})"]
        ends[number] = process.run(argv, log=tmp_path / str(number), env=dict(os.environ)).code

    threads = [threading.Thread(target=one, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == {number: number for number in range(12)}
    said = [(tmp_path / str(number)).read_text().split() for number in range(12)]
    assert len({server for server, _ in said}) == 1
    assert len({drawn for _, drawn in said}) == 12, "nobody shares chance"


def test_what_is_read_early_gets_a_server_of_its_own(place, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(place))
    with closing(Warm(["kept"], {"ran"})) as warm:
        monkeypatch.setattr(process, "start", warm)
        servers = []
        for setting in ("1", "2", "1"):
            argv = [*BARE, "ran", "import kept; print(kept.pid)"]
            process.run(argv, log=tmp_path / "log", env={**os.environ, "OMP_NUM_THREADS": setting})
            servers.append((tmp_path / "log").read_text())
    assert servers[0] == servers[2] != servers[1]


def test_where_no_server_can_be_a_start_of_its_own_says_why(place, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(place))
    with closing(Warm(["no_such_module"], {"ran"})) as warm:
        monkeypatch.setattr(process, "start", warm)
        ended = process.run([*BARE, "ran", "print('here')"], log=tmp_path / "log", env=dict(os.environ))
    assert (ended.code, ended.tail) == (0, "here")


def test_after_a_killed_server_children_have_starts_of_their_own(place, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(place))
    with closing(Warm(["kept"], {"ran"})) as warm:
        monkeypatch.setattr(process, "start", warm)
        argv = [*BARE, "ran", "import kept, os, signal, time; os.kill(kept.pid, 9); time.sleep(600)"]
        assert process.run(argv, log=tmp_path / "log", env=dict(os.environ), limit=60).signal == "SIGKILL"
        argv = [*BARE, "ran", "print('kept' in sys.modules)"]
        assert process.run(argv, log=tmp_path / "log", env=dict(os.environ)).tail == "False"


@pytest.fixture
def begun(place, monkeypatch):
    """The servers that were started."""
    monkeypatch.setenv("PYTHONPATH", str(place))
    begun, start = [], _Server.start
    monkeypatch.setattr(_Server, "start", lambda *given: begun.append(start(*given)) or begun[-1])
    return begun


def test_a_server_that_was_begun_before_is_the_one_that_serves(begun, tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    with closing(Warm(["kept"], {"ran"})) as servers:
        servers.prepare(environment())
        monkeypatch.setattr(process, "start", servers)
        # As a worker, whose own environment has it, asks for a judge and for a candidate; then for another place.
        for gpu in ("GPU-1", "GPU-1", "GPU-2"):
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpu)
            argv = [*BARE, "ran", "print('here')"]
            env = runner._environment(tmp_path)
            assert process.run(argv, log=tmp_path / "log", env=env).tail == "here"
    assert len(begun) == 1


def test_a_judge_with_its_candidates_in_it_is_of_the_same_server(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    seen = []

    def run(*_, env, **__):
        seen.append(env)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner.process, "run", run)
    with pytest.raises(KeyboardInterrupt):
        runner.run_job(Job("measure", "I", []), tmp_path)
    with closing(Warm()) as servers:
        assert servers._key(seen[0]) == servers._key(runner._environment(tmp_path))


def test_what_begins_before_it_is_known_who_asks_serves_who_does(begun, monkeypatch):
    monkeypatch.setattr(process, "start", process.guarded)
    with warming.runners(environment()):
        assert len(begun) == 1
        with warming.runners(), warming.runners() as servers:
            assert servers is process.start
            assert servers.lend(environment())[1] == begun[0].control.fileno()
        assert len(begun) == 1
        assert begun[0]._started.poll() is None
    assert begun[0]._started.poll() is not None
    assert process.start is process.guarded


FULL = """
import os
real, server, forks = os.fork, os.getpid(), []

def fork():
    if os.getpid() == server and forks:
        raise BlockingIOError(11, "Resource temporarily unavailable")
    forks.append(os.getpid())
    return real()

os.fork = fork
"""


@pytest.mark.parametrize("whose", ["own", "another's"])
def test_where_there_is_no_room_for_one_more_process_what_runs_goes_on(place, tmp_path, monkeypatch, whose):
    """As where somebody's candidate has filled the machine with its own."""
    (place / "full.py").write_text(FULL)
    monkeypatch.setenv("PYTHONPATH", str(place))
    ends = []
    waits = "import os, time\nwhile not os.path.exists(sys.argv[2]): time.sleep(0.01)"

    with closing(Warm(["full"], {"ran"})) as full:

        def run(name, code, *more):
            with contextlib.ExitStack() as stack:
                warm = full
                if whose != "own":
                    warm = stack.enter_context(borrowing(full, "full"))
                argv = [*BARE, "ran", f"print('full' in sys.modules, flush=True)\n{code}", *more]
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(process, "start", warm)
                    ends.append((process.run(argv, log=tmp_path / name, env=dict(os.environ), limit=60), name))

        first = threading.Thread(target=run, args=("first", waits, str(tmp_path / "go")))
        first.start()
        while not (tmp_path / "first").exists() or not (tmp_path / "first").read_text():
            time.sleep(0.01)
        run("second", "")
        (tmp_path / "go").touch()
        first.join()
    assert [(ended.code, ended.tail, name) for ended, name in ends] == [(0, "False", "second"), (0, "True", "first")]


def test_a_server_that_still_imports_is_not_waited_for(place, monkeypatch):
    (place / "slow.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setenv("PYTHONPATH", str(place))
    began = time.monotonic()
    with closing(Warm(["slow"], {"ran"})) as servers:
        servers.prepare(dict(os.environ))
    assert time.monotonic() - began < 30


def test_servers_end_with_who_asked(place, tmp_path):
    code = (
        "import os, sys\nfrom profkit.launch import process\nfrom profkit.launch.warm import Warm\n"
        "from pathlib import Path\nprocess.start = Warm(['kept'], {'ran'})\n"
        "argv = [sys.executable, '-m', 'ran', 'import kept; print(kept.pid)']\n"
        "print(process.run(argv, log=Path(sys.argv[1]), env=dict(os.environ)).tail, flush=True)\nos._exit(0)"
    )
    root = Path(process.__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{root}"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "log")], capture_output=True, text=True, env=env, check=True
    )
    server = int(done.stdout)
    try:
        descriptor = os.pidfd_open(server)
    except ProcessLookupError:
        return
    with os.fdopen(descriptor) as ended:
        assert select.select([ended], [], [], 60)[0]


def test_a_request_that_is_too_long_is_not_sent():
    assert warming._fork(None, ["ran"], {"env": {"LONG": "x" * warming.MOST_BYTES}}) is None
