"""One callable at many sizes: a tidy frame."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from profkit.errors import ProfkitError
from profkit.study.study import Study

COLUMNS = (
    *("impl", "verdict", "time", "time_low", "time_high", "speedup", "speedup_low", "speedup_high"),
    *("lower_bound_ratio", "achieved_flops", "dram_bandwidth", "bound_by"),
)


@dataclass(frozen=True, repr=False)
class Swept:
    """`frame`: a row per point and implementation: `axes`, COLUMNS in SI units, path of the run."""

    frame: pd.DataFrame
    axes: tuple[str, ...]

    def __repr__(self) -> str:
        return str(self.frame.to_string(index=False))

    def _repr_html_(self) -> str:
        return str(self.frame.to_html(index=False))


def at(call: Callable[..., Any], point: Mapping[str, Any]) -> Callable[[], Any]:
    """call(**point) as a callable of no arguments under the same name."""
    return functools.wraps(call)(functools.partial(call, **point))


def over(measured: Callable[..., Study], grid: Mapping[str, Sequence[Any]]) -> Swept:
    """Measure the points of the grid, the last axis fastest. Raises ProfkitError without any."""
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if not grid or not points:
        raise ProfkitError("a grid without points", fix='give values: {"n": [1024, 2048]}')
    rows = []
    for point in points:
        study = measured(**point)
        told = {**point, "run": study.path.as_posix()}
        rows += [{**told, **{name: row.get(name) for name in COLUMNS}} for row in study.metrics.to_dict("records")]
    return Swept(pd.DataFrame(rows, columns=[*grid, *COLUMNS, "run"]), tuple(grid))
