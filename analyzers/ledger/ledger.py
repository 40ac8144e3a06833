"""The ledger of a program: what each operation takes of a step, what it needs at least, what to do about it, and what that wins."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from analyzers.errors import AnalyzeError
from analyzers.ledger.replay import Replay
from analyzers.ledger.work import MOVING, OTHER, POINTWISE, PRODUCT, Need, need
from analyzers.lower_bound import SLACK, Work, lower_bound_time
from analyzers.records import plain
from analyzers.timeline.budget import Budget, budget
from analyzers.timeline.calls import COMMUNICATION
from collectors.caveat import Caveat
from collectors.operations import Operation, parsed
from roofline.ceilings import Roofline

NAN = math.nan
SCHEMA = "profkit-ledger/1"
CEILING, FASTER, FUSE, OVERLAP, ELIMINATE, LATE, UNKNOWN = (
    "at its ceiling",
    "make faster",
    "fuse",
    "overlap",
    "eliminate",
    "host too late",
    "bound unknown",
)
GATE = 0.85
"""Share of its lower bound's speed from which work is at its ceiling: what is left is seldom worth anybody's time."""
LIKELY = 0.6
"""Share of the bound's speed that a kernel written with care reaches nearly always: the low end of what is won."""
HALF = 0.5
"""Share of a fused or eliminated operation's time that is won at the low end."""
LITTLE = 0.1
"""Share of the saved GPU time below which a step does not get shorter by it: the host is what it waits for."""
MOST = 60
"""Rows whose win is replayed; the others count in what all win together."""
KINDS = ("operations", "kernels", "copies", "fills")
_INNER = re.compile(r"DtoD|Device -> Device")
_COLLECTIVE = re.compile(r"all_?(?:reduce|gather|to_?all)|reduce_?scatter|broadcast_oop", re.IGNORECASE)
_MOVED = {"memcpy": "copies", "memset": "fills"}


@dataclass(frozen=True)
class Row:
    """One operation with its shapes, or a kernel, copy or fill that no operation is known of; times in s, `calls`, `time` and
    `own` of a step.

    `own`: without what ran beside work that had begun before, so that it adds up. `each`: of one call, `bound`: the least
    that a call takes by its shapes, NaN unknown, and what sets it. `advice`: one of the seven words above; `partner`: what to
    fuse with. `wins` [s of a step]: from, to; NaN where it was not replayed. `gone` [s of a step]: what it would win took its
    calls no time, which is less than `own` where the host is late.
    """

    name: str
    kind: str
    calls: float
    time: float
    own: float
    share: float
    each: float
    kernel: str
    op: str = ""
    shapes: str = ""
    bound: float = NAN
    bound_by: str = "unknown"
    advice: str = UNKNOWN
    partner: str = ""
    wins: tuple[float, float] = (NAN, NAN)
    gone: float = NAN
    needed: Need = field(default=Need(), repr=False, compare=False)

    @property
    def reached(self) -> float:
        """Share of the bound's speed."""
        return self.bound / self.each


@dataclass(frozen=True)
class Ledger:
    """Rows by their share of a step [s]; `accounts`: seconds of a step by KINDS and idle, which add up to it.

    `together`: what all rows and the idle time win at most, `queued`: what the idle time wins alone, were the host never
    late. `whole` [s]: from the first to the last GPU work of the record.
    """

    device: str
    step: float
    steps: int
    whole: float
    rows: tuple[Row, ...]
    accounts: Mapping[str, float]
    queued: float
    together: float
    roofline: Roofline
    caveats: tuple[Caveat, ...] = ()

    @property
    def bounded(self) -> float:
        """Share of the time of kernels that have a lower bound."""
        kernels = [row for row in self.rows if row.kind in KINDS[:2]]
        known = sum(row.own for row in kernels if row.bound == row.bound)
        return known / (sum(row.own for row in kernels) or NAN)


