"""What a run writes down of its inputs, and the counters that --deep adds for a program."""

from types import SimpleNamespace

import pytest
import torch

from profkit.guest.tensors import inputs
from profkit.guest.tensors.inputs import described, refuse_layouts, torch_seed


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


def test_seeding_gives_torchs_numbers_and_writes_down_no_stack_for_absent_devices(monkeypatch):
    torch.manual_seed(7)
    expected = torch.rand(9)
    stacks = []
    monkeypatch.setattr("traceback.format_stack", lambda *_: stacks.append(1) or [])
    torch_seed(7)
    assert torch.equal(torch.rand(9), expected)
    assert len(stacks) <= torch.backends.cuda.is_built()


def test_what_is_drawn_the_same_every_time_becomes_other_data():
    def drawn():
        mask = torch.ones(4, 8).tril()
        return [torch.linspace(0.1, 1, 32).view(4, 8), mask, 3, {"n": torch.arange(4)}]

    assert inputs.repeated(drawn(), drawn())
    assert not inputs.repeated([torch.rand(4)], [torch.rand(4)])
    assert not inputs.repeated([torch.arange(4)], [torch.arange(4)])
    seen = [drawn() for _ in range(3)]
    for seed, one in enumerate(seen):
        inputs.vary(one, seed // 2)
    assert torch.equal(seen[0][0], seen[1][0])
    assert not torch.equal(seen[0][0], seen[2][0])
    assert torch.equal(seen[0][1], drawn()[1])
