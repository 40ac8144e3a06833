"""An index over run directories: ten thousand listed, filtered and ranked in a moment.

One file in profkit's cache for each folder of runs. A run's rows (profkit.campaign.rows) are read again when its files
change; the index is made again when it is damaged or of another version, and may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from profkit.campaign.rows import Facts, Row, read_run
from profkit.errors import ProfkitError
from profkit.launch import cache
from profkit.rundir.files import write_atomic

_VERSION = f"1 {Row.__struct_fields__}"
"""Its number rises when the same files give other values."""

SORTS: dict[str, Callable[[Row], Any]] = {
    "created": lambda row: 0,
    "time": lambda row: _last(row.time),
    "lower_bound": lambda row: _last(row.lower_bound),
    "share": lambda row: _last(-row.share),
    "speedup": lambda row: (row.speedup != row.speedup, row.word == "faster" and not row.wins, _last(-row.speedup)),
}
"""Rank keys of a list, best first; speed-ups that do not count come last."""


def _last(value: float) -> float:
    return math.inf if math.isnan(value) else value


class _Entry(msgspec.Struct):
    """One run. `stamp`: of its files; `facts`: implementation -> Facts, decoded when asked for."""

    stamp: str
    damage: str
    rows: list[Row]
    facts: msgspec.Raw


class _File(msgspec.Struct):
    version: str
    runs: dict[str, _Entry]


class Index:
    """The runs below `folder` as rows, as they are now. `read`: how many runs were read again."""

    def __init__(self, folder: Path) -> None:
        file = file_of(folder)
        known = _load(file)
        found = dict(_scan(folder, known))
        self._runs = {path: known[path] for path, stamp in found.items() if _fresh(known.get(path), stamp)}
        self.read = len(found) - len(self._runs)
        for path, stamp in found.items():
            if path not in self._runs:
                damage, rows = read_run(folder, path)
                facts = msgspec.Raw(msgspec.msgpack.encode({row.impl: more for row, more in rows}))
                self._runs[path] = _Entry(stamp, damage, [row for row, _ in rows], facts)
        if self.read or len(self._runs) != len(known):
            with contextlib.suppress(OSError, ProfkitError):
                file.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(file, msgspec.msgpack.encode(_File(_VERSION, self._runs)))

    def rows(
        self,
        *,
        sample: str = "",
        device: str = "",
        since: str = "",
        words: Sequence[str] = (),
        sort: str = "created",
        references: bool = False,
    ) -> list[Row]:
        """The rows that fit, ranked by a key of SORTS.

        sample: its id, * and ? as in file names. device: a part of its name. since: an ISO time (UTC). words: verdicts;
        without any, all but those of what was skipped. references: those, too.
        """
        named = re.compile(fnmatch.translate(sample.replace("[", "[[]"))) if sample else None
        found = [
            row
            for entry in self._runs.values()
            for row in entry.rows
            if (named is None or named.match(row.sample))
            and device.lower() in row.device.lower()
            and row.created >= since
            and (row.word in words if words else row.word != "skipped")
            and (references or row.role != "reference")
        ]
        found.sort(key=lambda row: (row.created, row.path), reverse=True)
        return sorted(found, key=SORTS[sort])

    def facts(self, sample: str) -> dict[tuple[str, str], Facts]:
        """(path, implementation) -> versions, clocks and counters of one sample's runs."""
        own = {path: entry.facts for path, entry in self._runs.items() if entry.rows and entry.rows[0].sample == sample}
        return {(path, impl): more for path, raw in own.items() for impl, more in msgspec.msgpack.decode(raw).items()}

    def damaged(self) -> list[tuple[str, str]]:
        """(path, why) of the runs that cannot be read, or only in part."""
        return sorted((path, entry.damage) for path, entry in self._runs.items() if entry.damage)


def file_of(folder: Path) -> Path:
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return cache.root() / "index" / f"{digest}.msgpack"


def _load(file: Path) -> dict[str, _Entry]:
    with contextlib.suppress(OSError, msgspec.DecodeError):
        kept = msgspec.msgpack.decode(file.read_bytes(), type=_File)
        return kept.runs if kept.version == _VERSION else {}
    return {}


def _fresh(entry: _Entry | None, stamp: str) -> bool:
    """Whether an entry still holds; a running run may have been killed without a trace."""
    return entry is not None and entry.stamp == stamp and all(row.status != "running" for row in entry.rows)


def _scan(folder: Path, known: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(relative path, stamp) of each run; known runs are not listed again, hidden ones never."""
    root = os.fspath(folder)
    stamp = _stamp(root)
    if stamp:
        yield ".", stamp
        return
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(f"{root}/{prefix}") as entries:
            for entry in entries:
                if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
                    continue
                path = prefix + entry.name
                stamp = _stamp(entry.path)
                if stamp:
                    yield path, stamp
                elif path not in known:
                    waiting.append(f"{path}/")


def _stamp(run: str) -> str:
    """Time and size of the files that a row is made of; "" for a directory that is no run."""
    parts = []
    for name in ("run.json", "metrics.json"):
        with contextlib.suppress(OSError):
            stat = os.stat(f"{run}/{name}")
            parts.append(f"{name} {stat.st_mtime_ns} {stat.st_size}")
    return " ".join(parts) if parts and parts[0].startswith("run.json") else ""
