"""Blocks of a waterfall, from the time now down to the lower bound."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from analyzers.records import tables
from analyzers.rules.rule import HOST, TIME, Finding
from analyzers.rules.subjects import WHOLE
from analyzers.timeline.budget import Budget
from analyzers.timeline.idle import IDLE
from analyzers.waterfall import EXCESS, GAPS, KERNELS, LOWER_BOUND, SLICE_KINDS, WORK, Slice, Waterfall
from profkit.report.layout import Column, Table
from profkit.report.messages import named, of_pair, say
from profkit.report.names import short_names
from profkit.report.sections import answer
from profkit.study.study import Study
from roofline import units

MOST = 8
"""Kernels of one kind shown by name; the rest are one block."""
LEAST = 0.005
"""Smallest share of a program's step for a block of its own."""
ROUNDING = 1e-6
"""Slices below this share of the time are floating-point rounding and get no block."""
_LAUNCHING = ("launch-bound", "launch-gaps", "host-bound")
_WIDE = 48
"""Most characters of a kernel's name."""
WINDOWS = {"all": "the whole record", "range": "a passage", "repeating": "a step", "after": "a step"}
"""Kind of a program's window -> its name in text."""
_PAINTED = {"computing": WORK, "communicating": KERNELS, "copying": EXCESS} | {cause: cause for cause in IDLE}
"""Colour of a program's slice, by the nearest kind of a call's time; idle time by cause."""


@dataclass(frozen=True)
class Block:
    """A block `seconds` long from `top` [s]; `kernels`: number of kernels in it.

    `own`: the lower bound of the implementation's own precision, below the task's.
    """

    kind: str
    seconds: float
    top: float
    kernel: str = ""
    short: str = ""
    cause: str = ""
    kernels: int = 0
    finding: Finding | None = None
    own: bool = False

    @property
    def paint(self) -> str:
        """Kind that decides the colour."""
        return _PAINTED.get(self.kind, self.kind)

    @property
    def of_step(self) -> bool:
        """Whether the block is part of a program's step, not of a call."""
        return self.kind in _PAINTED

    def label(self) -> str:
        """Name of the kernel or of the kind of time."""
        if self.of_step and not self.kernels:
            return say(f"wall_{'idle' if self.kind == 'unknown' else self.kind}")
        if self.kernels > 1:
            return say("fall_more", count=str(self.kernels))
        if self.kind == LOWER_BOUND:
            return say("fall_own_lower_bound" if self.own else "fall_task_lower_bound")
        return self.short or say(f"fall_{self.kind}")

    def why(self) -> str:
        """Kind of time and bottleneck of the kernel; "" if the label already names them."""
        if self.kind in IDLE and self.kind != "unknown":
            return say("wall_idle")
        if not self.kernels:
            return named(self.cause)
        if self.of_step:
            return say(f"wall_{self.kind}")
        if self.kind != EXCESS:
            return say("fall_alone") if self.kind == KERNELS else say(f"fall_{self.kind}")
        if not self.cause:
            return say("fall_over")
        known = tables("causes.toml").get(self.cause)
        if known is None:
            return say("fall_over_roof", roof=named(self.cause))
        return of_pair(known)

    def share(self, whole: float) -> float:
        return self.seconds / whole if whole > 0 else math.nan


def blocks(study: Study, impl: str, findings: Sequence[Finding] = ()) -> list[Block]:
    """Blocks of a part from the top: gaps, the longest excesses, the lower bound last."""
    fall = study.waterfalls.get(impl)
    if fall is None:
        return []
    mine = [one for one in findings if one.impl == impl and one.severity in (TIME, HOST)]
    short = short_names((one.kernel for one in fall.slices if one.kernel), _WIDE)
    own = fall.lower_bound < float(study.analysis.impl(impl)["lower_bound_time"]) * (1 - ROUNDING)
    found = []
    for one, kernels in _steps(fall):
        name = one.kernel if kernels == 1 else ""
        against = _finding(one, mine) if kernels < 2 else None
        lower = own and one.kind == LOWER_BOUND
        found.append(Block(one.kind, one.seconds, 0.0, name, short.get(name, ""), one.cause, kernels, against, lower))
    return _stacked(found, fall.time)


def _stacked(found: Sequence[Block], top: float) -> list[Block]:
    """Stack blocks downwards from the top [s]."""
    ends = accumulate((one.seconds for one in found), lambda end, seconds: end - seconds, initial=top)
    return [replace(one, top=end) for one, end in zip(found, ends, strict=False)]


def _steps(fall: Waterfall) -> Iterator[tuple[Slice, int]]:
    """(slice, number of kernels) from the top; the shortest kernels of a kind are one slice."""
    ranked = sorted((one for one in fall.slices if one.seconds > ROUNDING * fall.time), key=lambda one: -one.seconds)
    for kind in reversed(SLICE_KINDS):
        mine = [one for one in ranked if one.kind == kind]
        own = [one for one in mine if one.kernel]
        most = MOST if len(own) > MOST + 1 else len(own)
        yield from ((one, 1) for one in own[:most])
        if hidden := own[most:]:
            yield Slice(kind, sum(one.seconds for one in hidden)), len(hidden)
        yield from ((one, 0) for one in mine if not one.kernel)


