"""Kills with SIGKILL at random moments, and what is left: unreadable runs, orphans after 2 s, leftovers after the next run.

    python benchmarks/kills.py [--kills 100] [--seconds 500] [--lanes 3] [--tally FILE] [--seed 0] [--work FOLDER]

Each round starts a command (profile on the CPU, with --trust or a process for each candidate; the same of a sample whose C++
is compiled; ceilings; import; report) and kills one process of it, drawn by lot: the parent, the server of warm runners, a
warden, the runner, the judge, a candidate or a compiler. Who was not the parent is often followed by another. When the parent
has ended, every process that carries the round's mark in its environment must be gone within 2 s; on a machine that has more
to do than cores, the time is told and one that is there after a minute is an orphan. Every run that was touched must open,
every JSON file in it too. At the end a profile, an import and a report run undisturbed, and nothing of a dead process may lie in
TMPDIR, in /dev/shm, in the cache or among the runs. --lanes: rounds at a time, on one cache. --tally: a file in which
the counts of several calls add up. Exit code 1 if anything was found.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
CLI = [sys.executable, "-m", "profkit"]
MARK = "PROFKIT_KILLS_MARK"
"""Survives the list of allowed names, for it is one of ours."""
PATIENCE = 60.0
"""Seconds after which what is still there is an orphan, and after which a command that lost a process has to end, times 5."""
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
BUILT = '''from pathlib import Path

import torch
from torch.utils.cpp_extension import load

source = Path(__file__).with_name("relu_{salt}.cpp")
source.write_text("""// {salt}; without torch's headers, which take longer to read than the rest
#include <regex>
extern "C" bool found(const char* text) {{ return std::regex_match(text, std::regex("a+b*")); }}
""")
load(name="relu_{salt}", sources=[str(source)], is_python_module=False)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x.clamp_min(0)
'''
TRACE = "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,Device,Ctx,Strm,Name\n"
_COMPILER = re.compile(r"\b(ninja|cc1plus|collect2|c\+\+|g\+\+|as|ld)$")


def sample(folder: Path, salt: str = "") -> Path:
    """A sample with four candidates in Python or, with `salt`, with two of them in C++ that no cache knows."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ref.py").write_text(MODEL)
    for number in range(4):
        built = BUILT.format(salt=f"{salt}_{number}") if salt and number % 2 else PLAIN
        (folder / f"fast{number}.py").write_text(built)
    return folder


