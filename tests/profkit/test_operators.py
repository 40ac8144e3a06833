"""Operators of a call as a process on a CPU records them."""

import sys

import pytest
import torch

from profkit.guest.operators import LARGE, recorded

X = torch.ones(LARGE // 4)


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    """Other tests of this process may have imported the compiler."""
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)


def test_calls_and_types():
    found = recorded(lambda: [X[i].add(1) for i in range(10)])
    assert found["calls"] == 20
    assert found["fp64"] == found["allocated"] == 0.0
    wide = recorded(lambda: X.double().exp().float())
    assert 0 < wide["fp64"] == wide["seconds"]
    plain = recorded(lambda: X + 1)
    assert plain["fp64"] == plain["copies"] == 0.0
    copied = recorded(lambda: X.view(2, -1).t().contiguous())
    assert 0 < copied["copies"] <= copied["seconds"]


def test_bytes_of_large_results_alone():
    assert recorded(lambda: X.exp())["allocated"] == LARGE
    assert recorded(lambda: X.clone().exp_().view(2, -1))["allocated"] == LARGE
    assert recorded(lambda: X[: LARGE // 8] + 1)["allocated"] == 0.0


def test_a_compiled_call_is_not_recorded(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch._dynamo", torch)
    assert recorded(lambda: X + 1) == {}
