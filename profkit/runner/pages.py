"""Is the memory of an output there, or does looking at it start the work?

A page without read permission, or one that userfaultfd watches, is filled by a handler when it is touched: after the
clock was stopped. The kernel says of every mapping what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from profkit.runner.compare import tensors
from profkit.runner.offence import OffenceError

_RANGE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (....)", re.M)
_FLAGS = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) [^\n]*\n(?:[^\n]*\n)*?VmFlags:([^\n]*)", re.M)
_WATCHED = {"um", "uw", "ui"}
"""VmFlags of mappings whose faults userfaultfd hands to a program: missing, write-protect, minor."""


def refuse(output: Any) -> None:
    """Raise OffenceError when host memory of an output cannot be read, or is made when touched. Nothing is touched."""
    ranges = list(_host_memory(output))
    if not ranges:
        return
    for low, high, rights in _mappings():
        if "r" not in rights and any(low < end and start < high for start, end in ranges):
            raise OffenceError(
                "lazy-output", "the output lies in memory that nobody may read yet: touching it does the work"
            )
    if _has_watcher() and any(low < end and start < high for low, high in _watched() for start, end in ranges):
        raise OffenceError("lazy-output", "the output lies in memory whose pages are made when they are touched")


def _host_memory(output: Any) -> Iterator[tuple[int, int]]:
    for _, leaf in tensors(output):
        if type(leaf) is torch.Tensor and leaf.layout is torch.strided and leaf.device.type == "cpu" and leaf.numel():
            start = leaf.data_ptr()
            reach = sum((size - 1) * stride for size, stride in zip(leaf.shape, leaf.stride(), strict=True))
            yield start, start + (1 + reach) * leaf.element_size()


def _mappings() -> Iterator[tuple[int, int, str]]:
    for low, high, rights in _RANGE.findall(_read("/proc/self/maps")):
        yield int(low, 16), int(high, 16), rights


def _has_watcher() -> bool:
    """Whether this process has a userfaultfd open; to read every mapping's flags takes much longer."""
    for link in Path("/proc/self/fd").glob("*"):
        try:
            if "userfaultfd" in str(link.readlink()):
                return True
        except OSError:
            continue
    return False


def _watched() -> Iterator[tuple[int, int]]:
    for low, high, flags in _FLAGS.findall(_read("/proc/self/smaps")):
        if _WATCHED & set(flags.split()):
            yield int(low, 16), int(high, 16)


def _read(path: str) -> str:
    try:
        return Path(path).read_text("ascii", "replace")
    except OSError:
        return ""