class Census:
    """Which processes carry which round's mark. Reading every process's variables again and again would take more of the
    machine than what is tested: a process without a mark is looked at a dozen times, for between fork and exec it may have another's.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, int]] = {}
        self._lock, self._next = threading.Lock(), 0.0

    def of(self, mark: str, fresh: bool = False) -> list[psutil.Process]:
        """Those that carry `mark` and have not ended; as they were up to 0.25 s ago unless `fresh`."""
        with self._lock:
            if fresh or time.monotonic() >= self._next:
                self._look()
                self._next = time.monotonic() + 0.25
            pids = [pid for pid, (seen, _) in self._known.items() if seen == mark]
        found = []
        for pid in pids:
            with contextlib.suppress(psutil.Error, OSError):
                if (one := psutil.Process(pid)).status() != psutil.STATUS_ZOMBIE:
                    found.append(one)
        return found

    def _look(self) -> None:
        there = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        self._known = {pid: seen for pid, seen in self._known.items() if pid in there}
        for pid in there:
            mark, looks = self._known.get(pid, ("", 0))
            if not mark and looks < 12:
                with contextlib.suppress(OSError):
                    mark = _mark(Path(f"/proc/{pid}/environ").read_bytes())
                self._known[pid] = mark, looks + 1


def _mark(variables: bytes) -> str:
    found = re.search(rf"(?:^|\0){MARK}=(\w+)".encode(), variables)
    return found[1].decode() if found else ""


CENSUS = Census()
marked = CENSUS.of


def role(one: psutil.Process, parent: int, trusted: bool) -> str:
    """What a process of the round is: by its command line, its place in the family and the files it has open."""
    with contextlib.suppress(psutil.Error, OSError):
        line = one.cmdline()
        if one.pid == parent:
            return "parent"
        if line and _COMPILER.search(line[0]):
            return "compiler"
        if any("warden.py" in word for word in line):
            return "warden"
        if "profkit.runner.server" in line and one.ppid() == parent:
            return "server"
        if any(word.startswith("profkit.runner") for word in line):
            files = [os.readlink(link) for link in Path(f"/proc/{one.pid}/fd").iterdir() if link.is_symlink()]
            if any(name.endswith("events.jsonl") for name in files):
                return "runner" if trusted else "judge"
            return "warden" if one.children() else "candidate"
    return "other"


def _words(one: psutil.Process) -> str:
    """The beginning of its command line and what it is doing; "" when it is gone."""
    with contextlib.suppress(psutil.Error, OSError):
        return f"[{' '.join(Path(word).name for word in one.cmdline()[:4])}, {one.status()}, ppid {one.ppid()}]"
    return ""


class Arena:
    """One folder with a TMPDIR, a cache and runs of its own."""

    def __init__(self, work: Path, parents: list[int]) -> None:
        self.work, self.runs, self.parents = work, work / "runs", parents
        self.checked: set[Path] = set()
        for name in ("tmp", "cache", "runs"):
            (work / name).mkdir(parents=True, exist_ok=True)
        self.trace = work / "trace.csv"
        rows = (f"{1000 * at},500,{at},1,1,1,32,1,1,16,NVIDIA H200 (0),1,7,k{at % 50}\n" for at in range(20_000))
        self.trace.write_text(TRACE + "".join(rows))
        sample(work / "plain")

    def command(self, name: str) -> list[str]:
        """The command line of a round of this name."""
        if name == "import":
            return [*CLI, "import", str(self.trace), "-q", "-o", str(self.runs / "import" / secrets.token_hex(4))]
        if name == "report":
            return [*CLI, "report", str(self.runs / "whole")]
        if name == "ceilings":
            return [*CLI, "ceilings", "--device", "cpu"]
        salt = secrets.token_hex(4) if "C++" in name else ""
        folder = sample(self.work / f"built-{salt}", salt) if salt else self.work / "plain"
        short = [
            "--device",
            "cpu",
            "--budget",
            "0.1",
            "--trials",
            "2",
            "--processes",
            "2",
            "-q",
            "--runs",
            str(self.runs),
        ]
        return [*CLI, "profile", str(folder), *short, *(["--trust"] if "--trust" in name else [])]

    def start(self, argv: list[str], mark: str) -> subprocess.Popen[bytes]:
        places = {"TMPDIR": "tmp", "PROFKIT_CACHE": "cache"}
        found = {**os.environ, **{name: str(self.work / place) for name, place in places.items()}}
        env = {**found, MARK: mark, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        quiet = subprocess.DEVNULL
        child = subprocess.Popen(argv, env=env, cwd=self.work, stdout=quiet, stderr=quiet, start_new_session=True)
        self.parents.append(child.pid)
        return child

    def whole(self, argv: list[str]) -> float:
        """Seconds a command takes that nobody kills."""
        began = time.monotonic()
        if (code := self.start(argv, secrets.token_hex(8)).wait()) not in (0, 1):
            raise RuntimeError(f"exit code {code}: {argv}")
        return time.monotonic() - began

    def unreadable(self) -> list[str]:
        """What does not open among the runs that were not looked at yet, and `whole`."""
        from profkit.errors import ProfkitError
        from profkit.rundir.manifest import read_manifest

        found = []
        for folder in {file.parent for file in self.runs.rglob("run.json")}:
            state = (folder / "run.json").stat().st_mtime_ns
            if (known := folder / str(state)) in self.checked and folder.name != "whole":
                continue
            self.checked.add(known)
            try:
                manifest = read_manifest(folder / "run.json")
                whole = [json.loads(file.read_bytes()) for file in folder.glob("*.json")]
                del manifest, whole
            except (ProfkitError, ValueError, OSError) as error:
                found.append(str(error))
        return found

    def leftovers(self) -> list[str]:
        """What dead processes left where things for a while lie; in /dev/shm only what is ours, others use it too."""
        from profkit.rundir.files import mark

        machine = mark().split("-")[0]
        ours = (f"profkit-{machine}-{pid}-*" for pid in self.parents if not psutil.pid_exists(pid))
        shared = [path for pattern in ours for path in Path("/dev/shm").glob(pattern)]
        named = [path for path in self.runs.rglob("*") if path.name.endswith(".part") or path.name.startswith(".")]
        private = (self.work / "cache").glob("build/*-*")
        found = (*(self.work / "tmp").iterdir(), *shared, *named, *private)
        return [str(path) for path in found if not path.name.startswith(".profkit-index")]


PROFILE = ("server", "warden", "candidate", "judge")
TRUSTED = ("server", "warden", "runner")
ROLES = {
    "profile": PROFILE,
    "profile --trust": TRUSTED,
    "profile, C++": (*PROFILE, "compiler", "compiler"),
    "profile --trust, C++": (*TRUSTED, "compiler", "compiler"),
    "ceilings": ("warden", "runner", "runner"),
    "import": (),
    "report": (),
}
"""Whom a command may lose besides itself."""
SHARES = (10, 5, 6, 3, 2, 3, 3)
"""How often each command is drawn: most of what can be killed is in the first."""
WAITS = {"import": 4.0, "report": 6.0}
"""Seconds within which the parent is killed where it is alone; else it goes up to 4 s after one of its processes came."""


class Tally:
    """What was killed and what was found, over several calls."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.lock = path, threading.Lock()
        known = json.loads(path.read_text()) if path and path.exists() else {}
        self.done, self.bad = Counter[str](known.get("done", {})), Counter[str](known.get("bad", {}))
        self.gone: list[float] = known.get("gone", [])
        self.rounds: int = known.get("rounds", 0)
        self.parents: list[int] = known.get("parents", [])
        self.late: list[str] = known.get("late", [])
        self.said: list[str] = known.get("said", [])

    def fault(self, what: str, said: str) -> None:
        with self.lock:
            self.bad[what] += 1
            self.said.append(f"{what}: {said}")
            print(f"{what}: {said}", flush=True)

    def add(self, what: str) -> None:
        with self.lock:
            self.done[what] += 1

    def keep(self) -> None:
        if self.path:
            names = ("done", "bad", "gone", "rounds", "late", "said", "parents")
            told = {name: getattr(self, name) for name in names}
            self.path.write_text(json.dumps(told))

    def kills(self) -> int:
        return sum(self.done.values())

    def show(self) -> None:
        print("| command | " + " | ".join(who := sorted({key.split(": ")[1] for key in self.done})) + " |")
        print("|---|" + "---:|" * len(who))
        for name in ROLES:
            print(f"| {name} | " + " | ".join(str(self.done[f"{name}: {one}"] or "") for one in who) + " |")
        late = sorted(one for one in self.gone if one > 2)
        print(
            f"\n{self.kills()} kills in {self.rounds} rounds; when the parent had ended, all was gone within 2 s in "
            f"{len(self.gone) - len(late)}{f', after {late[0]:.1f} to {late[-1]:.1f} s in {len(late)}' if late else ''}."
        )
        print("Found: " + (", ".join(f"{count} x {what}" for what, count in self.bad.items()) or "nothing") + ".")


