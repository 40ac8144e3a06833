"""The database of rocprofv3 (rocpd, SQLite), its default output since ROCm 7."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from collectors.counters import evaluate_columns, metric_names
from collectors.errors import CollectError
from collectors.frame import build
from collectors.nsys.launches import moved_bytes, shapes
from collectors.nsys.tables import open_base, tables_of

_KERNEL = {
    "name": "name",
    "start": "start",
    "end": "end",
    "process": "pid",
    "agent": "agent_id",
    "stream": "stream_id",
    "queue": "queue_id",
    "event": "event_id",
    "registers": "arch_vgpr_count",
    "shared_memory": "lds_size",
    **{f"grid_{axis}": f"grid_{axis}" for axis in "xyz"},
    **{f"block_{axis}": f"workgroup_{axis}" for axis in "xyz"},
}
"""What is read of the views `kernels` and `memory_copies`; a column that a version lacks is empty."""
_COPY = {**_KERNEL, "agent": "dst_agent_id", "bytes": "size"}
_FIX = "record it again, or export with `rocprofv3 --output-format csv`"


def is_rocpd(path: Path) -> bool:
    """Whether a SQLite database is one of rocprofv3."""
    try:
        with open_base(path, _FIX) as base:
            return any(name.startswith("rocpd_") for name in tables_of(base))
    except CollectError:
        return False


def read_rocpd(path: Path) -> pd.DataFrame:
    """The launches frame: kernels and copies by start, with counters that have a counterpart.

    Raises CollectError for a cut or damaged database and for one without GPU work.
    """
    with open_base(path, _FIX) as base:
        tables = tables_of(base)
        parts = [_view(base, "kernels", _KERNEL)] if "kernels" in tables else []
        if "memory_copies" in tables:
            parts.append(_view(base, "memory_copies", _COPY).assign(copied=True))
        filled = [part for part in parts if len(part)]
        if not filled:
            raise CollectError(f"{path}: no kernels and no copies in it", fix="record with `rocprofv3 --kernel-trace`")
        work: pd.DataFrame = pd.concat(filled, ignore_index=True).sort_values(["start", "end"], ignore_index=True)
        counted = _counted(base, tables, work["event"])
        agents = dict(base.execute("SELECT id, COALESCE(product_name, name) FROM rocpd_info_agent").fetchall())
    return _frame(path, work, counted, agents)


def _view(base: sqlite3.Connection, view: str, wanted: dict[str, str]) -> pd.DataFrame:
    there = {row[1] for row in base.execute(f'PRAGMA table_info("{view}")')}
    cells = [f'"{name}" AS "{key}"' if name in there else f'NULL AS "{key}"' for key, name in wanted.items()]
    found: pd.DataFrame = pd.read_sql_query(f'SELECT {", ".join(cells)} FROM "{view}"', base)
    return found


def _counted(base: sqlite3.Connection, tables: set[str], events: pd.Series[Any]) -> dict[str, Any]:
    """The counters of each launch, summed over the instances of a block."""
    if "pmc_events" not in tables:
        return {}
    query = "SELECT event_id, name, SUM(value) AS value FROM pmc_events GROUP BY event_id, name"
    found = pd.read_sql_query(query, base)
    return {
        str(name): events.map(dict(zip(part["event_id"], part["value"], strict=True))).to_numpy(float)
        for name, part in found.groupby("name", sort=False)
    }


def _frame(path: Path, work: pd.DataFrame, counted: dict[str, Any], agents: dict[int, str]) -> pd.DataFrame:
    times = work[["start", "end"]].to_numpy(dtype=np.float64)
    if not np.isfinite(times).all() or (times[:, 1] < times[:, 0]).any():
        raise CollectError(f"{path}: work without its times, or that ends before it starts", fix=_FIX)
    moved = work["copied"].notna().to_numpy() if "copied" in work else np.zeros(len(work), dtype=bool)
    names = work["name"].astype(str).str.removesuffix(".kd").to_numpy()
    time = (work["end"] - work["start"]).to_numpy(float) / 1e9
    sizes = work["bytes"].to_numpy(float)[moved] if "bytes" in work else np.empty(0)
    items, block = [[work[f"{one}_{axis}"].to_numpy(float) for axis in "xyz"] for one in ("grid", "block")]
    stream = work["stream"].where(work["stream"].notna(), work["queue"])
    facts = {name: work[name].to_numpy(float) for name in ("registers", "shared_memory")}
    known = {name: column for name, column in counted.items() if name in metric_names(vendor="amd")}
    measured = {**facts, **evaluate_columns(known, "", vendor="amd")}
    frame = build(
        {
            "kernel": names,
            "kind": np.where(moved, "memcpy", "kernel"),
            "grid": shapes(*(np.ceil(all_ / one) for all_, one in zip(items, block, strict=True))),
            "block": shapes(*block),
            "device": [str(agents.get(one) or one) for one in work["agent"]],
            "process": [str(one) for one in work["process"]],
            "stream": ["" if one != one else f"{one:.0f}" for one in stream.astype(float)],
            "start": times[:, 0] / 1e9,
            "time": time,
            **{name: column for name, column in measured.items() if not np.isnan(column).all()},
            **moved_bytes(moved, sizes),
        },
        tool="rocprof",
    )
    frame.attrs["report"] = "rocpd"
    frame.attrs["untaken"] = sorted(counted.keys() - known.keys())
    return frame