def ledger(
    frame: pd.DataFrame, host: pd.DataFrame | None, roofline: Roofline, *, l2_bytes: float = NAN, device: str = ""
) -> Ledger:
    """The ledger of one process and device. frame: its launches with start and time, and `op` and `call` where recorded.

    Raises AnalyzeError where nothing has a begin.
    """
    if "start" not in frame or not (frame["time"] > 0).any():
        raise AnalyzeError(
            "no launch with a begin and a time: a ledger is made of a timeline",
            fix="give a trace of torch.profiler or nsys, or a run with one (profkit profile --timeline)",
        )
    made = _Making(frame.sort_values("start", kind="stable"), host, roofline, l2_bytes)
    return made.ledger(device)


@dataclass(frozen=True)
class _Making:
    frame: pd.DataFrame
    host: pd.DataFrame | None
    roofline: Roofline
    l2_bytes: float

    @cached_property
    def budget(self) -> Budget:
        return budget(self.frame, host=self.host)

    @cached_property
    def work(self) -> pd.DataFrame:
        """The launches of the window, and the one that begins the step after it, with `group` and `own`."""
        steady = self.budget.steady
        behind = min(steady.end + bool(steady.marks), len(self.frame))
        part = self.frame.iloc[steady.first : behind]
        op = part["op"].to_numpy() if "op" in part else np.full(len(part), "")
        kernels = (part["kind"] == "kernel").to_numpy()
        key = np.where(kernels & (op != ""), op, part["kind"].to_numpy() + " " + part["kernel"].to_numpy())
        start = part["start"].to_numpy("float64")
        stop = start + part["time"].to_numpy("float64")
        reached = np.concatenate(([-np.inf], np.maximum.accumulate(stop)))[:-1]
        own = np.clip(stop - np.maximum(start, reached), 0, None)
        if behind > steady.end:
            key[-1], own[-1] = "end", 0.0
        group, names = pd.factorize(key)
        call = part["call"].to_numpy() if "call" in part else np.full(len(part), -1)
        call = np.where(kernels & (call >= 0), call, -1 - np.arange(len(part)))
        found: pd.DataFrame = part.assign(group=group, own=own, number=call, key=names[group])
        return found

    @cached_property
    def inside(self) -> pd.DataFrame:
        """Without the launch behind the window."""
        found: pd.DataFrame = self.work[self.work["key"] != "end"]
        return found

    def ledger(self, device: str) -> Ledger:
        step, steps = self.budget.step, self.budget.parts
        rows = {number: self._row(part) for number, part in _numbered(self.inside)}
        rows, factors, freed = self._advised(rows)
        rows, queued, together = self._replayed(rows, factors, freed)
        ordered = tuple(sorted(rows.values(), key=lambda row: -row.own))
        accounts = {kind: sum(row.own for row in ordered if row.kind == kind) for kind in KINDS}
        accounts["idle"] = max(0.0, step - sum(accounts.values()))
        start, time = self.frame["start"], self.frame["time"]
        whole = float((start + time).max() - start.min())
        caveats = tuple(self._caveats(ordered))
        return Ledger(device, step, steps, whole, ordered, accounts, queued, together, self.roofline, caveats)

    # ---- rows

    def _row(self, part: pd.DataFrame) -> Row:
        steps = self.budget.parts
        first = part.iloc[0]
        op = str(first["op"]) if "op" in part and first["kind"] == "kernel" else ""
        of_call = part.groupby("number")["time"].agg(["sum", "count"])
        usual = of_call["count"].mode().iloc[0]
        whole = of_call.loc[of_call["count"] == usual, "sum"]
        kernel = str(part.groupby("kernel", observed=True)["time"].sum().idxmax())
        each, fastest = float(of_call["sum"].mean()), float(whole.min())
        own = float(part["own"].sum()) / steps
        operation = parsed(op) if op else Operation("")
        row = Row(
            name=operation.short or kernel,
            kind=_MOVED.get(str(first["kind"]), "operations" if op else "kernels"),
            calls=len(of_call) / steps,
            time=float(part["time"].sum()) / steps,
            own=own,
            share=own / self.budget.step,
            each=each,
            kernel=kernel,
            op=op,
            shapes=operation.shapes(),
            needed=need(op, kernel) if op else Need(),
        )
        work = row.needed.work if op else self._moved(part, row.kind)
        if work is None:
            return row
        bound, by = self._bound(work, row.needed.twice, fastest, int(usual))
        return replace(row, bound=bound, bound_by=by)

    def _moved(self, part: pd.DataFrame, kind: str) -> Work | None:
        """What fills and copies inside the device move; a link's speed is not known."""
        if "bytes" not in part or kind == "kernels":
            return None
        inner = kind == "fills" or _INNER.search(str(part["kernel"].iloc[0]))
        bytes_ = float(part["bytes"].mean()) * (1 if kind == "fills" else 2)
        return Work({}, bytes_, "modelled", bytes_ / (1 if kind == "fills" else 2)) if inner else None

    def _bound(self, work: Work, twice: float, fastest: float, kernels: int) -> tuple[float, str]:
        """(seconds, what sets them): with every byte from DRAM, or where a call was faster with what L2 may hold in it; NaN
        where even that is longer than a call took.
        """
        cold = lower_bound_time(work, self.roofline)
        launch = kernels * self.roofline.peak("launch")
        sides = [(cold.time, cold.bound_by), (launch, "launch")]
        bound, by = max(((time, name) for time, name in sides if time == time), default=(NAN, "unknown"))
        if not fastest < bound * (1 - SLACK):
            return bound, by
        least = Work(work.flops, work.bytes - twice, work.source, work.written)
        warm = lower_bound_time(least, self.roofline, l2_bytes=self.l2_bytes, l2="warm").hard
        if fastest < warm * (1 - SLACK):
            return NAN, "impossible"
        sides = [(warm, "l2"), (least.bytes / self.roofline.peak("l2"), "l2"), (launch, "launch")]
        other = max((time for time, _ in sides if 0 < time <= fastest), default=NAN)
        return other, "l2"

    def _caveats(self, rows: Sequence[Row]) -> Iterator[Caveat]:
        kernels = [row for row in rows if row.kind in KINDS[:2]]
        whole = sum(row.own for row in kernels) or NAN
        bare = sum(row.own for row in kernels if not (row.op and parsed(row.op).shaped))
        if bare > 0.01 * whole:
            what = "no lower bound where the shapes of a call were not recorded"
            fix = "record them: torch.profiler.profile(record_shapes=True); profkit profile -- COMMAND does"
            yield Caveat(what, f"{bare / whole:.0%} of the kernels' time", fix, "no-shapes")
        if faulty := [row.name for row in kernels if row.bound_by == "impossible"]:
            what = "faster than their shapes and these ceilings allow"
            fix = "other ceilings than this device's, or an operation that does less than its name says"
            yield Caveat(what, ", ".join(dict.fromkeys(faulty)), fix, "beaten")
        if not any(self.roofline.peak(name) > 0 for name in ("dram", "fp32")):
            yield Caveat(
                "no lower bounds: no ceilings of this device are known", "", "profkit ceilings, on it", "no-ceilings"
            )
        if self.budget.parts > 1 and (few := self.budget.caveat()) is not None:
            yield few

    # ---- what to do

    def _advised(self, rows: dict[int, Row]) -> tuple[dict[int, Row], dict[int, tuple[float, float]], set[int]]:
        """Rows with their advice; what is left of a row's time at the low and the high end; whose launches go."""
        partners = self._partners(rows)
        found: dict[int, Row] = {}
        left: dict[int, tuple[float, float]] = {}
        gone: set[int] = set()
        for group in sorted(rows, key=lambda one: -rows[one].own):
            row = rows[group]
            advice, low, high, partner = UNKNOWN, 1.0, 1.0, ""
            fused = partners.get(group)
            exposed = row.own / row.time if row.time else 0.0
            if COMMUNICATION.search(row.kernel) or _COLLECTIVE.search(row.name) or _linked(row):
                advice, low, high = OVERLAP, 1 - HALF * exposed, 1 - exposed
            elif row.kind in ("copies", "fills") or row.needed.kind == MOVING:
                advice, low, high = ELIMINATE, HALF, 0.0
            elif fused is not None and not _loops(group, fused[0], found, partners):
                advice, partner = FUSE, rows[fused[0]].name
                high = min(1.0, fused[1] / self.roofline.peak("dram") / row.each)
                low = 1 - HALF * (1 - high)
            there = row.reached >= GATE or row.bound_by == "l2"
            if (there or row.reached < GATE) and advice in (UNKNOWN, FUSE) and not high < row.reached:
                advice, partner = (CEILING if there else FASTER), ""
                low, high = min(1.0, row.reached / LIKELY), row.reached
            if advice == CEILING:
                low, high = 1.0, 1.0
            found[group] = replace(row, advice=advice, partner=partner)
            left[group] = (low, high)
            if advice in (FUSE, ELIMINATE) and row.op:
                gone.add(group)
        return found, left, gone

    def _partners(self, rows: Mapping[int, Row]) -> dict[int, tuple[int, float]]:
        """Of each element-wise operation what it can be fused with, and the bytes that still have to be moved then."""
        found: dict[int, tuple[int, float]] = {}
        dram = self.roofline.peak("dram")
        before, behind = self._neighbours()
        for group, row in rows.items():
            mine = row.needed
            if mine.kind != POINTWISE or mine.work is None or not dram > 0:
                continue
            read, choices = sum(size for _, size in mine.inputs), []
            for other, producing in ((before.get(group, group), True), (behind.get(group, group), False)):
                if other == group or other not in rows or rows[other].needed.kind not in (PRODUCT, POINTWISE, OTHER):
                    continue
                theirs = rows[other].needed
                fitting = [size for count, size in mine.inputs if count == theirs.output > 0]
                if producing and fitting:
                    choices.append((read - max(fitting), other))
                elif not producing and any(count == mine.output > 0 for count, _ in theirs.inputs):
                    choices.append((max(0.0, read - mine.work.written), other))
            if choices:
                left, other = min(choices)
                found[group] = (other, left)
        return found

    def _neighbours(self) -> tuple[dict[int, int], dict[int, int]]:
        """The group whose call comes most often right before, and right after, a call of each in its stream."""
        pairs = []
        streams = self.inside.groupby("stream", sort=False) if "stream" in self.inside else [("", self.inside)]
        for _, part in streams:
            group, call = part["group"].to_numpy(), part["number"].to_numpy()
            at = np.flatnonzero(call[1:] != call[:-1])
            pairs.append(np.column_stack((group[at], group[at + 1])))
        kinds, counts = np.unique(np.concatenate(pairs), axis=0, return_counts=True)
        before: dict[int, int] = {}
        behind: dict[int, int] = {}
        for one in np.argsort(counts, kind="stable"):
            first, second = map(int, kinds[one])
            before[second], behind[first] = first, second
        return before, behind

    # ---- what it wins

    def _replayed(
        self, rows: dict[int, Row], left: Mapping[int, tuple[float, float]], gone: set[int]
    ) -> tuple[dict[int, Row], float, float]:
        """Rows with their wins, what the idle time wins alone, and what all win together, of a step."""
        work = self.work.reset_index(drop=True)
        replay = Replay.of(work, self._calls())
        saved = {group: row.time * (1 - left[group][1]) for group, row in rows.items()}
        tried = sorted(saved, key=lambda one: -rows[one].own)[:MOST]
        groups = int(work["group"].max()) + 1
        factors = np.ones((groups, 3 * len(tried) + 3))
        freed = np.zeros_like(factors)
        pace = self._pace(replay)
        for at, group in enumerate(tried):
            factors[group, 3 * at : 3 * at + 3] = (*left[group], 0.0)
            freed[group, 3 * at + 1] = pace if group in gone else 0.0
        for group, (_, high) in left.items():
            factors[group, -1] = high
        if (self.work["key"] == "end").any():
            factors[work["group"].iloc[-1]] = 0.0
        spans = replay.spans(work["group"].to_numpy(), factors[:, :-2], freed[:, :-2])
        alone, every = (
            float(replay.spans(work["group"].to_numpy(), factors[:, at : at + 1], freed[:, at : at + 1], queued=0)[0])
            for at in (len(spans), len(spans) + 1)
        )
        steps, now = self.budget.parts, spans[-1]
        won = np.clip(now - spans, 0.0, None) / steps
        found = dict(rows)
        for at, group in enumerate(tried):
            row, (low, high, whole) = rows[group], map(float, won[3 * at : 3 * at + 3])
            late = high < LITTLE * saved[group] and row.advice in (FASTER, FUSE, ELIMINATE)
            found[group] = replace(
                row,
                advice=LATE if late else row.advice,
                partner="" if late else row.partner,
                wins=(min(low, high), high) if row.advice != UNKNOWN else row.wins,
                gone=whole,
            )
        return found, max(0.0, now - alone) / steps, max(0.0, now - every) / steps

    def _calls(self) -> pd.DataFrame | None:
        """The host's events with launches as positions in the window."""
        if self.host is None:
            return None
        places = pd.Series(np.arange(len(self.work)), index=self.work.index)
        launch = self.host["launch"].map(places).fillna(-1).astype("int64")
        found: pd.DataFrame = self.host.assign(launch=launch)
        return found

    @staticmethod
    def _pace(replay: Replay) -> float:
        """Seconds of the host from one launch to the next."""
        asked = np.sort(replay.asked[np.isfinite(replay.asked)])
        return float(np.median(np.diff(asked))) if len(asked) > 1 else 0.0


