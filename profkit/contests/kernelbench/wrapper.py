"""Correct the JSON files of generate_baseline and run_kernelbench_wrapper.

Both scripts divide KernelBench's milliseconds by 1000 once too often: `runtime_mean_us` holds ms, and
`runtime_mean_ms`, `ref_time_ms`, `custom_time_ms` hold seconds. A missing baseline silently becomes the candidate's
own time, and one of another problem is used silently. All of that is flagged, and times are converted to seconds.
"""

from __future__ import annotations

import math
from pathlib import Path

from analyzers.records import NAN, number
from profkit.contests.json_files import Json, read_json
from profkit.errors import ProfkitError

_HOLDS_SECONDS = "hold seconds, not ms (1000 times too small)"
_IDENTITY: Json = {"level": 0, "problem_id": 0, "problem_name": "", "device": ""}


def read_wrapper_baseline(file: Path) -> Json:
    """Reference in baseline_time.json: its names, its `seconds`, and `caveats`.

    Raises ProfkitError for another file.
    """
    data = read_json(file)
    if not isinstance(data, dict) or "runtime_mean_ms" not in data:
        raise ProfkitError(f"{file}: no field runtime_mean_ms", fix="give the wrapper's baseline_time.json")
    mean, seconds = number(data.get("runtime_stats") or {}, "mean") * 1e-3, number(data, "runtime_mean_ms")
    caveats = []
    if math.isnan(mean):
        caveats = ["no runtime_stats.mean: runtime_mean_ms was taken for seconds, which the wrapper's scripts write"]
    elif _near(seconds, mean):
        caveats = [f"runtime_mean_ms and runtime_mean_us {_HOLDS_SECONDS}; runtime_stats.mean is right"]
    told = {name: data.get(name, default) for name, default in _IDENTITY.items()}
    return told | {"seconds": seconds if math.isnan(mean) else mean, "caveats": caveats}


def read_wrapper_results(file: Path, baseline: Json | None = None) -> list[Json]:
    """Models of a test_results_*.json, times in seconds, NaN if not measured.

    With a baseline, check that it matches.
    """
    data = read_json(file)
    if not isinstance(data, dict) or not isinstance(data.get("results"), list):
        raise ProfkitError(f"{file}: no list named results", fix="give the wrapper's test_results_*.json")
    shared = _stale(data, baseline)
    return [_result(row, baseline, shared) for row in data["results"] if isinstance(row, dict)]


def _stale(data: Json, baseline: Json | None) -> list[str]:
    """Differences of the baseline from the test in problem, level or device."""
    if baseline is None:
        return ["no baseline at hand: whether the right one was used cannot be told"]
    config = {**(data.get("test_config") or {}), "problem_name": data.get("problem_name")}
    return [
        f"stale baseline: its {name} is {have}, the test's is {wanted}"
        for name in _IDENTITY
        if (wanted := config.get(name)) and (have := baseline[name]) and str(wanted) != str(have)
    ]


def _result(row: Json, baseline: Json | None, shared: list[str]) -> Json:
    told = row.get("eval_result") or {}
    caveats = list(shared)
    reference, own = (number(told, key) for key in ("ref_time_ms", "custom_time_ms"))
    own = own if own > 0 else NAN
    if not told and row.get("success"):
        caveats.append("no eval_result: the evaluation itself failed, which `success` does not say")
    if reference == own:
        caveats.append("reference and candidate have the same time: the baseline was missing, the 1.0x is made up")
        reference = NAN
    unit = 1.0
    if baseline is not None and _near(reference, baseline["seconds"] * 1e3):
        unit = 1e-3
    elif own > 0:
        caveats.append(f"ref_time_ms and custom_time_ms {_HOLDS_SECONDS}")
    speedup = reference / own
    if speedup > 300 and not _near(reference, baseline["seconds"] if baseline else NAN):
        caveats.append("a speed-up this large comes from mixing a baseline in ms with times in seconds")
    correct = bool(told.get("is_correct", False))
    return {
        "model": str(row.get("model_name") or row.get("model_id") or ""),
        "generated": bool(row.get("success", False)),
        "compiled": bool(told.get("compiled", False)),
        "correct": correct,
        "reference_seconds": reference * unit if own > 0 else NAN,
        "seconds": own * unit,
        "speedup": speedup,
        "fast_1": correct and speedup > 1,
        "fast_2": correct and speedup > 2,
        "caveats": caveats,
    }


def _near(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=0.02)
