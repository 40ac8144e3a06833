"""One callable at many sizes: a tidy frame, and its plot."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from profkit.errors import ProfkitError
from profkit.study.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = (
    *("impl", "verdict", "time", "time_low", "time_high", "speedup", "speedup_low", "speedup_high"),
    *("lower_bound_ratio", "achieved_flops", "dram_bandwidth", "bound_by"),
)


@dataclass(frozen=True, repr=False)
class Swept:
    """`frame`: a row per point and implementation: `axes`, COLUMNS in SI units, path of the run."""

    frame: pd.DataFrame
    axes: tuple[str, ...]

    def plot(self, y: str = "time") -> Figure:
        """Plot a column over the first numeric axis, a line per implementation and other axes."""
        from matplotlib.figure import Figure

        x = next((one for one in self.axes if pd.api.types.is_numeric_dtype(self.frame[one])), self.axes[0])
        others = [one for one in self.axes if one != x]
        figure = Figure(figsize=(7, 4), layout="constrained")
        axis = figure.add_subplot()
        for key, rows in self.frame.groupby(["impl", *others], sort=False):
            label = ", ".join([str(key[0]), *(f"{name}={value}" for name, value in zip(others, key[1:], strict=True))])
            axis.plot(rows[x], rows[y], marker="o", label=label)
            if y == "time":
                axis.fill_between(rows[x], rows["time_low"], rows["time_high"], alpha=0.2)
        if pd.api.types.is_numeric_dtype(self.frame[x]) and (self.frame[x] > 0).all():
            axis.set_xscale("log", base=2)
        axis.set_yscale("log" if y == "time" else "linear")
        axis.set(xlabel=x, ylabel=f"{y} [s]" if y.startswith("time") else y)
        axis.legend()
        return figure

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
