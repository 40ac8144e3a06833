"""Precision audit: a candidate's tensor pipes against the types of task and reference.

Evidence, best first: tensor-pipe counters; kernel names of cuBLAS, cuDNN and CUTLASS; types in any kernel's name.
Reduced precision inside a kernel shows only in the bits of its answers. A candidate is reported only if it keeps less
(`keeps`: significand, then exponent) than the task's types and than the reference: a reference on TF32 allows TF32,
but not FP16, which has a shorter exponent.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzers.counts import by_pipe, column
from analyzers.kernels.names import stored_type, tensor_type
from analyzers.pipes import PIPES, TENSOR, keeps, task_type
from analyzers.records import plain
from collectors.caveat import Caveat

MATTERS = 0.01
"""Share of an implementation's operations or time below which a pipe is ignored."""

EMULATED = (2.5, 9.5)
"""Ratio of operations on a narrow pipe to the reference's that means FP32 emulated by 3 to 9 products."""


@dataclass(frozen=True)
class Reduced:
    """An implementation that computed in a lower precision than the task.

    `task`: narrowest type of the task; `reference`: the reference's lower precision, else ""; `used`: the lowest
    precision (tf32, bf16, ...), `kinds`: all lower ones, lowest first. `time_share`: of its kernels' time;
    `flop_share`: of its counted operations, NaN without counters. `evidence`: counters or kernel names.
    """

    impl: str
    task: str
    reference: str
    kinds: tuple[str, ...]
    evidence: str
    time_share: float
    flop_share: float
    kernels: tuple[str, ...]

    @property
    def used(self) -> str:
        return self.kinds[0]

    @property
    def asked(self) -> str:
        """The expected precision: "FP32", "FP32 (TF32 in the reference)"."""
        return f"{self.task} ({self.reference} in the reference)" if self.reference else self.task

    def beyond(self, allowed: Collection[str]) -> str:
        """The lowest precision used that is not in `allowed`; "" for none."""
        return next((kind for kind in self.kinds if kind not in allowed), "")

    def caveat(self) -> Caveat:
        """The caveat called precision."""
        shares = {"of its kernel time": self.time_share, "of its FLOP": self.flop_share}
        much = ", ".join(f"{share:.0%} {what}" for what, share in shares.items() if not math.isnan(share))
        return Caveat(
            f"precision: {self.impl} computes in {self.used.upper()} what the task has in {self.asked}",
            f"{much or 'how much is not known'} ({self.evidence}): {', '.join(self.kernels[:2])}",
            "compare with a reference in that precision, or compute in the task's",
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; NaN as None."""
        return plain(asdict(self) | {"used": self.used})


def audit(
    launches: pd.DataFrame,
    task: Mapping[str, Sequence[str]],
    reference: str,
    candidates: Iterable[str],
) -> list[Reduced]:
    """Candidates of a launches frame with lower precision than task and reference.

    task: its types, {"inputs": ["float32"], ...}. Needs launches of the reference.
    """
    kernels = launches[launches["kind"].isin(["kernel", ""])] if "kind" in launches else launches
    rows = {str(name): part for name, part in kernels.groupby("impl", sort=False, observed=True)}
    own = task_type(task)
    if reference not in rows or not own:
        return []
    base = _Seen.of(rows[reference])
    seen = {name: _Seen.of(rows[name]) for name in candidates if name in rows}
    return [found for name, one in seen.items() if (found := _reduced(name, one, own, base)) is not None]


@dataclass(frozen=True)
class _Seen:
    """Launches of an implementation by tensor type and by narrow stored type; "" for none."""

    kernels: list[str]
    types: list[str]
    stored: list[str]
    times: NDArray[np.float64]
    operations: NDArray[np.float64]
    total: float
    evidence: str

    @classmethod
    def of(cls, rows: pd.DataFrame) -> _Seen:
        counts = column(rows, "instances") if "instances" in rows else 1.0
        times = column(rows, "time") * counts
        names = [str(name) for name in rows["kernel"]]
        stored = [stored_type(name) for name in names]
        pipes = pd.DataFrame(by_pipe(rows), index=rows.index)
        tensor = pipes[[name for name in PIPES if name.startswith(TENSOR)]]
        if any(counter in rows and rows[counter].notna().any() for counter in map(PIPES.get, tensor)):
            values = tensor.fillna(0.0)
            types = np.where(values.max(axis=1) > 0, values.idxmax(axis=1), "")
            total = float((pipes.fillna(0.0).sum(axis=1) * counts).sum())
            plain = [str(name).removeprefix(TENSOR) for name in types]
            return cls(names, plain, stored, times, values.max(axis=1).to_numpy() * counts, total, "counters")
        unknown = np.full(len(names), np.nan)
        return cls(names, [tensor_type(name) for name in names], stored, times, unknown, math.nan, "kernel names")

    @property
    def pipes(self) -> set[str]:
        """All types in use; UNKNOWN if the pipe's type is unknown."""
        return self.computed | self.kept

    @property
    def computed(self) -> set[str]:
        """Types of tensor pipes, by operations; by time without counters."""
        by = (self.operations, self.total) if self.total > 0 else (self.times, float(self.times.sum()))
        return _mattering(self.types, *by)

    @property
    def kept(self) -> set[str]:
        """Narrow types in memory, by time."""
        return _mattering(self.stored, self.times, float(self.times.sum()))


def _mattering(kinds: Sequence[str], values: NDArray[np.float64], total: float) -> set[str]:
    """Kinds with at least MATTERS of the total; all without a total."""
    sums = {kind: float(values[[one == kind for one in kinds]].sum()) for kind in set(kinds) if kind}
    return {kind for kind, amount in sums.items() if not total > 0 or amount / total >= MATTERS}


def _reduced(impl: str, seen: _Seen, own: str, base: _Seen) -> Reduced | None:
    """Precision below the task's `own` and the reference's; None if there is none."""
    # A reference whose pipe cannot be told keeps (), which nothing is below.
    least = min([own, *sorted(base.pipes)], key=keeps)
    narrow = {kind for kind in seen.pipes if () < keeps(kind) < keeps(least)}
    computed, kept = narrow & seen.computed, narrow & seen.kept
    if not narrow:
        return None
    by_pipe = np.isin(seen.types, list(computed))
    chosen = by_pipe | np.isin(seen.stored, list(kept))
    operations = float(seen.operations[by_pipe].sum())
    if least == "fp32" and base.total > 0 and EMULATED[0] < operations / base.total < EMULATED[1]:
        return None
    time = float(seen.times.sum())
    # Those on a tensor pipe first: they say most.
    kernels = [seen.kernels[i] for rows in (by_pipe, chosen) for i in np.flatnonzero(rows)]
    return Reduced(
        impl,
        own.upper(),
        least.upper() if keeps(least) < keeps(own) else "",
        tuple(sorted(narrow, key=keeps)),
        seen.evidence if computed else "kernel names",
        float(seen.times[chosen].sum()) / time if time > 0 else math.nan,
        operations / seen.total if computed and seen.total > 0 else math.nan,
        tuple(dict.fromkeys(kernels)),
    )
