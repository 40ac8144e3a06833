"""Caveats: reasons to trust a number less, kept with the number in every output."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

TRACE_CUT = "gpu-trace-cut"
"""Code of caveats that a record of GPU work may lack its end, as with an nsys older than the driver."""

RANGES_OVERLAP = "ranges-overlap"
"""Code of the caveat that an export counts a launch in every enclosing range, so rows do not add up."""

TARGET_FAILED = "ncu-target"
"""Code of the caveat that the profiled program failed, and may have launched less."""

SLOWED = "recorded-slower"
"""Code of the caveat that recording slowed the program down."""


class Caveat(msgspec.Struct, frozen=True):
    """A reason to trust a number less, its size, and the fix.

    `code`: its kind, "" without one. `about`: the implementation or range concerned, "" for the whole.
    """

    what: str
    how_much: str = ""
    fix: str = ""
    code: str = ""
    about: str = ""


def unique(caveats: Iterable[Caveat]) -> tuple[Caveat, ...]:
    """Each caveat once, in order of appearance."""
    return tuple(dict.fromkeys(caveats))
