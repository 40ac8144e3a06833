"""Nsight Compute: whether it may read counters, and the exact command line.

`ncu` exits with 0 even if no kernel was profiled or a metric is unknown, so the CSV decides about success; this file
only starts the tool and interprets its log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PERMISSION_FIX = (
    "run as root or with CAP_SYS_ADMIN (docker: --cap-add=SYS_ADMIN), or on the host load the driver with "
    "`options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d and reboot "
    "(WSL2: NVIDIA Control Panel > Developer > Manage GPU Performance Counters > allow access to all users)"
)


PARAMS = Path("/proc/driver/nvidia/params")
"""The driver's parameters in /proc."""


def admin_only(params: Path = PARAMS) -> bool | None:
    """Whether the driver restricts counters to administrators; None if unknown."""
    try:
        match = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", params.read_text("utf-8", "replace"), re.M)
    except OSError:
        return None
    return bool(int(match[1])) if match else None


def counters_restricted(params: Path = PARAMS) -> bool:
    """Whether counters are restricted to administrators and this process is none."""
    return bool(admin_only(params)) and not _privileged()


def _privileged() -> bool:
    """Whether this process has CAP_SYS_ADMIN (bit 21) in effect."""
    try:
        match = re.search(r"^CapEff:\s*([0-9a-f]+)", Path("/proc/self/status").read_text("ascii", "replace"), re.M)
    except OSError:
        return os.geteuid() == 0
    return bool(match and int(match[1], 16) >> 21 & 1)


@dataclass(frozen=True)
class Options:
    """Options of a capture.

    `include`: NVTX expressions; `report`: keep the .ncu-rep here (without suffix). `sections`: with any, sources go
    into the report. `windowed`: only between cudaProfilerStart and cudaProfilerStop. `count`: launches to capture
    before the program is ended, 0 for all.
    """

    metrics: Sequence[str]
    csv: Path
    include: Sequence[str] = ("profkit@counters/",)
    cache: str = "all"
    report: Path | None = None
    count: int = 0
    extra: Sequence[str] = ()
    sections: Sequence[str] = ()
    windowed: bool = False


def prefix(tool: str, options: Options) -> list[str]:
    """The ncu command line before the program.

    One step to CSV: the log file holds ncu's messages and the table, not the program's output.
    """
    argv = [tool, "--config-file", "off", "--target-processes", "all", "--nvtx"]
    for expression in options.include:
        argv += ["--nvtx-include", expression]
    for section in options.sections:
        argv += ["--section", section]
    if options.sections:
        argv += ["--import-source", "yes"]
    argv += ["--metrics", ",".join(options.metrics), "--clock-control", "none", "--cache-control", options.cache]
    argv += ["--csv", "--page", "raw", "--print-units", "base", "--log-file", str(options.csv)]
    if options.report is not None:
        argv += ["-f", "-o", str(options.report)]
    if options.count:
        argv += ["--launch-count", str(options.count), "--kill", "yes"]
    if options.windowed:
        argv += ["--profile-from-start", "off"]
    return [*argv, *options.extra]


def source_page(tool: str, report: Path, csv: Path) -> list[str]:
    """Command line that writes a report's instructions with their source lines; needs no GPU."""
    page = ["--page", "source", "--print-source", "cuda,sass", "--csv"]
    return [tool, "--config-file", "off", "--import", str(report), *page, "--log-file", str(csv)]


def environment(temporary: Path) -> Mapping[str, str]:
    """C locale and a private temporary directory, as ncu's lock file survives crashes."""
    return {"LC_ALL": "C", "TMPDIR": str(temporary)}
