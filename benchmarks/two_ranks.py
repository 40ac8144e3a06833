"""Two ranks of torchrun: is each attributed, and is NCCL's share that of the timeline itself?

    python benchmarks/two_ranks.py OUT

needs two NVIDIA GPUs. tests/triggers/two_ranks.py is profiled, and run once more under a torch.profiler of its own in
every rank. Those traces are read by profkit, and NCCL's time in the same steps, and how much of it was hidden, are computed
from their events one by one. What the first run was told to have is shown beside: another run, in which another rank waits.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from analyzers.timeline.budget import Budget
from profkit.api import profile
from profkit.report.sections import answer
from profkit.study.study import open_study
from profkit.targets.program import Program

PROGRAM = "tests/triggers/two_ranks.py"
LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", PROGRAM]
NCCL = "nccl"
GPU = ("kernel", "gpu_memcpy", "gpu_memset")


def shares(trace: Path, first: int, seconds: float) -> tuple[float, float]:
    """(NCCL's share of a window, the share of NCCL's time beside kernels that compute), counted stretch by stretch.

    The window begins with the `first` event on the GPU, in their order, and takes so many seconds.
    """
    events = [one for one in json.loads(trace.read_text())["traceEvents"] if one.get("cat") in GPU]
    events.sort(key=lambda one: one["ts"])
    begin = events[first]["ts"]
    end = begin + 1e6 * seconds
    # A fill beside NCCL hides nothing of it.
    kinds = [NCCL if NCCL in one["name"].lower() else one["cat"] for one in events]
    spans = [
        (max(one["ts"], begin), min(one["ts"] + one["dur"], end), kind) for one, kind in zip(events, kinds, strict=True)
    ]
    spans = [one for one in spans if one[0] < one[1]]
    marks = sorted({moment for one in spans for moment in one[:2]})
    talking = hidden = 0.0
    for left, right in pairwise(marks):
        running = {kind for since, until, kind in spans if since <= left and until >= right}
        talking += (right - left) * (NCCL in running)
        hidden += (right - left) * (running >= {NCCL, "kernel"})
    return talking / (end - begin), hidden / talking if talking else 0.0


def told(one: Budget) -> tuple[float, float]:
    """The same two, as profkit has them."""
    talking = one.communicating + one.hidden
    return talking / one.window, one.hidden / talking if talking else 0.0


def agrees(trace: Path, run: Path) -> bool:
    """Read one trace with profkit, print both figures; whether they are the same (shares to 0.1 %, what is hidden to 0.5 %)."""
    subprocess.run(
        [sys.executable, "-m", "profkit", "import", str(trace), "-o", str(run)], check=True, stdout=subprocess.DEVNULL
    )
    (one,) = open_study(run).budgets.values()
    mine, theirs = told(one), shares(trace, one.steady.first, one.window)
    same = abs(mine[0] - theirs[0]) < 1e-3 and abs(mine[1] - theirs[1]) < 5e-3
    for who, (share, hidden) in (("profkit", mine), ("counted", theirs)):
        print(f"{trace.name} {who}: {one.steady.steps} steps; NCCL {share:.2%}, hidden {hidden:.2%} of it")
    return same


def main(arguments: Sequence[str]) -> int:
    out = Path(arguments[0])
    study = profile(Program.of(LAUNCH), runs=out / "runs")
    print("\n".join(answer.first_lines(study)))
    for name, one in study.budgets.items():
        share, hidden = told(one)
        print(f"profiled {name}: {one.steady.steps} steps; NCCL {share:.2%}, hidden {hidden:.2%} of it")
    subprocess.run([*LAUNCH, "--own", str(out)], check=True)
    traces = sorted(out.glob("own.rank*.json"))
    same = [agrees(trace, out / f"read{number}") for number, trace in enumerate(traces)]
    good = len(study.budgets) == len(same) == 2 and all(same)
    print("agrees" if good else "DIFFERS")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
