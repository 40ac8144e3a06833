"""Tables: which columns they have, as a pipe table, and for a terminal of a certain width."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from profkit.report import units

UNLIMITED = 10_000
"""The width of what is no terminal: a file or a pipe holds every column."""

NARROWEST = 16
"""Characters of a name that a narrow terminal keeps at least."""


@dataclass(frozen=True)
class Column:
    """Cells under a head. `rank`: 0 stays, the highest leaves first where the room is short."""

    head: str
    cells: Sequence[str]
    rank: int = 0

    @property
    def empty(self) -> bool:
        """Whether it says nothing: no cell has a value, or all are zero."""
        return all(cell in (units.MISSING, "", "0", "unknown", "未知") for cell in self.cells)


@dataclass(frozen=True)
class Table:
    """Headers and cells as text; `ranks` of the columns as in Column, all 0 where there are none."""

    head: list[str]
    rows: list[list[str]]
    ranks: tuple[int, ...] = ()

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Table:
        """The first column, and of the others those that say something."""
        kept = [one for index, one in enumerate(columns) if not index or not one.empty]
        rows = [list(cells) for cells in zip(*(one.cells for one in kept), strict=True)]
        return cls([one.head for one in kept], rows, tuple(one.rank for one in kept))


def column(head: str, rows: Sequence[Mapping[Any, Any]], name: str, unit: str, rank: int = 0) -> Column:
    """The values `name` of rows in one unit, which stands in the head: "s", "FLOP/s", ...; "" and "%" have none."""
    values = [units.number(row, name) for row in rows]
    if unit in ("", "%"):
        return Column(head, [units.percent(value) if unit else units.digits(value) for value in values], rank)
    label, cells = units.column(values, unit)
    if name == "achieved_flops":
        # Of a sum with a counter missing the least is known.
        cells = [
            f">= {cell}" if row and row.get("flops_lower") else cell for cell, row in zip(cells, rows, strict=True)
        ]
    return Column(f"{head} [{label}]", cells, rank)


def pipe_table(table: Table, words: Sequence[int] | None = None) -> str:
    """A GitHub table; pipes in cells are escaped. Columns of `words` stand left: the first and last unless given."""
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in table.rows]
    left = (0, len(table.head) - 1) if words is None else words
    rule = ["---" if index in left else "---:" for index in range(len(table.head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [table.head, rule, *cells])


def terminal_table(table: Table, width: int = 0) -> str:
    """An aligned table no wider than `width` (0: the terminal's own): columns leave by rank, then names are cut."""
    room = width or shutil.get_terminal_size((UNLIMITED, 24)).columns
    shown = list(range(len(table.head)))
    ranks = table.ranks or (0,) * len(shown)
    sizes = [max(cell_len(row[index]) for row in [table.head, *table.rows]) for index in shown]
    while _width(sizes, shown) > room and any(ranks[index] for index in shown):
        shown.remove(max(shown, key=lambda index: (ranks[index], index)))
    if shown:
        sizes[0] = max(min(sizes[0], NARROWEST), sizes[0] - max(0, _width(sizes, shown) - room))
    lines = [_line(row, shown, sizes) for row in [table.head, ["-" * size for size in sizes], *table.rows]]
    left_out = ", ".join(head for index, head in enumerate(table.head) if index not in shown)
    return "\n".join([*lines, *([f"(too narrow here for: {left_out})"] if left_out else [])]) + "\n"


def _width(sizes: Sequence[int], shown: Sequence[int]) -> int:
    return sum(sizes[index] for index in shown) + 2 * (len(shown) - 1)


def _line(row: Sequence[str], shown: Sequence[int], sizes: Sequence[int]) -> str:
    """The first and the last column stand left, numbers right."""
    cells = []
    for index in shown:
        cell = row[index] if cell_len(row[index]) <= sizes[index] else cut(row[index], sizes[index])
        gap = " " * (sizes[index] - cell_len(cell))
        cells.append(cell + gap if index in (0, len(row) - 1) else gap + cell)
    return "  ".join(cells).rstrip()


def cut(name: str, limit: int) -> str:
    """At most `limit` characters of a name, its end left out."""
    return name if len(name) <= limit else name[: limit - 3] + "..."


def code(name: str) -> str:
    """A name as a code span of Markdown: backticks in it would end the span."""
    return "`" + name.replace("`", "'") + "`"


_SPAN = re.compile(r"(`+)(?:(?!\1).)*?\1(?!`)")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_LINK = re.compile(r"\]\((?!(?!//)[\w./%-]+\))")
_ADDRESS = re.compile(r"\b(https?:|ftp:|www)(?=//|\.)", re.I)
"""What GitHub makes a link of, without any markup."""
_OPENING = re.compile(r"(?=#{1,6}(?:\s|$)|[>|\[=]|```|~~~|[-+*](?:\s|$)|(?:[-*_]\s*){3})|\d{1,9}(?=[.)](?:\s|$))")
"""Where a backslash goes so that the beginning of a paragraph or list item is a word, not a heading, list, table or fence."""


def without_markup(text: str) -> str:
    """A Markdown document of ours with nobody else's markup: no tag, no link but to a file beside it.

    What stands in code spans and fenced blocks is shown as it is anyhow.
    """
    fenced, kept = False, []
    for line in text.split("\n"):
        fence = line.lstrip().startswith("```")
        kept.append(line if fenced or fence else _plain(line))
        fenced ^= fence
    return "\n".join(kept)


def _plain(line: str) -> str:
    parts, at = [], 0
    for span in _SPAN.finditer(line):
        parts += [_unlinked(line[at : span.start()]), span[0]]
        at = span.end()
    return "".join([*parts, _unlinked(line[at:])])


def _unlinked(text: str) -> str:
    return _ADDRESS.sub(r"\1\\", _LINK.sub(r"]\(", _TAG.sub("&lt;", text)))


def words(text: str) -> str:
    """Text of others as the beginning of a paragraph or list item of Markdown: words, whatever it begins with."""
    text = text.lstrip()
    at = _OPENING.match(text)
    return f"{text[: at.end()]}\\{text[at.end() :]}" if at else text
