"""Seconds from Enter to the first line and to the end of `profkit profile`, beside a script of torch.utils.benchmark.

    python benchmarks/first_line.py [SAMPLE ...] [--device cpu] [--rounds 3]

The script imports torch, builds both modules from the sample's files and times the same two calls, as somebody would who has
no profiler; the commands are what a user types, each round in turn: the script, profkit without a server, profkit with the
server of the round before. Without a SAMPLE: S1/ICVXKH and one of a single matrix product. Medians, and their ratios to the
script's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from profkit.targets.sample import resolve

ROOT = Path(__file__).resolve().parents[1]
TRIVIAL = {
    "reference.py": "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def forward(self, x, w):\n"
    "        return torch.relu(x @ w)\n\ndef get_inputs():\n    return [torch.randn(256, 256), torch.randn(256, 256)]\n\n"
    "def get_init_inputs():\n    return []\n",
    "mine.py": "from torch import nn\n\nclass ModelNew(nn.Module):\n    def forward(self, x, w):\n"
    "        return (x @ w).relu_()\n",
}
SCRIPT = """
import runpy, sys, torch
from torch.utils.benchmark import Timer
device, reference, candidate = sys.argv[1:]
one, other = runpy.run_path(reference), runpy.run_path(candidate)
torch.manual_seed(0)
put = lambda values: [value.to(device) if hasattr(value, "to") else value for value in values]
init, given = one["get_init_inputs"](), put(one["get_inputs"]())
with torch.no_grad():
    calls = [side(*put(init)).to(device).eval() for side in (one["Model"], other["ModelNew"])]
    calls[1].load_state_dict(calls[0].state_dict(), strict=False)
    assert torch.allclose(calls[0](*given), calls[1](*given), rtol=1e-3, atol=1e-3)
    for call in calls:
        print(Timer("call(*given)", globals={"call": call, "given": given}).blocked_autorange(min_run_time=1).median)
"""


def trivial(root: Path) -> Path:
    """A sample of one product and a ReLU."""
    folder = root / "ITRIVIAL"
    folder.mkdir()
    for name, text in TRIVIAL.items():
        (folder / name).write_text(text)
    return folder


def timed(argv: list[str], begins: str) -> tuple[float, float]:
    """(seconds until a line begins so, until the end). Raises RuntimeError where it never does."""
    began, first, said = time.monotonic(), float("nan"), ""
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        for line in child.stdout or ():
            said += line
            first = time.monotonic() - began if first != first and line.startswith(begins) else first
        tail = (child.stderr.read() if child.stderr else "")[-2000:]
    if first != first:
        raise RuntimeError(f"{' '.join(argv)}: no line begins with {begins!r}:\n{said}{tail}")
    return first, time.monotonic() - began


def measured(sample: Path, device: str, rounds: int, runs: str) -> dict[str, list[tuple[float, float]]]:
    """By what was started, (first, end) [s] of each round; the first round, which builds, is not counted."""
    task = resolve(sample)
    one = next(one for one in task.candidates if one.runs_on(device))
    script = [sys.executable, "-c", SCRIPT, device, str(task.reference), str(one.path)]
    command = [sys.executable, "-m", "profkit", "profile", str(sample), "--device", device, "-q", "--runs", runs]
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    command += ["--candidate", one.name]
    for number in range(rounds + 1):
        for what, argv, begins in (
            ("script", script, ""),
            ("cold", [*command, "--no-server"], f"{one.name}: "),
            ("warm", [*command, "--server"], f"{one.name}: "),
        ):
            took = timed(argv, begins)
            if number:
                found[what].append(took)
    return found


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    reader.add_argument("samples", nargs="*", type=Path)
    reader.add_argument("--device", default="cpu")
    reader.add_argument("--rounds", type=int, default=3)
    asked = reader.parse_args()
    with tempfile.TemporaryDirectory() as place:
        for sample in asked.samples or [ROOT / "S1/ICVXKH", trivial(Path(place))]:
            found = measured(sample, asked.device, asked.rounds, place)
            base = statistics.median(end for _, end in found["script"])
            rows = {"script": {"end": base}}
            for what in ("cold", "warm"):
                first, end = (statistics.median(side) for side in zip(*found[what], strict=True))
                rows[what] = {"first": first, "end": end, "first/script": first / base, "end/script": end / base}
            shown = {what: {key: round(value, 2) for key, value in row.items()} for what, row in rows.items()}
            print(json.dumps({"sample": sample.name, "device": asked.device, "load": os.getloadavg()[0], **shown}))


if __name__ == "__main__":
    main()
