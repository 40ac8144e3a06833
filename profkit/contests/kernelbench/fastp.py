"""KernelBench's metrics to the last digit, and their significance.

fast_p = #{correct and baseline / runtime > p} / n over the problems in the baseline, sample 0 only;
a tie does not count for p = 1. The geometric mean is over correct samples. The order of summation is the
official one, so the floating-point result is, too.

With an interval of each speed-up, a problem is faster than p (interval above p), not faster (interval at or below
p), or inconclusive; `sure` counts the first, `possible` the first and the last. A time below the lower bound is
impossible and never counts as faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analyzers.records import NAN, number
from analyzers.verdicts.statistics import MIN_ROUNDS
from profkit.contests.kernelbench.files import Baseline, Problem, Record, Results, first_sample, own_of

P_VALUES = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)
NO_SPEED = ("impossible", "void")
"""Verdicts without a meaningful speed."""
LIMIT = 0.25
"""Largest relative difference of a baseline from the row's own reference time."""


@dataclass(frozen=True)
class Rated:
    """One problem's speed-up with its interval, NaN without."""

    problem: int
    name: str
    compiled: bool
    correct: bool
    speedup: float
    low: float
    high: float
    source: str


def analyze(
    results: Results,
    baseline: Baseline,
    problems: Sequence[Problem],
    level: int,
    *,
    run_name: str = "",
    hardware: str = "",
    pass_at_k: Record | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """(the official document, the warnings the official script prints)."""
    entries: dict[str, Record] = {p: row for p, rows in results.items() for row in rows[::-1] if row["sample_id"] == 0}
    for problem in problems:
        entries.setdefault(str(problem.id), {"compiled": False, "correctness": False, "runtime": -1.0})
    aligned = [p for p in problems if p.name in baseline.get(f"level{level}", {})]
    warnings = [f"Warning: Problem {p.name} not found in baseline results" for p in problems if p not in aligned]
    correct = np.array([entries[str(p.id)]["correctness"] for p in aligned])
    actual = np.array([entries[str(p.id)]["runtime"] for p in aligned])
    base = np.array([baseline[f"level{level}"][p.name]["mean"] for p in aligned])
    count, compiled = len(problems), sum(1 for e in entries.values() if e["compiled"] is True)
    right = sum(1 for e in entries.values() if e["correctness"] is True)
    document: dict[str, Any] = {
        "run_name": run_name,
        "level": level,
        "hardware": hardware,
        "total_count": count,
        "total_eval": len(results),
        "compiled_count": compiled,
        "correct_count": right,
        "compilation_rate": compiled / count if count else 0.0,
        "correctness_rate": right / count if count else 0.0,
        "geo_mean_speedup": geometric_mean(correct, base, actual),
        "fast_p": {str(p): fast_p(correct, base, actual, p) for p in P_VALUES},
    }
    if pass_at_k:
        document["pass_at_k"] = {key: pass_at_k.get(key, {}) for key in ("metadata", "averages")}
    return document, [*warnings, f"Aligned {len(aligned)} problems for analysis"]


def _ratios(correct: npt.NDArray[Any], base: npt.NDArray[Any], actual: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    chosen = [index for index, good in enumerate(correct) if good]
    return base[chosen] / actual[chosen] if chosen else np.empty(0)


def geometric_mean(correct: npt.NDArray[Any], base: npt.NDArray[Any], actual: npt.NDArray[Any]) -> float:
    """Geometric mean over the correct ones; 0 without any, NaN or inf where the official is."""
    ratios = _ratios(correct, base, actual)
    with np.errstate(all="ignore"):
        return float(np.prod(ratios) ** (1 / np.int64(ratios.size))) if ratios.size else 0.0


def fast_p(correct: npt.NDArray[Any], base: npt.NDArray[Any], actual: npt.NDArray[Any], p: float) -> float:
    """Share of all aligned problems that are correct and more than p times as fast."""
    n = len(correct)
    return float(np.sum(_ratios(correct, base, actual) > p) / n) if n else 0.0


def pass_at_k(results: Results, ks: Sequence[int] = (1,)) -> dict[str, Any]:
    """pass_at_k_results.json: per problem 1 - prod(1 - k / i) for i = n - c + 1 .. n."""
    by_problem: dict[str, dict[str, Any]] = {}
    for pid, rows in results.items():
        n, c = len(rows), sum(1 for row in rows if row["correctness"] and row["compiled"])
        scores = {
            f"pass@{k}": 1.0 if n - c < k else float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))
            for k in (min(k, n) for k in ks)
        }
        by_problem[pid] = {"total_samples": n, "correct_samples": c, **scores}
    rows_ = list(by_problem.values())
    keys = [f"pass@{k}" for k in ks]
    averages = {f"avg_{k}": float(sum(r[k] for r in rows_ if k in r) / len(rows_)) for k in keys if rows_}
    metadata = {
        "total_problems": len(rows_),
        "problems_with_samples": sum(row["total_samples"] > 0 for row in rows_),
        "total_evaluated_samples": sum(row["total_samples"] for row in rows_),
        "total_correct_samples": sum(row["correct_samples"] for row in rows_),
        **{f"{key}_count": sum(key in row for row in rows_) for key in keys},
    }
    return {"averages": averages, "metadata": metadata, "problems": by_problem}


