"""cupti.csv of a sample: GPU activities in one call of each part. Times in s."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from collectors import Format
from collectors.errors import CollectError
from collectors.frame import build, role_of

COLUMNS = ("impl", "kernel", "launch", "start", "time", "stream", "kind")
_NUMBERS = ("launch", "start", "time")


def sniff(head: str, path: Path) -> bool:
    """Whether a file begins with the header of the table."""
    return head.startswith(",".join(COLUMNS))


def read(path: str | os.PathLike[str], **facts: str) -> pd.DataFrame:
    """Launches frame: kernels and memory operations with their times [s], no counters.

    facts: columns missing in the table (device, cc). Raises CollectError for a damaged file.
    """
    # A name may look like a number.
    types: Any = {name: str for name in COLUMNS if name not in _NUMBERS}
    try:
        rows = pd.read_csv(path, dtype=types, keep_default_na=False)
        if not np.isfinite(rows[["start", "time"]].to_numpy(float)).all():
            raise ValueError("a time that is no number")
        return build({**{name: rows[name] for name in COLUMNS}, **facts}, tool="cupti")
    except (CollectError, ValueError, KeyError, OSError) as error:
        raise CollectError(f"{path}: {error}", fix="the file is damaged: measure again, or remove it") from error


FORMAT = Format("cupti", sniff, read, role_of)
