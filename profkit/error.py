"""The exceptions of the profkit package; caught in one place, `profkit.cli`."""

from __future__ import annotations

import errno
import os

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says when there is no room for a file."""


class ProfkitError(Exception):
    """Something the user can mend: bad input, bad usage, a broken run directory.

    `fix` says what to do about it; `exit_code` is what the command returns.
    """

    exit_code = 2

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


class CannotProfileError(ProfkitError):
    """This machine cannot do what was asked (no GPU, no counters)."""

    exit_code = 3


class ProgramFailedError(ProfkitError):
    """The profiled program itself ended badly and left nothing to report."""

    exit_code = 1


def unwritable(path: str | os.PathLike[str], error: OSError) -> ProfkitError:
    """The error to raise when `path` could not be written; the fix depends on whether the disk is full."""
    return ProfkitError(
        f"cannot write {os.fspath(path)}: {error.strerror}",
        fix="free some disk space; what was written before is untouched"
        if error.errno in FULL
        else "check the directory's permissions",
    )
