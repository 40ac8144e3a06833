"""The server of one user that outlives a command: torch stays imported for the next one.

It is profkit.launch.server under a name: an abstract socket, which ends with its process, so nothing is left behind. The
name holds all that a fork inherits and cannot change; a command that finds no server of its name starts one and has the
others leave. Both ends ask the kernel for the peer: this user, and no process behind a candidate's walls, which can gain no
rights any more (no_new_privs), nor can its descendants.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import platform
import re
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from profkit._version import __version__
from profkit.launch import walls

IDLE = 900.0
"""Seconds without a command after which it leaves."""
FORK, LEAVE = b"?", b"!"
_SPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_STATUS = ("Umask", "Groups", "CapEff", "Seccomp")
_HOUSES = ("profkit", "collectors", "analyzers", "roofline")


def wanted(asked: bool | None = None) -> bool:
    """Whether a command uses it here: not in CI or tests unless asked.

    Never where a candidate could write into it, as without Landlock, or could not be told from a command.
    """
    usual = "CI" not in os.environ and "PYTEST_CURRENT_TEST" not in os.environ
    safe = walls.version() > 0 and _status(os.getpid()).get("NoNewPrivs") == "0"
    return safe and (usual if asked is None else asked)


def name(inherited: object) -> str:
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
    """When torch was installed, and the newest of the files that a server has imported."""
    root = Path(__file__).resolve().parents[2]
    newest = max(file.stat().st_mtime_ns for house in _HOUSES for file in (root / house).rglob("*.py"))
    torch = importlib.util.find_spec("torch")
    place = torch.origin if torch is not None else None
    return [str(root), newest, place, os.stat(place).st_mtime_ns if place else 0]


def listening(called: str) -> socket.socket | None:
    """A socket under this name; None where another has it."""
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
    """A line to the server of this name; None where there is none of this user's."""
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
    """Whether the other end is this user's and stands behind no walls."""
    pid, uid = peer(line)
    return uid == os.getuid() and pid > 0 and _status(pid).get("NoNewPrivs") == "0"


def peer(line: socket.socket) -> tuple[int, int]:
    """(process, user) of the other end, as the kernel knows them."""
    pid, uid, _ = struct.unpack("=iii", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def others_leave(called: str) -> None:
    """Ask the servers of this user that have another name to leave when they are done."""
    for other in running():
        if other != called and (line := joined(other)) is not None:
            with contextlib.closing(line), contextlib.suppress(OSError):
                line.send(LEAVE)


def running(beginning: str = "") -> Iterator[str]:
    """The names of this user's servers, which begin so."""
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError):
        table = Path("/proc/net/unix").read_text("utf-8", "replace")
        yield from sorted(set(re.findall(rf"@({re.escape(beginning or _beginning())}[0-9a-f]+)$", table, re.MULTILINE)))


def _status(pid: int) -> dict[str, str]:
    """What /proc says of a process; nothing when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
