"""The same honest files under `profkit kernelbench eval`, again and again beside other work: is the verdict always the same?

    python benchmarks/same_verdict.py [--times 10] [--busy 8] [--budget 1] [--trials 5] [--device cpu] [--only rows]

Two problems of KernelBench's form with a candidate each: `rows` scales rows where the task multiplies by a diagonal matrix (far
faster by the right algorithm), `clamp` says relu in another way. --busy: processes that compute without end meanwhile, at
the lowest priority. Wanted: the
same word every time, and neither is ever called wrong, failed or impossible.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from profkit.cli.contests.kernelbench import command
from profkit.launch import warm

PROBLEM = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, {names}):
        return {body}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""
CASES = {
    "rows": ("A, B", "torch.diag(A) @ B", "A.unsqueeze(1) * B", "torch.randn(512), torch.randn(512, 512)"),
    "clamp": ("x", "torch.relu(x)", "torch.clamp_min(x, 0)", "torch.randn(1024, 1024)"),
}


def turn(cores: Collection[int]) -> None:
    """Compute until killed, on these cores if any are named."""
    os.nice(19)
    if cores:
        os.sched_setaffinity(0, cores)
    value = 1.0
    while True:
        value = value * 1.0000001 % 3.0


@contextlib.contextmanager
def busy(count: int, cores: Collection[int] = ()) -> Iterator[None]:
    """That many processes that want a core each, one of `cores` if any are named."""
    workers = [multiprocessing.Process(target=turn, args=(cores,), daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.join()


def checkout(root: Path) -> Path:
    """A checkout with the problems; the run directory with a candidate each."""
    (root / "KernelBench/level1").mkdir(parents=True)
    run = root / "runs/honest"
    run.mkdir(parents=True)
    for number, (name, (names, reference, candidate, inputs)) in enumerate(CASES.items(), 1):
        text = PROBLEM.format(names=names, body=reference, inputs=inputs)
        (root / f"KernelBench/level1/{number}_{name}.py").write_text(text, "utf-8")
        mine = PROBLEM.format(names=names, body=candidate, inputs=inputs).partition("def get_inputs")[0]
        (run / f"level_1_problem_{number}_sample_0_kernel.py").write_text(mine.replace("Model(", "ModelNew("), "utf-8")
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--busy", type=int, default=8)
    parser.add_argument("--budget", default="1")
    parser.add_argument("--trials", default="5")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", choices=list(CASES), default="")
    options = parser.parse_args()
    chosen = {pid: name for pid, name in enumerate(CASES, 1) if options.only in ("", name)}
    words: dict[str, list[str]] = {name: [] for name in chosen.values()}
    with tempfile.TemporaryDirectory() as place, warm.runners(), busy(options.busy):
        root = Path(place)
        run = checkout(root)
        os.environ["PROFKIT_CACHE"] = str(root / "cache")
        told = [
            "--level",
            "1",
            "--device",
            options.device,
            "--budget",
            options.budget,
            "--runs",
            str(root / "pr"),
            "-q",
        ]
        told += ["--trials", options.trials, "--problem", ",".join(map(str, chosen))]
        for number in range(options.times):
            with contextlib.redirect_stdout(None):
                command.main(["eval", str(root), str(run), *told, "--again"], standalone_mode=False)
            rows = json.loads((run / "eval_results.json").read_text("utf-8"))
            for pid, name in chosen.items():
                own = rows[str(pid)][0]["metadata"]["profkit"]
                words[name].append(own["verdict"])
                print(f"{number + 1:2d} {name}: {own['line']} (load {os.getloadavg()[0]:.0f})", flush=True)
    for name, found in words.items():
        print(f"{name}: {', '.join(f'{found.count(word)} times {word}' for word in dict.fromkeys(found))}")


if __name__ == "__main__":
    main()
