"""What parent and child say to each other: one job file in, one file of JSON lines out.

The parent writes a `Job`; the child appends an `Event` a line to a file the parent follows. A file and
not a pipe, because it survives every way a child can die and passes through `ncu` untouched.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Subject(msgspec.Struct, frozen=True):
    """One implementation to run: the reference or a candidate."""

    name: str
    role: str
    file: str
    backend: str = ""


class Job(msgspec.Struct):
    """What the child has to do.

    mode: "measure" (check and time) or "counters" (one annotated call each, to be run under ncu).
    device: "auto", "cuda" or "cpu". seeds: one a correctness trial. budget: seconds of timing in all;
    target: relative half-width of the interval of the median to reach. limits: seconds a phase may take.
    """

    mode: str
    sample: str
    subjects: list[Subject]
    device: str = "auto"
    seeds: list[int] = []
    budget: float = 5.0
    target: float = 0.005
    l2: str = "cold"
    timings: str = ""
    cache: str = ""
    limits: dict[str, float] = {}
    ceilings: bool = True


class Event(msgspec.Struct, omit_defaults=True):
    """One line from the child.

    kind: facts, phase (with `limit` seconds until the next event is due), impl, check, timing, work,
    ceilings, corrupt, doubt, done. `data` depends on the kind. `at`: seconds since the process began.
    """

    kind: str
    impl: str = ""
    phase: str = ""
    limit: float = 0.0
    at: float = 0.0
    data: dict[str, Any] = {}


CANNOT_WRITE = 74
"""The child's exit code when it could not write what it measured (EX_IOERR); its last line says what."""

LIMITS = {
    "start": 120.0,
    "load": 60.0,
    "build": 600.0,
    "check": 60.0,
    "work": 60.0,
    "ceilings": 60.0,
    "time": 60.0,
    "count": 120.0,
}
"""Seconds a phase may take before the child counts as hung; `--timeout` scales check, time and count."""
