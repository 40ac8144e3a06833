"""Check what works on this machine, with a fix for each problem.

Every check runs in its own thread, and all share one deadline; a check that fails or hangs becomes a warning about
itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from functools import partial
from pathlib import Path
from typing import TypeVar

from profkit.doctor import gpu, place, software, tools
from profkit.doctor.finding import Finding
from profkit.launch.cache import builds
from profkit.rundir.directory import RUNS

LIMIT = 14.0
"""Seconds for all checks together."""
_OF_GPU = ("torch CUDA", "nvcc", "ncu", "counters", "nsys")
"""Checks for GPU work only, left out without a GPU."""
T = TypeVar("T")


def check_all(*, runs: Path = RUNS) -> list[Finding]:
    """Findings of all checks, in report order; `runs`: folder for runs."""
    end = time.monotonic() + LIMIT
    torch, driver = _start(software.torch_facts), _start(gpu.survey)
    checks: dict[str, Callable[[], Iterable[Finding]]] = {
        "python": software.check_python,
        "torch": lambda: software.check_torch(torch.result()),
        "driver": lambda: gpu.check_driver(driver.result()),
        "gpu": lambda: gpu.check_gpus(driver.result()),
        "torch CUDA": lambda: software.check_torch_cuda(torch.result()),
        "c++": lambda: software.check_compiler(driver.result()),
        "nvcc": lambda: software.check_nvcc(torch.result()),
        "ncu": lambda: tools.check_ncu(driver.result()),
        "counters": tools.check_counters,
        "nsys": lambda: tools.check_nsys(driver.result()),
        "disk": lambda: place.disks(runs, builds()),
        "walls": place.walls,
        "server": place.servers,
    }

    def findings(name: str) -> list[Finding]:
        return [*checks[name]()] if name not in _OF_GPU or driver.result().hardware else []

    answers = {name: _start(partial(findings, name)) for name in checks}
    found: list[Finding] = []
    for name, answer in answers.items():
        try:
            found += answer.result(max(0.0, end - time.monotonic()))
        except TooLate:
            found.append(Finding(name, "warn", "this check did not end in time", "something on this machine hangs"))
        except Exception as error:
            found.append(Finding(name, "warn", f"this check broke: {type(error).__name__}: {error}"))
    return found


def _start(work: Callable[[], T]) -> Future[T]:
    """Run `work` in a daemon thread, which does not keep the program from ending."""
    future: Future[T] = Future()

    def body() -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=body, daemon=True).start()
    return future


def abilities(findings: Iterable[Finding]) -> dict[str, bool]:
    """What `profkit profile` can do here: CPU, CUDA events, hardware counters."""
    found = {(finding.name, finding.status) for finding in findings}
    cpu = not found & {("torch", "fail"), ("runs folder", "fail")}
    events = cpu and {("gpu", "ok"), ("torch CUDA", "ok")} <= found
    return {"cpu": cpu, "events": events, "counters": events and {("ncu", "ok"), ("counters", "ok")} <= found}


def exit_code(findings: Iterable[Finding]) -> int:
    """0, or 3 if something needed on this machine failed."""
    return 3 if any(finding.status == "fail" for finding in findings) else 0
