"""What every reader's frame keeps: the schema of collectors.frame."""

import pandas as pd

from collectors.errors import CollectError
from collectors.frame import KEYS, KINDS, OPTIONAL, TOOLS, key_order


def validate(frame):
    """The frame itself if it keeps the schema; raises CollectError naming the column if not."""
    for key in KEYS:
        if key not in frame.columns:
            raise CollectError(f"column {key!r} is missing from the launches frame")
    names = [str(name) for name in frame.columns]
    if key_order(names) != names:
        raise CollectError(f"columns out of order: {', '.join(names)}", fix="make frames with collectors.frame.build")
    for name in names:
        kind, column = {**KEYS, **OPTIONAL}.get(name, "float64"), frame[name]
        if not (pd.api.types.is_string_dtype(column.dtype) if kind == "str" else column.dtype == kind):
            raise CollectError(f"column {name!r} is {column.dtype}, not {kind}")
        if kind != "float64" and column.isna().any():
            raise CollectError(f"column {name!r} has a missing value")
    assert set(frame["tool"]) <= set(TOOLS)
    assert set(frame["kind"]) <= set(KINDS)
    return frame
