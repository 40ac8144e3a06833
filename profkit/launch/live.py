"""Forward a program's streams and signals: stdin, live output, signals first."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from profkit.launch.waiting import descendants

with contextlib.suppress(ImportError):
    # On Linux alone; the module is loaded elsewhere as well.
    import fcntl
    import pty
    import termios

_ENDING = (signal.SIGINT, signal.SIGTERM)
_OTHERS = [getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGTSTP") if hasattr(signal, name)]
_APART = 1.0
"""Seconds within which a second SIGINT or SIGTERM is a duplicate: `timeout` sends two at once."""


class Live:
    """Streams of one program; output is copied to `out` and `err` (-1: nowhere).

    `outputs`: descriptors to read -> where each is copied; `theirs`: the program's ends. `signalled`: whether a signal
    was forwarded. stdin: a file instead of this process's stdin.
    """

    def __init__(self, out: int, err: int, stdin: Any = None) -> None:
        self.signalled = False
        self._stdin = stdin
        ours, theirs = _pair(out)
        self.outputs, self.theirs = {ours: out}, [os.fdopen(theirs, "wb", 0)]
        # What goes to one place keeps its order.
        if out != err and not os.path.sameopenfile(out, err):
            ours, theirs = _pair(err)
            self.outputs[ours] = err
            self.theirs.append(os.fdopen(theirs, "wb", 0))

    def options(self) -> Mapping[str, Any]:
        return {"stdin": self._stdin, "stdout": self.theirs[0], "stderr": self.theirs[-1]}

    def close(self) -> None:
        """Stop reading."""
        for output in self.outputs:
            os.close(output)

    @contextlib.contextmanager
    def signals(self, leader: int) -> Iterator[None]:
        """Forward signals to the program; a second SIGINT or SIGTERM is for this process."""
        if -1 in self.outputs.values() or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.getsignal(one) for one in (*_ENDING, *_OTHERS)}
        last = 0.0

        def passed_on(number: int, frame: FrameType | None) -> None:
            nonlocal last
            again, known = time.monotonic() - last, before[signal.Signals(number)]
            if number in _ENDING:
                if self.signalled and again > _APART and callable(known):
                    known(number, frame)
                if self.signalled and again <= _APART:
                    return
                self.signalled, last = True, time.monotonic()
            self._send(leader, signal.Signals(number))

        for one, known in before.items():
            # What is ignored here, as in a background job, is ignored there.
            if known is not signal.SIG_IGN:
                signal.signal(one, passed_on)
        try:
            yield
        finally:
            for one, known in before.items():
                signal.signal(one, known)

    def _send(self, leader: int, number: signal.Signals) -> None:
        send: Callable[[int, int], None] = os.killpg
        with contextlib.suppress(ProcessLookupError, OSError):
            if number == signal.SIGTSTP:
                os.killpg(leader, signal.SIGSTOP)
                os.kill(os.getpid(), signal.SIGSTOP)
                os.killpg(leader, signal.SIGCONT)
                return
            if number == signal.SIGWINCH:
                for ours, goes in self.outputs.items():
                    _as_wide(ours, goes)
            if number not in (signal.SIGINT, signal.SIGWINCH):
                # The guard would end everything; and a terminal sends these to no group.
                leader, send = descendants(leader)[0], os.kill
            send(leader, number)


def _pair(like: int) -> tuple[int, int]:
    """(read end, write end): a terminal if `like` is one, else a pipe."""
    if like < 0 or not os.isatty(like):
        return os.pipe()
    ours, theirs = pty.openpty()
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    _as_wide(ours, like)
    return ours, theirs


def _as_wide(ours: int, like: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.ioctl(ours, termios.TIOCSWINSZ, fcntl.ioctl(like, termios.TIOCGWINSZ, bytes(8)))
