"""Tables: choice of columns, Markdown tables, terminal tables that fit the width."""

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
"""Width of a file or pipe: no column is dropped."""

NARROWEST = 16
"""Fewest characters of a name or of the last column on a narrow terminal."""

_BY_FLOP = ("achieved_flops", "intensity")
"""Figures that are lower bounds if FLOP is a lower bound."""


@dataclass(frozen=True)
class Column:
    """Cells under a head. Columns of the highest `rank` are dropped first; rank 0 stays."""

    head: str
    cells: Sequence[str]
    rank: int = 0

    @property
    def empty(self) -> bool:
        """Whether no cell has a value other than zero."""
        return all(cell in (units.MISSING, "", "0", "unknown", "未知") for cell in self.cells)


@dataclass(frozen=True)
class Table:
    """Header and cells as text; `ranks` as in Column, empty for all 0."""

    head: list[str]
    rows: list[list[str]]
    ranks: tuple[int, ...] = ()

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Table:
        """Table of the first column and all other columns with content."""
        kept = [one for index, one in enumerate(columns) if not index or not one.empty]
        rows = [list(cells) for cells in zip(*(one.cells for one in kept), strict=True)]
        return cls([one.head for one in kept], rows, tuple(one.rank for one in kept))


def column(head: str, rows: Sequence[Mapping[Any, Any]], name: str, unit: str, rank: int = 0) -> Column:
    """Values `name` of all rows in one unit, named in the head; "" and "%" have no unit."""
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
    """GitHub table, "" without rows; columns in `words` (default: first and last) align left."""
    if not table.rows:
        return ""
    cells = [[_PIPE.sub(r"\1\1\\|", str(cell)) for cell in row] for row in table.rows]
    left = (0, len(table.head) - 1) if words is None else words
    rule = ["---" if index in left else "---:" for index in range(len(table.head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [table.head, rule, *cells])


def room() -> int:
    """Terminal width in columns; UNLIMITED for a pipe or file."""
    return shutil.get_terminal_size((UNLIMITED, 24)).columns


def terminal_table(table: Table, width: int = 0, tones: Sequence[str | None] = ()) -> str:
    """Align a table to `width` (0: the terminal's); drop columns by rank, then shorten cells.

    `tones`: colour of each row's name. Control characters in foreign text are removed.
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
    """Wrap a line at words to `width` (0: the terminal's); a pipe keeps one line."""
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
    """Align the first and last column left, numbers right."""
    cells = []
    for index in shown:
        cell = row[index] if cell_len(row[index]) <= sizes[index] else cut(row[index], sizes[index])
        gap = " " * (sizes[index] - cell_len(cell))
        cells.append(cell + gap if index in (0, len(row) - 1) else gap + cell)
    return "  ".join(cells).rstrip()


def cut(name: str, limit: int) -> str:
    """Cut a name at its end to `limit` characters."""
    return name if len(name) <= limit else name[: max(limit - 3, 0)] + "..."[:limit]


def code(name: str) -> str:
    """Name as a Markdown code span; handles backticks inside."""
    return "`" + name.replace("`", "'") + "`"


_PIPE = re.compile(r"(\\*)\|")
_CELL = re.compile(r"(?:\\[\\|]|[^|])+|\|")
_TICKS = re.compile(r"\\[\\`]|(`+)")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_PICTURE = re.compile(
    r'</?picture>| *<source media="\(prefers-color-scheme: dark\)" srcset="[\w.-]+">'
    r'| *<img alt="[^"<>]*" src="[\w.-]+" width="800">'
)
"""Lines of profkit's own pictures beside the document."""
_LINK = re.compile(r"\]\((?!(?!//)[\w./%-]+\))")
_ADDRESS = re.compile(r"\b(https?:|ftp:|www)(?=//|\.)", re.I)
"""Text that GitHub turns into links without markup."""
_CALL = re.compile(r"@(?=[\w.])|(?<!&)#(?=\d)|\bGH-(?=\d)", re.I)
"""Mentions (@name) and issue references (#1). Escaping fails: hosts parse the rendered text."""
_NOTHING = "&#8203;"
"""Zero-width space; breaks a mention."""
_OPENING = re.compile(r"(?=#{1,6}(?:\s|$)|[>|\[=]|```|~~~|[-+*](?:\s|$)|(?:[-*_]\s*){3})|\d{1,9}(?=[.)](?:\s|$))")
"""Paragraph or list-item starts that need a backslash: heading, list, table, fence."""


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
    """Text with its code spans kept; an unpaired backtick is escaped."""
    parts, at = [], 0
    for begin, end, paired in _ticks(text):
        parts += [_unlinked(text[at:begin]), text[begin:end] if paired else "\\`" * (end - begin)]
        at = end
    return "".join([*parts, _unlinked(text[at:])])


def _ticks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Code spans by CommonMark's rule; False: a run of backticks without an end."""
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
    """Escape Markdown block syntax at the start of foreign text."""
    text = text.lstrip()
    at = _OPENING.match(text)
    return f"{text[: at.end()]}\\{text[at.end() :]}" if at else text
