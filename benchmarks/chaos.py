"""A campaign of CPU samples, killed again and again: is every result readable, does each command go on, is nothing left?

    python benchmarks/chaos.py [--kills 100] [--samples 6] [--seconds 900] [--folder DIR] [--seed N]

Each round starts `profkit profile SAMPLES --jobs 2 --device cpu`, waits a random while, and sends SIGKILL to the
command, to one of its workers (or their wardens), or to a process that builds or measures. After each kill it is checked that

- every run directory that can be seen holds a readable run.json of an ended run, metrics.json and report.md;
- no run that was there has gone or changed;
- when the command was killed, nothing that descends from it lives any more after --patience seconds;
- the next start takes the campaign's lock and the device's at once (nothing is stale).

A campaign that completes is checked against the verdicts of the first one, and begun anew. At the end the command runs
undisturbed. `lost` counts the results of a killed campaign that had been delivered and were measured again: 0.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0

def get_inputs():
    return [torch.randn(32, 32)]

def get_init_inputs():
    return []
"""
CANDIDATE = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        {body}
"""
BODIES = (
    "return torch.clamp_min(x, 0) * 2.0",
    "return torch.relu(x) * 2.1",
    "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "raise RuntimeError('no')",
)
MARK = "PROFKIT_CHAOS"


def samples(folder: Path, count: int) -> None:
    for number in range(count):
        one = folder / f"S{number:02}"
        one.mkdir(parents=True, exist_ok=True)
        (one / "reference.py").write_text(REFERENCE, "utf-8")
        (one / "candidate.py").write_text(CANDIDATE.format(body=BODIES[number % len(BODIES)]), "utf-8")


class Campaign:
    """One start of the command."""

    def __init__(self, folder: Path, runs: str = "runs") -> None:
        self.runs = folder / runs
        self.log = folder / f"{Path(runs).parts[0]}.log"
        self.mark = os.urandom(8).hex()
        argv = [sys.executable, "-m", "profkit", "profile", str(folder / "samples"), "--jobs", "2", "--device", "cpu"]
        argv += ["--runs", str(self.runs), "--budget", "0.05", "--trials", "1"]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        env = {**os.environ, "PROFKIT_CACHE": str(folder / "cache"), "PYTHONPATH": path, MARK: self.mark}
        with self.log.open("ab") as log:
            self.before = log.tell()
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, env=env)

    def family(self) -> list[psutil.Process]:
        """The command's descendants."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def left(self) -> list[int]:
        """What was started by it, whoever its parent is now."""
        found = []
        for one in psutil.process_iter():
            try:
                ours = one.environ().get(MARK) == self.mark and one.status() != psutil.STATUS_ZOMBIE
            except (psutil.Error, OSError):
                continue
            found += [one.pid] if ours else []
        return found


def results(runs: Path) -> dict[str, str]:
    """Run -> digest of its run.json; raises what reading one raises."""
    found = {}
    for path in sorted(runs.glob("*/*Z*")):
        data = (path / "run.json").read_bytes()
        run = json.loads(data)
        if run["status"] not in ("done", "failed") or not run["finished"]:
            raise ValueError(f"{path}: status {run['status']}")
        json.loads((path / "metrics.json").read_bytes())
        if not (path / "report.md").read_text("utf-8").strip():
            raise ValueError(f"{path}: empty report")
        found[str(path.relative_to(runs))] = hashlib.sha256(data).hexdigest()
    return found


def verdicts(runs: Path) -> dict[str, list[str]]:
    """Sample -> status of its candidate in each of its runs that came to an end by itself, as did the candidate's processes: whose
    processes were killed twice in a run has crashed, as its reason says.
    """
    found: dict[str, list[str]] = {}
    for path in sorted(runs.glob("*/*Z*")):
        run = json.loads((path / "run.json").read_bytes())
        candidate = run["impls"][1]
        ended = any((one["exit_code"] or 0) < 0 for one in run["commands"][:1]) or "SIGKILL" in candidate["reason"]
        if run["status"] == "done" and not ended:
            found.setdefault(run["sample"]["id"], []).append(candidate["status"])
    return found


def doubles(runs: Path) -> int:
    """Runs too many of one piece of one campaign."""
    marks = [json.loads((path / "run.json").read_bytes())["campaign"] for path in runs.glob("*/*Z*")]
    return len(marks) - len(set(marks))


def victim(campaign: Campaign, chance: random.Random) -> tuple[str, int] | None:
    """(what it is, its number); None when nothing of the kind that was drawn is there yet. The command is drawn least, for
    it takes longest to start."""
    family = campaign.family()
    kind = chance.choices(["command", "worker", "child"], [1, 3, 12])[0]
    lines = {one.pid: " ".join(_line(one)) for one in family}
    workers = [pid for pid, line in lines.items() if "profkit.campaign.worker" in line]
    children = [pid for pid, line in lines.items() if pid not in workers]
    if kind == "worker" and workers:
        return kind, chance.choice(workers)
    if kind == "child" and children:
        return kind, chance.choice(children)
    return (kind, campaign.process.pid) if kind == "command" else None


def _line(one: psutil.Process) -> list[str]:
    try:
        return [str(word) for word in one.cmdline()]
    except psutil.Error:
        return []


