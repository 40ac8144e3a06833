"""Measuring step: check and time candidates in groups, or a callable in this process."""

from __future__ import annotations

import copy
import functools
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from analyzers.errors import AnalyzeError
from collectors.caveat import Caveat
from profkit.errors import ProfkitError
from profkit.launch import protocol, runner
from profkit.launch.alone import named
from profkit.launch.protocol import Event, Job
from profkit.record.job import absorb, job
from profkit.record.request import LEAST
from profkit.record.session import Session
from profkit.rundir.directory import Run
from profkit.rundir.files import sha256, write_atomic
from profkit.rundir.manifest import Capture, Perturbed
from profkit.targets.target import Call

if TYPE_CHECKING:
    import pandas as pd

    from analyzers.verdicts.statistics import Ratio

CUPTI = "cupti.csv"
"""File with the activities of a median call of each implementation."""
_TRUSTED = Caveat(
    "the candidates ran without the system's walls (--trust)",
    "they may have written anywhere, and used the network",
    "omit --trust for code that is not yours",
    "trusted",
)
PATIENCE = 3.0
"""Most times the budget, without builds, for the first process, up to which more are added by default; all together
may take twice as much.
"""
SPREAD = {"cuda": 0.04, "cpu": 0.1}
"""Assumed relative half-width of the speed-up from process to process, added to the interval of a single process. Of
ten candidates of CUDA-L1, each timed in three processes of an H200, it would have held for seven; the others were
faster or slower by more than that.
"""
ALONE = {"cuda": 1.0, "cpu": 2.0}
"""Speed-up, either way, from which one process decides: of 60 copies of a reference on two cores, three read 0.63x to
0.9x in one process and 1x in the next.
"""
TARGET = 0.01
"""Default relative half-width of the medians at which a first process stops, if one may be enough."""


class Measure:
    """Run the judge with every candidate in its own process."""

    name = "measure"

    def record(self, session: Session) -> None:
        """Measure. Raises ProfkitError if the runner ended early and no implementation is to blame."""
        run, wanted = session.run, session.request
        if wanted.trust and session.chosen:
            run.manifest.caveats.append(_TRUSTED)
        many = wanted.sittings(session.device)
        made = job(self.name, run, wanted, session.device, session.parts)
        sparing = many > 1 and not wanted.processes
        first = msgspec.structs.replace(made, budget=wanted.budget / many)
        if sparing and "target" not in wanted.given:
            first.target, first.clear = max(first.target, TARGET), 2 * SPREAD[session.device]
        spread = SPREAD[session.device] if sparing or many == 1 else 0.0
        outcome = _start(session, first, self.name, spread)
        took = session.spent = _took(outcome) - max(
            (impl.build_seconds or 0.0 for impl in run.manifest.impls), default=0.0
        )
        activities = run.path / CUPTI
        if activities.exists():
            rows = max(0, activities.read_bytes().count(b"\n") - 1)
            run.manifest.captures.append(Capture(CUPTI, "cupti", "times", sha256=sha256(activities), rows=rows))
        _leave_out_wrong(run)
        run.manifest.timing.spread = spread
        if outcome.finished:
            # The heaviest load counts for all of them: under it no other makes the word clear.
            known, busy = sparing and _settled(session), run.manifest.timing.load
            if many == 1 and not wanted.processes and _by_chance(session):
                _again(session, 2, first.target, sparing=True)
                session.answer(run)
            elif many == 1 or known or (sparing and (busy or took > PATIENCE * wanted.budget)):
                slow = "the machine is busy" if busy else f"checking and timing took {took:.0f} s in it"
                why = "they suffice for the verdict" if known else "no more were requested" if many == 1 else slow
                how = f"{why}; the interval allows for {spread:.0%} between processes"
                what = "the times come from one process of each implementation"
                fix = f"--processes {max(many, LEAST)} takes the time"
                run.manifest.caveats.append(Caveat(what, how, fix, "one-process"))
            else:
                _again(session, many, first.target, sparing=sparing)
                session.answer(run)
        if not outcome.finished:
            _say_early(run, outcome)
        run.save()


def _say_early(run: Run, outcome: runner.Outcome) -> None:
    """Report an early end of the runner. Raises ProfkitError without results or culprit."""
    last, timed, reference = outcome.exits[-1][1], run.timings_csv.exists(), run.manifest.reference
    if timed and not outcome.fallen:
        what = "the runner ended early, after the timing"
        run.manifest.caveats.append(Caveat(what, f"exit code {last.code}", "see logs/measure.log"))
    if not timed and (reference is None or reference.status in ("skipped", "ok")):
        run.save()
        raise ProfkitError(
            f"the runner ended with exit code {last.code} before anything was measured; "
            f"see {run.logs / 'measure.log'}\n{last.tail}",
            fix="`profkit doctor` checks torch and the device",
        )


