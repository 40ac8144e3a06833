"""Tables: which columns they have, as a pipe table, and for a terminal of a certain width."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
from rich.cells import cell_len

from analyzers.records import number
from profkit.rundir import harmless
from roofline import units

UNLIMITED = 10_000
"""The width of what is no terminal: a file or a pipe holds every column."""

NARROWEST = 16
"""Characters of a name, or of the words at the end of a row, that a narrow terminal keeps at least."""

_BY_FLOP = ("achieved_flops", "intensity")
"""Figures that are lower bounds where the FLOP are."""


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
    """Headers and cells as text; `ranks` as in Column, all 0 where there are none."""

    head: list[str]
    rows: list[list[str]]
    ranks: tuple[int, ...] = ()

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Table:
        """Table of the first column and the other columns with any content."""
        kept = [one for index, one in enumerate(columns) if not index or not one.empty]
        rows = [list(cells) for cells in zip(*(one.cells for one in kept), strict=True)]
        return cls([one.head for one in kept], rows, tuple(one.rank for one in kept))


def column(head: str, rows: Sequence[Mapping[Any, Any]], name: str, unit: str, rank: int = 0) -> Column:
    """Values `name` of rows in one unit, which stands in the head; "" and "%" have none."""
    values = [number(row, name) for row in rows]
    label, cells = "", [units.percent(value) if unit else units.digits(value) for value in values]
    if unit not in ("", "%"):
        label, cells = units.column(values, unit)
    if name in _BY_FLOP:
        # Of a sum with a counter missing the least is known.
        told = zip(cells, rows, strict=True)
        cells = [f">= {one}" if row and row.get("flops_lower") and one != units.MISSING else one for one, row in told]
    return Column(f"{head} [{label}]" if label else head, cells, rank)


def pipe_table(table: Table, words: Sequence[int] | None = None) -> str:
    """GitHub table with escaped pipes; columns of `words` (default: ends) stand left."""
    cells = [[_PIPE.sub(r"\1\1\\|", str(cell)) for cell in row] for row in table.rows]
    left = (0, len(table.head) - 1) if words is None else words
    rule = ["---" if index in left else "---:" for index in range(len(table.head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [table.head, rule, *cells])


def room() -> int:
    """Columns of the terminal; UNLIMITED where the output is a pipe or a file."""
    return shutil.get_terminal_size((UNLIMITED, 24)).columns


def terminal_table(table: Table, width: int = 0, tones: Sequence[str | None] = ()) -> str:
    """Align a table to `width` (0: the terminal's); columns leave by rank, then cells shrink.

    `tones`: a colour for the name of each row. Control characters of foreign text are removed.
    """
    wide = max(width or room(), 1)
    clean = [[harmless.line(cell) for cell in row] for row in [table.head, *table.rows]]
    table = Table(clean[0], clean[1:], table.ranks)
    shown = list(range(len(table.head)))
    ranks = table.ranks or (0,) * len(shown)
    sizes = [max(cell_len(row[index]) for row in [table.head, *table.rows]) for index in shown]
    least = [min(size, NARROWEST) if index in (0, len(sizes) - 1) else size for index, size in enumerate(sizes)]
    while _width(sizes, shown) > wide and any(ranks[index] for index in shown):
        shown.remove(max(shown, key=lambda index: (ranks[index], index)))
    while _width(least, shown) > wide and len(shown) > 1:
        shown.pop()
    for index in (*shown[:0:-1], *shown[:1]):
        lower_bound = least[index] if len(shown) > 1 else 1
        sizes[index] = min(sizes[index], max(lower_bound, sizes[index] + wide - _width(sizes, shown)))
    head, rule, *rows = [_line(row, shown, sizes) for row in [table.head, ["-" * size for size in sizes], *table.rows]]
    if tones and shown:
        ends = [next((n for n in range(len(row)) if cell_len(row[:n]) >= sizes[0]), len(row)) for row in rows]
        told = zip(rows, ends, tones, strict=True)
        rows = [click.style(row[:end], fg=tone) + row[end:] if tone else row for row, end, tone in told]
    left_out = ", ".join(table.head[index] for index in range(len(table.head)) if index not in shown)
    note = [folded(f"(too narrow here for: {left_out})", wide)] if left_out else []
    return "\n".join([head, rule, *rows, *note]) + "\n"


def folded(text: str, width: int = 0, indent: str = "") -> str:
    """Wrap a line between words at `width` (0: the terminal's); a pipe keeps one line."""
    wide = width or room()
    lines, line = [], ""
    for word in re.findall(r"\s*\S+", text):
        if line.strip() and cell_len(click.unstyle(line + word)) > wide:
            lines.append(line)
            line = indent + word.lstrip()
        else:
            line += word
    return "\n".join([*lines, line])


def on_screen(text: str) -> str:
    """Every line folded to the terminal's width, continuation lines indented."""
    wide = room()
    if wide >= UNLIMITED:
        return text
    lines = [(line, " " * (len(line) - len(line.lstrip()) + 2)) for line in text.split("\n")]
    return "\n".join(folded(line, wide, indent) for line, indent in lines)


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
    return name if len(name) <= limit else name[: max(limit - 3, 0)] + "..."[:limit]


def code(name: str) -> str:
    """A name as a code span of Markdown: backticks in it would end the span."""
    return "`" + name.replace("`", "'") + "`"


_PIPE = re.compile(r"(\\*)\|")
_CELL = re.compile(r"(?:\\[\\|]|[^|])+|\|")
_TICKS = re.compile(r"\\[\\`]|(`+)")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_PICTURE = re.compile(
    r'</?picture>| *<source media="\(prefers-color-scheme: dark\)" srcset="[\w.-]+">'
    r'| *<img alt="[^"<>]*" src="[\w.-]+" width="800">'
)
"""The lines of a picture of ours, of a file beside the document."""
_LINK = re.compile(r"\]\((?!(?!//)[\w./%-]+\))")
_ADDRESS = re.compile(r"\b(https?:|ftp:|www)(?=//|\.)", re.I)
"""What GitHub makes a link of, without any markup."""
_CALL = re.compile(r"@(?=[\w.])|(?<!&)#(?=\d)|\bGH-(?=\d)", re.I)
"""What calls a person or a team, or is told below an issue. Escaping does not help: hosts look at the text that is shown."""
_NOTHING = "&#8203;"
"""A space of no width, which ends a name before it began."""
_OPENING = re.compile(r"(?=#{1,6}(?:\s|$)|[>|\[=]|```|~~~|[-+*](?:\s|$)|(?:[-*_]\s*){3})|\d{1,9}(?=[.)](?:\s|$))")
"""Where a backslash goes so that the beginning of a paragraph or list item is a word, not a heading, list, table or fence."""


def without_markup(text: str) -> str:
    """Neutralise foreign markup in our Markdown: tags, outside links, @names, #1. Idempotent."""
    fenced, kept = False, []
    for line in text.split("\n"):
        fence = line.lstrip().startswith("```")
        kept.append(line if fenced or fence else _plain(line))
        fenced ^= fence
    return "\n".join(kept)


def _plain(line: str) -> str:
    if _PICTURE.fullmatch(line):
        return _LINK.sub(r"]\(", line)
    # In a table a code span ends with its cell at the latest.
    return "".join(map(_inline, _CELL.findall(line) if line.startswith("|") else [line]))


def _inline(text: str) -> str:
    """Text with its code spans kept; a backtick without a partner is escaped."""
    parts, at = [], 0
    for begin, end, paired in _ticks(text):
        parts += [_unlinked(text[at:begin]), text[begin:end] if paired else "\\`" * (end - begin)]
        at = end
    return "".join([*parts, _unlinked(text[at:])])


def _ticks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Spans of code by CommonMark's rule; False: a run of backticks that ends nowhere."""
    at = 0
    while found := _TICKS.search(text, at):
        at = found.end()
        if found[1]:
            partner = re.compile(f"(?<!`){found[1]}(?!`)").search(text, at)
            at = partner.end() if partner else at
            yield found.start(), at, partner is not None


def _unlinked(text: str) -> str:
    linkless = _ADDRESS.sub(r"\1\\", _LINK.sub(r"]\(", _TAG.sub("&lt;", text)))
    return _CALL.sub(rf"\g<0>{_NOTHING}", linkless)


def words(text: str) -> str:
    """Escape what would begin a Markdown block at the start of foreign text."""
    text = text.lstrip()
    at = _OPENING.match(text)
    return f"{text[: at.end()]}\\{text[at.end() :]}" if at else text
