"""A table of an nsys export -> a typed frame.

The quick way parses blocks of rows with pyarrow where it is installed, else with pandas, and then proves the result: the
commas and newlines of the bytes must be those of the parsed rows, so a row cut in the middle of the file, or glued to
another, cannot slip through. Where the proof fails, or a number is written with separators, the exact way reads row by
row and names the line.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from collectors import numbers
from collectors.doubt import Doubt
from collectors.errors import CollectError
from collectors.nsys.reports import Field, fields, needs
from collectors.nsys.text import Export, Slice, Table, rows, whole_end

NUMERIC = frozenset({"time", "bytes", "rate", "share", "count"})
NULLS = ("", "None")  # 2022.4 prints None, later versions nothing
_ROWS = 1 << 16
_BYTES = 1 << 19
"""Bytes of a block of pyarrow's; a row has to fit into one."""
_TOGETHER = 32
"""Blocks of pyarrow's that are handed on as one: each column of each costs the same, however few rows there are."""
_Parser = Callable[[Slice, Sequence[Field], Sequence[int]], Iterator[dict[int, Any]]]


def table_frame(
    export: Export,
    table: Table,
    kind: str,
    *,
    partial: bool = False,
    leave: Container[str] = (),
    ready: Rows | None = None,
) -> pd.DataFrame:
    """The rows of one table as a frame with the columns of reports, SI units, None and "" as NaN or "".

    Texts are categories. `leave`: columns that nobody asks for; of a table read quickly only their number is checked.
    ready: what `quick` made of the table, with the same `leave`.

    A last row without its newline is refused, or with `partial` left out with a doubt. Raises CollectError
    naming file, line and column for anything that cannot be read in one way only. attrs: "doubts", "report", and
    "numbered" (see `collectors.guarded`) where the table was `ready`, which goes on to the end of the file.
    """
    columns, unsure = fields(table.header, kind, table.unit)
    doubts = [_no_unit(name) for name in unsure]
    whole, cut = whole_rows(export, table, partial=partial)
    doubts += cut
    wanted = _wanted(columns, leave)
    found = ready if ready is not None or table.spans else _quick(export, whole, columns, wanted)
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
    if ready is not None and ready.numbered:
        frame.attrs["numbered"] = table.start
    return frame


def quick(export: Export, table: Table, kind: str, leave: Container[str] = ()) -> Rows | None:
    """The rows of a table as a parser in C reads them; None where the bytes do not prove them right."""
    columns, _ = fields(table.header, kind, table.unit)
    return None if table.spans else _quick(export, table, columns, _wanted(columns, leave))


def _wanted(columns: Sequence[Field], leave: Container[str]) -> list[int]:
    return [at for at, field in enumerate(columns) if field.column not in leave]


