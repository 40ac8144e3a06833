"""What does `--hot` save? Wall time of `profkit profile --hot 3` against a full ncu capture of the same program.

    python benchmarks/hot_capture.py                                # needs an NVIDIA GPU and ncu
    python benchmarks/hot_capture.py --set-full 300 -- python train.py

The program runs once by itself to warm the disk, then under --hot, then under --ncu (profkit's own counters on
every launch), each timed from the shell's side, profkit's start and report included. --set-full SECONDS adds the
plain `ncu --set full` that people type, stopped after so long. Printed: the walls with what their steps took, the
ratio (wanted: at most 0.3), and the kernels with the longest summed time by the full capture beside those that
--hot captured. Exit code 1 when one of the true ones is missing or the ratio is above the limit.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

from analyzers.kernels.provenance import base_name
from profkit.launch import tools
from profkit.rundir.directory import Run
from profkit.study.study import open_study

EXAMPLE = Path(__file__).parents[1] / "examples" / "transformer_block.py"
LIMIT = 0.3


def wall(argv: list[str], limit: float | None = None) -> float:
    """Seconds until it ends well; inf when it runs into the limit."""
    began = time.perf_counter()
    try:
        done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return float("inf")
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode} of {' '.join(argv)}\n{done.stderr}")
    return time.perf_counter() - began


def profiled(program: list[str], root: Path, *options: str) -> tuple[float, Run]:
    command = [sys.executable, "-m", "profkit", "profile", *options, "--runs", str(root), "-q", "--"]
    return wall([*command, *program]), open_study(root)


def sums(launches: pd.DataFrame) -> pd.Series:
    """Share of the kernel time by kernel, the longest first."""
    times = launches[launches["kind"] == "kernel"].groupby("kernel", sort=False)["time"].sum()
    return (times / times.sum()).sort_values(ascending=False, kind="stable")


def seconds(run: Run) -> str:
    return ", ".join(f"{one.step} {one.wall:.1f}" for one in run.manifest.commands)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hot", type=int, default=3, metavar="N")
    parser.add_argument("--set-full", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("program", nargs="*", help="after --; by default the example")
    chosen = parser.parse_args()
    program = chosen.program or [sys.executable, str(EXAMPLE)]
    with tempfile.TemporaryDirectory(prefix="profkit-") as folder:
        print(f"the program alone: {wall(program):.1f} s", flush=True)
        hot_wall, hot = profiled(program, Path(folder, "hot"), "--hot", str(chosen.hot))
        print(f"--hot {chosen.hot}: {hot_wall:.1f} s ({seconds(hot)})", flush=True)
        full_wall, full = profiled(program, Path(folder, "full"), "--ncu")
        print(f"full capture: {full_wall:.1f} s ({seconds(full)})", flush=True)
        if chosen.set_full:
            tool = tools.find(tools.NCU)
            plain = [
                tool.path if tool else "ncu",
                "--set",
                "full",
                "--target-processes",
                "all",
                "-f",
                "-o",
                f"{folder}/plain",
            ]
            took = wall([*plain, *program], chosen.set_full)
            print(
                f"plain ncu --set full: {f'{took:.1f} s' if took < chosen.set_full else f'more than {chosen.set_full:g} s'}"
            )
        return judged(hot, full, hot_wall / full_wall, chosen.hot)


def judged(hot: Run, full: Run, ratio: float, number: int) -> int:
    """Print the ratio and the kernels; 1 when either is not as wanted."""
    launches, captured, timed = full.captured.launches, hot.captured.launches, hot.captured.timeline
    if launches is None or captured is None or timed is None:
        raise SystemExit("a capture is missing")
    print(f"ratio: {ratio:.3f} (wanted: at most {LIMIT})")
    print(
        f"launches: {len(launches)} captured in full, {len(captured)} by --hot; pass counts {full.manifest.counters.passes}, {hot.manifest.counters.passes}"
    )
    there = set(captured["kernel"])
    for rank, (name, share) in enumerate(sums(launches).head(number + 2).items(), 1):
        mark = "captured" if name in there else "MISSING" if rank <= number else "-"
        print(f"  {rank}. {share:6.1%}  {mark:9} {str(name)[:100]}")
    print("ranked by " + timed["tool"].iloc[0])
    for name, share in sums(timed).head(number + 2).items():
        print(f"     {share:6.1%}  {base_name(str(name))[:100]}")
    missing = [name for name in sums(launches).index[:number] if name not in there]
    print("the true top is captured" if not missing else f"{len(missing)} of the true top are missing")
    return int(bool(missing) or ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
