"""Published tasks of other people's contests, and what profkit's verdict adds to their own word.

    python benchmarks/foreign_tasks.py FOLDER [-o TABLE.md] [--seconds 230] [--runs RUNS] [--jobs 14]

FOLDER holds a folder a contest, each with tasks as they are published: SOL-ExecBench problems (NVIDIA/SOL-ExecBench,
examples/ and the hacks of tests/samples/), GPU MODE kernelbot tasks (gpu-mode/reference-kernels, problems/), FlashInfer-
Bench trace sets (flashinfer-ai/flashinfer-bench: flashinfer_trace/definitions/ and the solutions below bench/test/results/,
both in its history; of the workloads those with random inputs can be written by hand). They are theirs and not kept here.
Needs a GPU and no network (`--device cpu` does what runs there: CUDA submissions do not). Extensions are built first,
`--jobs` at once; after that nothing new is begun once `--seconds` are over, and what was left out is said.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from analyzers.records import number
from profkit.api import profile
from profkit.campaign.stages import Task, of_folder, perform
from profkit.contests import formats
from profkit.contests.sources import Sources
from profkit.errors import ProfkitError
from profkit.launch import warm
from profkit.record.request import Request
from profkit.report.layout import Table, pipe_table
from roofline import units

HEAD = ["task", "submission", "profkit's verdict", "time", "x lower bound"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--seconds", type=float, default=230.0)
    parser.add_argument("--runs", type=Path, default=Path("profkit-runs"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    asked = parser.parse_args()
    began = time.monotonic()
    _built(list(_turns(asked.folder)), asked)
    print(f"built in {time.monotonic() - began:.0f} s", flush=True)
    rows, late, began = [], [], time.monotonic()
    with warm.runners():
        for task in _turns(asked.folder):
            if time.monotonic() - began > asked.seconds:
                late.append(str(task.relative_to(asked.folder)))
                continue
            rows += list(_measured(task, asked))
            print(f"{time.monotonic() - began:.0f} s: {task.relative_to(asked.folder)}", flush=True)
    text = pipe_table(Table(HEAD, rows), (0, 1, 2)) + "\n"
    text += f"\nNot measured in {asked.seconds:g} s: {', '.join(late)}\n" if late else ""
    print(text)
    if asked.output is not None:
        asked.output.write_text(text, encoding="utf-8")


def _turns(folder: Path) -> Iterator[Path]:
    """One task of each contest in turns, so that a short run has something of all."""
    kinds = [formats.targets(kind) for kind in sorted(folder.iterdir()) if kind.is_dir()]
    for place in range(max(map(len, kinds), default=0)):
        yield from (tasks[place] for tasks in kinds if place < len(tasks))


def _built(tasks: list[Path], asked: argparse.Namespace) -> None:
    """Build every extension into profkit's cache; who measures finds it there, or says why it cannot be built."""
    request = Request(device=asked.device)
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(asked.jobs) as pool:
        for task in tasks:
            with contextlib.suppress(ProfkitError):
                sources = formats.read(task, asked.device)
                folder = stack.enter_context(sources.as_sample()) if isinstance(sources, Sources) else sources
                item = of_folder(folder, request)
                for file in item.built:
                    alone = msgspec.structs.replace(item, built=(file,))
                    pool.submit(perform, Task("build", alone, request, "", ""))


def _measured(task: Path, asked: argparse.Namespace) -> Iterator[list[str]]:
    name = str(task.relative_to(asked.folder))
    try:
        run = profile(task, device=asked.device, counters="off", budget=0.6, trials=2, runs=asked.runs)
    except ProfkitError as error:
        yield [name, "", f"not measured: {error}", "-", "-"]
        return
    for part in run.parts:
        if part.impl is None or part.impl.role == "reference":
            continue
        row, verdict = part.row or {}, run.verdicts[part.name]
        yield [
            name,
            part.name,
            verdict.text(),
            units.text(number(row, "time"), "s"),
            units.digits(number(row, "lower_bound_ratio")),
        ]


if __name__ == "__main__":
    main()