def _check_needed(export: Export, table: Table, kind: str, frame: pd.DataFrame) -> None:
    for column in frame.columns:
        if frame[column].dtype == np.float64 and (wrong := _impossible(column, frame[column].to_numpy())).any():
            row = int(wrong.argmax())
            raise CollectError(
                f"{export.path}, row {row + 1} of the table at line {table.line}: {column} is no number of this world",
                fix="the row is damaged; export the report again",
            )
        if isinstance(frame[column].dtype, pd.CategoricalDtype) and any(
            "\0" in str(one) for one in frame[column].cat.categories
        ):
            raise CollectError(
                f"{export.path}, the table at line {table.line}: NUL bytes in {column}",
                fix="the file was not written to its end, or damaged; export the report again",
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


def _impossible(column: str, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The rows with an infinity, or with less time or fewer launches than none."""
    return np.isinf(values) | (values < 0) if column in ("time", "total", "instances") else np.isinf(values)


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
        fix="export again, or read what is whole (--partial; partial=True in Python); if only the newline was lost, add it",
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


def _quick(export: Export, table: Table, columns: Sequence[Field], wanted: Sequence[int]) -> Rows | None:
    source = Slice(export, table.start, table.end)
    found = Rows({at: columns[at].type in NUMERIC for at in wanted})
    try:
        for block in _parser()(source, columns, wanted):
            # Parsers read ahead: what went through says more of the rows to come than those that were parsed.
            found.take(block, source.newlines / (1 - source.left))
    except pd.errors.EmptyDataError:
        return found
    except (ValueError, IndexError, pd.errors.ParserWarning):  # pyarrow's errors of this kind are ValueErrors
        return None
    # Commas and newlines stand between fields and rows or in texts: a row cut, or glued to another, cannot slip through.
    between = (len(columns) - 1) * found.size
    inside = found.count("\n")
    missing = found.size + inside - source.newlines
    # A memory operation at the end may lack its newline; a name that is never closed has it inside.
    lacks = found.size > 0 and export.data[table.end - 1] != ord("\n")
    found.numbered = columns[0].type in NUMERIC and 0 in wanted and not inside and not source.zeros
    return found if missing == lacks and source.commas == between + found.count(",") else None


@cache
def _parser() -> _Parser:
    """The quickest parser that is installed."""
    try:
        import pyarrow.csv  # noqa: F401
    except ImportError:
        return _by_pandas
    return _by_arrow


def _by_arrow(source: Slice, columns: Sequence[Field], wanted: Sequence[int]) -> Iterator[dict[int, Any]]:
    """As _by_pandas, in half its time; rows of another width are a ValueError."""
    import pyarrow
    from pyarrow import csv

    names = [str(at) for at in range(len(columns))]
    text, number = pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), pyarrow.float64()
    with csv.open_csv(
        source,
        read_options=csv.ReadOptions(block_size=_BYTES, use_threads=False, column_names=names),
        parse_options=csv.ParseOptions(ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            include_columns=[names[at] for at in wanted],
            column_types={names[at]: number if columns[at].type in NUMERIC else text for at in wanted},
            null_values=list(NULLS),
            strings_can_be_null=False,
            # Each distinct text is decoded once, below.
            check_utf8=False,
        ),
    ) as blocks:
        while some := [*islice(blocks, _TOGETHER)]:
            block = pyarrow.Table.from_batches(some).unify_dictionaries()
            yield {at: _of_arrow(block.column(place), columns[at]) for place, at in enumerate(wanted)}


def _of_arrow(column: Any, field: Field) -> Any:
    """Raises ValueError where a number is written as no number."""
    if field.type not in NUMERIC:
        whole = column.combine_chunks()
        return whole.indices.to_numpy(), whole.dictionary.to_pylist()
    values = column.to_numpy()
    if column.null_count != np.count_nonzero(np.isnan(values)):
        raise ValueError("nan is written out")
    return values


def _by_pandas(source: Slice, columns: Sequence[Field], wanted: Sequence[int]) -> Iterator[dict[int, Any]]:
    """By position a float64 array, or the codes and the distinct texts, of each block of rows."""
    numeric = {at for at in wanted if columns[at].type in NUMERIC}
    nulls: Any = {at: list(NULLS) for at in numeric}
    with pd.read_csv(
        io.BufferedReader(source, _BYTES),
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


class Rows:
    """Columns by position, put together from blocks: numbers, and texts as codes into what was seen of them.

    numbered: whether every line of the text is known to begin with a number.
    """

    def __init__(self, numeric: Mapping[int, bool]) -> None:
        self._held: dict[int, Any] = {at: np.empty(0, float if number else np.int32) for at, number in numeric.items()}
        self._seen: dict[int, dict[str, int]] = {at: {} for at, number in numeric.items() if not number}
        self._last: dict[int, tuple[Sequence[str], Any]] = dict.fromkeys(self._seen, ((), None))
        self.size = 0
        self.numbered = False

    def take(self, block: Mapping[int, Any], expected: float = 0.0) -> None:
        """Add a block of rows, of every column as many; `expected`: about how many there will be in all."""
        size = self.size
        for at, found in block.items():
            if at in self._seen:
                codes, texts = found
                found = self._places(at, texts)[codes]
            size = self.size + len(found)
            if size > len(self._held[at]):
                # Room that is never used takes no memory.
                wider = np.empty(max(size, int(1.05 * expected)), self._held[at].dtype)
                wider[: self.size] = self._held[at][: self.size]
                self._held[at] = wider
            self._held[at][self.size : size] = found
        self.size = size

    def _places(self, at: int, texts: Sequence[str]) -> Any:
        """Where the texts of a block stand among those that were seen."""
        before, places = self._last[at]
        if texts != before:
            seen = self._seen[at]
            places = np.array([seen.setdefault(text, len(seen)) for text in texts], dtype=np.int32)
            self._last[at] = texts, places
        return places

    def count(self, mark: str) -> int:
        """How often a character stands in the texts of all rows."""
        total = 0
        for at, seen in self._seen.items():
            held = np.array([text.count(mark) for text in seen], dtype=np.int64)
            if held.any():
                total += int(held[self._held[at][: self.size]].sum())
        return total

    def pop(self, at: int, field: Field) -> Any:
        """A column in SI units or as categories, given up here."""
        held = self._held.pop(at)[: self.size]
        if at not in self._seen:
            return _times(held, field.factor)
        places, texts = pd.factorize(np.array([*(_clean(text, field) for text in self._seen[at])], dtype=object))
        return pd.Categorical.from_codes(places.astype(np.int32)[held], pd.Index(texts))


def _exact(export: Export, table: Table, columns: Sequence[Field], wanted: Sequence[int]) -> Rows:
    """The rows one by one; numbers with separators are settled by all cells of the table or refused."""
    lines, cells = [], []
    for line, row in rows(export, table):
        lines.append(line)
        cells.append(row)
    mark = _decimal_mark(export, table, columns, cells)
    found = Rows({at: columns[at].type in NUMERIC for at in wanted})
    block: dict[int, Any] = {}
    for at, field in enumerate(columns):
        texts = [row[at] for row in cells]
        if field.type in NUMERIC:
            block[at] = np.array(
                [_number(export, line, table.header[at], text, mark) for line, text in zip(lines, texts, strict=True)],
                dtype=np.float64,
            )
        else:
            codes, distinct = pd.factorize(np.array([*texts], dtype=object))
            block[at] = codes, distinct.tolist()
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
    return evidence.settle(grouped=bool(table.spans))


def _number(export: Export, line: int, name: str, text: str, mark: str) -> float:
    text = text.strip()
    if text in NULLS:
        return float("nan")
    try:
        return float(text) if mark == "." and "," not in text and "_" not in text else numbers.parse(text, mark)
    except ValueError as error:
        fix = "two exports follow each other" if text == name else "the row is damaged"
        raise CollectError(
            f"{export.path}, line {line}, column {name!r}: expected a number, found {text[:40]!r}",
            fix=f"{fix}; export the report again, into a file of its own",
        ) from error


def _times(values: Any, factor: float) -> Any:
    """In place: of a million launches a column is ten megabytes."""
    # 5 ns is 5e-9 to the last bit when divided; multiplied by 1e-9 it is not.
    inverse = round(1 / factor) if 0 < factor < 1 else 0
    return np.divide(values, inverse, out=values) if inverse else np.multiply(values, factor, out=values)


def _clean(text: str, field: Field) -> str:
    if field.type == "dims":
        return ",".join(text.split())
    if text == "None" and field.column not in ("name", "tree"):
        return ""
    if field.type == "id":
        return text.strip().removesuffix(".0")
    if field.column == "name":
        return text.strip()
    return text.removeprefix(":") if field.column == "range" else text
