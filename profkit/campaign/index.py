"""An index over run directories: ten thousand of them listed, filtered and ranked in a moment.

One SQLite file for each folder of runs, in profkit's cache: the folder itself is only read. It holds nothing of its own: a row is what run.json and metrics.json say of one implementation, made again when one of them changes, and the
whole file is made again when the columns change or the file is damaged. It may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
import sqlite3
import subprocess
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from analyzers.verdict import PACED, SPOILS, Condition, Evidence, Verdict, decide
from collectors.doubt import Doubt
from profkit.errors import ProfkitError
from profkit.launch import cache
from profkit.rundir.manifest import Impl, Manifest, read_manifest

NAN = math.nan
WAIT = 10.0
"""Seconds to wait for another process that is writing the index."""
_BUSY = re.compile("locked|full|readonly|unable to open|disk I/O")
"""What SQLite says of a base that may be whole."""


class Row(msgspec.Struct, frozen=True):
    """One implementation of one run, in SI units; NaN and "" where it is not known.

    `path`: of the run, relative to the folder. `status`: of the run; `state`, `reason`: of the implementation.
    `source`: hash of its file. `word`: its verdict, "" for what is not judged (a reference, a range); `line`: the
    verdict as a sentence, `line_zh` in Chinese; `wins`: it counts as faster. `floor`: time over the floor; `share`: of the attainable.
    `doubts`: those about it or about the whole run. `page`: 1 where the run has a report.html.
    """

    path: str
    sample: str
    kind: str
    created: str
    status: str
    profkit: str
    device: str
    uuid: str
    driver: str
    impl: str
    role: str
    state: str = ""
    reason: str = ""
    source: str = ""
    word: str = ""
    line: str = ""
    line_zh: str = ""
    wins: int = 0
    speedup: float = NAN
    low: float = NAN
    high: float = NAN
    time: float = NAN
    time_low: float = NAN
    time_high: float = NAN
    floor: float = NAN
    share: float = NAN
    intensity: float = NAN
    flops: float = NAN
    bandwidth: float = NAN
    compute: str = ""
    bound: str = ""
    method: str = ""
    doubts: tuple[str, ...] = ()
    page: int = 0

    @property
    def judged(self) -> bool:
        return self.word != ""


FIELDS = Row.__struct_fields__
_REALS = [name for name in FIELDS if Row.__annotations__[name] == "float"]
_Read = TypeVar("_Read")
_DDL = (
    "create table runs (path text primary key, stamp text not null, damage text not null)",
    f"create table rows ({', '.join(FIELDS)}, facts)",
    "create index rows_path on rows (path)",
    "create index rows_sample on rows (sample, created)",
)
_VERSION = zlib.crc32("\n".join(_DDL).encode()) & 0x7FFFFFFF
_CONTENT = 2
"""Counted up when the same files give other values."""

SORTS = {
    "created": ("created desc", "path desc"),
    "time": ("time is null", "time"),
    "floor": ("floor is null", "floor"),
    "share": ("share is null", "share desc"),
    "speedup": ("speedup is null", "word = 'faster' and not wins", "speedup desc"),
}
"""What a list can be ranked by, the first the newest, the shortest, the nearest to its floor and to what is attainable,
the fastest; a speed-up that counts as none stands behind those that count."""
COMPARED = (*PACED, "undecided")
"""Verdicts whose interval is of use; a speed-up of any other is not kept."""


class _Figures(msgspec.Struct):
    """A row of metrics.json's `impls`, as much as the index keeps."""

    impl: str
    time: float | None = None
    time_low: float | None = None
    time_high: float | None = None
    method: str = ""
    l2: str = ""
    host_time: float | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    verdict: str = ""
    flops: float | None = None
    bytes: float | None = None
    achieved_flops: float | None = None
    dram_bandwidth: float | None = None
    intensity: float | None = None
    attainable_fraction: float | None = None
    compute: str = ""
    bound_by: str = ""
    floor_ratio: float | None = None
    kernels: float | None = None


