"""The command line. All errors of the packages are caught here."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of `profkit`. Ends the process with the exit code."""
    # Not list(): once `profkit list` was used, that is the verb's module here.
    _speak_utf8()
    arguments = [*(sys.argv[1:] if argv is None else argv)]
    if arguments == ["--version"]:
        # Answered before click is imported: scripts ask often.
        from profkit._version import __version__

        sys.stdout.write(f"profkit {__version__}\n")
        return
    from profkit.cli.group import invoke

    # Rows and findings by the ten thousand live to the end: to look for cycles among them often finds nothing.
    gc.set_threshold(200_000)
    try:
        code = invoke(arguments)
    except Exception:
        import traceback

        from profkit.errors import BUG

        traceback.print_exc()
        sys.exit(BUG)
    # The process gives all its memory back at once: Python need not look through what modules defined for cycles first.
    gc.freeze()
    sys.exit(_flushed(code))


def _flushed(code: int) -> int:
    """Flush stdout; another exit code if that fails."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return code
        sys.stderr.write(f"error: stdout: {error.strerror}\n")
        return code or 2
    return code


def _speak_utf8() -> None:
    """Write UTF-8 to pipes and files on Windows too."""
    for stream in (sys.stdout, sys.stderr):
        if sys.platform == "win32" and isinstance(stream, io.TextIOWrapper) and not stream.isatty():
            stream.reconfigure(encoding="utf-8")