def _finding(one: Slice, findings: Iterable[Finding]) -> Finding | None:
    """First finding about the slice's kernel or the whole call; for gaps, one about launches."""
    if one.kind == LOWER_BOUND:
        return None
    whole = [finding for finding in findings if finding.kernel == one.kernel]
    if not one.kernel:
        whole.sort(key=lambda finding: (finding.rule in _LAUNCHING) != (one.kind == GAPS))
    return next(iter(whole), None)


def wall_blocks(budget: Budget, whole: str, findings: Iterable[Finding] = (), *, most: int = MOST) -> list[Block]:
    """Blocks of a program's step: idle by cause, copies, communication, `most` kernels by name.

    `whole`: the `impl` of findings about this process and device; most=0: kernels as one block.
    """
    told = list(findings)
    mine = {one.evidence[0].counter: one for one in told if one.impl == whole and one.evidence}
    spent = [(kind, getattr(budget, kind) / budget.parts) for kind in (*IDLE, "copying", "communicating")]
    found = [Block(kind, seconds, 0.0, finding=mine.get(f"{kind}/step")) for kind, seconds in spent if seconds > 0]
    short = short_names((one.name for one in budget.spent if one.slice == "computing"), _WIDE)
    for name, seconds, kernels in _computing(budget, most):
        of_kernel = next((one for one in told if name and one.kernel == name and one.severity == TIME), None)
        against = of_kernel if name else mine.get("tiny/step")
        found.append(Block("computing", seconds, 0.0, name, short.get(name, ""), kernels=kernels, finding=against))
    return _stacked(found, budget.step)


def _computing(budget: Budget, most: int) -> list[tuple[str, float, int]]:
    """(kernel, seconds per step, 1) for the longest, ("", seconds, count) for the others."""
    if not budget.computing > 0:
        return []
    own: dict[str, float] = {}
    for one in budget.spent:
        if one.slice == "computing" and one.own > 0:
            own[one.name] = own.get(one.name, 0.0) + one.own / budget.parts
    ranked = sorted(own.items(), key=lambda item: -item[1])
    if not most or not ranked:
        return [("", budget.computing / budget.parts, 0)]
    large = [one for one in ranked[:most] if one[1] >= LEAST * budget.step]
    shown = ranked if len(ranked) - len(large) <= 1 else large
    rest = ranked[len(shown) :]
    more = [("", sum(seconds for _, seconds in rest), len(rest))] if rest else []
    return [*((name, seconds, 1) for name, seconds in shown), *more]


@dataclass(frozen=True)
class Whole:
    """Waterfall of a report's main part, `time` [s] in all; `line` says it in a sentence."""

    name: str
    head: str
    time: float
    line: str
    blocks: list[Block]


def shown(study: Study, findings: Sequence[Finding] = (), *, most: int = MOST) -> Whole | None:
    """Waterfall of the step, best implementation or longest range; None if nothing was timed."""
    if study.first_step is not None:
        name, one = study.first_step
        mine = wall_blocks(one, name or WHOLE, findings, most=most)
        named_ = name or WINDOWS[one.steady.found]
        return Whole(named_, answer.per(study, "p_one"), one.step, answer.wall_time(study)[0], mine)
    falls = study.waterfalls
    best = study.best.name if study.best is not None else max(falls, key=lambda name: falls[name].time, default="")
    if best not in falls:
        return None
    head, mine = say("p_now" if study.manifest.impls else "p_now_gpu"), blocks(study, best, findings)
    everything = say("all_kernels") if len(falls) == 1 else say("no_range")
    return Whole(best or everything, head, falls[best].time, lower_bound_line(study, best), mine)


def table(mine: Sequence[Block], head: str, whole: float) -> Table:
    """Blocks as rows below the total [s]."""
    unit, times = units.column([whole, *(one.seconds for one in mine)], "s")
    won = [units.text(one.finding.upper_bound, "s") if one.finding is not None else "" for one in mine]
    return Table.of(
        [
            Column("", [head, *(one.label() for one in mine)]),
            Column(f"{say('time')} [{unit}]", times),
            Column(say("fall_share"), [units.percent(1.0), *(units.percent(one.share(whole)) for one in mine)]),
            Column(say("fall_lever"), ["", *won]),
            Column(say("reason"), ["", *(one.why() for one in mine)]),
        ]
    )


def lower_bound_line(study: Study, impl: str) -> str:
    """ "161 us now, 120 us at the lower bound: 40.9 us lie between"; "" without a lower bound."""
    fall = study.waterfalls.get(impl)
    if fall is None or math.isnan(fall.lower_bound):
        return ""
    room = max(0.0, fall.time - fall.lower_bound)
    time, lower_bound = apart(fall.time, fall.lower_bound)
    return say("fall_line", time=time, lower_bound=lower_bound, room=units.text(room, "s"))


def apart(time: float, lower_bound: float) -> list[str]:
    """Both times [s] with three digits; with four if rounding moves the difference by over 1 %."""
    both = (time, lower_bound)
    rounded = [float(f"{one:.3g}") for one in both]
    far = abs(rounded[0] - rounded[1] - (time - lower_bound)) > 0.01 * abs(time - lower_bound)
    return [units.text(one, "s", 4 if far else 3) for one in both]