def _numbered(work: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    """The launches of each group."""
    order = np.argsort(work["group"].to_numpy(), kind="stable")
    groups = work["group"].to_numpy()[order]
    for places in np.split(order, np.flatnonzero(np.diff(groups)) + 1):
        yield int(work["group"].iloc[places[0]]), work.iloc[places]


def _linked(row: Row) -> bool:
    """Whether it is a copy over the link between host and device."""
    return row.kind == "copies" and not _INNER.search(row.kernel)


def _loops(group: int, partner: int, decided: Mapping[int, Row], partners: Mapping[int, tuple[int, float]]) -> bool:
    """Whether following what is fused with what comes back: something has to stay."""
    seen = {group}
    at: int | None = partner
    while at is not None and at not in seen:
        seen.add(at)
        fused = at not in decided or decided[at].advice == FUSE
        at = partners[at][0] if fused and at in partners else None
    return at is not None


_TOLD = [
    "name",
    "shapes",
    "kind",
    "calls",
    "time",
    "share",
    "each",
    "bound",
    "bound_by",
    "advice",
    "partner",
    "kernel",
    "op",
]


def to_dict(found: Ledger) -> dict[str, Any]:
    """Plain data for JSON; a number that is not known is None."""
    rows = [plain({name: getattr(row, name) for name in _TOLD}) for row in found.rows]
    for one, row in zip(rows, found.rows, strict=True):
        one["wins"] = list(plain({"low": row.wins[0] / found.step, "high": row.wins[1] / found.step}).values())
    best = {one.name: found.roofline.get(one.name) for one in found.roofline.ceilings}
    step = found.step
    return {
        "schema": SCHEMA,
        **plain({name: getattr(found, name) for name in ("device", "step", "steps", "whole", "bounded")}),
        "accounts": {name: value / step for name, value in found.accounts.items()},
        "idle_wins": found.queued / step,
        "together": found.together / step,
        "rows": rows,
        "ceilings": {name: {"peak": one.peak, "source": one.source} for name, one in best.items() if one is not None},
        "caveats": [{"what": one.what, "how_much": one.how_much, "fix": one.fix} for one in found.caveats],
    }
