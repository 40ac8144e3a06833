"""Every candidate of tests/data/corpora, judged again and again: is an honest one ever accused, does a cheat ever win?

    python benchmarks/judge_corpora.py [--role honest] [--times 3] [--busy 8] [--device cpu] [--task softmax] [--seconds 600]
    python benchmarks/judge_corpora.py --role honest --sample 110 --times 3 --busy 0 --busy 8 --workers 8 --seconds 450

Each candidate is measured in a process of its own, beside others of its task, as the tests do with some of them. --sample: so many of a role, from
each task as many as from the others as far as it has them, spaced evenly in the order of its file: the same ones every time.
--workers: so many runs side by side, each on cores of its own. --busy, also several times: processes that compute without end
meanwhile, at the lowest priority, so many on every worker's cores; 0 is the machine as it is, and what else uses it is said. On
a GPU each run has it alone while it times, as in a campaign. A
line a candidate as it ends; a table of how often each was judged and called what; then a line a role and load: so many
candidates, judged so many times, so many wrongly called. --seconds: no run is begun after so many; what was not reached is said.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import multiprocessing
import os
import queue
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "profkit"))

from corpora import RUN, TASKS, Part, parts, tells, written
from test_corpora import wrongly_called

from profkit.api import profile
from profkit.errors import ProfkitError
from profkit.launch import warm

TOGETHER = 8
"""Candidates of a task in one run at most."""
LAST = 90.0
"""Seconds which runs that have begun are waited for at the end."""


class Work(NamedTuple):
    """A run: candidates of one task, `busy` processes beside it, for the so-many-th `turn`."""

    turn: int
    busy: int
    role: str
    task: str
    names: tuple[str, ...]


class Judged(NamedTuple):
    """What was said of a candidate in a run: the verdict's word, and what of that is wrong."""

    work: Work
    name: str
    word: str
    wrong: str
    line: str


