"""The device of a run: facts and measured ceilings, kept per UUID and driver."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from profkit.errors import CannotProfileError, ProfkitError
from profkit.launch import cache, gpu, process
from profkit.launch.environment import environment
from profkit.launch.gpu import gpu_present
from profkit.launch.protocol import BARE
from profkit.rundir.directory import now
from profkit.rundir.files import temporary, write_atomic
from roofline.measure.cpu import cpu_name

if TYPE_CHECKING:
    import pandas as pd

LIMIT = 180.0
"""Seconds after which measuring counts as hung; on an H100 it takes a quarter of a minute."""


class Measured(msgspec.Struct, frozen=True):
    """Measured ceilings. `device`: facts of roofline.Device; `ceilings`: rows of Ceiling, SI.

    `refused`: probes without a ceiling, and why; `created`: UTC, ISO 8601.
    """

    device: dict[str, Any]
    ceilings: list[dict[str, Any]]
    refused: list[str]
    created: str
    schema: str = "profkit-ceilings/1"


def known(device: Mapping[str, Any]) -> Measured | None:
    """The kept measurement of a device, None if missing or unreadable."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(cache.ceilings(device).read_bytes(), type=Measured)
    return None


def measure(kind: str = "auto") -> Measured:
    """Measure in a child process, and keep the result.

    Raises CannotProfileError without a GPU, ProfkitError if the measurement fails.
    """
    if kind == "auto":
        kind = "cuda" if gpu_present() else "cpu"
    if kind == "cuda" and not gpu_present():
        raise CannotProfileError("no NVIDIA GPU to measure", fix="`profkit ceilings --device cpu` measures this CPU")
    with temporary() as folder:
        out, log = Path(folder) / "ceilings.json", Path(folder) / "log"
        argv = [*BARE, "profkit.torch_tools.ceilings", kind, str(out)]
        ended = process.run(argv, log=log, env=environment(), limit=LIMIT)
        if ended.hung or ended.code or not out.exists():
            how = f"no end after {LIMIT:g} s" if ended.hung else f"exit code {ended.code}"
            raise ProfkitError(
                f"measuring the ceilings failed: {how}\n{ended.tail}",
                fix="`profkit doctor` checks the device",
            )
        data = json.loads(out.read_bytes())
    return keep(data["device"], data["ceilings"], data["refused"])


def keep(device: Mapping[str, Any], rows: list[dict[str, Any]], refused: Sequence[str] = ()) -> Measured:
    """Keep these measurements for later runs."""
    found, file = Measured(dict(device), rows, list(refused), now()), cache.ceilings(device)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, msgspec.json.encode(found))
    return found


KINDS = {"nvidia": "cuda", "amd": "rocm"}
"""Kind of device in a manifest, by the vendor of collectors.Format."""


def device_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A reader's device facts for the manifest: known numbers only."""
    numbers = ("l2_bytes", "memory_bytes", "max_sm_clock", "max_mem_clock", "bus_bits")
    known = {name: float(facts[name]) for name in numbers if facts.get(name)}
    found: dict[str, Any] = {name: value for name, value in known.items() if not math.isnan(value)}
    sms = facts.get("sms")
    return found | ({"sms": int(sms)} if sms and sms == sms else {})


def cpu() -> dict[str, Any]:
    """This machine's CPU, found without torch."""
    return {"kind": "cpu", "name": cpu_name()}


def device_of(frames: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """The device of the launches, with the driver's identity if it is in this machine.

    frames: launches by tool; ncu's are preferred.
    """
    frame = frames.get("ncu", next(iter(frames.values())))
    known = device_facts(next(iter(frame.attrs.get("devices", ())), {}))
    name = next((str(one) for one in frame["device"] if one and not str(one).isdigit()), "")
    cc = next((str(one) for one in frame["cc"] if one), "")
    here = gpu.identity()
    mine = here if here and here.get("name") in (name, "") else {}
    named = {"name": name or here.get("name", "unknown device")}
    return {"kind": "cuda", **known, **named, **mine, **({"cc": cc} if cc else {})}
