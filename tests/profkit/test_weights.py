"""Weights that are constant as constructed: drawn anew, found in a candidate, and named when it ignores them."""

import pytest
import torch
from corpora import parts, written
from torch import nn

from profkit.api import profile
from profkit.guest.build import loading
from profkit.guest.tensors import weights

pytestmark = pytest.mark.usefixtures("private_cache")


class Block(nn.Module):
    def __init__(self, *names):
        super().__init__()
        for name in names or ("one", "two"):
            setattr(self, name, nn.Parameter(torch.ones(8) if "one" in name else torch.zeros(8)))
        self.dense = nn.Linear(8, 8)

    def forward(self, x):
        return self.dense(x * next(iter(self.parameters())))


def drawn(model, *shape, seed=1):
    model = model.eval()
    with torch.no_grad():
        return weights.draw(model, lambda: model(torch.ones(shape)), seed)


def test_what_is_constant_is_drawn_and_the_rest_is_left():
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    dense = model[0].weight.clone()
    found = drawn(model, 4, 8)
    assert set(found.live) == {"1.weight", "1.bias", "1.running_mean", "1.running_var"}
    assert torch.equal(model[0].weight, dense)
    assert torch.equal(model[1].weight, found.live["1.weight"])
    assert bool((model[1].running_var > 0).all())
    assert all(len(value.unique()) == 8 for value in found.live.values())
    assert model[1].num_batches_tracked.item() == 0
    assert weights.by_layer(model, ["1.weight", "1.bias"]) == "weight, bias of BatchNorm1d (1)"


class Made(nn.Module):
    """What every construction has the same, beside what is drawn and what is a table."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(8, 8)
        self.turn = nn.Parameter(torch.eye(8))
        self.rising = nn.Parameter(torch.linspace(0, 1, 8))
        self.signs = nn.Parameter(torch.randn(64).sign())
        self.mask = nn.Parameter(torch.ones(8, 8).tril(), requires_grad=False)
        self.scale = nn.Parameter(torch.full((8,), 1e-6))
        self.register_buffer("eps", torch.full((1,), 1e-6))

    def forward(self, x):
        return self.dense(x) @ self.turn + self.scale * x + self.rising + self.eps


def test_what_every_construction_has_the_same_is_drawn_and_what_is_tiny_counts():
    model = Made().eval()
    names = weights.by_another_seed(model, Made)
    assert names == {"turn", "rising"}
    with torch.no_grad():
        found = weights.draw(model, lambda: model(torch.ones(4, 8)), 1, names)
    assert set(found.live) == {"turn", "rising", "scale", "eps"}
    assert len(found.live["turn"].unique()) == 64
    assert float(found.live["scale"].min()) > 0.1
    assert float(found.live["eps"]) < 1e-5
    assert weights.by_another_seed(model, lambda: nn.Linear(8, 0 // 0)) == set()
    assert weights.by_another_seed(nn.BatchNorm1d(4), lambda: 0 / 0) == set(), "nothing has to be constructed for these"


def test_the_identity_under_another_name_may_be_turned_over():
    reference, other = Made(), nn.Module()
    other.turned = nn.Parameter(torch.eye(8))
    found = weights.match(other, reference.state_dict(), {"turn": reference.turn.detach()})
    assert found.pairs == {"turn": "turned"}
    assert found.ordered


def test_other_seeds_other_values():
    assert not torch.equal(drawn(nn.LayerNorm(8), 8).live["weight"], drawn(nn.LayerNorm(8), 8, seed=2).live["weight"])


def test_weights_that_the_answer_does_not_bear_stay():
    class Touchy(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Parameter(torch.ones(1))

        def forward(self, x):
            return x / (self.one == 1.0)

    model = Touchy()
    found = drawn(model, 4)
    assert found.unsteady
    assert found.live == {}
    assert model.one.item() == 1.0


def test_what_is_one_tensor_stays_one():
    model = nn.Sequential(nn.LayerNorm(8), nn.LayerNorm(8))
    model[1].weight = model[0].weight
    found = drawn(model, 8)
    assert torch.equal(found.live["0.weight"], found.live["1.weight"])


def matched(candidate):
    reference = Block()
    return weights.match(candidate, reference.state_dict(), weights.constants(reference))


def test_counterparts_are_found_by_name_and_by_contents():
    assert matched(Block()).pairs == {"one": "one", "two": "two"}
    other = matched(Block("b_zero", "a_one"))
    assert other.pairs == {"one": "a_one", "two": "b_zero"}
    assert not other.ordered


def test_several_of_one_form_are_told_apart_by_order_and_it_is_said():
    reference = Block("one_a", "one_b")
    found = weights.match(Block("one_x", "one_y"), reference.state_dict(), weights.constants(reference))
    assert found.pairs == {"one_a": "one_x", "one_b": "one_y"}
    assert found.ordered


def test_what_could_be_anywhere_is_missing_and_what_can_be_nowhere_is_not():
    packed = Block("one")
    packed.buffers_of_mine = [torch.zeros(2, 8)]
    assert matched(packed).missing == ("two",)
    assert matched(Block("one")).missing == ()


class Folds(nn.Module):
    """Looks at its weights while it is constructed."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)
        self.gate = nn.Parameter(torch.ones(8))
        self.register_buffer("table", torch.zeros(3))
        self.seen = {name: value.clone() for name, value in self.state_dict().items()}


