"""A lock for each device: one measurement at a time, across all processes of this machine.

These are kernel locks (flock): they end with their owner and are never stale. The files are in a place common to all
users. One file per device is for its counters. Two are for its time: the lock, and a gate before it. Processes that
share the device pass the gate one by one; it is closed while a process wants or holds the device exclusively.
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
"""Most seconds to wait for a device's counters, as their holder may itself wait for a measurement."""
_LOOK = 0.1
"""Polling interval for the counters [s]."""


def folder() -> Path:
    """Folder of this machine's device locks."""
    return Path(tempfile.gettempdir()) / "profkit-locks"


def named(device: str) -> str:
    """A device's name for a process with another temporary directory."""
    return str(_stem(device)) if device else ""


def _stem(device: str) -> Path:
    return Path(device) if os.path.isabs(device) else folder() / re.sub(r"[^A-Za-z0-9.-]+", "-", device)


@contextlib.contextmanager
def alone(device: str, say: Callable[[str], None] = lambda _: None, *, shared: bool = False) -> Iterator[None]:
    """Hold the exclusive lock of a device (its UUID, or CPU) in the block; report waiting once.

    shared: for work that must only not overlap measurements. Raises ProfkitError if the lock cannot be made.
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
    """Lock the hardware counters of a device in the block.

    device: its UUID, "" if unknown. A driver lends counters to one process at a time, and ncu waits only for processes
    with the same temporary directory, while profkit's have their own. After COUNTERS_WAIT seconds it continues, and ncu
    reports busy counters. Raises ProfkitError if the lock cannot be made.
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
    """Lock of a device: shared while preparing, exclusive while timing.

    main, gate: descriptors of its two files.
    """

    main: int
    gate: int

    @classmethod
    def of(cls, device: str) -> Door:
        """Open the lock of a device (its UUID, or CPU). Raises ProfkitError on failure."""
        with contextlib.ExitStack() as stack:
            main = _opened(device, "lock")
            stack.callback(os.close, main)
            gate = _opened(device, "gate")
            stack.pop_all()
        return cls(main, gate)

    def share(self, waits: Callable[[], None] = lambda: None) -> None:
        """Lock shared, after every waiting `alone`. `waits` is called before waiting."""
        self._through(waits, fcntl.LOCK_EX, fcntl.LOCK_SH)
        fcntl.flock(self.gate, fcntl.LOCK_UN)

    def alone(self, waits: Callable[[], None] = lambda: None) -> None:
        """Lock exclusively; processes that share see `wanted` and release."""
        self._through(waits, fcntl.LOCK_EX, fcntl.LOCK_EX)
        fcntl.flock(self.gate, fcntl.LOCK_UN)

    def turn(self, waits: Callable[[], None] = lambda: None) -> None:
        """Lock exclusively for a moment.

        Other processes that want a turn are next, then the sharing ones, so that these pause once for all turns. Call
        `share` before the next turn, so that the sharing ones get the device.
        """
        self._through(waits, fcntl.LOCK_SH, fcntl.LOCK_EX)

    def _through(self, waits: Callable[[], None], gate: int, main: int) -> None:
        """Release the lock, then take it again behind the gate; report waiting once."""
        waits = functools.cache(waits)
        fcntl.flock(self.main, fcntl.LOCK_UN)
        _take(self.gate, gate, waits)
        _take(self.main, main, waits)

    def leave(self) -> None:
        """Release the lock, and the gate."""
        fcntl.flock(self.gate, fcntl.LOCK_UN)
        fcntl.flock(self.main, fcntl.LOCK_UN)

    @property
    def wanted(self) -> bool:
        """Whether another process waits to lock exclusively; `share` lets it go first.

        Rarely it is another process in `share`, for a moment.
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
    """Descriptor of a device's file of this kind, which all users can open."""
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
