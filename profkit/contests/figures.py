"""The figures of a run as the contests' documents take them."""

from __future__ import annotations

import math
from typing import Any

NAN = math.nan


def number(value: Any, default: float = NAN) -> float:
    """A figure as a float; `default` for what is none (text, None, a bool)."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else default


def finite(value: Any) -> float | None:
    """A figure for JSON: None where it is not known."""
    known = number(value)
    return known if math.isfinite(known) else None
