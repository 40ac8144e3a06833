"""Driver and GPUs, queried through NVML; nothing is started or changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from profkit.doctor.finding import Finding, Status
from profkit.launch.gpu import visible
from profkit.vendor.nvidia import nvml

_DEVICES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/proc/driver/nvidia/version")
_CONTAINER_WORDS = ("docker", "kubepods", "containerd", "libpod", "lxc")


@dataclass(frozen=True)
class Machine:
    """GPUs of this process, see profkit.launch.gpu. `hardware`: one is expected to work here.

    `cuda`: newest CUDA of the driver, (13, 0); `trouble`: why there is no usable GPU.
    """

    gpus: Sequence[Mapping[str, str]] = ()
    driver: str = ""
    cuda: tuple[int, int] = (0, 0)
    trouble: str = ""
    hardware: bool = False

    @property
    def needed(self) -> Status:
        """Severity of a missing requirement of GPU work."""
        return "fail" if self.hardware else "warn"


def survey() -> Machine:
    """Query the driver; never raises for a missing or broken one."""
    try:
        library = nvml.driver()
    except RuntimeError as error:
        # Device files may be there although the driver does not answer.
        return Machine(trouble=str(error), hardware=any(Path(name).exists() for name in _DEVICES))
    gpus, version, newest = visible(), "", 0
    with nvml.Unsaid():
        version = nvml.text(library.nvmlSystemGetDriverVersion())
        newest = int(library.nvmlSystemGetCudaDriverVersion_v2())
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    trouble = "the driver reports no GPU" if hidden is None else f"CUDA_VISIBLE_DEVICES={hidden!r} hides every GPU"
    return Machine(gpus, version, (newest // 1000, newest % 1000 // 10), "" if gpus else trouble, bool(gpus))


def check_driver(machine: Machine) -> Iterator[Finding]:
    """Version of the driver and its CUDA."""
    if machine.driver:
        newest = f", serves CUDA up to {machine.cuda[0]}.{machine.cuda[1]}" if machine.cuda[0] else ""
        yield Finding("driver", "ok", f"{machine.driver}{newest}")
        return
    fix = driver_fix() if machine.hardware else f"nothing for work on the CPU; for a GPU: {driver_fix()}"
    yield Finding("driver", machine.needed, machine.trouble, fix)


def driver_fix(root: Path = Path("/")) -> str:
    """How to install a driver in a container, in WSL2 or elsewhere; `root` contains /proc."""
    marks = any((root / name).exists() for name in (".dockerenv", "run/.containerenv"))
    if marks or any(word in _read(root / "proc/1/cgroup") for word in _CONTAINER_WORDS):
        return "start the container with its GPUs (docker: --gpus all, with the NVIDIA container toolkit)"
    if "microsoft" in _read(root / "proc/version").lower():
        return "install the NVIDIA driver in Windows, none inside WSL2"
    return "install the NVIDIA driver, or see `nvidia-smi` for what it says"


def _read(path: Path) -> str:
    """Content of a file in /proc, "" if unreadable."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def check_gpus(machine: Machine) -> Iterator[Finding]:
    """The GPUs, and whether the first is a slice; without one, what is impossible."""
    if not machine.gpus:
        why = machine.trouble if machine.driver else "none that this process can use"
        what = f"{why}: no CUDA events, no counters; profiling on the CPU works"
        yield Finding("gpu", machine.needed, what, "`profkit profile SAMPLE` takes the CPU by itself")
    for number, gpu in enumerate(machine.gpus):
        memory = f", {float(gpu['memory']) / 2**30:.3g} GiB" if float(gpu["memory"]) else ""
        yield Finding("gpu", "ok", f"{number}: {gpu['name']}, compute capability {gpu['cc']}{memory}")
    if machine.gpus and " MIG " in machine.gpus[0]["name"]:
        what = "on: this is a slice; counters are limited and the whole GPU's peaks do not apply to it"
        fix = "for whole-GPU figures, as administrator on an idle GPU: `nvidia-smi -mig 0`"
        yield Finding("mig", "warn", what, fix)
