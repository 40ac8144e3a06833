"""ncu's details page: a row a metric of a launch; the rules among them are passed over.

It prints two decimals of a scaled unit, so every frame from it carries a caveat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pandas as pd

from collectors.ncu.labels import metric_of
from collectors.ncu.launches import Cells, Launches, identified
from collectors.ncu.text import Row, Scan
from collectors.numbers import scale

_ROUNDED = (
    "the details page rounds to two decimals of a scaled unit",
    "up to 0.5 % of a value, more where it prints 0.00",
    "export the same report with --page raw --print-units base",
)
_Key = tuple[int, str, str]


def detailed_launches(scan: Scan, rows: Iterable[Row], wanted: Callable[[str], bool]) -> Launches:
    """The launches of the details tables of a file; wanted: whether a metric is worth a column."""
    cells = Cells(scan)
    cells.caveat(*_ROUNDED)
    found: dict[_Key, dict[str, str]] = {}
    values: dict[str, dict[_Key, tuple[str, float]]] = {}
    for row in rows:
        one: dict[str, str] = {}
        for name, cell in zip(row.table.header, row.fields(), strict=False):
            one.setdefault(name, cell)
        key = (row.table.line, one.get("Process ID", ""), one["ID"])
        found.setdefault(key, one)
        label = one.get("Metric Name", "")
        if not label or one.get("Rule Name"):
            continue
        cells.evidence.feed(one.get("Metric Value", "").strip())
        unit = one.get("Metric Unit", "")
        metric = metric_of(label, unit, one.get("Body Item Label", ""))
        metric = metric or f"{one.get('Section Name', '')}/{label}"
        if not wanted(metric) or metric.startswith("derived__"):
            cells.untaken[metric] = None
            continue
        factor = scale(unit)
        value = one.get("Metric Value", ""), cells.unit_unknown(unit, metric) if factor is None else factor
        values.setdefault(metric, {}).setdefault(key, value)
    columns = {}
    for metric, known in values.items():
        texts, factors = zip(*(known.get(key, ("", 1.0)) for key in found), strict=True)
        columns[metric] = list(texts), list(factors)
    if found:
        cells.add(identified(pd.DataFrame(list(found.values())).fillna(""), cells.path), columns)
    return cells.launches()