class _Kernel(msgspec.Struct):
    """A row of `kernels`: what may change with a time."""

    impl: str = ""
    kernel: str = ""
    time: float | None = None
    grid: str = ""
    block: str = ""
    launches: float | None = None
    sm_clock: float | None = None
    dram_clock: float | None = None
    l2_bytes: float | None = None
    occupancy: float | None = None
    registers: float | None = None
    shared_memory: float | None = None


class _Said(msgspec.Struct):
    """A recorded verdict."""

    impl: str
    word: str
    kind: str = ""
    why: str = ""
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    conditions: list[Any] = []
    line: str = ""

    @property
    def chinese(self) -> str:
        """The sentence in Chinese; as it was recorded where it is of a version that says it otherwise."""
        with contextlib.suppress(msgspec.ValidationError, KeyError):
            held = tuple(msgspec.convert(self.conditions, list[Condition]))
            low, high = _number(self.low), _number(self.high)
            one = Verdict(self.impl, self.word, self.kind, self.why, _number(self.speedup), low, high, held)
            return one.text("zh")
        return self.line

    @property
    def wins(self) -> int:
        codes = [one.get("code") if isinstance(one, dict) else one for one in self.conditions]
        return int(self.word == "faster" and not any(code in SPOILS for code in codes))


METRICS = "profkit-metrics/1"
"""The schema of metrics.json (analyzers.analysis.SCHEMA, which comes with pandas)."""


class _Metrics(msgspec.Struct):
    schema: str = METRICS
    impls: list[_Figures] = []
    kernels: list[_Kernel] = []
    doubts: list[Doubt] | None = None
    verdicts: list[_Said] = []


