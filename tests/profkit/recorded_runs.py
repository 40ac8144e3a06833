"""Many run directories made from the recorded ones of examples/h200: run.json and metrics.json with other numbers."""

import copy
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np

H200 = Path(__file__).parents[2] / "examples/h200"
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
TIMES = ("time", "time_low", "time_high", "lower_bound_ratio")


def recorded(sample="ICFSMX"):
    """(run.json, metrics.json) of a recorded run."""
    return tuple(json.loads((H200 / sample / name).read_text("utf-8")) for name in ("run.json", "metrics.json"))


def write(folder, run, metrics, *, hour=0, scale=None, device=None, source=None, **more):
    """One run directory: its times of an implementation multiplied by `scale`, a dict or one for all."""
    run, metrics = copy.copy(run), copy.copy(metrics)
    when = START + timedelta(hours=hour)
    run |= {"created": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "device": {**run["device"], **(device or {})}, **more}
    if source:
        files = {
            name: {**one, "sha256": source.get(name, one["sha256"])} for name, one in run["sample"]["files"].items()
        }
        run["sample"] = {**run["sample"], "files": files}
    factor = (lambda name: scale.get(name, 1.0)) if isinstance(scale, dict) else (lambda name: scale or 1.0)
    metrics["impls"] = [{**row, **_scaled(row, factor)} for row in metrics["impls"]]
    path = folder / run["sample"]["id"] / f"{when:%Y%m%dT%H%M%SZ}"
    path.mkdir(parents=True)
    (path / "run.json").write_text(json.dumps(run), "utf-8")
    (path / "metrics.json").write_text(json.dumps(metrics), "utf-8")
    return path


def _scaled(row, factor):
    by = factor(row["impl"])
    faster = factor("reference") / by
    pace = ("speedup", "speedup_low", "speedup_high")
    return {
        **{name: row[name] * by for name in TIMES if row.get(name) is not None},
        **{name: row[name] * faster for name in pace if row.get(name) is not None and row["impl"] != "reference"},
    }


def many(folder, count, seed=1):
    """`count` runs, of the twelve recorded samples in turn, an hour apart, with 1 % of noise."""
    rng = np.random.default_rng(seed)
    bases = [recorded(path.name) for path in sorted(H200.iterdir()) if (path / "run.json").is_file()]
    for number in range(count):
        noise = {name: float(np.exp(0.01 * rng.standard_normal())) for name in ("reference", "cuda", "triton", "ori")}
        write(folder, *bases[number % len(bases)], hour=number, scale=noise)
    return folder


def series(folder, values, sample="ICFSMX", impl="cuda", **changes):
    """A run for each of `values`, which multiply the time of `impl`; changes: of write, a function of the number."""
    base = recorded(sample)
    for number, value in enumerate(values):
        more = {name: change(number) for name, change in changes.items()}
        write(folder, *base, hour=number, scale={impl: float(value), **more.pop("scale", {})}, **more)