def _start(session: Session, made: Job, stem: str, spread: float = 0.0) -> runner.Outcome:
    """Run the judge with one group of candidates after the other.

    spread: added to the interval of the first answer.
    """
    found, logs = runner.Outcome(finished=True), session.run.logs
    made.shared = named(session.shared)
    many = [*in_groups(made)]
    for number, (some, suffix) in enumerate(many, 1):
        outcome = runner.Outcome()
        if len(many) == 1 and not made.again:
            outcome.known = functools.partial(_first_answer, session, stem, spread)
        try:
            how: dict[str, Any] = {"stem": f"{stem}{suffix}", "progress": session.progress, "outcome": outcome}
            runner.run_isolated(some, logs, **how)
        finally:
            absorb(session.run, outcome, stem, again=made.again)
            if suffix:
                merge_group(Path(made.timings), number)
            found.events += outcome.events
            found.fallen |= outcome.fallen
            found.exits += outcome.exits
            found.finished &= outcome.finished
        reference = session.run.manifest.reference
        if reference is not None and reference.status not in ("ok", "skipped"):
            break
    return found


def _first_answer(session: Session, stem: str, spread: float, events: Sequence[Event]) -> None:
    """Print the first answer from a copy of the run, once all is timed or wrong."""
    known = Run(session.run.path, copy.deepcopy(session.run.manifest))
    absorb(known, runner.Outcome([*events]), stem)
    known.manifest.timing.spread = spread
    session.answer(known)


def _took(outcome: runner.Outcome) -> float:
    """Seconds of the longest process, without the judge's waiting."""
    steps = [*outcome.of("phase"), *outcome.events[-1:]]
    waited = sum(then.at - one.at for one, then in pairwise(steps) if one.phase == "wait")
    return max((ended.wall for _, ended, _ in outcome.exits), default=0.0) - waited


def _settled(session: Session) -> bool:
    """Whether the first process is enough; never if other work interfered."""
    return (timed := _timed(session)) is not None and settled(*timed)


def _by_chance(session: Session) -> bool:
    """Whether the verdict of the only process may be chance."""
    return (timed := _timed(session)) is not None and _by_one(_speedups(*timed)[2], session.device)


def _timed(session: Session) -> tuple[pd.DataFrame, str, list[str], str] | None:
    """Arguments of `settled`; None without a reference or beside other work."""
    run, reference = session.run, session.run.manifest.reference
    if reference is None or any(caveat.code == "busy" for caveat in run.manifest.caveats):
        return None
    names = [impl.name for impl in run.manifest.candidates if impl.ok]
    return _table(run.timings_csv), reference.name, names, session.device


def settled(table: pd.DataFrame, reference: str, names: Collection[str], device: str) -> bool:
    """Whether the processes so far decide all verdicts to within SPREAD.

    table: its timings.csv. False if empty, something was not timed, or two clocks disagree.
    """
    from analyzers.verdicts import timing  # pandas

    samples, chosen, mine = _speedups(table, reference, names, device)
    known = [one for one in mine.values() if one.verdict != "inconclusive" and one.within <= SPREAD[device]]
    told = 0 < len(known) == len(names) and not _by_one(mine, device)
    return told and not timing.two_clocks(samples, chosen, mine, reference)


def _by_one(found: Mapping[str, Ratio], device: str) -> bool:
    """Whether a single process gave a verdict nearer to 1 than ALONE."""
    told = [one.value for one in found.values() if one.verdict != "inconclusive" and one.processes == 1]
    return any(max(value, 1 / value) < ALONE[device] for value in told)


def _speedups(
    table: pd.DataFrame, reference: str, names: Collection[str], device: str
) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Ratio]]:
    """(samples, the chosen clock's samples, speed-ups of `names`); empty if undecided."""
    from analyzers.verdicts import timing  # pandas

    try:
        samples = timing.check(table)
        chosen = timing.choose(samples)
        found = timing.speedups(chosen, reference, spread=SPREAD[device])
    except (AnalyzeError, ValueError):
        return table, table, {}
    return samples, chosen, {name: found[name] for name in names if name in found}


def _table(file: Path) -> pd.DataFrame:
    """A CSV file as text; no rows without a file."""
    import pandas as pd

    return pd.read_csv(file, dtype=str, keep_default_na=False) if file.exists() else pd.DataFrame({"impl": []})


def _write(file: Path, table: pd.DataFrame) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, table.to_csv(index=False, lineterminator="\n").encode())