class Index:
    """The runs below `folder`, as rows. Use as a context manager; `refresh` looks at the disk, the rest does not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._base = _connect(folder)

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._base.close()

    def refresh(self) -> int:
        """Bring the rows up to date with the disk; how many runs were read again."""
        known = dict(self._asked("select path, stamp from runs", _pair))
        found = dict(_scan(self.folder, known))
        # Those that ran may have been killed since: nothing of theirs on the disk tells.
        ran = {path for (path,) in self._asked("select distinct path from rows where status = 'running'", tuple)}
        stale = [path for path, stamp in found.items() if known.get(path) != stamp or path in ran]
        gone = [path for path in known if path not in found]
        if stale or gone:
            try:
                self._write(gone, stale, found)
            except sqlite3.DatabaseError as error:
                self._anew(error)
        return len(stale)

    def _anew(self, error: sqlite3.DatabaseError | msgspec.DecodeError) -> None:
        """The same rows for this time alone, where the file is full, locked or damaged; one that is damaged goes."""
        self._base.close()
        if not _BUSY.search(str(error)):
            with contextlib.suppress(OSError):
                file_of(self.folder).unlink()
        self._base = _prepared(sqlite3.connect(":memory:"))
        found = dict(_scan(self.folder, {}))
        self._write([], list(found), found)

    def _asked(self, query: str, read: Callable[[Any], _Read], values: Sequence[object] = ()) -> list[_Read]:
        """The records that answer a query. Pages and cells that are damaged are found out when they are read."""
        try:
            return [read(record) for record in self._base.execute(query, values)]
        except (sqlite3.DatabaseError, msgspec.DecodeError) as error:
            self._anew(error)
            return [read(record) for record in self._base.execute(query, values)]

    def _write(self, gone: Sequence[str], stale: Sequence[str], stamps: Mapping[str, str]) -> None:
        with self._base:
            self._base.execute("begin immediate")
            self._base.executemany("delete from rows where path = ?", ((path,) for path in (*gone, *stale)))
            self._base.executemany("delete from runs where path = ?", ((path,) for path in gone))
            marks = ", ".join("?" * (len(FIELDS) + 1))
            for path in stale:
                damage, rows = _read(self.folder, path)
                self._base.execute("insert or replace into runs values (?, ?, ?)", (path, stamps[path], damage))
                self._base.executemany(f"insert into rows values ({marks})", rows)

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
        wanted = {
            "sample glob ?": [sample.replace("[", "[[]")] if sample else [],
            "instr(lower(device), ?)": [device.lower()] if device else [],
            "created >= ?": [since] if since else [],
            f"word in ({', '.join('?' * len(words))})": list(words),
            "word <> ?": [] if words else ["skipped"],
            "role <> ?": [] if references else ["reference"],
        }
        where = " and ".join(term for term, values in wanted.items() if values) or "1"
        values = [value for values in wanted.values() for value in values]
        order = ", ".join((*SORTS[sort], "created desc", "path desc", "rowid"))
        query = f"select {', '.join(FIELDS)} from rows where {where} order by {order}"
        return self._asked(query, _row, values)

    def facts(self, sample: str) -> dict[tuple[str, str], dict[str, Any]]:
        """(path, implementation) -> what else is known of it: versions, clocks, counters; of one sample."""
        query = "select path, impl, facts from rows where sample = ?"
        return dict(self._asked(query, _known, (sample,)))

    def damaged(self) -> list[tuple[str, str]]:
        """(path, why) of the runs that cannot be read, or only in part."""
        return self._asked("select path, damage from runs where damage <> '' order by path", _pair)

    def first_of(self, version: str) -> str:
        """When the first run of a version of profkit was made, "" when there is none."""
        query = "select path, created from rows where profkit = ? order by created limit 1"
        return next((created for _, created in self._asked(query, _pair, (version,))), "")


def moment(text: str, index: Index) -> str:
    """`--since`: a date, a tag or commit of the repository one stands in, or a version of profkit -> ISO time, UTC.

    Raises ProfkitError when it is none of them.
    """
    if not text or _is_date(text):
        return text
    for version in (text, text.removeprefix("v")):
        if first := index.first_of(version):
            return first
    with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
        line = ["git", "log", "-1", "--format=%cI", "--end-of-options", text, "--"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=30)
        if done.returncode == 0:
            utc = datetime.fromisoformat(done.stdout.strip()).astimezone(timezone.utc)
            return utc.strftime("%Y-%m-%dT%H:%M:%SZ")
    raise ProfkitError(
        f"--since {text}: no date, no tag or commit here, and no run was made by such a version of profkit",
        fix="give a date as in 2026-11-22, a tag of this repository, or a version as in 0.1.0",
    )


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
    """In the cache, else in memory."""
    with contextlib.suppress(sqlite3.OperationalError, OSError):
        file = file_of(folder)
        file.parent.mkdir(parents=True, exist_ok=True)
        return _opened(file)
    return _prepared(sqlite3.connect(":memory:"))


def file_of(folder: Path) -> Path:
    """Where the index of a folder of runs lies."""
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return cache.root() / "index" / f"{digest}.sqlite"


def _opened(file: Path) -> sqlite3.Connection:
    """The base in a file; one that is damaged or of other columns is made anew. Raises sqlite3.OperationalError."""
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
    """With the tables of this version, those of others dropped; it can be written."""
    base.isolation_level = None
    base.execute("pragma synchronous = off")
    base.execute("begin immediate")
    if base.execute("pragma user_version").fetchone()[0] != _VERSION + _CONTENT:
        for table in ("runs", "rows"):
            base.execute(f"drop table if exists {table}")
        for line in _DDL:
            base.execute(line)
        base.execute(f"pragma user_version = {_VERSION + _CONTENT}")
    base.execute("commit")
    return base


def _scan(folder: Path, known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(relative path, stamp) of each run; the directories of known runs are not listed again, hidden ones never."""
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
    try:
        stat = os.stat(f"{run}/run.json")
    except OSError:
        return ""
    parts = f"{stat.st_mtime_ns} {stat.st_size}"
    for name in ("metrics.json", "report.html"):
        try:
            stat = os.stat(f"{run}/{name}")
            parts += f" {stat.st_mtime_ns} {stat.st_size}"
        except OSError:
            parts += " -"
    return parts


