"""A reason to trust a number less; it travels with the number into every output."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

TRACE_CUT = "gpu-trace-cut"
"""Code of every caveat that a record of GPU work may have lost its end: an nsys older than the driver does that."""

RANGES_OVERLAP = "ranges-overlap"
"""Code of the caveat that an export counts a launch under every range round it: its rows do not add up."""

TARGET_FAILED = "ncu-target"
"""Code of the caveat that the profiled program ended with an error: it may have launched less than it would have."""

SLOWED = "recorded-slower"
"""Code of the caveat that recording a program took it time of its own, so that a step is longer than without."""


class Caveat(msgspec.Struct, frozen=True):
    """A reason to trust a number less, by how much, and the action that settles it.

    `code`: the kind, for programs, "" without one. `about`: the implementation or range it concerns, "" for the whole.
    """

    what: str
    how_much: str = ""
    fix: str = ""
    code: str = ""
    about: str = ""


def unique(caveats: Iterable[Caveat]) -> tuple[Caveat, ...]:
    """Each caveat once, in order of appearance."""
    return tuple(dict.fromkeys(caveats))
