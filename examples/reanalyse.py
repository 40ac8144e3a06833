"""Judge a recorded run again: the measured files are kept, everything else is derived from them.

    python examples/reanalyse.py [RUN] [-o roofline.svg]      # needs no GPU

Without RUN: the polynomial recorded on an H200, whose two sides lie on two sides of the ridge.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import profkit

RECORDED = Path(__file__).parent / "h200" / "ICNPLY"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", nargs="?", default=RECORDED)
    parser.add_argument("-o", "--output", default="roofline.svg")
    chosen = parser.parse_args()

    run = profkit.open_run(chosen.run)
    device = run.manifest.device
    print(f"{run.manifest.sample.id} on {device['name']}, recorded {run.manifest.created}")

    analysis = run.analysis
    for row in analysis.impls.to_dict("records"):
        print(
            f"{row['impl']:10} {row['time'] * 1e6:9.2f} us  {row['speedup']:6.3g}x  "
            f"{row['attainable_fraction']:6.1%} of attainable  {row['lower_bound_ratio']:5.3g} x lower bound  {row['bound_by']}"
        )

    # A question the report does not ask: which kernel would win most if it reached its ceiling?
    kernels = run.kernels.assign(could_win=run.kernels["time"] - run.kernels["roof_time"])
    worst = kernels.sort_values("could_win", ascending=False).iloc[0]
    print(f"most to win: {worst['impl']}: {worst['kernel'][:60]}: {worst['could_win'] * 1e6:.1f} us a call")

    profkit.draw(run).savefig(chosen.output)
    print(chosen.output)


if __name__ == "__main__":
    main()
