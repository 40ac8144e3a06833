"""Nsight Compute, Nsight Systems, and what may keep them from the counters."""

from __future__ import annotations

import os
from pathlib import Path

from profkit.doctor.finding import Finding, Status
from profkit.doctor.gpu import Machine
from profkit.launch import tools
from profkit.vendor.nvidia import ncu

_OLDEST_NCU = (2022, 3)
_NCU_FOR = {
    "8.9": (2022, 3),
    "9.0": (2022, 3),
    "10.0": (2025, 1),
    "12.0": (2025, 1),
    "10.3": (2025, 2),
    "12.1": (2025, 2),
    "11.0": (2025, 3),
}
"""Compute capability -> the first Nsight Compute that knows the chip."""

_NSYS_FOR_CUDA = {13: (2025, 3), 12: (2023, 1), 11: (2020, 3)}
"""CUDA of the driver -> the first Nsight Systems of its time; older ones lose the GPU trace without a word."""


def check_ncu(machine: Machine) -> Finding:
    """Nsight Compute: there, running, and new enough for the GPU."""
    tool = tools.find(tools.NCU)
    if tool is None:
        return Finding("ncu", machine.needed, f"{_absent(tools.NCU)}: no hardware counters", tools.NCU.fix)
    cc = machine.gpus[0].cc if machine.gpus else ""
    oldest = max(_OLDEST_NCU, _NCU_FOR.get(cc, (0, 0)))
    what = f"{tool.text} ({tool.path})"
    if not tool.version or tool.version[:2] >= oldest:
        return Finding("ncu", "ok", what)
    chip = f" for compute capability {cc}" if cc in _NCU_FOR else ""
    fix = "install a newer Nsight Compute; it may be newer than the CUDA toolkit and the driver"
    return Finding("ncu", "warn", f"{what} is older than {oldest[0]}.{oldest[1]}, too old{chip}", fix)


def _absent(kind: tools.Kind) -> str:
    named = os.environ.get(kind.variable)
    return f"{kind.variable}={named} does not run" if named else "not found"


def check_counters(machine: Machine, params: Path = ncu.PARAMS) -> Finding:
    """Whether the driver lets this process read hardware counters, without trying."""
    name, place = "counters", machine.place
    if not machine.hardware:
        return Finding(name, "warn", "hardware counters need an NVIDIA GPU", "")
    if ncu.counters_restricted(params):
        what = "kept for administrators (RmProfilingAdminOnly: 1): ncu would stop with ERR_NVGPUCTRPERM"
        return Finding(name, "fail", what, place.permission_fix)
    if ncu.admin_only(params) is None:
        fix = "`profkit profile SAMPLE --ncu` tries it; if it fails with ERR_NVGPUCTRPERM: " + place.permission_fix
        return Finding(name, "warn", f"not known: {params} is not there", fix)
    return Finding(
        name, "ok", f"open {'to this process by CAP_SYS_ADMIN' if ncu.admin_only(params) else 'to every user'}"
    )


def check_nsys(machine: Machine) -> Finding:
    """Nsight Systems; it is optional, so nothing here fails."""
    tool = tools.find(tools.NSYS)
    if tool is None:
        status: Status = "warn" if machine.hardware or os.environ.get(tools.NSYS.variable) else "ok"
        return Finding("nsys", status, f"{_absent(tools.NSYS)}; only timelines need it", tools.NSYS.fix)
    if not tool.version:
        return Finding("nsys", "warn", f"{tool.path} does not say its version", "reinstall Nsight Systems")
    what = f"{tool.text} ({tool.path})"
    oldest = _NSYS_FOR_CUDA.get(machine.cuda[0], (0, 0))
    if tool.version[:2] < oldest:
        why = f"older than the driver's CUDA {machine.cuda[0]}: its GPU trace may stop early without a word"
        return Finding("nsys", "warn", f"{what} is {why}", f"install Nsight Systems {oldest[0]}.{oldest[1]} or newer")
    if "nsight-compute" in os.path.realpath(tool.path):
        why = "comes with Nsight Compute and may write only a .qdstrm, which nothing here can read"
        return Finding("nsys", "warn", f"{what} {why}", "install Nsight Systems itself")
    return Finding("nsys", "ok", what)
