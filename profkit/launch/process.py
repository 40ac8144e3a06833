"""One child process: its own session, drained, watched, and killed with all descendants."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

from profkit.errors import CannotProfileError, ProfkitError
from profkit.launch import waiting
from profkit.launch.live import Live
from profkit.launch.protocol import LIMITS
from profkit.rundir.files import unwritable

HEAD_BYTES = 1 << 20
TAIL_BYTES = 1 << 16
_WARDEN = Path(__file__).with_name("warden.py")
_TICK = 0.02
_METER_TICK = 0.05
_KINDS = ("RssAnon", "RssShmem", "VmSwap")
_GRACE = 0.5


class Child(Protocol):
    """A started process. `returncode` is None until it has ended."""

    pid: int
    returncode: int | Any

    def poll(self) -> int | None: ...
    def wait(self) -> int: ...


Given = socket.socket | io.RawIOBase
"""Files and sockets to pass to a child."""


def demand_linux() -> None:
    """Raise CannotProfileError except on Linux."""
    if not sys.platform.startswith("linux"):
        raise CannotProfileError(
            f"cannot measure on {sys.platform}: isolating processes needs Linux",
            fix="measure on Linux (on Windows in WSL 2); reading, explaining, comparing and drawing runs works here",
        )


def guarded(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a process under its own warden, which adopts its orphans; options are Popen's."""
    return subprocess.Popen([sys.executable, "-I", "-S", str(_WARDEN), str(os.getpid()), *argv], **options)


start: Callable[..., Child] = guarded
"""Starts a process, with Popen's options; profkit.launch.warm replaces it for runners."""


@dataclass(frozen=True)
class Exit:
    """End of a child.

    `code` is negative for a signal; `wall` in seconds; `tail`: last output; `memory`: bytes in use when it was stopped
    for exceeding its limit, else 0.
    """

    code: int
    wall: float
    tail: str
    hung: bool = False
    memory: int = 0

    @property
    def signal(self) -> str:
        """Name of the signal that killed it, or ''; 128+n by a shell or ncu counts too."""
        number = -self.code if self.code < 0 else self.code - 128 if 128 < self.code < 160 else 0
        with contextlib.suppress(ValueError):
            return signal.Signals(number).name if number else ""
        return f"signal {number}"


