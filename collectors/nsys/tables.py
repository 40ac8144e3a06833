"""Tables of an nsys sqlite export as arrays: GPU work, API calls, NVTX ranges, devices.

Tables and columns differ between versions and are looked up. Ids are int64, -1 if unknown.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from posixpath import basename
from typing import Any
from urllib.parse import quote

import numpy as np

from collectors.caveat import Caveat
from collectors.errors import CollectError
from collectors.nsys.launches import each, told
from collectors.nsys.ranges import Range

_MAGIC = b"SQLite format 3\x00"
ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_TABLES = (("kernel", "KERNEL"), ("memcpy", "MEMCPY"), ("memset", "MEMSET"), ("graph", "GRAPH_TRACE"))
_COPY_KINDS = (
    *("Unknown", "Host-to-Device", "Device-to-Host", "Host-to-Array", "Array-to-Host", "Array-to-Array"),
    *("Array-to-Device", "Device-to-Array", "Device-to-Device", "Host-to-Host", "Peer-to-Peer"),
    *("Unified-Host-to-Device", "Unified-Device-to-Host", "Unified-Device-to-Device"),
)
"""CUPTI's kinds of copies by number."""
_COLUMNS = ("start", "end", "name")
UNKNOWN = (1 << 63) - 1
PACKED = {
    "stream": {"streamId": 47, "deviceId": 16},
    "grid": {"gridX": 31, "gridY": 16, "gridZ": 16},
    "block": {"blockX": 16, "blockY": 16, "blockZ": 16, "registersPerThread": 15},
}
"""Columns packed into one 63-bit number, and their widths, because Python integers are slow."""
_KEY = "(((IFNULL({0}, -1) >> 24) & 16777215) << 32) | (IFNULL({1}, -1) & 4294967295)"
"""Process and correlation id in one number, as two processes may use the same ids."""
_FACTS = ("id", "index", "name", "major", "minor", "sms", "l2_bytes", "memory_bytes")
_GPUS = {
    "TARGET_INFO_GPU": (
        *("id", "cuDevice", "name", "computeMajor", "computeMinor"),
        *("smCount", "l2CacheSize", "totalMemory"),
    ),
    "TARGET_INFO_CUDA_GPU": (
        *("deviceId", "deviceId", "name", "computeCapabilityMajor", "computeCapabilityMinor"),
        *("numMultiprocessors", "l2CacheSize", "globalMemorySize"),
    ),
}
"""Tables of GPUs, today's and that of nsys until 2021: the columns of _FACTS."""
NAME_COLUMNS = {"memcpy": "copyKind", "memset": "-1", "graph": "graphId"}
KINDS = ("kernel", "memcpy", "memset", "graph")
_BLOCK = 1 << 10


