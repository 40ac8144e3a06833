"""Record the trigger kernels on the GPU of this machine, for tests/analyzers/test_triggers.py to read.

    python tests/triggers/record.py [tests/data/triggers]

needs nvcc, ncu, an NVIDIA GPU and the right to read counters; takes about a minute. Two runs come out, without what
belongs to this machine: `kernels`, the launches of kernels.py with the deep counters, and `slow_host`, timed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import kernels

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def profile(runs: Path, *arguments: str) -> Path:
    """Run profkit; the run directory."""
    argv = [sys.executable, "-m", "profkit", "profile", "--runs", str(runs), *arguments]
    done = subprocess.run(argv, cwd=ROOT, check=False)
    found = sorted(runs.glob("*/*/run.json"))
    if not found:
        sys.exit(f"profkit ended with {done.returncode} and left no run")
    return found[-1].parent


def keep(run: Path, target: Path) -> None:
    """The run without what belongs to this machine."""
    subprocess.run([sys.executable, "examples/keep_run.py", run, target], cwd=ROOT, check=True)


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "tests/data/triggers").resolve()
    with tempfile.TemporaryDirectory(prefix="profkit-triggers-") as folder:
        os.environ[kernels.LIBRARY] = str(kernels.build(Path(folder) / "libtriggers.so"))
        program = [sys.executable, "tests/triggers/kernels.py"]
        counted = profile(Path(folder) / "counted", "--ncu", "--deep", "--", *program)
        timed = profile(
            Path(folder) / "timed", "tests/triggers/slow_host", "--events", "--trials", "1", "--budget", "1"
        )
        for run, name in ((counted, "kernels"), (timed, "slow_host")):
            shutil.rmtree(out / name, ignore_errors=True)
            keep(run, out / name)
    print(f"recorded in {out}: {sum(file.stat().st_size for file in out.rglob('*.*')) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
