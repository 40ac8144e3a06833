"""Inputs that get_inputs() never draws: which of them tell something, and of whom."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from profkit.api import profile
from profkit.launch.protocol import Job
from profkit.runner import inputs, properties
from profkit.runner.check import Tolerances, Verdict
from profkit.runner.session import Session


def tried(model, *drawn, allowed=None, wanted=("values", "layout", "shape"), layouts=False):
    with torch.no_grad():
        ask = lambda arguments: model(*arguments).clone()  # noqa: E731
        return {trial.name: trial for trial in properties.trials(list(drawn), allowed, ask, {}, wanted, layouts)}


def test_values_layouts_and_shapes_are_tried():
    found = tried(torch.relu, torch.randn(8, 16))
    assert {trial.kind for trial in found.values()} == {"values", "layout", "shape"}
    assert len(found) >= 12
    gaps = found["inputs with gaps between the elements"].arguments[0]
    assert not gaps.is_contiguous()
    later = found["inputs that start one element later"].arguments[0]
    assert later.is_contiguous()
    assert later.storage_offset() == 1
    assert found["rows that are one row in memory"].arguments[0].stride()[0] == 0
    assert found["a batch of one"].arguments[0].shape == (1, 16)
    tiny = found["every other row denormal"].arguments[0][1]
    assert bool(((tiny > 0) & (tiny < torch.finfo(torch.float32).tiny)).all())


def test_rows_come_in_order_of_size_by_what_has_one_dimension_too():
    """What is done in an order, each step by the last, takes as many steps as there are rows."""
    found = tried(lambda x, order: x[order.argsort()].cumsum(0), torch.randn(8, 16), torch.rand(8))
    x, order = found[properties.IN_TURN].arguments
    assert bool((x.diff(dim=0) >= 0).all())
    assert bool((order.diff() >= 0).all())


def test_where_the_reference_is_not_finite_or_not_sure_nothing_is_tried():
    found = tried(torch.log, torch.rand(8, 16) + 0.5)
    assert "inputs with the other sign" not in found
    assert "every other row zero" not in found
    assert "inputs times 1e3" in found
    assert tried(lambda x: x + torch.rand_like(x), torch.randn(8, 16)) == {}


def test_an_output_that_is_not_finite_does_not_hide_the_others():
    drawn = torch.randn(8, 16)
    ask = lambda arguments: (torch.cumprod(1 + arguments[0] ** 2, 1), arguments[0].sum(-1))  # noqa: E731
    found = {trial.name: trial for trial in properties.trials([drawn], None, ask, {}, ("values",))}
    trial = found["inputs times 1e3"]
    assert trial.blank == {0}
    product, total = trial.answer
    told = trial.told((torch.zeros(8, 16), total + 1))
    assert torch.equal(told[0], product)
    assert torch.equal(told[1], total + 1)
    assert trial.told(total) is total
    assert found["inputs times 1e-3"].blank == frozenset()


@pytest.mark.filterwarnings("ignore:Use of index_put_")
def test_nobody_knows_what_is_in_a_row_that_several_are_written_to():
    drawn, rows = torch.randn(8, 16), torch.arange(4)

    def ask(arguments):
        arguments[0][rows] = 1.0
        return arguments[0].clone()

    found = {
        writes: {trial.name for trial in properties.trials([drawn], None, ask, {}, ("layout",), writes=writes)}
        for writes in (False, True)
    }
    assert found[False] - found[True] == {properties.ONE_ROW}


def test_sums_in_the_order_that_they_come_in_are_no_reason_to_try_nothing():
    found = tried(lambda x: x * (1 + 1e-7 * torch.rand_like(x)), torch.randn(8, 16))
    assert found.keys() == tried(lambda x: x * 1.5, torch.randn(8, 16)).keys()
    assert not any(trial.rough for trial in found.values())


def test_where_rounding_moves_the_answer_only_what_is_not_finite_tells():
    jumps = tried(lambda x: (x * 1e7).sin(), torch.randn(8, 16))["inputs times 1e3"]
    assert jumps.rough
    assert jumps.judged(Verdict("mismatch", "far off")).status == "ok"
    assert jumps.judged(Verdict("nan", "not finite")).status == "nan"
    calm = tried(torch.relu, torch.randn(8, 16))["inputs times 1e3"]
    assert calm.judged(Verdict("mismatch", "far off")).status == "mismatch"


def test_which_of_equals_comes_first_tells_nothing():
    found = tried(lambda x: torch.relu(x).sort(-1).indices, torch.randn(8, 16))
    assert found["rows with a single one"].rough
    assert not tried(lambda x: x.argmax(-1), torch.randn(8, 16))["rows with a single one"].rough


def test_which_of_equals_comes_first_tells_nothing_where_a_noise_leaves_the_first_in_front():
    found = tried(lambda x: x[:, 0].argmin(0, keepdim=True), torch.randn(16, 8))
    assert found["rows that are all the first"].rough
    assert not found["inputs times 10"].rough


def test_what_is_made_of_the_first_of_equal_rows_tells_nothing():
    def sums(points, middles):
        nearest = (points[:, None] - middles).square().sum(-1).argmin(-1)
        return torch.zeros_like(middles).index_add(0, nearest, points)

    found = tried(sums, torch.randn(64, 8), torch.randn(16, 8))
    assert found["rows that are all the first"].rough
    assert found["rows that are one row in memory"].rough
    assert not found["inputs times 10"].rough


def test_complex_numbers_are_compared_as_others_are():
    found = tried(lambda x: torch.complex(x, -x), torch.randn(8, 16))
    assert not any(trial.rough for trial in found.values())


def test_complex_inputs_are_changed_by_their_parts():
    z = torch.randn(8, 16, dtype=torch.complex64)
    found = tried(lambda x: x @ x.mT, z)
    assert not any(trial.rough for trial in found.values())
    assert torch.equal(found["inputs with the other sign"].arguments[0], -z)
    assert torch.equal(found["rows that are all the first"].arguments[0], z[:1].expand_as(z))
    assert tried(lambda x: (x.abs() * 1e7).sin(), z)["inputs times 1e3"].rough
    stirred = inputs.stirred(z.clone())
    assert (stirred.real != z.real).any()
    assert (stirred.imag != z.imag).any()
    assert torch.allclose(stirred, z, atol=1e-4)


def test_what_is_drawn_the_same_every_time_gets_other_values():
    drawn, again = [torch.randn(4, 4), torch.tensor(0.7), 3], [torch.randn(4, 4), torch.tensor(0.7), 3]
    changed = {name: found for name, _, found in properties.variants(drawn, None, again)}[properties.CONSTANT]
    assert torch.equal(changed[0], drawn[0])
    assert float(changed[1]) == pytest.approx(0.525)
    assert properties.CONSTANT not in [name for name, _, _ in properties.variants(drawn[:1], None, again[:1])]


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
    found = [given for name, _, given in properties.variants(drawn, None, drawn) if name == properties.GIVEN]
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


def test_a_layout_binds_where_any_may_come_and_values_do_inside_the_domain():
    drawn = torch.rand(8, 16)
    assert not [trial for trial in tried(torch.relu, drawn).values() if trial.binding]
    free = tried(torch.relu, drawn, layouts=True)
    assert {name for name, trial in free.items() if trial.binding} == {n for n, t in free.items() if t.kind == "layout"}
    bound = tried(torch.relu, drawn, allowed=[(0.0, 1.0)])
    values = {name for name, trial in bound.items() if trial.binding and trial.kind == "values"}
    assert {"inputs times 1e-3", "every other row zero", "the highest values allowed"} <= values
    assert "inputs with the other sign" not in values


def test_what_a_reference_says_of_its_inputs_is_read():
    assert properties.domain(SimpleNamespace()) is None
    assert properties.domain(SimpleNamespace(input_domain=lambda: [(0, 1), None])) == [(0, 1), None]
    with pytest.raises(ValueError, match="no pair"):
        properties.domain(SimpleNamespace(input_domain=lambda: [(2, 1)]))


def test_a_reference_that_fails_where_its_rounding_is_asked_for_gives_no_room_and_accuses_nobody(monkeypatch):
    def model(x):
        raise ValueError("no such inputs")

    monkeypatch.setattr("profkit.runner.loading.use", lambda _: None)
    judging = Session(Job("judge", "A", [], device="cpu"), SimpleNamespace(phase=lambda *_, **__: None))
    usual = Tolerances({"output": 1e-3})
    judging.reference = SimpleNamespace(
        model=model, lock=None, probe=SimpleNamespace(tolerances=usual), subject=SimpleNamespace(name="reference")
    )
    assert judging._rounding([torch.randn(4)]) == usual
    assert judging._room([torch.randn(4)]) is None


REFERENCE = """
import torch

