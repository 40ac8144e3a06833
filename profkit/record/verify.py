"""Run a program alternately with and without a change, and compare times and outputs."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from analyzers.verdicts.statistics import Ratio, ratio
from profkit.errors import ProfkitError, ProgramFailedError
from profkit.launch.environment import environment
from profkit.launch.protocol import Progress
from profkit.rundir.files import temporary
from profkit.targets.program import bootstrapped

SWAP = "profkit.torch_tools.swap"
LARGEST = 2 << 30
"""Bytes above which a folder is not copied for a patch."""
CLOSE = 1e-3
"""Relative difference of printed numbers that rounding explains."""
_UNITS = {"ms": 1e-3, "us": 1e-6, "µs": 1e-6}
_LEFT = shutil.ignore_patterns(".git", ".venv", "profkit-runs", "__pycache__")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\bnan\b|\binf\b")


@dataclass(frozen=True)
class Verified:
    """Seconds of each side by pair, and their ratio.

    `difference`: the largest relative one of printed numbers, inf for other words; `alone`: that of two runs without
    the change. `where`: the first line that differs.
    """

    before: list[float]
    after: list[float]
    ratio: Ratio
    difference: float
    alone: float
    where: str = ""

    @property
    def usual(self) -> float:
        """Seconds of the unchanged program."""
        return sorted(self.before)[len(self.before) // 2]

    @property
    def agrees(self) -> bool:
        """Whether outputs agree as well as those of two unchanged runs."""
        return self.difference <= max(CLOSE, 2 * self.alone)


_Side = tuple[Sequence[str], Path]
"""A command line and its working directory."""


def verify(argv: Sequence[str], change: Path, *, pairs: int, timed: str, progress: Progress) -> Verified:
    """Run `argv` in this folder with and without a change, after one warm-up pair.

    change: a candidate (.py) or a patch for `git apply`, applied to a copy of the folder. timed: a pattern with a group
    for the time that the program prints, in s unless a unit follows; "": time the process. Raises ProgramFailedError
    if either side fails.
    """
    taken: tuple[list[float], list[float]] = ([], [])
    told: tuple[list[str], list[str]] = ([], [])
    with temporary() as scratch:
        sides = (_swapped if change.suffix == ".py" else _patched)(argv, change.resolve(), Path(scratch) / "copy")
        for number in range(-1, pairs):
            progress(f"pair {number + 1} of {pairs}" if number >= 0 else "warming up")
            for which in (0, 1) if number % 2 else (1, 0):
                seconds, said = _ran(*sides[which], timed)
                if number >= 0:
                    taken[which].append(seconds)
                    told[which].append(said)
    difference, where = min(_apart(before, told[1][0]) for before in told[0])
    alone = max(_apart(told[0][0], other)[0] for other in told[0][1:])
    return Verified(*taken, ratio(taken[0], taken[1], list(range(pairs))), difference, alone, where)


def _swapped(argv: Sequence[str], change: Path, _: Path) -> list[_Side]:
    found = [bootstrapped(argv, file, module=SWAP) for file in (Path(f"own={change}"), change)]
    if None in found:
        raise ProfkitError(
            f"{argv[0]} is not a Python program", fix="a candidate needs a Python program; give a patch instead"
        )
    return [(one, Path.cwd()) for one in found if one is not None]


def _patched(argv: Sequence[str], change: Path, copy: Path) -> list[_Side]:
    here, size = Path.cwd(), 0
    for place, folders, names in os.walk(here):
        folders[:] = set(folders) - _LEFT(place, folders)
        size += sum((Path(place) / name).lstat().st_size for name in names)
        if size > LARGEST:
            fix = "run it in the program's own folder, with large data elsewhere"
            raise ProfkitError(f"{here}: too much to copy for a patch, above {LARGEST / 1e9:.0f} GB", fix=fix)
    shutil.copytree(here, copy, symlinks=True, ignore=_LEFT)
    done = subprocess.run(["git", "apply", str(change)], cwd=copy, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ProfkitError(f"{change}: {done.stderr.strip()}", fix="create it with `git diff` in this folder")
    moved = [word.replace(str(here), str(copy)) if word.startswith(f"{here}{os.sep}") else word for word in argv]
    return [(argv, here), (moved, copy)]


def _ran(argv: Sequence[str], folder: Path, timed: str) -> tuple[float, str]:
    """(seconds, output to compare) of one run."""
    env = {**os.environ, "PYTHONPATH": environment()["PYTHONPATH"]}
    began = time.monotonic()
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)
    seconds, said = time.monotonic() - began, done.stdout
    if done.returncode:
        tail = "\n".join(done.stderr.splitlines()[-8:])
        raise ProgramFailedError(f"{' '.join(argv)}: exit code {done.returncode}\n{tail}", fix="run it alone first")
    if timed:
        found = sorted(float(one[1]) for one in re.finditer(timed, said))
        if not found:
            raise ProfkitError(
                f"no line of its output matches {timed!r}", fix="give a pattern with a group: 'step (.*) ms'"
            )
        unit = re.search(r"\)\s*(ms|us|µs)\b", timed)
        seconds = found[len(found) // 2] * (_UNITS[unit[1]] if unit is not None else 1.0)
        said = re.sub(timed, "", said)
    return seconds, said


def _apart(one: str, other: str) -> tuple[float, str]:
    """(largest relative difference of numbers of two texts, inf for other words; its line)."""
    worst, where = 0.0, ""
    for mine, theirs in zip_longest(one.splitlines(), other.splitlines(), fillvalue=""):
        pairs = list(zip(_NUMBER.findall(mine), _NUMBER.findall(theirs), strict=False))
        same = _NUMBER.sub("#", mine) == _NUMBER.sub("#", theirs)
        numbers = [tuple(map(float, pair)) for pair in pairs if pair[0] != pair[1]]
        apart = max((abs(a - b) / max(abs(a), abs(b)) for a, b in numbers if a != b), default=0.0) if same else math.inf
        if not apart <= worst:
            worst, where = (math.inf if math.isnan(apart) else apart), f"{mine!r}, {theirs!r}"
    return worst, where
