"""--for records: JSON lines as SOL-ExecBench and FlashInfer-Bench record solutions.

What their schema has no field for stands in correctness.extra: verdict, lower bound, SOL score.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analyzers.records import number, plain
from profkit.errors import ProfkitError
from profkit.report.dialects import Written, the_one
from profkit.report.sections import answer

if TYPE_CHECKING:
    from profkit.rundir.manifest import Impl
    from profkit.study.study import Study

TASK = "task.json"
"""What profkit.contests.definitions leaves in the run: the definition's name, the timed workload, the solutions' names."""
_STATUS = {
    "mismatch": "INCORRECT_NUMERICAL",
    "nan": "INCORRECT_NUMERICAL",
    "wrong-shape": "INCORRECT_SHAPE",
    "wrong-dtype": "INCORRECT_DTYPE",
    "compile-error": "COMPILE_ERROR",
    "load-error": "COMPILE_ERROR",
    "hang": "TIMEOUT",
    **dict.fromkeys(("error", "crash", "corrupt", "memory-limit", "wrong-device", "wrong-type"), "RUNTIME_ERROR"),
}
"""State of an implementation -> the contest's word; what is caught at cheating is a hack, or an error where there is no
such word."""


def write(runs: Sequence[str | Study]) -> Written:
    """The records of one run, for stdout."""
    return Written("".join(f"{line}\n" for line in lines(the_one(runs))).rstrip("\n"))


def lines(study: Study) -> list[str]:
    """Raises ProfkitError for a run of anything but such a task."""
    try:
        task = json.loads((study.path / TASK).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ProfkitError(
            f"{study.path}: no task of SOL-ExecBench or FlashInfer-Bench was measured here",
            fix="profkit profile FOLDER reads one; other runs have `profkit report --json`",
        ) from error
    return [
        json.dumps(_record(study, task, impl), ensure_ascii=False, allow_nan=False)
        for impl in study.manifest.candidates
        if impl.status != "skipped"
    ]


def _record(study: Study, task: dict[str, Any], impl: Impl) -> dict[str, Any]:
    manifest, verdict = study.manifest, study.verdicts[impl.name]
    hack = "REWARD_HACK" if task["format"] == "sol_execbench" else "RUNTIME_ERROR"
    status = "PASSED" if impl.ok else _STATUS.get(impl.status, hack)
    status = hack if verdict.word == "impossible" or (impl.ok and verdict.word == "wrong") else status
    row = next((part.row for part in study.parts if part.name == impl.name), None) or {}
    if status == "PASSED" and not number(row, "time") > 0:
        status = "RUNTIME_ERROR"
    correct = status in ("PASSED", "INCORRECT_NUMERICAL")
    mine, reference = number(row, "time"), _reference(study)
    performance = {
        "latency_ms": mine * 1e3,
        "reference_latency_ms": reference * 1e3 if reference > 0 else 0.0,
        "speedup_factor": reference / mine if reference > 0 else 0.0,
    }
    return {
        "definition": task["definition"],
        "workload": task["workload"],
        "solution": task["solutions"].get(impl.name, impl.name),
        "evaluation": {
            "status": status,
            "environment": {"hardware": answer.device(study), "libs": dict(manifest.versions)},
            "timestamp": manifest.finished or manifest.created,
            "log": f"profkit {manifest.profkit}: {verdict.text()}" + (f"\n{impl.tail}" if impl.tail else ""),
            "correctness": _correctness(study, impl, row) if correct else None,
            "performance": performance if status == "PASSED" else None,
        },
    }


def _correctness(study: Study, impl: Impl, row: Any) -> dict[str, Any]:
    verdict = study.verdicts[impl.name]
    known = {name: verdict.to_dict()[name] for name in ("word", "line", "speedup", "low", "high", "wins")}
    lower_bound = plain({"x_lower_bound": number(row, "lower_bound_ratio"), "sol_score": sol_score(study, row)})
    return {
        "max_relative_error": max((one.max_rel or 0.0 for one in impl.checks), default=0.0),
        "max_absolute_error": max((one.max_abs or 0.0 for one in impl.checks), default=0.0),
        "extra": {"profkit": {**known, **lower_bound}},
    }


def _reference(study: Study) -> float:
    rows = (part.row for part in study.parts if part.impl is not None and part.impl.role == "reference")
    return next((number(row, "time") for row in rows if row is not None), math.nan)


def sol_score(study: Study, row: Any) -> float | None:
    """SOL score: 1 at the lower bound, 0.5 at the reference's time; None without a bound."""
    time, lower_bound, base = number(row, "time"), number(row, "lower_bound_time"), _reference(study)
    if not (time > 0 and base > lower_bound > 0):
        return None
    return 1 / (1 + max(0.0, time - lower_bound) / (base - lower_bound))
