"""Printed tables: columns by the ruler of dashes below their titles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

_RULER = re.compile(r"^\s*-{2,}(?: +-{2,})+\s*$")


def columns(ruler: str) -> list[int]:
    """Where the columns of a ruler end; [] of a line that is none."""
    return [found.end() for found in re.finditer("-+", ruler)] if _RULER.match(ruler) else []


def cells(line: str, ends: Sequence[int]) -> list[str]:
    """The cells of a line; the last takes what is left of it."""
    return [line[left:right].strip() for left, right in pairwise([0, *ends[:-1], len(line)])]
