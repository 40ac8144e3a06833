"""Run directories with known numbers, made without a GPU: a machine of 4 TB/s and 50 TFLOP/s of fp32."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd

from analyzers.lower_bound import Work
from analyzers.verdicts.analysis import analyze
from collectors.frame import build
from profkit.rundir.directory import Run
from profkit.rundir.manifest import Capture, Check, Counters, FileRef, Impl, Manifest, SampleInfo, Timing
from profkit.study.study import Study
from roofline.ceilings import Ceiling, Roofline

NCU = Path(__file__).resolve().parent.parent / "data" / "ncu"
PLANTED = "planted(const float *, const int *, float *, int)"
"""The kernel of source_cuda.csv."""

DRAM, FP32, L2 = 4e12, 50e12, 16e12
PIPES = [
    *(f"flop_{p}" for p in ("fp64", "fp32", "fp16")),
    *(f"op_tensor_{p}" for p in ("fp16", "bf16", "tf32", "fp8", "int8", "fp64")),
]
CEILINGS = (
    Ceiling("dram", "bandwidth", DRAM, "measured"),
    Ceiling("l2", "bandwidth", L2, "measured"),
    Ceiling("fp32", "compute", FP32, "measured"),
    Ceiling("fp64", "compute", FP32 / 2, "measured"),
    Ceiling("tensor_bf16", "compute", 800e12, "measured"),
)


def kernel(impl, name, time, **counters):
    """A launch that does nothing but what is said."""
    return {"impl": impl, "kernel": name, "time": time, **dict.fromkeys(PIPES, 0.0), **counters}


def launches(rows):
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name, np.nan) for row in rows] for name in names}
    return build({**columns, "cc": ["9.0"] * len(rows), "device": "Test GPU"}, tool="ncu")


def timings(seconds, rounds=12, per=3, seed=1):
    """timings.csv of {impl: median seconds}: 0.2 % of noise."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "impl": impl,
            "method": "event",
            "round": r,
            "trial": t,
            "seconds": value * (1 + 0.002 * rng.standard_normal()),
            "host": value / 2,
            "l2": "cold",
            "kept": 1,
            "sm_clock": 1.98e9,
        }
        for r in range(rounds)
        for impl, value in seconds.items()
        for t in range(per)
    ]
    return pd.DataFrame(rows)


def make_run(folder, seconds, rows=(), work=None, *, device="Test GPU", files=None, sample="T1"):
    """A run on disk whose analysis is already there; `rows` are `kernel`s of one call each."""
    folder.mkdir(parents=True, exist_ok=True)
    frame = timings(seconds)
    frame.to_csv(folder / "timings.csv", index=False)
    needs = {"": (work if work is not None else Work({"fp32": 1e8}, 4e8),)}
    manifest = Manifest(
        SampleInfo(sample, f"S1/{sample}", files=files or {"reference": FileRef("ref.py", "a" * 64)}),
        created="2026-01-01T00:00:00Z",
        status="done",
        profkit="0.1.0",
        device={"kind": "test", "name": device, "cc": "9.0", "sms": 132},
        versions={"torch": "2.11"},
        seeds=[1],
        impls=[
            Impl(
                name,
                "reference" if name == "reference" else "candidate",
                f"{name}.py",
                status="ok",
                checks=[Check(1, True, max_abs=0.0, max_rel=0.0)],
            )
            for name in seconds
        ],
        timing=Timing("event", "CUDA events", "cold", rounds=12, target=0.01),
        ceilings=[{"name": c.name, "kind": c.kind, "peak": c.peak, "source": c.source} for c in CEILINGS],
        counters=Counters("collected" if len(rows) else "missing", why="" if len(rows) else "none here"),
    )
    run = Study(Run(folder, manifest))
    run.run.save()
    known = launches(list(rows)) if len(rows) else None
    run.__dict__["analysis"] = analyze(frame, known, needs, Roofline(device, CEILINGS))
    return run


def two_parts(folder):
    """A reference of 300 us and a candidate of 200 us, a kernel each, that move the same bytes."""
    rows = [
        kernel("reference", "r(int)", 3e-4, dram_bytes=6e8),
        kernel("cuda", "void k<float, 4>(int)", 2e-4, dram_bytes=6e8),
    ]
    return make_run(folder, {"reference": 3e-4, "cuda": 2e-4}, rows)


def planted_run(folder):
    """A call of 300 us with the kernel whose source lines were recorded in it, which its ceilings allow 60 us of its 200."""
    rows = [kernel("cuda", PLANTED, 200e-6, dram_bytes=240e6, flop_fp32=1e6), kernel("cuda", "other()", 50e-6)]
    study = make_run(folder, {"cuda": 300e-6}, rows, Work({"fp32": 1e6}, 240e6))
    shutil.copy(NCU / "source_cuda.csv", study.path / "lines.csv")
    study.manifest.captures.append(Capture("lines.csv", "ncu", "lines"))
    return study
