"""Device memory shared by the judge and a candidate: tensors bypass the host.

The judge allocates it, and frees it when the other process, which opens it by CUDA IPC, has ended: freeing open
memory is undefined. Data are copied in and copied out before use, so later writes change nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections import deque
from collections.abc import Callable
from typing import Any

import psutil
import torch

from profkit.guest import facts
from profkit.guest.tensors import inputs
from profkit.guest.tensors.compare import tensors

_LIES = "__lies_at__"
_ALIGNED = 512
_MOST, _PART, _BLOCK = 8 << 30, 4, 2 << 20
"""Most bytes to share, divisor of the free memory, and granularity of sharing."""


class Area:
    """Device memory of one direction of transfer, as one process sees it; filled from its start."""

    def __init__(self, memory: torch.Tensor) -> None:
        self.device, self._memory, self._used = memory.device, memory, 0
        self.size = int(memory.numel())

    @property
    def left(self) -> int:
        """Bytes of room for `put`."""
        return self.size - self._used

    def rewind(self) -> None:
        """Use the memory again: its contents have been read."""
        self._used = 0

    def put(self, value: Any) -> Any:
        """The value with its tensors copied here; needs `size(value, device)` bytes of room."""
        placed = inputs.mapped(value, self._placed)
        facts.settle(self.device)
        return placed

    def _placed(self, tensor: torch.Tensor) -> Any:
        if tensor.device.type != self.device.type:
            return tensor
        begin, ahead, span = self._used, *_extent(tensor)
        bytes_ = span * tensor.element_size()
        self._used += _round(bytes_)
        if span:
            flat = tensor.as_strided((span,), (1,), tensor.storage_offset() - ahead)
            self._memory[begin : begin + bytes_].view(tensor.dtype).copy_(flat)
        return {_LIES: [begin, ahead, span, str(tensor.dtype), list(tensor.shape), list(tensor.stride())]}

    def take(self, value: Any) -> Any:
        """The value with copies of the tensors here. Raises ValueError for invalid addresses."""
        taken = self._taken(value)
        facts.settle(self.device)
        return taken

    def _taken(self, item: Any) -> Any:
        if isinstance(item, dict):
            if set(item) == {_LIES}:
                return self._copy(item[_LIES])
            return {key: self._taken(part) for key, part in item.items()}
        if isinstance(item, (list, tuple)):
            return type(item)(self._taken(part) for part in item)
        return item

    def _copy(self, said: Any) -> torch.Tensor:
        try:
            begin, ahead, span = (_whole(part) for part in said[:3])
            dtype = getattr(torch, str(said[3]).removeprefix("torch."))
            shape, stride = ([_whole(part) for part in parts] for parts in said[4:])
            if not isinstance(dtype, torch.dtype) or len(shape) != len(stride) or begin % _ALIGNED:
                raise ValueError("no tensor")
            bytes_ = span * dtype.itemsize
            if begin + bytes_ > self.size or (0 not in shape and ahead + inputs.span(shape, stride) > span):
                raise ValueError("it ends elsewhere")
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"a tensor that lies nowhere: {error}") from error
        if 0 in shape:
            return torch.empty_strided(shape, stride, dtype=dtype, device=self.device)
        flat = self._memory[begin : begin + bytes_].clone().view(dtype)
        return flat.as_strided(shape, stride, ahead)


_left: deque[tuple[int, list[torch.Tensor]]] = deque()


def leave(process: int, memory: list[torch.Tensor]) -> None:
    """Note memory made by `allocate` for release once that process has ended."""
    if memory and process:
        _left.append((process, memory))


def give_back(free: Callable[[torch.Tensor], None]) -> int:
    """Free the memory of ended processes; returns the bytes."""
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


def size(value: Any, device: torch.device) -> int:
    """Bytes that `put` needs for a value; 0 where it cannot go this way."""
    leaves = [leaf for _, leaf in tensors(value) if isinstance(leaf, torch.Tensor) and leaf.device.type == device.type]
    if not all(_plain(leaf) for leaf in leaves):
        return 0
    return sum(_round(_extent(leaf)[1] * leaf.element_size()) for leaf in leaves)


def _plain(tensor: torch.Tensor) -> bool:
    odd = tensor.is_conj() or tensor.is_neg() or tensor.is_quantized or tensor.requires_grad
    return type(tensor) is torch.Tensor and tensor.layout is torch.strided and not odd


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """(elements ahead that keep its alignment, all elements to the last)."""
    if not tensor.numel():
        return 0, 0
    ahead = tensor.storage_offset() % inputs.LINE
    return ahead, ahead + inputs.span(tensor.shape, tensor.stride())


def _round(bytes_: int) -> int:
    return -(-bytes_ // _ALIGNED) * _ALIGNED


def _whole(item: Any) -> int:
    if type(item) is not int or item < 0:
        raise ValueError(f"{item!r} is no number of elements")
    return item


# The driver's calls. torch has made its context the current one of this thread.


class _Handle(ctypes.Structure):
    _fields_ = (("data", ctypes.c_byte * 64),)


class NotSharedError(RuntimeError):
    """The driver shares no memory between processes here."""


def allocate(bytes_: int, device: torch.device) -> tuple[torch.Tensor, bytes]:
    """(device memory, its IPC handle). Raises NotSharedError, also for too little free memory."""
    driver, bytes_ = _driver(), -(-bytes_ // _BLOCK) * _BLOCK
    if bytes_ > min(torch.cuda.mem_get_info(device)[0] // _PART, _MOST):
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
    """Memory that another process allocated. Raises NotSharedError."""
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
    """Memory in the form torch takes without a copy."""

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
