"""Tensors between processes: files in a private directory, and shared device memory.

Files are written by torch; a candidate's are read with the weights-only loader: data, never code. The judge's files
are mapped. A candidate's are copied first, because it may still hold them open. With a shared `Area`, tensors bypass
the host, and a file holds everything else. The judge allocates the area; the other process opens it by CUDA IPC. It is
freed after that process has ended, as freeing open memory is undefined. Data are copied out before use.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import stat
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import torch

from profkit.guest import facts
from profkit.guest.tensors import inputs
from profkit.guest.tensors.compare import leaves
from profkit.rundir.files import unwritable

_SLACK = 1 << 20
_ALIEN, _LIES = "__not_a_tensor__ ", "__lies_at__"
_ALIGNED = 512
_PART, _BLOCK = 4, 2 << 20
"""Divisor of the free memory that may be shared, and granularity of sharing."""
# Checksums take half of the time of writing and protect nothing here (torch 2.6 on).
getattr(torch.serialization, "set_crc32_options", lambda _: None)(False)


def write(value: Any, file: Path, area: Area | None = None) -> None:
    """Save tensors, those on the device in the area if they fit. Raises ProfkitError."""
    if area is not None and 0 < size_of(value, area.device) <= area.left:
        value = area.put(value)
    dense = [leaf for leaf in leaves(value) if leaf.layout is torch.strided and not leaf.is_meta]
    size = sum(leaf.untyped_storage().nbytes() for leaf in dense)
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


def read(file: Path, device: torch.device, *, trusted: bool, area: Area | None = None, keep: bool = False) -> Any:
    """Load the file of `write` onto the device, and delete it unless `keep`.

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
        if not keep:
            file.unlink(missing_ok=True)
    value = inputs.to_device(value, device)
    return value if area is None else area.take(value)


