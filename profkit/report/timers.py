"""Times of a kernel by several clocks: a table and a figure of stacked bars."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from analyzers.records import number
from profkit.report.layout import Column, Table, terminal_table
from roofline import units
from roofline.figure.bars import draw_stacks

_CAUSES = ("launch", "flush", "l2", "pace", "events", "rest")
_NOTE = """gap: against CUPTI with a cold cache. launch: the queue was empty. flush: what emptying the cache left
dirty. l2: a warm cache. pace: the kernels themselves ran at another speed. events: between time stamps and kernels, and
between calls. rest: unexplained."""
_CPU_NOTE = """gap: against profkit's clock with a cold cache, whose own calls differ by {noise} us (quartiles). l2: a warm cache, where it
saves more than that. rest: unexplained."""


def clocks(document: Mapping[str, Any]) -> str:
    """Times of each kernel by each clock, in microseconds, and the meaning of the columns."""
    lines = [_machine(document)]
    for kernel in document["kernels"]:
        rows = kernel["rows"]
        causes = [one for one in _CAUSES if any(abs(number(row, one)) > 0 for row in rows)]
        heads = {"time": "us", **{one: one for one in ("gap", *causes)}}
        columns = [Column(name, [row[name] for row in rows]) for name in ("clock", "cache")]
        columns += [Column(head, [_us(row, name) for row in rows]) for name, head in heads.items()]
        lines += ["", kernel["name"], terminal_table(Table.of(columns)).rstrip()]
        lines += [f"{row['clock']}, {row['cache']}: {row['error']}" for row in rows if row["error"]]
    noise = _us((document["kernels"][0]["rows"] or [{}])[0], "noise")
    return "\n".join([*lines, "", _NOTE if noise == units.MISSING else _CPU_NOTE.format(noise=noise)])


def figure(document: Mapping[str, Any]) -> Any:
    """Times of the first kernel by each clock, as bars over the cold-cache device time."""
    kernel = document["kernels"][0]
    shared = number(kernel["rows"][0], "time")
    bars = []
    for row in kernel["rows"]:
        parts = {one: number(row, one) for one in _CAUSES if not math.isnan(number(row, one))}
        amount = "" if _us(row, "time") == units.MISSING else f"{_us(row, 'time')} us ({_us(row, 'gap')})"
        whole = parts if parts or not amount else {"rest": number(row, "gap")}
        bars.append((f"{row['clock']}, {row['cache']}", whole, amount))
    title = f"{kernel['name']} by every clock: {units.text(shared, 's')} by {kernel['rows'][0]['clock']}, cold"
    return draw_stacks(bars, "device time", shared, _CAUSES, title, f"{_machine(document)}; dashed: left out")


def _machine(document: Mapping[str, Any]) -> str:
    known = [f"{one} {document['versions'][one]}" for one in ("torch", "triton") if one in document["versions"]]
    return ", ".join([document["device"].get("name", ""), *known])


def _us(row: Mapping[str, Any], name: str) -> str:
    seconds = number(row, name)
    return units.MISSING if math.isnan(seconds) else f"{round(seconds * 1e6, 2) + 0.0:.2f}"