def test_a_constructor_sees_live_weights():
    reference = Folds()
    live = {name: torch.rand_like(value) for name, value in weights.constants(reference).items()}
    before = nn.BatchNorm1d.reset_parameters, nn.Linear.reset_parameters
    with loading.live(live, weights.constants(reference)):
        model, more = Folds(), Folds()
    assert (nn.BatchNorm1d.reset_parameters, nn.Linear.reset_parameters) == before
    assert "reset_parameters" not in vars(nn.BatchNorm1d)
    assert set(live) == {"norm.weight", "norm.bias", "norm.running_mean", "norm.running_var", "gate", "table"}
    assert all(torch.equal(model.seen[name], value) for name, value in live.items())
    # There were no more; and without it all is as it was.
    assert set(weights.constants(more)) == set(live)
    assert set(weights.constants(Folds())) == set(live)


def test_constructors_are_as_they_were_when_one_fails():
    with pytest.raises(ZeroDivisionError), loading.live({"weight": torch.rand(8)}, {"weight": torch.ones(8)}):
        nn.LayerNorm(8 // 0)
    assert weights.constants(nn.LayerNorm(8))


def test_layers_that_are_not_made_yet_are_loaded():
    reference, lazy = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)), nn.Sequential(nn.LazyLinear(2), nn.LayerNorm(2))
    assert weights.match(lazy, reference.state_dict(), weights.constants(reference)).missing == ()
    assert weights.changeable(lazy, []) == ["1.weight", "1.bias"]
    loading.take_weights(lazy, reference.state_dict())
    assert torch.equal(lazy[0].weight, reference[0].weight)
    with torch.no_grad():
        assert torch.equal(lazy(torch.ones(1, 3)), reference(torch.ones(1, 3)))


def test_weights_are_given_where_all_names_are_there_and_stay_as_they_are_stored():
    reference, more = nn.Linear(3, 3), nn.Linear(3, 3)
    more.register_buffer("table", torch.ones(2))
    loading.take_weights(more, reference.state_dict())
    assert torch.equal(more.weight, reference.weight)
    turned = nn.Linear(3, 3)
    turned.load_state_dict({"weight": reference.weight.t().contiguous(), "bias": torch.zeros(3)})
    loading.take_weights(turned, reference.state_dict())
    assert torch.equal(turned.weight, reference.weight.t())
    assert torch.equal(turned.bias, reference.bias)
    found = weights.match(turned, reference.state_dict(), {})
    assert (found.pairs, found.unnamed) == ({"bias": "bias"}, ("weight",))


def test_counterparts_have_the_name_or_the_numbers():
    reference = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 3))
    known = reference.state_dict()
    other = nn.Module()
    other.a = nn.Parameter(known["0.weight"].clone())
    found = weights.match(other, known, {})
    assert (found.pairs, found.unnamed) == ({}, tuple(known))
    assert weights.match(other, known, {"0.weight": known["0.weight"]}).pairs == {"0.weight": "a"}
    assert weights.match(reference, known, {}).pairs == {name: name for name in known}
    assert weights.match(object(), known, {}).pairs == {}


def test_what_is_tied_gets_one_value_and_it_is_put_in_place():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.BatchNorm1d(3))
    model[1].weight = model[0].weight
    names = weights.changeable(model, ["2.running_var"])
    assert names == ["0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias", "2.running_var"]
    before, version = model[0].weight.detach().clone(), model[0].weight._version
    values = weights.moved(model, names)
    assert values["0.weight"] is values["1.weight"]
    assert torch.equal(values["0.weight"].reshape(-1), before.reshape(-1).roll(1) / 2)
    ratio = weights.unlike(model, names, 1, signs=False)["0.weight"] / before
    assert 0.5 <= float(ratio.min()) < float(ratio.max()) <= 1.5
    assert bool((weights.unlike(model, names, 1, signs=True)["0.weight"] / before < 0).any())
    weights.put(model, values)
    assert model[0].weight._version > version
    assert torch.equal(model[1].weight, values["0.weight"])
    assert weights.changeable(object(), []) == []


