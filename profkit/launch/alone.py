"""One measurement at a time on a device, across all processes of this machine: a lock of the kernel's for each device.

The lock dies with its owner, so it is never stale. The files lie where every user of the machine finds them.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from profkit.rundir.files import unwritable

CPU = "cpu"


def folder() -> Path:
    """Where the locks of this machine's devices lie."""
    return Path(tempfile.gettempdir()) / "profkit-locks"


@contextlib.contextmanager
def alone(device: str, say: Callable[[str], None] = lambda _: None, *, shared: bool = False) -> Iterator[None]:
    """Have a device (its UUID, or CPU) to oneself in the block; waits for whoever has it, which is said once.

    shared: for work that only has to stay away from measurements. Raises ProfkitError when the lock cannot be made.
    """
    import fcntl  # on Linux alone; the module is loaded elsewhere as well

    handle = _opened(folder() / f"{re.sub(r'[^A-Za-z0-9.-]+', '-', device)}.lock")
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        try:
            fcntl.flock(handle, how | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting: another process measures on {device}")
            fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)


def _opened(file: Path) -> int:
    """A descriptor of the lock's file, which is made for all users."""
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
