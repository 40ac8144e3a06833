"""Samples an hour: `profkit kernelbench eval --jobs auto` and KernelBench's own evaluation, same candidates, one GPU.

    python benchmarks/samples_per_hour.py --candidates h100.json --kernelbench CHECKOUT [--torch 40] [--cuda 20]

h100.json is `optimized_cuda_code/h100.json` of github.com/deepreinforce-ai/CUDA-L1: a line a problem of KernelBench with
reference and candidate. --candidates may also be a folder of `<name>/reference.py` and `<name>/candidate.py`. Nothing of
either is kept in this repository.

KernelBench's side is what its scripts/eval_from_generations.py does with one GPU: a fresh process for each candidate,
one after the other, eval_kernel_against_ref with 5 correctness trials and 100 timed ones, no builds beforehand; the
reference's own baseline, a script of its own there, is left out; --beside N runs it on GPU N at the same time, each side with
half of the cores. profkit's side is the command as a person types it;
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
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
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
    where = {} if asked.beside is None else {"CUDA_VISIBLE_DEVICES": str(asked.beside)}
    began = time.monotonic()
    # Those that it gets through are from all of them.
    order = [one for first in (2, 0, 3, 1) for one in candidates[first::4]]
    for number, one in enumerate(order):
        if time.monotonic() - began > asked.seconds:
            break
        start = time.monotonic()
        told = {"name": one.name, "reference": one.reference, "candidate": one.candidate, "baseline": False}
        told |= {"trials": 5, "perf_trials": 100, "backend": "cuda"}
        answer = kernelbench_official.ask(
            asked.kernelbench, told, root, 180.0, {**cold(root / f"cold-{number}"), **where}
        )
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


@dataclass(frozen=True)
class Told:
    """One run: `wall` seconds of its processes, those not counted in which they waited for others, `alone` with the GPU, `built` in
    its build; `processes` of every implementation, seconds of timing by `part`, and the first line.
    """

    name: str
    wall: float
    alone: float
    built: float
    processes: int
    parts: dict[str, float]
    line: str


def told(root: Path) -> list[Told]:
    """Each run, the longest first."""
    found = []
    for file in sorted((root / "runs").glob("*/*/run.json")):
        run = json.loads(file.read_text("utf-8"))
        built = sum(impl.get("build_seconds") or 0.0 for impl in run["impls"])
        # A judge and its candidates run side by side.
        steps = {c["step"] for c in run["commands"]}
        wall = sum(max(c["wall"] for c in run["commands"] if c["step"] == step) for step in steps)
        spent = spent_by_phase(file.parent / "logs")
        wall -= spent.get("wait", 0.0)
        timing, name = run.get("timing") or {}, run["sample"]["id"]
        many = 1 + sum(step.startswith("process-") for step in steps)
        found.append(
            Told(name, wall, spent.get("alone", 0.0), built, many, timing.get("seconds") or {}, line_of(file.parent))
        )
    return sorted(found, key=lambda one: -one.wall)


def line_of(run: Path) -> str:
    """The verdict's word of each candidate and its interval, "" where nothing was reported."""
    try:
        rows = json.loads((run / "metrics.json").read_text("utf-8"))["impls"]
    except (OSError, ValueError, KeyError):
        return ""
    tried = [row for row in rows if row["impl"] != "reference"]
    return "; ".join(
        f"{r['verdict']} {r.get('speedup_low') or 0:.3g} to {r.get('speedup_high') or 0:.3g}" for r in tried
    )


def spent_by_phase(logs: Path) -> dict[str, float]:
    """Seconds of a run's judges in each phase; `alone` is that part of `time` in which nothing else had the GPU."""
    spent: dict[str, float] = {}
    for file in [*logs.glob("measure*.events.jsonl"), *logs.glob("process-*.events.jsonl")]:
        events = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        marks = [("start", 0.0), *((e["phase"], e["at"]) for e in events if e["kind"] == "phase")]
        marks.append(("", events[-1]["at"] if events else 0.0))
        for (name, at), (_, then) in pairwise(marks):
            spent[name] = spent.get(name, 0.0) + then - at
        alone = sum(e["data"]["ended"] - e["data"]["began"] for e in events if e["kind"] == "alone")
        spent |= {"alone": spent.get("alone", 0.0) + alone, "time": spent.get("time", 0.0) - alone}
    return spent


