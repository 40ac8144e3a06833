"""A program with and without a change, in turns: how long each takes, and whether what they print agrees."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from analyzers.verdicts.statistics import Ratio, ratio
from profkit.errors import ProfkitError, ProgramFailedError
from profkit.launch.environment import environment
from profkit.rundir.files import temporary
from profkit.targets.program import bootstrapped

SWAP = "profkit.torch_tools.swap"
LARGEST = 2 << 30
"""Bytes of a folder from which it is not copied for a patch."""
CLOSE = 1e-3
"""Relative difference of printed numbers that rounding explains."""
_LEFT = shutil.ignore_patterns(".git", ".venv", "profkit-runs", "__pycache__")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\bnan\b|\binf\b")


@dataclass(frozen=True)
class Verified:
    """Seconds of each side by pair and their ratio; `difference`: the largest relative one of printed numbers, inf for other
    words, and `alone`: that of two runs without the change. `where`: the first line that differs.
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
        """Whether the outputs agree as well as those of the unchanged program do."""
        return self.difference <= max(CLOSE, 2 * self.alone)


@dataclass(frozen=True)
class _Side:
    argv: Sequence[str]
    folder: Path


def verify(
    argv: Sequence[str], change: Path, *, pairs: int, timed: str, same: str, progress: Callable[[str], None]
) -> Verified:
    """Run `argv` in this folder with and without a change, after one pair that only warms up.

    change: a candidate (.py) or a patch for `git apply`, tried in a copy of the folder. timed: a pattern whose group is the
    time that the program prints, "" for that of the process. same: a file that it writes, whose text is compared in the place
    of stdout. Raises ProgramFailedError where either side fails.
    """
    pattern = re.compile(timed) if timed else None
    taken: tuple[list[float], list[float]] = ([], [])
    told: tuple[list[str], list[str]] = ([], [])
    with temporary() as scratch:
        sides = _sides(argv, change.resolve(), Path(scratch) / "copy")
        for number in range(-1, pairs):
            progress(f"pair {number + 1} of {pairs}" if number >= 0 else "warming up")
            for which in (0, 1) if number % 2 else (1, 0):
                seconds, said = _ran(sides[which], pattern, same)
                if number >= 0:
                    taken[which].append(seconds)
                    told[which].append(said)
    difference, where = min(_apart(before, told[1][0]) for before in told[0])
    alone = max((_apart(told[0][0], other)[0] for other in told[0][1:]), default=0.0)
    found = ratio(taken[0], taken[1], list(range(pairs)))
    return Verified(*taken, found, difference, alone, where)


def _sides(argv: Sequence[str], change: Path, copy: Path) -> tuple[_Side, _Side]:
    here = Path.cwd()
    if change.suffix == ".py":
        with_, without = (bootstrapped(argv, file, module=SWAP) for file in (change, Path("-")))
        if with_ is None or without is None:
            raise ProfkitError(f"{argv[0]} is no Python program", fix="a candidate takes one; give a patch instead")
        return _Side(without, here), _Side(with_, here)
    size = sum(file.lstat().st_size for file in _files(here))
    if size > LARGEST:
        raise ProfkitError(
            f"{here} holds {size / 1e9:.1f} GB: too much to copy for a patch",
            fix="run it in the program's own folder, with large data elsewhere",
        )
    shutil.copytree(here, copy, symlinks=True, ignore=_LEFT)
    done = subprocess.run(["git", "apply", str(change)], cwd=copy, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ProfkitError(f"{change}: {done.stderr.strip()}", fix="make it with `git diff`, from this folder")
    moved = [word.replace(str(here), str(copy)) if word.startswith(f"{here}{os.sep}") else word for word in argv]
    return _Side(argv, here), _Side(moved, copy)


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = set(folders) - _LEFT(place, folders)
        yield from (Path(place) / name for name in names)


def _ran(side: _Side, pattern: re.Pattern[str] | None, same: str) -> tuple[float, str]:
    """(seconds, what is to agree) of one run."""
    places = {"PYTHONPATH": environment()["PYTHONPATH"]}
    began = time.monotonic()
    done = subprocess.run(
        side.argv, cwd=side.folder, env={**os.environ, **places}, capture_output=True, text=True, check=False
    )
    wall = time.monotonic() - began
    if done.returncode:
        tail = "\n".join(done.stderr.splitlines()[-8:])
        raise ProgramFailedError(
            f"{' '.join(side.argv)}: exit code {done.returncode}\n{tail}", fix="run it alone first"
        )
    said = done.stdout
    if pattern is not None:
        found = sorted(float(one[1]) for one in pattern.finditer(said))
        if not found:
            raise ProfkitError(
                f"nothing it prints fits {pattern.pattern!r}", fix="give a pattern with a group: 'step (.*) ms'"
            )
        wall, said = found[len(found) // 2], pattern.sub("", said)
    return wall, (side.folder / same).read_text("utf-8", "replace") if same else said


def _apart(one: str, other: str) -> tuple[float, str]:
    """(largest relative difference of the numbers of two texts, inf for other words; the line where it is)."""
    lines = one.splitlines(), other.splitlines()
    if len(lines[0]) != len(lines[1]):
        return math.inf, f"{len(lines[0])} lines, {len(lines[1])} lines"
    worst, where = 0.0, ""
    for mine, theirs in zip(*lines, strict=True):
        if _NUMBER.sub("#", mine) != _NUMBER.sub("#", theirs):
            return math.inf, f"{mine!r}, {theirs!r}"
        for pair in zip(_NUMBER.findall(mine), _NUMBER.findall(theirs), strict=True):
            a, b = map(float, pair)
            apart = 0.0 if pair[0] == pair[1] else abs(a - b) / max(abs(a), abs(b))
            if not apart <= worst:
                worst, where = (math.inf if math.isnan(apart) else apart), f"{mine!r}, {theirs!r}"
    return worst, where
