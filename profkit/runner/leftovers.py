"""Freed memory with a mark in it, so that an output nobody wrote gives itself away.

The allocators hand out a freed block again as it was left. Before a call, blocks of the size of the expected
output are filled with a NaN of a peculiar bit pattern and freed. No arithmetic makes that pattern from numbers.
"""

from __future__ import annotations

from typing import Any

import torch

from profkit.runner.compare import tensors

_MARKS = {
    1: (torch.int8, 0x7B),
    2: (torch.int16, 0x7FE5),
    4: (torch.int32, 0x7FE5C0DE),
    8: (torch.int64, 0x7FF5C0DE7FE5C0DE),
}
_BLOCKS = 2


def leave(like: Any) -> None:
    """Fill and free blocks of the sizes of these outputs."""
    blocks = []
    for _, leaf in tensors(like):
        if _markable(leaf):
            kind, mark = _MARKS[leaf.element_size()]
            blocks += [torch.full((leaf.numel(),), mark, dtype=kind, device=leaf.device) for _ in range(_BLOCKS)]
    del blocks


def found(output: Any) -> str:
    """Where in an output the mark still stands, in words; "" when nowhere."""
    for where, leaf in tensors(output):
        if not _markable(leaf) or leaf.element_size() < (2 if leaf.is_floating_point() else 4):
            continue
        kind, mark = _MARKS[leaf.element_size()]
        count = int((leaf.detach().contiguous().view(kind) == mark).sum())
        if count:
            return f"{count} of {leaf.numel()} elements of {where} are what lay in freed memory before the call"
    return ""


def _markable(leaf: Any) -> bool:
    return (
        type(leaf) is torch.Tensor
        and leaf.layout is torch.strided
        and leaf.device.type != "meta"
        and not leaf.is_complex()
        and leaf.numel() > 0
    )