def is_sqlite(path: str | Path) -> bool:
    """Whether a file starts like a sqlite database."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


@contextmanager
def open_base(
    path: str | Path, fix: str = "export again: nsys export --type sqlite REPORT"
) -> Iterator[sqlite3.Connection]:
    """Open a database read-only. Raises CollectError, with `fix`, if it is cut or damaged."""
    path = Path(path)
    _check_whole(path, fix)
    base = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True)
    try:
        base.execute("PRAGMA mmap_size = 1073741824")
        yield base
    except sqlite3.Error as error:
        raise CollectError(f"{path}: the database cannot be read: {error}", fix=fix) from error
    finally:
        base.close()


def _check_whole(path: Path, fix: str) -> None:
    """Raise CollectError if a file is shorter or longer than its database states."""
    try:
        with path.open("rb") as file:
            head = file.read(100)
        size = path.stat().st_size
    except OSError as error:
        raise CollectError(f"{path}: cannot be opened: {error.strerror}", fix="check the path") from error
    page = int.from_bytes(head[16:18], "big")
    expected = (65536 if page == 1 else page) * int.from_bytes(head[28:32], "big")
    if len(head) < 100 or size < expected:
        raise CollectError(
            f"{path}: {size} B, but the database says {max(expected, 100)} B: the file was cut",
            fix=f"copy it again, or {fix}",
        )


def tables_of(base: sqlite3.Connection) -> set[str]:
    return {name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")}


def columns_of(base: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in base.execute(f'PRAGMA table_info("{table}")')}


def _matrix(cursor: sqlite3.Cursor, width: int) -> Any:
    """All rows of a cursor as an int64 array [rows, width]; raises sqlite3.Error."""
    blocks = []
    while rows := cursor.fetchmany(_BLOCK):
        try:
            blocks.append(np.array(rows, dtype=np.int64))
        except (TypeError, ValueError, OverflowError) as error:
            raise sqlite3.DataError(f"a cell is no number: {error}") from error
    return np.concatenate(blocks) if blocks else np.empty((0, width), dtype=np.int64)


def gpu_work(
    base: sqlite3.Connection,
    tables: set[str],
    among: Sequence[tuple[str, str]] = _TABLES,
    kernel: str = "demangledName",
) -> dict[str, Any]:
    """GPU work by start: arrays of _COLUMNS and PACKED, "call" (_KEY), "kind"; -1 unknown.

    among: kinds of work and the ends of their tables' names. kernel: the column of a kernel's name. "grid" of a copy or
    fill is its bytes.
    """
    parts, kinds = [], []
    for kind, suffix in among:
        table = ACTIVITY + suffix
        if table not in tables:
            continue
        there = columns_of(base, table)
        called = kernel if kind == "kernel" else NAME_COLUMNS[kind]
        names = [called if name == "name" else name for name in _COLUMNS]
        cells = [f"IFNULL({name}, -1)" if name in there else "-1" for name in names]
        cells.append(_KEY.format(*(name if name in there else "-1" for name in ("globalPid", "correlationId"))))
        cells += [_packed(columns, there) for columns in PACKED.values()]
        if kind in ("memcpy", "memset"):
            cells[-2] = f"IFNULL(bytes, {UNKNOWN})" if "bytes" in there else str(UNKNOWN)
        part = _matrix(base.execute(f"SELECT {', '.join(cells)} FROM {table}"), len(cells))
        if (part[:, -len(PACKED) :] < 0).any():
            raise sqlite3.DataError(f"a size, stream or device of {table} is no number, or a too large one")
        parts.append(part)
        kinds.append(np.full(len(part), KINDS.index(kind)))
    if not parts:
        return {"start": np.empty(0)}
    joined, kind_of = np.concatenate(parts), np.concatenate(kinds)
    if (joined[:, 1] < joined[:, 0]).any():
        raise sqlite3.DataError("work that ends before it starts")
    if not (np.diff(joined[:, 0]) > 0).all():
        order = np.lexsort((joined[:, 1], joined[:, 0]))
        joined, kind_of = joined[order], kind_of[order]
    work: dict[str, Any] = dict(zip((*_COLUMNS, "call", *PACKED), joined.T.copy(), strict=True))
    work["kind"] = kind_of
    return work


def _packed(columns: dict[str, int], there: set[str]) -> str:
    """Columns packed in one number, all bits set if unknown, -1 if one does not fit."""
    cell, fits = "0", []
    for name, width in columns.items():
        most = (1 << width) - 1
        cell = f"(({cell} << {width}) | ({f'IFNULL({name}, -1)' if name in there else -1} & {most}))"
        fits += [f"IFNULL({name}, -1) BETWEEN -1 AND {most}"] if name in there else []
    return f"CASE WHEN {' AND '.join(fits) or 'TRUE'} THEN {cell} ELSE -1 END"


def unpacked(number: int, name: str) -> list[int]:
    """Unpacked columns, -1 if unknown; a grid's together, as 65535 is valid there."""
    found, whole = [], name != "grid" or number == UNKNOWN
    for width in reversed(PACKED[name].values()):
        most = (1 << width) - 1
        found.append(-1 if whole and number & most == most else number & most)
        number >>= width
    return found[::-1]


def api_calls(base: sqlite3.Connection, tables: set[str]) -> dict[str, Any] | None:
    """CUDA API calls: "key", "start", "thread", "time" [s], "name"; None if not traced."""
    table = ACTIVITY + "RUNTIME"
    if table not in tables:
        return None
    cells = f"{_KEY.format('globalTid', 'correlationId')}, start, COALESCE(globalTid, -1), end, nameId"
    found = _matrix(base.execute(f"SELECT {cells} FROM {table}"), 5)
    if not len(found):
        return None
    order = np.lexsort((found[:, 1], found[:, 0]))
    names = strings(base, f"SELECT DISTINCT nameId FROM {table}")
    return {
        "key": found[order, 0],
        "start": found[order, 1],
        "thread": found[order, 2],
        "time": (found[order, 3] - found[order, 1]) / 1e9,
        "name": each(found[order, 4], lambda one: names.get(one, "")),
    }


def process_of(global_id: Any) -> Any:
    return (global_id >> 24) & 0xFFFFFF


def strings(base: sqlite3.Connection, ids: str) -> dict[int, str]:
    return dict(base.execute(f"SELECT id, value FROM StringIds WHERE id IN ({ids})").fetchall())


