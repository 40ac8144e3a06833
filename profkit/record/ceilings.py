"""The measured ceilings of this machine's GPU: kept per UUID and driver, copied into runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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


def cache_file(device: Mapping[str, Any]) -> Path:
    """Where the ceilings of a device lie: its UUID (else its name) and the driver decide."""
    key = f"{device.get('uuid') or device.get('name', 'unknown')}-{device.get('driver', 'none')}"
    return cache.root() / "ceilings" / (re.sub(r"[^A-Za-z0-9.]+", "-", key) + ".json")


def known(device: Mapping[str, Any]) -> Measured | None:
    """The kept measurement of a device, None when there is none (or it cannot be read)."""
    try:
        data = json.loads(cache_file(device).read_text("utf-8"))
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
    found = Measured(data["device"], data["ceilings"], data["refused"], now())
    file = cache_file(found.device)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, json.dumps({"schema": SCHEMA, **found.__dict__}, indent=1).encode())
    return found
