"""Answers that jump where rounding decides: what is off there is held against nobody, all else is."""

from __future__ import annotations

import pytest
import torch

from profkit.runner import jumps

STEP = 0.125


def levels(x):
    """Rows of 8 made of whole levels, whose sums all hang on them."""
    return torch.round(x / STEP).sum(-1, keepdim=True).expand(-1, 8) * STEP


def drawn():
    """(64, 16) inputs, three of which lie on the edge of a level or as near as a float is."""
    x = torch.randn(64, 16, generator=torch.Generator().manual_seed(1))
    # 0.5 of a step goes to the even level, and a little more to the next.
    x[3, 3], x[17, 1], x[40, 8] = 0.5 * STEP * (1 - 6e-8), 2.5 * STEP, 4.5 * STEP * (1 - 6e-8)
    return x


def status(model, other, x):
    return jumps.judged(other(x.clone()), model(x.clone()), [x], lambda given: model(*given), {}).status


def above(x):
    """As `levels`, with what lies on an edge rounded up for sure."""
    return torch.round(x * (1 / STEP) * (1 + 1e-6)).sum(-1, keepdim=True).expand(-1, 8) * STEP


def test_a_level_that_rounding_decides_is_nobodys():
    x = drawn()
    assert not torch.allclose(levels(x), above(x))
    verdict = jumps.judged(above(x), levels(x), [x], lambda given: levels(*given), {})
    assert verdict.status == "ok"
    assert "24 elements jump" in verdict.tolerance


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: torch.cat([levels(x)[:-2], torch.zeros(2, 8)]),
        lambda x: levels(x) + STEP * (torch.arange(8) == 3),
        lambda x: torch.where(levels(x) > 4, torch.nan, levels(x)),
    ],
    ids=["rows left out", "a column one level off", "nan"],
)
def test_what_no_rounding_gives_is_wrong(wrong):
    assert status(levels, wrong, drawn()) != "ok"


def test_equals_and_zeros_are_no_matter_of_rounding():
    x = drawn()
    x[::9] = 0.0
    assert status(lambda x: torch.sign(x), lambda x: torch.where(x >= 0, 1.0, -1.0), x) == "mismatch"
    few = torch.randint(0, 12, (64, 16), generator=torch.Generator().manual_seed(2)) / 8
    assert status(lambda x: (x > 1.25).float(), lambda x: (x >= 1.25).float(), few) == "mismatch"


def test_a_reference_that_refuses_what_is_near_excuses_nobody():
    x = drawn()

    def refuses(_):
        raise RuntimeError("not these")

    got = levels(x)
    got[0] += STEP
    assert jumps.judged(got, levels(x), [x], refuses, {}).status == "mismatch"
    assert jumps.judged(got, levels(x), [x.to(torch.int32)], refuses, {}).status == "mismatch"
