"""A fence round one process and what it starts: no signal, and no hand on the memory, of a process outside.

A filter of system calls (seccomp) is put over the process before anything of it runs; it stays whatever is executed. Calls
that could reach another process wait until its warden has looked at whom they are for: a process of the same family goes
through, any other is refused (EPERM) and told; so is a higher priority than the warden's for anybody. Needs no rights, but a kernel with user notification (Linux 5.5) on x86-64 or
64-bit ARM; where it is refused, nobody is fenced. Imports nothing of ours: the warden runs without our package.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import select
import signal
import socket
import struct
import threading

VARIABLE = "PROFKIT_FENCE"
"""Environment variable by which a warden is told to put up a fence: the descriptor of a pipe for what is refused."""
UP = "up"
"""The first line in that pipe, where there is a fence. Others are ACCUSED or TOLD, and a sentence."""
ACCUSED, TOLD = "!", "?"

_MOST_TOLD = 50
_DEEPEST = 64
_PR_SET_NO_NEW_PRIVS = 38
_SET_FILTER = 1
_SPEC_ALLOW_AND_LISTENER = 4 | 8
"""Without the first some kernels slow down a process that is filtered."""
_ALLOW, _ASK, _NOT_THERE = 0x7FFF0000, 0x7FC00000, 0x00050000 | errno.ENOSYS
_LOAD, _EQUAL, _ATLEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCH, _FIRST = 0, 4, 16
"""Offsets of the call's number, the architecture and the first argument in what a filter sees."""
_X32 = 0x40000000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE = 1
_QUESTION = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")

# name -> (number on x86-64, number on 64-bit ARM)
_CALLS = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_open": (434, 434),
    "prlimit64": (302, 261),
    "setpriority": (141, 140),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "ioprio_set": (251, 30),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "sched_setattr": (314, 274),
}
_SCHEDULES = {name for name in _CALLS if name.startswith("sched_") or name in ("migrate_pages", "move_pages")}
"""Calls that mean the caller itself by the number 0."""
_WHICH = {"setpriority": (0, 1, 2), "ioprio_set": (1, 2, 3)}
"""Calls whose first argument says what their second is a number of: a process, a group, a user."""
_PIDFD_SEND_SIGNAL = 424
_SECCOMP = (317, 277)
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_SIGNAL_AT = {"kill": 1, "tkill": 1, "tgkill": 2, "rt_sigqueueinfo": 1, "rt_tgsigqueueinfo": 2}
"""Which argument is the signal, of the calls that send one."""


class Fence:
    """One fence, made before its warden forks. report: the pipe of VARIABLE, which the child does not keep."""

    def __init__(self, report: int) -> None:
        self._report = report
        self._ours, self._theirs = socket.socketpair()
        self._listener = -1

    def put_up(self) -> None:
        """In the child: fence it in from now on; nothing happens where that cannot be."""
        os.close(self._report)
        self._ours.close()
        with self._theirs:
            listener = _filtered()
            if listener >= 0:
                socket.send_fds(self._theirs, [b"."], [listener])
                os.close(listener)

    def taken(self) -> list[int]:
        """In the warden: the descriptors it needs from now on, none where there is no fence."""
        self._theirs.close()
        with self._ours:
            word, given, _, _ = socket.recv_fds(self._ours, 1, 1)
        self._listener = given[0] if word and given else -1
        return [self._report, self._listener] if self._listener >= 0 else []

    def keep(self) -> None:
        """In the warden: answer what comes, in a thread of its own."""
        if self._listener >= 0:
            threading.Thread(target=_keep, args=(self._listener, self._report), daemon=True).start()


def _keep(listener: int, report: int) -> None:
    import fcntl  # on Linux alone; the module is loaded elsewhere as well

    warden, parent = os.getpid(), os.getppid()
    told: set[str] = set()
    os.write(report, f"{UP}\n".encode())
    while True:
        question = bytearray(_QUESTION.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, question)
        except OSError as error:
            # Who asked has ended meanwhile, or everybody has: newer kernels say the same of both, and say it for ever.
            if error.errno in (errno.ENOENT, errno.EINTR) and not _deserted(listener):
                continue
            return
        key, asker, _, number, _, _, *arguments = _QUESTION.unpack(question)
        said = _objection(_name(number), arguments, asker, warden, parent)
        if said and said not in told and len(told) < _MOST_TOLD:
            told.add(said)
            os.write(report, f"{said}\n".encode())
        answer = _ANSWER.pack(key, 0, -errno.EPERM, 0) if said else _ANSWER.pack(key, 0, 0, _CONTINUE)
        try:
            fcntl.ioctl(listener, _SEND, answer)
        except OSError:
            continue


def _deserted(listener: int) -> bool:
    """Whether nobody is left behind the fence."""
    asked = select.poll()
    asked.register(listener, select.POLLIN)
    return any(event & select.POLLHUP for _, event in asked.poll(0))


def _filtered() -> int:
    """The descriptor on which calls of this process are asked about from now on, -1 where there is no such thing."""
    machine = _MACHINES.get(platform.machine())
    if machine is None or _release() < (5, 5):
        return -1
    which, arch = machine
    code = b"".join(struct.pack("=HBBI", *step) for step in _program(which, arch))
    steps = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return -1
    return int(libc.syscall(_SECCOMP[which], _SET_FILTER, _SPEC_ALLOW_AND_LISTENER, ctypes.c_char_p(program)))


def _release() -> tuple[int, ...]:
    """(major, minor) of the kernel; (0,) when its name says nothing."""
    first = os.uname().release.split("-")[0].split(".")[:2]
    return tuple(int(part) for part in first) if all(part.isdigit() for part in first) else (0,)


