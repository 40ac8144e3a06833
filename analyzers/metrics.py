"""The registry of metrics: what is computed from a launch's counters and a roofline.

A metric's row gives the column, the key in JSON and the line in the documentation. A metric is NaN wherever
something it needs was not collected. `python -m analyzers.metrics` writes the reference page.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from analyzers.ceiling_use import Use, binding_times
from analyzers.counts import Array, beyond_l1, column
from analyzers.pipes import DRAM_TOLD, LEVELS, PIPES, TENSOR
from roofline.ceilings import Roofline


@dataclass
class View:
    """Launches as a formula sees them: counters and metrics by name, and the roofline's peaks."""

    frame: pd.DataFrame
    roofline: Roofline
    derived: dict[str, Array] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Array:
        if name == LEVELS["l1"]:
            return np.where(beyond_l1(self.frame), np.nan, column(self.frame, name))
        return self.derived[name] if name in self.derived else column(self.frame, name)

    @cached_property
    def use(self) -> Use:
        """The launches held against the ceilings."""
        return Use(self.frame, self.roofline)

    @cached_property
    def binding(self) -> pd.DataFrame:
        """Seconds at each unit's ceiling, as binding_times."""
        return binding_times(self.use)

    def derive(self) -> pd.DataFrame:
        """The frame with a float column for every metric; a metric without any of its counters is left out."""
        for metric in METRICS.values():
            if any(need in self.frame or need in self.derived for need in metric.needs):
                self.derived[metric.name] = metric.formula(self)
        kept = self.frame.drop(columns=[name for name in self.derived if name in self.frame])
        result: pd.DataFrame = pd.concat([kept, pd.DataFrame(self.derived, index=self.frame.index)], axis=1)
        result.attrs = dict(self.frame.attrs)
        return result


@dataclass(frozen=True)
class Metric:
    """One computed column: `unit` SI ("1" a fraction), `needs` counters or metrics of rows above it."""

    name: str
    unit: str
    doc: str
    needs: tuple[str, ...]
    formula: Callable[[View], Array]


