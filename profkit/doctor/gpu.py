"""The driver and the GPUs, asked through NVML; nothing is started or changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profkit.doctor.finding import Finding, Status
from profkit.doctor.place import Place, surroundings
from profkit.vendor.nvidia.nvml import Card, Unsaid, cards, chosen, driver, text
from roofline.device import find_spec

_SLOWED = {
    0x08: "hardware slowdown",
    0x20: "thermal limit",
    0x40: "thermal limit (hardware)",
    0x80: "power brake",
}
_DEVICES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/proc/driver/nvidia/version")


@dataclass(frozen=True)
class Gpu:
    """One GPU as NVML describes it; None where it will not say. Clocks in Hz, memory in bytes."""

    index: int
    name: str
    cc: str = ""
    memory: float | None = None
    mig: bool = False
    sm_clock: float | None = None
    max_sm_clock: float | None = None
    reasons: int = 0
    processes: int = 0


@dataclass(frozen=True)
class Machine:
    """The GPUs this process may use. `hardware`: a GPU is meant to be usable here.

    `cuda`: the newest CUDA the driver serves, (13, 0); `trouble`: why there is no GPU to use.
    """

    gpus: tuple[Gpu, ...] = ()
    driver: str = ""
    cuda: tuple[int, int] = (0, 0)
    trouble: str = ""
    hardware: bool = False
    place: Place = field(default_factory=Place)

    @property
    def needed(self) -> Status:
        """How bad it is when something that only GPU work needs is missing."""
        return "fail" if self.hardware else "warn"


def survey() -> Machine:
    """Ask the driver; never raises for a missing or broken one."""
    place = surroundings()
    try:
        nvml = driver()
        everything, hidden = cards(nvml), os.environ.get("CUDA_VISIBLE_DEVICES")
        gpus = tuple(_gpu(nvml, index, everything[index]) for index, _ in chosen(everything, hidden))
        version = text(_ask("", nvml.nvmlSystemGetDriverVersion))
        number = int(_ask(0, nvml.nvmlSystemGetCudaDriverVersion_v2))
    except RuntimeError as error:
        # Device files may be there although the driver does not answer.
        return Machine(trouble=str(error), hardware=any(Path(name).exists() for name in _DEVICES), place=place)
    trouble = f"CUDA_VISIBLE_DEVICES={hidden!r} hides every GPU" if everything else "the driver reports no GPU"
    trouble = "" if gpus else trouble
    return Machine(gpus, version, (number // 1000, number % 1000 // 10), trouble, bool(gpus), place)


def _gpu(nvml: Any, index: int, card: Card) -> Gpu:
    handle = card.handle
    memory = _ask(None, nvml.nvmlDeviceGetMemoryInfo, handle)
    cc = _ask(None, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    return Gpu(
        index,
        text(nvml.nvmlDeviceGetName(handle)),
        cc=f"{cc[0]}.{cc[1]}" if cc else "",
        memory=float(memory.total) if memory else None,
        mig=bool(_ask((0, 0), nvml.nvmlDeviceGetMigMode, handle)[0]),
        sm_clock=_hertz(_ask(None, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM)),
        max_sm_clock=_hertz(_ask(None, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM)),
        reasons=int(_ask(0, nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)),
        processes=len(_ask([], nvml.nvmlDeviceGetComputeRunningProcesses, handle)),
    )


def _ask(otherwise: Any, question: Callable[..., Any], *about: Any) -> Any:
    """An NVML answer, or `otherwise` where this driver or GPU has none."""
    with Unsaid():
        return question(*about)
    return otherwise


def _hertz(megahertz: int | None) -> float | None:
    return None if megahertz is None else megahertz * 1e6


def check_driver(machine: Machine) -> Iterator[Finding]:
    """The driver's and its CUDA's version."""
    if machine.driver:
        newest = f", serves CUDA up to {machine.cuda[0]}.{machine.cuda[1]}" if machine.cuda[0] else ""
        yield Finding("driver", "ok", f"{machine.driver}{newest}")
        return
    fix = "install the NVIDIA driver, or see `nvidia-smi` for what it says"
    if machine.place.container:
        fix = "start the container with its GPUs (docker: --gpus all, with the NVIDIA container toolkit)"
    elif machine.place.wsl2:
        fix = "install the NVIDIA driver in Windows, none inside WSL2"
    if not machine.hardware:
        fix = f"nothing for work on the CPU; for a GPU: {fix}"
    yield Finding("driver", machine.needed, machine.trouble, fix)


def check_gpus(machine: Machine) -> Iterator[Finding]:
    """The GPUs; of the first its users, MIG, clocks, datasheet; without one what is impossible."""
    if not machine.gpus:
        why = machine.trouble if machine.driver else "none that this process can use"
        what = f"{why}: no CUDA events, no counters; profiling on the CPU works"
        yield Finding("gpu", machine.needed, what, "`profkit profile SAMPLE` takes the CPU by itself")
        return
    for gpu in machine.gpus:
        parts = [gpu.name, f"compute capability {gpu.cc}" if gpu.cc else ""]
        parts.append(f"{gpu.memory / 2**30:.3g} GiB" if gpu.memory else "")
        yield Finding("gpu", "ok", f"{gpu.index}: {', '.join(part for part in parts if part)}")
    first = machine.gpus[0]
    if first.processes:
        what = f"{first.index}: {first.processes} other process(es) compute on it; times will be disturbed"
        yield Finding("gpu", "warn", what, "profile on an idle GPU: CUDA_VISIBLE_DEVICES=N picks another")
    if first.mig:
        what = "on: this is a slice; counters are limited and the whole GPU's peaks do not apply to it"
        fix = "for whole-GPU figures, as administrator on an idle GPU: `nvidia-smi -mig 0`"
        yield Finding("mig", "warn", what, fix)
    slowed = ", ".join(text for bit, text in _SLOWED.items() if first.reasons & bit)
    now, most = ("?" if one is None else f"{one / 1e6:.0f}" for one in (first.sm_clock, first.max_sm_clock))
    clock = f"SM {now} of {most} MHz"
    if slowed:
        fix = "let the GPU cool down, or see to its cooling and power supply"
        yield Finding("clocks", "warn", f"{clock} ({slowed})", fix)
    else:
        yield Finding("clocks", "ok", f"{clock}; profkit records clocks and never locks them")
    spec = find_spec(first.name, cc=first.cc or None, memory_bytes=None if first.mig else first.memory)
    if spec is None:
        what = f"{first.name} is not in roofline/devices.toml: ceilings come from ncu and measurement alone"
        yield Finding("datasheet", "warn", what, "add its table there, with its source")
    else:
        yield Finding("datasheet", "ok", f"{spec.name}: peaks known")
