"""Whether --lines names the planted slow line first, and whether mending it wins what was promised at most.

    python benchmarks/slow_lines.py

needs an NVIDIA GPU, nvcc, ncu and the right to read counters; about two minutes. tests/triggers/slow_line has a CUDA and
a Triton kernel with one slow line each, marked as such, and the same two mended.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from profkit.api import profile
from profkit.report.explain import by_kernel, sentence
from roofline import units

SAMPLE = Path("tests/triggers/slow_line")
MARK = "the slow line"


def main() -> int:
    """Profile, print a line a kernel, and return 1 when one of the two promises is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("profkit-runs"))
    study = profile(SAMPLE, lines=True, trials=1, budget=2.0, processes=1, runs=parser.parse_args().runs)
    print(f"{study.manifest.device.get('name')}, {study.path}")
    broken = 0
    for kind in ("cuda", "triton"):
        slow, mended = (float(study.analysis.impl(f"{how}_{kind}")["time"]) for how in ("slow", "mended"))
        found = [lines for impl, _, lines in by_kernel(study.lines) if impl == f"slow_{kind}"]
        if not found:
            print(f"{kind}: no lines")
            broken += 1
            continue
        first, won = found[0][0], slow - mended
        kept = won <= first.bound
        broken += (MARK not in first.text) + (not kept)
        print(f"{kind}: {sentence(first)}")
        print(f"  {'named first' if MARK in first.text else 'WRONG LINE'}; mended: {units.text(won, 's')} won", end=" ")
        print(f"of {units.text(first.bound, 's')} at most: {'within' if kept else 'BEYOND'} the bound")
        for other in found[0][1:4]:
            print(f"    then {sentence(other)}")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