any_layout = True

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)

def get_inputs():
    return [torch.rand(16, 32) * 0.2]

def get_init_inputs():
    return []
"""
HEAD = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"
CANDIDATES = {
    "sound": "        return (x - x.amax(-1, keepdim=True)).exp() / (x - x.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)\n",
    "naive": "        return x.exp() / x.exp().sum(-1, keepdim=True)\n",
    "by_memory": "        y = torch.as_strided(x, x.shape, (x.shape[1], 1), 0)\n        return torch.softmax(y, -1)\n",
    "refuses": "        if not x.is_contiguous(): raise ValueError('contiguous inputs, please')\n        return torch.softmax(x, -1)\n",
    "falls": "        if not x.is_contiguous():\n            import os\n            os.abort()\n        return torch.softmax(x, -1)\n",
    "falls_on_large": "        if x.abs().max() > 10:\n            import os\n            os.abort()\n        return torch.softmax(x, -1)\n",
    "falls_often": "        if x.min() < 0 or x.max() > 0.3 or x.max() < 0.01:\n            import os\n            os.abort()\n        return torch.softmax(x, -1)\n",
    "one_size": "        if x.shape[0] != 16: return x\n        return torch.softmax(x, -1)\n",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("properties")
    folder = root / "IPROPS"
    folder.mkdir()
    (folder / "reference.py").write_text(REFERENCE)
    for name, body in CANDIDATES.items():
        (folder / f"{name}.py").write_text(HEAD + body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROFKIT_CACHE", str(root / "cache"))
        patch.setenv("OMP_NUM_THREADS", "1")
        options = {"device": "cpu", "counters": "off", "budget": 0.02, "trials": 1}
        return profile(folder, runs=root / "runs", **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "status", "note"),
    [
        ("sound", "ok", ""),
        ("naive", "ok", "inputs times 1e3: "),
        ("refuses", "ok", "inputs with gaps between the elements: ValueError: contiguous inputs, please"),
        ("falls", "ok", "inputs with gaps between the elements: the process of falls has ended"),
        ("falls_on_large", "ok", "inputs times 1e3: the process of falls_on_large has ended"),
        ("falls_often", "crash", ": the process of falls_often has ended; "),
        ("one_size", "ok", "a batch of one: "),
        ("by_memory", "mismatch", ""),
    ],
)
def test_unusual_inputs_are_told_apart(run, name, status, note):
    found = next(impl for impl in run.manifest.impls if impl.name == name)
    assert found.status == status, found.reason
    assert note in "; ".join(found.fragile) if note else found.fragile == [], found.fragile
    if status == "mismatch":
        assert found.reason.startswith("inputs with gaps between the elements: output: ")


@pytest.mark.slow
def test_who_is_wrong_has_no_times(run):
    assert {line.partition(",")[0] for line in (run.path / "timings.csv").read_text().splitlines()[1:]} == {
        "reference",
        *(name for name in CANDIDATES if name not in ("by_memory", "falls_often")),
    }


MODEL = """
import torch
from torch import nn

