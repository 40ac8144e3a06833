"""An index over run directories: ten thousand listed, filtered and ranked in a moment.

One SQLite file for each folder of runs, in profkit's cache: the folder itself is only read. A run's rows
(profkit.campaign.rows) are read again when its files change. The file is made again when Row changes or it is
damaged, and may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import math
import os
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from profkit.campaign.rows import Facts, Row, read_run
from profkit.errors import ProfkitError
from profkit.launch import cache

WAIT = 10.0
"""Seconds to wait for another writer."""
_BUSY = re.compile("locked|full|readonly|unable to open|disk I/O")
"""SQLite's errors of an intact database."""
_DDL = "create table runs (path text primary key, stamp text, sample text, damage text, rows blob, facts blob)"
_VERSION = zlib.crc32(f"{_DDL} {Row.__struct_fields__}".encode()) & 0x7FFFFFFF
_CONTENT = 3
"""Increment when the same files give other values."""
_Read = TypeVar("_Read")
_Damage = (sqlite3.DatabaseError, msgspec.DecodeError, TypeError)

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


class Index(contextlib.AbstractContextManager["Index"]):
    """The runs below `folder`, as rows. `refresh` looks at the disk, the rest does not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._base = _connect(folder)

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def refresh(self) -> int:
        """Bring the rows up to date with the disk; how many runs were read again."""
        known = dict(self._asked("select path, stamp from runs", _pair))
        found = dict(_scan(self.folder, known))
        # Running ones may have been killed since, which leaves no trace on the disk.
        ran = {
            row.path for rows in self._asked("select rows from runs", _rows) for row in rows if row.status == "running"
        }
        stale = [path for path, stamp in found.items() if known.get(path) != stamp or path in ran]
        gone = [path for path in known if path not in found]
        if stale or gone:
            try:
                self._write(gone, stale, found)
            except sqlite3.DatabaseError as error:
                self._anew(error)
        return len(stale)

    def _anew(self, error: Exception) -> None:
        """Read all rows into memory where the file is full, locked or damaged; remove a damaged one."""
        self._base.close()
        if not _BUSY.search(str(error)):
            with contextlib.suppress(OSError):
                file_of(self.folder).unlink()
        self._base = _prepared(sqlite3.connect(":memory:"))
        found = dict(_scan(self.folder, {}))
        self._write([], list(found), found)

    def _asked(self, query: str, read: Callable[[Any], _Read], values: Sequence[object] = ()) -> list[_Read]:
        """The records of a query; damaged pages and cells are found when they are read."""
        try:
            return [read(record) for record in self._base.execute(query, values)]
        except _Damage as error:
            self._anew(error)
            return [read(record) for record in self._base.execute(query, values)]

    def _write(self, gone: Sequence[str], stale: Sequence[str], stamps: Mapping[str, str]) -> None:
        with self._base:
            self._base.execute("begin immediate")
            self._base.executemany("delete from runs where path = ?", ((path,) for path in gone))
            for path in stale:
                damage, found = read_run(self.folder, path)
                sample = found[0][0].sample if found else ""
                rows, facts = [row for row, _ in found], {row.impl: more for row, more in found}
                blobs = msgspec.msgpack.encode(rows), msgspec.msgpack.encode(facts)
                self._base.execute(
                    "insert or replace into runs values (?, ?, ?, ?, ?, ?)",
                    (path, stamps[path], sample, damage, *blobs),
                )

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

        sample: its id, * and ? as in file names. device: a part of its name. since: an ISO date, see `moment`. words:
        verdicts; without any, all but those of what was skipped. references: those, too.
        """
        named = re.compile(fnmatch.translate(sample.replace("[", "[[]"))) if sample else None
        found = [
            row
            for rows in self._asked("select rows from runs", _rows)
            for row in rows
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
        known = self._asked("select path, facts from runs where sample = ?", _facts, (sample,))
        return {(path, impl): more for path, facts in known for impl, more in facts.items()}

    def damaged(self) -> list[tuple[str, str]]:
        """(path, why) of the runs that cannot be read, or only in part."""
        return self._asked("select path, damage from runs where damage <> '' order by path", _pair)


def moment(text: str) -> str:
    """Check a `--since`: a date, or the beginning of an ISO time in UTC. Raises ProfkitError."""
    if text and not _is_date(text):
        raise ProfkitError(f"--since {text}: no date", fix="give a date as in 2026-11-22 or 2026-11-22T08:00")
    return text


def _is_date(text: str) -> bool:
    """Whether a text is the beginning of an ISO time, of a day and an hour that there are."""
    if not re.fullmatch(r"\d{4}(-\d\d(-\d\d(T[\d:]*Z?)?)?)?", text):
        return False
    given = text.rstrip("TZ:")
    with contextlib.suppress(ValueError):
        datetime.fromisoformat(given + "2000-01-01T00:00:00"[len(given) :])
        return True
    return False


def _connect(folder: Path) -> sqlite3.Connection:
    with contextlib.suppress(sqlite3.OperationalError, OSError):
        file = file_of(folder)
        file.parent.mkdir(parents=True, exist_ok=True)
        return _opened(file)
    return _prepared(sqlite3.connect(":memory:"))


def file_of(folder: Path) -> Path:
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return cache.root() / "index" / f"{digest}.sqlite"


def _opened(file: Path) -> sqlite3.Connection:
    """Open the file; make a damaged one anew. Raises sqlite3.OperationalError."""
    base = sqlite3.connect(file, timeout=WAIT, isolation_level=None)
    try:
        return _prepared(base)
    except sqlite3.OperationalError:
        base.close()
        raise
    except sqlite3.DatabaseError:
        base.close()
        file.unlink()
        return _prepared(sqlite3.connect(file, timeout=WAIT, isolation_level=None))


def _prepared(base: sqlite3.Connection) -> sqlite3.Connection:
    """A writable database with the table of this version."""
    base.isolation_level = None
    base.execute("pragma synchronous = off")
    base.execute("begin immediate")
    if base.execute("pragma user_version").fetchone()[0] != _VERSION + _CONTENT:
        base.execute("drop table if exists runs")
        base.execute(_DDL)
        base.execute(f"pragma user_version = {_VERSION + _CONTENT}")
    base.execute("commit")
    return base


def _scan(folder: Path, known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
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
    for name in ("run.json", "metrics.json", "report.html"):
        try:
            stat = os.stat(f"{run}/{name}")
            parts.append(f"{stat.st_mtime_ns} {stat.st_size}")
        except OSError:
            if not parts:
                return ""
            parts.append("-")
    return " ".join(parts)


def _pair(record: Sequence[Any]) -> tuple[str, str]:
    """Raises msgspec.ValidationError for a cell of another type, as the two below."""
    return msgspec.convert(record, tuple[str, str])


def _rows(record: Sequence[Any]) -> list[Row]:
    return msgspec.msgpack.decode(record[0], type=list[Row])


def _facts(record: Sequence[Any]) -> tuple[str, dict[str, Facts]]:
    return str(record[0]), msgspec.msgpack.decode(record[1], type=dict[str, Facts])
