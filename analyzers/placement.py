"""Place launches under the ceilings, and name what limits them.

Each unit (a compute pipe, the tensor unit, a memory level) is compared with its own ceiling; the one with the largest
share binds. Below NEAR of every ceiling the kernel is latency-bound, not memory-bound (the rule of Nsight Compute's
speed-of-light section). Without operations only the bandwidth decides. Latency needs known DRAM bytes, operations and
ceilings, and counters or geometry that show the cause; else the answer is "unknown".
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzers.counts import column, has_counts
from analyzers.metrics import View
from analyzers.pipes import LEVELS, PIPES, TENSOR
from collectors.caveat import Caveat
from roofline.ceilings import Roofline

NEAR = 0.6
"""Share of a ceiling from which it binds; the limit of Nsight Compute's bottleneck rule."""

REACH = 0.9
"""Share of a ceiling that good kernels reach (plain copies, large GEMMs)."""

ABOVE = 1.02
"""Use of a ceiling from which a launch is flagged; measured ceilings repeat within 2 %."""

LAUNCH_LOWER_BOUND = 2.5e-6
"""Seconds between starts of empty kernels in a stream, published for H200; half inside a graph."""

MOSTLY_IDLE = 0.5
"""Share of a call with a kernel running, below which launches dominate."""

MANY = 3
"""Kernels in a call from which launches may dominate; two may be halves of a task. Convention."""

SMALL = 0.8
"""Blocks per SM below which a fifth of the SMs is idle; convention."""

LOW = 0.5
"""Occupancy below which latency is poorly hidden; convention."""

TAIL = 0.8
"""Share of whole waves below which the last wave costs a fifth of the time; convention."""

UNEVEN = 0.7
"""Achieved over theoretical occupancy below which blocks are imbalanced; convention."""

WIDEST = 16.0
"""Sectors of the widest coalesced request: 32 threads of 16 bytes."""

SPILLED = 2.0
"""Bytes written to L2 over output bytes from which stores are uncoalesced: half of each sector wasted."""

MUCH = 0.25
"""Share of the L2 traffic from which stores can be a cause; convention."""

WAITING = 0.5
"""Share of a warp's time in load stalls from which loads are the cause: the majority."""

ISSUE_BOUND = 0.7
"""Share of issue slots from which issue is the limit, and below which warps stall; convention; needs deep counters."""


def causes(result: pd.DataFrame) -> list[str]:
    """Name in causes.toml for each launch; "" if none is shown.

    `output`: bytes that the task writes, if the launch writes them all.
    """

    def of(name: str) -> NDArray[np.float64]:
        return column(result, name)

    with np.errstate(divide="ignore", invalid="ignore"):
        blocks, waves = of("blocks"), of("waves")
        tensor = of("tensor_share") > 0.5
        scattered = np.fmax(of("sectors_per_load"), of("sectors_per_store")) > WIDEST + 0.5
        found = {
            "one-block": blocks == 1,
            "few-blocks": blocks < SMALL * np.where(of("sm_count") > 0, of("sm_count"), np.nan),
            "launch": of("time") < LAUNCH_LOWER_BOUND,
            "small-grid": waves < 1 - 1e-3,
            "uncoalesced": (scattered & ~tensor)
            | ((of("l2_write") > SPILLED * of("output")) & (of("l2_write") > MUCH * of("l2_bytes"))),
            "few-warps": ~tensor & (np.fmin(of("occupancy_limit"), of("occupancy")) < LOW),
            "tail": (waves > 1.001) & (waves / np.ceil(waves) < TAIL),
            "uneven": ~tensor & (of("occupancy_share") < UNEVEN),
            "dependent-loads": of("stall_long_scoreboard") / of("warp_latency") >= WAITING,
            "stalls": (of("issue_active") < ISSUE_BOUND) & (of("warp_latency") > 0),
            "issue": of("issue_active") >= ISSUE_BOUND,
        }
    return [str(name) for name in np.select(list(found.values()), list(found), default="")]


