"""A program's ledger for people: on a terminal and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analyzers.ledger.ledger import CEILING, FUSE, LATE, UNKNOWN, Ledger, Row
from profkit._version import __version__
from profkit.report import units
from profkit.report.layout import Column, Table, terminal_table
from profkit.report.messages import named, say
from profkit.report.names import short_name
from profkit.report.page.data import data_of
from profkit.report.page.frame import render
from profkit.report.page.shown import Share
from profkit.report.sections.caveats import Said

SHOWN = 24
"""Rows on a terminal; a page has MOST."""
MOST = 200
PAINTS = {"operations": "work", "kernels": "kernels", "copies": "copies", "fills": "lower_bound", "idle": "gaps"}


def text(found: Ledger, source: Path) -> str:
    """What a terminal shows."""
    lines = [*_head(found, source), "", terminal_table(table(found, SHOWN)).rstrip(), ""]
    told = [Said.of(one) for one in found.caveats]
    lines += [say("lg_caveat", what=one.what, how_much=one.how_much, fix=one.fix) for one in told]
    return "\n".join(lines).rstrip()


def page(found: Ledger, source: Path) -> str:
    """The page, in both languages."""

    def make() -> dict[str, Any]:
        lead, *notes = _head(found, source)
        return {
            "title": say("lg_title", source=source.name),
            "subtitle": found.device,
            "lead": lead,
            "notes": notes,
            "shares": [
                Share(PAINTS[kind], say(f"lg_{kind}"), units.text(seconds, "s"), units.percent(seconds / found.step))
                for kind, seconds in found.accounts.items()
                if seconds > 0
            ],
            "table": table(found, MOST),
            "caveats": [Said.of(one) for one in found.caveats],
            "version": __version__,
        }

    return render("ledger.html", {**data_of([], best=""), "timeline": None}, make)


def _head(found: Ledger, source: Path) -> list[str]:
    """The sentences above the table: the step and what can be won of it, where it goes, what it is held against."""
    share = {kind: units.percent(seconds / found.step) for kind, seconds in found.accounts.items()}
    parts = [say("lg_part", what=say(f"lg_{kind}"), share=told) for kind, told in share.items() if told != "0%"]
    best = max((row for row in found.rows if row.wins[1] > 0), key=lambda row: row.wins[1], default=None)
    where = {"step": units.text(found.step, "s"), "device": found.device or named("unknown")}
    step = say("lg_step", count=str(found.steps), **where) if found.steps > 1 else say("lg_whole", **where)
    won = say(
        "lg_won", together=units.percent(found.together / found.step), idle=units.percent(found.queued / found.step)
    )
    idle = _range(0.0, found.queued / found.step)
    if best is not None and best.wins[1] > found.queued:
        first = say("lg_first", row=_label(best), advice=_advice(best), wins=_wins(best, found.step))
    elif found.queued > 0:
        first = say("lg_first", row=say("lg_idle"), advice=named(LATE), wins=idle)
    else:
        first = say("lg_none")
    sources = {one.source for one in map(found.roofline.get, ("dram", "tensor_bf16", "fp32")) if one is not None}
    held = say("listed").join(sorted(map(named, sources))) or named("unknown")
    bounds = say("lg_bounds", share=units.percent(found.bounded), source=held)
    return [f"{step}{first}", say("lg_adds", parts=say("listed").join(parts)), won, bounds]


def _label(row: Row) -> str:
    name = row.name if row.op else short_name(row.name, 60)
    return " ".join(part for part in (name, row.shapes) if part)


def _advice(row: Row) -> str:
    return say("lg_fuse", partner=row.partner) if row.advice == FUSE else named(row.advice)


def _wins(row: Row, step: float) -> str:
    low, high = (one / step for one in row.wins)
    if row.advice in (CEILING, UNKNOWN) or high != high:
        return units.MISSING
    return _range(low, high)


def _range(low: float, high: float) -> str:
    return say("lg_range", low=units.percent(round(low, 4)), high=units.percent(round(high, 4)))


def table(found: Ledger, most: int) -> Table:
    """The first rows, and the rest as one so that the shares add up; the idle time is the last."""
    rows, rest = found.rows[:most], found.rows[most:]
    step = found.step
    unit, each = units.column([row.each for row in rows], "s")
    bound = _in(rows, unit)
    more = [say("lg_rest", count=str(len(rest)))] if rest else []
    blank = [units.MISSING] * (len(more) + 1)
    shares = (
        [row.share for row in rows] + [sum(row.share for row in rest)] * bool(rest) + [found.accounts["idle"] / step]
    )
    idle = _range(0.0, found.queued / step)
    columns = [
        Column(say("lg_operation"), [*map(_label, rows), *more, say("lg_idle")]),
        Column(say("lg_calls"), [*(units.count(row.calls) for row in rows), *blank], 2),
        Column(say("lg_share"), [units.percent(one) for one in shares]),
        Column(f"{say('lg_each')} [{unit}]", [*each, *blank], 1),
        Column(f"{say('lg_bound')} [{unit}]", [*bound, *blank], 1),
        Column(
            say("lg_by"),
            [*(named(row.bound_by) if row.bound == row.bound else units.MISSING for row in rows), *blank],
            3,
        ),
        Column(say("lg_reached"), [*(units.percent(row.reached) for row in rows), *blank], 2),
        Column(say("lg_wins"), [*(_wins(row, step) for row in rows), *blank[1:], idle]),
        Column(say("lg_advice"), [*map(_advice, rows), *blank[1:], named(LATE) if found.queued > 0 else units.MISSING]),
    ]
    return Table.of(columns)


def _in(rows: Sequence[Row], unit: str) -> list[str]:
    """Lower bounds in the unit of the times beside them."""
    divisor = next((size for size, name in units.SCALES["s"] if name == unit), 1.0)
    return [units.digits(row.bound / divisor) for row in rows]
