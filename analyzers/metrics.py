"""Registry of metrics, computed from a launch's counters and a roofline.

A metric's name is the column and the JSON key; docs/metrics.md has its unit and meaning. It is NaN if anything that it
needs was not collected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzers.counts import Array, beyond_l1, by_pipe, column, has_operations, known_by_pipe, lacks
from analyzers.pipes import DRAM_TOLD, LEVELS, PIPES, TENSOR, peak_counter
from roofline.ceilings import Roofline

LITTLE = 0.05
"""Share of the FLOP that may stand under an unknown ceiling; convention."""


@dataclass(frozen=True)
class View:
    """Launches as seen by a formula: counters, metrics, use of ceilings; each computed once."""

    frame: pd.DataFrame
    roofline: Roofline
    derived: dict[str, Array] = field(default_factory=dict)

    def peak(self, name: str) -> Array:
        """Ceiling of each launch at its own clock; NaN unknown."""
        known, own = self.roofline.get(name), column(self.frame, peak_counter(name))
        if known is None or known.source == "ncu":
            return np.where(np.isnan(own), self.roofline.peak(name), own)
        return np.full(len(self.frame), known.peak)

    @cached_property
    def counts(self) -> dict[str, Array]:
        """Operations by pipe: NaN unless completely counted."""
        return by_pipe(self.frame)

    @cached_property
    def known(self) -> dict[str, Array]:
        """Like `counts`, with lower bounds for incompletely counted pipes."""
        return known_by_pipe(self.frame, self.counts)

    @cached_property
    def _misses(self) -> NDArray[np.bool_]:
        return np.asarray(np.isnan(list(self.counts.values())).any(axis=0))

    @cached_property
    def flops(self) -> Array:
        """FLOP over all pipes, integer tensor operations included; a lower bound if `flops_lower`."""
        total = np.nansum(list(self.known.values()), axis=0)
        return np.where(has_operations(self.frame) & ((total > 0) | ~self._misses), total, np.nan)

    @property
    def flops_lower(self) -> NDArray[np.bool_]:
        """Mask of rows with FLOP as a lower bound: a pipe was not completely counted."""
        return self._misses & (self.flops > 0)

    @cached_property
    def roof_times(self) -> dict[str, Array]:
        """Seconds of each launch at each ceiling, by pipe and level; NaN unknown, 0 for no work.

        L1 is unknown for traffic that bypasses it. Without DRAM's bytes or ceiling, ncu's own share of DRAM's peak is
        used.
        """
        amounts = {pipe: self.known[pipe] for pipe in PIPES}
        amounts |= {level: column(self.frame, counter) for level, counter in LEVELS.items()}
        amounts["l1"] = np.where(beyond_l1(self.frame), np.nan, amounts["l1"])
        with np.errstate(divide="ignore", invalid="ignore"):
            times = {n: np.where(amount == 0, 0.0, amount / self.peak(n)) for n, amount in amounts.items()}
        told = column(self.frame, DRAM_TOLD) * column(self.frame, "time")
        return times | {"dram": np.where(np.isnan(times["dram"]), told, times["dram"])}

    @property
    def shares(self) -> dict[str, Array]:
        """Used share of each ceiling, by pipe and level; above 1 is an error."""
        time = column(self.frame, "time")
        with np.errstate(divide="ignore", invalid="ignore"):
            return {name: needed / time for name, needed in self.roof_times.items()}

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Mask of launches with FLOP and memory traffic collected and their ceilings known.

        A pipe with less than LITTLE of the FLOP may lack its ceiling. On chips without DRAM counters L2 is used.
        """
        times, flops = self.roof_times, self.flops
        little = np.where(np.isnan(flops), 0.0, LITTLE * flops)
        pipes_known = np.all([~np.isnan(times[pipe]) | (self.counts[pipe] <= little) for pipe in PIPES], axis=0)
        memory = ~np.isnan(times["dram"]) | (lacks(self.frame, LEVELS["dram"]) & ~np.isnan(times["l2"]))
        return np.asarray(pipes_known & memory & ~np.isnan(flops) & ~self._misses)

    @cached_property
    def binding(self) -> pd.DataFrame:
        """Seconds at each ceiling, one column per unit; the sum for tensor pipes, which share one."""
        times: dict[str, Array] = dict(self.roof_times)
        paths = [name for name in times if name.startswith(TENSOR)]
        tensor = np.array([times[name] for name in paths])
        together = np.nansum(tensor, axis=0)
        longest = np.where(np.isnan(tensor), -1.0, tensor).argmax(axis=0)
        for index, name in enumerate(paths):
            times[name] = np.where((longest == index) & ~np.isnan(times[name]), together, np.nan)
        result: pd.DataFrame = pd.DataFrame(times, index=self.frame.index)
        return result

    def __getitem__(self, name: str) -> Array:
        if name == LEVELS["l1"]:
            return np.where(beyond_l1(self.frame), np.nan, column(self.frame, name))
        return self.derived[name] if name in self.derived else column(self.frame, name)

    def derive(self) -> pd.DataFrame:
        """The frame with a float column for each metric that has a counter."""
        for metric in METRICS.values():
            if any(need in self.frame or need in self.derived for need in metric.needs):
                self.derived[metric.name] = metric.formula(self)
        kept = self.frame.drop(columns=[name for name in self.derived if name in self.frame])
        result: pd.DataFrame = pd.concat([kept, pd.DataFrame(self.derived, index=self.frame.index)], axis=1)
        result.attrs = dict(self.frame.attrs)
        return result


