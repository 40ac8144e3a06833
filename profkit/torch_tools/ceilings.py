"""Measure a device's ceilings: `python -m profkit.torch_tools.ceilings KIND OUT`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec


def main(kind: str, out: str) -> int:
    """Write {"device", "ceilings", "refused"} as JSON."""
    from dataclasses import asdict

    from profkit.guest import facts
    from roofline.measure import measure_roofline

    device, roof, refused = measure_roofline(kind)
    told = {k: v for k, v in asdict(device).items() if v == v and v not in ("", None)}
    # By these a run finds them.
    told |= facts.device_facts(facts.choose("cpu")) if kind == "cpu" else {}
    measured = [msgspec.to_builtins(c) for c in roof.ceilings if c.source == "measured"]
    Path(out).write_text(json.dumps({"device": told, "ceilings": measured, "refused": list(refused)}), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
