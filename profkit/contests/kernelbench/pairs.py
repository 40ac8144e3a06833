"""Measurements of a pair of reference and candidate, in KernelBench's form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from profkit.contests.json_files import NAN, finite, number
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
        self._fast = torch.compile(super().forward{options})

    def forward(self, *args, **kwargs):
        return self._fast(*args, **kwargs)
"""


def record(run: Study, generated: Generated) -> Record:
    """Candidate's run as a row of eval_results.json; own figures in metadata.profkit."""
    impl, reference = run.manifest.candidates[0], run.manifest.reference
    device = run.manifest.device
    hardware, where = str(device.get("name", "")), _device(device)
    stats = times(_seconds(run, impl.name), hardware, where) if impl.ok else {}
    metadata: Record = {
        "hardware": hardware,
        "device": where,
        **_reference_trouble(impl, reference),
        **_trouble(impl, len(run.manifest.seeds)),
        "profkit": {"level": generated.level, **own(run, impl)},
    }
    compiled = impl.status not in _BEFORE_CHECK and impl.status != "skipped"
    return {
        "sample_id": generated.sample,
        "compiled": compiled,
        "correctness": impl.ok,
        "metadata": metadata,
        "runtime": stats.get("mean", -1.0),
        "runtime_stats": stats,
    }


def failed(generated: Generated, error: str, *, status: str, backend: str) -> Record:
    """The row of a candidate that could not even be started."""
    metadata = {
        "compilation_error": error,
        "compilation_error_name": status,
        "profkit": {"level": generated.level, "status": status, "backend": backend},
    }
    return {
        "sample_id": generated.sample,
        "compiled": False,
        "correctness": False,
        "metadata": metadata,
        "runtime": -1.0,
        "runtime_stats": {},
    }


def own(run: Study, impl: Impl) -> Record:
    """What profkit knows beyond the official fields; SI units, None where unknown."""
    reduced = next((one.to_dict() for one in run.reduced_precision if one.impl == impl.name), None)
    verdict = run.verdicts.get(impl.name)
    rows = run.analysis.rows
    row, reference = rows.get(impl.name, {}), rows.get(run.analysis.reference, {})
    time, base, lower_bound = (
        number(r.get(k)) for r, k in ((row, "time"), (reference, "time"), (row, "lower_bound_time"))
    )
    figures = {
        "time": time,
        "reference_time": base,
        "lower_bound_time": lower_bound,
        **{key: number(row.get(key)) for key in ("speedup", "speedup_low", "speedup_high", "rounds")},
        "attainable_speedup": base / lower_bound if lower_bound > 0 else NAN,
        "attainable_share": lower_bound / time if time > 0 else NAN,
    }
    return {
        **{key: finite(value) for key, value in figures.items()},
        "unsound": [f"{f.tool}: {f.kind} in {f.kernel} {f.place}".rstrip() for f in impl.unsound],
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


def _reference_trouble(impl: Impl, reference: Impl | None) -> Record:
    """The reference's failure, when a candidate never had its turn."""
    if impl.status != "skipped" or reference is None or reference.ok:
        return {}
    return {
        "error": f"the reference failed ({reference.status}): {reference.reason}",
        "error_message": reference.tail[-3000:],
    }


def _trouble(impl: Impl, trials: int) -> Record:
    """The official metadata keys of what happened in so many correctness trials."""
    done = sum(check.passed for check in impl.checks)
    found: Record = {}
    if impl.checks:
        found["correctness_trials"] = f"({done} / {trials})"
        for key, values in (
            ("max_difference", [check.max_abs for check in impl.checks]),
            ("avg_difference", [check.mean_abs for check in impl.checks]),
        ):
            found[key] = [f"{value:.6f}" for value in values if value is not None]
    if impl.ok or impl.status == "skipped":
        return found
    if impl.status in _BUILD:
        return found | {"compilation_error": impl.reason, "compilation_error_name": impl.status}
    if impl.status in _BROKE:
        return found | {
            "runtime_error": impl.reason,
            "runtime_error_name": impl.status,
            "runtime_error_traceback": impl.tail[-3000:],
        }
    return found | {"correctness_issue": impl.reason, "correctness_issue_name": impl.status}


def baseline_record(run: Study, impl: str) -> Record:
    """One implementation of a run as a row of a baseline file; {} when it was not timed."""
    return times(_seconds(run, impl), str(run.manifest.device.get("name", "")), _device(run.manifest.device))


def _seconds(run: Study, impl: str) -> Sequence[float]:
    """The timed samples of one implementation by the method the analysis judges by."""
    frame = run.timings
    if frame is None:
        return []
    mine = frame[(frame["impl"] == impl) & (frame["method"] == run.analysis.method)]
    if "kept" in mine:
        mine = mine[mine["kept"].fillna(1).astype(bool)]
    return [float(value) for value in mine["seconds"]]


def _device(device: dict[str, Any]) -> str:
    return "cuda:0" if device.get("kind") == "cuda" else str(device.get("kind", ""))


def compiled(reference: str, options: str = "") -> str:
    """A candidate that is the reference under torch.compile."""
    head = "" if "import torch\n" in reference else "import torch\n"
    return head + reference + COMPILED.format(options=options)
