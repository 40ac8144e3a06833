"""Inputs that get_inputs() never draws: which of them tell something, and of whom."""

from types import SimpleNamespace

import pytest
import torch
from candidates import ANSWERS, task

from profkit.api import profile
from profkit.guest.tensors import inputs
from profkit.judge import cases


def tried(model, *drawn, allowed=None):
    with torch.no_grad():
        ask = lambda arguments: model(*arguments).clone()  # noqa: E731
        found = cases.trials((list(drawn), list(drawn)), ask, allowed=allowed)
        return {trial.name: trial for trial in found}


def test_rows_come_in_order_of_size_by_what_has_one_dimension_too():
    """What is done in an order, each step by the last, takes as many steps as there are rows."""
    found = tried(lambda x, order: x[order.argsort()].cumsum(0), torch.randn(8, 16), torch.rand(8))
    x, order = found[cases.IN_TURN].arguments
    assert bool((x.diff(dim=0) >= 0).all())
    assert bool((order.diff() >= 0).all())


def test_where_the_reference_is_not_finite_nothing_is_tried():
    found = tried(torch.log, torch.rand(8, 16) + 0.5)
    assert "inputs with the other sign" not in found
    assert "every other row zero" not in found
    assert "inputs times 1e3" in found


def test_sums_in_the_order_that_they_come_in_are_no_reason_to_try_nothing():
    found = tried(lambda x: x * (1 + 1e-7 * torch.rand_like(x)), torch.randn(8, 16))
    assert found.keys() == tried(lambda x: x * 1.5, torch.randn(8, 16)).keys()


def test_where_a_little_noise_moves_the_answer_nothing_is_tried():
    assert "inputs times 1e3" not in tried(lambda x: (x * 1e4).sin(), torch.randn(8, 16))
    assert "rows with a single one" not in tried(lambda x: torch.relu(x).sort(-1).indices, torch.randn(8, 16))
    assert "rows that are all the first" not in tried(lambda x: x[:, 0].argmin(0, keepdim=True), torch.randn(16, 8))
    assert "inputs times 1e3" in tried(torch.relu, torch.randn(8, 16))
    assert "inputs times 10" in tried(lambda x: torch.relu(x @ x.t()), torch.randn(64, 64).bfloat16())


@pytest.mark.parametrize("kind", [torch.int8, torch.float8_e4m3fn])
def test_quantized_answers_may_jump_by_a_code_here_and_there(kind):
    assert "inputs times 10" in tried(lambda x: (x * 4e3).clamp(-120, 120).to(kind), torch.randn(64, 64))


def test_complex_inputs_are_changed_by_their_parts():
    z = torch.randn(8, 16, dtype=torch.complex64)
    found = tried(lambda x: x @ x.mT, z)
    assert torch.equal(found["inputs with the other sign"].arguments[0], -z)
    assert torch.equal(found["rows that are all the first"].arguments[0], z[:1].expand_as(z))
    stirred = inputs.stirred(inputs.STIRRED, 0, z.clone())
    assert (stirred.real != z.real).any()
    assert (stirred.imag != z.imag).any()
    assert torch.allclose(stirred, z, atol=1e-4)


def test_one_end_of_an_axis_is_made_larger_and_nan_comes_where_the_task_is_about_it():
    found = tried(lambda x: x.cumsum(-1), torch.randn(8, 64))
    first = found["inputs whose first elements are the largest"].arguments[0].abs().mean(0)
    assert first[:8].mean() > 20 * first[-8:].mean()
    with torch.no_grad():
        holed = cases.trials(([torch.randn(8, 300)],) * 2, lambda a: a[0].nan_to_num(), holes=True)
        assert cases.HOLED in {trial.name for trial in holed}


def test_what_is_drawn_the_same_every_time_gets_other_values():
    drawn, again = [torch.randn(4, 4), torch.tensor(0.7), 3], [torch.randn(4, 4), torch.tensor(0.7), 3]
    changed = {name: make for name, _, make in cases.variants(drawn, None, again)}[cases.REPEATED]()
    assert torch.equal(changed[0], drawn[0])
    assert float(changed[1]) == pytest.approx(0.525)
    assert cases.REPEATED not in [name for name, _, _ in cases.variants(drawn[:1], None, again[:1])]


