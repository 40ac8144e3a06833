"""The exceptions of the profkit package; caught in one place, `profkit.cli`."""

from __future__ import annotations


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
