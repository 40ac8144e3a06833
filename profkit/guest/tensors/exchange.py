"""Tensors between processes: a file each in a private directory, deleted once read.

They are saved by torch, and read back from a candidate with the weights-only loader: data, never code. The judge's
files are mapped. A candidate's are copied first, because it may still hold them open. With shared device memory
(staging.py) the file holds addresses.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from profkit.guest.tensors import inputs, staging
from profkit.guest.tensors.compare import tensors
from profkit.rundir.files import unwritable

_SLACK = 1 << 20
_ALIEN = "__not_a_tensor__"
# Checksums take half of the time of writing and protect nothing here (torch 2.6 on).
getattr(torch.serialization, "set_crc32_options", lambda _: None)(False)


def write(value: Any, file: Path, area: staging.Area | None = None) -> None:
    """Save tensors, those on the device in the area if it has room. Raises ProfkitError."""
    if area is not None and 0 < staging.size(value, area.device) <= area.left:
        value = area.put(value)
    size = sum(
        leaf.untyped_storage().nbytes()
        for _, leaf in tensors(value)
        if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided and leaf.device.type != "meta"
    )
    free = shutil.disk_usage(file.parent).free
    if size + _SLACK > free:
        room = f"{size / 1e9:.3g} GB are to be handed over and {free / 1e9:.3g} GB are free"
        raise unwritable(file, OSError(errno.ENOSPC, f"{room}; set TMPDIR to a place with room"))
    value = inputs.to_device(value, torch.device("cpu"))
    try:
        torch.save(value, file)
    except OSError as error:
        raise unwritable(file, error) from error
    except RuntimeError as error:
        # torch's only message for a full disk.
        if "PytorchStreamWriter" not in str(error):
            raise
        raise unwritable(file, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) from error


def read(file: Path, device: torch.device, *, trusted: bool, area: staging.Area | None = None) -> Any:
    """Load what `write` saved, onto the device, and delete the file.

    Tensors in the area are copied out. `trusted` files are mapped copy-on-write on the CPU. Raises ValueError for
    anything else.
    """
    try:
        if not stat.S_ISREG(os.lstat(file).st_mode):
            raise ValueError(f"{file.name} is no file")
        # Mapped data are copied to the GPU; on the CPU a candidate could still change its file.
        mapped = trusted or device.type == "cuda"
        value = torch.load(file, map_location="cpu", weights_only=not trusted, mmap=mapped)
    except OSError as error:
        raise ValueError(f"{file.name}: {error.strerror}") from error
    finally:
        file.unlink(missing_ok=True)
    value = inputs.to_device(value, device)
    return value if area is None else area.take(value)


def describe(output: Any) -> dict[str, Any]:
    """An output as plain data for `write`: tensors, their devices, names of other types."""
    devices: list[str] = []
    return {"value": _plain(output, devices), "devices": devices}


def _plain(item: Any, devices: list[str]) -> Any:
    if isinstance(item, torch.Tensor):
        devices.append(item.device.type)
        if item.is_meta:
            return torch.zeros((), dtype=item.dtype).expand(item.shape)
        return item.detach().as_subclass(torch.Tensor)
    if item is None or isinstance(item, (bool, int, float, complex, str)):
        return item
    if isinstance(item, Mapping):
        return {str(key): _plain(part, devices) for key, part in item.items()}
    if isinstance(item, (list, tuple)):
        parts = [_plain(part, devices) for part in item]
        return tuple(parts) if isinstance(item, tuple) else parts
    return {_ALIEN: type(item).__name__}


def restore(described: Any, device: torch.device) -> Any:
    """The described output, its tensors on their devices. Raises ValueError for another form."""
    if not isinstance(described, dict) or not isinstance(described.get("devices"), list):
        raise ValueError("not a described output")
    return _back(described.get("value"), iter(described["devices"]), device)


def _back(item: Any, devices: Any, device: torch.device) -> Any:
    if isinstance(item, torch.Tensor):
        kind = str(next(devices, "cpu"))
        if kind == device.type:
            return inputs.to_device(item, device)
        return item.to("meta") if kind != "cpu" else item.to("cpu")
    if isinstance(item, dict):
        if set(item) == {_ALIEN}:
            return type(str(item[_ALIEN]), (), {})()
        return {key: _back(part, devices, device) for key, part in item.items()}
    if isinstance(item, (list, tuple)):
        return type(item)(_back(part, devices, device) for part in item)
    return item
