"""What the clocks said of a kernel, as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from analyzers.records import number
from profkit.report.layout import Table, terminal_table
from roofline import units

CAUSES = ("launch", "flush", "l2", "pace", "events", "rest")
NOTE = """gap: against CUPTI with a cold cache. launch: the queue was empty. flush: what emptying the cache left
dirty. l2: a warm cache. pace: the kernels themselves ran at another speed. events: between time stamps and kernels, and
between calls. rest: unexplained."""
CPU_NOTE = """gap: against profkit's clock with a cold cache, whose own calls differ by {noise} us (quartiles). l2: a warm cache, where it
saves more than that. rest: unexplained."""


def text(document: Mapping[str, Any]) -> str:
    """A table a kernel, microseconds, and what its columns mean."""
    lines = [_machine(document)]
    for kernel in document["kernels"]:
        causes = [
            one for one in CAUSES if any(number(row, one) for row in kernel["rows"] if _us(row, one) != units.MISSING)
        ]
        cells = [
            [row["clock"], row["cache"], *(_us(row, name) for name in ("time", "gap", *causes))]
            for row in kernel["rows"]
        ]
        lines += ["", kernel["name"], terminal_table(Table(["clock", "cache", "us", "gap", *causes], cells)).rstrip()]
        lines += [f"{row['clock']}, {row['cache']}: {row['error']}" for row in kernel["rows"] if row["error"]]
    noise = _us((document["kernels"][0]["rows"] or [{}])[0], "noise")
    return "\n".join([*lines, "", NOTE if noise == units.MISSING else CPU_NOTE.format(noise=noise)])


def _machine(document: Mapping[str, Any]) -> str:
    known = [f"{one} {document['versions'][one]}" for one in ("torch", "triton") if one in document["versions"]]
    return ", ".join([document["device"].get("name", ""), *known])


def _us(row: Mapping[str, Any], name: str) -> str:
    seconds = number(row, name)
    return units.MISSING if math.isnan(seconds) else f"{round(seconds * 1e6, 2) + 0.0:.2f}"
