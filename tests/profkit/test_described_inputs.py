"""What a run writes down of its inputs, and the counters that --deep adds for a program."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from collectors.counters import counter_set, metrics_for
from profkit.record.ncu import options_of
from profkit.record.request import Request
from profkit.runner.inputs import described, refuse_layouts, torch_seed


def test_inputs_in_words():
    inputs = [torch.zeros(16, 1024), (torch.zeros(4, 8, dtype=torch.bfloat16).t(), 3), {"flag": True}]
    assert described(inputs) == ["float32 [16, 1024]", "bfloat16 [8, 4] strides [1, 8]", "3", "True"]


@pytest.mark.parametrize(
    ("given", "answer", "said"),
    [
        (torch.eye(2).to_sparse(), torch.eye(2), r"inputs\[0\] is sparse_coo"),
        (torch.eye(2), [torch.eye(2), torch.eye(2).to_sparse()], r"output\[1\] is sparse_coo"),
        (torch.eye(2), {"a": SimpleNamespace()}, r"output\['a'\] is a SimpleNamespace"),
    ],
)
def test_tasks_that_cannot_be_compared_are_refused_by_name(given, answer, said):
    with pytest.raises(TypeError, match=said):
        refuse_layouts([given], answer)
    refuse_layouts([torch.eye(2), None, object()], [torch.eye(2), None, 1, "x", {"a": (True, 2j)}])


def test_deep_counters_of_a_program(tmp_path):
    plain, _ = options_of(Request(), tmp_path, "9.0")
    deep, _ = options_of(Request(deep=True), tmp_path, "9.0")
    assert set(plain.metrics) < set(deep.metrics)
    assert set(metrics_for(counter_set("deep"), "9.0")) <= set(deep.metrics)


def test_seeding_gives_torchs_numbers_and_writes_down_no_stack_for_absent_devices(monkeypatch):
    torch.manual_seed(7)
    expected = torch.rand(9)
    stacks = []
    monkeypatch.setattr("traceback.format_stack", lambda *_: stacks.append(1) or [])
    torch_seed(7)
    assert torch.equal(torch.rand(9), expected)
    assert len(stacks) <= torch.backends.cuda.is_built()
