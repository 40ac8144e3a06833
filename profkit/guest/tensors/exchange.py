"""Tensors between processes: a file each in a private directory, deleted once read.

A file has a head, which describes the nesting, and bytes. Other forms are saved by torch, and read back from a
candidate with the weights-only loader: data, never code. The judge's files are mapped. A candidate's are copied
first, because it may still hold them open. With shared device memory (staging.py) the file holds addresses.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import torch

from profkit.guest.tensors import inputs
from profkit.guest.tensors.compare import tensors
from profkit.guest.tensors.staging import Area
from profkit.guest.whole import CannotWriteError

_SLACK = 1 << 20
_ALIEN = "__not_a_tensor__"
# Checksums take half of the time of writing and protect nothing here (torch 2.6 on).
getattr(torch.serialization, "set_crc32_options", lambda _: None)(False)


def write(value: Any, file: Path, area: Area | None = None) -> None:
    """Save tensors, those on the device to the area if any. Raises CannotWriteError."""
    if area is not None:
        value = area.put(value)
    size = sum(
        leaf.untyped_storage().nbytes()
        for _, leaf in tensors(value)
        if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided and leaf.device.type != "meta"
    )
    free = shutil.disk_usage(file.parent).free
    if size + _SLACK > free:
        room = f"{size / 1e9:.3g} GB are to be handed over and {free / 1e9:.3g} GB are free"
        raise CannotWriteError(file, OSError(errno.ENOSPC, f"{room}; set TMPDIR to a place with room"))
    value = inputs.to_device(value, torch.device("cpu"))
    try:
        if not _laid_out(value, file):
            torch.save(value, file)
    except OSError as error:
        raise CannotWriteError(file, error) from error
    except RuntimeError as error:
        # torch's only message for a full disk.
        if "PytorchStreamWriter" not in str(error):
            raise
        raise CannotWriteError(file, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) from error


def read(file: Path, device: torch.device, *, trusted: bool, area: Area | None = None) -> Any:
    """Load what `write` saved, onto the device, and delete the file.

    Tensors in the area are copied out. `trusted` files are mapped copy-on-write on the CPU. Raises ValueError for
    anything else.
    """
    try:
        if not stat.S_ISREG(os.lstat(file).st_mode):
            raise ValueError(f"{file.name} is no file")
        # Mapped data are copied to the GPU; on the CPU a candidate could still change its file.
        mapped = trusted or device.type == "cuda"
        with file.open("rb") as stream:
            if stream.read(len(_MARK)) == _MARK:
                value = _picked_up(stream, file, mapped=mapped)
            else:
                value = torch.load(file, map_location="cpu", weights_only=not trusted, mmap=mapped)
    except OSError as error:
        raise ValueError(f"{file.name}: {error.strerror}") from error
    finally:
        file.unlink(missing_ok=True)
    value = inputs.to_device(value, device)
    return value if area is None else area.take(value)


_MARK = b"profkit tensors\n"
_LENGTH, _ALIGNED = 8, 64
_PLAIN = [one for one in vars(torch).values() if isinstance(one, torch.dtype) and not str(one).startswith("torch.q")]
_DTYPES = {str(one).removeprefix("torch."): one for one in _PLAIN}
_NAMES = {one: name for name, one in _DTYPES.items()}
_TENSOR, _TUPLE, _DICT = "tensor", "tuple", "dict"


class _OtherFormError(Exception):
    """A value that no head can describe."""


def _laid_out(value: Any, file: Path) -> bool:
    """Write plain tensors and containers, four times as fast as torch; False for other values."""
    held: dict[int, torch.UntypedStorage] = {}
    numbers: dict[int, int] = {}

    def encoded(item: Any) -> Any:
        kind = type(item)
        if kind is torch.Tensor:
            odd = item.is_conj() or item.is_neg() or item.is_quantized or item.requires_grad or vars(item)
            if odd or item.layout is not torch.strided or item.device.type != "cpu" or item.dtype not in _NAMES:
                raise _OtherFormError
            storage = item.untyped_storage()
            number = numbers.setdefault(storage._cdata, len(numbers))
            held[number] = storage
            return {_TENSOR: [number, _NAMES[item.dtype], item.storage_offset(), [*item.shape], [*item.stride()]]}
        if kind is list:
            return [encoded(part) for part in item]
        if kind is tuple:
            return {_TUPLE: [encoded(part) for part in item]}
        if kind is dict:
            return {_DICT: [[encoded(key), encoded(part)] for key, part in item.items()]}
        if item is None or kind in (bool, int, float, str):
            return item
        raise _OtherFormError

    try:
        nesting = encoded(value)
        head = msgspec.msgpack.encode([nesting, [one.nbytes() for one in held.values()]])
    except (_OtherFormError, OverflowError, RecursionError, UnicodeError):
        return False
    with file.open("wb") as stream:
        at = stream.write(_MARK + len(head).to_bytes(_LENGTH, "little") + head)
        for storage in held.values():
            stream.write(bytes(-at % _ALIGNED))
            at += -at % _ALIGNED + stream.write(_bytes(storage))
    return True


def _bytes(storage: torch.UntypedStorage) -> memoryview:
    return memoryview(torch.empty(0, dtype=torch.uint8).set_(storage).numpy())


def _picked_up(stream: BinaryIO, file: Path, *, mapped: bool) -> Any:
    """Read what `_laid_out` wrote, behind its mark. Raises ValueError for an invalid head."""
    size = os.fstat(stream.fileno()).st_size
    try:
        head = stream.read(int.from_bytes(stream.read(_LENGTH), "little"))
        nesting, lengths = msgspec.msgpack.decode(head, type=tuple[Any, list[int]])
    except (msgspec.MsgspecError, OverflowError, RecursionError) as error:
        raise ValueError(f"{file.name}: {error}") from error
    at = len(_MARK) + _LENGTH + len(head)
    every = torch.UntypedStorage.from_file(str(file), False, size) if mapped else None
    storages = []
    for length in lengths:
        at += -at % _ALIGNED
        if not 0 <= length <= size - at and length:
            raise ValueError(f"{file.name} ends early")
        if every is not None:
            storages.append(every[at : at + length])
        else:
            storages.append(torch.empty(length, dtype=torch.uint8).untyped_storage())
            stream.seek(at)
            if length and stream.readinto(_bytes(storages[-1])) != length:  # type: ignore[attr-defined]
                raise ValueError(f"{file.name} ends early")
        at += length

    def decoded(item: Any) -> Any:
        if isinstance(item, list):
            return [decoded(part) for part in item]
        if not isinstance(item, dict):
            return item
        ((what, content),) = item.items()
        if what == _TENSOR:
            return _tensor(storages, *content)
        if what == _TUPLE:
            return tuple(decoded(part) for part in content)
        if what == _DICT:
            return {decoded(key): decoded(part) for key, part in content}
        raise ValueError(f"no {what!r} is known")

    try:
        return decoded(nesting)
    except (IndexError, KeyError, OverflowError, RecursionError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{file.name}: {error}") from error


def _tensor(
    storages: list[torch.UntypedStorage], number: int, name: str, offset: int, shape: list[int], stride: list[int]
) -> torch.Tensor:
    """A view of bytes that were read. Raises IndexError, KeyError, TypeError or ValueError."""
    numbers = (number, offset, *shape, *stride)
    if any(type(one) is not int or one < 0 for one in numbers) or len(shape) != len(stride):
        raise ValueError("no tensor")
    storage, dtype = storages[number], _DTYPES[name]
    if 0 not in shape and (offset + inputs.span(shape, stride)) * dtype.itemsize > storage.nbytes():
        raise ValueError("a tensor that lies elsewhere")
    return torch.empty(0, dtype=dtype).set_(storage, offset, shape, stride)


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
