"""Drawn parts of pages as data of their templates: waterfalls, steps, changes, findings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analyzers.rules.rule import COLLECT, TIME, Finding
from analyzers.rules.subjects import WHOLE
from analyzers.waterfall import SLICE_KINDS
from profkit.report.explain import MINOR, gain, headline, in_order, proof, unchecked, unexplained, worded
from profkit.report.layout import cut
from profkit.report.messages import named, say
from profkit.report.names import short_name
from profkit.report.page.data import Shown, page_name
from profkit.report.sections import answer
from profkit.report.waterfall import Block, blocks, lower_bound_line, wall_blocks
from roofline import units

if TYPE_CHECKING:
    from analyzers.timeline.budget import Budget
    from profkit.study.study import Study

TOP = 3
"""Findings of the winner that are told in full; the others are behind a fold."""
MOST_FINDINGS = 20

Values = dict[str, Any]
"""Names of a template -> what stands there."""
Kernels = Sequence[Mapping[str, Any]]
"""The kernels of the page's script, by their row."""


# ---- where the time goes


def _bars(
    mine: Sequence[Block], whole: float, found: Sequence[Finding], kernels: Kernels, part: str = ""
) -> list[Values]:
    """Blocks in percent of the `whole` [s], with their rows among the kernels of `part`."""
    rows = {row["kernel"]: at for at, row in reversed(list(enumerate(kernels))) if part in ("", row["impl"])}
    ids = _ids(found)
    return [
        {
            "paint": one.paint,
            "label": one.label(),
            "why": one.why(),
            "left": f"{max(0.0, one.top - one.seconds) / whole:.3%}",
            "width": f"{one.seconds / whole:.3%}",
            "seconds": units.text(one.seconds, "s"),
            "share": units.percent(one.share(whole)),
            "kernel": rows.get(page_name(one.kernel), -1) if one.kernel else -1,
            "finding": ids.get(id(one.finding), ""),
        }
        for one in mine
    ]


def _ids(found: Sequence[Finding]) -> dict[int, str]:
    return {id(one): f"f{at}" for at, one in enumerate(found)}


def falls_of(
    parts: Sequence[Shown], head: str, kernels: Kernels, found: Sequence[Finding] = (), *, open_: int = 0
) -> Iterator[Values]:
    """Waterfalls of parts below the `head`; `open_`: the one that is shown first."""
    longest = max((part.study.waterfalls[part.impl].time for part in parts), default=math.nan)
    for at, part in enumerate(parts):
        mine, time = blocks(part.study, part.impl, found), part.study.waterfalls[part.impl].time
        kinds = {kind: sum(one.seconds for one in mine if one.kind == kind) for kind in SLICE_KINDS}
        kinds = {kind: seconds for kind, seconds in kinds.items() if seconds > 0}
        yield {
            "part": part.label,
            "head": head,
            "line": lower_bound_line(part.study, part.impl),
            "time": units.text(time, "s"),
            "bars": _bars(mine, time, found, kernels, part.label),
            "kinds": tuple(kinds),
            "stack": [
                (
                    kind,
                    f"{seconds / longest:.3%}",
                    say("p_stack", kind=say(f"fall_{kind}"), time=units.text(seconds, "s")),
                )
                for kind, seconds in kinds.items()
            ],
            "open": at == open_,
        }


def wall_of(
    budget: Budget, head: str, line: str, found: Sequence[Finding] = (), whole: str = "", kernels: Kernels = ()
) -> Values:
    """A program's step on a process and device; `whole`: the name that findings about it carry."""
    bars = _bars(wall_blocks(budget, whole, found), budget.step, found, kernels)
    return {"head": head, "line": line, "time": units.text(budget.step, "s"), "bars": bars}


def walls_of(study: Study, found: Sequence[Finding], kernels: Kernels) -> Iterator[Values]:
    """The steps of a program, one a process and device."""
    lines, head = iter(answer.wall_time(study)), answer.per(study, "p_one")
    for name, one in study.budgets.items():
        if one.window > 0:
            yield wall_of(one, head, next(lines), found, name or WHOLE, kernels)


def shares_of(mine: Sequence[Block], whole: float) -> list[Values]:
    """Where the time [s] goes by kind, in the order of the blocks."""
    sums: dict[tuple[str, str], float] = {}
    for one in mine:
        label = one.why() or one.label() if one.of_step else say(f"fall_{one.kind}")
        sums[one.paint, label] = sums.get((one.paint, label), 0.0) + one.seconds
    return [share(*key, seconds, units.percent(seconds / whole)) for key, seconds in sums.items()]


def share(paint: str, label: str, seconds: float, of: str) -> Values:
    """A kind of time on the bar of the first screen."""
    return {"paint": paint, "label": label, "time": units.text(seconds, "s"), "share": of}


# ---- findings


def findings_of(study: Study, found: Sequence[Finding]) -> Iterator[Values]:
    """The findings of the parts as these are ranked; of a program all in one."""
    parts = [(name, headline(study, name), [one for one in found if one.impl == name]) for name in in_order(study)]
    if study.best is None:
        parts = [("", next(iter(answer.wall_time(study)), ""), list(found))]
    ids = _ids(found)
    for at, (name, head, mine) in enumerate(parts):
        every = [one for one in mine if one.severity != COLLECT]
        # Last those whose win the findings before them claim.
        large = [one for one in every if not one.ratio < MINOR]
        large.sort(key=lambda one: one.severity == TIME and one.win <= MINOR * one.upper_bound)
        large = large[:MOST_FINDINGS]
        told = [_finding(study, one, ids[id(one)]) for one in large]
        missing, command = unchecked(mine, study)
        yield {
            "name": name,
            "headline": head,
            "best": at == 0,
            "top": told[:TOP] if at == 0 else [],
            "rest": told[TOP:] if at == 0 else told,
            "smaller": len(every) - len(large),
            "unchecked": say("listed").join(map(named, missing)),
            "collect": command,
            "silent": unexplained(mine),
        }


def _finding(study: Study, one: Finding, name: str) -> Values:
    """Texts of one finding; `own`: what it could win beyond those before it, where less."""
    title, then, expect = worded(one, study)
    ranged = study.best is None and len(study.parts) > 1 and one.impl not in ("", WHOLE)
    own = ""
    # Of a program the slice itself is claimed: its first finding says more than the others leave of it.
    if one.severity == TIME and one.win < 0.98 * one.upper_bound and math.isnan(one.recorded):
        own = say("p_own", time=units.text(one.win, "s")) if one.win > 0 else say("p_own_none")
    return {
        "id": name,
        "severity": one.severity,
        "gain": gain(one),
        "title": title,
        "step": then,
        "kernel": ", ".join([*([one.impl] if ranged else []), *([short_name(one.kernel)] if one.kernel else [])]),
        "full": cut(one.kernel, 300),
        "own": own,
        "evidence": say("semicolon").join(map(proof, one.evidence)),
        "expect": expect,
    }