def chosen(role: str, tasks: list[str], sample: int, device: str) -> list[Part]:
    """The candidates of a role; `sample` of them (0: all), spread over the tasks, the same ones every time."""
    by_task = {task: [part for part in parts(task) if part.role == role and tells(part, device)] for task in tasks}
    take = Counter({task: 0 if sample else len(of) for task, of in by_task.items()})
    while take.total() < sample and (more := [task for task, of in by_task.items() if take[task] < len(of)]):
        take.update(more[: sample - take.total()])
    return [of[i * len(of) // take[task]] for task, of in by_task.items() for i in range(take[task])]


def works(turn: int, load: int, role: str, of: list[Part]) -> Iterator[Work]:
    """These candidates as runs."""
    for task in dict.fromkeys(part.task for part in of):
        names = [part.name for part in of if part.task == task]
        for first in range(0, len(names), TOGETHER):
            yield Work(turn, load, role, task, tuple(names[first : first + TOGETHER]))


def judged(work: Work, root: Path, device: str) -> list[Judged]:
    """The candidates of a run, measured."""
    of = [part for part in parts(work.task) if part.role == work.role and part.name in work.names]
    try:
        run = profile(
            written(work.task, of, root / f"I{work.task.upper()}"),
            runs=root / "runs",
            **{**RUN, "device": device, "company": True},
        )
    except ProfkitError as error:
        return [Judged(work, part.name, "no run", "no run", str(error)) for part in of]
    found = []
    for part in of:
        verdict = run.verdicts.get(part.name)
        word, line = (str(verdict.word), verdict.text()) if verdict else ("nothing", "")
        if verdict and not run.manifest.reference.ok:
            line += f"; the reference: {run.manifest.reference.reason}"
        found.append(Judged(work, part.name, word, ", ".join(sorted(wrongly_called(run, part))), line))
    return found


def turn(cores: Collection[int]) -> None:
    """Compute until killed, at the lowest priority, on these cores if any are named."""
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


def worker(cores: set[int], root: Path, device: str, keep: Path | None, asked: Any, told: Any) -> None:
    """Run what is asked for on these cores, until None is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.sched_setaffinity(0, cores)
    os.environ["PROFKIT_CACHE"] = str(root / "cache")
    with warm.runners():
        number = 0
        while (work := asked.get()) is not None:
            number += 1
            found = judged(work, root / str(number), device)
            if keep and any(one.wrong for one in found):
                shutil.copytree(root / str(number), keep / f"{work.task}-{work.role}-{root.name}-{number}")
            told.put(found)
            shutil.rmtree(root / str(number), ignore_errors=True)


def shares(workers: int) -> list[set[int]]:
    """The cores of this process in as many parts; what shares a core stays together."""

    def core(cpu: int) -> tuple[int, int]:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        with contextlib.suppress(OSError, ValueError):
            return int(siblings.read_text("ascii").replace("-", ",").partition(",")[0]), cpu
        return cpu, cpu

    cpus = sorted(os.sched_getaffinity(0), key=core)
    if workers > len(cpus):
        sys.exit(f"{workers} workers on {len(cpus)} cores: none would have one of its own")
    edges = [len(cpus) * i // workers for i in range(workers + 1)]
    return [set(cpus[a:b]) for a, b in itertools.pairwise(edges)]


class Load:
    """How busy the machine is from the making on."""

    def __init__(self) -> None:
        self.began = self._read()

    @staticmethod
    def _read() -> tuple[float, float, float]:
        """Seconds of cores that ran, those of all, and seconds in which some task waited for one."""
        ticks = [int(word) for word in Path("/proc/stat").read_text("ascii").split("\n")[0].split()[1:9]]
        waited = float("nan")
        with contextlib.suppress(OSError):
            waited = int(Path("/proc/pressure/cpu").read_text("ascii").split("\n")[0].rpartition("=")[2]) * 1e-6
        hertz = os.sysconf("SC_CLK_TCK")
        return (sum(ticks) - ticks[3] - ticks[4]) / hertz, time.monotonic(), waited

    def said(self) -> str:
        ran, passed, waited = (b - a for a, b in zip(self.began, self._read(), strict=True))
        passed = max(passed, 1e-3)
        return f"{ran / passed:.1f} of {os.cpu_count()} cores ran, some task waited for one {waited / passed:.0%} of the time"


class Bench:
    """Workers that run what is asked of them, each on cores of its own, and what they told."""

    def __init__(self, workers: int, root: Path, device: str, keep: Path | None) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.asked, self.told = spawn.Queue(), spawn.Queue()
        self.cores = shares(workers)
        self.found: list[Judged] = []
        self.workers = []
        for number, cores in enumerate(self.cores):
            (root / f"w{number}").mkdir()
            given = (cores, root / f"w{number}", device, keep, self.asked, self.told)
            self.workers.append(spawn.Process(target=worker, args=given))
            self.workers[-1].start()

    def run(self, todo: list[Work], end: float) -> None:
        """All of these, or those that can be begun before `end` (of time.monotonic)."""
        waiting, running = list(todo), 0
        while waiting and running < len(self.workers) and time.monotonic() < end:
            self.asked.put(waiting.pop(0))
            running += 1
        while running:
            try:
                told = self.told.get(timeout=1)
            except queue.Empty:
                lost = not all(process.is_alive() for process in self.workers)
                if lost or time.monotonic() > end + LAST:
                    print("a worker has ended" if lost else f"not over {LAST:.0f} s after the end: left", flush=True)
                    return
                continue
            running -= 1
            if waiting and time.monotonic() < end:
                self.asked.put(waiting.pop(0))
                running += 1
            for one in told:
                self.found.append(one)
                called = f"ACCUSED of {one.wrong}: {one.line}" if one.wrong else one.word
                print(
                    f"{one.work.turn} {beside(one.work.busy)}: {one.work.role} {one.work.task}/{one.name}: {called}",
                    flush=True,
                )

    def close(self) -> None:
        for _ in self.workers:
            self.asked.put(None)
        for process in self.workers:
            process.join(10)
            process.kill()


def beside(load: int) -> str:
    return f"beside {load} busy" if load else "idle"


def table(found: list[Judged]) -> None:
    """A line a candidate: how often judged, with which words, and what it was accused of."""
    by: dict[tuple[str, str, str], list[Judged]] = defaultdict(list)
    for one in found:
        by[one.work.role, one.work.task, one.name].append(one)
    for (role, task, name), of in by.items():
        times = ", ".join(f"{count} {load}" for load, count in Counter(beside(one.work.busy) for one in of).items())
        words = ", ".join(f"{word} {count}" for word, count in Counter(one.word for one in of).most_common())
        wrong = "; ".join(f"{what} {count}" for what, count in Counter(one.wrong for one in of if one.wrong).items())
        print(f"{role} {task}/{name}: {times}: {words}{f'; ACCUSED {wrong}' if wrong else ''}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--role", action="append", choices=["cheat", "honest"], help="both by default")
    parser.add_argument("--task", action="append", choices=TASKS, help="all by default")
    parser.add_argument("--sample", type=int, default=0, help="candidates a role; all by default")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--busy", type=int, action="append")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folders of runs in which someone was wrongly called")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    end, loads = time.monotonic() + asked.seconds, asked.busy or [0]
    tasks = list(asked.task or TASKS)
    of = {role: chosen(role, tasks, asked.sample, asked.device) for role in asked.role or ["cheat", "honest"]}
    print(f"load {os.getloadavg()[0]:.2f} before; {asked.workers} runs side by side on {asked.device}", flush=True)
    said = []
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="profkit-", ignore_cleanup_errors=True)))
        bench = stack.enter_context(contextlib.closing(Bench(asked.workers, root, asked.device, asked.keep)))
        with contextlib.suppress(KeyboardInterrupt):
            for turn in range(1, asked.times + 1):
                for load in loads:
                    if time.monotonic() > end:
                        break
                    todo = [work for role, these in of.items() for work in works(turn, load, role, these)]
                    with contextlib.ExitStack() as meanwhile:
                        for cores in bench.cores:
                            meanwhile.enter_context(busy(load, cores))
                        watch = Load()
                        bench.run(todo, end)
                        said.append(f"{turn} {beside(load)}: {watch.said()}")
        found = bench.found
    table(found)
    print(*said, sep="\n")
    missed = 0
    for role, these in of.items():
        for load in loads:
            mine = [one for one in found if one.work.role == role and one.work.busy == load]
            wrong = [one for one in mine if one.wrong]
            names = ", ".join(sorted({f"{one.work.task}/{one.name}" for one in wrong}))
            missed += len(these) * asked.times - len(mine)
            full = Counter((one.work.task, one.name) for one in mine)
            print(
                f"{role}, {beside(load)}: {len(full)} of {len(these)} candidates, "
                f"{sum(count == asked.times for count in full.values())} of them {asked.times} times; judged {len(mine)} times in all, "
                f"{len(wrong)} times wrongly called{f': {names}' if names else ''}"
            )
    if missed:
        print(f"{missed} judgements not reached in time")
    return int(bool(missed or any(one.wrong for one in found)))


if __name__ == "__main__":
    sys.exit(main())
