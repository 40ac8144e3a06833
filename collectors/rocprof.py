"""AMD's rocprof, versions 1 to 3: dispatches (CSV, JSON, rocpd) and summaries.

Versions 1 and 2 have a row per dispatch and a column per counter, version 3 a row per dispatch and counter
(counter_collection.csv) or only times (kernel_trace.csv), by default a database (rocpd, SQLite). Times in ns; rocprof's
grid counts work-items, the launches frame's blocks.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from collectors import Format, text_of
from collectors.caveat import Caveat
from collectors.counters import evaluate_columns, metric_names
from collectors.errors import CollectError
from collectors.frame import build, role_of
from collectors.nsys.launches import moved_bytes, shapes
from collectors.nsys.tables import columns_of, is_sqlite, open_base, tables_of
from collectors.rows import added_up, numbers, records, table, whole_text

_COLUMNS = {
    "launch": ("dispatchid", "index"),
    "kernel": ("kernelname",),
    "start": ("starttimestamp", "beginns"),
    "end": ("endtimestamp", "endns"),
    "device": ("agentid", "gpuid"),
    "process": ("processid", "pid"),
    "stream": ("streamid",),
    "queue": ("queueid",),
    "threads": ("gridsize", "grd"),
    "block_size": ("workgroupsize", "wgr"),
    "shared_memory": ("ldsblocksize", "ldsperworkgroup", "lds"),
    "registers": ("vgprcount", "archvgpr", "vgpr"),
    **{f"grid_{axis}": (f"gridsize{axis}",) for axis in "xyz"},
    **{f"block_{axis}": (f"workgroupsize{axis}",) for axis in "xyz"},
    "counter": ("countername",),
    "value": ("countervalue",),
}
"""Our column -> rocprof's, lower case without punctuation; other columns may be counters."""
_SUMMARY = {"Name", "Calls", "TotalDurationNs"}
_CALL, _SUFFIX = (
    r"hip[A-Z]|hsa_|roctx|__hip|(?:KERNEL_DISPATCH|MEMORY_(?:COPY|ALLOCATION)|SCRATCH_MEMORY|\w+_API)$",
    r"( \[clone )?\.kd\]?$",
)
_FACT = re.compile(r".*(?:id|size|count|ns|index|workgroup|workitem|timestamp)|scr|sgpr|accumvgpr|fbar|sig|obj|kind")
"""Other known columns of a dispatch, without punctuation; the rest are counters."""
_UNQUOTED = re.compile(r'^([^"\n]*,[^"\n]*?)((?:,[\d.eE+-]+){4}\r?)$', re.MULTILINE)
"""A row of the summary of versions 1 and 2 with an unquoted name containing commas."""
_OURS = {spelling: name for name, spellings in _COLUMNS.items() for spelling in spellings}
_KERNEL = {
    "name": ("name",),
    "start": ("start",),
    "end": ("end",),
    "process": ("pid",),
    "agent": ("agent_id",),
    "stream": ("stream_id",),
    "queue": ("queue_id",),
    "event": ("event_id",),
    "registers": ("arch_vgpr_count", "vgpr_count"),
    "shared_memory": ("lds_size",),
    **{f"grid_{axis}": (f"grid_{axis}",) for axis in "xyz"},
    **{f"block_{axis}": (f"workgroup_{axis}",) for axis in "xyz"},
}
"""Columns read from the views `kernels` and `memory_copies`, else from the tables; missing ones are empty."""
_COPY = {**_KERNEL, "agent": ("dst_agent_id",), "bytes": ("size",)}
_JSON = re.compile(r'\s*\{\s*"rocprofiler-sdk-tool"')
_GPU = 2
"""Agent type of a GPU."""
_FIX = "record it again, or export with `rocprofv3 --output-format csv`"
FABRIC = Caveat(
    "AMD counts memory traffic where L2 leaves for the fabric",
    "it includes Infinity Cache hits; ROCm's formula gives 0 on unknown chips",
    "compare a kernel whose traffic you know",
    "amd-fabric",
)


