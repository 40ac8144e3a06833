"""nvprof exports: summaries (CSV, text), GPU traces (CSV), and databases (.nvprof, .nvvp).

Old CSVs have units inside the values, newer ones a row of units. In a summary `time` is the mean over `instances`. Old
CSVs do not always quote names, so the last field takes the rest of the line.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from collectors import Format
from collectors.caveat import Caveat
from collectors.errors import CollectError, uneven
from collectors.frame import build, role_of
from collectors.nsys.launches import memop_kind, moved_bytes, shapes
from collectors.nsys.sqlite import frame_of
from collectors.nsys.tables import ACTIVITY, gpu_work, is_sqlite, open_base, tables_of, work_names
from collectors.rows import added_up, numbers, records, table, whole_text

_TIME = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_BYTES = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9}
_SUMMARY = ("time(%)", "time", "calls", "avg", "min", "max", "name")
_TRACE = {"start", "duration", "grid x", "block x", "name"}
_TEXT_HEADER = re.compile(r"^\s*(?:Type\s+)?Time\(%\)\s+Time\s+Calls\s+Avg\s+Min\s+Max\s+Name\s*$")
_TEXT_ROW = re.compile(
    r"^\s*(?:(GPU activities|API calls|OpenACC \(excl\)|OpenMP \(incl\)):)?"
    r"\s*([\d.]+%)\s+(\S+)\s+(\d+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(.+?)\s*$"
)
_RESULT = re.compile(r"^==(\d+)== (.*)result:\s*$")
_WAITS = r"\[Unified Memory (?!Memcpy)"
_NOISE = re.compile(r"^==\d+==|^=+ |^\s*$|^\s*(?:```|~~~|</\w)|^(?:\(\S+\) ?)?\[?[\w.-]+@[\w.-]+[: ].*[$#%](?: |$)")
"""Lines of nvprof between its rows, Markdown, and a shell's prompt."""
_METRICS = re.compile(r'^\s*Invocations\s+(?:Metric|Event) Name\s|^"?Device"?,"?Kernel"?,"?Invocations')
_WORK = (
    *(("kernel", "KERNEL"), ("kernel", "CONCURRENT_KERNEL"), ("memset", "MEMSET")),
    *(("memcpy", "MEMCPY"), ("memcpy", "MEMCPY2"), ("memcpy", "MIGRATION")),
)
_MIGRATION = f"""CREATE TEMP VIEW {ACTIVITY}MIGRATION AS SELECT start, end, streamId, value AS bytes,
    CASE counterKind WHEN 2 THEN srcId ELSE dstId END AS deviceId,
    CASE counterKind WHEN 1 THEN 11 WHEN 2 THEN 12 ELSE 13 END AS copyKind
    FROM {ACTIVITY}UNIFIED_MEMORY_COUNTER WHERE counterKind IN (1, 2, 8)"""
"""Copies of unified memory in CUPTI's counters, by kind of copy; the other counters are faults."""
_GPU = {
    "name": "value",
    "major": "computeCapabilityMajor",
    "minor": "computeCapabilityMinor",
    "sms": "numMultiprocessors",
    "l2_bytes": "l2CacheSize",
    "memory_bytes": "globalMemorySize",
}
_AGAIN = "copy the file again, or record with nsys"
_EMPTY = ("No kernels were profiled", "No API activities were profiled", "No events/metrics were profiled")


def sniff(head: str, path: Path) -> bool:
    """Whether a file is nvprof's: database, or the header of a summary, trace or metrics."""
    if head.startswith("SQLite format 3"):
        try:
            with open_base(path, _AGAIN) as base:
                return "StringTable" in tables_of(base)
        except CollectError:
            return False
    lines = head.splitlines()[:2000]
    return any(_kind(line) or _METRICS.match(line) for line in lines) or "NVPROF is profiling process" in head


def _kind(line: str) -> str:
    """Kind of table by its header: "summary", "text summary", "trace" or ""."""
    if _TEXT_HEADER.match(line):
        return "text summary"
    cells = tuple(cell.strip().lower() for cell in line.replace('"', "").split(","))
    if cells[-len(_SUMMARY) :] == _SUMMARY and cells[: -len(_SUMMARY)] in ((), ("type",)):
        return "summary"
    return "trace" if set(cells) >= _TRACE else ""


def read(path: str | Path) -> pd.DataFrame:
    """Launches frame of an nvprof export; API calls are left out.

    attrs: "caveats", "report" ("summary" or "trace"). Raises CollectError with the unreadable line, or for an export
    without kernels.
    """
    path = Path(path)
    if is_sqlite(path):
        return _read_base(path)
    # The bracket of a memory operation closes the row, so only the newline can be missing after it; calls and pages are not read.
    closes = r"(?:\n|[,\s]\"?\[CUDA mem[^\]\n]*\]\"?\s*|(?:API calls:|== Unified Memory profiling result:)[\s\S]*)\Z"
    lines = whole_text(path, closes).split("\n")
    kind, at = _header(path, lines)
    _one_result(path, lines, at, traced=kind == "trace")
    rows = (_printed if kind == "text summary" else _delimited)(path, lines, at)
    if rows.empty:
        raise CollectError(f"{path}: a header of nvprof and no row after it", fix="export again")
    if (unnamed := rows["name"] == "").any():
        raise CollectError(f"{path}, line {unnamed.idxmax()}: no name", fix="the row is cut; export again")
    return _trace(path, rows) if kind == "trace" else _summary(path, rows)


