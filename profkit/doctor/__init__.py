"""What works on this machine, and the fix for what does not.

Every check runs in a thread of its own and all share one deadline; one that breaks or does not answer is
a warning about itself, never the end of the report.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from profkit.doctor import gpu, place, software, tools
from profkit.doctor.finding import Finding, abilities, exit_code
from profkit.launch.cache import builds
from profkit.rundir.directory import RUNS

__all__ = ["Finding", "abilities", "check_all", "exit_code"]

LIMIT = 14.0
"""Seconds all checks together may take; a real capture (`probe`) comes on top."""
_SURVEY = 8.0
T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """Shared facts, asked for once: the driver's and torch's. `runs`: where runs would go."""

    survey: Future[gpu.Machine]
    imports: Future[software.Facts]
    began: float
    runs: Path

    @property
    def machine(self) -> gpu.Machine:
        return _answer(self.survey, self.began + _SURVEY, lambda why: gpu.Machine(trouble=why, hardware=True))

    @property
    def facts(self) -> software.Facts:
        return _answer(self.imports, self.began + software.PATIENCE + 1.0, lambda why: {"unknown": why})


Check = Callable[[Asked], Iterable[Finding]]
CHECKS: dict[str, Check] = {
    "python": lambda asked: software.check_python(),
    "torch": lambda asked: software.check_torch(asked.facts, asked.machine),
    "driver": lambda asked: gpu.check_driver(asked.machine),
    "gpu": lambda asked: gpu.check_gpus(asked.machine),
    "gpu state": lambda asked: gpu.check_state(asked.machine),
    "c++": lambda asked: software.check_compiler(asked.machine),
    "nvcc": lambda asked: software.check_nvcc(asked.facts, asked.machine),
    "ncu": lambda asked: tools.check_ncu(asked.machine),
    "counters": lambda asked: tools.check_counters(asked.machine),
    "injection": lambda asked: [place.injections(os.environ)],
    "nsys": lambda asked: tools.check_nsys(asked.machine),
    "disk": lambda asked: place.disks(asked.runs, builds()),
    "walls": lambda asked: [place.walls()],
    "server": lambda asked: [place.servers()],
}
"""Every check, in the order of the report."""


def check_all(*, probe: bool = False, runs: Path | None = None) -> list[Finding]:
    """The findings of every check. `probe` also starts ncu once; `runs` is where runs would go."""
    began = time.monotonic()
    asked = Asked(_start(gpu.survey), _start(software.torch_facts), began, runs or RUNS)
    begun = {name: _start(partial(_listed, check, asked)) for name, check in CHECKS.items()}
    found = [one for name, future in begun.items() for one in _finish(name, future, began + LIMIT)]
    if probe:
        # In this thread, so that an interrupt ends ncu as well.
        try:
            found.append(tools.probe(asked.machine))
        except Exception as error:
            found.append(_broken("probe", error))
    return found


def _listed(check: Check, asked: Asked) -> list[Finding]:
    return list(check(asked))


def _start(work: Callable[[], T]) -> Future[T]:
    """Run `work` in a daemon thread: unlike a pool's, it does not keep the program from ending."""
    future: Future[T] = Future()

    def body() -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=body, daemon=True).start()
    return future


def _answer(future: Future[T], end: float, otherwise: Callable[[str], T]) -> T:
    try:
        return future.result(max(0.0, end - time.monotonic()))
    except TooLate:
        return otherwise("no answer in time")
    except Exception as error:
        return otherwise(f"{type(error).__name__}: {error}")


def _finish(name: str, future: Future[list[Finding]], end: float) -> list[Finding]:
    try:
        return future.result(max(0.0, end - time.monotonic()))
    except TooLate:
        return [Finding(name, "warn", "this check did not end in time", "something on this machine hangs")]
    except Exception as error:
        return [_broken(name, error)]


def _broken(name: str, error: Exception) -> Finding:
    return Finding(name, "warn", f"this check broke: {type(error).__name__}: {error}")
