"""ncu's details page: a row a metric of a launch; the rules among them are passed over.

It prints two decimals of a scaled unit, so every frame from it carries a caveat.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from collectors.caveat import Caveat
from collectors.errors import CollectError
from collectors.ncu.labels import metric_of
from collectors.ncu.launches import Identity, Launches, chip, dimensions, keys_of, ranges_of
from collectors.ncu.raw import launch_number, nvtx_columns
from collectors.ncu.text import DAMAGED, Row, Scan, Table
from collectors.numbers import Evidence, parse, scale

ROUNDED = Caveat(
    "the details page rounds to two decimals of a scaled unit",
    "up to 0.5 % of a value, more where it prints 0.00",
    "export the same report with --page raw --print-units base",
)


@dataclass
class _Launch:
    identity: Identity
    line: int
    cells: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass
class _Places:
    """Where the columns of one table are."""

    table: Table
    at: dict[str, int]
    push: int | None
    start: int | None

    def cell(self, cells: list[str], name: str) -> str:
        place = self.at.get(name)
        return cells[place] if place is not None and place < len(cells) else ""


class DetailsReader:
    """Collector of the details tables of one file. wanted: see RawReader."""

    def __init__(self, scan: Scan, wanted: Callable[[str], bool]) -> None:
        self._scan = scan
        self._wanted = wanted
        self._evidence = Evidence(str(scan.path))
        self._launches: dict[tuple[int, str, str], _Launch] = {}
        self._places: _Places | None = None
        self._untaken: dict[str, None] = {}
        self._caveats: dict[str, Caveat] = {ROUNDED.what: ROUNDED}

    def add(self, row: Row) -> None:
        """Take a row of a details table."""
        if self._places is None or self._places.table is not row.table:
            header = row.table.header
            self._places = _Places(row.table, {name: i for i, name in enumerate(header)}, *nvtx_columns(header))
        cells = row.fields()
        places = self._places
        label = places.cell(cells, "Metric Name")
        launch = self._launch(places, cells, row)
        if label and not places.cell(cells, "Rule Name"):
            self._add_metric(places, cells, launch, label)

    def result(self) -> Launches:
        """All launches of the file; raises CollectError for no number or an open locale."""
        mark = self._evidence.settle()
        launches = list(self._launches.values())
        names = list(dict.fromkeys(name for launch in launches for name in launch.cells))
        metrics = {
            name: np.array([self._value(one, name, mark) for one in launches], dtype=np.float64) for name in names
        }
        keys = keys_of([one.identity for one in launches])
        return Launches(keys, metrics, list(self._caveats.values()), [*self._untaken])

    def _launch(self, places: _Places, cells: list[str], row: Row) -> _Launch:
        at = places.cell
        key = (places.table.line, at(cells, "Process ID"), at(cells, "ID"))
        known = self._launches.get(key)
        if known:
            return known
        identity = Identity(
            launch=launch_number(at(cells, "ID"), f"{self._scan.path}, line {row.line}"),
            process=at(cells, "Process ID"),
            kernel=at(cells, "Kernel Name"),
            stream=at(cells, "Stream"),
            grid=dimensions(at(cells, "Grid Size")),
            block=dimensions(at(cells, "Block Size")),
            device=at(cells, "Device"),
            cc=chip(at(cells, "CC")),
            ranges=self._ranges(places, cells),
        )
        launch = _Launch(identity, row.line)
        self._launches[key] = launch
        return launch

    def _ranges(self, places: _Places, cells: list[str]) -> tuple[tuple[str, str], ...]:
        columns = [cells[i] for i in (places.push, places.start) if i is not None and i < len(cells)]
        return next((found for found in map(ranges_of, columns) if found), ())

    def _add_metric(self, places: _Places, cells: list[str], launch: _Launch, label: str) -> None:
        unit = places.cell(cells, "Metric Unit")
        value = places.cell(cells, "Metric Value")
        self._evidence.feed(value.strip())
        metric = metric_of(label, unit, places.cell(cells, "Body Item Label"))
        metric = metric or f"{places.cell(cells, 'Section Name')}/{label}"
        if self._wanted(metric) and not metric.startswith("derived__"):
            launch.cells.setdefault(metric, (value, unit))
        else:
            self._untaken[metric] = None

    def _value(self, launch: _Launch, name: str, mark: str) -> float:
        if name not in launch.cells:
            return math.nan
        cell, unit = launch.cells[name]
        try:
            value = parse(cell, mark)
        except ValueError as error:
            where = f"{self._scan.path}, line {launch.line}, launch {launch.identity.launch}"
            raise CollectError(f"{where}: field {name}: {error}", fix=DAMAGED) from error
        factor = scale(unit)
        if factor is None and not math.isnan(value):
            what = f"unit {unit!r} of {name} is unknown"
            self._caveats.setdefault(what, Caveat(what, "the metric is left out", "export with --print-units base"))
        return math.nan if factor is None else value * factor
