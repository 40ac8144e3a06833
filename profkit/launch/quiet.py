"""Wait for a device on which nothing else works: for machines that are shared."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

from profkit.errors import CannotProfileError
from profkit.launch import gpu

LEAST = 3.0
"""Seconds for which a device has to be quiet."""
_TICK = 0.5
_GPU, _CPU = 0.02, 0.25
"""Share of the time in which it may work and still count as quiet."""


def wait(
    device: str,
    limit: float,
    say: Callable[[str], None],
    *,
    busy: Callable[[], float] | None = None,
    now: Callable[[], float] = time.monotonic,
    rest: Callable[[float], object] = time.sleep,
) -> None:
    """Return once the first GPU ("cuda") or processor ("cpu") was quiet for LEAST seconds.

    limit: seconds to wait at most. busy: share of the time in which the device has worked lately, NaN where that is not known,
    which counts as quiet. Raises CannotProfileError.
    """
    look = busy or (gpu.utilization if device == "cuda" else processor)
    most = _GPU if device == "cuda" else _CPU
    began = quiet = now()
    last = look()
    while now() - quiet < LEAST:
        if now() - began > limit:
            raise CannotProfileError(
                f"the {_name(device)} was not quiet within {limit:g} s: it is busy {last:.0%} of the time",
                fix="end what runs on it, or wait longer: wait_quiet=SECONDS",
            )
        rest(_TICK)
        last = look()
        if last > most:
            if quiet == began:
                say(f"waiting for a quiet {_name(device)}: busy {last:.0%} of the time")
            quiet = now()


def _name(device: str) -> str:
    return "GPU" if device == "cuda" else "processor"


def processor() -> float:
    """Share of the cores' time that was worked since the last look of this process."""
    return float(psutil.cpu_percent()) / 100
