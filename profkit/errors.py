"""Exceptions, caught in `profkit.cli` alone; their root is in collectors/errors.py."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

for _name in ("collectors", "roofline", "analyzers"):
    _file = getattr(find_spec(_name), "origin", None) or ""
    if Path(_file).parent != Path(__file__).parents[1] / _name:
        raise ImportError(f"{_file or _name} hides profkit's own package {_name!r}: rename it, or start elsewhere")

from collectors.errors import ProfkitError  # noqa: E402  # of ours alone

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
