"""Two byte-identical candidates, each in runs of its own: does the interval of one run hold for the next?

    python benchmarks/same_twice.py [--runs 20] [--device cpu] [--processes N] [--budget 5] [--company]

Every run measures one file against the reference, and another run the same bytes under another name. Two runs agree when
the 95 % intervals of their speed-ups overlap; a verdict is wrong when a copy of the reference is called faster or slower.
--company: it has a GPU alone only while it times, as in a campaign, so that several of these can run side by side.
Wanted on an idle machine: at least 19 of 20 pairs agree, and at least 19 of 20 of the copy's verdicts are right.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from profkit.api import profile
from profkit.launch import warm

TASK = """
import torch
from torch import nn


class {name}(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, y):
        return {body}


"""
INPUTS = """
def get_inputs():
    return [torch.randn(512, 512), torch.randn(512, 512)]


def get_init_inputs():
    return []
"""
BODIES = {
    "copy": "torch.relu(x @ y + x)",
    "other": "torch.clamp_min(torch.addmm(x, x, y), 0)",
}


def sample(root: Path, name: str, body: str) -> Path:
    """A sample with one candidate of this name; what is in it does not say which of the two it is."""
    folder = root / f"I{name.upper()}"
    folder.mkdir()
    (folder / "reference.py").write_text(TASK.format(name="Model", body=BODIES["copy"]) + INPUTS, "utf-8")
    (folder / f"{name}.py").write_text(TASK.format(name="ModelNew", body=body), "utf-8")
    return folder


def once(folder: Path, arguments: argparse.Namespace, runs: Path) -> tuple[float, float, float, str]:
    """(speed-up, low, high, verdict) of one run."""
    run = profile(
        folder,
        device=arguments.device,
        counters="off",
        budget=arguments.budget,
        processes=arguments.processes,
        runs=runs,
        company=arguments.company,
    )
    (verdict,) = run.verdicts.values()
    return verdict.speedup, verdict.low, verdict.high, verdict.word


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--processes", type=int, default=0)
    parser.add_argument("--budget", type=float, default=5.0)
    parser.add_argument("--company", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, warm.runners():
        root = Path(name)
        os.environ["PROFKIT_CACHE"] = str(root / "cache")
        for kind, body in BODIES.items():
            pair = [sample(root, f"{kind}{side}", body) for side in "ab"]
            overlap = right = 0
            for number in range(arguments.runs):
                found = [once(folder, arguments, root / "runs") for folder in pair]
                (_, low, high, _), (_, low_b, high_b, _) = found
                overlap += low <= high_b and low_b <= high
                right += kind != "copy" or all(word not in ("faster", "slower") for *_, word in found)
                told = "   ".join(f"{value:.3f}x [{one:.3f}, {other:.3f}] {word}" for value, one, other, word in found)
                print(f"{kind} {number + 1:2d}: {told}", flush=True)
            print(f"{kind}: {overlap} of {arguments.runs} pairs overlap", end="")
            print(f", {right} of {arguments.runs} verdicts on a copy right" if kind == "copy" else "")


if __name__ == "__main__":
    main()
