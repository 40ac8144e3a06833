"""The exceptions of this house; the tree stands in collectors/errors.py. Caught in one place, `profkit.cli`."""

from __future__ import annotations

from collectors.errors import ProfkitError

__all__ = ["BUG", "CannotProfileError", "ProfkitError", "ProgramFailedError"]

BUG = 70
"""Exit code of a traceback: 1 means that something was measured and found wanting."""


class CannotProfileError(ProfkitError):
    """This machine cannot do what was asked (no GPU, no counters)."""

    exit_code = 3


class ProgramFailedError(ProfkitError):
    """The profiled program itself ended badly and left nothing to report."""

    exit_code = 1