def hunt(arena: Arena, tally: Tally, lots: random.Random, name: str, child: subprocess.Popen[bytes], mark: str) -> None:
    """Kill one process after the other by lot, each a while after it came, until the parent is killed or has ended."""

    def there(who: str) -> list[psutil.Process]:
        return [one for one in marked(mark) if role(one, child.pid, "--trust" in name) == who]

    for _ in range(lots.randint(0, 8) if ROLES[name] else 0):
        who = lots.choice(ROLES[name])
        if not await_(partial(there, who), child):
            break
        time.sleep(lots.choice((0.0, lots.uniform(0.0, 2.0))))
        if found := there(who):
            with contextlib.suppress(psutil.Error):
                lots.choice(found).kill()
                tally.add(f"{name}: {who}")
    if ROLES[name]:
        who = lots.choice((*ROLES[name], "parent"))
        await_(partial(there, who), child)
    time.sleep(lots.uniform(0.0, WAITS.get(name, 4.0)))
    if child.poll() is None:
        child.kill()
        tally.add(f"{name}: parent")


def await_(condition: Callable[[], object], child: subprocess.Popen[bytes]) -> bool:
    """Whether it came true before the child had ended, or a minute had gone: not everything comes in every run."""
    end = time.monotonic() + PATIENCE
    while child.poll() is None and time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.4)
    return False


def one_round(arena: Arena, tally: Tally, lots: random.Random) -> None:
    """One command, one or several kills, and what is left of it."""
    name, mark = lots.choices(list(ROLES), SHARES)[0], secrets.token_hex(8)
    child = arena.start(arena.command(name), mark)
    hunt(arena, tally, lots, name, child, mark)
    try:
        # Whoever lives goes on or gives up; neither may take for ever.
        child.wait(timeout=5 * PATIENCE)
    except subprocess.TimeoutExpired:
        tally.fault("no end", name)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    ended = time.monotonic()
    late = ""
    while (left := marked(mark, fresh=True)) and time.monotonic() - ended < PATIENCE:
        if not late and time.monotonic() - ended > 2:
            late = ", ".join(f"{role(one, child.pid, '--trust' in name)} {_words(one)}" for one in left)
        time.sleep(0.2)
    tally.gone.append(round(time.monotonic() - ended, 2))
    if late:
        tally.late.append(f"{name}, code {child.returncode}: {late}: {tally.gone[-1]} s")
    for orphan in left:
        tally.fault("orphan", f"after {name}: {' '.join(orphan.cmdline())[:150]}")
        orphan.kill()
    with tally.lock:
        unreadable, tally.rounds = arena.unreadable(), tally.rounds + 1
        tally.keep()
    for said in unreadable:
        tally.fault("unreadable run", f"after {name}: {said}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=100, help="end when the tally has so many")
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no round after so many")
    parser.add_argument("--lanes", type=int, default=3)
    parser.add_argument("--tally", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path)
    given = parser.parse_args()
    tally, began = Tally(given.tally), time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        arena = Arena(given.work or Path(place), tally.parents)
        if not (arena.runs / "whole").exists():
            arena.whole([*CLI, "import", str(arena.trace), "-q", "-o", str(arena.runs / "whole")])

        def lane(number: int) -> None:
            lots = random.Random(f"{given.seed} {tally.rounds} {number}")
            while tally.kills() < given.kills and time.monotonic() - began < given.seconds:
                one_round(arena, tally, lots)

        lanes = [threading.Thread(target=lane, args=(number,)) for number in range(given.lanes)]
        for thread in lanes:
            thread.start()
        for thread in lanes:
            thread.join()
        for name in ("profile, C++", "import", "report"):
            arena.whole(arena.command(name))
        for left in arena.leftovers():
            tally.fault("leftover", left)
        tally.keep()
    tally.show()
    return int(bool(tally.bad))


if __name__ == "__main__":
    sys.exit(main())