@dataclass(frozen=True)
class Metric:
    """Computed column in SI units; `needs`: counters or earlier metrics."""

    name: str
    needs: tuple[str, ...]
    formula: Callable[[View], Array]


def divide(a: Array, b: Array) -> Array:
    """a / b, NaN if b is 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(b == 0, np.nan, a / b)


def _tensor_share(view: View) -> Array:
    counts = [view.known[pipe] for pipe in PIPES if pipe.startswith(TENSOR)]
    return divide(np.nansum(counts, axis=0), view["flops"])


def _fma_share(view: View) -> Array:
    """Share of FMA in the collected precision groups; NaN if none was collected."""
    parts = np.array([[view[f"inst_{pipe}_{op}"] for op in ("add", "mul", "fma")] for pipe in ("fp64", "fp32", "fp16")])
    parts[2, :, view.known["fp16"] == 0] = 0.0  # HFMA2 also moves constants, see counts.without_half_moves
    known = np.where(np.isnan(parts).any(axis=1, keepdims=True), np.nan, parts)
    share = divide(np.nansum(known[:, 2], axis=0), np.nansum(known, axis=(0, 1)))
    return np.where(np.isnan(known[:, 2]).all(axis=0), np.nan, share)


def _compute_fraction(view: View) -> Array:
    times = view.binding[list(PIPES)].max(axis=1).to_numpy(dtype="float64")
    return np.where(np.isnan(view["flops"]), np.nan, divide(times, view["time"]))


def _roof_time(view: View) -> Array:
    """Seconds at the binding ceiling of arithmetic or DRAM; cache peaks are unreachable."""
    units = view.binding.drop(columns=["l2", "l1"])
    times = units.max(axis=1).to_numpy(dtype="float64")
    return np.where(view.complete, times, np.nan)


def _peak_share(level: str) -> Callable[[View], Array]:
    def formula(view: View) -> Array:
        share = divide(view[f"{level}_bandwidth"], view.peak(level))
        return np.where(np.isnan(share), view[DRAM_TOLD], share) if level == "dram" else share

    return formula


_FLOP = tuple(PIPES.values())
_INST = tuple(f"inst_{pipe}_{op}" for pipe in ("fp64", "fp32", "fp16") for op in ("add", "mul", "fma"))
_ALL = (*_FLOP, *LEVELS.values(), "time")


def _ratio(name: str, a: str, b: str) -> Metric:
    return Metric(name, (a, b), lambda view: divide(view[a], view[b]))


def _fraction(level: str) -> Metric:
    told = (DRAM_TOLD,) if level == "dram" else ()
    return Metric(f"{level}_fraction", (f"{level}_bandwidth", *told), _peak_share(level))


_LEVELS = ("dram", "l2", "l1")
_ROWS = (
    Metric("flops", _FLOP, lambda view: view.flops),
    Metric("tensor_share", (*_FLOP, "flops"), _tensor_share),
    Metric("fma_share", _INST, _fma_share),
    _ratio("achieved_flops", "flops", "time"),
    *(_ratio(f"{level}_bandwidth", LEVELS[level], "time") for level in _LEVELS),
    *(_fraction(level) for level in _LEVELS),
    *(_ratio(f"intensity_{level}", "flops", LEVELS[level]) for level in _LEVELS),
    Metric("compute_fraction", (*_FLOP, "flops", "time"), _compute_fraction),
    Metric("roof_time", _ALL, _roof_time),
    Metric(
        "attainable",
        ("flops", "roof_time"),
        lambda view: np.where(view["flops"] > 0, divide(view["flops"], view["roof_time"]), np.nan),
    ),
    _ratio("attainable_fraction", "roof_time", "time"),
    _ratio("occupancy_share", "occupancy", "occupancy_limit"),
    _ratio("sectors_per_load", "global_load_sectors", "global_load_requests"),
    _ratio("sectors_per_store", "global_store_sectors", "global_store_requests"),
    _ratio("load_conflict_share", "shared_load_conflicts", "shared_load_wavefronts"),
    _ratio("store_conflict_share", "shared_store_conflicts", "shared_store_wavefronts"),
)
METRICS: dict[str, Metric] = {one.name: one for one in _ROWS}
