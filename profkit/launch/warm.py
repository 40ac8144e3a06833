"""Start runners as forks of a process that has already imported torch.

    with warm.runners():           # inside, profkit.launch.process starts runners this way

profkit.launch.server imports and waits; a child is a fork of it with its own session, directory, variables, descriptors
and limits. Settings that a library reads on import, and settings that a process inherits, are fixed when a server
starts, so each combination has its own server. Programs other than runners are started as usual.

A lasting server outlives a command, under a name: an abstract socket, which disappears with its process. The name
contains all that a fork inherits and cannot change; a command that finds no server of its name starts one and asks the
others to exit. Both ends check the peer: the same user, and no process restricted as a candidate (no_new_privs), nor
any of its descendants.

Each child has a socket pair to the process that requested it: its process id comes back, then its exit code. If the
socket closes without a code, the server was killed, and the child with it; later children are started normally. A
child ends with the requesting process. Several processes may share a server: see `Warm.lend`.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import platform
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from profkit._version import __version__
from profkit.launch import process, walls
from profkit.launch.process import Child, guarded
from profkit.launch.protocol import BARE, LIMITS

MODULES = ("profkit.judge", "profkit.torch_tools.ceilings")
PRELOAD = (
    "torch",
    "numpy.random",
    "torch.utils.flop_counter",
    "profkit.judge.session",
    "profkit.guest.candidate",
    "setuptools",
)
"""Modules that most jobs import, if installed, and that do not change torch."""
EARLY = re.compile(
    "ATEN_|CUBLAS|CUDA_|CUDNN_|DNNL_|GLIBC_|GOMP_|KMP_|LANG|LC_|LD_|MALLOC_|MKL_|NUMEXPR_|NUMPY_|NVIDIA_|OMP_|ONEDNN_|"
    "OPENBLAS_|PYTHON|PYTORCH_|SETUPTOOLS_|TORCH|TZ"
)
"""Prefixes of variables that torch may read on import."""
_LATE = ("TORCH_EXTENSIONS_DIR", "TORCH_CUDA_ARCH_LIST", "CUDA_VISIBLE_DEVICES")
"""Exceptions: variables first read when building or starting CUDA, which no server does."""
MOST_FDS, MOST_BYTES = 64, 1 << 18
"""Limits of a request; a longer one starts its child normally."""
NUMBER = struct.Struct("=i")
IDLE = 900.0
"""Seconds without a command after which a lasting server exits."""
LEAVE = b"!"
"""Message to a server: exit when done. Any other message is a request."""
_SPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_STATUS = ("Umask", "Groups", "CapEff", "Seccomp")
_HOUSES = ("profkit", "collectors", "analyzers", "roofline")


class Request(msgspec.Struct):
    """One child: module, arguments, directory, variables, and numbers of its descriptors."""

    module: str
    arguments: list[str]
    cwd: str
    env: dict[str, str]
    descriptors: list[int]


class Forked:
    """A server's child with the interface of subprocess.Popen. Not thread-safe."""

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._line = line

    def poll(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        with contextlib.suppress(BlockingIOError):
            self._hear(socket.MSG_DONTWAIT)
        return self.returncode

    def wait(self) -> int:
        """Wait for the exit code."""
        self._hear(0)
        return -signal.SIGKILL if self.returncode is None else self.returncode

    def _hear(self, flags: int) -> None:
        if self.returncode is None:
            code = _received(self._line, flags)
            self.returncode = -signal.SIGKILL if code is None else code
            self._line.close()


def _received(line: socket.socket, flags: int = 0) -> int | None:
    """Next number from a socket, None at its end. Raises OSError."""
    try:
        word = line.recv(NUMBER.size, flags)
    except ConnectionError:
        return None
    return NUMBER.unpack(word)[0] if word else None


class Warm:
    """Starter like subprocess.Popen: children of `modules` are forks of servers. Thread-safe.

    `preload`: what a server imports. lent: name of another process's server -> its inherited descriptor; see `lend`.
    lasting: use servers that this user's next command can use too.
    """

    def __init__(
        self,
        preload: Sequence[str] = PRELOAD,
        modules: Collection[str] = MODULES,
        *,
        lent: Mapping[str, int] | None = None,
        lasting: bool = False,
    ) -> None:
        self._lasting = lasting
        self.told: Callable[[str], None] = lambda _: None
        self._preload, self._modules = tuple(preload), modules
        self._servers: dict[object, _Server] = {}
        self._lock = threading.Lock()
        self._lent = dict(lent or {})

    def __call__(self, argv: Sequence[str], **options: Any) -> Child:
        """`options`: those of process.run. Raises OSError as Popen does."""
        asked = list(argv[len(BARE) :])
        if list(argv[: len(BARE)]) == BARE and asked[:1] and asked[0] in self._modules:
            server = self._server(options["env"])
            if not server.served:
                server.served = True
                self.told("importing torch")
            # One that was killed, or has no room for one more process, gives none: a start of its own then shows why.
            if (forked := _fork(server.control, asked, options)) is not None:
                return forked
        return guarded(argv, **options)

    def prepare(self, env: Mapping[str, str]) -> None:
        """Start a server's imports before the first child with this environment is requested."""
        with contextlib.suppress(OSError):
            self._server(env)

    def lend(self, env: Mapping[str, str]) -> tuple[str, int]:
        """(name, descriptor) of the server for this environment, for `lent` in a child process."""
        return _named(self._key(env)), self._server(env).control.fileno()

    def close(self) -> None:
        """End the servers and their running children."""
        with self._lock:
            while self._servers:
                self._servers.popitem()[1].close()

    def _server(self, env: Mapping[str, str]) -> _Server:
        key = self._key(env)
        with self._lock:
            if key not in self._servers:
                self._servers[key] = self._found(key, env)
            return self._servers[key]

    def _key(self, env: Mapping[str, str]) -> object:
        """Everything that a fork inherits and cannot change."""
        import resource  # on Linux alone; the module is loaded elsewhere as well

        early = {k: v for k, v in env.items() if EARLY.match(k) and k not in _LATE}
        limits = tuple(resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_"))
        return tuple(sorted(early.items())), tuple(sorted(os.sched_getaffinity(0))), limits

    def _found(self, key: object, env: Mapping[str, str]) -> _Server:
        """A lent server, one left by an earlier command, or a new one."""
        if (lent := self._lent.pop(_named(key), None)) is not None:
            return _Server(socket.socket(fileno=lent), served=True)
        if not self._lasting:
            return _Server.start(env, self._preload)
        name = _lasting_name((key, self._preload))
        if (line := joined(name)) is not None:
            return _Server(line, served=True)
        for other in map(joined, running()):
            if other is not None:
                with contextlib.closing(other), contextlib.suppress(OSError):
                    other.send(LEAVE)
        return _Server.start(env, self._preload, name)


def _named(key: object) -> str:
    return hashlib.sha256(repr(key).encode()).hexdigest()[:32]


class _Server:
    """One server behind its socket for requests.

    `served`: whether a child was ever requested. started: by this process, to end with it.
    """

    def __init__(self, control: socket.socket, started: subprocess.Popen[bytes] | None = None, *, served: bool) -> None:
        self.control, self._started, self.served = control, started, served

    @classmethod
    def start(cls, env: Mapping[str, str], preload: Sequence[str], name: str = "") -> _Server:
        """Start a server; with a `name` others can find it, and it outlives this process."""
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            started = subprocess.Popen(
                [*BARE, "profkit.launch.server", str(theirs.fileno()), str(os.getpid()), name, *preload],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=env,
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
        return cls(control, None if name else started, served=False)

    def close(self) -> None:
        """Kill the server and its children; a server shared with others stays."""
        self.control.close()
        if self._started is not None:
            self._started.kill()
            self._started.wait()


def _fork(control: socket.socket, argv: Sequence[str], options: Mapping[str, Any]) -> Forked | None:
    """Request a child from the server behind `control`; None on failure."""
    given = tuple(options.get("pass_fds", ()))
    where, env = str(options.get("cwd") or os.getcwd()), dict(options["env"])
    request = msgspec.json.encode(Request(argv[0], list(argv[1:]), where, env, list(given)))
    if len(request) >= MOST_BYTES:
        return None
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            socket.send_fds(control, [request], [theirs.fileno(), options["stdout"].fileno(), *given])
        ours.settimeout(LIMITS["start"])
        pid = _received(ours)
        if pid is None:
            raise ConnectionError("the server has ended")
        ours.settimeout(None)
    except BaseException as error:
        # The server ends a child that was forked already, whose line has ended.
        ours.close()
        if isinstance(error, OSError):
            return None
        raise
    return Forked(pid, ours)


@contextlib.contextmanager
def runners(
    begun: Mapping[str, str] | None = None, told: Callable[[str], None] | None = None, *, lasting: bool = False
) -> Iterator[Any]:
    """Start runners as forks inside the block, unless decided otherwise; yield the starter.

    torch is imported once for all of them. begun: environment for a server that imports at once, before any request.
    told: called with the reason a child waits. lasting: use the server that stays for the next command.
    """
    if isinstance(process.start, Warm) and told is not None:
        process.start.told = told
    if process.start is not process.guarded:
        yield process.start
        return
    with contextlib.closing(Warm(lasting=lasting)) as own:
        process.start = own
        try:
            # Elsewhere the command itself says that it measures on Linux alone.
            if begun is not None and sys.platform.startswith("linux"):
                own.prepare(begun)
            own.told = told or own.told
            yield own
        finally:
            process.start = process.guarded


def wanted(asked: bool | None = None) -> bool:
    """Whether a command uses a lasting server: by default not in CI or tests.

    Never if a candidate could write to it (no Landlock), or could pass for a command.
    """
    usual = "CI" not in os.environ and "PYTEST_CURRENT_TEST" not in os.environ
    safe = walls.version() > 0 and _status(os.getpid()).get("NoNewPrivs") == "0"
    return safe and (usual if asked is None else asked)


def _lasting_name(inherited: object) -> str:
    """Server name for this interpreter, these sources and inherited settings."""
    mine = _status(os.getpid())
    links = [os.readlink(f"/proc/self/ns/{space}") for space in _SPACES if os.path.exists(f"/proc/self/ns/{space}")]
    group = Path("/proc/self/cgroup").read_text("utf-8") if os.path.exists("/proc/self/cgroup") else ""
    told = [__version__, sys.executable, sys.version, platform.node(), _sources(), links, group, os.nice(0)]
    told += [[mine.get(one) for one in _STATUS], inherited]
    return _beginning() + hashlib.sha256(repr(told).encode()).hexdigest()[:32]


def _beginning() -> str:
    return f"profkit-{os.getuid()}-"


def _sources() -> list[object]:
    """Installation time of torch, and the newest of the files that a server has imported."""
    root = Path(__file__).resolve().parents[2]
    newest = max(file.stat().st_mtime_ns for house in _HOUSES for file in (root / house).rglob("*.py"))
    torch = importlib.util.find_spec("torch")
    place = torch.origin if torch is not None else None
    return [str(root), newest, place, os.stat(place).st_mtime_ns if place else 0]


def listening(called: str) -> socket.socket | None:
    """Listen on a socket of this name; None if another process does."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        found.bind(f"\0{called}")
        found.listen()
        found.setblocking(False)
    except OSError:
        found.close()
        return None
    return found


def joined(called: str) -> socket.socket | None:
    """Connect to this user's server of this name; None without one."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        line.connect(f"\0{called}")
        if trusted(line):
            return line
    except OSError:
        pass
    line.close()
    return None


def trusted(line: socket.socket) -> bool:
    """Whether the peer is this user's and unrestricted."""
    pid, uid = peer(line)
    return uid == os.getuid() and pid > 0 and _status(pid).get("NoNewPrivs") == "0"


def peer(line: socket.socket) -> tuple[int, int]:
    """(process, user) of the peer, by the kernel."""
    pid, uid, _ = struct.unpack("=iii", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def running(beginning: str = "") -> Iterator[str]:
    """Names of this user's servers with this prefix."""
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError):
        table = Path("/proc/net/unix").read_text("utf-8", "replace")
        yield from sorted(set(re.findall(rf"@({re.escape(beginning or _beginning())}[0-9a-f]+)$", table, re.MULTILINE)))


def _status(pid: int) -> dict[str, str]:
    """The lines of /proc/PID/status; empty if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