def _header(path: Path, lines: Sequence[str]) -> tuple[str, int]:
    for at, line in enumerate(lines):
        if kind := _kind(line):
            return kind, at
    what, fix = "metrics or events of nvprof, which are not read", "count with Nsight Compute (CC 7.0 and up)"
    if not any(map(_METRICS.match, lines)):
        why = next((line.strip() for line in lines if any(text in line for text in _EMPTY)), "")
        what = "no header of an nvprof summary or trace" + (f"; nvprof says: {why}" if why else "")
        fix = "export with `nvprof --csv --log-file out.csv`; nvprof refuses devices of CC 8.0 and up"
    raise CollectError(f"{path}: {what}", fix=fix)


def _one_result(path: Path, lines: Sequence[str], at: int, *, traced: bool) -> None:
    """Raise CollectError if several programs printed into one file."""
    found = [match[1] for line in lines if (match := _RESULT.match(line)) and match[2] == "Profiling "]
    first = next((at for at, line in enumerate(lines) if _RESULT.match(line)), at)
    found += ["unknown"] * (at < first)
    if len(set(found) if traced else found) > 1:
        raise CollectError(
            f"{path}: {len(found)} results of nvprof are in one file (processes {', '.join(dict.fromkeys(found))})",
            fix="write one file per process: `nvprof --log-file out.%p.csv`",
        )


def _delimited(path: Path, lines: Sequence[str], at: int) -> pd.DataFrame:
    """Rows of a CSV up to the next table (API calls, Unified Memory)."""
    names = [cell.strip().lower() for cell in lines[at].replace('"', "").split(",")]
    rows: list[tuple[int, list[str]]] = []
    units: Sequence[str] = ()
    for number, line in enumerate(lines[at + 1 :], start=at + 2):
        heading = _RESULT.match(line)
        if rows and ("API calls:" in line or (heading and heading[2] != "Profiling ")):
            break
        if _NOISE.match(line) or any(text in line for text in _EMPTY):
            continue
        # A name without quotes keeps its commas.
        quoted = line.lstrip().startswith('"') or ',"' in line
        cells = next(iter(records(path, line, number)))[1] if quoted else line.split(",", len(names) - 1)
        if len(cells) != len(names):
            raise uneven(path, number, len(cells), len(names))
        if not rows and not units and not any(char.isdigit() for char in line):
            units = cells
        else:
            rows.append((number, cells))
    if "start" in names and not units:
        raise CollectError(f"{path}, line {at + 2}: expected the row of units", fix="the file was cut; export again")
    found = table(rows, names)
    for name, unit in zip(names, units, strict=False):
        found[name] = found[name].where(found[name] == "", found[name] + unit.strip())
    return found


def _printed(path: Path, lines: Sequence[str], at: int) -> pd.DataFrame:
    """Rows of a printed summary; the first of a section has its title."""
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate(lines[at + 1 :], start=at + 2):
        if _NOISE.match(line) or any(text in line for text in _EMPTY):
            if rows and line.strip():
                break
            continue
        match = _TEXT_ROW.match(line)
        if match is None:
            raise CollectError(
                f"{path}, line {number}: expected a row of the nvprof summary, found {line.strip()[:50]!r}",
                fix="separate the program's output: nvprof --log-file",
            )
        section, *cells = match.groups()
        rows.append((number, [section or (rows[-1][1][0] if rows else ""), *cells]))
    return table(rows, ("type", *_SUMMARY))


def _summary(path: Path, rows: pd.DataFrame) -> pd.DataFrame:
    calls = numbers(path, rows["calls"])
    if (wrong := rows.index[~(calls > 0)]).size:
        raise CollectError(f"{path}, line {wrong[0]}: expected a number of calls", fix="export again")
    share = numbers(path, rows["time(%)"], {"%": 0.01, "": 0.01})
    _, mean, *_ = (numbers(path, rows[column], _TIME) for column in ("time", "avg", "min", "max"))
    # A row without a type is of the section above it.
    sections = rows.get("type", pd.Series("", rows.index))
    sections = sections.mask(sections == "").ffill().fillna("")
    gpu = sections.isin(("", "GPU activities")).to_numpy()
    if not gpu.any():
        fix = "check that the program runs kernels and that nvprof knows the device"
        raise CollectError(f"{path}: no row of GPU activities", fix=fix)
    caveats = added_up(path, float(share[gpu].sum()), 0.001 + 0.0001 * int(gpu.sum()))
    names = rows["name"][gpu]
    kinds, instances = [memop_kind(name) for name in names], calls[gpu].astype(np.int64)
    columns = {"kernel": names.to_numpy(), "kind": kinds, "instances": instances, "time": mean[gpu]}
    return build(columns, tool="nvprof", caveats=caveats, report="summary")


