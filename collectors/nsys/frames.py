"""A table of an nsys export -> a typed frame.

The quick way parses blocks of rows with pandas and then proves the result: the commas and newlines of the bytes must
be those of the parsed rows, so a row cut in the middle of the file, or glued to another, cannot slip through.
Where the proof fails, or a number is written with separators, the exact way reads row by row and names the
line.
"""

from __future__ import annotations

import io
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from collectors import numbers
from collectors.doubt import Doubt
from collectors.errors import CollectError
from collectors.nsys.reports import Field, fields, needs
from collectors.nsys.text import Export, Slice, Table, rows, whole_end

NUMERIC = frozenset({"time", "bytes", "rate", "share", "count"})
NULLS = ("", "None")  # 2022.4 prints None, later versions nothing
_ROWS = 1 << 16


def table_frame(
    export: Export, table: Table, kind: str, *, partial: bool = False, leave: Container[str] = ()
) -> pd.DataFrame:
    """The rows of one table as a frame with the columns of reports, SI units, None and "" as NaN or "".

    Texts are categories. `leave`: columns that nobody asks for; of a table read quickly only their number is checked.

    A last row without its newline is refused, or with `partial` left out with a doubt. Raises CollectError
    naming file, line and column for anything that cannot be read in one way only. attrs: "doubts", "report".
    """
    columns, unsure = fields(table.header, kind, table.unit)
    doubts = [_no_unit(name) for name in unsure]
    whole, cut = whole_rows(export, table, partial=partial)
    doubts += cut
    wanted = [at for at, field in enumerate(columns) if field.column not in leave]
    found = None if table.spans else _quick(export, whole, columns, wanted)
    if found is None:
        found = _exact(export, whole, columns, wanted)
    frame: pd.DataFrame = pd.DataFrame({columns[at].column: found.pop(at, columns[at]) for at in wanted}, copy=False)
    _check_needed(export, table, kind, frame)
    if frame.empty:
        raise CollectError(
            f"{export.path}, line {table.line}: a {kind} header and no row after it",
            fix="the file was cut after its header; export the report again",
        )
    frame.attrs["doubts"] = doubts
    frame.attrs["report"] = kind
    return frame


def _check_needed(export: Export, table: Table, kind: str, frame: pd.DataFrame) -> None:
    for column in frame.columns:
        if frame[column].dtype == np.float64 and np.isinf(frame[column]).any():
            row = int(np.isinf(frame[column]).to_numpy().argmax())
            raise CollectError(
                f"{export.path}, row {row + 1} of the table at line {table.line}: {column} is no number of this world",
                fix="the row is damaged; export the report again",
            )
    # Copies have no grid, work outside all ranges no range, and a projection of it nothing but its own times.
    may_miss = {"range", "grid_x", "block_x"}
    for column in sorted(needs(kind) - may_miss):
        missing = frame[column].isna() | (frame[column] == "")
        if missing.any() and kind != "nvtx_gpu_proj_trace":
            row = int(missing.to_numpy().argmax())
            raise CollectError(
                f"{export.path}, row {row + 1} of the table at line {table.line}: {kind} without {column}",
                fix="the row is damaged; export the report again",
            )


def whole_rows(export: Export, table: Table, *, partial: bool) -> tuple[Table, list[Doubt]]:
    """The table up to its last whole row, and the doubt when that is not all of it.

    Raises CollectError for a cut table unless `partial`.
    """
    end = whole_end(export, table)
    if end < table.end and not partial:
        raise truncated(export, table)
    cut = [cut_doubt(export.path.name, table.end - end)] if end < table.end else []
    return replace(table, end=end), cut


def truncated(export: Export, table: Table) -> CollectError:
    """The error for a table whose last row has no newline."""
    last = table.line - 1 + sum(1 for _ in export.data[table.start : table.end].splitlines())
    return CollectError(
        f"{export.path}, line {last}: the last row does not end in a newline: the file was cut",
        fix="export again, or read what is whole (partial=True); if only the newline was lost, add it",
    )


def cut_doubt(path: str, lost: int) -> Doubt:
    """The doubt that stands for a last row left out."""
    return Doubt(f"{path} was cut: its last row is left out", f"{lost} B", "export the report again")


def _no_unit(column: str) -> Doubt:
    return Doubt(
        f"the header gives no unit for {column}",
        "times taken as ns, sizes left out",
        "use nsys 2022.4 or later",
    )


def _quick(export: Export, table: Table, columns: Sequence[Field], wanted: Sequence[int]) -> _Rows | None:
    """The rows by the C parser of pandas, block after block; None when the bytes do not prove them right."""
    source = Slice(export, table.start, table.end)
    found = _Rows({at: columns[at].type in NUMERIC for at in wanted})
    try:
        for block in _blocks(io.BufferedReader(source, 1 << 20), columns, wanted):
            found.take(block)
    except pd.errors.EmptyDataError:
        return found
    except (ValueError, IndexError, pd.errors.ParserWarning):
        return None
    # Commas and newlines stand between fields and rows or in texts: a row cut, or glued to another, cannot slip through.
    between = (len(columns) - 1) * found.size
    missing = found.size + found.count("\n") - source.newlines
    # A memory operation at the end may lack its newline.
    whole = not missing or (missing == 1 and found.size > 0)
    return found if whole and source.commas == between + found.count(",") else None


