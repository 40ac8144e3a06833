"""Evaluate the candidates of a KernelBench run, one by one and resumable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from profkit.contests.kernelbench import pairs
from profkit.contests.kernelbench.files import (
    RESULTS,
    Baseline,
    Generated,
    Problem,
    Record,
    Results,
    candidates,
    own_of,
    read_baseline,
    read_results,
    write_json,
    write_results,
)
from profkit.contests.sources import pair
from profkit.errors import ProfkitError
from profkit.launch import warm
from profkit.launch.protocol import Progress
from profkit.targets import backends
from profkit.targets.sample import defined_names

if TYPE_CHECKING:
    from profkit.record.request import Request
    from profkit.study.study import Study


Runner = Callable[["Sequence[tuple[Generated, Problem]]", "Request"], "Iterable[tuple[Generated, Study]]"]
"""Measures candidates; omits those that could not be measured."""


@warm.runners()
def evaluate(
    problems: Sequence[Problem], run_dir: Path, level: int, request: Request, runner: Runner | None = None
) -> Results:
    """Evaluate the candidates of a level; eval_results.json is written after each.

    Candidates in the file are skipped, unless their backend was missing or their precision differs. `runner`: measures
    them, by default sequentially in this process.
    """
    file = run_dir / RESULTS
    results = read_results(file) if file.exists() else {}
    others = {own_of(row).get("level", level) for rows in results.values() for row in rows} - {level}
    if others:
        fix = "give each level a run directory of its own, as KernelBench does"
        raise ProfkitError(f"{file} has results of level {others.pop()}", fix=fix)
    by_id = {problem.id: problem for problem in problems}
    todo = [g for g in candidates(run_dir, level) if g.problem in by_id]
    if not todo:
        what = f"{run_dir}: no candidates of level {level} for these problems"
        raise ProfkitError(what, fix="they are named level_1_problem_2_sample_0_kernel.py")

    def keep(generated: Generated, row: Record) -> None:
        rows = results.setdefault(str(generated.problem), [])
        rows[:] = [one for one in rows if one["sample_id"] != generated.sample] + [row]
        write_results(file, results)

    sound = []
    for generated in todo:
        rows = results.get(str(generated.problem), [])
        if any(row["sample_id"] == generated.sample and _settled(row, request) for row in rows):
            continue
        unfit = _unfit(generated)
        if unfit is not None:
            keep(generated, unfit)
        else:
            sound.append((generated, by_id[generated.problem]))
    for generated, run in (runner or in_turn())(sound, request):
        keep(generated, pairs.record(run, generated))
    return results


def in_turn(progress: Progress = lambda _: None) -> Runner:
    """A sequential runner in this process. Raises the measurement's exceptions."""

    def run(todo: Sequence[tuple[Generated, Problem]], request: Request) -> Iterator[tuple[Generated, Study]]:
        for number, (generated, problem) in enumerate(todo, 1):
            progress(f"[{number}/{len(todo)}] {generated.path.name}")
            texts = problem.path.read_text("utf-8", "replace"), generated.path.read_text("utf-8", "replace")
            yield generated, pair(generated.name, *texts).measure(request)

    return run


NOT_INSTALLED = "not-installed"


def _settled(row: Record, request: Request) -> bool:
    """Whether a row has this precision, and a backend that was available."""
    own = own_of(row)
    same = own.get("precision", request.precision) == request.precision
    return same and own.get("status") != NOT_INSTALLED


def _unfit(generated: Generated) -> Record | None:
    """Row of a candidate that cannot be measured: no Python, no ModelNew, no backend here."""
    backend = backends.detect(generated.path.read_text("utf-8", "replace"))
    try:
        reason = "" if "ModelNew" in defined_names(generated.path) else "no class ModelNew"
    except ProfkitError as error:
        reason = str(error)
    absent = backends.missing(backend)
    if not reason and not absent:
        return None
    status = "no-candidate" if reason else NOT_INSTALLED
    return pairs.failed(generated, reason or absent, status=status, backend=backend)


@warm.runners()
def baseline(
    problems: Sequence[Problem],
    eager: Path,
    request: Request,
    *,
    compiled: Path | None = None,
    progress: Progress = lambda _: None,
) -> Baseline:
    """Time the references, eager and compiled; complete official baseline files."""
    done = read_baseline(eager) if eager.exists() else {}
    fast = read_baseline(compiled) if compiled is not None and compiled.exists() else {}
    for number, problem in enumerate(problems, 1):
        level = f"level{problem.level}"
        if problem.name in done.get(level, {}) and (compiled is None or problem.name in fast.get(level, {})):
            continue
        progress(f"[{number}/{len(problems)}] {problem.name}")
        source = problem.path.read_text("utf-8", "replace")
        candidate = pairs.compiled(source) if compiled is not None else source + pairs.AS_IS
        name = f"level_{problem.level}_problem_{problem.id}_baseline"
        run = pair(name, source, candidate).measure(request)
        reference = pairs.baseline_record(run, "reference")
        if not reference:
            progress(f"{problem.name}: the reference was not timed: {run.manifest.impls[0].reason}")
            continue
        done.setdefault(level, {})[problem.name] = reference
        write_json(eager, done)
        theirs = pairs.baseline_record(run, run.manifest.candidates[0].name)
        if compiled is not None and theirs:
            fast.setdefault(level, {})[problem.name] = theirs
            write_json(compiled, fast)
    return done