def describe(output: Any) -> dict[str, Any]:
    """An output as plain data for `write`: tensors, their devices, names of other types."""
    devices: list[str] = []

    def plain(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            devices.append(leaf.device.type)
            whole = torch.zeros((), dtype=leaf.dtype).expand(leaf.shape) if leaf.is_meta else leaf.detach()
            return whole.as_subclass(torch.Tensor)
        known = leaf is None or isinstance(leaf, (bool, int, float, complex, str))
        return leaf if known else f"{_ALIEN}{type(leaf).__name__}"

    return {"value": inputs.each(output, plain, plain=True), "devices": devices}


def restore(described: Any, device: torch.device) -> Any:
    """The described output, its tensors on their devices. Raises ValueError for another form."""
    if not isinstance(described, dict) or not isinstance(described.get("devices"), list):
        raise ValueError("not a described output")
    devices = iter(described["devices"])

    def back(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            kind = str(next(devices, "cpu"))
            if kind == device.type:
                return inputs.to_device(leaf, device)
            return leaf.to("meta") if kind != "cpu" else leaf.to("cpu")
        alien = isinstance(leaf, str) and leaf.startswith(_ALIEN)
        return type(leaf.removeprefix(_ALIEN), (), {})() if alien else leaf

    return inputs.each(described.get("value"), back)


class Area:
    """Device memory for one direction of transfer in one process; filled from its start."""

    def __init__(self, memory: torch.Tensor) -> None:
        self.device, self._memory, self._used = memory.device, memory, 0
        self.size = int(memory.numel())

    @property
    def left(self) -> int:
        """Free bytes for `put`."""
        return self.size - self._used

    def rewind(self) -> None:
        """Reuse the memory; its contents have been read."""
        self._used = 0

    def put(self, value: Any) -> dict[str, Any]:
        """The value without data, and its places here; needs `size_of(value, device)` bytes."""
        places: list[tuple[int, int]] = []

        def placed(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.device.type != self.device.type:
                return tensor
            begin, (ahead, span) = self._used, _extent(tensor)
            bytes_ = span * tensor.element_size()
            self._used += _round(bytes_)
            if span:
                flat = tensor.as_strided((span,), (1,), tensor.storage_offset() - ahead)
                self._memory[begin : begin + bytes_].view(tensor.dtype).copy_(flat)
            places.append((begin, ahead))
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")

        value = inputs.mapped(value, placed)
        facts.settle(self.device)
        return {_LIES: places, "value": value}

    def take(self, put: Any) -> Any:
        """The value with copies of the data here. Raises ValueError for an invalid place."""
        if not isinstance(put, dict) or put.keys() != {_LIES, "value"}:
            return put
        places = iter(put[_LIES])
        value = inputs.mapped(
            put["value"], lambda tensor: self._copy(tensor, *next(places)) if tensor.is_meta else tensor
        )
        facts.settle(self.device)
        return value

    def _copy(self, like: torch.Tensor, begin: int, ahead: int) -> torch.Tensor:
        shape, stride = like.shape, like.stride()
        if not like.numel():
            return torch.empty_strided(shape, stride, dtype=like.dtype, device=self.device)
        end = begin + (ahead + inputs.span(shape, stride)) * like.element_size()
        if begin % _ALIGNED or not 0 <= begin <= end <= self.size or ahead not in range(inputs.LINE):
            raise ValueError("a tensor that lies nowhere")
        return self._memory[begin:end].clone().view(like.dtype).as_strided(shape, stride, ahead)


_left: deque[tuple[int, list[torch.Tensor]]] = deque()


def leave(process: int, memory: list[torch.Tensor]) -> None:
    """Keep memory of `allocate` for release once that process has ended."""
    if memory and process:
        _left.append((process, memory))


def give_back(free: Callable[[torch.Tensor], None]) -> int:
    """Free the memory of ended processes; return the bytes."""
    freed = 0
    for _ in range(len(_left)):
        process, memory = _left.popleft()
        if psutil.pid_exists(process):
            _left.append((process, memory))
            continue
        for one in memory:
            freed += one.numel()
            with contextlib.suppress(NotSharedError):
                free(one)
    return freed


def size_of(value: Any, device: torch.device) -> int:
    """Bytes that `put` needs for a value; 0 if it cannot go this way."""
    here = [leaf for leaf in leaves(value) if leaf.device.type == device.type]
    if not all(map(_dense, here)):
        return 0
    return sum(_round(_extent(leaf)[1] * leaf.element_size()) for leaf in here)


def _dense(tensor: torch.Tensor) -> bool:
    odd = tensor.is_conj() or tensor.is_neg() or tensor.is_quantized or tensor.requires_grad
    return type(tensor) is torch.Tensor and tensor.layout is torch.strided and not odd


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """(offset that keeps its alignment, elements up to its last)."""
    if not tensor.numel():
        return 0, 0
    ahead = tensor.storage_offset() % inputs.LINE
    return ahead, ahead + inputs.span(tensor.shape, tensor.stride())


def _round(bytes_: int) -> int:
    return -(-bytes_ // _ALIGNED) * _ALIGNED


# The driver's calls. torch has made its context the current one of this thread.


class _Handle(ctypes.Structure):
    _fields_ = (("data", ctypes.c_byte * 64),)


class NotSharedError(RuntimeError):
    """The driver cannot share memory between these processes."""


def allocate(bytes_: int, device: torch.device) -> tuple[torch.Tensor, bytes]:
    """(device memory, its IPC handle). Raises NotSharedError, also for too little free memory."""
    driver, bytes_ = _driver(), -(-bytes_ // _BLOCK) * _BLOCK
    torch.cuda.empty_cache()
    if bytes_ > torch.cuda.mem_get_info(device)[0] // _PART:
        raise NotSharedError(f"{bytes_} bytes are too many")
    pointer, handle = ctypes.c_uint64(), _Handle()
    _done("cuMemAlloc", driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(bytes_)))
    try:
        _done("cuIpcGetMemHandle", driver.cuIpcGetMemHandle(ctypes.byref(handle), pointer))
        memory = _bytes_at(int(pointer.value), bytes_, device)
        # It may hold another process's old answers.
        memory.zero_()
        facts.settle(device)
        return memory, bytes(handle)
    except Exception:
        driver.cuMemFree_v2(pointer)
        raise


def free(memory: torch.Tensor) -> None:
    """Free memory from `allocate`."""
    facts.settle(memory.device)
    _done("cuMemFree", _driver().cuMemFree_v2(ctypes.c_uint64(memory.data_ptr())))


def opened(handle: bytes, bytes_: int, device: torch.device) -> torch.Tensor:
    """Memory allocated by another process. Raises NotSharedError."""
    # Creates the context.
    facts.settle(device)
    pointer = ctypes.c_uint64()
    enable_peers = ctypes.c_uint(1)
    call: Callable[..., int] = _driver().cuIpcOpenMemHandle_v2
    _done("cuIpcOpenMemHandle", call(ctypes.byref(pointer), _Handle.from_buffer_copy(handle), enable_peers))
    return _bytes_at(int(pointer.value), bytes_, device)


def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NotSharedError(str(error)) from error


def _done(what: str, code: int) -> None:
    if code:
        raise NotSharedError(f"{what}: error {code}")


class _Bytes:
    """Memory in the form that torch takes without a copy."""

    def __init__(self, pointer: int, bytes_: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (bytes_,),
            "typestr": "|u1",
            "data": (pointer, False),
            "strides": None,
            "version": 2,
        }


def _bytes_at(pointer: int, bytes_: int, device: torch.device) -> torch.Tensor:
    return torch.as_tensor(_Bytes(pointer, bytes_), device=device)
