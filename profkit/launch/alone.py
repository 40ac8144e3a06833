"""A lock for each device: one measurement at a time, across all processes of this machine.

The kernel's locks die with their owner and are never stale. The files lie where every user of the machine finds them. One
a device is for its counters. Two are for its time, the lock and a gate before it: samples that share the device pass the
gate one by one, and find it closed from when one of them wants the device alone until it is done.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from profkit.rundir.files import unwritable

with contextlib.suppress(ImportError):
    import fcntl  # on Linux alone; the module is loaded elsewhere as well

CPU = "cpu"
COUNTERS_WAIT = 600.0
"""Seconds to wait for a device's counters at most: their holder may itself wait for a measurement under it."""
_LOOK = 0.1
"""Seconds between two looks whether the counters are free."""


def folder() -> Path:
    """Where the locks of this machine's devices lie."""
    return Path(tempfile.gettempdir()) / "profkit-locks"


def named(device: str) -> str:
    """A device's name in a process with another temporary directory: where its locks lie here."""
    return str(_stem(device)) if device else ""


def _stem(device: str) -> Path:
    return Path(device) if os.path.isabs(device) else folder() / re.sub(r"[^A-Za-z0-9.-]+", "-", device)


@contextlib.contextmanager
def alone(device: str, say: Callable[[str], None] = lambda _: None, *, shared: bool = False) -> Iterator[None]:
    """Have a device (its UUID, or CPU) to oneself in the block; waiting for it is said once.

    shared: for work that only has to stay away from measurements. Raises ProfkitError when the lock cannot be made.
    """

    def waits() -> None:
        say(f"waiting: another process measures on {device}")

    with contextlib.closing(Door.of(device)) as door:
        if shared:
            _take(door.main, fcntl.LOCK_SH, waits)
        else:
            door.alone(waits)
        yield


@contextlib.contextmanager
def counting(device: str, say: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Have the hardware counters of a device to oneself in the block.

    device: its UUID, "" where none is known. A driver lends counters to one at a time, and ncu waits only for processes with
    the same temporary directory, where profkit's each have their own. Waits COUNTERS_WAIT seconds at most, which is said once;
    ncu then says itself that they are taken. Raises ProfkitError when the lock cannot be made.
    """
    if not device:
        yield
        return
    handle = _opened(device, "counters")
    end, waits = time.monotonic() + COUNTERS_WAIT, functools.cache(say)
    try:
        while time.monotonic() < end:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waits(f"waiting: another process counts on {device}")
                time.sleep(_LOOK)
        yield
    finally:
        os.close(handle)


@dataclass(frozen=True)
class Door:
    """A device that several share while they prepare, and that one has alone while it times.

    main, gate: descriptors of its two files, common to the processes of one measurement: what one of them holds they all hold.
    """

    main: int
    gate: int

    @classmethod
    def of(cls, device: str) -> Door:
        """Of a device (its UUID, or CPU). Raises ProfkitError when its files cannot be made."""
        with contextlib.ExitStack() as stack:
            main = _opened(device, "lock")
            stack.callback(os.close, main)
            gate = _opened(device, "gate")
            stack.pop_all()
        return cls(main, gate)

    def share(self, waits: Callable[[], None] = lambda: None) -> None:
        """Use the device beside others, after every waiting `alone`. `waits` is called first."""
        self._through(waits, fcntl.LOCK_EX, fcntl.LOCK_SH)
        fcntl.flock(self.gate, fcntl.LOCK_UN)

    def alone(self, waits: Callable[[], None] = lambda: None) -> None:
        """Lock the device alone for long; processes that share it see `wanted` and release it."""
        self._through(waits, fcntl.LOCK_EX, fcntl.LOCK_EX)
        fcntl.flock(self.gate, fcntl.LOCK_UN)

    def turn(self, waits: Callable[[], None] = lambda: None) -> None:
        """Use the device alone for a moment.

        Others that want a turn are next, and only then the sharing ones: they stand still once for all of them. Share again
        before the next turn, so that this comes to an end.
        """
        self._through(waits, fcntl.LOCK_SH, fcntl.LOCK_EX)

    def _through(self, waits: Callable[[], None], gate: int, main: int) -> None:
        """Let go of the device, and have it again behind the gate; waiting at both is said once."""
        waits = functools.cache(waits)
        fcntl.flock(self.main, fcntl.LOCK_UN)
        _take(self.gate, gate, waits)
        _take(self.main, main, waits)

    def leave(self) -> None:
        """Give up the device, and the gate if its last holder died with it closed."""
        fcntl.flock(self.gate, fcntl.LOCK_UN)
        fcntl.flock(self.main, fcntl.LOCK_UN)

    @property
    def wanted(self) -> bool:
        """Whether another process waits to be alone, which `share` lets go first.

        Rarely it is another on its way to share, which has passed in a moment.
        """
        try:
            fcntl.flock(self.gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self.gate, fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        """Close this process's descriptors; locks that another process has open stay held."""
        os.close(self.main)
        os.close(self.gate)


def _take(handle: int, how: int, waits: Callable[[], None]) -> None:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        waits()
        fcntl.flock(handle, how)


def _opened(device: str, kind: str) -> int:
    """A descriptor of a device's file of this kind, which is made for all users."""
    stem = _stem(device)
    file = stem.with_name(f"{stem.name}.{kind}")
    try:
        with contextlib.suppress(FileNotFoundError):
            return os.open(file, os.O_RDONLY)
        if not file.parent.is_dir():
            file.parent.mkdir(exist_ok=True)
            file.parent.chmod(0o1777)
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        with contextlib.suppress(OSError):
            os.chmod(file, 0o666)
        return handle
    except OSError as error:
        raise unwritable(file, error) from error
