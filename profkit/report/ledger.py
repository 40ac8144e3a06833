"""A program's ledger for the terminal and as a page; predicted and measured gains."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from analyzers.ledger.ledger import CEILING, FUSE, LATE, SCHEMA, Ledger, Row
from analyzers.records import plain
from collectors.operations import parsed
from profkit._version import __version__
from profkit.errors import ProfkitError
from profkit.record.verify import Verified
from profkit.report.layout import Column, Table, terminal_table
from profkit.report.messages import named, say
from profkit.report.names import short_names
from profkit.report.page.data import data_of, share
from profkit.report.page.frame import render
from profkit.report.sections.caveats import Said
from roofline import units

SHOWN = 24
"""Rows on a terminal; MOST on a page."""
MOST = 200
PAINTS = {"operations": "work", "kernels": "kernels", "copies": "excess", "fills": "lower_bound", "idle": "gaps"}


def text(found: Ledger) -> str:
    lines = [*_head(found), "", terminal_table(table(found, SHOWN)).rstrip(), ""]
    lines += [say("c_caveat") + Said.of(one).with_fix() for one in found.caveats]
    return "\n".join(lines).rstrip()


def page(found: Ledger, source: Path) -> str:
    def make() -> dict[str, Any]:
        lead, _, *notes = _head(found)  # the bar shows the parts
        return {
            "title": say("lg_title", source=source.name),
            "subtitle": found.device,
            "lead": lead,
            "notes": notes,
            "shares": [
                share(PAINTS[kind], say(f"lg_{kind}"), seconds, units.percent(seconds / found.step))
                for kind, seconds in found.accounts.items()
                if seconds > 0
            ],
            "table": table(found, MOST),
            "caveats": [Said.of(one) for one in found.caveats],
            "version": __version__,
        }

    return render("ledger.html", {**data_of([], best=""), "timelines": []}, make)


def _head(found: Ledger) -> list[str]:
    """Sentences above the table: step, parts, largest win, ceilings."""
    share = {kind: units.percent(seconds / found.step) for kind, seconds in found.accounts.items()}
    parts = [say("lg_part", what=say(f"lg_{kind}"), share=told) for kind, told in share.items() if told != "0%"]
    where = {"step": units.text(found.step, "s"), "device": found.device or named("unknown")}
    step = say("lg_step", count=str(found.steps), **where) if found.steps > 1 else say("lg_whole", **where)
    names = _labels(found)
    rows = [(row.wins[1], names[at], _advice(row), _wins(row.wins, found.step)) for at, row in enumerate(found.rows)]
    idle = (found.queued, say("lg_idle"), named(LATE), _wins((0.0, found.queued), found.step))
    best = max((row for row in (*rows, idle) if row[0] > 0), default=())[1:]
    first = (
        say("lg_first", **dict(zip(("row", "advice", "wins"), map(str, best), strict=True))) if best else say("lg_none")
    )
    sources = {one.source for one in map(found.roofline.get, ("dram", "tensor_bf16", "fp32")) if one is not None}
    held = say("listed").join(sorted(map(named, sources))) or named("unknown")
    shares = {"together": found.together / found.step, "idle": found.queued / found.step}
    return [
        f"{step}{first}",
        say("lg_adds", parts=say("listed").join(parts)),
        say("lg_won", **{name: units.percent(one) for name, one in shares.items()}),
        say("lg_bounds", share=units.percent(found.bounded), source=held),
    ]


def _labels(found: Ledger) -> list[str]:
    short = short_names(row.name for row in found.rows if not row.op)
    return [f"{row.name} {row.shapes}".strip() if row.op else short[row.name] for row in found.rows]


def _advice(row: Row) -> str:
    return say("lg_fuse", partner=row.partner) if row.advice == FUSE else named(row.advice)


def _wins(wins: tuple[float, float], step: float) -> str:
    low, high = (units.percent(round(one / step, 4)) if one == one else "" for one in wins)
    return say("lg_range", low=low, high=high) if low else units.MISSING


def table(found: Ledger, most: int) -> Table:
    """The first rows, the rest as one row, and idle time last; shares add up."""
    heads = [("operation", 0), ("calls", 2), ("share", 0), ("each", 1), ("bound", 1), ("by", 3), ("reached", 2)]
    rows = [
        (
            name,
            units.count(row.calls),
            units.percent(row.share),
            units.digits(row.each * 1e6),
            units.digits(round(row.bound * 1e6, 2)),
            named(row.bound_by) if row.bound == row.bound else units.MISSING,
            units.percent(row.reached),
            _wins(row.wins, found.step) if row.advice != CEILING else units.MISSING,
            _advice(row),
        )
        for name, row in zip(_labels(found), found.rows[:most], strict=False)
    ]
    none = (units.MISSING,) * 4
    if rest := found.rows[most:]:
        share = units.percent(sum(row.share for row in rest))
        rows.append((say("lg_rest", count=str(len(rest))), none[0], share, *none, none[0], none[0]))
    idle = units.percent(found.accounts["idle"] / found.step)
    rows.append((say("lg_idle"), none[0], idle, *none, _wins((0.0, found.queued), found.step), named(LATE)))
    cells = zip([*heads, ("wins", 0), ("advice", 0)], zip(*rows, strict=True), strict=True)
    return Table.of([Column(say(f"lg_{head}"), column, rank) for (head, rank), column in cells])


# ---- a change

Rows = Sequence[Mapping[str, Any]]


def predicting(
    source: Path, opened: Callable[[Path], Ledger], change: Path, name: str
) -> tuple[Mapping[str, Any], Rows]:
    """(data of a ledger, rows that the change concerns). Raises ProfkitError if no row can win."""
    written = source.suffix == ".json" and SCHEMA in source.read_text("utf-8")[:99]
    told = json.loads(source.read_text("utf-8")) if written else json.loads(opened(source).data)
    idle = {"name": "idle", "shapes": "", "op": "", "advice": LATE, "wins": [0.0, told["queued"]]}
    rows = [one for one in [*told["rows"], idle] if one["wins"][1] is not None]
    if change.suffix == ".py":
        whose = re.search(r'^OPERATION, PLACES = "([^"]+)"', change.read_text("utf-8"), re.MULTILINE)
        mine = [one for one in rows if whose is not None and parsed(one["op"]).name == whose[1]]
    elif name:
        mine = [one for one in rows if name in f"{one['name']} {one['shapes']}"]
    else:
        mine = sorted(rows, key=lambda one: -one["wins"][1])[:1]
    if not mine:
        known = ", ".join(dict.fromkeys(one["name"] for one in rows[:8]))
        raise ProfkitError(
            "the ledger predicts nothing for this change", fix=f"its rows: {known or 'none with a gain'}"
        )
    return told, mine


def document(rows: Rows, step: float, found: Verified, covered: float) -> dict[str, Any]:
    """Data and sentences of a verification; covered: recorded share of the timed seconds."""
    low, high = (min(1.0, covered) * sum(row["wins"][at] for row in rows) / step for at in (0, 1))
    won, least, most = (1 - 1 / value for value in (found.ratio.value, found.ratio.low, found.ratio.high))
    held = "below" if most < low else "above" if least > high else "unsure" if least < 0 < most else "within"
    output = "differ" if not found.agrees else "close" if found.difference else "agree"
    words = {
        "what": say("listed").join(dict.fromkeys(f"{row['name']}: {named(row['advice'])}" for row in rows)),
        "range": say("lg_range", low=units.percent(round(low, 4)), high=units.percent(round(high, 4))),
        "value": units.percent(round(won, 4)),
        "interval": say("lg_range", low=units.percent(round(least, 4)), high=units.percent(round(most, 4))),
        "time": units.digits(found.usual),
        "count": str(len(found.before)),
        "difference": units.percent(found.difference),
        "alone": units.percent(found.alone),
        "where": found.where,
    }
    return {
        "schema": "profkit-verify/1",
        "predicted": [low, high],
        "got": plain({"value": won, "low": least, "high": most}),
        "held": held,
        "agrees": found.agrees,
        "before": found.before,
        "after": found.after,
        "said": "\n".join(say(f"lg_{key}", **words) for key in ("predicted", "got", held, output)),
    }
