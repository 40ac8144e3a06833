"""Exceptions, caught in `profkit.cli` alone; their root is in collectors/errors.py."""

from __future__ import annotations

from collectors.errors import ProfkitError

__all__ = ["BUG", "CannotProfileError", "ProfkitError", "ProgramFailedError"]

BUG = 70
"""Exit code of a traceback: 1 means that something was measured and found wanting."""


def as_shells_do(code: int) -> int:
    """An exit code of a child's; of one killed by a signal 128 and its number."""
    return code if code >= 0 else 128 - code


class CannotProfileError(ProfkitError):
    """This machine cannot do what was asked (no GPU, no counters)."""

    exit_code = 3


class ProgramFailedError(ProfkitError):
    """The profiled program itself ended badly and left nothing to report."""

    exit_code = 1