class Spool:
    """A log file that keeps the first megabyte and the last 64 KiB of its input.

    Raises ProfkitError if it cannot be made; a full disk later loses only log text.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._stream = path.open("wb", buffering=0)
        except OSError as error:
            raise unwritable(path, error) from error
        self._count = 0
        self._tail = bytearray()

    def feed(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._stream.write(data[: max(0, HEAD_BYTES - self._count)])
        self._count += len(data)
        self._tail += data
        del self._tail[:-TAIL_BYTES]

    def close(self) -> None:
        with contextlib.suppress(OSError), self._stream:
            if (more := self._count - HEAD_BYTES) > 0:
                kept = bytes(self._tail[-more:])
                note = f"\n[... {more - len(kept)} bytes not kept ...]\n" if more > len(kept) else ""
                self._stream.write(note.encode() + kept)

    def last_lines(self, count: int = 12) -> str:
        text = self._tail.decode("utf-8", "replace")
        return "\n".join(line[:300] for line in text.strip().splitlines()[-count:])


Limit = float | Callable[[float], float | None] | None


def run(
    argv: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str],
    limit: Limit = None,
    cwd: Path | None = None,
    memory: int = 0,
    hand_over: Sequence[Given] = (),
    live: Live | None = None,
) -> Exit:
    """Start `argv`, copy its output to `log`, wait for its end.

    limit: seconds; or a function of the seconds since the start, polled many times a second, that returns the second
    after which the child counts as hung unless a compiler is at work; None for no limit. A hung child is killed with
    all its descendants; also on KeyboardInterrupt, which is raised again (with `live` on the second one). memory: limit
    in host bytes of the child and its descendants, without mapped files; 0 for none. hand_over: files and sockets for
    the child, closed here. live: a program's own streams and signals, closed here. Raises CannotProfileError except on
    Linux.
    """
    demand_linux()
    began = time.monotonic()
    with contextlib.ExitStack() as after:
        streams = after.enter_context(contextlib.closing(live or Live(-1, -1, subprocess.DEVNULL)))
        with contextlib.ExitStack() as theirs:
            for one in (*hand_over, *streams.theirs):
                theirs.callback(one.close)
            spool = after.enter_context(contextlib.closing(Spool(log)))
            fds = tuple(one.fileno() for one in hand_over)
            child = _started(argv, env, **streams.options(), cwd=cwd, pass_fds=fds)
        meter = Meter(child.pid, memory)
        try:
            with streams.signals(child.pid):
                hung = _follow(child, streams.outputs, spool, limit, began, meter)
        finally:
            # Everything of the session goes, also what a well-behaved child left running; nobody waits for that.
            kill_session(child.pid, grace=_GRACE if child.poll() is None and not meter.over else 0.0)
            child.wait()
            for output, copy in streams.outputs.items():
                while data := _read(output):
                    _fed(data, spool, copy)
    wall = time.monotonic() - began
    return Exit(child.returncode, wall, spool.last_lines(), hung, meter.over)


def _started(argv: Sequence[str], env: Mapping[str, str], **options: Any) -> Child:
    fix = "is it installed and executable?"
    if shutil.which(argv[0], path=env.get("PATH")) is None:
        why = os.strerror(errno.EACCES if os.path.exists(argv[0]) else errno.ENOENT)
        raise ProfkitError(f"cannot start {argv[0]}: {why}", fix=fix)
    try:
        return start(argv, env=env, start_new_session=True, **options)
    except OSError as error:
        fix = unwritable(argv[0], error).fix if error.errno == errno.EMFILE else fix
        raise ProfkitError(f"cannot start {argv[0]}: {error.strerror}", fix=fix) from error


def _follow(
    child: Child,
    outputs: Mapping[int, int],
    spool: Spool,
    limit: Limit,
    began: float,
    meter: Meter,
) -> bool:
    """Drain and watch until the child ends or exceeds its memory (False), or hangs (True)."""
    excuse, due, worker = waiting.Excuse(0, 0.0, 0.0), -1.0, child.pid
    with selectors.DefaultSelector() as selector:
        for output in outputs:
            os.set_blocking(output, False)
            selector.register(output, selectors.EVENT_READ)
        while child.poll() is None:
            if selector.get_map() and (ready := selector.select(_TICK)):
                for key, _ in ready:
                    data = _read(key.fd)
                    if data == b"":
                        selector.unregister(key.fd)
                    elif data:
                        _fed(data, spool, outputs[key.fd])
            elif not selector.get_map():
                time.sleep(_TICK)
            if meter.exceeded():
                return False
            elapsed = time.monotonic() - began
            deadline = limit(elapsed) if callable(limit) else None
            if isinstance(limit, (int, float)) and elapsed > limit:
                break
            if deadline is not None and deadline != due:
                if worker == child.pid:
                    # Looked for once: it takes a walk through all of /proc.
                    worker = next(iter(waiting.descendants(child.pid)), child.pid)
                excuse, due = waiting.Excuse(worker, deadline - elapsed, LIMITS["build"]), deadline
            if deadline is not None and not excuse.left() and (deadline <= 0 or not excuse.more()):
                break
    # On a busy machine it may have ended while it was looked at.
    return child.poll() is None


def _read(output: int) -> bytes | None:
    try:
        return os.read(output, 1 << 16)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno != errno.EIO:  # nobody has the terminal's other end
            raise
        return b""


def _fed(data: bytes, spool: Spool, copy: int) -> None:
    """Write to the log and to `copy` (-1: nowhere). Raises BrokenPipeError."""
    spool.feed(data)
    while data and copy >= 0:
        data = data[os.write(copy, data) :]


class Meter:
    """Samples the memory of a warden's descendants."""

    def __init__(self, leader: int, most: int) -> None:
        self._leader = leader
        self._most = most
        self._next = 0.0
        self.over = 0

    def exceeded(self) -> bool:
        """Whether memory exceeds its limit; `over` then holds the amount [B]."""
        now = time.monotonic()
        if self._most and now >= self._next:
            self._next = now + _METER_TICK
            found = sum(map(_memory, waiting.descendants(self._leader)))
            self.over = found if found > self._most else 0
        return bool(self.over)


def _memory(pid: int) -> int:
    """Bytes of memory of a process without mapped libraries; 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii", "replace")
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith(_KINDS))


def kill_session(leader: int, *, grace: float = _GRACE) -> None:
    """End the leader's session and all descendants: SIGTERM, `grace` seconds, SIGKILL."""
    family: set[int] = set()
    steps = [(signal.SIGTERM, grace)] if grace else []
    for name, pause in (*steps, (signal.SIGKILL, 2.0)):
        family |= _family(leader)
        # The warden goes last: whatever is orphaned until then becomes its child, and is found.
        alive = [pid for pid in sorted(family, key=lambda pid: pid == leader) if running(pid)]
        if not alive:
            return
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, name)
        end = time.monotonic() + pause
        while time.monotonic() < end and any(running(pid) for pid in family):
            time.sleep(_TICK)


def running(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    return waiting.state_of(pid) not in ("", psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def _family(leader: int) -> set[int]:
    """Processes of the leader's session, and all descendants."""
    found: set[int] = set()
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            # A leader that is gone may have left its number to a stranger, who leads another session.
            if os.getsid(one.pid) == leader:
                found |= {one.pid, *waiting.descendants(one.pid)}
    return found
