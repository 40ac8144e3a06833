"""Measure a device's ceilings: `python -m profkit.torch_tools.ceilings KIND OUT`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import torch

from profkit.guest import facts, settings
from profkit.launch.protocol import Events
from roofline import measure
from roofline.errors import RooflineError


def send(events: Events, device: torch.device) -> None:
    """Measure this device's ceilings in this process; on a CPU with the current threads."""
    events.phase("ceilings")
    try:
        # Measuring switches TF32 on, and cannot put torch's switches back as they were spelt.
        with settings.kept("", lambda *_, **__: None):
            found = measure.measure_cpu() if device.type == "cpu" else measure.measure_gpu(device.index or 0)[1]
        events.send("ceilings", ceilings=msgspec.to_builtins(found))
    except (RooflineError, RuntimeError, MemoryError) as error:
        missing(events, str(error))


def missing(events: Events, why: str) -> None:
    """Send the caveat that the ceilings are unknown."""
    events.send("caveat", what="the ceilings of this device could not be measured", how_much=why, fix="")


def main(kind: str, out: str) -> int:
    """Write {"device", "ceilings", "refused"} as JSON."""
    _, roof, refused = measure.measure_roofline(kind)
    told = facts.device_facts(facts.choose(kind))
    measured = [msgspec.to_builtins(c) for c in roof.ceilings if c.source == "measured"]
    Path(out).write_text(json.dumps({"device": told, "ceilings": measured, "refused": list(refused)}), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