def phases(root: Path) -> dict[str, float]:
    """Mean seconds a sample by what its judge did, over all its processes; `wait` is for other samples."""
    every = [spent_by_phase(logs) for logs in (root / "runs").glob("*/*/logs")]
    return by_share(
        {name: sum(one.get(name, 0.0) for one in every) / len(every) for name in {n for e in every for n in e}}
    )


def parts(runs: Sequence[Told]) -> dict[str, float]:
    """Mean seconds a sample that was timed in each part of the timing, over all its processes."""
    timed = [one for one in runs if one.parts]
    names = {name for one in timed for name in one.parts}
    return by_share({name: sum(one.parts.get(name, 0.0) for one in timed) / len(timed) for name in names})


def by_share(spent: dict[str, float]) -> dict[str, float]:
    return dict(sorted(spent.items(), key=lambda pair: -pair[1]))


def shown(spent: dict[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.2f} s" for name, seconds in spent.items())


def where_time_goes(root: Path, candidates: Sequence[Candidate], seconds: float) -> dict[str, Any]:
    """Say it, and give it for the record."""
    runs = told(root)
    for one in runs:
        mine = candidates[int(one.name.split("_")[3]) - 1]
        print(
            f"  {mine.name} ({mine.kind}): {one.wall:.1f} s, {one.alone:.1f} alone, in {one.processes} processes, building {one.built:.1f} s; {one.line}"
        )
    for kind in ("torch", "cuda"):
        mine = [one.wall for one in runs if candidates[int(one.name.split("_")[3]) - 1].kind == kind]
        if mine:
            print(f"  {kind}: {len(mine)} samples, {statistics.mean(mine):.2f} s each, waiting for others not counted")
    print(f"  a sample on average: {shown(phases(root))}")
    print(f"  of its timing: {shown(parts(runs))}")
    print(f"  all of them took {sum(one.wall for one in runs):.0f} s, beside each other {seconds:.0f} s", flush=True)
    return {"phases": phases(root), "timing": parts(runs), "runs": [asdict(one) for one in runs]}


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
        cores = sorted(os.sched_getaffinity(0))

        def beside() -> None:
            # Of this thread, and so of what it starts.
            os.sched_setaffinity(0, cores[len(cores) // 2 :])
            theirs.extend(official(candidates, asked, root / "theirs"))

        other = threading.Thread(target=beside)
        if asked.beside is not None:
            other.start()
            os.sched_setaffinity(0, cores[: len(cores) // 2])
        seconds, rows = ours(
            root / "ours", asked, env | ({"CUDA_VISIBLE_DEVICES": "0"} if asked.beside is not None else {})
        )
        rate = 3600 * len(rows) / seconds
        print(f"profkit: {len(rows)} samples in {seconds:.0f} s: {rate:.0f} an hour", flush=True)
        document |= {
            "profkit": {"seconds": seconds, "rate": rate},
            **where_time_goes(root / "ours", candidates, seconds),
        }
        if asked.beside is not None:
            other.join()
            os.sched_setaffinity(0, cores)
        elif asked.kernelbench is not None:
            theirs = official(candidates, asked, root / "theirs")
        if theirs:
            their_rate = rate_of(theirs, kinds)
            print(f"KernelBench: {their_rate:.0f} an hour; ratio {rate / their_rate:.2f}", flush=True)
            document |= {"kernelbench": [(one.name, one.kind, taken) for one, taken in theirs]}
        kept = asked.out / "samples_per_hour.json"
        kept.write_text(json.dumps(document, indent=1), "utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=Path, required=True)
    parser.add_argument("--kernelbench", type=Path, metavar="CHECKOUT", help="without it only profkit's side is run")
    parser.add_argument("--torch", type=int, default=40)
    parser.add_argument("--cuda", type=int, default=20)
    parser.add_argument("--jobs", default="auto")
    parser.add_argument("--budget", type=float, default=5.0, help="profkit's seconds of timing, at most")
    parser.add_argument("--processes", type=int, default=0, help="profkit's processes of each; default: as it decides")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="KernelBench's side begins no candidate after so many"
    )
    parser.add_argument("--beside", type=int, metavar="N", help="KernelBench's side on GPU N, at the same time")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument(
        "--profkit", type=Path, default=HERE.parent, metavar="CHECKOUT", help="another profkit's checkout"
    )
    parser.add_argument("--out", type=Path, default=Path("."), help="where logs and samples_per_hour.json go")
    return parser.parse_args()


if __name__ == "__main__":
    main()
