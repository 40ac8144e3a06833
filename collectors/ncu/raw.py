"""ncu's raw page: a row per launch, a column per metric, the first row units.

Only requested columns go through pandas, and each distinct cell is parsed once.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import pandas as pd

from collectors.ncu.launches import DEVICE_NAME, Cells, Launches, identified
from collectors.ncu.text import Row, Scan
from collectors.numbers import base_unit, scale


def raw_launches(scan: Scan, rows: Iterable[Row], wanted: Callable[[str], bool]) -> Launches:
    """Launches of the raw tables of a file; wanted: selects metrics."""
    cells = Cells(scan)
    for _, part in groupby(rows, key=lambda row: id(row.table)):
        _add(cells, list(part), wanted)
    return cells.launches()


def _add(cells: Cells, rows: Sequence[Row], wanted: Callable[[str], bool]) -> None:
    header = rows[0].table.header
    keys = {name: at for at, name in reversed(list(enumerate(header))) if _is_key(name)}
    chosen = _metrics(cells, header, wanted)
    units: list[str] | None = None
    if rows[0].data.startswith((b'"",', b",")) and not any(rows[0].fields()[:2]):
        units, rows = rows[0].fields(), rows[1:]
    else:
        cells.caveat(
            "the export has no row of units",
            "values are taken in ncu's base units (ns, byte, Hz)",
            "export again with --csv --page raw --print-units base",
        )
    if not rows:
        return
    read = pd.read_csv(
        io.BytesIO(b"\n".join(row.data for row in rows)),
        header=None,
        names=range(len(header)),
        usecols=sorted({*keys.values(), *chosen}),
        dtype=object,
        keep_default_na=False,
        na_filter=False,
        encoding="utf-8",
        encoding_errors="replace",
        low_memory=False,
    )
    columns = {}
    for at, name in chosen.items():
        unit = base_unit(name) if units is None else units[at]
        factor = scale(unit)
        columns[name] = read[at], cells.unit_unknown(unit, name) if factor is None else factor
    cells.add(identified(read[list(keys.values())].set_axis(list(keys), axis=1), cells.path), columns)


def _is_key(name: str) -> bool:
    return "__" not in name or name == DEVICE_NAME


def _metrics(cells: Cells, header: Sequence[str], wanted: Callable[[str], bool]) -> dict[int, str]:
    """Wanted metric columns, each name once; notes the others."""
    chosen: dict[str, int] = {}
    for at, name in enumerate(header):
        if _is_key(name) or name in chosen:
            continue
        if wanted(name) and not name.startswith("derived__"):
            chosen[name] = at
        else:
            cells.untaken[name] = None
    return {at: name for name, at in chosen.items()}
