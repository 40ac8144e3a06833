"""A terminal of a test's own."""

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence


def on_a_terminal(code: str, *, width: int, words: Sequence[str] = (), whole: bool = False, **variables: str) -> bytes:
    """What Python code writes to its standard error where that is a terminal, with `whole` to its standard output too;
    it must end with 0."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    env = {**os.environ, "TERM": "xterm", **variables}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=child if whole else None, stderr=child, env=env
    )
    os.close(child)
    said = b""
    with contextlib.suppress(OSError):
        while block := os.read(parent, 4096):
            said += block
    os.close(parent)
    assert process.wait() == 0
    return said