def main() -> int:
    asked = arguments()
    chance, began = random.Random(asked.seed), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="profkit-") as temporary:
        folder = asked.folder or Path(temporary)
        samples(folder / "samples", asked.samples)
        kills: dict[str, int] = {}
        faults: list[str] = []
        before: dict[str, str] = {}
        completed, campaign = 0, Campaign(folder)
        while sum(kills.values()) < asked.kills and time.monotonic() - began < asked.seconds:
            time.sleep(chance.uniform(0.0, asked.most))
            if campaign.process.poll() is not None:
                completed += 1
                faults += complaint(campaign)
                campaign = Campaign(folder)
                continue
            if (found := victim(campaign, chance)) is None:
                continue
            what, pid = found
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            kills[what] = kills.get(what, 0) + 1
            if what == "command":
                campaign.process.wait()
                faults += orphans(campaign, asked.patience)
                campaign = Campaign(folder)
            after = seen(campaign.runs, faults)
            faults += [f"{run} has gone or changed" for run, digest in before.items() if after.get(run) != digest]
            before = after
        faults += finish(campaign, folder)
        print(
            f"{sum(kills.values())} kills ({kills}) in {time.monotonic() - began:.0f} s, {completed} campaigns completed, "
            f"{given_up} gave a sample up"
        )
        print(f"{len(results(campaign.runs))} results, {doubles(campaign.runs)} lost, {len(faults)} faults")
        odd = {name: sorted(set(states)) for name, states in verdicts(campaign.runs).items() if len(set(states)) > 1}
        faults += [f"verdicts differ: {odd}"] if odd else []
        print("\n".join(faults), flush=True)
        if asked.full:
            faults += full_disk(folder, asked.full)
        if asked.two:
            faults += two_at_once(folder, asked.two)
    return int(bool(faults))


def seen(runs: Path, faults: list[str]) -> dict[str, str]:
    try:
        return results(runs)
    except (OSError, ValueError, KeyError) as error:
        faults.append(f"unreadable: {error}")
        return {}


def orphans(campaign: Campaign, patience: float) -> list[str]:
    end = time.monotonic() + patience
    while (left := campaign.left()) and time.monotonic() < end:
        time.sleep(0.5)
    return (
        [f"orphans: {[' '.join(_line(psutil.Process(pid)))[:120] for pid in left if psutil.pid_exists(pid)]}"]
        if left
        else []
    )


GIVEN_UP = re.compile(r"killed by SIGKILL|ended with exit code -(9|15)")
given_up = 0


def complaint(campaign: Campaign) -> list[str]:
    """What is wrong with the end of a command: 1 is right, some candidates are wrong. 2 is right where it says that it has
    given up a sample whose processes were killed twice; that one is measured by the next start.
    """
    global given_up
    code, said = campaign.process.returncode, campaign.log.read_text("utf-8", "replace")[campaign.before :]
    if code == 2 and GIVEN_UP.search(said):
        given_up += 1
        return []
    return [] if code == 1 else [f"exit code {code}: {said[-5000:]}"]


def finish(campaign: Campaign, folder: Path) -> list[str]:
    """Let it complete."""
    try:
        campaign.process.wait(300)
    except subprocess.TimeoutExpired:
        campaign.process.kill()
        return ["the last start did not end in 300 s"]
    rest = [str(one.relative_to(folder)) for one in (folder / "runs/.campaigns").glob("*")]
    return [*complaint(campaign), *([f"left: {rest}"] if rest else []), *orphans(campaign, 10.0)]


def two_at_once(folder: Path, times: int) -> list[str]:
    """Two campaigns on one cache."""
    faults = []
    for number in range(times):
        both = [Campaign(folder, f"two-{number}-{name}") for name in "ab"]
        for one in both:
            one.process.wait(600)
            faults += complaint(one)
    print(f"two campaigns on one cache, {times} times: {len(faults)} failed")
    return faults


def full_disk(folder: Path, kib: int) -> list[str]:
    """A campaign on a file system of so many KiB, which is then made larger. It takes the right to mount one."""
    small = folder / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(small)]
    if subprocess.run(mount, check=False).returncode:
        return ["no file system could be mounted: the full disk was not tried"]
    try:
        first = Campaign(folder, "small/runs")
        code, faults = first.process.wait(600), []
        said = first.log.read_text("utf-8", "replace")
        if code != 2 or "are done and stay" not in said:
            faults.append(f"full disk: exit code {code}: {said[-500:]}")
        kept = seen(first.runs, faults)
        subprocess.run([*mount[:4], f"remount,size={100 * kib}k", *mount[5:]], check=True)
        again = Campaign(folder, "small/runs")
        again.process.wait(600)
        faults += complaint(again)
        after = seen(again.runs, faults)
        faults += [f"{run} has gone or changed" for run, digest in kept.items() if after.get(run) != digest]
        print(f"full disk: {said.strip().splitlines()[-2:]}; {len(kept)} results kept, {len(after)} at the end")
        return faults
    finally:
        subprocess.run(["umount", str(small)], check=False)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=900.0, help="no kill after so many")
    parser.add_argument("--most", type=float, default=8.0, help="seconds from one kill to the next, at most")
    parser.add_argument("--patience", type=float, default=20.0)
    parser.add_argument("--two", type=int, default=0, metavar="N", help="then two campaigns on one cache, N times")
    parser.add_argument("--full", type=int, default=0, metavar="KIB", help="then a campaign on a disk of so many KiB")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
