"""Exceptions, caught only in `profkit.cli`; their root is in collectors/errors.py."""

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
"""Exit code of a traceback; 1 means a bad result."""


def as_shells_do(code: int) -> int:
    """Exit code of a child; 128 + number for one killed by a signal."""
    return code if code >= 0 else 128 - code


class CannotProfileError(ProfkitError):
    """This machine cannot do the requested measurement (no GPU, no counters)."""

    exit_code = 3


class ProgramFailedError(ProfkitError):
    """The profiled program failed and left nothing to report."""

    exit_code = 1
