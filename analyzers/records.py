"""Frames of this house <-> plain records for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

NAN = math.nan

TEXT = frozenset(
    {
        "impl",
        "method",
        "l2",
        "verdict",
        "pace",
        "clocks",
        "work_source",
        "bound_by",
        "compute",
        "evidence",
        "cause",
        "roof",
        "bound_split",
        "flops_source",
        "floor_bound_by",
        "floor_own_bound_by",
        "kernel",
        "device",
        "cc",
        "tool",
        "kind",
        "grid",
        "block",
    }
)
_FLAGS = frozenset({"impossible", "flops_lower"})


def number(record: Mapping[Any, Any], name: str) -> float:
    """A value of a record, NaN where there is none or it is no number."""
    found = record.get(name, NAN)
    return float(found) if isinstance(found, (int, float)) else NAN


def to_frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """A frame of records with the types of this module: text, flags, else float64 with NaN."""
    import pandas as pd

    records = list(rows)
    names = list(columns) or list(dict.fromkeys(name for record in records for name in record))
    data: dict[str, pd.Series[Any]] = {}
    for name in names:
        values = [record.get(name) for record in records]
        if name in TEXT:
            data[name] = pd.Series(["" if value is None else str(value) for value in values], dtype="str")
        elif name in _FLAGS:
            data[name] = pd.Series([bool(value) for value in values], dtype="bool")
        else:
            data[name] = pd.Series([NAN if value is None else float(value) for value in values], dtype="float64")
    result: pd.DataFrame = pd.DataFrame(data, columns=names)
    return result


def to_records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [plain({str(key): value for key, value in row.items()}) for row in frame.to_dict("records")]


def plain(data: Mapping[str, Any]) -> dict[str, Any]:
    """What JSON can hold: numbers that are none become None, those in lists and objects too."""
    return {key: _plain(value) for key, value in data.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return plain(value)
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    known = value.item() if hasattr(value, "item") else value
    return None if isinstance(known, float) and not math.isfinite(known) else known
