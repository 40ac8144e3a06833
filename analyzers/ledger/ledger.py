"""The ledger of a program: each operation's time, lower bound, advice and gain."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
import pandas as pd
from msgspec.structs import replace

from analyzers.errors import AnalyzeError
from analyzers.kernels.names import tensor_type
from analyzers.ledger.replay import Replay
from analyzers.ledger.work import MOVING, OTHER, POINTWISE, Need, need
from analyzers.lower_bound import Work, lower_bound_time
from analyzers.timeline.budget import Budget, budget
from analyzers.timeline.calls import COMMUNICATION
from analyzers.verdicts.speedup import SLACK
from collectors.caveat import Caveat
from collectors.operations import parsed
from roofline.ceilings import Roofline

NAN = math.nan
SCHEMA = "profkit-ledger/1"
_BEHIND = "the step after"
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
"""Share of its lower bound's speed from which an operation counts as at its ceiling."""
LIKELY = 0.6
"""Share of the lower bound's speed of a careful kernel: the low end of a gain."""
HALF = 0.5
"""Share of a fused or eliminated operation's time gained at the low end."""
LITTLE = 0.1
"""Share of saved GPU time below which a step does not get shorter: it waits for the host."""
MOST = 60
"""Rows whose gain is replayed; the others count only in the total."""
KINDS = ("operations", "kernels", "copies", "fills")
_INNER = re.compile(r"DtoD|Device -> Device|Device-to-Device")
_COLLECTIVE = re.compile(r"all_?(?:reduce|gather|to_?all)|reduce_?scatter|broadcast_oop", re.IGNORECASE)
_MOVED = {"memcpy": "copies", "memset": "fills"}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One operation with its shapes, or a kernel, copy or fill of no known operation.

    Times in s; `calls`, `time` and `own` are per step. `own`: without overlap with earlier work, so that it adds up;
    `share`: of the step. `each`: of one call; `bound`: the least by its shapes, NaN unknown, and what sets it;
    `reached`: share of the bound's speed. `advice`: one of the seven words above; `partner`: for fusion. `wins`: from,
    to, NaN if not replayed. `gone`: gain if its calls took no time, less than `own` if the host is late. `kernel`: its
    longest; `multiplies`: its longest on tensor cores, else the same.
    """

    name: str
    shapes: str
    kind: str
    calls: float
    time: float
    own: float
    share: float
    each: float
    bound: float = NAN
    bound_by: str = "unknown"
    reached: float = NAN
    advice: str = UNKNOWN
    partner: str = ""
    wins: tuple[float, float] = (NAN, NAN)
    gone: float = NAN
    kernel: str
    multiplies: str
    op: str

    @property
    def needed(self) -> Need:
        """Work of one of its calls."""
        return need(self.op, self.multiplies)


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """Rows by their share of a step; `accounts`: seconds by KINDS and idle, which add up.

    `bounded`: share of the kernels' time with a lower bound. `together`: most gain of all rows and idle time, `queued`:
    gain of idle time only, if the host were never late. `whole` [s]: from the first to the last GPU work of the record.
    `data` is JSON, null for unknown values.
    """

    schema: str = SCHEMA
    device: str
    step: float
    steps: int
    whole: float
    accounts: dict[str, float]
    bounded: float
    queued: float
    together: float
    rows: tuple[Row, ...]
    roofline: Roofline
    caveats: tuple[Caveat, ...]

    @property
    def data(self) -> str:
        return msgspec.json.encode(self).decode()


def ledger(
    frame: pd.DataFrame, host: pd.DataFrame | None, roofline: Roofline, *, l2_bytes: float = NAN, device: str = ""
) -> Ledger:
    """Ledger of one process and device. frame: launches, with `op` and `call` if recorded.

    Raises AnalyzeError without start times.
    """
    if "start" not in frame or not (frame["time"] > 0).any():
        raise AnalyzeError(
            "no launch with start and time: a ledger needs a timeline",
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
        return budget(self.frame)  # Why it idles is not asked for here.

    @cached_property
    def work(self) -> pd.DataFrame:
        """Work of the window and the next step's first launch, with key, group, own and number."""
        steady = self.budget.steady
        behind = min(steady.end + bool(steady.marks), len(self.frame))
        part = self.frame.iloc[steady.first : behind]
        kernels = (part["kind"] == "kernel").to_numpy()
        op = part["op"].to_numpy() if "op" in part else np.full(len(part), "")
        call = part["call"].to_numpy() if "call" in part else np.full(len(part), -1)
        key = np.where(kernels & (op != ""), op, part["kind"].to_numpy() + " " + part["kernel"].to_numpy())
        start = part["start"].to_numpy("float64")
        stop = start + part["time"].to_numpy("float64")
        reached = np.concatenate(([-np.inf], np.maximum.accumulate(stop)))[:-1]
        own = np.clip(stop - np.maximum(start, reached), 0, None)
        key[steady.end - steady.first :], own[steady.end - steady.first :] = _BEHIND, 0.0
        number = np.where(kernels & (call >= 0), call, -1 - np.arange(len(part)))
        found: pd.DataFrame = part.assign(key=key, group=pd.factorize(key)[0], own=own, number=number)
        return found

    def ledger(self, device: str) -> Ledger:
        step, start = self.budget.step, self.frame["start"]
        inside = self.work[self.work["key"] != _BEHIND]
        rows = {int(str(group)): self._row(part) for group, part in inside.groupby("group", sort=False)}
        rows, left = self._advised(rows, self._partners(rows, inside))
        rows, queued, together = self._replayed(rows, left)
        ordered = tuple(sorted(rows.values(), key=lambda row: -row.own))
        accounts = {kind: sum(row.own for row in ordered if row.kind == kind) for kind in KINDS}
        ran = accounts["operations"] + accounts["kernels"]
        known = sum(row.own for row in ordered if row.kind in KINDS[:2] and row.bound > 0)
        return Ledger(
            device=device,
            step=step,
            steps=self.budget.parts,
            whole=float((start + self.frame["time"]).max() - start.min()),
            accounts={**accounts, "idle": max(0.0, step - sum(accounts.values()))},
            bounded=known / (ran or NAN),
            queued=queued,
            together=together,
            rows=ordered,
            roofline=self.roofline,
            caveats=tuple(self._caveats(ordered, ran)),
        )

    # ---- rows

    def _row(self, part: pd.DataFrame) -> Row:
        steps, first = self.budget.parts, part.iloc[0]
        op = str(first["op"]) if "op" in part and first["kind"] == "kernel" else ""
        of_call = part.groupby("number")["time"].agg(["sum", "count"])
        usual = int(of_call["count"].mode().iloc[0])
        fastest = float(of_call.loc[of_call["count"] == usual, "sum"].min())
        kernels = part.groupby("kernel", observed=True)["time"].sum().sort_values(ascending=False).index.map(str)
        kernel = kernels[0]
        own, operation = float(part["own"].sum()) / steps, parsed(op)
        row = Row(
            name=operation.short or kernel,
            kind=_MOVED.get(str(first["kind"]), "operations" if op else "kernels"),
            calls=len(of_call) / steps,
            time=float(part["time"].sum()) / steps,
            own=own,
            share=own / self.budget.step,
            each=float(of_call["sum"].mean()),
            kernel=kernel,
            multiplies=next(filter(tensor_type, kernels), kernel),
            op=op,
            shapes=operation.shapes(),
        )
        work = row.needed.work
        if "bytes" in part and (row.kind == "fills" or (row.kind == "copies" and not _linked(row))):
            moved = float(part["bytes"].mean())
            work = Work({}, moved * (1 + (row.kind == "copies")), "modelled", moved)
        if work is None:
            return row
        bound, by = self._bound(work, row.needed.twice, fastest, usual)
        return replace(row, bound=bound, bound_by=by, reached=bound / row.each)

    def _bound(self, work: Work, twice: float, fastest: float, kernels: int) -> tuple[float, str]:
        """(seconds, what sets them), the lower bound of a call.

        All bytes come from DRAM; if a call was faster, data that may be in L2 comes from there. NaN if even that is
        longer than a call took.
        """
        cold = lower_bound_time(work, self.roofline)
        launch = kernels * self.roofline.peak("launch")
        bound, by = (launch, "launch") if launch > cold.time else (cold.time, cold.bound_by)
        if not fastest < bound * (1 - SLACK):
            return bound, by
        least = Work(work.flops, work.bytes - twice, work.source, work.written)
        warm = lower_bound_time(least, self.roofline, l2_bytes=self.l2_bytes, l2="warm").hard
        if fastest < warm * (1 - SLACK):
            return NAN, "impossible"
        sides = (warm, least.bytes / self.roofline.peak("l2"), launch)
        return max((time for time in sides if 0 < time <= fastest), default=NAN), "l2"

    def _caveats(self, rows: Sequence[Row], whole: float) -> Iterator[Caveat]:
        kernels = [row for row in rows if row.kind in KINDS[:2]]
        bare = sum(row.own for row in kernels if not parsed(row.op).types) / (whole or NAN)
        if bare > 0.01:
            what = "no lower bound where the shapes of a call were not recorded"
            fix = "record them: torch.profiler.profile(record_shapes=True); profkit profile -- COMMAND does"
            yield Caveat(what, f"{bare:.0%} of the kernels' time", fix, "no-shapes")
        if faulty := dict.fromkeys(row.name for row in kernels if row.bound_by == "impossible"):
            what = "faster than their shapes and these ceilings allow"
            fix = "other ceilings than this device's, or an operation that does less than its name says"
            yield Caveat(what, ", ".join(faulty), fix, "beaten")
        if not self.roofline.peak("dram") > 0:
            what = "no lower bounds: no ceilings of this device are known"
            yield Caveat(what, "", "profkit ceilings, on it", "no-ceilings")
        if self.budget.parts > 1 and (few := self.budget.caveat()) is not None:
            yield few

    # ---- what to do

    def _advised(
        self, rows: Mapping[int, Row], partners: Mapping[int, tuple[int, float]]
    ) -> tuple[dict[int, Row], dict[int, tuple[float, float]]]:
        """Rows with their advice, and remaining time of a row at the low and the high end."""
        found: dict[int, Row] = {}
        left: dict[int, tuple[float, float]] = {}
        for group, row in sorted(rows.items(), key=lambda one: -one[1].own):
            advice, high, partner = UNKNOWN, 1.0, ""
            there = row.reached >= GATE or row.bound_by == "l2"
            if COMMUNICATION.search(row.kernel) or _COLLECTIVE.search(row.name) or _linked(row):
                advice, high = OVERLAP, 1 - row.own / (row.time or NAN)
            elif row.kind in ("copies", "fills") or row.needed.kind == MOVING:
                advice, high = ELIMINATE, 0.0
            elif group in partners and not _loops(group, found, partners):
                other, bytes_ = partners[group]
                advice, partner = FUSE, rows[other].name
                high = min(1.0, bytes_ / self.roofline.peak("dram") / row.each)
            low = 1 - HALF * (1 - high)
            if advice in (UNKNOWN, FUSE) and (there or row.reached < GATE) and not high < row.reached:
                advice, partner = (CEILING if there else FASTER), ""
                low, high = (1.0, 1.0) if there else (min(1.0, row.reached / LIKELY), row.reached)
            found[group], left[group] = replace(row, advice=advice, partner=partner), (low, high)
        return found, left

    def _partners(self, rows: Mapping[int, Row], inside: pd.DataFrame) -> dict[int, tuple[int, float]]:
        """Element-wise operation -> its fusion partner and the bytes still moved."""
        found: dict[int, tuple[int, float]] = {}
        before, behind = _neighbours(inside)
        for group, row in rows.items():
            mine, choices = row.needed, []
            if mine.kind != POINTWISE or mine.work is None or not self.roofline.peak("dram") > 0:
                continue
            read = sum(size for _, size in mine.inputs)
            for other, producing in ((before.get(group, group), True), (behind.get(group, group), False)):
                theirs = rows[other].needed
                fitting = [size for count, size in mine.inputs if count == theirs.output > 0]
                if other == group or theirs.kind not in (POINTWISE, OTHER):
                    continue
                if producing and fitting:
                    choices.append((read - max(fitting), other))
                elif not producing and any(count == mine.output > 0 for count, _ in theirs.inputs):
                    choices.append((max(0.0, read - mine.work.written), other))
            if choices:
                found[group] = min(choices)[::-1]
        return found

    # ---- what it wins

    def _replayed(
        self, rows: Mapping[int, Row], left: Mapping[int, tuple[float, float]]
    ) -> tuple[dict[int, Row], float, float]:
        """Rows with their gains, the gain of idle time alone, and that of all together, per step."""
        work = self.work.reset_index(drop=True)
        host = self.host
        if host is not None:
            places = pd.Series(np.arange(len(work)), index=self.work.index)
            host = host.assign(launch=host["launch"].map(places).fillna(-1).astype("int64"))
        replay, groups = Replay.of(work, host), work["group"].to_numpy()
        # A table of a million launches by all rows would take gigabytes.
        tried = sorted(rows, key=lambda one: -rows[one].own)[: max(4, min(MOST, 5_000_000 // len(work)))]
        # In threes the low end, the high end and no time at all; then nothing, nothing but the idle time, and everything.
        factors = np.ones((int(groups.max()) + 1, 3 * len(tried) + 3))
        freed = np.zeros_like(factors)
        for at, group in enumerate(tried):
            factors[group, 3 * at : 3 * at + 3] = (*left[group], 0.0)
            if rows[group].op and rows[group].advice in (FUSE, ELIMINATE):
                freed[group, 3 * at + 1] = replay.pace
        for group, (_, high) in left.items():
            factors[group, -1] = high
        factors[groups[work["key"] == _BEHIND]] = 0.0
        spans = replay.spans(groups, factors, freed, queued=2)
        won = np.clip(spans[-3] - spans, 0.0, None) / self.budget.parts
        found = dict(rows)
        for at, group in enumerate(tried):
            row, (low, high, whole) = rows[group], map(float, won[3 * at : 3 * at + 3])
            saved = row.time * (1 - left[group][1])
            late = high < LITTLE * saved and row.advice in (FASTER, FUSE, ELIMINATE)
            wins = (min(low, high), high) if row.advice != UNKNOWN else row.wins
            told = replace(row, wins=wins, gone=whole)
            found[group] = replace(told, advice=LATE, partner="") if late else told
        return found, float(won[-2]), float(won[-1])


def _neighbours(inside: pd.DataFrame) -> tuple[dict[int, int], dict[int, int]]:
    """Most frequent group before, and after, each group in its stream."""
    pairs = []
    for _, part in inside.groupby("stream", sort=False) if "stream" in inside else [("", inside)]:
        group, call = part["group"].to_numpy(), part["number"].to_numpy()
        at = np.flatnonzero(call[1:] != call[:-1])
        pairs.append(np.column_stack((group[at], group[at + 1])))
    kinds, counts = np.unique(np.concatenate(pairs), axis=0, return_counts=True)
    ordered = kinds[np.argsort(counts, kind="stable")].tolist()
    return {second: first for first, second in ordered}, dict(ordered)


def _linked(row: Row) -> bool:
    """Whether the row is a copy between host and device."""
    return row.kind == "copies" and not _INNER.search(row.kernel)


def _loops(group: int, decided: Mapping[int, Row], partners: Mapping[int, tuple[int, float]]) -> bool:
    """Whether the fusion partners form a cycle, in which one operation must remain."""
    seen, at = {group}, partners[group][0]
    while at not in seen:
        seen.add(at)
        if at not in partners or (at in decided and decided[at].advice != FUSE):
            return False
        at = partners[at][0]
    return True