def sniff(head: str, path: Path) -> bool:
    """Whether a file is rocprofv3's database or JSON, or begins with a header of rocprof."""
    if head.startswith("SQLite format 3"):
        try:
            with open_base(path, _FIX) as base:
                return any(name.startswith("rocpd_") for name in tables_of(base))
        except CollectError:
            return False
    if _JSON.match(head):
        return True
    first = next((line for line in head.splitlines() if line.strip()), "")
    try:
        names = set(_ours(next(csv.reader([first]), [])))
    except csv.Error:  # A field beyond csv's limit; on Python 3.10 a NUL too.
        return False
    if names >= _SUMMARY:
        return True
    told = names & {"start", "threads", "grid_x", "counter"}
    # A name and a grid have other people's tables too.
    return "kernel" in names and bool(told) and bool(names & {"launch", "start", "queue"})


def read(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Launches frame of an export: times, and counters with a known meaning.

    Raises CollectError with the unreadable line.
    """
    path = Path(path)
    if is_sqlite(path):
        return _read_rocpd(path)
    if _JSON.match(text_of(path, most=1 << 10)):
        return _read_json(path)
    text = whole_text(path)
    if text.startswith(("Name,", '"Name",')):
        text = _UNQUOTED.sub(r'"\1"\2', text)
    found = list(records(path, text))
    if len(found) < 2:
        raise CollectError(f"{path}: a header of rocprof and no row after it", fix="export again")
    names = _ours(found[0][1])
    if twice := next((name for at, name in enumerate(names) if name in names[:at]), ""):
        raise CollectError(f"{path}, line 1: two columns {twice}", fix="give the tool's unchanged file")
    rows = table(found[1:], names)
    if set(names) >= _SUMMARY:
        return _summary(path, rows)
    _check(path, rows)
    if "counter" in rows:
        rows, counted = _by_dispatch(path, rows)
    else:
        known = metric_names(vendor="amd")
        others = {name for name in names if name not in _COLUMNS and not _FACT.fullmatch(_plain(name))}
        counted = {name: numbers(path, rows[name]) for name in names if name in known}
        counted |= dict.fromkeys(others - known, np.full(len(rows), np.nan))
    return _of_dispatches(path, rows, counted)


def _frame(
    columns: Mapping[str, Any], items: Sequence[Any], block: Sequence[Any], facts: Mapping[str, Any], counted: Any
) -> pd.DataFrame:
    """Launches frame, without facts and counters that have no value."""
    measured = {**facts, **evaluate_columns(counted, "", vendor="amd")}
    frame = build(
        {
            **columns,
            "grid": shapes(*(np.ceil(all_ / one) for all_, one in zip(items, block, strict=True))),
            "block": shapes(*block),
            **{name: column for name, column in measured.items() if not np.isnan(column).all()},
        },
        tool="rocprof",
    )
    frame.attrs["untaken"] = sorted(counted.keys() - metric_names(vendor="amd"))
    if {"dram_read", "dram_write"} & set(frame.columns):
        frame.attrs["caveats"].append(FABRIC)
    return frame


def _of_dispatches(path: Path, rows: pd.DataFrame, counted: Mapping[str, Any]) -> pd.DataFrame:
    """Launches frame from one row per dispatch."""
    empty = pd.Series("", rows.index)

    def cells(name: str) -> pd.Series[Any]:
        return rows.get(name, empty)

    def number(name: str) -> Any:
        return numbers(path, cells(name))

    start, end, launch = number("start"), number("end"), number("launch")
    if (end < start).any():
        line = rows.index[int(np.argmax(end < start))]
        raise CollectError(f"{path}, line {line}: ends before it starts", fix="the row is damaged; export again")
    columns = {
        "kernel": cells("kernel").str.replace(_SUFFIX, "", regex=True).to_numpy(),
        "launch": np.where(np.isnan(launch), np.arange(len(rows)), launch).astype(np.int64),
        "device": cells("device").str.extract(r"(\d*)$")[0].to_numpy(),
        "process": cells("process").to_numpy(),
        "stream": cells("stream" if "stream" in rows else "queue").to_numpy(),
    }
    facts = {name: number(name) for name in ("registers", "shared_memory", "threads", "block_size")}
    items, block = [[number(f"{one}_{axis}") for axis in "xyz"] for one in ("grid", "block")]
    return _frame(columns, items, block, {"start": start / 1e9, "time": (end - start) / 1e9, **facts}, counted)


def _check(path: Path, rows: pd.DataFrame) -> None:
    """Raise CollectError if a column lacks its pair, or a row is no dispatch."""
    pairs = (("start", "end"), ("end", "start"), ("counter", "value"))
    if lost := [_COLUMNS[other][0] for one, other in pairs if one in rows and other not in rows]:
        raise CollectError(f"{path}, line 1: no column {lost[0]}", fix="give the tool's unchanged file")
    times = rows[[name for name in ("start", "end") if name in rows]]
    wrong = rows["kernel"].str.fullmatch(r"\d*") | (times == "").any(axis=1)
    if wrong.any():
        raise CollectError(
            f"{path}, line {wrong.idxmax()}: a row without its kernel or its times",
            fix="remove rows that are no dispatch (a total), or give the tool's unchanged file",
        )
    rounded = times.apply(lambda column: column.str.contains("e", case=False)).any(axis=1)
    if rounded.any():
        raise CollectError(
            f"{path}, line {rounded.idxmax()}: a time stamp with an exponent: a spreadsheet has rounded it",
            fix="give rocprof's unchanged file",
        )


def _by_dispatch(path: Path, rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    """First row of each dispatch, and the counters of all rows."""
    key = [name for name in ("launch", "process", "device") if name in rows]
    if (twice := rows[rows.duplicated([*key, "counter"])]).size:
        what = f"{path}, line {twice.index[0]}: {twice['counter'].iloc[0]} of one dispatch stands here twice"
        raise CollectError(what, fix="give the files of each run separately")
    dispatch = rows.groupby(key, sort=False).ngroup().to_numpy()
    counted = {}
    for name, part in rows.groupby("counter", sort=False):
        column = np.full(dispatch.max() + 1, np.nan)
        column[dispatch[rows["counter"] == name]] = numbers(path, part["value"].rename(str(name)))
        counted[str(name)] = column
    return rows.drop_duplicates(key), counted


def _summary(path: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Summary of kernels or copies: one row each with `instances`, `time` the mean of one."""
    names = rows["Name"]
    if names.str.match(_CALL).all():
        what = f"{path}: rocprof's summary of calls or of domains, which lists no kernels"
        raise CollectError(
            what, fix="give its statistics of kernels: results.stats.csv, or kernel_stats.csv of `rocprofv3 --stats`"
        )
    count, time = numbers(path, rows["Calls"]), numbers(path, rows["TotalDurationNs"]) / 1e9
    if not (count > 0).all() or np.isnan(time).any():
        raise CollectError(f"{path}: a row without its calls or its time", fix="the row is damaged; export again")
    share = float(numbers(path, rows["Percentage"]).sum()) / 100 if "Percentage" in rows else 1.0
    caveats = added_up(path, share, 0.001 + 0.0005 * len(rows))
    columns = {
        "kernel": names.str.replace(_SUFFIX, "", regex=True).to_numpy(),
        "kind": np.select(
            [names.str.match(r"MEMORY_COPY|Copy\w+To"), names == "FillBuffer"], ["memcpy", "memset"], "kernel"
        ),
        "instances": count.astype(np.int64),
        "time": time / count,
    }
    return build(columns, tool="rocprof", caveats=caveats, report="summary")


def _ours(header: Sequence[str]) -> list[str]:
    """Columns of a header under the launches frame's names, counters under their own."""
    cells = [cell.strip() for cell in header]
    plain = map(_plain, cells)
    return [_OURS.get(one, f"{cell}?" if cell in _COLUMNS else cell) for one, cell in zip(plain, cells, strict=True)]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _read_rocpd(path: Path) -> pd.DataFrame:
    """Launches frame: kernels and copies by start, with counters of known meaning.

    Raises CollectError for a cut or damaged database, or one without GPU work.
    """
    with open_base(path, _FIX) as base:
        tables = tables_of(base)
        parts = [_view(base, "kernels", "rocpd_kernel_dispatch", _KERNEL)] if "kernels" in tables else []
        if "memory_copies" in tables:
            parts.append(_view(base, "memory_copies", "rocpd_memory_copy", _COPY).assign(copied=True))
        filled = [part for part in parts if len(part)]
        if not filled:
            raise CollectError(f"{path}: no kernels and no copies in it", fix="record with `rocprofv3 --kernel-trace`")
        work: pd.DataFrame = pd.concat(filled, ignore_index=True).sort_values(["start", "end"], ignore_index=True)
        counted = _counted(base, tables, work["event"])
        agents = dict(base.execute("SELECT id, COALESCE(product_name, name) FROM rocpd_info_agent").fetchall())
    return _rocpd_frame(path, work, counted, agents)


def _view(base: sqlite3.Connection, view: str, below: str, wanted: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """`wanted` columns of a view; in some versions only the table `below` it has them."""
    there = {name: f'{of}."{name}"' for of, table in (("b", below), ("v", view)) for name in columns_of(base, table)}
    cells = [next((there[name] for name in names if name in there), "NULL") for names in wanted.values()]
    joined = f'LEFT JOIN "{below}" b USING (guid, id)' if "guid" in columns_of(base, below) else ""
    rows = base.execute(f'SELECT {", ".join(cells)} FROM "{view}" v {joined}').fetchall()
    found: pd.DataFrame = pd.DataFrame(rows, columns=list(wanted))
    for name in ("start", "end"):
        found[name] = pd.to_numeric(found[name], errors="coerce")
    return found


def _counted(base: sqlite3.Connection, tables: set[str], events: pd.Series[Any]) -> dict[str, Any]:
    """Counters of each launch, summed over the instances of a hardware block."""
    if "pmc_events" not in tables:
        return {}
    # Where there is a counter_name, `name` is the kernel's.
    prefix = "counter_" if "counter_name" in columns_of(base, "pmc_events") else ""
    query = f"SELECT event_id, {prefix}name, SUM({prefix}value) FROM pmc_events GROUP BY event_id, {prefix}name"
    found: dict[str, dict[int, float]] = {}
    for event, name, value in base.execute(query):
        found.setdefault(name, {})[event] = value
    return {name: events.map(known).to_numpy(float) for name, known in found.items()}


def _rocpd_frame(path: Path, work: pd.DataFrame, counted: dict[str, Any], agents: dict[int, str]) -> pd.DataFrame:
    times = work[["start", "end"]].to_numpy(dtype=np.float64)
    if not (np.isfinite(times).all() and (times[:, 1] >= times[:, 0]).all()):
        raise CollectError(f"{path}: work without its times, or that ends before it starts", fix=_FIX)
    moved = work["copied"].notna().to_numpy() if "copied" in work else np.zeros(len(work), dtype=bool)
    sizes = work["bytes"].to_numpy(float)[moved] if "bytes" in work else np.empty(0)
    stream = work["stream"].where(work["stream"].notna(), work["queue"]).astype(float)
    columns = {
        "kernel": work["name"].astype(str).str.removesuffix(".kd").to_numpy(),
        "kind": np.where(moved, "memcpy", "kernel"),
        "device": [str(agents.get(one) or one) for one in work["agent"]],
        "process": [str(one) for one in work["process"]],
        "stream": ["" if one != one else f"{one:.0f}" for one in stream],
        "start": times[:, 0] / 1e9,
        "time": (work["end"] - work["start"]).to_numpy(float) / 1e9,
        **moved_bytes(moved, sizes),
    }
    facts = {name: work[name].to_numpy(float) for name in ("registers", "shared_memory")}
    items, block = [[work[f"{one}_{axis}"].to_numpy(float) for axis in "xyz"] for one in ("grid", "block")]
    frame = _frame(columns, items, block, facts, counted)
    frame.attrs["report"] = "rocpd"
    return frame


def _read_json(path: Path) -> pd.DataFrame:
    """Launches frame of a results.json: the work of each process.

    Raises CollectError for a cut or damaged file, or one without GPU work.
    """
    try:
        tools = json.loads(text_of(path))["rocprofiler-sdk-tool"]
        rows = [row for tool in tools for row in _of_process(tool)]
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        what = f"a record without {error}" if isinstance(error, LookupError) else str(error)
        raise CollectError(f"{path}: {what}", fix=_FIX) from error
    if not rows:
        raise CollectError(f"{path}: no kernels and no copies in it", fix="record with `rocprofv3 --kernel-trace`")
    columns = [*_KERNEL, "copied", "bytes", "counters"]
    work: pd.DataFrame = pd.DataFrame(rows, columns=columns).sort_values(["start", "end"], ignore_index=True)
    names = dict.fromkeys(name for one in work["counters"] for name in one)
    counted = {name: np.array([one.get(name, np.nan) for one in work["counters"]], float) for name in names}
    return _rocpd_frame(path, work, counted, {})


def _of_process(tool: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Kernels and copies of a process; counters summed over the instances of a hardware block."""
    agents = {one["id"]["handle"]: one for one in tool["agents"]}
    symbols = {one["kernel_id"]: one for one in tool["kernel_symbols"]}
    counters = {one["id"]["handle"]: one["name"] for one in tool.get("counters", ())}
    buffers, counted = tool["buffer_records"], tool.get("callback_records", {}).get("counter_collection", ())

    def row(one: Mapping[str, Any], name: str, agent: int, **facts: Any) -> dict[str, Any]:
        device = agents.get(agent, {})
        return {
            "name": name,
            "start": one["start_timestamp"],
            "end": one["end_timestamp"],
            "process": tool["metadata"]["pid"],
            "agent": device.get("product_name") or device.get("name") or agent,
            "stream": one.get("stream_id", {}).get("handle"),
            "counters": {},
            **facts,
        }

    kernels: dict[int, dict[str, Any]] = {}
    for one in [*buffers.get("kernel_dispatch", ()), *(each["dispatch_data"] for each in counted)]:
        info = one["dispatch_info"]
        symbol = symbols[info["kernel_id"]]
        sizes = {f"grid_{axis}": size for axis, size in info["grid_size"].items()}
        sizes |= {f"block_{axis}": size for axis, size in info["workgroup_size"].items()}
        facts = {"registers": symbol.get("arch_vgpr_count"), "shared_memory": info.get("group_segment_size")}
        name = symbol.get("formatted_kernel_name") or symbol["truncated_kernel_name"]
        made = row(one, name, info["agent_id"]["handle"], **sizes, **facts)
        kernels.setdefault(info["dispatch_id"], {**made, "queue": info.get("queue_id", {}).get("handle")})
    for each in counted:
        known = kernels[each["dispatch_data"]["dispatch_info"]["dispatch_id"]]["counters"]
        sums: dict[str, float] = {}
        for record in each["records"]:
            name = counters[record["counter_id"]["handle"]]
            sums[name] = sums.get(name, 0.0) + record["value"]
        if twice := sorted(known.keys() & sums.keys()):
            raise ValueError(f"{twice[0]} of one dispatch stands here twice")
        known |= sums
    yield from kernels.values()
    strings = (tool.get("strings") or {}).get("buffer_records")
    for one in buffers.get("memory_copy", ()):
        ends = [one[side]["handle"] for side in ("dst_agent_id", "src_agent_id")]
        agent = next((end for end in ends if agents.get(end, {}).get("type") == _GPU), ends[0])
        name = strings[one["kind"]]["operations"][one["operation"]] if strings else "MEMORY_COPY"
        yield row(one, name, agent, copied=True, bytes=one.get("bytes"))


FORMAT = Format(
    "rocprof",
    sniff,
    read,
    role_of,
    vendor="amd",
    remedy="import a counter_collection.csv of `rocprofv3 --pmc FETCH_SIZE WRITE_SIZE` of the same program",
)
