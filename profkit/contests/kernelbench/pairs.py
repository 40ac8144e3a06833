"""Measurements of a reference and a candidate in KernelBench's form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analyzers.records import NAN, number, plain
from profkit.contests.kernelbench.files import Generated, Record, times

if TYPE_CHECKING:
    from profkit.rundir.manifest import Impl
    from profkit.study.study import Study

_BUILD = ("compile-error",)
_BEFORE_CHECK = ("compile-error", "load-error")
_BROKE = ("load-error", "error", "crash", "corrupt", "hang", "memory-limit")
AS_IS = """

class ModelNew(Model):
    pass
"""
COMPILED = """

class ModelNew(Model):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._fast = torch.compile(super().forward)

    def forward(self, *args, **kwargs):
        return self._fast(*args, **kwargs)
"""


def record(run: Study, generated: Generated) -> Record:
    """A candidate's run as a row of eval_results.json; profkit's figures in metadata.profkit."""
    impl, manifest = run.manifest.candidates[0], run.manifest
    hardware, where = str(manifest.device.get("name", "")), _device(manifest.device)
    stats = times(_seconds(run, impl.name), hardware, where) if impl.ok else {}
    metadata: Record = {
        "hardware": hardware,
        "device": where,
        **_trouble(impl, manifest.reference, len(manifest.seeds)),
        "profkit": {"level": generated.level, **own(run, impl)},
    }
    compiled_ = impl.status not in (*_BEFORE_CHECK, "skipped")
    return _row(generated, metadata, compiled=compiled_, correct=impl.ok, stats=stats)


def failed(generated: Generated, error: str, *, status: str, backend: str) -> Record:
    """Row of a candidate that could not be started."""
    metadata = {
        "compilation_error": error,
        "compilation_error_name": status,
        "profkit": {"level": generated.level, "status": status, "backend": backend},
    }
    return _row(generated, metadata, compiled=False, correct=False, stats={})


def _row(generated: Generated, metadata: Record, *, compiled: bool, correct: bool, stats: Record) -> Record:
    return {
        "sample_id": generated.sample,
        "compiled": compiled,
        "correctness": correct,
        "metadata": metadata,
        "runtime": stats.get("mean", -1.0),
        "runtime_stats": stats,
    }


def own(run: Study, impl: Impl) -> Record:
    """profkit's figures beyond the official fields; SI units, None if unknown."""
    reduced = next((one.to_dict() for one in run.reduced_precision if one.impl == impl.name), None)
    verdict = run.verdicts.get(impl.name)
    rows = run.analysis.rows
    row, reference = rows.get(impl.name, {}), rows.get(run.analysis.reference, {})
    time, base, lower_bound = (number(r, k) for r, k in ((row, "time"), (reference, "time"), (row, "lower_bound_time")))
    figures = {
        "time": time,
        "reference_time": base,
        "lower_bound_time": lower_bound,
        **{key: number(row, key) for key in ("speedup", "speedup_low", "speedup_high", "rounds")},
        "attainable_speedup": base / lower_bound if lower_bound > 0 else NAN,
        "attainable_share": lower_bound / time if time > 0 else NAN,
    }
    return {
        **plain(figures),
        "unsound": [one.text for one in impl.unsound],
        "status": impl.status,
        "backend": impl.backend,
        "precision": run.manifest.precision,
        "reduced_precision": reduced,
        "verdict": verdict.word if verdict is not None else "",
        "line": verdict.text() if verdict is not None else "",
        "conditions": [one.code for one in verdict.conditions] if verdict is not None else [],
        "wins": verdict.wins if verdict is not None else False,
        "method": run.analysis.method,
        "run": str(run.path),
        "caveats": [caveat.what for caveat in run.analysis.caveats],
    }


def _trouble(impl: Impl, reference: Impl | None, trials: int) -> Record:
    """Official metadata keys for an error in so many correctness trials."""
    if impl.status == "skipped":
        if reference is None or reference.ok:
            return {}
        what = f"the reference failed ({reference.status}): {reference.reason}"
        return {"error": what, "error_message": reference.tail[-3000:]}
    found: Record = {}
    if impl.checks:
        found["correctness_trials"] = f"({sum(check.passed for check in impl.checks)} / {trials})"
        for key, values in (
            ("max_difference", [check.max_abs for check in impl.checks]),
            ("avg_difference", [check.mean_abs for check in impl.checks]),
        ):
            found[key] = [f"{value:.6f}" for value in values if value is not None]
    if impl.ok:
        return found
    kind = "compilation_error" if impl.status in _BUILD else "runtime_error" if impl.status in _BROKE else ""
    found |= {kind or "correctness_issue": impl.reason, f"{kind or 'correctness_issue'}_name": impl.status}
    return found | ({"runtime_error_traceback": impl.tail[-3000:]} if kind == "runtime_error" else {})


def baseline_record(run: Study, impl: str) -> Record:
    """One implementation of a run as a row of a baseline file; {} if it was not timed."""
    return times(_seconds(run, impl), str(run.manifest.device.get("name", "")), _device(run.manifest.device))


def _seconds(run: Study, impl: str) -> Sequence[float]:
    """Timed samples of one implementation by the method of the analysis."""
    frame = run.timings
    if frame is None:
        return []
    mine = frame[(frame["impl"] == impl) & (frame["method"] == run.analysis.method)]
    if "kept" in mine:
        mine = mine[mine["kept"].fillna(1).astype(bool)]
    return [float(value) for value in mine["seconds"]]


def _device(device: dict[str, Any]) -> str:
    return "cuda:0" if device.get("kind") == "cuda" else str(device.get("kind", ""))


def compiled(reference: str) -> str:
    """A candidate that is the reference under torch.compile."""
    return ("" if "import torch\n" in reference else "import torch\n") + reference + COMPILED
