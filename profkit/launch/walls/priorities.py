"""A seccomp filter: no changes of other processes' priority, cores or limits.

Landlock has no wall for these. Of its own priority a process may only make less. Nothing is asked and nothing told: the call
fails (EPERM). Needs no rights; on x86-64 and 64-bit ARM.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_LOAD, _EQUAL, _ATLEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
"""Offsets of the call's number, the architecture and the arguments in what a filter sees."""
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_NEVER = ((144, 119), (142, 118), (314, 274), (251, 30))
"""sched_setscheduler, sched_setparam, sched_setattr, ioprio_set: numbers on x86-64, on 64-bit ARM."""
_ITSELF = ((203, 122), (302, 261))
"""sched_setaffinity, prlimit64: the number 0 means the caller."""
_SETPRIORITY = (141, 140)
_BELOW_ZERO = 0x80000000


def put_up() -> bool:
    """From here on for this thread and all that it starts; False where it cannot be."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return False
    code = b"".join(struct.pack("=HBBI", *step) for step in _program(*machine))
    steps = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    return not libc.prctl(_SET_SECCOMP, _FILTER, ctypes.c_char_p(program), 0, 0)


def _program(which: int, arch: int) -> list[tuple[int, int, int, int]]:
    """The filter: (operation, steps to skip if so, if not, value)."""
    refuse, allow = (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)

    def argument(number: int) -> tuple[int, int, int, int]:
        return _LOAD, 0, 0, _ARGUMENTS + 8 * number

    found = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, arch), allow, (_LOAD, 0, 0, _NUMBER)]
    for numbers in _NEVER:
        found += [(_EQUAL, 0, 1, numbers[which]), refuse]
    for numbers in _ITSELF:
        found += [(_EQUAL, 0, 4, numbers[which]), argument(0), (_EQUAL, 1, 0, 0), refuse, allow]
    # Which kind of target, whose number, the new nice value.
    return [
        *found,
        (_EQUAL, 1, 0, _SETPRIORITY[which]),
        allow,
        argument(0),
        (_EQUAL, 0, 4, os.PRIO_PROCESS),
        argument(1),
        (_EQUAL, 0, 2, 0),
        argument(2),
        (_ATLEAST, 0, 1, _BELOW_ZERO),
        refuse,
        allow,
    ]
