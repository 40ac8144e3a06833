"""Writes nsys exports of several versions from one list of operations, as the tool would."""

import csv
import io
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

PID = 4056
PROCESS = (1 << 48) | (PID << 24)
"""globalPid; with a thread in its low bits, globalTid."""


@dataclass(frozen=True)
class Op:
    """One piece of GPU work and the API call that made it; times in ns."""

    start: int
    time: int
    name: str = "axpy(float *, int)"
    kind: str = "kernel"
    grid: tuple[int, int, int] = (16, 1, 1)
    block: tuple[int, int, int] = (256, 1, 1)
    registers: int = 32
    bytes: int = 0
    device: int = 0
    stream: int = 7
    call: int = 0
    call_time: int = 5000
    thread: int = PID
    graph: bool = False


@dataclass(frozen=True)
class Nvtx:
    """A range; end None = never closed."""

    start: int
    end: int | None
    name: str
    thread: int = PID
    domain: int = 0
    type: int = 59
    registered: bool = False


@dataclass
class Base:
    """What a sqlite export holds besides operations and ranges."""

    domains: dict[int, str] = field(default_factory=dict)
    lost_calls: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    with_calls: bool = True
    devices: tuple[str, ...] = ("NVIDIA H200",)


def _rows(header: str, rows: list[list[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows(rows)
    return header + "\n" + out.getvalue()


def gpu_trace(ops: list[Op], version: str = "2023.4") -> str:
    """cuda_gpu_trace / gputrace."""
    old = version == "2022.4"
    rate, green, null = ("MBps", "", "None") if old else ("MB/s", "GreenCtx,", "")
    header = (
        "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),"
        f"Bytes (MB),Throughput ({rate}),SrcMemKd,DstMemKd,Device,Ctx,{green}Strm,Name"
    )
    rows: list[list[object]] = []
    for at, op in enumerate(ops):
        if op.kind == "kernel":
            shape: list[object] = [*op.grid, *op.block, op.registers, "0.000", "0.000", null, "", null, null]
        else:
            speed = f"{op.bytes / op.time * 1e3:.3f}"
            shape = [null] * 9 + [f"{op.bytes / 1e6:.3f}", speed, "Pageable", "Device"]
        tail: list[object] = [f"NVIDIA H200 ({op.device})", 1, *([] if old else [""]), op.stream, op.name]
        rows.append([op.start, op.time, 100 + at, *shape, *tail])
    return _rows(header, rows)


def _groups(ops: list[Op]) -> list[tuple[str, list[int]]]:
    groups: dict[str, list[int]] = {}
    for op in ops:
        groups.setdefault(op.name, []).append(op.time)
    return sorted(groups.items(), key=lambda item: -sum(item[1]))


def kern_sum(ops: list[Op], version: str = "2023.4") -> str:
    """cuda_gpu_kern_sum / gpukernsum."""
    groups = _groups(ops)
    whole = sum(sum(times) for _, times in groups)
    if version == "2021.1":
        header = "Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name"
    else:
        header = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
    rows: list[list[object]] = []
    for name, times in groups:
        mean = f"{sum(times) / len(times):.1f}"
        share = f"{100 * sum(times) / whole:.1f}"
        middle: list[object] = [mean] if version == "2021.1" else [mean, mean]
        spread: list[object] = [] if version == "2021.1" else ["0.0"]
        rows.append([share, sum(times), len(times), *middle, min(times), max(times), *spread, name])
    return _rows(header, rows)


def kern_sum_text(ops: list[Op]) -> str:
    """The aligned text of the console, numbers grouped by commas."""
    cells = [["Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Name"]]
    whole = sum(op.time for op in ops)
    for name, times in _groups(ops):
        total = sum(times)
        cells.append(
            [f"{100 * total / whole:.1f}", f"{total:,}", f"{len(times):,}", f"{total / len(times):,.1f}", name]
        )
    widths = [max(len(row[at]) for row in cells) for at in range(5)]
    cells.insert(1, ["-" * width for width in widths])
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    head = "[3/8] Executing 'cuda_gpu_kern_sum' stats report\n\n"
    return head + "".join(f" {line}\n" for line in lines) + "\n"


def pushpop_trace(ranges: list[Nvtx]) -> str:
    """nvtx_pushpop_trace."""
    header = (
        "Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,NumChild,RangeId,"
        "ParentId,RangeStack,NameTree"
    )
    rows: list[list[object]] = [
        [one.start, one.end, one.end - one.start, 0, 0, one.name, PID, PID, 0, 0, at, "", f":{at}", one.name]
        for at, one in enumerate(ranges)
        if one.end is not None
    ]
    return _rows(header, rows)


def stdout(*parts: tuple[str, str]) -> str:
    """Several reports as `nsys stats` prints them: (script, CSV or a SKIPPED/ERROR line)."""
    out = "Generating SQLite file r.sqlite from r.nsys-rep\n"
    for script, text in parts:
        out += f"Processing [r.sqlite] with [/opt/nsight-systems/host-linux-x64/reports/{script}.py]... \n{text}\n"
    return out


def sqlite_export(path: Path, ops: list[Op], ranges: list[Nvtx] = [], more: Base | None = None) -> Path:  # noqa: B006
    """The sqlite export; a table is left out when it would be empty."""
    more = more or Base()
    strings: dict[str, int] = {}

    def string(text: str) -> int:
        return strings.setdefault(text, len(strings) + 1)

    def work(chosen: Callable[[Op], bool], more: Callable[[Op], tuple[object, ...]]) -> list[tuple[object, ...]]:
        return [
            (o.start, o.start + o.time, o.device, o.stream, n, PROCESS, *more(o))
            for n, o in enumerate(ops)
            if chosen(o)
        ]

    base = sqlite3.connect(path)
    common = "start INT, end INT, deviceId INT, streamId INT, correlationId INT, globalPid INT"
    shape = "gridX INT, gridY INT, gridZ INT, blockX INT, blockY INT, blockZ INT, registersPerThread INT"
    kernels = work(
        lambda o: o.kind == "kernel" and not o.graph, lambda o: (string(o.name), *o.grid, *o.block, o.registers)
    )
    copies = work(lambda o: o.kind == "memcpy", lambda o: (o.bytes, 1))
    fills = work(lambda o: o.kind == "memset", lambda o: (o.bytes,))
    graphs = work(lambda o: o.graph, lambda o: (1,))
    for name, columns, rows in (
        ("KERNEL", f"demangledName INT, {shape}", kernels),
        ("MEMCPY", "bytes INT, copyKind INT", copies),
        ("MEMSET", "bytes INT", fills),
        ("GRAPH_TRACE", "graphId INT", graphs),
    ):
        _table(base, f"CUPTI_ACTIVITY_KIND_{name}", f"{common}, {columns}", rows)
    launch = string("cudaLaunchKernel_v7000")
    calls = [(o.call, o.call + o.call_time, PROCESS | o.thread, n, launch) for n, o in enumerate(ops)]
    calls += [(t, t + 10, PROCESS | PID, 10_000 + n, launch) for n, t in enumerate(more.lost_calls)]
    if more.with_calls:
        columns = "start INT, end INT, globalTid INT, correlationId INT, nameId INT"
        _table(base, "CUPTI_ACTIVITY_KIND_RUNTIME", columns, calls)
    events: list[tuple[object, ...]] = []
    for r in ranges:
        text, number = (None, string(r.name)) if r.registered else (r.name, None)
        events.append((r.start, r.end, r.type, text, PROCESS | r.thread, number, r.domain))
    events += [(-5, None, 75, name, PROCESS | PID, None, number) for number, name in more.domains.items()]
    columns = "start INT, end INT, eventType INT, text TEXT, globalTid INT, textId INT, domainId INT"
    _table(base, "NVTX_EVENTS", columns, events)
    _table(base, "DIAGNOSTIC_EVENT", "severity INT, text TEXT", [(2, text) for text in more.warnings])
    columns = "id INT, cuDevice INT, name TEXT, computeMajor INT, computeMinor INT, smCount INT"
    _table(base, "TARGET_INFO_GPU", columns, [(at, at, name, 9, 0, 132) for at, name in enumerate(more.devices)])
    _table(base, "StringIds", "id INTEGER PRIMARY KEY, value TEXT", [(n, text) for text, n in strings.items()])
    base.commit()
    base.close()
    return path


def _table(base: sqlite3.Connection, name: str, columns: str, rows: list[tuple[object, ...]]) -> None:
    if rows:
        base.execute(f"CREATE TABLE {name} ({columns})")
        base.executemany(f"INSERT INTO {name} VALUES ({','.join('?' * len(rows[0]))})", rows)
