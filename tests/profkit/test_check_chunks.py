"""Large outputs are compared in pieces; the verdict is that of the whole."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from profkit.runner import check


def outputs(kind):
    torch.manual_seed(1)
    want = torch.randn(5, 9) if kind != "complex" else torch.randn(5, 9, dtype=torch.complex64)
    got = want + 1e-6 * torch.randn_like(want)
    if kind == "wrong":
        got[4, 8] += 1.0
    elif kind == "nan":
        got[3, 3] = float("nan")
    elif kind == "infinite-both":
        got[0, 0] = want[0, 0] = float("inf")
    elif kind == "transposed":
        got, want = got.t(), want.t()
    return got, want


@pytest.mark.parametrize("kind", ["near", "wrong", "nan", "infinite-both", "transposed", "complex"])
def test_the_verdict_does_not_depend_on_the_pieces(kind, monkeypatch):
    got, want = outputs(kind)
    whole = check.compare(got, want)
    monkeypatch.setattr(check, "CHUNK", 7)
    pieces = check.compare(got, want)
    assert pieces.status == {"wrong": "mismatch", "nan": "nan"}.get(kind, "ok")
    assert pieces.what == whole.what
    for field in dataclasses.fields(whole):
        a, b = getattr(pieces, field.name), getattr(whole, field.name)
        assert a == (pytest.approx(b) if isinstance(b, float) else b)


def test_an_answer_in_a_list_gets_no_other_tolerance():
    want = torch.ones(8)
    assert check.compare(want * 1.00005, want).status == "ok"
    for got in (want * 1.00005, [want * 1.00005]):
        assert check.compare(got, want, {"output": 1e-6}).status == "mismatch"
