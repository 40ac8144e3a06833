"""What works on this machine, and the fix for what does not.

Every check runs in its own thread, and all share one deadline; one that breaks or does not answer is
a warning about itself, never the end of the report.
"""

from __future__ import annotations

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
from profkit.doctor.finding import Finding
from profkit.launch.cache import builds
from profkit.rundir.directory import RUNS

LIMIT = 14.0
"""Seconds all checks together may take."""
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
        end = self.began + _SURVEY
        return _answer(self.survey, end, lambda error: gpu.Machine(trouble=_said(error), hardware=True))

    @property
    def facts(self) -> software.Facts:
        end = self.began + software.PATIENCE + 1.0
        return _answer(self.imports, end, lambda error: {"unknown": _said(error)})


CHECKS: dict[str, Callable[[Asked], Finding | Iterable[Finding]]] = {
    "python": lambda asked: software.check_python(),
    "torch": lambda asked: software.check_torch(asked.facts, asked.machine),
    "driver": lambda asked: gpu.check_driver(asked.machine),
    "gpu": lambda asked: gpu.check_gpus(asked.machine),
    "c++": lambda asked: software.check_compiler(asked.machine),
    "nvcc": lambda asked: software.check_nvcc(asked.facts, asked.machine),
    "ncu": lambda asked: tools.check_ncu(asked.machine),
    "counters": lambda asked: tools.check_counters(asked.machine),
    "nsys": lambda asked: tools.check_nsys(asked.machine),
    "disk": lambda asked: place.disks(asked.runs, builds()),
    "walls": lambda asked: place.walls(),
    "server": lambda asked: place.servers(),
}
"""Every check, in the order of the report."""


def check_all(*, runs: Path | None = None) -> list[Finding]:
    """The findings of every check; `runs` is where runs would go."""
    began = time.monotonic()
    asked = Asked(_start(gpu.survey), _start(software.torch_facts), began, runs or RUNS)

    def begun(name: str) -> Future[list[Finding]]:
        def check() -> list[Finding]:
            found = CHECKS[name](asked)
            return [found] if isinstance(found, Finding) else list(found)

        return _start(check)

    futures = {name: begun(name) for name in CHECKS}
    return [one for name, future in futures.items() for one in _answer(future, began + LIMIT, partial(_broken, name))]


def abilities(findings: Iterable[Finding]) -> dict[str, bool]:
    """What `profkit profile` can do here: CPU, CUDA events, hardware counters."""
    found = {(finding.name, finding.status) for finding in findings}
    cpu = not found & {("torch", "fail"), ("runs folder", "fail")}
    events = cpu and {("gpu", "ok"), ("torch CUDA", "ok")} <= found
    return {"cpu": cpu, "events": events, "counters": events and {("ncu", "ok"), ("counters", "ok")} <= found}


def exit_code(findings: Iterable[Finding]) -> int:
    """0, or 3 when anything needed on this machine failed."""
    return 3 if any(finding.status == "fail" for finding in findings) else 0


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


def _answer(future: Future[T], end: float, otherwise: Callable[[Exception], T]) -> T:
    try:
        return future.result(max(0.0, end - time.monotonic()))
    except Exception as error:
        return otherwise(error)


def _said(error: Exception) -> str:
    return "no answer in time" if isinstance(error, TooLate) else f"{type(error).__name__}: {error}"


def _broken(name: str, error: Exception) -> list[Finding]:
    if isinstance(error, TooLate):
        return [Finding(name, "warn", "this check did not end in time", "something on this machine hangs")]
    return [Finding(name, "warn", f"this check broke: {_said(error)}")]
