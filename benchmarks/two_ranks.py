"""Two ranks of torchrun: is each attributed, and is NCCL's share that of the timeline itself?

    python benchmarks/two_ranks.py OUT

needs two NVIDIA GPUs. tests/triggers/two_ranks.py is profiled, and run once more under a torch.profiler of its own in
every rank; NCCL's time and how much of it was hidden are computed from the events of those traces, one by one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from profkit.api import profile
from profkit.report import sections
from profkit.targets.program import Program

PROGRAM = "tests/triggers/two_ranks.py"
LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", PROGRAM]
GPU = ("kernel", "gpu_memcpy", "gpu_memset")


def shares(trace: Path) -> tuple[float, float]:
    """(NCCL's share of a rank's window, the share of NCCL's time beside other kernels), counted microsecond by event."""
    events = [one for one in json.loads(trace.read_text())["traceEvents"] if one.get("cat") in GPU]
    spans = [(one["ts"], one["ts"] + one["dur"], "nccl" in one["name"].lower()) for one in events]
    begin, end = min(one[0] for one in spans), max(one[1] for one in spans)
    marks = sorted({moment for one in spans for moment in one[:2]})
    talking = hidden = 0.0
    for left, right in pairwise(marks):
        kinds = {nccl for first, last, nccl in spans if first <= left and last >= right}
        talking += (right - left) * (True in kinds)
        hidden += (right - left) * (kinds == {True, False})
    return talking / (end - begin), hidden / talking if talking else 0.0


def main(arguments: Sequence[str]) -> int:
    out = Path(arguments[0])
    study = profile(Program.of(LAUNCH), runs=out / "runs")
    print("\n".join(sections.first_lines(study)))
    told = {}
    for name, one in study.budgets.items():
        told[name] = ((one.communicating + one.hidden) / one.window, one.hidden / (one.communicating + one.hidden))
        print(f"profkit {name}: {one.steady.steps} steps; NCCL {told[name][0]:.1%}, hidden {told[name][1]:.1%} of it")
    subprocess.run([*LAUNCH, "--own", str(out)], check=True)
    wrong = len(told) != 2
    for (name, mine), trace in zip(sorted(told.items()), sorted(out.glob("own.rank*.json")), strict=False):
        theirs = shares(trace)
        wrong |= abs(mine[0] - theirs[0]) > 0.05
        print(
            f"torch {trace.name}: NCCL {theirs[0]:.1%}, hidden {theirs[1]:.1%} of it; profkit's {name}: {mine[0]:.1%}"
        )
    print("agrees" if not wrong else "DIFFERS")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
