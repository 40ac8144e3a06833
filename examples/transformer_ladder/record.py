"""Record the ladder on the GPU of this machine: the whole at batch 8 with counters, batches 1 and 32 with times alone.

    python examples/transformer_ladder/record.py [examples/transformer_ladder/runs]

Run it in the root of the repository; it takes two to three minutes, most of it torch.compile.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COUNTED = ("--ncu", "--deep", "--budget", "1.5")
TIMED = ("--events", "--budget", "0.5")
RUNS = {8: COUNTED, 1: TIMED, 32: TIMED}


def record(batch: int, options: tuple[str, ...], target: Path) -> None:
    """Measure at one batch size, and keep the run under `target`."""
    with tempfile.TemporaryDirectory(prefix="profkit-ladder-") as folder:
        argv = [
            sys.executable,
            "-m",
            "profkit",
            "profile",
            "examples/transformer_ladder",
            *options,
            "--trials",
            "3",
        ]
        done = subprocess.run(
            [*argv, "--runs", folder], cwd=ROOT, check=False, env={**os.environ, "BLOCK_BATCH": str(batch)}
        )
        runs = list(Path(folder).glob("*/*/"))
        if done.returncode or not runs:
            print(f"batch {batch}: profkit ended with {done.returncode}", file=sys.stderr)
        (run,) = runs
        subprocess.run([sys.executable, "examples/keep_run.py", run, target], cwd=ROOT, check=True)


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else HERE / "runs").resolve()
    for batch, options in RUNS.items():
        record(batch, options, out / f"batch{batch}")
    print(f"recorded in {out}: {sum(file.stat().st_size for file in out.rglob('*.*')) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
