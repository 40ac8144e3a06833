"""timings.csv of a run directory as a frame."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd

from profkit.errors import ProfkitError
from profkit.rundir import harmless


def read_csv(file: Path) -> pd.DataFrame | None:
    """Read a file of samples, None for none. Raises ProfkitError when it is damaged."""
    if not file.exists():
        return None
    try:
        data = file.read_bytes()
        frame = pd.read_csv(io.BytesIO(data), keep_default_na=True)
        frame["seconds"] = frame["seconds"].astype(float)
    except KeyError as error:
        raise _damaged(file, "no column seconds") from error
    except (ValueError, OSError) as error:
        raise _damaged(file, str(error)) from error
    missing = [name for name in ("impl", "method", "round") if name not in frame]
    if missing:
        raise _damaged(file, f"no column {', '.join(missing)}")
    if not data.endswith(b"\n"):
        raise _damaged(file, f"line {len(frame) + 1} is cut")
    shown: pd.DataFrame = frame.assign(impl=[harmless.line(str(name)) for name in frame["impl"]])
    return shown


def _damaged(file: Path, what: str) -> ProfkitError:
    return ProfkitError(f"{file}: {what}", fix="the file is damaged: measure again")