def rated(results: Results, baseline: Baseline, problems: Iterable[Problem], level: int) -> list[Rated]:
    """Sample 0 of each aligned problem with the interval of its speed-up."""
    rows = []
    for problem in problems:
        base = baseline.get(f"level{level}", {}).get(problem.name)
        if base is None:
            continue
        entry = first_sample(results, problem)
        correct = bool(entry.get("correctness", False)) and float(entry.get("runtime", -1.0)) > 0
        if correct:
            rows.append(_rated(problem, base, entry))
        else:
            rows.append(Rated(problem.id, problem.name, bool(entry.get("compiled", False)), False, NAN, NAN, NAN, ""))
    return rows


def _rated(problem: Problem, base: Record, entry: Record) -> Rated:
    own = own_of(entry)
    why = no_win(own)
    if why:
        value, low, high, source = NAN, 0.0, 0.0, f"no win: {why}"
    elif {"speedup", "speedup_low", "speedup_high"} <= own.keys():
        value, low, high = (number(own, key) for key in ("speedup", "speedup_low", "speedup_high"))
        source = "measured in pairs"
        if not number({"rounds": MIN_ROUNDS} | own, "rounds") >= MIN_ROUNDS:
            low, high, source = NAN, NAN, "too few rounds"
    else:
        value, low, high = float(base["mean"]) / float(entry["runtime"]), NAN, NAN
        source = "measured apart: no interval"
    return Rated(problem.id, problem.name, True, True, value, low, high, source)


def no_win(own: Record) -> str:
    """Why a candidate's speed-up does not count; "" if it counts."""
    if own.get("verdict") in NO_SPEED:
        return str(own["verdict"])
    spoilt = own.get("verdict") == "faster" and own.get("wins") is False
    return ", ".join(own.get("conditions", ())) or "not believed" if spoilt else ""


def tie_aware(rows: Sequence[Rated]) -> dict[str, dict[str, float]]:
    """p -> shares "sure" and "possible", and the count "inconclusive", also without interval."""
    n = len(rows)
    found = {}
    for p in P_VALUES:
        sure = sum(1 for row in rows if row.correct and row.low > p)
        not_faster = sum(1 for row in rows if row.correct and row.high <= p)
        open_ = sum(1 for row in rows if row.correct) - sure - not_faster
        found[str(p)] = {
            "sure": sure / n if n else 0.0,
            "possible": (sure + open_) / n if n else 0.0,
            "inconclusive": open_,
        }
    return found


def check_baseline(results: Results, baseline: Baseline, problems: Iterable[Problem], level: int) -> dict[str, Any]:
    """Compare a baseline with the reference times [s] measured with sample 0 of each problem.

    A large difference means another machine or other shapes, so any speed-up would be arbitrary.
    """
    checked, apart = 0, []
    for problem in problems:
        own = number(own_of(first_sample(results, problem)), "reference_time")
        mean = number(baseline.get(f"level{level}", {}).get(problem.name, {}), "mean") * 1e-3
        if own > 0 and mean > 0:
            checked += 1
            if max(mean / own, own / mean) > 1 + LIMIT:
                named = {"problem": problem.id, "name": problem.name}
                apart.append(named | {"baseline": mean, "reference": own, "ratio": mean / own})
    return {"checked": checked, "limit": LIMIT, "disagree": apart}