def _read(folder: Path, path: str) -> tuple[str, list[tuple[Any, ...]]]:
    """(what is damaged, the records of its rows)."""
    run = folder / path
    try:
        manifest = read_manifest(run / "run.json")
    except ProfkitError as error:
        return str(error), []
    damage, metrics = "", _Metrics()
    try:
        metrics = msgspec.json.decode((run / "metrics.json").read_bytes(), type=_Metrics)
    except FileNotFoundError:
        pass
    except (OSError, msgspec.DecodeError) as error:
        damage = f"{run / 'metrics.json'}: {error}"
    if metrics.schema != METRICS:
        damage = f"{run / 'metrics.json'}: field schema: {metrics.schema!r}, expected {METRICS!r}; use a newer profkit"
        metrics = _Metrics()
    page = int((run / "report.html").exists())
    return damage, [_record(*one) for one in _rows(path, manifest, metrics, page)]


def _rows(path: str, manifest: Manifest, metrics: _Metrics, page: int) -> Iterator[tuple[Row, dict[str, Any]]]:
    """A row each implementation, or each range of what has none; a run with neither has one, so that it is seen."""
    figures = {one.impl: one for one in metrics.impls}
    doubts = manifest.doubts if metrics.doubts is None else metrics.doubts
    hottest = {one.impl: one for one in sorted(metrics.kernels, key=lambda kernel: kernel.time or 0.0)}
    device = {key: str(manifest.device.get(key) or "") for key in ("name", "uuid", "driver")}
    impls = {one.name: one for one in manifest.impls}
    for name in impls or figures or [""]:
        impl, own = impls.get(name), figures.get(name, _Figures(name))
        said = _said(manifest, impl, own, metrics)
        row = Row(
            path=path,
            sample=manifest.sample.id,
            kind=manifest.sample.kind,
            created=manifest.created,
            status=manifest.status,
            profkit=manifest.profkit,
            device=device["name"],
            uuid=device["uuid"],
            driver=device["driver"],
            impl=name,
            role=impl.role if impl is not None else "range",
            state=impl.status if impl is not None else "",
            reason=impl.reason if impl is not None else "",
            source=_source(manifest, impl),
            word=said.word,
            line=said.line,
            line_zh=said.chinese if said.line else "",
            wins=said.wins,
            speedup=_number(said.speedup) if said.word in COMPARED else NAN,
            low=_number(said.low) if said.word in COMPARED else NAN,
            high=_number(said.high) if said.word in COMPARED else NAN,
            time=_number(own.time),
            time_low=_number(own.time_low),
            time_high=_number(own.time_high),
            floor=_number(own.floor_ratio),
            share=_number(own.attainable_fraction),
            intensity=_number(own.intensity),
            flops=_number(own.achieved_flops),
            bandwidth=_number(own.dram_bandwidth),
            compute=own.compute,
            bound=own.bound_by,
            method=own.method,
            doubts=tuple(one.what for one in doubts if one.about in ("", name)),
            page=page,
        )
        yield row, _facts(manifest, own, hottest.get(name))


def _said(manifest: Manifest, impl: Impl | None, own: _Figures, metrics: _Metrics) -> _Said:
    """The verdict: as recorded, else by the same rules from what was recorded of old; no word for what has none."""
    if impl is None or impl.role != "candidate":
        return _Said(own.impl, "")
    said = next((one for one in metrics.verdicts if one.impl == impl.name), None)
    if said is not None:
        return said
    old = _of_old(manifest, impl, own)
    return _Said(
        impl.name,
        old.word,
        old.kind,
        old.why,
        old.speedup,
        old.low,
        old.high,
        msgspec.to_builtins(old.conditions),
        old.text(),
    )


