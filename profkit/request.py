"""What the user asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from profkit.run import RUNS


@dataclass(frozen=True)
class Request:
    """What the user asked for.

    counters: "auto" (use ncu where it works), "ncu" (asked for by name), "off". device: auto, cuda, cpu.
    trials: correctness trials; budget: seconds of timing; timeout: scales the limit of every phase;
    deep: collect what `explain` asks for as well; nsys: record a timeline as well.
    """

    counters: str = "auto"
    require_counters: bool = False
    device: str = "auto"
    only: tuple[str, ...] = ()
    trials: int = 5
    budget: float = 5.0
    target: float = 0.005
    l2: str = "cold"
    seed: int | None = None
    timeout: float = 1.0
    deep: bool = False
    nsys: bool = False
    ncu_set: str = ""
    keep_report: bool = False
    clock_control: str = "none"
    runs: Path = RUNS