def _program(which: int, arch: int) -> list[tuple[int, int, int, int]]:
    """The filter, for one machine: (operation, steps to skip if so, if not, value)."""
    numbers = [numbers[which] for name, numbers in _CALLS.items() if name != "prlimit64"]
    # Returns stand at the end: their distance from each step is known then.
    tests: list[tuple[int, int, str]] = [(_EQUAL, number, "ask") for number in numbers]
    tests.append((_EQUAL, _PIDFD_SEND_SIGNAL, "gone"))
    tests += [(_ATLEAST, _X32, "gone")] if which == 0 else []
    head = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, arch), (_RETURN, 0, 0, _NOT_THERE), (_LOAD, 0, 0, _NUMBER)]
    # A process asks for its own limits by the number 0.
    tail = [
        (_EQUAL, 0, 2, _CALLS["prlimit64"][which]),
        (_LOAD, 0, 0, _FIRST),
        (_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ASK),
        (_RETURN, 0, 0, _NOT_THERE),
    ]
    places = {"ask": len(tests) + 4, "gone": len(tests) + 5}
    middle = [(kind, places[goal] - at - 1, 0, value) for at, (kind, value, goal) in enumerate(tests)]
    return [*head, *middle, *tail]


def _name(number: int) -> str:
    which = _MACHINES[platform.machine()][0]
    return next((name for name, numbers in _CALLS.items() if numbers[which] == number), "")


def _objection(name: str, arguments: list[int], asker: int, warden: int, parent: int) -> str:
    """Why a call is refused: a line for the pipe; "" when it is not."""
    target = ctypes.c_int(arguments[1 if name == "ptrace" or name in _WHICH else 0]).value
    number = arguments[_SIGNAL_AT[name]] & 0xFFFFFFFF if name in _SIGNAL_AT else -1
    harmless = number == 0 or (name == "ptrace" and not arguments[0]) or (name == "prlimit64" and not arguments[2])
    harmless |= name in _SCHEDULES and target == 0
    if name in _WHICH:
        process, group, _ = _WHICH[name]
        which = arguments[0] & 0xFFFFFFFF
        harmless |= which == process and target == 0
        target = target if which == process else -(target or _group(asker)) if which == group else -1
    gone = target > 0 and not _status(target, "Tgid:")
    if _raises(name, arguments, asker):
        return f"{TOLD}{name} to a higher priority than others have"
    if harmless or gone or _own(target, asker, warden):
        return ""
    whose, ours = _whose(target, warden, parent)
    said = f"{name} on {whose}" if number < 0 else f"{_signal(number)} to {whose}"
    return f"{ACCUSED if ours and number >= 0 else TOLD}{said}"


def _raises(name: str, arguments: list[int], asker: int) -> bool:
    """Whether it is for more than the share of a core that everybody gets: a nice value below the warden's, real time."""
    if name == "setpriority":
        return ctypes.c_int(arguments[2]).value < os.getpriority(os.PRIO_PROCESS, 0)
    if name == "sched_setscheduler":
        return arguments[1] & 0xFFFF in _REAL_TIME
    if name != "sched_setattr":
        return False
    try:
        with open(f"/proc/{asker}/mem", "rb", buffering=0) as memory:
            memory.seek(arguments[1])
            size, policy, _, nice = _ATTRIBUTES.unpack(memory.read(_ATTRIBUTES.size))
    except (OSError, OverflowError, struct.error):
        return True
    return policy in _REAL_TIME or (size and nice < os.getpriority(os.PRIO_PROCESS, 0))


_REAL_TIME = (1, 2, 6)
"""Numbers of the policies first come first served, in turns, and by deadline."""
_ATTRIBUTES = struct.Struct("=IIQi")
"""The head of a sched_attr: its size, the policy, flags, the nice value."""


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _own(target: int, asker: int, warden: int) -> bool:
    """Whether a process, or every process of a group, descends from the warden."""
    if target > 0:
        return _descends(target, warden)
    if target == -1:
        return False
    return all(pid == warden or _descends(pid, warden) for pid in _members(-target or _group(asker)))


def _whose(target: int, warden: int, parent: int) -> tuple[str, bool]:
    """(who stands outside, in words; whether it is the judge, a neighbour or who started this run)."""
    if target == -1:
        return "every process there is", True
    outside = [target] if target > 0 else _members(-target)
    if warden in outside:
        return "the process that stands over it", False
    if any(pid == parent or _descends(pid, parent) or _descends(parent, pid) for pid in outside):
        return "another process of this run", True
    return "a process that is not of this run", False


def _members(group: int) -> list[int]:
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [pid for pid in pids if _group(pid) == group]


def _group(pid: int) -> int:
    """The process group, -1 when the process is gone."""
    try:
        return os.getpgid(pid)
    except OSError:
        return -1


def _descends(pid: int, ancestor: int) -> bool:
    """Whether a process (or the process of a thread) is below another one. One that is gone is below nobody."""
    pid = _status(pid, "Tgid:")
    for _ in range(_DEEPEST):
        pid = _status(pid, "PPid:")
        if pid in (0, ancestor):
            return pid == ancestor
    return False


def _status(pid: int, field: str) -> int:
    """A number of /proc/PID/status, 0 when the process is gone. Without a stream: each call that is asked about takes ten."""
    try:
        file = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        text = os.read(file, 1 << 12).decode("utf-8", "replace")
    except OSError:
        return 0
    finally:
        os.close(file)
    return int(text.partition(f"\n{field}")[2].split(maxsplit=1)[0] or 0) if f"\n{field}" in text else 0
