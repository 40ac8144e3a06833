"""One line of the doctor's report, and what the lines together allow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """What one check found.

    status: ok; warn: works, but less well or not known; fail: something needed on this machine does not
    work. `fix` says what to do about it, "" when there is nothing to do.
    """

    name: str
    status: Status
    what: str
    fix: str = ""


def abilities(findings: Iterable[Finding]) -> dict[str, bool]:
    """What `profkit profile` can do here: CPU, CUDA events, hardware counters."""
    found: dict[str, list[Status]] = {}
    for finding in findings:
        found.setdefault(finding.name, []).append(finding.status)

    def sound(*names: str) -> bool:
        return all("ok" in found.get(name, []) for name in names)

    cpu = all("fail" not in found.get(name, []) for name in ("torch", "nvtx", "runs folder"))
    events = cpu and sound("gpu", "torch CUDA")
    # A real capture, where one was made, knows better than the driver's settings.
    allowed = sound("probe") if {"ok", "fail"} & set(found.get("probe", [])) else sound("counters")
    return {"cpu": cpu, "events": events, "counters": events and sound("ncu") and allowed}


def exit_code(findings: Iterable[Finding]) -> int:
    """0, or 3 when anything needed on this machine failed."""
    return 3 if any(finding.status == "fail" for finding in findings) else 0
