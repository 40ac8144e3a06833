"""Guards one child: all its descendants end with it, in any session.

Runs as a separate program: `python -I -S warden.py PARENT PROGRAM [ARGUMENTS]`; profkit.launch.server puts one over
each of its forks. It adopts orphaned descendants (PR_SET_CHILD_SUBREAPER). It ends like the child, by the same signal
or code; asked to stop, it ends them all.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import sys
import time

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LIBC = ctypes.CDLL(None)
_PATIENCE = 2.0
_GRACE = 1.0
_CANNOT_START = 127


def with_parent(number: int) -> None:
    """Send this process a signal when the thread that started it ends; 0 for none."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def guard(parent: int = 0) -> None:
    """Continue only in a forked child; this process guards it and ends as it ends.

    parent: the process that started this one, if known; it may have ended already.
    """
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with_parent(signal.SIGTERM)
    if parent and os.getppid() != parent:
        os._exit(_CANNOT_START)
    me = os.getpid()
    # A signal for the whole group is the child's affair; this process waits until it has ended.
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
    child = os.fork()
    if not child:
        # From before anything is imported to its end: whoever kills this process has killed the child.
        with_parent(signal.SIGKILL)
        if os.getppid() != me:
            os._exit(_CANNOT_START)
        signal.signal(signal.SIGINT, interrupted)
        return
    for one in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, lambda *_: _stop(child))
    # The child's files are not this process's: a socket it closes has to be closed.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    status = _wait(child)
    _end_all()
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(me, number)
        time.sleep(1)
    os._exit(os.WEXITSTATUS(status))


def _become(argv: list[str]) -> None:
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, f"cannot start {argv[0]}: {os.strerror(error.errno or errno.ENOENT)}\n".encode())
        os._exit(_CANNOT_START)


def _wait(child: int) -> int:
    """The child's status; also reap orphans that end meanwhile."""
    while True:
        try:
            pid, status = os.wait()
        except InterruptedError:
            continue
        if pid == child:
            return status


def _stop(child: int) -> None:
    """Stop the child within _GRACE seconds, then kill all descendants."""
    signal.signal(signal.SIGALRM, lambda *_: _kill(child, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, _GRACE)
    _kill(child, signal.SIGTERM)


def _kill(child: int, number: signal.Signals) -> None:
    try:
        os.kill(child, number)
    except ProcessLookupError:
        return


def _end_all() -> None:
    """Kill descendants until none is left."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        left = _descendants()
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        time.sleep(0.005)


def _descendants() -> list[int]:
    """All descendants of this process, by the kernel's parent ids."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stream:
                    parents[int(name)] = int(stream.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
    found, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found, grown = found | more, bool(more)
    return sorted(found - {os.getpid()})


if __name__ == "__main__":
    guard(int(sys.argv[1]))
    _become(sys.argv[2:])
