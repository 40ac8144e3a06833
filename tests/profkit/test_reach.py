"""How far back an answer reaches, and weights and inputs with which it reaches further."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from profkit.runner import prober, reach, weights
from profkit.runner.reach import End


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        torch.manual_seed(7)
        yield


class Kept(nn.Module):
    """A sum whose terms decay."""

    def __init__(self, start=0.0):
        super().__init__()
        self.decay = nn.Parameter(torch.linspace(start - 1, start + 1, 6))

    def forward(self, x):
        held = torch.zeros_like(x[:, 0])
        for step in x.unbind(1):
            held = held * torch.sigmoid(self.decay) + step
        return held


class Last(nn.Module):
    def __init__(self, unit):
        super().__init__()
        self.unit = unit

    def forward(self, x):
        return self.unit(x)[0][:, -1]


def reached(model, *shape):
    return reach.Reach(lambda given: model(*given), [torch.randn(*shape)], [torch.randn(*shape)], {})


def found(model, *shape):
    """What of a model's weights are found, and whether they are as they were afterwards."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    told = reached(model, *shape)
    values = list(reach.weights(model, list(before), told, lambda given: weights.put(model, given)))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    return values


def test_ends_that_fade_are_told_from_what_passes_nothing_along_and_what_forgets_nothing():
    assert reached(Kept(), 3, 64, 6).unreached == {End(0, 1): {"output": 0.0}}
    assert reached(Kept(20.0), 3, 64, 6).unreached == {}
    assert reached(lambda x: x.relu(), 32, 64).unreached == {}
    assert reached(lambda x: x @ torch.ones(64, 8), 32, 64).unreached == {}


@pytest.mark.parametrize("unit", [nn.GRU, nn.LSTM, nn.RNN])
def test_weights_with_which_a_unit_remembers_are_found(unit):
    model = Last(unit(6, 8, batch_first=True))
    values = found(model, 3, 96, 6)[0]
    assert values
    early, late = torch.randn(3, 96, 6), torch.randn(3, 96, 6)
    late[:, 12:] = early[:, 12:]
    off = (model(early) - model(late)).abs().max()
    weights.put(model, values)
    assert off < 1e-6 < 1e-3 < (model(early) - model(late)).abs().max()


class Beside(Last):
    """What forgets, beside what does not."""

    def forward(self, x):
        return super().forward(x) + x.mean(1)


def test_a_unit_is_made_to_remember_beside_what_passes_all_on():
    model = Beside(nn.GRU(6, 6, batch_first=True))
    assert reached(model, 3, 96, 6).unreached == {}
    assert [list(values) for values in found(model, 3, 96, 6)] == [["unit.bias_ih_l0"]]
    assert found(nn.LSTM(6, 6), 4, 3, 6) == []


def test_a_decay_is_found_and_a_filter_of_a_few_taps_has_none():
    assert list(found(Kept(), 3, 96, 6)[0]) == ["decay"]
    assert found(nn.Conv1d(4, 4, 3), 2, 4, 96) == []


def test_inputs_whose_first_elements_are_large_reach_further():
    told = reached(Kept(1.0), 3, 64, 6)
    names = [name for name, _ in reach.remembering(told)]
    assert names == ["inputs whose first elements are the largest"]


def test_an_input_that_hardly_counts_is_made_larger():
    given = [torch.randn(8, 20), 1e-7 * torch.randn(8, 20)]
    told = reach.Reach(lambda both: both[0] + both[1], given, [torch.randn(8, 20), 1e-7 * torch.randn(8, 20)], {})
    assert told.unheard == [1]
    ((name, arguments),) = reach.remembering(told)
    assert name == "an input that hardly counts, larger"
    assert torch.equal(arguments[0], given[0])
    assert float(arguments[1].abs().max()) > 1e-4


def test_what_weights_have_in_common_goes_and_what_is_one_tensor_stays_one():
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.BatchNorm1d(6))
    model[1].weight = model[0].weight
    for signs in (True, False):
        values = weights.unlike(model, model.state_dict().keys() - {"2.num_batches_tracked"}, 3, signs=signs)
        assert "2.running_var" not in values
        assert torch.equal(values["0.weight"], values["1.weight"])
        ratio = values["0.weight"] / model[0].weight
        assert bool((ratio.abs() >= 0.5).all() and (ratio.abs() < 1.5).all())
        assert bool((ratio < 0).any()) == signs


def test_no_room_where_rounding_decides():
    exact = prober.room(Kept(), [torch.randn(3, 64, 6)], {})
    assert exact == {"output": 1e-4}
    assert prober.room(Kept(20.0).bfloat16(), [torch.randn(3, 4096, 6).bfloat16().abs()], {}) is None
    assert prober.room(lambda x: (1e6 * x).sin(), [torch.randn(64)], {}) is None


def test_one_leaf_is_changed_and_the_others_are_not():
    given = [torch.zeros(2), {"b": torch.zeros(3), "a": torch.zeros(4)}]
    changed = reach.one_leaf(given, 1, lambda leaf: leaf + 1)
    assert torch.equal(changed[1]["a"], torch.ones(4))
    assert not any(leaf.any() for leaf in (changed[0], changed[1]["b"], given[1]["a"]))


def test_an_input_of_one_row_that_is_seen_many_times_and_types_that_cannot_be_exchanged_end_no_search():
    rows = [torch.randn(1, 64).expand(32, 64)]
    assert reach.Reach(lambda given: given[0].relu(), rows, [torch.randn(1, 64).expand(32, 64)], {}).unreached == {}
    few = [torch.arange(64).to(torch.uint16).view(2, 32), torch.randn(2, 32)]
    again = [few[0].flip(0), torch.randn(2, 32)]
    assert list(reach.quietly(reach.remembering(reach.Reach(lambda given: given[1].relu(), few, again, {})))) == []


def test_parts_of_lengths_are_not_taken_from_another_draw():
    """Each draw's lengths add up to the values; half of one's and half of the other's need not."""
    asked = []

    def ask(given):
        values, lengths = given
        asked.append(int(lengths.sum()))
        return torch.stack([part.sum() for part in values.split(lengths.tolist())])

    one, other = torch.tensor([3] * 16 + [1] * 16), torch.tensor([1] * 8 + [2] * 16 + [3] * 8)
    list(reach.remembering(reach.Reach(ask, [torch.randn(64), one], [torch.randn(64), other], {})))
    assert set(asked) == {64}


class ByHand(nn.Module):
    """A gated unit beside the last step, of many features."""

    def __init__(self, wide, inner):
        super().__init__()
        self.given, self.back = nn.Linear(wide, 3 * inner), nn.Linear(inner, 3 * inner)
        self.last = nn.Linear(wide, inner)

    def forward(self, x):
        h = x.new_zeros(len(x), self.back.in_features)
        for step in self.given(x).unbind(1):
            (r, z, n), (a, b, c) = step.chunk(3, 1), self.back(h).chunk(3, 1)
            keep = torch.sigmoid(z + b)
            h = keep * h + (1 - keep) * torch.tanh(n + torch.sigmoid(r + a) * c)
        return h + self.last(x[:, -1])


def test_a_gate_is_shut_for_as_many_steps_as_there_are_and_not_for_the_features():
    model = ByHand(2048, 16)
    told = reached(model, 2, 48, 2048)
    assert (told.passing, told.length) == (2048, 48)
    assert any("bias" in name for values in found(model, 2, 48, 2048) for name in values)