def test_zeros_stay_in_an_update():
    table = nn.Embedding(6, 4, padding_idx=2)
    assert not weights.moved(table, ["weight"])["weight"][2].any(), "no training changes it"


def run_of(role, root):
    chosen = [part for part in parts("norms") if part.role == role]
    sample = written("norms", chosen, root / "INORMS")
    options = {"device": "cpu", "counters": "off", "budget": 0.02, "trials": 2}
    return profile(sample, runs=root / "runs", **options)


IGNORES = {
    "gate_shut": "ignores gate of Model:",
    "no_batch_norm": "of BatchNorm1d (batch):",
    "no_scale": "ignores bias, weight of LayerNorm (norm):",
    "no_statistics": "ignores running_mean, running_var of BatchNorm1d (batch):",
}


@pytest.mark.slow
def test_what_a_candidate_ignores_is_named(tmp_path):
    said = {impl.name: impl for impl in run_of("cheat", tmp_path).manifest.candidates}
    assert said.keys() == IGNORES.keys()
    assert all(said[name].status == "mismatch" and what in said[name].reason for name, what in IGNORES.items())


@pytest.mark.slow
def test_who_follows_its_weights_is_right(tmp_path):
    run = run_of("honest", tmp_path)
    assert {impl.name: impl.reason for impl in run.manifest.candidates if not impl.ok} == {}
    assert not [caveat for caveat in run.manifest.caveats if caveat.code.startswith("weights")]


def test_weights_that_go_by_another_name_by_now_are_left():
    """Said before: a KeyError, which made an error of a right candidate."""
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4)))
    before = model[0][0].weight.clone()
    weights.put(model, {"0.weight": torch.ones(4, 4)}, {"0.weight": "0.weight"})
    assert torch.equal(model[0][0].weight, before)


def test_state_that_is_no_tensor_stands_for_nothing():
    class Extra(nn.Linear):
        def get_extra_state(self):
            return {"made": "elsewhere"}

        def set_extra_state(self, state):
            pass

    model, known = Extra(4, 4), nn.Linear(4, 4).state_dict()
    loading.take_weights(model, known)
    assert weights.match(model, known, {}).pairs == {"weight": "weight", "bias": "bias"}


ONCE = """
import torch
from torch import nn


class {name}(nn.Module):
    made = 0

    def __init__(self):
        super().__init__()
        {first}
        self.norm = nn.LayerNorm(8)
        {then}

    def forward(self, x):
        return {answer}


def get_inputs():
    return [torch.randn(4, 8)]


def get_init_inputs():
    return []
"""


def test_who_cannot_be_constructed_twice_goes_on_as_it_was(tmp_path):
    """Said before: an error, of what was constructed and answered."""
    folder = tmp_path / "IONCE"
    folder.mkdir()
    plain = {"first": "pass", "then": "pass", "answer": "self.norm(x)"}
    (folder / "reference.py").write_text(ONCE.format(name="Model", **plain))
    once = {
        "first": "ModelNew.made += 1\n        assert ModelNew.made == 1, 'once is enough'",
        "then": "self.kept = self.norm.weight.detach().clone(), self.norm.bias.detach().clone()",
        "answer": "nn.functional.layer_norm(x, (8,), *self.kept)",
    }
    (folder / "once.py").write_text(ONCE.format(name="ModelNew", **once))
    options = {"device": "cpu", "counters": "off", "budget": 0.02, "trials": 1}
    run = profile(folder, runs=tmp_path / "runs", **options)
    (impl,) = run.manifest.candidates
    assert (impl.status, "ignores" in impl.reason) == ("mismatch", True)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float8_e4m3fn])
def test_weights_that_have_no_order_are_taken(dtype):
    class Holds(nn.Module):
        def __init__(self, values):
            super().__init__()
            self.register_buffer("w", torch.tensor(values).to(dtype))

    mine = Holds([1.0, 2.0])
    loading.take_weights(mine, Holds([2.0, 1.0]).state_dict())
    assert mine.w.to(torch.complex64).real.tolist() == [2.0, 1.0]
