"""Frames of this package <-> plain records for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import pandas as pd

NAN = math.nan


@cache
def tables(file: str) -> Mapping[str, Any]:
    """Tables of a TOML file here: sentences by language, or columns with meaning."""
    return msgspec.toml.decode((files("analyzers") / file).read_bytes(), type=dict[str, Any])


def number(record: Mapping[Any, Any], name: str) -> float:
    """A number in a record, NaN if missing or not a number."""
    found = record.get(name, NAN)
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else NAN


def to_frame(rows: Iterable[Mapping[str, Any]], names: Sequence[str] = ()) -> pd.DataFrame:
    """A frame from records; text and flags by columns.toml, else float64 with NaN."""
    import pandas as pd

    known = tables("columns.toml")
    kinds = {name: unit for table in ("kernels", "impls") for name, (unit, _) in known[table].items()}
    records = list(rows)
    names = list(names) or list(dict.fromkeys(name for record in records for name in record))
    data: dict[str, pd.Series[Any]] = {}
    for name in names:
        values = [record.get(name) for record in records]
        if kinds.get(name) == "text":
            data[name] = pd.Series(["" if value is None else str(value) for value in values], dtype="str")
        elif kinds.get(name) == "flag":
            data[name] = pd.Series([bool(value) for value in values], dtype="bool")
        else:
            data[name] = pd.Series([NAN if value is None else float(value) for value in values], dtype="float64")
    result: pd.DataFrame = pd.DataFrame(data, columns=names)
    return result


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dicts; DataFrame.to_dict takes five times as long."""
    names = [str(name) for name in frame]
    columns = [frame[name].to_numpy(dtype=object).tolist() for name in frame]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def to_records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [plain(row) for row in rows_of(frame)]


def plain(data: Mapping[str, Any] | msgspec.Struct) -> dict[str, Any]:
    """Make data valid JSON: NaN and infinity become None, in lists and objects too."""
    fields = msgspec.to_builtins(data) if isinstance(data, msgspec.Struct) else data
    return {key: _plain(value) for key, value in fields.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return plain(value)
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    known = value.item() if hasattr(value, "item") else value
    return None if isinstance(known, float) and not math.isfinite(known) else known
