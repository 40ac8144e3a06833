"""Nsight Systems: exact command lines to record a program and to export the record.

Recorded without CPU sampling and context switches (which write gigabytes for seconds), with only the CUDA and NVTX
traces; read from the sqlite export, which needs no nsys later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from collectors.caveat import TRACE_CUT, Caveat


def prefix(tool: str, base: Path, *, windowed: bool = False) -> list[str]:
    """Command line before the program; the record is `base`.nsys-rep.

    windowed: record only from cudaProfilerStart to cudaProfilerStop; the program then continues.
    """
    return [
        tool,
        "profile",
        "-t",
        "cuda,nvtx",
        "--sample=none",
        "--cpuctxsw=none",
        "--cuda-graph-trace=node",
        *(["--capture-range=cudaProfilerApi", "--capture-range-end=stop"] if windowed else []),
        "-f",
        "true",
        "-o",
        str(base),
    ]


def export(tool: str, report: Path, sqlite: Path) -> list[str]:
    """Command line that turns a record into its sqlite export."""
    return [tool, "export", "--type", "sqlite", "-f", "true", "-o", str(sqlite), str(report)]


def environment(temporary: Path) -> Mapping[str, str]:
    """A private temporary directory, as nsys leaves session files after a crash."""
    return {"LC_ALL": "C.UTF-8", "TMPDIR": str(temporary)}


_SAID = (
    (
        r"[Ii]mport\w* succeeded with non-fatal errors|[Ii]mported with non-fatal errors",
        "nsys imported its record with errors: parts may be missing",
        "the nsys is older than the driver: use a newer one",
        TRACE_CUT,
    ),
    (
        r"Unknown runtime API function index",
        "nsys does not know this CUDA's functions: its GPU trace may stop early",
        "use an nsys as new as the driver",
        TRACE_CUT,
    ),
    (
        r"[Nn]ot all (?:CUDA|NVTX) events might have been collected",
        "nsys says that not all events were collected",
        "let the program end by itself and synchronise before",
        "",
    ),
)


def caveats(output: str) -> list[Caveat]:
    """Caveats from nsys's output about the record."""
    return [
        Caveat(what, found[0].strip(), fix, code)
        for pattern, what, fix, code in _SAID
        if (found := re.search(pattern, output)) is not None
    ]


def failure(output: str, base: Path) -> tuple[str, str]:
    """(why there is no export, the fix) from nsys's output and files."""
    if Path(f"{base}.qdstrm").exists() and not Path(f"{base}.nsys-rep").exists():
        return (
            "this nsys records but cannot import what it recorded (it wrote a .qdstrm alone)",
            "it is the one inside Nsight Compute: install Nsight Systems itself",
        )
    newer = re.search(r"Report was created in Nsight Systems version \([^)]*\)[^\n]*", output)
    if newer:
        return newer[0], "export with the nsys that recorded, or a newer one"
    last = next((line for line in reversed(output.strip().splitlines()) if line.strip()), "it said nothing")
    return f"nsys wrote no report: {last.strip()[:200]}", "run the printed command by hand; see logs/nsys.log"
