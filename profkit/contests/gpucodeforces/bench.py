"""A contest sample measured twice: by profkit, and by its own entry script."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profkit.contests.door import Progress, measure
from profkit.contests.figures import NAN, finite, number
from profkit.contests.gpucodeforces.transcript import Transcript, parse
from profkit.errors import ProfkitError
from profkit.launch import process
from profkit.launch.cache import builds
from profkit.rundir.files import temporary

if TYPE_CHECKING:
    from profkit.record.request import Request

SCHEMA = "profkit-bench/1"
LIMIT = 900.0


@dataclass(frozen=True)
class Entry:
    """How run_code.py ended and what it printed, byte for byte."""

    code: int
    stdout: str
    stderr: str
    hung: bool
    transcript: Transcript


def run_entry(folder: Path, *, limit: float = LIMIT) -> Entry:
    """Run the folder's run_code.py in its own session; kill it after `limit` seconds."""
    script = folder / "run_code.py"
    if not script.is_file():
        raise ProfkitError(
            f"{script}: no such file", fix="`profkit new` writes one; the contest runs exactly this name"
        )
    with temporary() as place:
        out, err = Path(place) / "stdout", Path(place) / "stderr"
        # The shell splits the streams: build chatter belongs to stderr, the contest's lines to stdout.
        shell = ["/bin/sh", "-c", 'exec "$1" run_code.py >"$2" 2>"$3"', "sh"]
        argv = [*shell, sys.executable, str(out), str(err)]
        env = {
            **os.environ,
            "PYTHONUTF8": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TORCH_EXTENSIONS_DIR": str(builds() / "entry" / folder.resolve().name),
        }
        ended = process.run(argv, log=Path(place) / "log", env=env, limit=limit, cwd=folder.resolve())
        stdout, stderr = (file.read_text("utf-8", "replace") if file.exists() else "" for file in (out, err))
    return Entry(ended.code, stdout, stderr, ended.hung, parse(stdout))


def bench(
    folder: Path, request: Request, *, limit: float = LIMIT, progress: Progress = lambda _: None
) -> dict[str, Any]:
    """Profile a sample, run its entry, and put both into one document (schema profkit-bench/1)."""
    run = measure(folder, request, progress)
    entry = run_entry(folder, limit=limit)
    analysis = run.analysis
    rows = run.analysis.rows
    candidates = [
        _candidate(impl.name, impl.status, impl.reason, rows.get(impl.name, {}))
        for impl in run.manifest.candidates
        if impl.status != "skipped"
    ]
    reference = rows.get(analysis.reference, {})
    return {
        "schema": SCHEMA,
        "sample": run.manifest.sample.id,
        "device": run.manifest.device.get("name", ""),
        "run": str(run.path),
        "method": analysis.method,
        "run_code": {
            "exit_code": entry.code,
            "hung": entry.hung,
            "stdout": entry.stdout,
            "stderr_tail": entry.stderr[-2000:],
            **entry.transcript.to_dict(),
        },
        "reference": {
            "time": finite(reference.get("time")),
            "flops": finite(reference.get("flops")),
            "bytes": finite(reference.get("compulsory_bytes")),
            "lower_bound_time": finite(reference.get("lower_bound_time")),
        },
        "candidates": candidates,
        "notes": _notes(entry, candidates),
    }


def _candidate(name: str, status: str, reason: str, row: dict[str, Any]) -> dict[str, Any]:
    """One candidate's figures in SI; throughput is FLOP/s, else compulsory bytes/s."""
    time, flops = number(row.get("time")), number(row.get("flops"))
    needed = number(row.get("compulsory_bytes"))
    counted = "counted" in str(row.get("work_source", "")) and number(row.get("dram_bandwidth")) > 0
    throughput, unit = (
        (flops / time, "FLOP/s") if flops > 0 and time > 0 else (needed / time if time > 0 else NAN, "B/s")
    )
    bandwidth = number(row.get("dram_bandwidth")) if counted else (needed / time if time > 0 else NAN)
    keys = ("speedup", "speedup_low", "speedup_high")
    return {
        "name": name,
        "status": status,
        "reason": reason,
        "time": finite(time),
        "throughput": finite(throughput),
        "throughput_unit": unit,
        "bandwidth": finite(bandwidth),
        "bandwidth_source": "counted DRAM bytes" if counted else "compulsory bytes",
        **{key: finite(row.get(key)) for key in keys},
        "verdict": str(row.get("verdict", "") or ""),
    }


def lines(document: dict[str, Any]) -> list[str]:
    """Throughput and bandwidth lines of each candidate, where run_code.py does not print them."""
    out = []
    printed = document["run_code"]
    labels = printed.get("candidate") or {}
    several = len(document["candidates"]) > 1
    for row in document["candidates"]:
        if row["status"] != "ok" or row["time"] is None:
            continue
        label = row["name"] if several or not labels.get("label") else labels["label"]
        if row["throughput"] is not None and printed.get("throughput") is None:
            out.append(f"{label} 吞吐量: {row['throughput'] / 1e9:.3f} G{row['throughput_unit']}")
        if row["bandwidth"] is not None and printed.get("bandwidth") is None:
            out.append(f"{label} 内存带宽: {row['bandwidth'] / 1e9:.3f} GB/s")
    return out


def _notes(entry: Entry, candidates: list[dict[str, Any]]) -> list[str]:
    notes = list(entry.transcript.notes)
    if entry.hung:
        notes.append("run_code.py did not end in time and was killed")
    elif entry.code != 0:
        notes.append(f"run_code.py ended with exit code {entry.code}")
    measured = [row for row in candidates if row["status"] == "ok" and row["speedup_low"] is not None]
    ratio = entry.transcript.speedup
    if len(measured) == 1 and not math.isnan(ratio):
        low, high = measured[0]["speedup_low"], measured[0]["speedup_high"]
        if not low - 0.01 <= ratio <= high + 0.01:
            notes.append(
                f"run_code.py says {ratio:.2f}x, profkit measured {low:.3g} to {high:.3g}x: different timers or cache states"
            )
    return notes