def _of_old(manifest: Manifest, impl: Impl, own: _Figures) -> Verdict:
    """The verdict of a run that recorded none: from its status, its probe and the word beside its speed-up."""
    if impl.ok and own.verdict == "impossible":
        return Verdict(impl.name, "impossible", "below the floor, as recorded")
    return decide(
        Evidence(
            impl=impl.name,
            status=impl.status,
            reason=impl.reason,
            unsound=tuple(f"{one.tool}: {one.kind} in {one.kernel}" for one in impl.unsound),
            passing=tuple(manifest.probe.get("passing", ())),
            random=bool(manifest.probe.get("random", False)),
            ratio=own.verdict,
            speedup=_number(own.speedup),
            low=_number(own.speedup_low),
            high=_number(own.speedup_high),
            time=_number(own.time),
        )
    )


def _facts(manifest: Manifest, own: _Figures, kernel: _Kernel | None) -> dict[str, Any]:
    """What may explain a change of the time; a number in SI units, or a word. Nothing that is not known."""
    facts: dict[str, Any] = {
        **{f"version of {name}": text for name, text in manifest.versions.items()},
        "version of ncu": manifest.counters.version,
        "inputs": ", ".join(manifest.inputs),
        "precision": manifest.precision,
        "isolated": "yes" if manifest.isolated else "no",
        "l2": own.l2,
        "kernels": own.kernels,
        "work": own.flops,
        "DRAM bytes": own.bytes,
        "host time": own.host_time,
    }
    if kernel is not None:
        longest = msgspec.structs.asdict(kernel)
        facts |= {_COUNTER[name]: longest[name] for name in _COUNTER}
    return {name: value for name, value in facts.items() if value not in ("", None)}


_COUNTER = {
    "kernel": "longest kernel",
    "grid": "its grid",
    "block": "its block",
    "launches": "its launches",
    "sm_clock": "SM clock",
    "dram_clock": "DRAM clock",
    "l2_bytes": "its L2 bytes",
    "occupancy": "its occupancy",
    "registers": "its registers",
    "shared_memory": "its shared memory",
}


def _source(manifest: Manifest, impl: Impl | None) -> str:
    """The hash of an implementation's file as it was measured."""
    if impl is None:
        return ""
    files = manifest.sample.files
    named = files.get(impl.name) or next((one for one in files.values() if one.path == impl.file), None)
    return named.sha256 if named is not None else ""


def _record(row: Row, facts: Mapping[str, Any]) -> tuple[Any, ...]:
    """A row as SQLite holds it: NaN as null, doubts in one text."""
    cells = msgspec.structs.asdict(row)
    cells["doubts"] = "\n".join(row.doubts)
    for name in _REALS:
        cells[name] = cells[name] if math.isfinite(cells[name]) else None
    return (*cells.values(), msgspec.json.encode(facts).decode())


def _pair(record: Sequence[Any]) -> tuple[str, str]:
    """Raises msgspec.ValidationError where a cell is of another type, as do the two below."""
    return msgspec.convert(record, tuple[str, str])


def _known(record: Sequence[Any]) -> tuple[tuple[str, str], dict[str, Any]]:
    path, impl, facts = msgspec.convert(record, tuple[str, str, str])
    return (path, impl), msgspec.json.decode(facts, type=dict[str, Any])


def _row(record: Sequence[Any]) -> Row:
    cells = dict(zip(FIELDS, record, strict=True))
    doubts = msgspec.convert(cells["doubts"], str)
    cells["doubts"] = doubts.split("\n") if doubts else ()
    for name in _REALS:
        cells[name] = NAN if cells[name] is None else cells[name]
    return msgspec.convert(cells, Row)


def _number(value: float | None) -> float:
    return NAN if value is None else value
