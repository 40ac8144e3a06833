"""The prober: what would pass by accident, and what the tolerance becomes for it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from profkit.runner.check import compare
from profkit.runner.lowered import rounded_to_tf32
from profkit.runner.prober import probe


def probed(model, *shape, draw=torch.randn):
    def inputs(seed):
        torch.manual_seed(seed)
        return [draw(*shape)]

    with torch.no_grad():
        # As in a run, where the reference has answered once before it is probed: the first call of all is slow.
        model(*inputs(0))
        return probe(model, inputs, (1, 2))


def test_a_plain_task_keeps_its_tolerance():
    found = probed(nn.Linear(256, 32).eval(), 16, 256)
    assert found.tolerances == {}
    assert found.passing == found.tightened == found.indistinct == []
    assert found.rounding is not None, found.notes
    assert 0 < found.rounding < 1e-5


def test_a_constant_that_nearly_passes_tightens_the_tolerance():
    found = probed(lambda x: 1.0 + 1e-5 * x, 64, 64)
    assert "ones" in found.tightened
    (rtol,) = found.tolerances.values()
    assert 1e-6 < rtol < 1e-4
    answer = 1.0 + 1e-5 * torch.randn(64, 64)
    assert compare(torch.ones_like(answer), answer).status == "ok"
    assert compare(torch.ones_like(answer), answer, found.tolerances).status == "mismatch"
    assert compare(answer * (1 + 1e-7), answer, found.tolerances).status == "ok"


@pytest.mark.parametrize(
    ("model", "passes"),
    [
        (lambda x: x.softmax(-1).sum(-1), "ones"),
        (lambda x: (x - 100).relu(), "zeros"),
        (lambda x: x * 1, "an input as it came"),
        (lambda x: (x > 100).int(), "zeros"),
    ],
)
def test_what_no_tolerance_can_tell_is_reported(model, passes):
    assert passes in probed(model, 64, 64).passing


def test_precisions_that_pass_are_named():
    assert probed(lambda x: x.mean(0), 10_000, 16, draw=torch.rand).indistinct == ["tf32"]
    assert probed(nn.Linear(256, 32).eval(), 16, 256).indistinct == []


def test_rounding_beyond_the_tolerance_widens_it():
    """Differences of large numbers: float32 has four digits left of them."""
    found = probed(lambda x: (x + 3000.0) - 3000.0, 64, 64)
    (rtol,) = found.tolerances.values()
    assert 1e-4 < rtol < 1e-3


def test_an_answer_that_is_rounding_alone_is_a_doubt():
    found = probed(lambda x: (x - x.mean(-1, keepdim=True)).sum(-1), 64, 1000)
    assert any("cancels" in note for note in found.notes)
    assert any("rounding" in doubt["what"] for doubt in found._doubts())


def test_inputs_that_are_changed_and_numbers_that_are_drawn_are_noticed():
    changed, drawn = probed(lambda x: x.add_(1), 8, 8), probed(lambda x: x + torch.rand(8, 8), 8, 8)
    assert (changed.mutates, changed.random) == (True, False)
    assert (drawn.mutates, drawn.random) == (False, True)
    assert not changed.repeatable
    assert not drawn.repeatable


def test_a_model_of_one_precision_is_probed_without_the_others():
    found = probed(lambda x: x @ torch.ones(64, 4, dtype=torch.float32), 8, 64)
    assert found.rounding is None
    assert any(note.startswith("float64 not tried") for note in found.notes)
    assert found.passing == []


def test_half_precision_has_its_own_floor():
    found = probed(nn.functional.gelu, 64, 64, draw=lambda *shape: torch.randn(*shape).half())
    assert found.tolerances == {}
    assert found.indistinct == []


def test_tf32_keeps_ten_bits():
    x = torch.tensor([1.0, 1 + 2**-10, 1 + 2**-12, -3.14159274, 0.0, float("inf")])
    assert rounded_to_tf32(x).tolist() == [1.0, 1 + 2**-10, 1.0, -3.140625, 0.0, float("inf")]
