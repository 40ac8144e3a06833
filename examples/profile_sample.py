"""Measure a sample from Python, look at the numbers, draw the roofline.

    python examples/profile_sample.py [SAMPLE] [--device auto] [--budget 5] [-o roofline.png]

On a machine without a GPU only candidates that run on a CPU are measured, and there are no counters.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import profkit


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sample", nargs="?", default="S1/ICVXKH")
    parser.add_argument("--device", default="auto", choices=("auto", "cuda", "cpu"))
    parser.add_argument("--budget", type=float, default=5.0, help="seconds of timing")
    parser.add_argument("--trials", type=int, default=5, help="correctness trials")
    parser.add_argument("--runs", type=Path, default=Path("profkit-runs"), help="where the run directory goes")
    parser.add_argument("-o", "--output", default="roofline.png")
    chosen = parser.parse_args()

    run = profkit.profile(
        chosen.sample,
        device=chosen.device,
        budget=chosen.budget,
        trials=chosen.trials,
        runs=chosen.runs,
        progress=print,
    )
    for impl in run.manifest.impls:
        print(f"{impl.name}: {impl.status} {impl.reason}")

    # One row an implementation, SI units: seconds, FLOP/s, B/s; what is not known is NaN.
    columns = ["impl", "time", "speedup", "speedup_low", "speedup_high", "verdict", "lower_bound_ratio", "bound_by"]
    print(run.metrics[columns].to_string(index=False))

    # One row a kernel of an implementation; empty on a CPU, where nothing counts kernels.
    if not run.kernels.empty:
        print(run.kernels[["impl", "kernel", "share", "time"]].to_string(index=False))

    for caveat in run.analysis.caveats:
        print(f"caveat: {caveat.what}: {caveat.how_much}")

    figure = profkit.draw(run)
    figure.savefig(chosen.output)
    print(f"{run.path} and {chosen.output}")


if __name__ == "__main__":
    main()
