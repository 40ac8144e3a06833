"""Text tables as rows of cells: CSV, and printed tables with a ruler of dashes."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from collectors import text_of
from collectors.caveat import Caveat
from collectors.errors import CollectError, cut, torn, uneven

_RULER = re.compile(r"^\s*-{2,}(?: +-{2,})+\s*$")
_NUMBER = r"^([-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)([a-zA-Z%]*)$"


def whole_text(path: Path, closes: str = r"\n\Z") -> str:
    """Text of a file; raises CollectError for a cut one. closes: the end of a complete file."""
    text = text_of(path, strict=True)
    if not text.strip():
        raise CollectError(f"{path}: is empty", fix="profile again")
    if text[text.rfind("\n") + 1 :].strip() and not re.search(closes, text):
        raise cut(path, text.count("\n") + 1)
    return text


def records(path: Path, text: str, line: int = 1, width: int = 0) -> Iterator[tuple[int, list[str]]]:
    """(first line, cells) of each CSV row; raises CollectError for a broken one.

    width: fields of a row, 0 for those of the first.
    """
    reader, begin = csv.reader(io.StringIO(text, newline=""), strict=True), line
    try:
        for row in reader:
            width = width or len(row)
            if row and len(row) != width:
                raise uneven(path, begin, len(row), width)
            if row:
                yield begin, row
            begin = line + reader.line_num
    except csv.Error as error:
        raise CollectError(f"{path}, line {begin}: not CSV: {error}", fix="export again") from error


def table(rows: Iterable[tuple[int, Sequence[str]]], names: Sequence[str]) -> pd.DataFrame:
    """Numbered rows as a frame of stripped texts; its index has their lines."""
    known = list(rows)
    cells = [[cell.strip() for cell in row] for _, row in known]
    found: pd.DataFrame = pd.DataFrame(cells, index=[line for line, _ in known], columns=list(names), dtype=object)
    return found


def numbers(path: Path, column: pd.Series[Any], units: Mapping[str, float] = {"": 1.0}) -> NDArray[np.float64]:
    """Cells in SI units, NaN if empty; raises CollectError with the line."""
    parts = column.astype(str).str.extract(_NUMBER)
    values = parts[0].astype(float) * parts[1].map(dict(units)).astype(float)
    wrong = (column != "").to_numpy() & ~np.isfinite(values.to_numpy())
    if wrong.any():
        at = int(wrong.argmax())
        known = ", ".join(filter(None, units))
        wanted = f"a number with one of the units {known}" if known else "a number"
        raise CollectError(
            f"{path}, line {column.index[at]}: {column.name}: expected {wanted}, found {column.iloc[at][:40]!r}",
            fix="the row is damaged, or the export is of another tool",
        )
    return values.to_numpy()


def added_up(path: Path, shares: float, slack: float, *, strict: bool = True) -> list[Caveat]:
    """Check that a summary's shares add up to 1; raise, or return a caveat unless `strict`."""
    if abs(shares - 1) <= slack:
        return []
    what = f"the rows add up to {shares:.1%} of the time: rows {'are missing' if shares < 1 else 'stand here twice'}"
    if strict:
        raise torn(path, what)
    return [Caveat(f"{path.name}: {what}", f"{abs(shares - 1):.1%} of the time", "export again")]


def ruler(line: str) -> tuple[int, ...]:
    """Column ends of a printed table, from its ruler; () for other lines."""
    return tuple(found.end() for found in re.finditer("-+", line)) if _RULER.match(line) else ()


def printed(line: str, ends: Sequence[int]) -> list[str]:
    """Cells of a printed row; the last takes the rest of the line."""
    return [line[left:right].strip() for left, right in pairwise([0, *ends[:-1], len(line)])]
