"""KernelBench's files: problems, candidates, baselines and results.

level1/1_Name.py: a problem with Model, get_inputs, get_init_inputs. runs/<run>/level_1_problem_1_sample_0_kernel.py:
a candidate with ModelNew. runs/<run>/eval_results.json: {"1": [{sample_id, compiled, correctness, ...}]}, of one
level. results/timing/<hardware>/<baseline>.json: {"level1": {"1_Name.py":
{mean, std, ...}}}, ms.

Source: ScalingIntelligence/KernelBench, scripts and src/kernelbench.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, TypeAlias

import msgspec

from profkit.contests.json_files import read_json
from profkit.errors import ProfkitError
from profkit.rundir.files import write_atomic

Record: TypeAlias = "dict[str, Any]"
Results: TypeAlias = "dict[str, list[Record]]"
Baseline: TypeAlias = "dict[str, dict[str, Record]]"

RESULTS, PASSES = "eval_results.json", "pass_at_k_results.json"
_CANDIDATE = re.compile(r"level_(?P<level>\d+)_problem_(?P<problem>\d+)_sample_(?P<sample>\d+)_kernel\.py")
_PROBLEM = re.compile(r"(?P<id>\d+)_.+\.py")


@dataclass(frozen=True)
class Problem:
    """One task; `name` is its file's name, as in baselines."""

    level: int
    id: int
    name: str
    path: Path


@dataclass(frozen=True)
class Generated:
    """One candidate of a run."""

    level: int
    problem: int
    sample: int
    path: Path

    @property
    def name(self) -> str:
        """Name of its runs."""
        return self.path.stem.removesuffix("_kernel")


def problems(root: Path, level: int, ids: Iterable[int] = ()) -> list[Problem]:
    """The problems of a level with these ids, or all.

    root: a checkout, its KernelBench or the level folder. Raises ProfkitError.
    """
    tried = [root / f"level{level}", root / "KernelBench" / f"level{level}", root]
    folder = next((path for path in tried if path.name == f"level{level}" and path.is_dir()), None)
    if folder is None:
        fix = "give a checkout of KernelBench, or its KernelBench folder"
        raise ProfkitError(f"{root}: no folder level{level} here", fix=fix)
    named = [(match, file) for file in folder.glob("*.py") if (match := _PROBLEM.fullmatch(file.name))]
    found = {int(match["id"]): Problem(level, int(match["id"]), file.name, file) for match, file in named}
    if not found:
        raise ProfkitError(f"{folder}: no problem files (<id>_<Name>.py)", fix="check that the checkout is complete")
    wanted = set(ids) or found.keys()
    strange = wanted - found.keys()
    if strange:
        raise ProfkitError(f"level {level} has no problem {min(strange)}", fix="correct the ids")
    return [found[number] for number in sorted(wanted)]


def problems_of_baseline(baseline: Baseline, level: int, file: Path) -> list[Problem]:
    """Problems of a baseline, without a checkout."""
    rows = baseline.get(f"level{level}")
    if rows is None:
        raise ProfkitError(f"{file}: no level{level} in this baseline", fix=f"use one of: {', '.join(baseline)}")
    named = [(match, name) for name in rows if (match := _PROBLEM.fullmatch(name))]
    return sorted((Problem(level, int(match["id"]), name, Path(name)) for match, name in named), key=lambda p: p.id)


def candidates(run_dir: Path, level: int) -> list[Generated]:
    """The candidates of a level in a run directory, by problem and sample."""
    if not run_dir.is_dir():
        raise ProfkitError(f"{run_dir}: no such run directory", fix="give runs/<run name>")
    found = []
    for file in run_dir.iterdir():
        match = _CANDIDATE.fullmatch(file.name)
        if match and int(match["level"]) == level:
            found.append(Generated(level, int(match["problem"]), int(match["sample"]), file))
    return sorted(found, key=lambda g: (g.problem, g.sample))


def own_of(row: Record) -> Record:
    """profkit's additions to a row of results; {} for foreign rows."""
    return (row.get("metadata") or {}).get("profkit") or {}


def first_sample(results: Results, problem: Problem) -> Record:
    """The row of a problem's sample 0; {} without."""
    return next((row for row in results.get(str(problem.id), []) if row["sample_id"] == 0), {})


class _Needed(msgspec.Struct):
    """Required fields of a row of results."""

    sample_id: int
    compiled: bool
    correctness: bool
    runtime: float


def read_results(file: Path) -> Results:
    """eval_results.json. Raises ProfkitError with the invalid field."""
    data: Results = read_json(file)
    try:
        msgspec.convert(data, dict[str, list[_Needed]])
    except msgspec.ValidationError as error:
        raise ProfkitError(
            f"{file}: {error}", fix="check that it is an eval_results.json, or evaluate this problem again"
        ) from error
    return data


def write_results(file: Path, results: Mapping[str, list[Record]]) -> None:
    """eval_results.json, problems and samples in order."""
    ordered = {pid: sorted(results[pid], key=lambda row: int(row["sample_id"])) for pid in sorted(results, key=int)}
    write_json(file, ordered)


def read_baseline(file: Path) -> Baseline:
    """A baseline file: level -> problem file name -> figures in ms."""
    data = read_json(file)
    if not isinstance(data, dict) or not any(re.fullmatch(r"level\d+", key) for key in data):
        fix = "is this a baseline_time_*.json? The wrapper's file of one problem is for `profkit kernelbench wrapper`"
        raise ProfkitError(f"{file}: no level1, level2, ... in it", fix=fix)
    return data


def times(seconds: Iterable[float], hardware: str, device: str) -> Record:
    """Figures of samples [s] as KernelBench writes them: ms, three digits, population deviation."""
    values = [value * 1e3 for value in seconds]
    if not values:
        return {}
    figures = {"mean": fmean(values), "std": pstdev(values), "min": min(values), "max": max(values)}
    rounded: Record = {key: float(f"{value:.3g}") for key, value in figures.items()}
    return rounded | {"num_trials": len(values), "hardware": hardware, "device": device}


def write_json(file: Path, data: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, (json.dumps(data, indent=4, ensure_ascii=False, allow_nan=False) + "\n").encode())
