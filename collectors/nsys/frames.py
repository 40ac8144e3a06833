"""A table of an nsys export -> a typed frame.

pandas' parser reads a table at once, and the commas and newlines of the bytes must be those of the parsed rows. Where
they are not, or a number has separators, the rows are read one by one.
"""

from __future__ import annotations

import io
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from collectors import numbers
from collectors.caveat import Caveat
from collectors.errors import CollectError
from collectors.errors import cut as torn_end
from collectors.nsys.reports import Field, fields, needs
from collectors.nsys.text import Export, Slice, Table, rows, whole_end

NUMERIC = frozenset({"time", "bytes", "rate", "share", "count"})
NULLS = ("", "None")  # 2022.4 prints None, later versions nothing
_BUFFER = 1 << 19
_Columns = dict[int, Any]
"""By position a float64 array, or the codes and the distinct texts."""


def table_frame(
    export: Export, table: Table, kind: str, *, partial: bool = False, leave: Container[str] = ()
) -> pd.DataFrame:
    """The rows of a table as a frame with the columns of reports, SI units, NaN or "" for none.

    Texts are categories. `leave`: columns left out. A last row without its newline is refused, or with `partial` left
    out with a caveat. Raises CollectError naming file, line and column. attrs: "caveats", "report".
    """
    columns, unsure = fields(table.header, kind, table.unit)
    whole, cut = whole_rows(export, table, partial=partial)
    wanted = [at for at, field in enumerate(columns) if field.column not in leave]
    found = None if table.spans else _quick(export, whole, columns, wanted)
    if found is None:
        found = _exact(export, whole, columns, wanted)
    made = {columns[at].column: _typed(found.pop(at), columns[at]) for at in wanted}
    frame: pd.DataFrame = pd.DataFrame(made, copy=False)
    if frame.empty:
        raise CollectError(
            f"{export.path}, line {table.line}: a {kind} header and no row after it",
            fix="the file was cut after its header; export the report again",
        )
    _check(export, table, kind, frame)
    frame.attrs["caveats"] = [*map(_no_unit, unsure), *cut]
    frame.attrs["report"] = kind
    return frame


def _check(export: Export, table: Table, kind: str, frame: pd.DataFrame) -> None:
    """Raise CollectError where a cell that every row has is missing or impossible."""

    def refuse(wrong: NDArray[np.bool_], what: str) -> None:
        if wrong.any():
            raise CollectError(
                f"{export.path}, row {int(wrong.argmax()) + 1} of the table at line {table.line}: {what}",
                fix="the row is damaged; export the report again",
            )

    for column in frame.columns:
        if frame[column].dtype == np.float64:
            values = frame[column].to_numpy()
            negative = (values < 0) & (column in ("time", "total", "instances"))
            refuse(np.isinf(values) | negative, f"{column} is no number of this world")
        elif any("\0" in str(one) for one in frame[column].cat.categories):
            raise CollectError(
                f"{export.path}, the table at line {table.line}: NUL bytes in {column}",
                fix="the file was not written to its end, or damaged; export the report again",
            )
    # Work outside all ranges has no range, and a stream may be unknown.
    for column in sorted(needs(kind) - {"range", "stream"}):
        refuse((frame[column].isna() | (frame[column] == "")).to_numpy(), f"{kind} without {column}")


def whole_rows(export: Export, table: Table, *, partial: bool) -> tuple[Table, list[Caveat]]:
    """The table up to its last whole row; a cut one is refused, or a caveat with `partial`."""
    end = whole_end(export, table)
    if end == table.end:
        return table, []
    if not partial:
        last = table.line - 1 + sum(1 for _ in export.data[table.start : table.end].splitlines())
        raise torn_end(export.path, last)
    what = f"{export.path.name} was cut: its last row is left out"
    return replace(table, end=end), [Caveat(what, f"{table.end - end} B", "export the report again")]


def _no_unit(column: str) -> Caveat:
    return Caveat(
        f"the header gives no unit for {column}",
        "times taken as ns, sizes left out",
        "use nsys 2022.4 or later",
    )


