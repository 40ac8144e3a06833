"""Compulsory bytes of a view: what its sectors hold, since DRAM moves nothing smaller."""

import pytest
import torch

from profkit.torch_tools.work import _moved

BASE = torch.empty(64, 1024)
VIEWS = [
    (BASE, 64 * 1024 * 4),
    (BASE.t(), 64 * 1024 * 4),
    (BASE[:, ::2], 64 * 1024 * 4 - 4),  # each sector holds four of its elements
    (BASE[:, ::8], 64 * 1024 * 4 - 28),
    (BASE[:, ::16], 64 * 64 * 32),  # every other sector
    (BASE[:, :64:7], 64 * 256),  # gaps of 24 bytes, then a gap of many sectors
    (BASE[:, 0], 64 * 32),
    (BASE[::2], 32 * 1024 * 4),
    (BASE[:, :8], 64 * 32),
    (torch.empty(5, 1).expand(5, 7), 5 * 4),
    (torch.empty(100).unfold(0, 10, 1), 100 * 4),
    (torch.empty(()), 4),
    (torch.empty(0, 3), 0),
]


@pytest.mark.parametrize(("view", "moved"), VIEWS, ids=[str(tuple(v.stride())) for v, _ in VIEWS])
def test_bytes_of_a_view(view, moved):
    assert _moved(view) == moved
