"""The measured ceilings of this machine's devices: kept per device, copied into runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from profkit.errors import CannotProfileError, ProfkitError
from profkit.launch import cache, process, runner
from profkit.launch.gpu import gpu_present
from profkit.launch.protocol import BARE
from profkit.rundir.directory import now
from profkit.rundir.files import temporary, write_atomic

SCHEMA = "profkit-ceilings/1"
LIMIT = 180.0
"""Seconds after which measuring counts as hung; it takes half a minute on an H200."""


@dataclass(frozen=True)
class Measured:
    """One measurement. `device`: facts of roofline.Device; `ceilings`: rows of roofline.Ceiling, SI;
    `refused`: probes that gave no ceiling, and why; `created`: UTC, ISO 8601.
    """

    device: Mapping[str, Any]
    ceilings: list[dict[str, Any]]
    refused: list[str]
    created: str

    @property
    def age(self) -> float:
        """Seconds since it was measured."""
        made = datetime.strptime(self.created, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
        return (datetime.now(timezone.utc) - made).total_seconds()


def known(device: Mapping[str, Any]) -> Measured | None:
    """The kept measurement of a device, None when there is none (or it cannot be read)."""
    try:
        data = json.loads(cache.ceilings(device).read_text("utf-8"))
        return Measured(data["device"], data["ceilings"], data["refused"], data["created"])
    except (OSError, ValueError, KeyError):
        return None


def measure(kind: str = "auto") -> Measured:
    """Measure now, in a child process, and keep the result.

    Raises CannotProfileError without a GPU, ProfkitError where the measurement fails.
    """
    if kind == "auto":
        kind = "cuda" if gpu_present() else "cpu"
    if kind == "cuda" and not gpu_present():
        raise CannotProfileError("no NVIDIA GPU to measure", fix="`profkit ceilings --device cpu` measures this CPU")
    with temporary() as folder:
        out, log = Path(folder) / "ceilings.json", Path(folder) / "log"
        argv = [*BARE, "profkit.torch_tools.ceilings", kind, str(out)]
        ended = process.run(argv, log=log, env=runner.environment(), limit=LIMIT)
        if ended.hung or ended.code or not out.exists():
            how = f"no end after {LIMIT:g} s" if ended.hung else f"exit code {ended.code}"
            raise ProfkitError(
                f"measuring the ceilings failed: {how}\n{ended.tail}",
                fix="`profkit doctor` checks the device",
            )
        data = json.loads(out.read_text("utf-8"))
    return keep(data["device"], data["ceilings"], data["refused"])


def keep(device: Mapping[str, Any], rows: list[dict[str, Any]], refused: Sequence[str] = ()) -> Measured:
    """Keep what was measured just now for later runs."""
    found = Measured(device, rows, list(refused), now())
    file = cache.ceilings(device)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, json.dumps({"schema": SCHEMA, **found.__dict__}, indent=1).encode())
    return found
