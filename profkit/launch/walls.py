"""Restrict a candidate by the kernel: Landlock, and a seccomp filter.

Landlock restricts writing from Linux 5.13, TCP from 6.7, signals from 6.12; reading is free. The filter refuses changes
of priorities, and of other processes' cores and limits, on x86-64 and 64-bit ARM. Both need no privileges, hold for the
calling thread and its descendants, and cannot be removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import stat
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2
_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""Landlock's system calls, the same on all machines."""
_VERSION, _PATH_BENEATH = 1, 1
_WRITE_FILE, _TRUNCATE, _REFER = 1 << 1, 1 << 14, 1 << 13
_MAKE = sum(1 << bit for bit in range(4, 13))
"""Landlock rights: remove folders and files; make devices, folders, files, sockets, pipes, links."""
_TCP, _SIGNALS = 0b11, 0b10
NEEDS = {"what it writes": 1, "TCP": 4, "signals to other processes": 6}
"""What can be restricted, and the Landlock version it needs."""
_KEPT = ("mqueue", "hugepages")
"""Folders of /dev without write access. /dev/shm stays writable for semaphores and shared memory."""
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_NEVER = ((144, 119), (142, 118), (314, 274), (251, 30))
"""sched_setscheduler, sched_setparam, sched_setattr, ioprio_set: on x86-64, on 64-bit ARM."""
_ITSELF = ((203, 122), (302, 261))
"""sched_setaffinity, prlimit64, allowed for the caller (process 0)."""
_PRIORITY = (141, 140)
"""setpriority, allowed only to lower the caller's own priority."""


def version() -> int:
    """Landlock's version; 0 if the kernel lacks it or has it switched off."""
    try:
        return max(0, int(_libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))))
    except (OSError, AttributeError):
        return 0


def missing() -> list[str]:
    """Restrictions that this kernel lacks."""
    has = version()
    return [what for what, least in NEEDS.items() if has < least]


def caveat() -> dict[str, str] | None:
    """Caveat of a run with unrestricted candidates; None if they are restricted."""
    lacks = missing()
    told = {
        "what": "the operating system does not confine candidates",
        "how_much": f"not restricted: {', '.join(lacks)}",
        "fix": "use Linux 6.12 or newer with Landlock switched on, or a container",
        "code": "walls",
    }
    return told if lacks else None


def put_up(folders: Iterable[str | Path]) -> None:
    """Let this thread and its descendants write only into these folders and into devices.

    Restrictions that the kernel lacks are skipped. Raises OSError if it refuses a supported one.
    """
    gain_no_rights()
    keep_priorities()
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
        _called(_RESTRICT, ctypes.c_int(rules), ctypes.c_uint32(0))
    finally:
        os.close(rules)


def gain_no_rights() -> None:
    """Set no_new_privs, by which a server recognizes and refuses a candidate. Raises OSError."""
    if _libc().prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")


def keep_priorities() -> bool:
    """Refuse (EPERM) changes of priorities, others' cores and limits; False if unsupported."""
    if platform.machine() not in MACHINES:
        return False
    code = b"".join(struct.pack("=HBBI", *step) for step in _program(*MACHINES[platform.machine()]))
    steps = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(steps))
    return not _libc().prctl(_SET_SECCOMP, _FILTER, ctypes.c_char_p(program), 0, 0)


def _program(which: int, arch: int) -> list[tuple[int, int, int, int]]:
    """The filter: (operation, steps to skip if so, if not, value)."""
    load, equal, least, done = 0x20, 0x15, 0x35, 0x06
    # What a filter sees: the call's number at 0, the architecture at 4, arguments from 16.
    number, machine, *argument = ((load, 0, 0, at) for at in (0, 4, 16, 24, 32))
    refuse, allow = (done, 0, 0, 0x00050000 | errno.EPERM), (done, 0, 0, 0x7FFF0000)
    found = [machine, (equal, 1, 0, arch), allow, number]
    for numbers in _NEVER:
        found += [(equal, 0, 1, numbers[which]), refuse]
    for numbers in _ITSELF:
        found += [(equal, 0, 4, numbers[which]), argument[0], (equal, 1, 0, 0), refuse, allow]
    found += [(equal, 0, 7, _PRIORITY[which]), argument[0], (equal, 0, 4, 0), argument[1], (equal, 0, 2, 0)]
    return [*found, argument[2], (least, 0, 1, 1 << 31), refuse, allow]


def _devices() -> Iterator[str]:
    """Places that every program may write to: devices, /dev/shm, /proc/self, pipes of MPS."""
    with contextlib.suppress(OSError), os.scandir("/dev") as entries:
        for entry in entries:
            kind = entry.stat(follow_symlinks=False).st_mode
            # No disk, and no link, which may lead elsewhere.
            if entry.name not in _KEPT and not (stat.S_ISLNK(kind) or stat.S_ISBLK(kind)):
                yield entry.path
    yield "/proc/self"
    yield os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")


def _allow(rules: int, place: str | Path, rights: int) -> None:
    """Allow writes at or below a place; no-op if it does not exist."""
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
