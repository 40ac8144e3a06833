"""Walls by Landlock: restrict writing, TCP and signals of a candidate's process.

They hold for the thread that puts them up and all that it starts, and cannot be taken down. No rights are needed, but a
kernel that has them: files from Linux 5.13, TCP from 6.7, signals from 6.12. Reading is not restricted.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""Numbers of the system calls, the same on all machines."""
_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVS = 38
_WRITE_FILE, _TRUNCATE, _REFER = 1 << 1, 1 << 14, 1 << 13
_MAKE = sum(1 << bit for bit in range(4, 13))
"""To remove folders and files, and to make devices, folders, files, sockets, pipes and links."""
_TCP = 0b11
_SIGNALS = 0b10
NEEDS = {"what it writes": 1, "TCP": 4, "signals to other processes": 6}
"""What can be kept in, and from which version of the kernel's interface on."""
_KEPT = ("mqueue", "hugepages")
"""Folders of /dev that stay shut. In /dev/shm a program makes the semaphores and the memory that its processes share."""


def version() -> int:
    """The version of the kernel's interface; 0 where it has none, or has it switched off."""
    try:
        found = int(_libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION)))
    except (OSError, AttributeError):
        return 0
    return max(0, found)


def missing() -> list[str]:
    """Which walls this kernel cannot put up."""
    has = version()
    return [what for what, least in NEEDS.items() if has < least]


def caveat() -> dict[str, str] | None:
    """The caveat of a run with unrestricted candidates; None where they are restricted."""
    lacks = missing()
    if not lacks:
        return None
    return {
        "what": "candidates are not kept in by the kernel",
        "how_much": f"not restricted: {', '.join(lacks)}",
        "fix": "use Linux 6.12 or newer with Landlock switched on, or a container",
        "code": "walls",
    }


def gain_no_rights() -> None:
    """Never get rights again that a program may give, nor may what this process starts. Raises OSError."""
    if _libc().prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")


def put_up(folders: Iterable[str | Path]) -> None:
    """Let this thread, and what it starts, write only into these folders and into devices.

    What the kernel cannot keep in is not restricted. Raises OSError where it refuses what it should do.
    """
    has = version()
    if not has:
        return
    files = _WRITE_FILE | _MAKE | (_REFER if has >= 2 else 0) | (_TRUNCATE if has >= 3 else 0)
    handled = struct.pack("=QQQ", files, _TCP if has >= 4 else 0, _SIGNALS if has >= 6 else 0)
    size = 8 if has < 4 else 16 if has < 6 else 24
    rules = _called(_CREATE, handled, ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        for place in (*folders, *_devices()):
            _allow(rules, place, files)
        gain_no_rights()
        _called(_RESTRICT, ctypes.c_int(rules), ctypes.c_uint32(0))
    finally:
        os.close(rules)


def _devices() -> Iterator[str]:
    """Places that every program may write to: devices, /dev/shm, /proc/self, pipes of MPS."""
    with contextlib.suppress(OSError), os.scandir("/dev") as entries:
        yield from (entry.path for entry in entries if entry.name not in _KEPT and _is_open(entry))
    yield "/proc/self"
    yield os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")


def _is_open(entry: os.DirEntry[str]) -> bool:
    """Whether an entry of /dev may be written: no disk, and no link, which may lead elsewhere."""
    kind = entry.stat(follow_symlinks=False).st_mode
    return not (stat.S_ISLNK(kind) or stat.S_ISBLK(kind))


def _allow(rules: int, place: str | Path, rights: int) -> None:
    """Let what lies at or below a place be written; nothing where there is no such place."""
    try:
        at = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        file = not os.path.isdir(f"/proc/self/fd/{at}")
        # Of a file only what can be done to a file may be allowed.
        rule = struct.pack("=Qi", rights & (_WRITE_FILE | _TRUNCATE) if file else rights, at)
        _called(_ADD, ctypes.c_int(rules), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0))
    finally:
        os.close(at)


def _called(number: int, *arguments: object) -> int:
    found = int(_libc().syscall(number, *arguments))
    if found < 0:
        raise OSError(ctypes.get_errno(), f"Landlock: {os.strerror(ctypes.get_errno())}")
    return found


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