def nvtx_ranges(base: sqlite3.Connection, tables: set[str]) -> list[Range]:
    """Push/pop (59) and start/end (60) ranges with text."""
    if "NVTX_EVENTS" not in tables:
        return []
    there = columns_of(base, "NVTX_EVENTS")
    text, joined = ("e.text", "") if "text" in there else ("NULL", "")
    if "textId" in there:
        text, joined = f"COALESCE({text}, s.value)", " LEFT JOIN StringIds s ON s.id = e.textId"
    found = []
    for start, end, thread, name in base.execute(
        f"SELECT e.start, e.end, e.globalTid, {text} FROM NVTX_EVENTS e{joined} "
        "WHERE e.eventType IN (59, 60) AND e.globalTid IS NOT NULL ORDER BY e.start"
    ):
        cells = (start, thread, 0 if end is None else end)
        if not all(isinstance(one, int) for one in cells) or not isinstance(name, (str, type(None))):
            raise sqlite3.DataError(f"an NVTX range whose cells are no numbers and a text: {(*cells, name)}")
        found.append(Range(start, end, name or "", thread))
    return found


def diagnostics(base: sqlite3.Connection, tables: set[str]) -> list[Caveat]:
    """nsys' own warnings about CUDA or NVTX."""
    if "DIAGNOSTIC_EVENT" not in tables:
        return []
    texts = [
        text
        for (text,) in base.execute("SELECT DISTINCT text FROM DIAGNOSTIC_EVENT WHERE severity IN (2, 3)")
        if any(word in text for word in ("CUDA", "CUPTI", "NVTX", "GPU"))
    ]
    return [Caveat(f"nsys warned: {text.strip()}", "", "") for text in texts[:5]]


def devices_of(base: sqlite3.Connection, tables: set[str]) -> dict[int, dict[str, Any]]:
    """The GPUs by number: name, index, cc, sms, sizes [B]."""
    gpus: list[dict[str, Any]] = []
    for table, columns in _GPUS.items():
        there = columns_of(base, table)
        if columns[0] in there and not gpus:
            cells = ", ".join(name if name in there else "NULL" for name in columns)
            gpus = [dict(zip(_FACTS, row, strict=True)) for row in base.execute(f"SELECT {cells} FROM {table}")]
    numbers = {one["id"]: one["index"] if one["index"] is not None else one["id"] for one in gpus}
    if "TARGET_INFO_CUDA_DEVICE" in tables:
        ids = "SELECT gpuId, cudaId FROM TARGET_INFO_CUDA_DEVICE WHERE gpuId IS NOT NULL"
        cuda = dict(base.execute(ids).fetchall())
        numbers.update(cuda)
        # What is no device of CUDA may claim the number of one, as Windows' renderer does.
        gpus.sort(key=lambda one: one["id"] in cuda)
    found = {}
    for one in gpus:
        major, minor, number = one.pop("major"), one.pop("minor"), int(numbers[one.pop("id")])
        cc = "" if major is None else f"{major}.{minor}"
        found[number] = {**one, "name": one["name"] or "", "index": str(number), "cc": cc}
    return found


def kernel_names(base: sqlite3.Connection, tables: set[str]) -> dict[int, str]:
    table = ACTIVITY + "KERNEL"
    return strings(base, f"SELECT DISTINCT demangledName FROM {table}") if table in tables else {}


def work_names(work: dict[str, Any], kernels: dict[int, str]) -> Any:
    """Name of each piece of work as nsys stats prints it, as categories."""
    width = len(KINDS)
    return told(work["name"] * width + work["kind"], lambda key: label(key % width, key // width, kernels))


def label(kind: int, name: int, kernels: dict[int, str]) -> str:
    """Name as nsys stats prints it; `kind` is an index into KINDS, `name` is of NAME_COLUMNS."""
    if kind == 0:
        return kernels.get(name, f"[unnamed {name}]")
    if kind == 1:
        copy = _COPY_KINDS[name] if 0 <= name < len(_COPY_KINDS) else "Unknown"
        unified = "Unified Memory " if copy.startswith("Unified-") else ""
        return f"[CUDA {unified}memcpy {copy.removeprefix('Unified-')}]"
    return "[CUDA memset]" if kind == 2 else f"[CUDA graph {name}]"


def program_of(base: sqlite3.Connection, tables: set[str]) -> str:
    """File name of the script, else of the binary, that nsys started; "" unknown."""
    asked = "SELECT value FROM META_DATA_CAPTURE WHERE name LIKE 'PROCESS_0:COMMAND' OR name LIKE 'PROCESS_0:ARG%'"
    words = [str(one) for (one,) in base.execute(asked)] if "META_DATA_CAPTURE" in tables else []
    return basename(next((one for one in words if one.endswith(".py")), "".join(words[:1])))
