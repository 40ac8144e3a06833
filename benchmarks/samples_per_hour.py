"""Samples an hour: `profkit kernelbench eval --jobs auto` and KernelBench's own evaluation, same candidates, one GPU.

    python benchmarks/samples_per_hour.py --candidates h100.json --kernelbench CHECKOUT [--torch 40] [--cuda 20]

h100.json is `optimized_cuda_code/h100.json` of github.com/deepreinforce-ai/CUDA-L1: a line a problem of KernelBench with
reference and candidate. --candidates may also be a folder of `<name>/reference.py` and `<name>/candidate.py`. Nothing of
either is kept in this repository.

KernelBench's side is what its scripts/eval_from_generations.py does with one GPU: a fresh process for each candidate,
one after the other, eval_kernel_against_ref with 5 correctness trials and 100 timed ones, no builds beforehand; the
reference's own baseline, a script of its own there, is left out. profkit's side is the command as a person types it;
it times the reference as well. All caches are cold but the system's of files: torch is imported once before either. --seconds ends KernelBench's side early; its rate is then that of
what it got through, by kind, in the mixture that profkit had.
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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kernelbench_official

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Candidate:
    """`kind`: cuda when it compiles, else torch."""

    name: str
    reference: str
    candidate: str

    @property
    def kind(self) -> str:
        return "cuda" if "load_inline" in self.candidate or "__global__" in self.candidate else "torch"


def read(place: Path) -> list[Candidate]:
    if place.is_dir():
        folders = sorted(one for one in place.iterdir() if (one / "candidate.py").exists())
        return [Candidate(f.name, (f / "reference.py").read_text(), (f / "candidate.py").read_text()) for f in folders]
    rows = [json.loads(line) for line in place.read_text("utf-8").splitlines() if line.strip()]
    whole = [row for row in rows if row.get("ref_code") and row.get("custom_code") and row["level_id"] < 3]
    return [Candidate(f"L{r['level_id']}_{r['task_id']}", r["ref_code"], r["custom_code"]) for r in whole]


def chosen(every: Sequence[Candidate], torch: int, cuda: int) -> list[Candidate]:
    """Evenly from each kind, and evenly mixed."""
    found: list[tuple[float, Candidate]] = []
    for kind, count in (("torch", torch), ("cuda", cuda)):
        mine = [one for one in every if one.kind == kind]
        count = min(count, len(mine))
        found += [((n + 0.5) / count, mine[n * len(mine) // count]) for n in range(count)]
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def laid_out(candidates: Sequence[Candidate], root: Path) -> None:
    """As a level of KernelBench, and a run of it."""
    (root / "level1").mkdir(parents=True)
    (root / "run").mkdir()
    for number, one in enumerate(candidates, 1):
        (root / "level1" / f"{number}_{one.name}.py").write_text(one.reference, "utf-8")
        (root / "run" / f"level_1_problem_{number}_sample_0_kernel.py").write_text(one.candidate, "utf-8")


def cold(root: Path) -> dict[str, str]:
    """An environment in which nothing was ever built."""
    root.mkdir(parents=True)
    names = ("PROFKIT_CACHE", "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
    places = {name: str(root / name.lower()) for name in names}
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, **places, "PYTHONPATH": path}


def ours(root: Path, asked: argparse.Namespace, env: dict[str, str]) -> tuple[float, list[dict[str, Any]]]:
    """(seconds, rows of eval_results.json) of the command."""
    env |= {"PYTHONPATH": os.pathsep.join(filter(None, [str(asked.profkit), os.environ.get("PYTHONPATH", "")]))}
    argv = [sys.executable, "-m", "profkit", "kernelbench", "eval", str(root), str(root / "run"), "--level", "1"]
    argv += ["--runs", str(root / "runs"), "--device", asked.device, "--budget", str(asked.budget)]
    argv += ["--processes", str(asked.processes)] if asked.processes else []
    argv += ["--jobs", asked.jobs]
    began = time.monotonic()
    with (asked.out / "profkit.log").open("ab") as log:
        done = subprocess.run(argv, stdout=log, stderr=log, env=env, check=False)
    seconds = time.monotonic() - began
    results = root / "run" / "eval_results.json"
    if not results.exists():
        sys.exit(f"profkit ended with {done.returncode}: see {asked.out / 'profkit.log'}")
    return seconds, [row for rows in json.loads(results.read_text("utf-8")).values() for row in rows]


def official(candidates: Sequence[Candidate], asked: argparse.Namespace, root: Path) -> list[tuple[Candidate, float]]:
    """Seconds of each candidate that was begun within the limit."""
    root.mkdir()
    found: list[tuple[Candidate, float]] = []
    began = time.monotonic()
    # Those that it gets through are from all of them.
    order = [one for first in (2, 0, 3, 1) for one in candidates[first::4]]
    for number, one in enumerate(order):
        if time.monotonic() - began > asked.seconds:
            break
        start = time.monotonic()
        told = {"name": one.name, "reference": one.reference, "candidate": one.candidate, "baseline": False}
        told |= {"trials": 5, "perf_trials": 100, "backend": "cuda"}
        answer = kernelbench_official.ask(asked.kernelbench, told, root, 180.0, cold(root / f"cold-{number}"))
        found.append((one, time.monotonic() - start))
        with (asked.out / "official.log").open("a") as log:
            log.write(f"{one.name}: {json.dumps(answer)}\n{(root / 'official.log').read_text('utf-8', 'replace')}")
        print(f"  KernelBench: {one.name} ({one.kind}) {found[-1][1]:.1f} s", flush=True)
    return found


def rate_of(theirs: Sequence[tuple[Candidate, float]], kinds: Sequence[str]) -> float:
    """Candidates an hour of a mixture of these kinds, one after the other, NaN where there was none of a kind; it is said."""
    took = 0.0
    for kind in sorted(set(kinds)):
        mine = [taken for one, taken in theirs if one.kind == kind]
        each = statistics.mean(mine) if mine else float("nan")
        print(f"KernelBench: {len(mine)} {kind} candidates, {each:.1f} s each")
        took += each * kinds.count(kind)
    return 3600 * len(kinds) / took


def main() -> None:
    asked = arguments()
    asked.out.mkdir(parents=True, exist_ok=True)
    candidates = chosen(read(asked.candidates), asked.torch, asked.cuda)
    kinds = [one.kind for one in candidates]
    print(
        f"{len(candidates)} candidates: {kinds.count('torch')} torch or Triton, {kinds.count('cuda')} CUDA", flush=True
    )
    document: dict[str, Any] = {"candidates": [one.name for one in candidates]}
    read_once = f"import torch, torch._dynamo; torch.ones(1, device={asked.device!r})"
    subprocess.run([sys.executable, "-c", read_once], check=True)
    with tempfile.TemporaryDirectory(prefix="profkit-") as temporary:
        root = Path(temporary)
        laid_out(candidates, root / "ours")
        env = cold(root / "cold")
        theirs: list[tuple[Candidate, float]] = []
        seconds, rows = ours(root / "ours", asked, env)
        rate = 3600 * len(rows) / seconds
        print(f"profkit: {len(rows)} samples in {seconds:.0f} s: {rate:.0f} an hour", flush=True)
        document["profkit"] = {"seconds": seconds, "rate": rate}
        if asked.kernelbench is not None:
            theirs = official(candidates, asked, root / "theirs")
        if theirs:
            their_rate = rate_of(theirs, kinds)
            print(f"KernelBench: {their_rate:.0f} an hour; ratio {rate / their_rate:.2f}", flush=True)
            document |= {"kernelbench": [(one.name, one.kind, taken) for one, taken in theirs]}
        (asked.out / "samples_per_hour.json").write_text(json.dumps(document, indent=1), "utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=Path, required=True)
    parser.add_argument("--kernelbench", type=Path, metavar="CHECKOUT", help="without it only profkit's side is run")
    parser.add_argument("--torch", type=int, default=40)
    parser.add_argument("--cuda", type=int, default=20)
    parser.add_argument("--jobs", default="auto")
    parser.add_argument("--budget", type=float, default=5.0, help="profkit's seconds of timing, at most")
    parser.add_argument("--processes", type=int, default=0, help="profkit's processes of each; default: as it decides")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin none of KernelBench's after so many")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--profkit", type=Path, default=HERE.parent, metavar="CHECKOUT", help="another one")
    parser.add_argument("--out", type=Path, default=Path("."), help="where logs and samples_per_hour.json go")
    return parser.parse_args()


if __name__ == "__main__":
    main()
