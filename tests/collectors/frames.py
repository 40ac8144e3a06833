"""What every reader's frame keeps: the schema of collectors.frame."""

from __future__ import annotations

from collectors.errors import CollectError
from collectors.frame import KEYS, KINDS, TOOLS, _check_type, _check_values, key_order


def validate(frame):
    """The frame itself if it keeps the schema; raises CollectError naming the column if not."""
    for key in KEYS:
        if key not in frame.columns:
            raise CollectError(f"column {key!r} is missing from the launches frame")
    names = [str(name) for name in frame.columns]
    if key_order(names) != names:
        raise CollectError(f"columns out of order: {', '.join(names)}", fix="make frames with collectors.frame.build")
    for name in names:
        _check_type(name, frame[name])
    _check_values("tool", frame["tool"], TOOLS)
    _check_values("kind", frame["kind"], KINDS)
    return frame
