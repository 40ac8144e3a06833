"""The launches frame: the result of every reader, one row per launch, in file order.

KEYS are always there, OPTIONAL ones if the tool has them, then counters (counters.COUNTERS): float64, SI units,
fractions 0..1; NaN = not collected, never 0. `frame.attrs`: "caveats" is a list of Caveat; readers may add more
("report", "devices"; "host" through set_host). Some pandas operations drop attrs: read them first.

Texts are str. A study of a million launches requests categories (`coded`): each text stored once, so that
grouping, comparing and selecting are fast; group them with observed=True.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from collectors import READERS, Role
from collectors.caveat import Caveat
from collectors.counters import COUNTERS, metrics_for
from collectors.errors import CollectError

KEYS: dict[str, str] = {
    "impl": "str",  # "reference", a candidate's name, or a user's range; "" = unknown, as of all texts
    "range": "str",  # path of the NVTX ranges round the launch, outer/inner, without domain
    "kernel": "str",  # demangled name (a memory operation or a layer: its name)
    "launch": "int64",  # order in the file, or the tool's own number of the launch
    "grid": "str",  # "x,y,z" in blocks
    "block": "str",  # "x,y,z" in threads
    "device": "str",  # the product name where the tool gives it, else the tool's number
    "cc": "str",  # compute capability, "9.0"
    "tool": "str",  # one of TOOLS
    "kind": "str",  # one of KINDS
}
OPTIONAL: dict[str, str] = {
    "start": "float64",  # begin on the tool's timeline [s]
    "process": "str",
    "stream": "str",
    "instances": "int64",  # launches this row stands for (summaries); its counters are averages of one then
    "bytes": "float64",  # what a memcpy or memset moved [B]; NaN = unknown, and for kernels
    "op": "str",  # operation that launched it (collectors.operations)
    "call": "int64",  # number of that one call, the same for all its launches; -1 = unknown
}
TOOLS = READERS
KINDS = ("kernel", "memcpy", "memset", "layer", "operator")
_ALLOWED: Mapping[str, Sequence[str]] = {"tool": TOOLS, "kind": KINDS}

_TYPES = {**KEYS, **OPTIONAL}
# Launches share their texts: a pointer each. pyarrow, where pandas finds it, would hold a copy of every name.
_TEXT: Any = (
    pd.StringDtype("python", na_value=np.nan)
    if isinstance(pd.Series([""], dtype="str").dtype, pd.StringDtype)
    else "str"
)


def key_order(columns: Sequence[str]) -> list[str]:
    """Columns in schema order; raises CollectError for another name."""
    known = [*KEYS, *OPTIONAL, *COUNTERS]
    if strange := sorted(set(columns) - set(known)):
        fix = "use a name of collectors.frame or a counter of collectors.counters"
        raise CollectError(f"column {strange[0]!r} is not in the launches frame", fix=fix)
    return [name for name in known if name in set(columns)]


def build(
    columns: Mapping[str, Any], *, tool: str, caveats: Sequence[Caveat] = (), coded: bool = False, **attrs: Any
) -> pd.DataFrame:
    """A valid frame from columns (arrays, categories or scalars); coded: texts as categories.

    Missing keys get their empty value ("" or the row number, kind "kernel"), columns their type and order.
    Raises CollectError for an unknown column or an invalid value.
    """
    rows = _rows(columns)
    numbers = np.arange(rows, dtype=np.int64)
    given = {**dict.fromkeys(KEYS, ""), "launch": numbers, "kind": "kernel", **columns, "tool": tool}
    data = {name: _typed(name, given[name], rows, coded) for name in key_order(list(given))}
    frame: pd.DataFrame = pd.DataFrame(data, index=pd.RangeIndex(rows), copy=False)
    frame.attrs |= {"caveats": list(caveats), **attrs}
    return frame


class _Beside:
    """A table in the attrs of a frame, wrapped because pandas would copy and compare it."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table

    def __deepcopy__(self, _: object) -> _Beside:
        return self