def place(frame: pd.DataFrame, roofline: Roofline) -> pd.DataFrame:
    """Add all metrics and the placement of each launch under the ceilings.

    `compute`: the pipe with the longest time at its peak, "" without operations. `bound_by`: a ceiling's name,
    "latency" or "unknown"; `cause`: of latency, see `causes`. `roof`: the nearest ceiling; `roof_share`: time at it over
    the time. `flops_lower`: the FLOP are a lower bound. Accepts launches and rows of counts.add_up.
    """
    view = View(frame, roofline)
    result = view.derive()
    shares = view.binding.div(column(result, "time"), axis=0)
    result["compute"] = _compute(frame, shares, result)
    decided = view.complete
    nearest, top = _largest(shares), shares.max(axis=1).to_numpy(dtype="float64")
    rows = []
    for name, share, sure, why in zip(nearest, top, decided.tolist(), causes(result), strict=True):
        bound = name if name and share >= NEAR else "latency" if sure and share >= 0 and why else "unknown"
        # Where not every ceiling is known the nearest is known only if something binds.
        roof = (name, share) if name and (sure or share >= NEAR) else ("", np.nan)
        rows.append((bound, why if bound == "latency" else "", *roof))
    for at, name in enumerate(("bound_by", "cause", "roof", "roof_share")):
        result[name] = [row[at] for row in rows]
    result["flops_lower"] = view.flops_lower
    return result


def _compute(frame: pd.DataFrame, shares: pd.DataFrame, result: pd.DataFrame) -> list[str]:
    """Main pipe by time at the peak; by the count if no peak is known."""
    counts = pd.DataFrame({pipe: column(frame, c) for pipe, c in PIPES.items()}, index=frame.index)
    flops = result["flops"] if "flops" in result else pd.Series(np.nan, index=frame.index)
    timed = _largest(shares[list(PIPES)])
    most = _largest(counts)
    return [t or m if f > 0 else "" for t, m, f in zip(timed, most, flops, strict=True)]


def _largest(table: pd.DataFrame) -> list[str]:
    """Name of the largest positive column per row; "" without one."""
    values = table.fillna(0.0).to_numpy(dtype="float64")
    if not len(values):
        return []
    names = [str(name) for name in table.columns]
    return [names[i] if values[row, i] > 0 else "" for row, i in enumerate(values.argmax(axis=1))]


def over_roofs(frame: pd.DataFrame, roofline: Roofline) -> tuple[Caveat, ...]:
    """Caveats about exceeded ceilings, with the worst kernel; nothing is clamped."""
    if not has_counts(frame):
        return ()
    caveats = []
    for name, shares in View(frame, roofline).shares.items():
        above = shares > ABOVE
        if not above.any():
            continue
        kernel = str(frame["kernel" if "kernel" in frame else "impl"].iloc[int(np.nanargmax(shares))])
        what = f"above the {name} ceiling: {kernel if len(kernel) <= 60 else kernel[:57] + '...'}"
        what += f" and {above.sum() - 1} more" if above.sum() > 1 else ""
        owners = frame["impl"][above].astype(str).unique() if "impl" in frame else [""]
        about = owners[0] if len(owners) == 1 else ""
        caveats.append(Caveat(what, f"{shares[above].max():.2f} of it", _cure(name, roofline), about=about))
    return tuple(caveats)


def _cure(name: str, roofline: Roofline) -> str:
    ceiling = roofline.get(name)
    source = f"the {ceiling.source} ceiling" if ceiling else "the tool's own peak"
    if name in LEVELS:
        return f"check {source}, the clocks, and whether the data stayed in a cache"
    if name == "fp16":
        return "the counter takes every half instruction as packed: scalar ones count double"
    sparse = ", sparse against dense," if name.startswith(TENSOR) else ""
    return f"check {source}, its clock{sparse} and how the operations are counted"


def launch_bound(span: float, busy: float, kernels: float) -> bool:
    """Whether launches dominate a call: gaps of half its time, or many kernels as short as one.

    span: time of the call on the device [s]; busy: sum of its kernels' times [s]; kernels: their number.
    """
    if not (span > 0 and kernels >= 1):
        return False
    return busy < MOSTLY_IDLE * span or (kernels >= MANY and span / kernels < 2 * LAUNCH_LOWER_BOUND)