def _trace(path: Path, rows: pd.DataFrame) -> pd.DataFrame:
    waits, caveats = rows["name"].str.match(_WAITS), []
    if waits.any():
        rows = rows[~waits]
        what = f"{path.name}: {int(waits.sum())} page faults and thrashes of unified memory are left out"
        fix = "prefetch, or look at them in nvvp"
        caveats = [Caveat(what, "their time is part of the operations that waited", fix)]
    empty = pd.Series("", rows.index)

    def column(name: str, units: Mapping[str, float] = {"": 1.0}) -> Any:
        return numbers(path, rows.get(name, empty), units)

    start, time = column("start", _TIME), column("duration", _TIME)
    if np.isnan(start).any() or np.isnan(time).any():
        raise CollectError(f"{path}: a row without start or duration", fix="export again")
    # The demangled name is followed by the number of the launch: "kernel(int) [123]".
    kernels = rows["name"].str.replace(r"(?<!^)\s\[\d+\]$", "", regex=True)
    kinds = [memop_kind(name) for name in kernels]
    moved = np.array([kind != "kernel" for kind in kinds], dtype=bool)
    size, managed = column("size", _BYTES), column("unified memory", _BYTES)
    return build(
        {
            "kernel": kernels.to_numpy(),
            "grid": shapes(*(column(f"grid {axis}") for axis in "xyz")),
            "block": shapes(*(column(f"block {axis}") for axis in "xyz")),
            "device": rows.get("device", empty).str.replace(r" \(\d+\)$", "", regex=True).to_numpy(),
            "kind": kinds,
            "start": start,
            "stream": rows.get("stream", empty).to_numpy(),
            "time": time,
            "registers": column("registers per thread"),
            **moved_bytes(moved, np.where(np.isnan(size), managed, size)[moved]),
        },
        tool="nvprof",
        caveats=caveats,
        report="trace",
    )


def _read_base(path: Path) -> pd.DataFrame:
    """Launches frame of a file by `nvprof -o`, without its metrics."""
    with open_base(path, _AGAIN) as base:
        tables = tables_of(base)
        if f"{ACTIVITY}UNIFIED_MEMORY_COUNTER" in tables:
            base.execute(_MIGRATION)
            tables.add(f"{ACTIVITY}MIGRATION")
        work = gpu_work(base, tables, _WORK, "name")
        if not len(work["start"]):
            raise CollectError(f"{path}: no GPU work in this database of nvprof", fix="let the program end by itself")
        texts = dict(base.execute("SELECT _id_, value FROM StringTable").fetchall())
        facts = ", ".join(_GPU.values())
        rows = base.execute(f"SELECT id, {facts} FROM {ACTIVITY}DEVICE d LEFT JOIN StringTable s ON s._id_ = d.name")
        gpus = {number: dict(zip(_GPU, told, strict=True)) for number, *told in rows}
        process = _process(base, tables)
        counted = base.execute(f"SELECT COUNT(*) FROM {ACTIVITY}METRIC").fetchone()[0]
    # Times since 1970 would cost the last digits of a float.
    work["end"] = work["end"] - work["start"].min()
    work["start"] = work["start"] - work["start"].min()
    devices = {
        number: {**one, "index": str(number), "cc": f"{one.pop('major')}.{one.pop('minor')}"}
        for number, one in gpus.items()
    }
    kernels = {key: _function(text) for key, text in texts.items()}
    names = work_names(work, kernels)
    caveats = []
    if counted:
        fix = "count with Nsight Compute (CC 7.0 and up)"
        caveats = [Caveat("metrics and events that nvprof counted are not read", f"{counted} values", fix)]
    frame = frame_of(work, names, "", devices, caveats, tool="nvprof", report="trace")
    frame["process"] = process
    if counted:
        del frame["start"]  # Each kernel was run several times, and waited for the counters.
    return frame


def _process(base: sqlite3.Connection, tables: set[str]) -> str:
    """The process that called CUDA; "" for none or several."""
    calls = [
        f"SELECT DISTINCT processId FROM {ACTIVITY}{one}" for one in ("RUNTIME", "DRIVER") if ACTIVITY + one in tables
    ]
    found = base.execute(" UNION ".join(calls)).fetchall() if calls else []
    return str(found[0][0]) if len(found) == 1 else ""


def _function(name: str) -> str:
    """Function of a mangled name without arguments; templates, members and others unchanged."""
    length = re.match(r"_Z(\d+)", name)
    end = length.end() + int(length[1]) if length else 0
    return name[length.end() : end] if length and name[end : end + 1] not in ("", "I") else name


FORMAT = Format("nvprof", sniff, read, role_of)
