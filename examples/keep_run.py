"""Copy what was collected of a run, without what belongs to the machine that made it.

    python examples/keep_run.py profkit-runs/ICVXKH/20261120T210000Z examples/h200/ICVXKH

Host name, paths, the card's number and the kernel's version go; logs and derived files stay behind
(`profkit report` makes the derived ones again).
"""

from __future__ import annotations

import os
import re
import socket
import sys
import tempfile
from pathlib import Path

KEPT = ("run.json", "timings.csv", "cupti.csv", "ncu.csv", "lines.csv", "ncu.annotations.jsonl")


def scrubbed(text: str) -> str:
    """Without anything of this machine."""
    text = re.sub(r"GPU-[0-9a-f-]{36}", "GPU-00000000-0000-0000-0000-000000000000", text)
    places = (Path.cwd(), Path(sys.prefix), Path(tempfile.gettempdir()), Path(os.path.expanduser("~")))
    for place in places:
        if str(place) != "/":
            text = text.replace(f"{place}/", "")
    text = text.replace(f'"{socket.gethostname()}"', '"127.0.0.1"')
    return re.sub(r'("os": ?"Linux)[^"]*"', r'\1"', text)


def keep(run: Path, target: Path) -> None:
    """Write the scrubbed copy."""
    target.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        if (run / name).exists():
            (target / name).write_text(scrubbed((run / name).read_text("utf-8")), encoding="utf-8")


if __name__ == "__main__":
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