def _quick(export: Export, table: Table, columns: Sequence[Field], wanted: Sequence[int]) -> _Columns | None:
    """The columns as the parser in C reads them; None where the bytes do not prove them right."""
    source = Slice(export, table.start, table.end)
    numeric = {at for at in wanted if columns[at].type in NUMERIC}
    types: Any = {str(at): "float64" if at in numeric else "category" for at in wanted}
    try:
        read = pd.read_csv(
            io.BufferedReader(source, _BUFFER),
            header=None,
            names=[str(at) for at in range(len(columns))],
            usecols=list(types),
            index_col=False,
            dtype=types,
            na_values={str(at): list(NULLS) for at in numeric},
            keep_default_na=False,
            encoding="utf-8",
        )
        found = {at: _column(read.pop(str(at)), columns[at]) for at in wanted}
    except (ValueError, IndexError, pd.errors.ParserWarning):
        return None
    texts = [one for at, one in found.items() if at not in numeric]
    size = len(found[wanted[0]] if wanted[0] in numeric else found[wanted[0]][0])
    # Commas and newlines stand between fields and rows or in texts: a row cut, or glued to another, cannot slip through.
    commas = (len(columns) - 1) * size + sum(_count(",", *one) for one in texts)
    missing = size + sum(_count("\n", *one) for one in texts) - source.newlines
    # A memory operation at the end may lack its newline; a name that is never closed has it inside.
    lacks = size > 0 and export.data[table.end - 1] != ord("\n")
    return found if missing == lacks and source.commas == commas else None


def _column(column: Any, field: Field) -> Any:
    """Raises ValueError where texts are not as written."""
    if field.type in NUMERIC:
        return column.to_numpy()
    texts = column.cat.categories
    # Where all texts look like numbers pandas may convert them: harmless for whole numbers alone.
    kept = pd.api.types.is_object_dtype(texts.dtype) or isinstance(texts.dtype, pd.StringDtype)
    if not kept and not (field.type == "id" and pd.api.types.is_integer_dtype(texts.dtype)):
        raise ValueError(field.column)
    return column.cat.codes.to_numpy(), [str(text) for text in texts.tolist()]


def _count(mark: str, codes: Any, texts: Sequence[str]) -> int:
    """How often a character stands in the texts of all rows."""
    held = np.array([text.count(mark) for text in texts], dtype=np.int64)
    return int(held[codes].sum()) if held.any() else 0


def _exact(export: Export, table: Table, columns: Sequence[Field], wanted: Sequence[int]) -> _Columns:
    """The rows one by one; separators are settled by all cells of the table or refused."""
    lines, cells = [], []
    for line, row in rows(export, table):
        lines.append(line)
        cells.append(row)
    mark = _decimal_mark(export, table, columns, cells)
    found: _Columns = {}
    for at in range(len(columns)):
        texts = [row[at] for row in cells]
        if columns[at].type in NUMERIC:
            told = zip(lines, texts, strict=True)
            found[at] = np.array([_number(export, line, table.header[at], text, mark) for line, text in told], float)
        else:
            codes, distinct = pd.factorize(np.array(texts, dtype=object))
            found[at] = codes, distinct.tolist()
    return {at: found[at] for at in wanted}


def _decimal_mark(export: Export, table: Table, columns: Sequence[Field], cells: Sequence[Sequence[str]]) -> str:
    """ "." unless the cells say otherwise; CollectError where "1,234" is ambiguous."""
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


def _typed(found: Any, field: Field) -> Any:
    """A column in SI units or as categories."""
    if field.type in NUMERIC:
        # 5 ns is 5e-9 to the last bit when divided; multiplied by 1e-9 it is not.
        inverse = round(1 / field.factor) if 0 < field.factor < 1 else 0
        return found / inverse if inverse else found * field.factor
    codes, texts = found
    places, distinct = pd.factorize(np.array([_clean(text, field) for text in texts], dtype=object))
    return pd.Categorical.from_codes(places.astype(np.int32)[codes], pd.Index(distinct))


def _clean(text: str, field: Field) -> str:
    if field.type == "dims":
        return ",".join(text.split())
    if text == "None" and field.column != "name":
        return ""
    if field.type == "id":
        return text.strip().removesuffix(".0")
    if field.column == "name":
        return text.strip()
    return text.removeprefix(":") if field.column == "range" else text
