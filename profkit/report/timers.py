"""What the clocks said of a kernel: a table, and a figure of stacked bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analyzers.records import number
from profkit.report import units
from profkit.report.layout import Table, pipe_table, terminal_table
from profkit.report.messages import say, speaking, spoken
from roofline.figure.stacks import Stack, Stacks, draw_stacks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAUSES = ("launch", "flush", "l2", "pace", "events", "rest")


def text(document: Mapping[str, Any], *, markdown: bool = False) -> str:
    """A table a kernel, microseconds, with what the columns mean."""
    device = document.get("device", {})
    lines = [", ".join(str(one) for one in (device.get("name"), *_versions(document)) if one)]
    for kernel in document["kernels"]:
        table = _table(kernel["rows"])
        lines += ["", f"## {kernel['name']}" if markdown else kernel["name"]]
        lines += [f"error: {kernel['error']}"] if kernel["error"] else []
        lines.append((f"\n{pipe_table(table, (0, 1))}" if markdown else terminal_table(table)).rstrip())
        failed = [row for row in kernel["rows"] if row["error"]]
        lines += [f"{row['clock']}, {row['cache']}: {row['error']}" for row in failed]
    return "\n".join([*lines, "", say("timers_note")])


def _versions(document: Mapping[str, Any]) -> list[str]:
    return [
        f"{name} {version}" for name, version in document.get("versions", {}).items() if name in ("torch", "triton")
    ]


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    head = [
        say("timers_clock"),
        say("timers_cache"),
        "us",
        say("timers_gap"),
        *(say(f"timers_{one}") for one in CAUSES),
    ]
    cells = [
        [row["clock"], row["cache"], *(_us(number(row, name)) for name in ("time", "gap", *CAUSES))] for row in rows
    ]
    return Table(head, cells, (0, 0, 0, 0, *(1 for _ in CAUSES)))


def _us(seconds: float) -> str:
    return units.MISSING if math.isnan(seconds) else f"{seconds * 1e6 + 0.0:.2f}"


def figure(document: Mapping[str, Any], *, theme: str = "light") -> Figure:
    """The clocks of the first kernel as bars; the common part is CUPTI's time with a cold cache, profkit's on a CPU."""
    kernel = document["kernels"][0]
    with speaking(spoken()):
        common = next((number(row, "time") for row in kernel["rows"] if not number(row, "gap")), math.nan)
        names = {"common": say("timers_common"), **{one: say(f"timers_{one}") for one in CAUSES}}
        title = say("timers_title", kernel=kernel["name"], time=units.text(common, "s"))
        subtitle = ", ".join(filter(None, (document.get("device", {}).get("name", ""), say("timers_subtitle"))))
        told: Figure = draw_stacks(
            Stacks([_stack(row) for row in kernel["rows"]], common, names, title, subtitle, theme)
        )
        return told


def _stack(row: Mapping[str, Any]) -> Stack:
    label, time, gap = f"{row['clock']}, {row['cache']}", number(row, "time"), number(row, "gap")
    if math.isnan(time):
        return Stack(label, {}, "")
    parts = {one: number(row, one) for one in CAUSES if not math.isnan(number(row, one))}
    return Stack(label, parts or {"rest": gap}, f"{time * 1e6:.2f} us ({gap * 1e6:+.2f})")