def set_host(frame: pd.DataFrame, host: pd.DataFrame) -> None:
    """Attach the host's activity (collectors.kineto.host_frame) to a launches frame."""
    frame.attrs["host"] = _Beside(host)


def host_of(frame: pd.DataFrame) -> pd.DataFrame | None:
    """The host's events of a launches frame, not copied; None without any."""
    kept: _Beside | None = frame.attrs.get("host")
    return None if kept is None else kept.table


def spelt(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with categories converted to texts, attrs kept; itself without categories."""
    coded = [name for name, kind in frame.dtypes.items() if isinstance(kind, pd.CategoricalDtype)]
    if not coded:
        return frame
    plain: pd.DataFrame = frame.assign(**{str(name): frame[name].astype(_TEXT) for name in coded})
    return plain


def distinct(column: pd.Series[Any]) -> list[Any]:
    """Distinct values of a column, without unused categories."""
    coded = isinstance(column.dtype, pd.CategoricalDtype)
    return column.cat.categories.tolist() if coded else column.unique().tolist()


def renamed(column: pd.Series[Any], known: Mapping[str, str]) -> pd.Series[Any]:
    """A text column mapped through `known`; categories stay categories."""
    coded = isinstance(column.dtype, pd.CategoricalDtype)
    return column.map(dict(known)).astype("category" if coded else column.dtype)


def role_of(frame: pd.DataFrame) -> Role:
    """Use of a frame: counters if any was collected, else times."""
    counted = [name for name, row in COUNTERS.items() if name in frame and name != "time" and row.group != "launch"]
    return Role("counters" if any(frame[name].notna().any() for name in counted) else "times")


def uncollected(frame: pd.DataFrame, names: Iterable[str]) -> tuple[str, ...]:
    """Counters of `names` that this chip has but ncu left empty with exit code 0."""
    chips = [cc for cc in frame["cc"].unique() if cc]
    return tuple(
        name
        for name in names
        if any(metrics_for([name], cc) for cc in chips) and (name not in frame or frame[name].isna().all())
    )


def _rows(columns: Mapping[str, Any]) -> int:
    lengths = {name: len(value) for name, value in columns.items() if _is_column(value)}
    if len(set(lengths.values())) > 1:
        raise CollectError(f"columns of different length: {lengths}")
    return next(iter(lengths.values()), 0)


def _is_column(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str)


def _typed(name: str, value: Any, rows: int, coded: bool) -> Any:
    kind = _TYPES.get(name, "float64")
    given = value.array if isinstance(value, pd.Series) else value  # what a Series hands numpy cannot be written to
    if kind == "str":
        return _texts(name, given, rows, coded)
    column = given if _is_column(given) else np.full(rows, given)
    try:
        return np.asarray(column, dtype=kind)
    except (TypeError, ValueError) as error:
        raise CollectError(f"column {name!r}: {error}") from error


def _texts(name: str, given: Any, rows: int, coded: bool) -> Any:
    if not _is_column(given):
        codes, texts = np.zeros(rows, dtype=np.int8), pd.Index([given])
    elif isinstance(given, pd.Categorical):
        codes, texts = given.codes, given.categories
    else:
        codes, texts = pd.factorize(pd.Series(given, dtype=_TEXT))
    if (codes < 0).any():
        raise CollectError(f"column {name!r} has a missing value", fix='use "" where nothing is known')
    distinct = pd.Series(texts, dtype=_TEXT)
    allowed = _ALLOWED.get(name, ())
    if allowed and (strange := sorted(set(distinct) - set(allowed))):
        raise CollectError(f"column {name!r} has {strange[0]!r}, not one of {', '.join(allowed)}")
    return pd.Categorical.from_codes(codes, pd.Index(distinct)) if coded else distinct.array[codes]
