"""Use of each ceiling by a launch: the time its work needs there over the time it took."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzers.counts import Array, beyond_l1, by_pipe, column, has_operations, known_by_pipe, lacks
from analyzers.lower_bound import AGREE
from analyzers.pipes import DRAM_TOLD, LEVELS, PIPES, TENSOR, peak_counter
from roofline.ceilings import Roofline


@dataclass(frozen=True)
class Use:
    """The launches of a frame held against a roofline's ceilings. Each table is made once."""

    frame: pd.DataFrame
    roofline: Roofline

    def peak(self, name: str) -> Array:
        """Ceiling of each launch at its own clock; NaN unknown."""
        known, own = self.roofline.get(name), column(self.frame, peak_counter(name))
        if known is None or known.source == "ncu":
            return np.where(np.isnan(own), self.roofline.peak(name), own)
        return np.full(len(self.frame), known.peak)

    @cached_property
    def counts(self) -> dict[str, Array]:
        """Operations by pipe: NaN where they are not known whole."""
        return by_pipe(self.frame)

    @cached_property
    def known(self) -> dict[str, Array]:
        """As `counts`, and lower bounds where a part of a pipe is missing."""
        return known_by_pipe(self.frame, self.counts)

    @cached_property
    def _misses(self) -> NDArray[np.bool_]:
        return np.asarray(np.isnan(list(self.counts.values())).any(axis=0))

    @cached_property
    def flops(self) -> Array:
        """FLOP over all pipes, integer tensor operations alike; a lower bound where `flops_lower`."""
        total = np.nansum(list(self.known.values()), axis=0)
        return np.where(has_operations(self.frame) & ((total > 0) | ~self._misses), total, np.nan)

    @property
    def flops_lower(self) -> NDArray[np.bool_]:
        """Mask of rows with a lower bound of FLOP: a pipe of the chip was not collected whole."""
        return self._misses & (self.flops > 0)

    @cached_property
    def roof_times(self) -> dict[str, Array]:
        """Seconds each launch needs at each ceiling, by pipe and level; NaN unknown, 0 for no work.

        Traffic that passes L1 by is unknown there. Without DRAM's bytes or ceiling, ncu's own share of DRAM's peak
        stands in.
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
        """Share of each ceiling in use, by pipe and level; above 1 something is wrong."""
        time = column(self.frame, "time")
        with np.errstate(divide="ignore", invalid="ignore"):
            return {name: needed / time for name, needed in self.roof_times.items()}

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Mask of launches with FLOP and memory traffic collected and their ceilings known.

        A pipe with less than AGREE of the FLOP may lack its ceiling. On chips without DRAM counters L2 stands in.
        """
        times, flops = self.roof_times, self.flops
        little = np.where(np.isnan(flops), 0.0, AGREE * flops)
        pipes_known = np.all([~np.isnan(times[pipe]) | (self.counts[pipe] <= little) for pipe in PIPES], axis=0)
        memory = ~np.isnan(times["dram"]) | (lacks(self.frame, LEVELS["dram"]) & ~np.isnan(times["l2"]))
        return np.asarray(pipes_known & memory & ~np.isnan(flops) & ~self._misses)

    @cached_property
    def binding(self) -> pd.DataFrame:
        """Seconds at each ceiling, one column a unit; tensor paths share one as their sum."""
        times: dict[str, Array] = dict(self.roof_times)
        paths = [name for name in times if name.startswith(TENSOR)]
        tensor = np.array([times[name] for name in paths])
        together = np.nansum(tensor, axis=0)
        longest = np.where(np.isnan(tensor), -1.0, tensor).argmax(axis=0)
        for index, name in enumerate(paths):
            times[name] = np.where((longest == index) & ~np.isnan(times[name]), together, np.nan)
        result: pd.DataFrame = pd.DataFrame(times, index=self.frame.index)
        return result