def test_masks_whole_numbers_and_settings_that_never_change_get_another_value_one_by_one():
    drawn = [
        torch.randn(4),
        torch.ones(6, dtype=torch.bool),
        torch.tensor(4),
        torch.tensor([0, 2, 4]),
        torch.arange(4),
        3,
        2.0,
    ]
    found = [make() for name, _, make in cases.variants(drawn, None, drawn) if name == cases.GIVEN]
    changed = [given[at] for at, given in enumerate(found, 1)]
    assert changed[0].tolist() == [True, False, True, True, False, True]
    assert int(changed[1]) == 3
    assert changed[2].tolist() == [0, 1, 4]
    assert changed[3].tolist() == [3, 0, 1, 2]
    assert changed[4:] == [2, 1.5]
    for at, given in enumerate(found, 1):
        assert all(
            one is two or torch.equal(torch.as_tensor(one), torch.as_tensor(two))
            for n, (one, two) in enumerate(zip(given, drawn, strict=True))
            if n != at
        )


def test_large_values_come_first_and_what_no_time_is_left_for_is_named():
    clock, missed = iter(range(0, 1000, 7)), []
    drawn = [torch.randn(8, 16)]
    asked = cases.trials((drawn, drawn), lambda a: a[0].relu(), clock=lambda: float(next(clock)), missed=missed)
    assert next(asked).name == "inputs times 1e3"
    assert list(asked) == []
    assert missed[:2] == ["inputs with the other sign", "inputs times 1e-3"]
    assert len(missed) >= 9


def test_values_bind_inside_the_domain():
    drawn = torch.rand(8, 16)
    assert not [trial for trial in tried(torch.relu, drawn).values() if trial.binding]
    bound = tried(torch.relu, drawn, allowed=[(0.0, 1.0)])
    values = {name for name, trial in bound.items() if trial.binding and trial.kind == "values"}
    assert {"inputs times 1e-3", "every other row zero", "the highest values allowed"} <= values
    assert "inputs with the other sign" not in values


def test_what_a_reference_says_of_its_inputs_is_read():
    assert cases.domain(SimpleNamespace()) is None
    assert cases.domain(SimpleNamespace(input_domain=lambda: [(0, 1), None])) == [(0, 1), None]
    with pytest.raises(ValueError, match="no pair"):
        cases.domain(SimpleNamespace(input_domain=lambda: [(2, 1)]))


CANDIDATES = {
    "sound": "        return (x - x.amax(-1, keepdim=True)).exp() / (x - x.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)\n",
    "naive": "        return x.exp() / x.exp().sum(-1, keepdim=True)\n",
    "refuses": "        if x.abs().max() > 10: raise ValueError('small inputs, please')\n        return torch.softmax(x, -1)\n",
    "falls_on_large": "        if x.abs().max() > 10:\n            import os\n            os.abort()\n        return torch.softmax(x, -1)\n",
    "falls_often": "        if x.min() < 0 or x.max() > 0.3 or x.max() < 0.01:\n            import os\n            os.abort()\n        return torch.softmax(x, -1)\n",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("properties")
    folder = root / "IPROPS"
    folder.mkdir()
    (folder / "reference.py").write_text(task("torch.softmax(x, -1)", "torch.rand(16, 32) * 0.2"))
    for name, body in CANDIDATES.items():
        (folder / f"{name}.py").write_text(ANSWERS + body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROFKIT_CACHE", str(root / "cache"))
        options = {"device": "cpu", "counters": "off", "budget": 0.02, "trials": 1}
        return profile(folder, runs=root / "runs", **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "status", "note"),
    [
        ("sound", "ok", ""),
        ("naive", "ok", "inputs times 1e3: "),
        ("refuses", "ok", "refuses inputs times 1e3: ValueError: small inputs, please"),
        ("falls_on_large", "ok", "inputs times 1e3: the process of falls_on_large has ended"),
        ("falls_often", "ok", "inputs times 1e3: the process of falls_often has ended"),
    ],
)
def test_unusual_inputs_are_told_apart(run, name, status, note):
    found = next(impl for impl in run.manifest.impls if impl.name == name)
    assert found.status == status, found.reason
    assert note in "; ".join(found.fragile + found.notes) if note else found.fragile == [], found.fragile