class {name}(nn.Module):
    lost, made = False, None

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(32, 32)
        self.table = nn.Parameter({table})
        self.gamma = nn.Parameter({scale} * (1 + 0.1 * torch.rand(32)))

    def forward(self, x):
        {body}
        return self.first(x) + {rest}

    def gone(self, *_):
        raise RuntimeError("CUDA error: misaligned address")
"""
DRAWN = "\ndef get_inputs():\n    return [torch.randn(16, 32)]\n\ndef get_init_inputs():\n    return []\n"
LOSES = """if self.lost or not x.is_contiguous():
            self.lost, torch.cuda.is_initialized, torch.cuda._lazy_init = True, lambda: True, self.gone
            self.gone()"""
PREPARED = [
    ("follows", "pass", "table"),
    ("table_once", "self.made = self.table.detach().clone() if self.made is None else self.made", "made"),
]


def later(root, scale, table, rest, bodies):
    """Doubts and candidates of a run; scale, table: its weights; rest: what the reference adds, bodies: a candidate's first lines and what it adds."""
    folder = root / "ILATER"
    folder.mkdir()
    told = {"reference": ("pass", rest), **bodies}
    for name, (body, rest) in told.items():
        here = {
            "name": "Model" if name == "reference" else "ModelNew",
            "scale": scale,
            "table": table,
            "body": body,
            "rest": rest,
        }
        (folder / f"{name}.py").write_text(MODEL.format(**here) + DRAWN)
    run = profile(folder, runs=root / "runs", device="cpu", counters="off", budget=0.02, trials=1, processes=1)
    return run.manifest.doubts, {impl.name: impl for impl in run.manifest.candidates}


def test_weights_are_changed_before_a_process_may_fall(tmp_path):
    """What takes a process or its context with it comes last, and is no fault."""
    right = "self.gamma * torch.tanh(x + self.table)"
    bodies = {"loses": (LOSES, right), "loses_and_leaves_out": (LOSES, "0"), "leaves_out": ("pass", "0")}
    doubts, found = later(tmp_path, 1e-6, "0.02 * torch.randn(32)", right, bodies)
    assert found["loses"].status == "ok", found["loses"].reason
    gaps = "inputs with gaps between the elements: RuntimeError: CUDA error: misaligned address"
    assert found["loses"].fragile == [gaps]
    for name in ("loses_and_leaves_out", "leaves_out"):
        assert found[name].status == "mismatch", (name, found[name].reason)
        assert found[name].reason.startswith("right for weights as they are constructed, wrong where ")
    assert not any("weights" in doubt.code for doubt in doubts)


def test_who_goes_on_with_weights_that_hardly_counted_is_told_of(tmp_path):
    """They are halved first, which is less than the tolerance, and turned or made larger then, which is more."""
    bodies = {name: (body, f"self.gamma * (x + self.{table})") for name, body, table in PREPARED}
    bodies["leaves_the_table_out"] = "pass", "self.gamma * x"
    doubts, found = later(tmp_path, 5e-6, "torch.randn(16, 32)", bodies["follows"][1], bodies)
    assert found["follows"].status == found["table_once"].status == "ok", found["table_once"].reason
    assert found["leaves_the_table_out"].status == "mismatch"
    told = [doubt.how_much for doubt in doubts if doubt.code == "weights-frozen"]
    assert len(told) == 1
    assert "it goes on with those it had of table of Model" in told[0]
