"""CSV of CUPTI's GPU activities by torch's profiler, written by profkit's child processes.

`trace.csv` of a program has range, process, device and cc of every launch, `cupti.csv` of a sample impl. Times in s.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from collectors import Format
from collectors.caveat import SLOWED, Caveat
from collectors.errors import CollectError
from collectors.frame import build, role_of, set_host

TRACE = ("range", "kernel", "launch", "start", "time", "stream", "process", "kind", "device", "cc", "op", "call")
"""Columns of a program's table; `op` and `call` only with recorded operations."""
ACTIVITY = ("impl", "kernel", "launch", "start", "time", "stream", "kind")
"""Columns of a sample's table."""
HOST = ("call", "start", "time", "thread", "launch", "kind")
"""Columns of the host's activity (collectors.kineto.host_frame); for several ranks also `process`."""
CLOCK = "PROFKIT_TRACE_CLOCK"
"""Environment variable: common zero time [ns since 1970] for the clocks of all ranks."""
_NUMBERS = ("launch", "start", "time", "call")
_OLD = TRACE[:-2]
ONE_PROCESS = "torch's profiler times the Python process itself, without its children"
RAN_ALONG = Caveat(
    "torch's profiler slowed the host's launches",
    "idle time before launches is overestimated; other shares are underestimated",
    "time a step with the program's own clock, without the profiler, or record it with nsys",
    SLOWED,
)


def sniff(head: str, path: Path) -> bool:
    """Whether a file begins with the header of one of the two tables."""
    return head.startswith((",".join(_OLD), ",".join(ACTIVITY)))


def read(path: str | os.PathLike[str], **facts: str) -> pd.DataFrame:
    """Launches frame: kernels and memory operations with their times [s], no counters.

    facts: columns missing in the table (device, cc). Raises CollectError for a damaged file.
    """
    file = Path(path)
    try:
        rows = _table(file)
        wanted = TRACE if "range" in rows else ACTIVITY
        if not np.isfinite(rows[["start", "time"]].to_numpy(float)).all():
            raise ValueError("a time that is no number")
        said = [RAN_ALONG] if wanted is TRACE else []
        if wanted is TRACE and rows["process"].nunique() < 2:
            said.append(Caveat(ONE_PROCESS, "", "install Nsight Systems for a whole picture"))
        columns: dict[str, Any] = {name: rows[name] for name in wanted if name in rows}
        frame = build({**columns, **facts}, tool="cupti", caveats=said)
        if (host := host_file(file)).exists():
            asked = _table(host)
            if missing := [name for name in HOST if name not in asked]:
                raise ValueError(f"{host.name}: no column {', '.join(missing)}")
            set_host(frame, asked)
    except (CollectError, ValueError, KeyError, OSError) as error:
        raise CollectError(f"{file}: {error}", fix="the file is damaged: measure again, or remove it") from error
    return frame


def rank_file(path: Path, rank: str) -> Path:
    """Output file of one rank; the table itself without a rank."""
    return path.with_suffix(f".rank{rank}{path.suffix}") if rank else path


def rank_files(path: Path) -> list[Path]:
    """Output files of the ranks, in order."""
    return sorted(path.parent.glob(f"{path.stem}.rank*[0-9].csv"), key=lambda one: int(one.stem.rpartition("rank")[2]))


def host_file(path: Path) -> Path:
    """File of the host's calls beside a program's table."""
    return path.with_suffix(".host.csv")


def _table(file: Path) -> pd.DataFrame:
    """Read a table; number-like text stays text."""
    types: Any = {name: str for name in {*TRACE, *ACTIVITY, *HOST} if name not in _NUMBERS}
    return pd.read_csv(file, dtype=types, keep_default_na=False)


FORMAT = Format("cupti", sniff, read, role_of)
