"""ncu's raw page: a row a launch, a column a metric, the first row its units.

Only the columns asked for go through pandas, a chunk at a time, and each distinct cell is parsed once.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from collectors.caveat import Caveat
from collectors.errors import CollectError
from collectors.ncu.launches import DEVICE_NAME, KEYS, Launches, chip, dimensions, objects, ranges_of
from collectors.ncu.text import DAMAGED, Row, Scan, Table
from collectors.numbers import MISSING, Evidence, base_unit, parse, scale
from collectors.recipes import Column

KEY_COLUMNS = (
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Kernel Time",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
)
_STRANGE = re.compile(r"^[^_:]*$|\.\d+$")
"""What is no metric's name, nor a range's: a spreadsheet's own."""
_CHUNK = 16 << 20


def nvtx_columns(header: list[str]) -> tuple[int | None, int | None]:
    """Where the push/pop and the start/stop ranges are."""
    push = next((i for i, name in enumerate(header) if "Push/Pop_Range" in name), None)
    start = next((i for i, name in enumerate(header) if "Start/Stop_Range" in name), None)
    return push, start


def launch_number(cell: str, where: str) -> int:
    """The number of a launch, in any locale; raises CollectError that begins with `where`."""
    digits = cell.replace(",", "").replace(".", "").replace(" ", "")
    if not digits.isdigit():
        raise CollectError(f"{where}: field ID: {cell!r} is not a number", fix=DAMAGED)
    return int(digits)


@dataclass
class _Open:
    """The table being read: which columns matter, their units, and rows not yet converted."""

    table: Table
    wanted: dict[int, str]
    words: set[int]
    units: dict[int, str] = field(default_factory=dict)
    rows: list[bytes] = field(default_factory=list)
    size: int = 0
    started: bool = False


@dataclass
class _Part:
    """Rows of one table: identities, and metrics as codes and distinct cells."""

    keys: dict[str, NDArray[np.object_]]
    columns: dict[str, tuple[Any, Any]]
    factors: dict[str, float]

    @property
    def rows(self) -> int:
        return len(self.keys["launch"])