def _blocks(stream: io.BufferedReader, columns: Sequence[Field], wanted: Sequence[int]) -> Iterator[dict[int, Any]]:
    """By position a float64 array, or the codes and the distinct texts, of each block of rows."""
    numeric = {at for at in wanted if columns[at].type in NUMERIC}
    nulls: Any = {at: list(NULLS) for at in numeric}
    with pd.read_csv(
        stream,
        header=None,
        names=list(range(len(columns))),
        usecols=list(wanted),
        index_col=False,
        dtype={at: "float64" if at in numeric else "category" for at in wanted},
        na_values=nulls,
        keep_default_na=False,
        encoding="utf-8",
        chunksize=_ROWS,
    ) as blocks:
        for block in blocks:
            yield {at: _column(block[at], columns[at]) for at in wanted}


def _column(column: Any, field: Field) -> Any:
    """Raises ValueError where texts are not as written."""
    if field.type in NUMERIC:
        return column.to_numpy()
    texts = column.cat.categories
    # Where all texts of a block look like numbers pandas may convert them: harmless for whole numbers alone.
    kept = pd.api.types.is_object_dtype(texts.dtype) or isinstance(texts.dtype, pd.StringDtype)
    if not kept and not (field.type == "id" and pd.api.types.is_integer_dtype(texts.dtype)):
        raise ValueError(field.column)
    return column.cat.codes.to_numpy(), [str(text) for text in texts.tolist()]


class _Rows:
    """Columns by position, put together from blocks: numbers, and texts as codes into what was seen of them."""

    def __init__(self, numeric: Mapping[int, bool]) -> None:
        self._parts: dict[int, list[Any]] = {at: [] for at in numeric}
        self._seen: dict[int, dict[str, int]] = {at: {} for at, number in numeric.items() if not number}
        self.size = 0

    def take(self, block: Mapping[int, Any]) -> None:
        """Add a block of rows, of every column as many."""
        for at, found in block.items():
            if at in self._seen:
                codes, texts = found
                seen = self._seen[at]
                found = np.array([seen.setdefault(text, len(seen)) for text in texts], dtype=np.int32)[codes]
            self._parts[at].append(found)
        self.size += len(found) if block else 0

    def count(self, mark: str) -> int:
        """How often a character stands in the texts of all rows."""
        total = 0
        for at, seen in self._seen.items():
            held = np.array([text.count(mark) for text in seen], dtype=np.int64)
            if held.any():
                total += sum(int(held[part].sum()) for part in self._parts[at])
        return total

    def pop(self, at: int, field: Field) -> Any:
        """A column in SI units or as categories, given up here."""
        parts = self._parts.pop(at)
        if at not in self._seen:
            return _times(np.concatenate(parts) if parts else np.empty(0), field.factor)
        codes = np.concatenate(parts) if parts else np.empty(0, np.int32)
        places, texts = pd.factorize(np.array([*(_clean(text, field) for text in self._seen[at])], dtype=object))
        return pd.Categorical.from_codes(places.astype(np.int32)[codes], pd.Index(texts))


def _exact(export: Export, table: Table, columns: Sequence[Field], wanted: Sequence[int]) -> _Rows:
    """The rows one by one; numbers with separators are settled by all cells of the table or refused."""
    lines, cells = [], []
    for line, row in rows(export, table):
        lines.append(line)
        cells.append(row)
    mark = _decimal_mark(export, table, columns, cells)
    found = _Rows({at: columns[at].type in NUMERIC for at in wanted})
    block: dict[int, Any] = {}
    for at, field in enumerate(columns):
        texts = [row[at] for row in cells]
        if field.type in NUMERIC:
            block[at] = np.array(
                [_number(export, line, table.header[at], text, mark) for line, text in zip(lines, texts, strict=True)],
                dtype=np.float64,
            )
        else:
            block[at] = pd.factorize(np.array([*texts], dtype=object))
    found.take({at: block[at] for at in wanted})
    return found


def _decimal_mark(export: Export, table: Table, columns: Sequence[Field], cells: Sequence[Sequence[str]]) -> str:
    """ "." unless the cells of the table say otherwise; CollectError where "1,234" could be read two ways."""
    numeric = [at for at, field in enumerate(columns) if field.type in NUMERIC]
    if not any("," in row[at] for row in cells for at in numeric) and not table.spans:
        return "."
    evidence = numbers.Evidence(str(export.path))
    for row in cells:
        for at in numeric:
            evidence.feed(row[at])
    # The aligned text groups every number, by default with commas; its shares show where they mean something else.
    return evidence.decided or "." if table.spans else evidence.settle()


def _number(export: Export, line: int, name: str, text: str, mark: str) -> float:
    text = text.strip()
    if text in NULLS:
        return float("nan")
    try:
        return float(text) if mark == "." and "," not in text and "_" not in text else numbers.parse(text, mark)
    except ValueError as error:
        raise CollectError(
            f"{export.path}, line {line}, column {name!r}: expected a number, found {text[:40]!r}",
            fix="the row is damaged; export the report again",
        ) from error


def _times(values: Any, factor: float) -> Any:
    # 5 ns is 5e-9 to the last bit when divided; multiplied by 1e-9 it is not.
    inverse = round(1 / factor) if 0 < factor < 1 else 0
    return values / inverse if inverse else values * factor


def _clean(text: str, field: Field) -> str:
    if field.type == "dims":
        return ",".join(text.split())
    if text == "None" and field.column not in ("name", "tree"):
        return ""
    if field.type == "id":
        return text.strip().removesuffix(".0")
    return text.removeprefix(":") if field.column == "range" else text
