"""A table of an nsys export -> a typed frame, by pandas' parser."""

from __future__ import annotations

import csv
import io
import mmap
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from collectors import numbers
from collectors.caveat import Caveat
from collectors.errors import CollectError, cut
from collectors.nsys.launches import categories
from collectors.nsys.reports import NEEDS, Field, fields
from collectors.nsys.text import Export, Table, whole_end
from collectors.rows import printed, records

NUMERIC = frozenset({"time", "bytes", "rate", "share", "count"})
NULLS = ("", "None")  # 2022.4 prints None, later versions nothing


def table_frame(export: Export, table: Table, kind: str) -> pd.DataFrame:
    """Rows of a table as a frame with the columns of reports, SI units, NaN or "" for none.

    Texts are categories. Raises CollectError with file, line and column, also for a last row without newline.
    attrs: "caveats", "report".
    """
    columns, unsure = fields(table.header, kind, table.unit)
    if (end := whole_end(export, table)) != table.end:
        raise cut(export.path, table.line + export.data[table.start : end].count(b"\n"))
    wanted = [at for at, one in enumerate(columns) if one.type]
    found = None if table.ends else _quick(export, table, columns, wanted)
    if found is None:
        found = _exact(export, table, columns)
    frame: pd.DataFrame = pd.DataFrame(
        {columns[at].column: _typed(found.pop(at), columns[at]) for at in wanted}, copy=False
    )
    if frame.empty:
        raise CollectError(
            f"{export.path}, line {table.line}: a {kind} header and no row after it",
            fix="the file was cut after its header; export the report again",
        )
    _check(export, table, kind, frame)
    fix, much = "use nsys 2022.4 or later", "times taken as ns, sizes left out"
    frame.attrs["caveats"] = [Caveat(f"the header gives no unit for {one}", much, fix) for one in unsure]
    frame.attrs["report"] = kind
    return frame


class _Rows:
    """Rows of a table as a file of bytes for pandas; `commas`: of the rows read."""

    __iter__ = None  # pandas 2 asks for the name, and calls `read`

    def __init__(self, data: bytes | mmap.mmap, table: Table) -> None:
        self._data, self._at, self._end, self.commas = data, table.start, table.end, 0

    def read(self, size: int) -> bytes:
        part = self._data[self._at : min(self._at + size, self._end)]
        self._at += len(part)
        self.commas += int(np.count_nonzero(np.frombuffer(part, np.uint8) == ord(",")))
        return part


def _quick(export: Export, table: Table, columns: Sequence[Field], wanted: list[int]) -> dict[int, Any] | None:
    """Columns as float64 and categories; None if the table is not in nsys' usual form."""
    rows: Any = _Rows(export.data, table)
    numeric = {at for at in wanted if columns[at].type in NUMERIC}
    nulls: Any = {at: list(NULLS) for at in numeric}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.DtypeWarning)  # text among numbers
            read: Any = pd.read_csv(
                rows,
                header=None,
                names=range(len(columns)),
                usecols=wanted,
                index_col=False,
                dtype=dict.fromkeys(set(wanted) - numeric, "category"),
                na_values=nulls,
                keep_default_na=False,
            )
    except (ValueError, IndexError, pd.errors.DtypeWarning):
        return None
    if any(read[at].dtype.kind not in "iuf" for at in numeric):
        return None
    commas = (len(columns) - 1) * len(read)
    for at in set(wanted) - numeric:
        texts = read[at].cat.categories
        # Where all texts look like numbers pandas converts them: harmless for whole ones alone.
        if not pd.api.types.is_string_dtype(texts) and not (
            columns[at].type == "id" and pd.api.types.is_integer_dtype(texts.dtype)
        ):
            return None
        held = np.array([str(text).count(",") for text in texts], dtype=np.int64)
        commas += int(held[read[at].cat.codes].sum()) if held.any() else 0
    # Commas stand between fields or in texts: a row that is cut, or glued to another, has too few or too many.
    whole = commas == rows.commas
    return {at: read.pop(at).array for at in wanted} if whole else None


