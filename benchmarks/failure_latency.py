"""How long until a failure is known: from a segmentation fault to the words about it, and from the limit of a hang
to its end with no process left. CPU only.

    python benchmarks/failure_latency.py [--repeat 5]

Wanted: a crash within 1 s of happening, a hang at most 2 s after its limit.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from profkit.api import profile

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(64, 64)]

def get_init_inputs():
    return []
"""
HEAD = """
import os, signal, subprocess, time
from torch import nn

def stamp(name):
    with open(os.path.join(os.environ["STAMPS"], name), "w") as file:
        file.write(repr(time.time()))

class ModelNew(nn.Module):
    def forward(self, x):
"""
CRASH = HEAD + "        stamp('crash'); os.kill(os.getpid(), signal.SIGSEGV)\n"
HANG = HEAD + (
    "        stamp('hang')\n        signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "        subprocess.Popen(['sleep', '4713'], start_new_session=True)\n        time.sleep(600)\n"
)
FACTOR = 0.01


def left(mark: str) -> int:
    """Processes whose command line holds the mark."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found += mark in (entry / "cmdline").read_text("utf-8", "replace").replace("\0", " ")
            except OSError:
                continue
    return found


def once(kind: str, source: str, trust: bool) -> tuple[float, int]:
    """(seconds from the event, or from the limit of the hang, to the message; processes left)."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        os.environ["STAMPS"] = temporary
        os.environ["PROFKIT_CACHE"] = str(root / "cache")
        folder = root / "latency"
        folder.mkdir()
        (folder / "reference.py").write_text(REFERENCE)
        (folder / f"{kind}.py").write_text(source)
        heard: list[float] = []

        def progress(text: str) -> None:
            if text.startswith(f"{kind}: "):
                heard.append(time.time())

        profile(
            folder,
            device="cpu",
            budget=0.1,
            trials=1,
            timeout=FACTOR,
            runs=root / "runs",
            trust=trust,
            progress=progress,
        )
        limit = 600.0 * FACTOR if kind == "hang" else 0.0
        return heard[0] - float((root / kind).read_text()) - limit, left("sleep 4713")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    print(f"{'failure':8} {'processes':10} {'median s':>9} {'worst s':>8} {'wanted s':>9} {'left':>5}")
    for kind, source, wanted in (("crash", CRASH, 1.0), ("hang", HANG, 2.0)):
        for trust in (True, False):
            seen = [once(kind, source, trust) for _ in range(repeat)]
            times = [seconds for seconds, _ in seen]
            where = "one" if trust else "own"
            print(
                f"{kind:8} {where:10} {statistics.median(times):9.3f} {max(times):8.3f} {wanted:9.1f} {max(n for _, n in seen):5d}"
            )


if __name__ == "__main__":
    main()