class RawReader:
    """Collector of the raw tables of one file. wanted: whether a metric is worth a column."""

    def __init__(self, scan: Scan, wanted: Callable[[str], bool]) -> None:
        self._scan = scan
        self._wanted = wanted
        self._evidence = Evidence(str(scan.path))
        self._open: _Open | None = None
        self._parts: list[_Part] = []
        self._caveats: dict[str, Caveat] = {}
        self._untaken: dict[str, None] = {}

    def add(self, row: Row) -> None:
        """Takes a row of a raw table."""
        if self._open is None or self._open.table is not row.table:
            self._flush()
            wanted = self._columns(row.table)
            ranges = nvtx_columns(row.table.header)
            words = {i for i, name in wanted.items() if name in KEY_COLUMNS or name == DEVICE_NAME or i in ranges}
            self._open = _Open(row.table, wanted, words)
        state = self._open
        if not state.started:
            state.started = True
            if row.data.startswith((b'"",', b",")) and not any(row.fields()[:2]):
                state.units = dict(enumerate(row.fields()))
                return
            self._caveat(
                "the export has no row of units",
                "every value is taken as ncu's base unit (ns, byte, Hz)",
                "export again with --csv --page raw --print-units base",
            )
        state.rows.append(row.data)
        state.size += len(row.data)
        if state.size >= _CHUNK:
            self._flush()

    def result(self) -> Launches:
        """All launches of the file; raises CollectError for no number or an open locale."""
        self._flush()
        mark = self._evidence.settle()
        names = list(dict.fromkeys(name for part in self._parts for name in part.columns))
        metrics: dict[str, Column] = {
            name: np.concatenate([self._numbers(part, name, mark) for part in self._parts]) for name in names
        }
        keys = {key: np.concatenate([part.keys[key] for part in self._parts]) for key in KEYS} if self._parts else {}
        return Launches(keys, metrics, list(self._caveats.values()), untaken=[*self._untaken])

    def _columns(self, table: Table) -> dict[int, str]:
        push, start = nvtx_columns(table.header)
        if strange := [one for one in table.header if one not in KEY_COLUMNS and _STRANGE.search(one)]:
            what = f"columns that ncu does not name so are left out: {', '.join(strange[:4])}"
            self._caveat(what, f"{len(strange)} columns", "give the file as ncu wrote it")
        keys = {*KEY_COLUMNS, DEVICE_NAME}
        places = dict(enumerate(table.header))
        chosen = {i: name for i, name in places.items() if name in keys or i in (push, start)}
        taken = set(chosen.values())
        for i, name in places.items():
            if name not in taken and self._wanted(name) and not name.startswith("derived__"):
                chosen[i] = name
                taken.add(name)
            elif "__" in name and name not in taken:
                self._untaken[name] = None
        return dict(sorted(chosen.items()))

    def _flush(self) -> None:
        """Converts the rows held."""
        state = self._open
        if state is None or not state.rows:
            return
        data, state.rows, state.size = b"\n".join(state.rows), [], 0
        factors = {
            name: self._factor(name, state.units.get(i, "") if state.units else base_unit(name))
            for i, name in state.wanted.items()
            if i not in state.words
        }
        read = pd.read_csv(
            io.BytesIO(data),
            header=None,
            names=[str(i) for i in range(len(state.table.header))],
            usecols=[str(i) for i in state.wanted],
            dtype=object,
            keep_default_na=False,
            na_filter=False,
            encoding="utf-8",
            encoding_errors="replace",
            low_memory=False,
        )
        words = {state.wanted[i]: read[str(i)] for i in sorted(state.words)}
        columns = {name: pd.factorize(read[str(i)]) for i, name in state.wanted.items() if i not in state.words}
        for _, cells in columns.values():
            for cell in cells:
                self._evidence.feed(cell)
        self._parts.append(_Part(self._keys(state.table, words, len(read)), columns, factors))

    def _keys(self, table: Table, columns: dict[str, pd.Series], rows: int) -> dict[str, NDArray[np.object_]]:
        push, start = (table.header[i] if i is not None else "" for i in nvtx_columns(table.header))

        def column(name: str, convert: Callable[[str], Any] = str) -> NDArray[np.object_]:
            if name not in columns:
                return objects([convert("")] * rows)
            codes, words = pd.factorize(columns[name])
            return objects([convert(word) for word in words])[codes]

        pushed, started = column(push, ranges_of), column(start, ranges_of)
        return {
            "launch": column("ID", lambda cell: launch_number(cell, str(self._scan.path))),
            "process": column("Process ID"),
            "kernel": column("Kernel Name"),
            "stream": column("Stream"),
            "grid": column("Grid Size", dimensions),
            "block": column("Block Size", dimensions),
            "device": column("Device"),
            "gpu": column(DEVICE_NAME, lambda word: "" if word in MISSING else word),
            "cc": column("CC", chip),
            "ranges": objects([one or other for one, other in zip(pushed, started, strict=True)]),
        }

    def _factor(self, name: str, unit: str) -> float:
        factor = scale(unit)
        if factor is not None:
            return factor
        self._caveat(f"unit {unit!r} of {name} is unknown", "the metric is left out", "export with --print-units base")
        return float("nan")

    def _numbers(self, part: _Part, name: str, mark: str) -> Column:
        if name not in part.columns:
            return np.full(part.rows, np.nan)
        codes, cells = part.columns[name]
        values = np.array([self._number(name, cell, mark) for cell in cells], dtype=np.float64)
        column: Column = values[codes] * part.factors[name]
        return column

    def _number(self, name: str, cell: str, mark: str) -> float:
        try:
            return parse(cell, mark)
        except ValueError as error:
            raise CollectError(f"{self._scan.path}: field {name}: {error}", fix=DAMAGED) from error

    def _caveat(self, what: str, how_much: str, fix: str) -> None:
        self._caveats.setdefault(what, Caveat(what, how_much, fix))