def _exact(export: Export, table: Table, columns: Sequence[Field]) -> dict[int, Any]:
    """Columns as numbers; the decimal separator follows from all cells, else CollectError."""
    body = export.data[table.start : table.end]
    try:
        text = _ruled(body, table) if table.ends else body.decode()
        rows = dict(records(export.path, text, table.line, len(columns)))
    except UnicodeDecodeError as error:
        what = f"{export.path}, the table at line {table.line}: not UTF-8: {error.reason}"
        raise CollectError(what, fix="export the report again") from error
    cells = [[row[at] for row in rows.values()] for at in range(len(columns))]
    numeric = [at for at, one in enumerate(columns) if one.type in NUMERIC]
    mark = "."
    if table.ends or any("," in cell for at in numeric for cell in cells[at]):
        evidence = numbers.Evidence(str(export.path))
        for at in numeric:
            for cell in cells[at]:
                evidence.feed(cell)
        # The aligned text groups every number, by default with commas; its shares show where they mean something else.
        mark = evidence.settle(grouped=bool(table.ends))

    def number(at: int, line: int, cell: str) -> float:
        try:
            return float("nan") if cell.strip() in NULLS else numbers.parse(cell, mark)
        except ValueError as error:
            name = table.header[at]
            raise CollectError(
                f"{export.path}, line {line}, column {name!r}: expected a number, found {cell.strip()[:40]!r} (nsys's table)",
                fix=f"{'two exports follow each other' if cell == name else 'the row is damaged'}; "
                "export the report again, into a file of its own",
            ) from error

    return {
        at: np.array([number(at, line, cell) for line, cell in zip(rows, column, strict=True)], float)
        if at in numeric
        else pd.Categorical(column)
        for at, column in enumerate(cells)
    }


def _ruled(body: bytes, table: Table) -> str:
    """An aligned table as CSV, line by line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for line in body.decode("utf-8", errors="replace").splitlines():
        writer.writerow(printed(line, table.ends) if line.strip() else [])
    return out.getvalue()


def _typed(found: Any, field: Field) -> Any:
    """A column in SI units or as categories."""
    if field.type in NUMERIC:
        # 5 ns is 5e-9 to the last bit when divided; multiplied by 1e-9 it is not.
        inverse = round(1 / field.factor) if 0 < field.factor < 1 else 0
        values = np.asarray(found)
        return values / inverse if inverse else values if field.factor == 1 else values * field.factor
    return categories(found.codes, [_clean(str(text), field) for text in found.categories])


def _clean(text: str, field: Field) -> str:
    if field.column == "name":
        return text.strip()
    if field.type == "dims":
        return ",".join(text.split())
    if field.type == "id":
        return text.strip().removesuffix(".0").replace("None", "")
    return "" if text == "None" else text.removeprefix(":") if field.column == "range" else text


def _check(export: Export, table: Table, kind: str, frame: pd.DataFrame) -> None:
    """Raise CollectError for a missing or impossible cell in a required column."""

    def refuse(wrong: NDArray[np.bool_], what: str) -> None:
        if wrong.any():
            where = f"{export.path}, row {int(wrong.argmax()) + 1} of the table at line {table.line}"
            raise CollectError(f"{where}: {what}", fix="the row is damaged; export the report again")

    for column in frame.select_dtypes("number"):
        values = frame[column].to_numpy()
        least = 0 if column in ("time", "total", "instances") else -np.finfo(np.float64).max
        refuse((values < least) | (values == np.inf), f"{column} is no number of this world")
    # Work outside all ranges has no range, and a stream may be unknown.
    for column in sorted(NEEDS[kind] - {"range", "stream"}):
        refuse((frame[column].isna() | (frame[column] == "")).to_numpy(), f"{kind} without {column}")
