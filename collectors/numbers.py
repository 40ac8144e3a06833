"""Numbers and units as Nsight Compute prints them, in any locale.

The decimal mark of a file follows from its own cells (Evidence); "84.480" alone is ambiguous and refused.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from collectors.errors import CollectError

MISSING = frozenset({"", "n/a", "(!) n/a", "(!) nan", "(!) inf", "no data", "nan", "-nan", "inf", "-inf"})

_SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2019": "'"})
_SHAPE = re.compile(r"[-+]?(\d[\d., ']*)(?:[eE][-+]?\d+)?")
_GROUPED = re.compile(r"\d{1,3}(?:([., '])\d{3})(?:\1\d{3})*")
_NUMBER = {
    mark: re.compile(
        rf"([-+]?)(\d+|\d{{1,3}}(?:([{groups}])\d{{3}})(?:\3\d{{3}})*)(?:{re.escape(mark)}(\d+))?((?:[eE][-+]?\d+)?)"
    )
    for mark, groups in ((".", ", '"), (",", ". '"))
}


class Evidence:
    """Evidence of the cells of one file for its decimal mark."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._proof: dict[str, str] = {}
        self._unclear = ""

    def feed(self, cell: str) -> None:
        """Take note of a metric cell; raises CollectError if two cells contradict each other."""
        if cell.isdigit():
            return
        mark = classify(cell)
        if mark is None:
            return
        if mark == "?":
            self._unclear = self._unclear or cell
            return
        if mark and mark not in self._proof:
            self._proof[mark] = cell
            if len(self._proof) > 1:
                one, two = self._proof.values()
                raise CollectError(
                    f"{self.file}: {one!r} and {two!r} cannot be in one locale",
                    fix="export again with LC_ALL=C, one file per run",
                )

    @property
    def decided(self) -> str:
        """The decimal mark, "." or ",", or "" if still unknown."""
        return next(iter(self._proof), "")

    def settle(self, *, grouped: bool = False) -> str:
        """Decimal mark for `parse`; raises CollectError if ambiguous.

        grouped: take an ambiguous comma as a thousands separator.
        """
        if not self.decided and self._unclear and not grouped:
            times = 10 ** len(re.split("[.,]", self._unclear)[1])
            raise CollectError(
                f"{self.file}: {self._unclear!r} is ambiguous by a factor of {times}, as the file does not show its locale",
                fix="export again: LC_ALL=C ncu --import X.ncu-rep --csv --page raw --print-units base",
            )
        return self.decided or "."


@lru_cache(maxsize=65536)
def classify(cell: str) -> str | None:
    """Decimal mark of a cell: "" none, "?" ambiguous, None if it is no number."""
    found = _SHAPE.fullmatch(_main(cell))
    if not found:
        return None
    body = found[1]
    marks = [char for char in body if not char.isdigit()]
    if not marks:
        return ""
    last = marks[-1]
    if last in ".," and marks.count(last) == 1:
        whole, _, _ = body.rpartition(last)
        if len(marks) > 1:
            return last if _GROUPED.fullmatch(whole) else None
        either = _GROUPED.fullmatch(body)
        return last if body != found[0].lstrip("+-") or not either or whole.startswith("0") else "?"
    group = _GROUPED.fullmatch(body)
    return {",": ".", ".": ","}.get(group[1], "") if group else None


def parse(cell: str, mark: str) -> float:
    """A cell as a finite float, `mark` the decimal mark; NaN for a missing value.

    For a metric with instances, "2338 (8; 8; 16)", the value before them. Raises ValueError for other text.
    """
    text = _main(cell)
    if text in MISSING:
        return math.nan
    found = _NUMBER[mark].fullmatch(text)
    if not found:
        raise ValueError(f"{cell!r} is not a number with decimal mark {mark!r}")
    sign, whole, group, fraction, exponent = found.groups()
    digits = whole.replace(group, "") if group else whole
    value = float(f"{sign}{digits}.{fraction or 0}{exponent}")
    if math.isinf(value):
        raise ValueError(f"{cell!r} is too large for a number")
    return value


def _main(cell: str) -> str:
    text = cell.strip().translate(_SPACES)
    return text.partition("(")[0].rstrip() if text.endswith(")") and not text.startswith("(!)") else text


_PREFIX = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_TIME = {"second": 1.0, "msecond": 1e-3, "usecond": 1e-6, "nsecond": 1e-9, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_PLAIN = {
    *("", "%", "inst", "thread", "warp", "block", "cluster", "sector", "sectors", "register", "request", "pass"),
    *("cycle", "sm", "sample", "wave", "instance", "op", "byte", "hz"),
}


@lru_cache(maxsize=1024)
def scale(unit: str) -> float | None:
    """Factor to SI base units (s, B, Hz; a percentage stays one), None for an unknown unit.

    Both dialects: "usecond" and "us", "cycle/nsecond" and "Ghz". K M G T P are powers of 1000.
    """
    first, *others = (_single(part.strip()) for part in unit.split("/"))
    for one in others:
        first = first / one if first and one else None
    return first


def base_unit(metric: str) -> str:
    """Unit of a metric with `--print-units base`, if not already SI."""
    return "ns" if metric.startswith("gpu__time_duration.") else ""


def _single(unit: str) -> float | None:
    if unit in _TIME:
        return _TIME[unit]
    if unit.lower() in _PLAIN:
        return 1.0
    prefix, rest = unit[:1], unit[1:]
    if prefix in _PREFIX and rest.lower() in _PLAIN and rest:
        return _PREFIX[prefix]
    return None