def divide(a: Array, b: Array) -> Array:
    """a / b, NaN where b is 0: a ratio to nothing has no value."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(b == 0, np.nan, a / b)


def _share_of(pipes: Callable[[str], bool]) -> Callable[[View], Array]:
    def formula(view: View) -> Array:
        counts = [view.use.known[pipe] for pipe in PIPES if pipes(pipe)]
        return divide(np.nansum(counts, axis=0), view["flops"])

    return formula


def _fma_share(view: View) -> Array:
    """Instructions of the precision groups that were collected; NaN when none was."""
    total, fma = np.zeros(len(view.frame)), np.zeros(len(view.frame))
    seen = np.zeros(len(view.frame), dtype=bool)
    for pipe in ("fp64", "fp32", "fp16"):
        parts = [view[f"inst_{pipe}_{op}"] for op in ("add", "mul", "fma")]
        known = ~np.isnan(np.sum(parts, axis=0))
        total += np.where(known, np.sum(parts, axis=0), 0.0)
        fma += np.where(known, parts[2], 0.0)
        seen |= known
    return np.where(seen, divide(fma, total), np.nan)


def _compute_fraction(view: View) -> Array:
    times = view.binding[list(PIPES)].max(axis=1).to_numpy(dtype="float64")
    return np.where(np.isnan(view["flops"]), np.nan, divide(times, view["time"]))


def _roof_time(view: View) -> Array:
    """By arithmetic and DRAM alone, as in the figure: the caches' peaks are ncu's port counts, which even a
    good kernel does not reach; they decide what binds, not what can be attained."""
    units = view.binding.drop(columns=["l2", "l1"])
    times = units.max(axis=1).to_numpy(dtype="float64")
    return np.where(view.use.complete, times, np.nan)


def _quotient(a: str, b: str) -> Callable[[View], Array]:
    return lambda view: divide(view[a], view[b])


def _peak_share(level: str) -> Callable[[View], Array]:
    def formula(view: View) -> Array:
        share = divide(view[f"{level}_bandwidth"], view.use.peak(level))
        return np.where(np.isnan(share), view[DRAM_TOLD], share) if level == "dram" else share

    return formula


def _attainable(view: View) -> Array:
    return np.where(view["flops"] > 0, divide(view["flops"], view["roof_time"]), np.nan)


_FLOP = tuple(PIPES.values())
_INST = tuple(f"inst_{pipe}_{op}" for pipe in ("fp64", "fp32", "fp16") for op in ("add", "mul", "fma"))
_ALL = (*_FLOP, *LEVELS.values(), "time")


def _arithmetic() -> list[Metric]:
    return [
        Metric(
            "flops",
            "FLOP",
            "All operations, FMA = 2, integer tensor operations alike; a lower bound where `flops_lower` says that a "
            "pipe is missing.",
            _FLOP,
            lambda view: view.use.flops,
        ),
        Metric(
            "tensor_share",
            "1",
            "Share of the operations on tensor paths.",
            (*_FLOP, "flops"),
            _share_of(lambda pipe: pipe.startswith(TENSOR)),
        ),
        Metric(
            "fma_share",
            "1",
            "Share of FMAs among the add, mul and FMA instructions of the CUDA cores.",
            _INST,
            _fma_share,
        ),
        Metric(
            "fma_ceiling",
            "1",
            "Share of the CUDA cores' peak this instruction mix could reach: an add or mul fills an FMA's "
            "slot with half of its work.",
            ("fma_share",),
            lambda view: (1 + view["fma_share"]) / 2,
        ),
        Metric(
            "achieved_flops",
            "FLOP/s",
            "Operations over time.",
            ("flops", "time"),
            _quotient("flops", "time"),
        ),
    ]


_LEVEL_NAMES = {"dram": "DRAM", "l2": "L2", "l1": "L1"}
_SHARES_SAY = {
    "dram": " Where bytes or ceiling are not known: ncu's own share of the peak (DRAM Throughput).",
    "l1": " NaN for traffic that passes L1 by (TMA).",
}


def _traffic() -> list[Metric]:
    rates = [
        Metric(
            f"{level}_bandwidth",
            "B/s",
            f"{name} bytes over time.",
            (LEVELS[level], "time"),
            _quotient(LEVELS[level], "time"),
        )
        for level, name in _LEVEL_NAMES.items()
    ]
    shares = [
        Metric(
            f"{level}_fraction",
            "1",
            f"{name} bandwidth over its ceiling." + _SHARES_SAY.get(level, ""),
            (f"{level}_bandwidth", *((DRAM_TOLD,) if level == "dram" else ())),
            _peak_share(level),
        )
        for level, name in _LEVEL_NAMES.items()
    ]
    intensities = [
        Metric(
            f"intensity_{level}",
            "FLOP/B",
            f"Arithmetic intensity: operations per {name} byte; NaN when no byte moved.",
            ("flops", LEVELS[level]),
            _quotient("flops", LEVELS[level]),
        )
        for level, name in _LEVEL_NAMES.items()
    ]
    return [*rates, *shares, *intensities]


def _roofs() -> list[Metric]:
    return [
        Metric(
            "compute_fraction",
            "1",
            "Use of the busiest compute unit: its operations at its own peak, over the time. Tensor paths "
            "share a unit and add up.",
            (*_FLOP, "flops", "time"),
            _compute_fraction,
        ),
        Metric(
            "roof_time",
            "s",
            "Time at the binding ceiling: the longest of operations/peak over the pipes and bytes/bandwidth "
            "over the levels whose ceiling is known. NaN unless DRAM bytes and operations were collected and "
            "the roofs that matter are known.",
            _ALL,
            _roof_time,
        ),
        Metric(
            "attainable",
            "FLOP/s",
            "Operations over roof_time; NaN without operations.",
            ("flops", "roof_time"),
            _attainable,
        ),
        Metric(
            "attainable_fraction",
            "1",
            "roof_time over time: 1 = at the roof.",
            ("roof_time", "time"),
            _quotient("roof_time", "time"),
        ),
    ]


def _access() -> list[Metric]:
    def row(name: str, doc: str, a: str, b: str) -> Metric:
        return Metric(name, "1", doc, (a, b), _quotient(a, b))

    return [
        row("occupancy_share", "Achieved over theoretical occupancy.", "occupancy", "occupancy_limit"),
        row(
            "sectors_per_load",
            "Sectors of 32 B a global load request; 4 is coalesced fp32, 32 scattered.",
            "global_load_sectors",
            "global_load_requests",
        ),
        row(
            "sectors_per_store",
            "Sectors of 32 B a global store request.",
            "global_store_sectors",
            "global_store_requests",
        ),
        row(
            "load_conflict_share",
            "Share of shared-load wavefronts that bank conflicts added.",
            "shared_load_conflicts",
            "shared_load_wavefronts",
        ),
        row(
            "store_conflict_share",
            "Share of shared-store wavefronts that bank conflicts added.",
            "shared_store_conflicts",
            "shared_store_wavefronts",
        ),
    ]


METRICS: dict[str, Metric] = {m.name: m for m in [*_arithmetic(), *_traffic(), *_roofs(), *_access()]}


def derive(frame: pd.DataFrame, roofline: Roofline) -> pd.DataFrame:
    """The frame with a float column for every metric; a metric without any of its counters is left out.

    Peaks are the roofline's, else those the tool gave with the launch. `attrs` are kept.
    """
    return View(frame, roofline).derive()


def describe() -> list[dict[str, Any]]:
    """The registry as plain rows: name, unit, doc, needs."""
    return [{"name": m.name, "unit": m.unit, "doc": m.doc, "needs": list(m.needs)} for m in METRICS.values()]


def as_markdown() -> str:
    """The reference table of all metrics."""
    lines = ["| metric | unit | meaning | computed from |", "| --- | --- | --- | --- |"]
    for m in METRICS.values():
        needs = f"{len(m.needs)} counters" if len(m.needs) > 4 else ", ".join(f"`{need}`" for need in m.needs)
        lines.append(f"| `{m.name}` | {m.unit} | {m.doc} | {needs} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
