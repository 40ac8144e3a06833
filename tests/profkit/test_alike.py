"""What all draws of an input have in common, and that unusual inputs have it too."""

import pytest
import torch

from profkit.guest.tensors.alike import Common
from profkit.judge import cases


def variants(*arguments):
    made = ((name, kind, make()) for name, kind, make in cases.variants(*arguments))
    return [one for one in made if one[2] is not None]


def symmetrical(n=8):
    x = torch.randn(n, n)
    return x + x.mT


DRAWS = {
    "whole": lambda: (torch.rand(6, 8) < 0.5).float(),
    "lower": lambda: torch.tril(torch.randn(8, 8)),
    "symmetrical": symmetrical,
    "ordered": lambda: torch.randn(6, 8).sort(-1).values,
    "chances": lambda: torch.randn(6, 8).softmax(-1),
    "doubled": lambda: torch.arange(24.0).view(6, 4).cos().repeat(1, 2),
}
HAS = {
    "whole": lambda x: bool(torch.isin(x, torch.tensor([0.0, 1.0])).all()),
    "lower": lambda x: torch.equal(x, torch.tril(x)),
    "symmetrical": lambda x: torch.equal(x, x.mT),
    "ordered": lambda x: bool((x.diff() >= 0).all()),
    "doubled": lambda x: torch.equal(*x.chunk(2, -1)),
    "chances": lambda x: torch.allclose(x.sum(-1), torch.ones(6)) and bool((x >= 0).all()),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_what_all_draws_have_in_common_every_change_keeps(kind):
    torch.manual_seed(0)
    drawn, other = ([DRAWS[kind](), torch.randn(6, 8)] for _ in range(2))
    common = Common(drawn, other)
    every = variants(drawn, None, other, common)
    found = [given for name, sort, given in every if sort == "values" and not name.startswith(cases.HOLED)]
    assert len(found) >= 8
    assert all(HAS[kind](given[0]) for given in found)
    assert not all(torch.equal(given[0], drawn[0]) for given in found), "it is changed as far as it bears it"
    freely = [given for _, sort, given in variants(drawn, None, other) if sort == "values"]
    assert not all(HAS[kind](given[0]) for given in freely), "else this test would show nothing"


def test_sign_and_size_are_nothing_that_draws_have_in_common():
    drawn, other = [torch.rand(6, 8) + 1], [torch.rand(6, 8) + 1]
    turned = [-drawn[0]]
    assert Common(drawn, other).kept(turned) is not None
    assert torch.equal(Common(drawn, other).kept(turned)[0], turned[0])
    assert Common(drawn, other).kept([drawn[0].clone()]) is None


def test_masks_of_floating_numbers_are_all_true_and_all_false_once():
    drawn, other = ([torch.randn(4, 4), (torch.rand(4, 4) < 0.5).float()] for _ in range(2))
    found = [given[1] for name, _, given in variants(drawn, None, other) if name == cases.ONE_VALUE]
    assert [sorted(set(one.flatten().tolist())) for one in found] == [[0.0], [1.0]]


def test_numbers_of_kinds_are_the_smallest_a_middle_one_and_the_largest_once():
    drawn, other = [torch.tensor([3, 0, 2, 5, 3, 0])], [torch.tensor([1, 0, 2, 5, 3, 3])]
    found = [given[0] for name, _, given in variants(drawn, None, other) if name == cases.ONE_VALUE]
    assert [one.unique().tolist() for one in found] == [[0], [3], [5]]


def test_bounds_are_no_numbers_of_kinds():
    bounds = [torch.tensor([0, 2, 2, 5, 9]), torch.tensor([0, 1, 4, 5, 9])]
    names = [name for name, _, _ in variants(bounds[:1], None, bounds[1:])]
    assert cases.ONE_VALUE not in names
    ordered = [torch.tensor([0, 2, 2, 5, 9]), torch.tensor([0, 1, 4, 5, 8])]
    assert cases.ONE_VALUE in [name for name, _, _ in variants(ordered[:1], None, ordered[1:])]


def test_rows_of_their_own_beside_matrices_are_changed_too_and_scales_are_not():
    drawn = [torch.randn(4, 6), torch.randn(50), torch.randn(6)]
    found = {name: given for name, _, given in variants(drawn)}
    alone, both = found["inputs times 1e3"], found[f"inputs times 1e3{cases.AS_WELL}"]
    assert torch.equal(alone[1], drawn[1])
    assert torch.equal(both[1], drawn[1] * 1e3)
    assert torch.equal(both[0], drawn[0] * 1e3)
    assert torch.equal(both[2], drawn[2])
    assert not any(name.endswith(cases.AS_WELL) for name, _, _ in variants(drawn[::2]))


def test_a_few_zeros_by_chance_do_not_hide_a_triangle():
    torch.manual_seed(0)
    drawn, other = ([torch.tril(torch.randn(64, 64))] for _ in range(2))
    drawn[0][40, 3] = other[0][50, 20] = 0.0
    found = list(variants(drawn, None, other, Common(drawn, other)))
    values = [given[0] for name, sort, given in found if sort == "values" and not name.startswith(cases.HOLED)]
    assert values
    assert all(torch.equal(one, one.tril()) for one in values)
