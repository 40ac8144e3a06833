"""Nsight Compute, Nsight Systems, and obstacles to reading counters of this GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from profkit.doctor.finding import Finding
from profkit.doctor.gpu import Machine
from profkit.launch import tools
from profkit.vendor.nvidia import ncu

_OLDEST_NCU = (2022, 3)
_NCU_FOR = {"10.0": (2025, 1), "12.0": (2025, 1), "10.3": (2025, 2), "12.1": (2025, 2), "11.0": (2025, 3)}
"""Compute capability -> first Nsight Compute for a newer chip."""

_NSYS_FOR_CUDA = {13: (2025, 3), 12: (2023, 1), 11: (2020, 3)}
"""CUDA of the driver -> first suitable Nsight Systems; older ones silently lose the GPU trace."""


def check_ncu(machine: Machine) -> Iterator[Finding]:
    """Nsight Compute: installed, running, and new enough for the GPU."""
    tool = tools.find(tools.NCU)
    if tool is None:
        yield Finding("ncu", "fail", f"{_absent(tools.NCU)}: no hardware counters", tools.NCU.fix)
        return
    cc = machine.gpus[0]["cc"] if machine.gpus else ""
    oldest, what = _NCU_FOR.get(cc, _OLDEST_NCU), f"{tool.text} ({tool.path})"
    if tool.version and tool.version[:2] < oldest:
        fix = "install a newer Nsight Compute; it may be newer than the CUDA toolkit and the driver"
        yield Finding("ncu", "warn", f"{what} is older than {oldest[0]}.{oldest[1]}, too old for this GPU", fix)
    else:
        yield Finding("ncu", "ok", what)


def _absent(kind: tools.Kind) -> str:
    named = os.environ.get(kind.variable)
    return f"{kind.variable}={named} does not run" if named else "not found"


def check_counters(params: Path = ncu.PARAMS) -> Iterator[Finding]:
    """Whether the driver lets this process read hardware counters, without trying."""
    if ncu.counters_restricted(params):
        what = "kept for administrators (RmProfilingAdminOnly: 1): ncu would stop with ERR_NVGPUCTRPERM"
        yield Finding("counters", "fail", what, ncu.PERMISSION_FIX)
    elif (kept := ncu.admin_only(params)) is None:
        fix = f"`profkit profile SAMPLE --ncu` tries it; if it fails with ERR_NVGPUCTRPERM: {ncu.PERMISSION_FIX}"
        yield Finding("counters", "warn", f"not known: {params} is not there", fix)
    else:
        yield Finding("counters", "ok", f"open {'to this process by CAP_SYS_ADMIN' if kept else 'to every user'}")


def check_nsys(machine: Machine) -> Iterator[Finding]:
    """Nsight Systems; it is optional, so nothing here fails."""
    tool = tools.find(tools.NSYS)
    if tool is None:
        yield Finding("nsys", "warn", f"{_absent(tools.NSYS)}; only timelines need it", tools.NSYS.fix)
        return
    what, oldest = f"{tool.text} ({tool.path})", _NSYS_FOR_CUDA.get(machine.cuda[0], (0, 0))
    if tool.version[:2] < oldest:
        why = f"older than the driver's CUDA {machine.cuda[0]}: its GPU trace may stop early without a word"
        fix = f"install Nsight Systems {oldest[0]}.{oldest[1]} or newer"
        yield Finding("nsys", "warn", f"{what} is {why}", fix)
    elif "nsight-compute" in os.path.realpath(tool.path):
        why = "comes with Nsight Compute and may write only a .qdstrm, which nothing here can read"
        yield Finding("nsys", "warn", f"{what} {why}", "install Nsight Systems itself")
    else:
        yield Finding("nsys", "ok", what)
