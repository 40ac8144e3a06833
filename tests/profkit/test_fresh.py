"""Input data that were never given before, and have what all draws have in common."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from profkit.guest.tensors import fresh  # noqa: E402
from profkit.guest.tensors.fresh import Stock  # noqa: E402


def drawn_by(draw):
    """(a stock of what `draw` gives, the sets that it gave)."""
    seen = []

    def once():
        seen.append(draw())
        return seen[-1]

    return Stock(once), seen


def test_a_mix_has_elements_of_two_draws_and_none_comes_twice():
    stock, seen = drawn_by(lambda: [torch.randn(16, 16), torch.randint(0, 1000, (64,)), torch.rand(8, 8) > 0.5])
    mixes = [stock.fresh() for _ in range(50)]
    for n, held in enumerate(mixes[0]):
        every = torch.stack([one[n] for one in seen])
        assert bool((every == held).any(0).all())
    assert len({tuple(mix[0].flatten().tolist()) for mix in mixes}) == 50
    assert len(seen) <= fresh._MOST, "drawing may take long"
    memory = mixes[0][0].data_ptr()
    assert stock.fresh(into=mixes[0])[0].data_ptr() == memory


ORDERED = torch.arange(64)
KEPT = {
    "a permutation": (lambda: torch.randperm(64), lambda x: x.sort().values.equal(ORDERED)),
    "bounds": (lambda: torch.randint(0, 9, (64,)).cumsum(0), lambda x: bool((x.diff() >= 0).all())),
    "lengths of one sum": (
        lambda: torch.bincount(torch.randint(0, 16, (256,)), minlength=16),
        lambda x: int(x.sum()) == 256,
    ),
    "rows of one sum": (lambda: torch.randn(16, 32).softmax(-1), lambda x: x.sum(-1).allclose(torch.ones(16))),
    "rows of one length": (
        lambda: torch.nn.functional.normalize(torch.randn(16, 32), dim=-1),
        lambda x: x.norm(dim=-1).allclose(torch.ones(16)),
    ),
    "one-hot rows": (
        lambda: torch.eye(32)[torch.randint(0, 32, (16,))],
        lambda x: bool((x.sum(-1) == 1).all()) and bool((x.max(-1).values == 1).all()),
    ),
    "symmetry": (lambda: (lambda a: a + a.T)(torch.randn(16, 16)), lambda x: x.equal(x.T)),
    "a triangle": (lambda: torch.randn(16, 16).tril(), lambda x: x.equal(x.tril())),
    "an order": (lambda: torch.randn(64).sort().values, lambda x: bool((x.diff() >= 0).all())),
    "masks of a length": (
        lambda: torch.arange(32)[None] < torch.randint(1, 32, (16, 1)),
        lambda x: bool((x[:, :-1] >= x[:, 1:]).all()),
    ),
}


@pytest.mark.parametrize("what", KEPT)
def test_what_all_draws_have_in_common_a_mix_has_too(what):
    draw, has = KEPT[what]
    stock, _ = drawn_by(lambda: [draw(), torch.randn(64)])
    mixes = [stock.fresh() for _ in range(20)]
    assert all(has(mix[0]) for mix in mixes)
    assert len({tuple(mix[0].flatten().tolist()) for mix in mixes}) > 1


def test_bounds_keep_the_places_that_they_are_of():
    """Where one tensor says how others are laid out, they come from the same draw."""

    def draw():
        lengths = torch.randint(1, 32, (16,))
        x = torch.randn(16, 32).masked_fill(torch.arange(32)[None] >= lengths[:, None], 0.0)
        return [x, torch.arange(32)[None] < lengths[:, None], torch.randn(64)]

    stock, _ = drawn_by(draw)
    for _ in range(20):
        x, mask, _ = stock.fresh()
        assert (x != 0).equal(mask)


@pytest.mark.parametrize("layout", ["plain", "strided", "expanded", "complex", "half", "byte"])
def test_a_mix_has_the_layout_and_type_of_a_draw(layout):
    draws = {
        "plain": lambda: torch.randn(8, 16),
        "strided": lambda: torch.randn(8, 32)[:, ::2],
        "expanded": lambda: torch.randn(64, 1).expand(64, 4),
        "complex": lambda: torch.randn(8, 16, dtype=torch.complex64),
        "half": lambda: torch.randn(8, 16).half(),
        "byte": lambda: torch.randn(8, 16).to(torch.float8_e4m3fn),
    }
    stock, seen = drawn_by(lambda: [draws[layout](), torch.randn(64)])
    mix = stock.fresh()[0]
    assert (mix.shape, mix.stride(), mix.dtype) == (seen[0][0].shape, seen[0][0].stride(), seen[0][0].dtype)


@pytest.mark.parametrize(
    ("draw", "usable"),
    [
        (lambda: [torch.randn(64)], lambda _drawn, _mixed: False),
        (lambda: [torch.randperm(64)], lambda _drawn, _mixed: True),
        (lambda: [torch.randn(int(torch.randint(8, 400, ())))], lambda _drawn, _mixed: True),
    ],
)
def test_where_no_mix_is_any_good_every_set_is_drawn(draw, usable):
    seen = []

    def once():
        seen.append(draw())
        return seen[-1]

    stock = Stock(once, usable)
    before = len(seen)
    given = [stock.fresh() for _ in range(10)]
    assert len(seen) == before + 10
    assert given[-1] is seen[-1]
