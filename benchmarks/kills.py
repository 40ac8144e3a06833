"""Kills with SIGKILL at random moments, and what is left: unreadable runs, orphans after 2 s, leftovers after the next run.

    python benchmarks/kills.py [--kills 100] [--seed 0] [--work FOLDER]

Each round starts a command in a session of its own (profile on the CPU with --trust, default and, of a sample with a C++
candidate, while it compiles; import; report) and kills one process of it, drawn by lot: the parent, a warden, the runner
or judge, or a compiler. Then every process that carries the round's mark in its environment must be gone within 2 s, every
run below the runs' folder must open, and after the next run nothing of a dead process may lie in TMPDIR, in /dev/shm, in
the cache or among the runs. Prints a line a kind of kill and, at the end, what was found; the exit code is 1 if anything was.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
CLI = [sys.executable, "-m", "profkit"]
MARK = "PROFKIT_KILLS_MARK"
"""Survives the list of allowed names, for it is one of ours."""
MODEL = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
"""
PLAIN = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x.clamp_min(0)
"""
BUILT = '''import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>
// {salt}
at::Tensor relu(at::Tensor x) {{ return x.clamp_min(0); }}
"""
made = load_inline("relu_{salt}", SOURCE, functions=["relu"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return made.relu(x)
'''
TRACE = "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,Device,Ctx,Strm,Name\n"


def sample(folder: Path, salt: str = "") -> Path:
    """A sample with a candidate in Python or, with `salt`, one in C++ that no cache knows."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ref.py").write_text(MODEL)
    (folder / "fast.py").write_text(BUILT.format(salt=salt) if salt else PLAIN)
    return folder


def marked(mark: str) -> list[psutil.Process]:
    """Processes that carry the round's mark."""
    found = []
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if one.status() != psutil.STATUS_ZOMBIE and one.environ().get(MARK) == mark:
                found.append(one)
    return found


def role(one: psutil.Process, parent: int) -> str:
    """What a process of the round is, by its command line."""
    with contextlib.suppress(psutil.Error):
        words = " ".join(one.cmdline())
        if one.pid == parent:
            return "parent"
        if "warden.py" in words:
            return "warden"
        if "profkit.runner" in words:
            return "judge" if "judge" in words else "runner"
        if re.search(r"ninja|cc1plus|c\+\+|g\+\+|\bas\b|\bld\b", words):
            return "compiler"
    return "other"


def _alive(path: Path) -> bool:
    """Whether the process whose mark a name carries is there: others use the machine too."""
    return psutil.pid_exists(int(path.name.split("-")[2]))


class Arena:
    """One folder with a TMPDIR, a cache and runs of its own."""

    def __init__(self, work: Path) -> None:
        self.work, self.runs = work, work / "runs"
        for name in ("tmp", "cache", "runs"):
            (work / name).mkdir(parents=True, exist_ok=True)
        trace = work / "trace.csv"
        rows = (f"{1000 * at},500,{at},1,1,1,32,1,1,16,NVIDIA H200 (0),1,7,k{at % 50}\n" for at in range(60_000))
        trace.write_text(TRACE + "".join(rows))
        self.commands = {
            "profile": lambda: self.profile(sample(work / "plain")),
            "profile --trust": lambda: [*self.profile(sample(work / "plain")), "--trust"],
            "profile, C++": lambda: self.profile(sample(work / "built", secrets.token_hex(4))),
            "import": lambda: [
                *CLI,
                "import",
                str(trace),
                "-q",
                "-o",
                str(self.runs / "import" / secrets.token_hex(4)),
            ],
            "report": lambda: [*CLI, "report", str(self.runs / "whole")],
        }

    def profile(self, folder: Path) -> list[str]:
        return [*CLI, "profile", str(folder), "--device", "cpu", "--budget", "0.5", "-q", "--runs", str(self.runs)]

    def environment(self, mark: str) -> dict[str, str]:
        places = {"TMPDIR": "tmp", "PROFKIT_CACHE": "cache"}
        found = {**os.environ, **{name: str(self.work / place) for name, place in places.items()}}
        return {**found, MARK: mark, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

    def start(self, argv: list[str], mark: str) -> subprocess.Popen[bytes]:
        quiet = subprocess.DEVNULL
        return subprocess.Popen(
            argv, env=self.environment(mark), cwd=self.work, stdout=quiet, stderr=quiet, start_new_session=True
        )

    def whole(self, argv: list[str]) -> float:
        """Seconds a command takes that nobody kills."""
        began = time.monotonic()
        self.start(argv, secrets.token_hex(8)).wait()
        return time.monotonic() - began

    def unreadable(self) -> list[str]:
        from profkit.errors import ProfkitError
        from profkit.rundir.manifest import read_manifest

        found = []
        for folder in {file.parent for file in self.runs.rglob("logs")}:
            try:
                if (folder / "run.json").exists():
                    read_manifest(folder / "run.json")
            except ProfkitError as error:
                found.append(str(error))
        return found

    def leftovers(self) -> list[str]:
        """What dead processes left where things for a while lie."""
        shared = [path for path in Path("/dev/shm").glob("profkit-*-*-*") if not _alive(path)]
        places = [*(self.work / "tmp").iterdir(), *shared]
        named = [path for path in self.runs.rglob("*") if path.name.endswith(".part") or path.name.startswith(".")]
        private = (self.work / "cache").glob("build/*-*")
        return [str(path) for path in (*places, *named, *private) if not path.name.startswith(".profkit-index")]


def moments(lots: random.Random, arena: Arena, kills: int) -> Iterator[tuple[str, float]]:
    """(command, seconds until the kill), by lot over the whole length of each command."""
    lengths = {name: arena.whole(make()) for name, make in arena.commands.items()}
    for _ in range(kills):
        name = lots.choice(list(lengths))
        yield name, lots.uniform(0.02, 1.0) * lengths[name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path)
    given = parser.parse_args()
    lots, bad, done = random.Random(given.seed), Counter[str](), Counter[tuple[str, str]]()
    with tempfile.TemporaryDirectory() as place:
        arena = Arena(given.work or Path(place))
        arena.whole([*CLI, "import", str(arena.work / "trace.csv"), "-q", "-o", str(arena.runs / "whole")])
        for name, wait in moments(lots, arena, given.kills):
            mark = secrets.token_hex(8)
            child = arena.start(arena.commands[name](), mark)
            time.sleep(wait)
            there = marked(mark)
            if not there:
                done[name, "had ended"] += 1
                child.wait()
                continue
            victim = lots.choice(there)
            who = role(victim, child.pid)
            with contextlib.suppress(psutil.Error):
                victim.kill()
            done[name, who] += 1
            if victim.pid != child.pid:
                # Whoever lives goes on or gives up; neither may take for ever.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(timeout=120)
                if child.poll() is None:
                    bad[f"no end after the {who} was killed"] += 1
                    os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            time.sleep(2)
            for orphan in marked(mark):
                bad["orphan"] += 1
                print(f"orphan after {name}, {who}: {' '.join(orphan.cmdline())[:150]}", flush=True)
                orphan.kill()
            for said in arena.unreadable():
                bad["unreadable run"] += 1
                print(f"unreadable after {name}, {who}: {said}", flush=True)
        for make in arena.commands.values():
            arena.whole(make())
        for left in arena.leftovers():
            bad["leftover"] += 1
            print(f"left: {left}", flush=True)
        if given.work is None:
            shutil.rmtree(arena.runs, ignore_errors=True)
    for (name, who), count in sorted(done.items()):
        print(f"{name:16} {who:10} {count:5}")
    killed = sum(count for (_, who), count in done.items() if who != "had ended")
    print(f"{killed} kills: " + (", ".join(f"{count} x {what}" for what, count in bad.items()) or "nothing was found"))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
