"""Synthetic launches, timings and rooflines whose results are known by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from collectors.frame import build
from roofline.ceilings import Ceiling, Roofline

ICVXKH_FLOP = 2 * 16 * 1024 * 2048 + 16 * 2048
ICVXKH_BYTES = 4 * (16 * 1024 + 1024 * 2048 + 16 * 2048)


@pytest.fixture
def h200():
    compute = {"fp64": 34e12, "fp32": 67e12, "fp16": 133.8e12, "tensor_fp64": 67e12, "tensor_tf32": 494.7e12,
               "tensor_bf16": 989.4e12, "tensor_fp16": 989.4e12, "tensor_fp8": 1978.9e12, "tensor_int8": 1978.9e12}  # fmt: skip
    ceilings = [Ceiling(name, "compute", peak, "datasheet") for name, peak in compute.items()]
    return Roofline("H200", (*ceilings, Ceiling("dram", "bandwidth", 4.8e12, "datasheet")))


def launches(*rows, tool="ncu", cc="9.0"):
    """A launches frame of dicts; every pipe of CC 9.0 is collected and 0 unless a row says otherwise."""
    zero = {"flop_fp64": 0.0, "flop_fp32": 0.0, "flop_fp16": 0.0,
            **{f"op_tensor_{kind}": 0.0 for kind in ("fp16", "bf16", "tf32", "fp8", "int8", "fp64")}}  # fmt: skip
    full = [{"impl": "reference", "kernel": "k(float*)", **zero, **row} for row in rows]
    names = list(dict.fromkeys(name for row in full for name in row))
    columns = {name: [row.get(name, np.nan) for row in full] for name in names}
    return build({**columns, "cc": [cc] * len(rows)}, tool=tool)


def samples(times, method="event", l2="cold", per=3, **more):
    """timings.csv from {impl: seconds by round and trial, flat}; `more` are further columns, one value each."""
    rows = [
        {"impl": impl, "method": method, "round": i // per, "trial": i % per, "seconds": s, "l2": l2, **more}
        for impl, values in times.items()
        for i, s in enumerate(values)
    ]
    return pd.DataFrame(rows)


def noisy(median, n=60, rel=0.002, seed=0):
    return median * (1 + rel * np.random.default_rng(seed).standard_normal(n))
