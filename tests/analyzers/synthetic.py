"""Synthetic launches and timings whose results are known by hand."""

import numpy as np
import pandas as pd

from collectors.frame import build

ICVXKH_FLOP = 2 * 16 * 1024 * 2048 + 16 * 2048
ICVXKH_BYTES = 4 * (16 * 1024 + 1024 * 2048 + 16 * 2048)

TENSOR = ("fp16", "bf16", "tf32", "fp8", "int8", "fp64")
NOTHING = dict.fromkeys([*(f"flop_{p}" for p in ("fp64", "fp32", "fp16")), *(f"op_tensor_{p}" for p in TENSOR)], 0.0)
"""Every operation counter of CC 9.0, collected, and 0."""


def launches(*rows, tool="ncu", cc="9.0"):
    """A launches frame of dicts; every pipe of CC 9.0 is collected and 0 unless a row says otherwise."""
    full = [{"impl": "reference", "kernel": "k(float*)", **NOTHING, **row} for row in rows]
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
