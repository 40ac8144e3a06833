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
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from profkit.doctor import gpu, place, software, tools
from profkit.doctor.finding import Finding, abilities, exit_code
from profkit.launch.cache import builds
from profkit.rundir.directory import RUNS

__all__ = ["Finding", "abilities", "check_all", "exit_code"]

LIMIT = 14.0
"""Seconds all checks together may take; a real capture (`probe`) comes on top."""

_SURVEY = 8.0
T = TypeVar("T")
Check = Callable[[], Iterable[Finding]]


def check_all(*, probe: bool = False, runs: Path | None = None) -> list[Finding]:
    """Every check, in the order of the report. `probe` also starts ncu once; `runs` is where runs would go."""
    end = time.monotonic() + LIMIT
    machine = _Answer(gpu.survey, lambda why: gpu.Machine(trouble=why, hardware=True), _SURVEY)
    facts: _Answer[software.Facts] = _Answer(
        software.torch_facts, lambda why: {"unknown": why}, software.PATIENCE + 1.0
    )
    begun = [(name, _start(partial(_listed, check))) for name, check in _checks(machine, facts, runs)]
    found: list[Finding] = []
    for name, future in begun:
        found += _finish(name, future, end)
    if probe:
        found += _probe(machine)
    return found


def _probe(machine: Callable[[], gpu.Machine]) -> list[Finding]:
    """In this thread, so that an interrupt ends ncu as well."""
    try:
        return [tools.probe(machine())]
    except Exception as error:
        return [_broken("probe", error)]


def _checks(
    machine: _Answer[gpu.Machine], facts: _Answer[software.Facts], runs: Path | None
) -> list[tuple[str, Check]]:
    return [
        ("python", software.check_python),
        ("torch", lambda: software.check_torch(facts(), machine())),
        ("driver", lambda: gpu.check_driver(machine())),
        ("gpu", lambda: gpu.check_gpus(machine())),
        ("gpu state", lambda: gpu.check_state(machine())),
        ("c++", lambda: software.check_compiler(machine())),
        ("nvcc", lambda: software.check_nvcc(facts(), machine())),
        ("ninja", lambda: software.check_ninja(machine())),
        ("ncu", lambda: tools.check_ncu(machine())),
        ("counters", lambda: tools.check_counters(machine())),
        ("dcgm", lambda: tools.check_dcgm(machine())),
        ("injection", lambda: [place.injections(os.environ)]),
        ("nsys", lambda: tools.check_nsys(machine())),
        ("disk", lambda: place.disks(runs or RUNS, builds())),
        ("walls", lambda: [place.walls()]),
        ("fonts", software.check_fonts),
    ]


class _Answer(Generic[T]):
    """A question asked once, at once, and its answer for all who need it."""

    def __init__(self, question: Callable[[], T], otherwise: Callable[[str], T], patience: float) -> None:
        self._future = _start(question)
        self._otherwise = otherwise
        self._end = time.monotonic() + patience

    def __call__(self) -> T:
        try:
            return self._future.result(max(0.0, self._end - time.monotonic()))
        except TooLate:
            return self._otherwise("no answer in time")
        except Exception as error:
            return self._otherwise(f"{type(error).__name__}: {error}")


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


def _listed(check: Check) -> list[Finding]:
    return list(check())


def _finish(name: str, future: Future[list[Finding]], end: float) -> list[Finding]:
    try:
        return future.result(max(0.0, end - time.monotonic()))
    except TooLate:
        return [
            Finding(
                name,
                "warn",
                "this check did not end in time",
                "something on this machine hangs",
            )
        ]
    except Exception as error:
        return [_broken(name, error)]


def _broken(name: str, error: Exception) -> Finding:
    return Finding(name, "warn", f"this check broke: {type(error).__name__}: {error}")