def _again(session: Session, many: int, target: float, *, sparing: bool) -> None:
    """Compare and time the sound implementations in more processes, to the first one's `target`.

    many: processes in all. sparing: stop at two if these suffice, or after too long. timings.csv gets a column for the
    process.
    """
    import pandas as pd

    run, wanted = session.run, session.request
    # What is kept here no later process can change.
    tables = [_table(run.timings_csv)]
    for number in range(2, many + 1):
        if tables[0].empty or not any(impl.ok for impl in run.manifest.candidates):
            break
        session.progress(f"process {number} of {many}")
        file = run.path / f"timings-{number}.csv"
        made = job("measure", run, wanted, session.device, session.parts)
        more = {
            "again": True,
            "probe": run.manifest.probe,
            # Of one that has others beside it no more than its own median is wanted.
            "budget": wanted.budget / many / (2 if sparing else 1),
            "target": target,
            "timings": str(file.resolve()),
            "seeds": [],
            "trials": 1,
        }
        outcome = _start(session, msgspec.structs.replace(made, **more), f"process-{number}")
        run.manifest.timing.processes += bool(outcome.of("timing"))
        tables.append(_table(file))
        file.unlink(missing_ok=True)
        _write(run.timings_csv, pd.concat(table.assign(process=n) for n, table in enumerate(tables)))
        _leave_out_wrong(run)
        if not outcome.finished:
            what = "some timing processes did not finish"
            how = f"{number - 1} of {many} did"
            run.manifest.caveats.append(Caveat(what, how, f"see logs/process-{number}.log"))
            break
        session.spent += _took(outcome)
        spent = run.manifest.timing.load or session.spent > 2 * PATIENCE * wanted.budget
        if sparing and (_settled(session) if number < LEAST else spent):
            break


def _leave_out_wrong(run: Run) -> None:
    """Remove samples of candidates found wrong after timing."""
    wrong = [impl.name for impl in run.manifest.candidates if not impl.ok]
    more = [one.file for one in run.manifest.shapes] + [one.file for one in run.manifest.passes]
    for file in [run.timings_csv, *(run.path / name for name in more)]:
        table = _table(file)
        if (left_out := table["impl"].isin(wrong)).any():
            _write(file, table[~left_out])


TOGETHER = 8
"""Candidates whose processes run at a time."""


def in_groups(job: Job) -> Iterator[tuple[Job, str]]:
    """Split a job: (job of the reference and a group of candidates, suffix of its log names).

    Later groups write to their own folders, until `merge_group`.
    """
    reference = [subject for subject in job.subjects if subject.role == "reference"]
    candidates = [subject for subject in job.subjects if subject.role != "reference"]
    for first in range(0, max(1, len(candidates)), TOGETHER):
        some, number = candidates[first : first + TOGETHER], first // TOGETHER + 1
        place = _place(Path(job.timings), number) if first else Path(job.timings)
        place.parent.mkdir(exist_ok=True)
        budget = job.budget * (len(some) + 1) / (len(candidates) + 1)
        group = msgspec.structs.replace(job, subjects=[*reference, *some], budget=budget, timings=str(place))
        yield group, f"-{number}" if first else ""


def merge_group(timings: Path, number: int) -> None:
    """Append the rows of group `number` to the first group's files, and remove its folder."""
    import pandas as pd

    folder = _place(timings, number).parent
    for file in sorted(folder.rglob("*.csv")):
        target = timings.parent / file.relative_to(folder)
        table, more = _table(target), _table(file)
        if "round" not in more:
            more = more[~more["impl"].isin(table["impl"])]
        elif len(table):
            # A round of this group is none of the others'.
            more["round"] = more["round"].astype(int) + table["round"].astype(int).max() + 1
        _write(target, pd.concat([table, more]))
    shutil.rmtree(folder, ignore_errors=True)


def _place(timings: Path, number: int) -> Path:
    return timings.parent / f"group-{number}" / timings.name


_LEFT_OUT = {"half_sms": "half of the SMs", "half_warps": "half of every SM"}


class Perturb:
    """Run the runner again, all implementations in one process."""

    name = "perturb"

    def record(self, session: Session) -> None:
        """Time with half of the SMs, half of every SM and a warm L2; a failure is a caveat."""
        session.progress("timing under other conditions")
        manifest = session.run.manifest
        made = job(self.name, session.run, session.request, session.device, session.parts)
        outcome = runner.run_job(made, session.run.logs, progress=session.progress)
        absorb(session.run, outcome, self.name, verdicts=False)
        manifest.perturbed = [Perturbed(event.impl, event.data["seconds"]) for event in outcome.of("perturbed")]
        if session.device == "cuda":
            for one in manifest.perturbed:
                if missing := [said for name, said in _LEFT_OUT.items() if name not in one.seconds]:
                    what = f"{one.impl}: not tried with {', '.join(missing)}"
                    how = "the bottleneck is inferred from the other conditions"
                    manifest.caveats.append(Caveat(what, how, "", "perturb", one.impl))
        session.run.save()


class InProcess:
    """Time the callable and its reference alternately, and model the work.

    The arguments are used unchanged.
    """

    name = "measure"

    def record(self, session: Session) -> None:
        """Raises the callable's exceptions."""
        # In this process on purpose: the callable lives here and nowhere else. torch comes with it.
        from profkit.torch_tools.inprocess import measure

        target, run = session.target, session.run
        if not isinstance(target, Call):
            raise TypeError(f"{target.kind} is no callable")
        events = run.logs / "measure.events.jsonl"
        measure(
            target.functions,
            target.arguments,
            job("measure", run, session.request, session.device, ()),
            events,
        )
        told = [msgspec.json.decode(line, type=protocol.Event) for line in events.read_bytes().splitlines()]
        absorb(run, runner.Outcome(events=told), self.name)
