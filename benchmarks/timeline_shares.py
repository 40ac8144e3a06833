"""Do nsys and CUPTI agree on where the time goes? Kernel shares of one program under both, side by side.

    python benchmarks/timeline_shares.py                            # needs an NVIDIA GPU and nsys (PROFKIT_NSYS)
    python benchmarks/timeline_shares.py -- python train.py

The program is recorded twice: by nsys, and by torch's profiler (CUPTI) with nsys hidden. Printed: each kernel's
share of the kernel time under both, the largest difference in percentage points (wanted: at most 2), the numbers
of launches, and every doubt that the nsys run carries. Exit code 1 when they differ by more and no doubt says that
the record of nsys is incomplete.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

from analyzers.kernels.provenance import base_name
from profkit.launch import tools
from profkit.rundir.directory import Run
from profkit.study.study import open_study

EXAMPLE = Path(__file__).parents[1] / "examples" / "transformer_block.py"
LIMIT = 2.0
INCOMPLETE = ("stop", "missing", "with errors", "not all events", "no GPU work")


def recorded(program: list[str], root: Path, tool: str) -> Run:
    """The run of a program under nsys, or under CUPTI with a path that is no nsys."""
    environment = {**os.environ, **({"PROFKIT_NSYS": tool} if tool else {})}
    argv = [sys.executable, "-m", "profkit", "profile", "--nsys", "--runs", str(root), "-q", "--", *program]
    done = subprocess.run(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        print(f"exit code {done.returncode}: {done.stderr.strip()}")
    return open_study(root)


def shares(run: Run) -> tuple[pd.Series, int]:
    """(percent of the kernel time by kernel, launches); nothing where nothing was captured."""
    frame = run.captured.timeline
    if frame is None:
        return pd.Series(dtype="float64"), 0
    kernels = frame[frame["kind"] == "kernel"]
    times = kernels.groupby(kernels["kernel"].map(base_name))["time"].sum()
    return 100 * times / times.sum(), len(kernels)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("program", nargs="*", help="after --; by default the example")
    program = parser.parse_args().program or [sys.executable, str(EXAMPLE)]
    found = tools.find(tools.NSYS)
    if found is None:
        raise SystemExit(f"no nsys: {tools.NSYS.fix}")
    with tempfile.TemporaryDirectory(prefix="profkit-") as folder:
        by_nsys = recorded(program, Path(folder, "nsys"), found.path)
        by_cupti = recorded(program, Path(folder, "cupti"), "/none")
        return judged(by_nsys, by_cupti, found.text)


def judged(by_nsys: Run, by_cupti: Run, version: str) -> int:
    """Print both and the doubts; 1 when they disagree and nothing says why."""
    (one, launches), (other, calls) = shares(by_nsys), shares(by_cupti)
    both = pd.DataFrame({"nsys": one, "cupti": other}).fillna(0.0).sort_values("cupti", ascending=False)
    both["difference"] = both["nsys"] - both["cupti"]
    print(f"{'kernel':60} {'nsys %':>8} {'CUPTI %':>8} {'points':>8}")
    for name, row in both.iterrows():
        print(f"{str(name)[:60]:60} {row['nsys']:8.2f} {row['cupti']:8.2f} {row['difference']:+8.2f}")
    most = float(both["difference"].abs().max()) if len(both) else float("nan")
    print(f"nsys {version}: {launches} launches; CUPTI: {calls}")
    print(f"largest difference: {most:.2f} points (wanted: at most {LIMIT:g})")
    said = [doubt.what for doubt in by_nsys.manifest.doubts]
    if by_nsys.captured.timeline is not None:
        said += [doubt.what for doubt in by_nsys.analysis.doubts]
    why = by_nsys.manifest.counters.why if by_nsys.manifest.status == "failed" else ""
    said = list(dict.fromkeys([*([why] if why else []), *said]))
    for line in said:
        print(f"doubt of the nsys run: {line}")
    explained = any(word in line for line in said for word in INCOMPLETE)
    agree = most <= LIMIT and launches == calls
    print(
        "they agree"
        if agree
        else "they differ, and a doubt says why"
        if explained
        else "they differ and nothing says why"
    )
    return int(not (most <= LIMIT or explained))


if __name__ == "__main__":
    sys.exit(main())
