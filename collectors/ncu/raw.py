"""ncu's raw page: a row a launch, a column a metric, the first row below the header its units.

Big files are the rule (thousands of launches, hundreds of columns): rows are checked one by one for
wholeness, then only the columns asked for go through pandas, a chunk at a time.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from collectors.doubt import Doubt
from collectors.errors import CollectError
from collectors.ncu.launches import DEVICE_NAME, KEYS, Launches, chip, dimensions, objects, ranges_of
from collectors.ncu.text import DAMAGED, Row, Scan, Table
from collectors.numbers import MISSING, Evidence, base_unit, is_number, parse, scale
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
_EVIDENCE_CELLS = 50_000


def nvtx_columns(header: list[str]) -> tuple[int | None, int | None]:
    """Where the push/pop and the start/stop ranges are."""
    push = next((i for i, name in enumerate(header) if "Push/Pop_Range" in name), None)
    start = next((i for i, name in enumerate(header) if "Start/Stop_Range" in name), None)
    return push, start


@dataclass
class _Open:
    """The table being read: which columns matter, their units, and rows not yet converted."""

    table: Table
    wanted: dict[int, str]
    words: set[int]
    units: dict[int, str] = field(default_factory=dict)
    rows: list[bytes] = field(default_factory=list)
    size: int = 0
    fed: int = 0
    started: bool = False


@dataclass
class _Part:
    """Converted rows of one table: identities and metrics, still text while the decimal mark is open."""

    keys: dict[str, NDArray[np.object_]]
    columns: dict[str, pd.Series]
    factors: dict[str, float]

    @property
    def rows(self) -> int:
        return len(self.keys["launch"])


class RawReader:
    """Collects the raw tables of one file.

    wanted: says of a metric name whether it is worth a column. keep_text: a column without any number is kept
    as text (Launches.texts) instead of refused.
    """

    def __init__(self, scan: Scan, wanted: Callable[[str], bool], *, keep_text: bool = False) -> None:
        self._scan = scan
        self._keep_text = keep_text
        self._wanted = wanted
        self._evidence = Evidence(str(scan.path))
        self._open: _Open | None = None
        self._parts: list[_Part] = []
        self._pool: ThreadPoolExecutor | None = None
        self._job: Future[_Part] | None = None
        self._doubts: dict[str, Doubt] = {}
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
            if self._is_units(row):
                state.units = dict(enumerate(row.fields()))
                return
            self._doubt(
                "the export has no row of units",
                "every value is taken as ncu's base unit (ns, byte, Hz)",
                "export again with --csv --page raw --print-units base",
            )
        if state.fed < _EVIDENCE_CELLS:
            self._feed(row)
        state.rows.append(row.data)
        state.size += len(row.data)
        if state.size >= _CHUNK:
            self._flush(wait=False)

    def result(self) -> Launches:
        """All launches of the file; raises CollectError where a cell is no number or the locale is open."""
        self._flush()
        mark = self._evidence.settle()
        names = list(dict.fromkeys(name for part in self._parts for name in part.columns))
        texts = {name: self._texts(name) for name in names if self._keep_text and self._is_text(name, mark)}
        metrics: dict[str, Column] = {
            name: np.concatenate([self._numbers(part, name, mark) for part in self._parts])
            for name in names
            if name not in texts
        }
        keys = {key: np.concatenate([part.keys[key] for part in self._parts]) for key in KEYS} if self._parts else {}
        return Launches(keys, metrics, list(self._doubts.values()), texts=texts, untaken=[*self._untaken])

    def _columns(self, table: Table) -> dict[int, str]:
        push, start = nvtx_columns(table.header)
        if strange := [one for one in table.header if one not in KEY_COLUMNS and _STRANGE.search(one)]:
            what = f"columns that ncu does not name so are left out: {', '.join(strange[:4])}"
            self._doubt(what, f"{len(strange)} columns", "give the file as ncu wrote it")
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

    def _is_units(self, row: Row) -> bool:
        if not row.data.startswith((b'"",', b",")):
            return False
        return not any(row.fields()[:2])

    def _feed(self, row: Row) -> None:
        state = self._open
        if state is None:
            return
        keys = {
            *KEY_COLUMNS,
            *(state.table.header[i] for i in nvtx_columns(state.table.header) if i is not None),
        }
        cells = row.fields()
        for name, cell in zip(state.table.header, cells, strict=True):
            if name not in keys:
                self._evidence.feed(cell)
        state.fed += len(cells)

    def _flush(self, *, wait: bool = True) -> None:
        """Converts the rows held; unless wait, beside the reading of the next ones, one chunk at a time."""
        if self._job is not None:
            self._parts.append(self._job.result())
            self._job = None
        state = self._open
        if state is None or not state.rows:
            return
        data, state.rows, state.size = b"\n".join(state.rows), [], 0
        factors = {
            name: self._factor(name, state.units.get(i, "") if state.units else base_unit(name))
            for i, name in state.wanted.items()
            if i not in state.words
        }
        if not self._evidence.decided:
            part = self._convert(data, state, factors, as_text=True)
            for cell in (cell for column in part.columns.values() for cell in column):
                self._evidence.feed(cell)
            self._parts.append(part)
        elif wait:
            self._parts.append(self._convert(data, state, factors))
        else:
            self._pool = self._pool or ThreadPoolExecutor(max_workers=1)
            self._job = self._pool.submit(self._convert, data, state, factors)

    def _convert(self, data: bytes, state: _Open, factors: dict[str, float], *, as_text: bool = False) -> _Part:
        names = [str(i) for i in range(len(state.table.header))]
        places = [names[i] for i in state.wanted]
        words = [names[i] for i in sorted(state.words)]
        numbers = [name for name in places if name not in words]
        read = pd.read_csv(
            io.BytesIO(data),
            header=None,
            names=names,
            usecols=places,
            dtype=dict.fromkeys(places if as_text else words, object),
            na_values={} if as_text else {name: sorted(MISSING) for name in numbers},
            keep_default_na=False,
            na_filter=not as_text,
            thousands=self._evidence.group or None if not as_text else None,
            decimal=self._evidence.decided or ".",
            encoding="utf-8",
            encoding_errors="replace",
            low_memory=False,
        )
        keys = self._keys(state.table, {state.wanted[int(i)]: read[i] for i in words}, len(read))
        return _Part(keys, {state.wanted[int(i)]: read[i] for i in numbers}, factors)

    def _keys(self, table: Table, columns: dict[str, pd.Series], rows: int) -> dict[str, NDArray[np.object_]]:
        push, start = (table.header[i] if i is not None else "" for i in nvtx_columns(table.header))

        def column(name: str, convert: Callable[[str], Any] = str) -> NDArray[np.object_]:
            if name not in columns:
                return objects([convert("")] * rows)
            codes, words = pd.factorize(columns[name])
            return objects([convert(word) for word in words])[codes]

        pushed, started = column(push, ranges_of), column(start, ranges_of)
        return {
            "launch": column("ID", self._launch),
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

    def _launch(self, cell: str) -> int:
        digits = cell.replace(",", "").replace(".", "").replace(" ", "")
        if not digits.isdigit():
            raise CollectError(f"{self._scan.path}: field ID: {cell!r} is not a number", fix=DAMAGED)
        return int(digits)

    def _factor(self, name: str, unit: str) -> float:
        factor = scale(unit)
        if factor is not None:
            return factor
        self._doubt(f"unit {unit!r} of {name} is unknown", "the metric is left out", "export with --print-units base")
        return float("nan")

    def _numbers(self, part: _Part, name: str, mark: str) -> Column:
        if name not in part.columns:
            return np.full(part.rows, np.nan)
        column = part.columns[name]
        if pd.api.types.is_numeric_dtype(column.dtype):
            return np.asarray(column.to_numpy(dtype=np.float64) * part.factors[name])
        codes, words = pd.factorize(column)
        values = np.array([*(self._number(name, word, mark) for word in words), math.nan], dtype=np.float64)
        return values[codes] * part.factors[name]

    def _is_text(self, name: str, mark: str) -> bool:
        """Whether a column has cells, but not one number."""
        cells = [cell for part in self._parts if name in part.columns for cell in _cells(part.columns[name])]
        return bool(cells) and not any(is_number(cell, mark) for cell in cells)

    def _texts(self, name: str) -> list[str]:
        return [
            cell if isinstance(cell, str) else ""
            for part in self._parts
            for cell in (part.columns[name] if name in part.columns else [""] * part.rows)
        ]

    def _number(self, name: str, cell: object, mark: str) -> float:
        try:
            return float(str(cell)) if isinstance(cell, int | float) else parse(str(cell), mark)
        except ValueError as error:
            raise CollectError(f"{self._scan.path}: field {name}: {error}", fix=DAMAGED) from error

    def _doubt(self, what: str, how_much: str, fix: str) -> None:
        self._doubts.setdefault(what, Doubt(what, how_much, fix))


def _cells(column: pd.Series) -> Iterator[str]:
    """The non-missing text cells of a column; one stand-in number for a column that is numeric already."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        yield "0"
        return
    yield from (cell for cell in pd.unique(column) if isinstance(cell, str) and cell.strip() not in MISSING)
