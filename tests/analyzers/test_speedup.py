"""The four conventions of a speed-up, and which of them a printed figure follows."""

from __future__ import annotations

import math

import pytest

from analyzers.errors import AnalyzeError
from analyzers.verdicts.speedup import CONVENTIONS, conventions_of, follows, printed, shown, speedup

VALUES = {"ratio": 2.5, "gain": 1.5, "saved": 0.6, "percent": 2.5}
TEXTS = {"ratio": "2.5x", "gain": "150.0%", "saved": "60.0%", "percent": "250.0%"}


@pytest.mark.parametrize("name", CONVENTIONS)
def test_each_convention_by_hand(name):
    assert speedup(5.0, 2.0, name) == pytest.approx(VALUES[name])
    assert shown(speedup(5.0, 2.0, name), name) == TEXTS[name]
    assert math.isnan(speedup(0.0, 2.0, name))
    assert math.isnan(speedup(5.0, 0.0, name))
    assert math.isnan(speedup(math.nan, 2.0, name))
    assert shown(math.nan, name) == "-"


def test_another_convention_is_refused():
    with pytest.raises(AnalyzeError, match="no convention"):
        speedup(1.0, 1.0, "twice")


@pytest.mark.parametrize(
    ("text", "value", "half"),
    [
        ("1.585", 1.585, 0.0005),
        ("x1.6", 1.6, 0.05),
        ("157.2%", 1.572, 0.0005),
        ("12", 12.0, 0.5),
        ("1,234.5 us", 1234.5, 0.05),
        ("1.50e-3 s", 1.5e-3, 5e-6),
        ("-3", -3.0, 0.5),
    ],
)
def test_a_printed_number_lies_within_half_of_its_last_digit(text, value, half):
    found = printed(text)
    assert (found.value, found.half) == (pytest.approx(value), pytest.approx(half))
    assert (found.low, found.high) == (pytest.approx(value - half), pytest.approx(value + half))


def test_no_number_is_refused():
    with pytest.raises(AnalyzeError, match="no number"):
        printed("fast")


def test_what_follows_is_decided_at_the_edges_of_the_intervals():
    old, new = printed("10.0"), printed("4.0")
    least, most = 9.95 / 4.05, 10.05 / 3.95
    ratio = CONVENTIONS["ratio"]
    edge = 0.0005
    for value, right in (
        (least - 1.01 * edge, False),
        (least - 0.99 * edge, True),
        (most + 0.99 * edge, True),
        (most + 1.01 * edge, False),
    ):
        assert follows(type(old)(value, edge), ratio, (old, new)) is right


@pytest.mark.parametrize("old", ["1", "1000001"])
def test_intervals_that_touch_but_for_the_rounding_of_floats_do_meet(old):
    inputs = (printed(old), printed("1"))
    most, least = inputs[0].high / inputs[1].low, inputs[0].low / inputs[1].high
    for apart, right in ((0.7e-9, True), (1.5e-9, False)):
        for value in (most + 0.25 + apart * most, least - 0.25 - apart * most):
            assert follows(type(inputs[0])(value, 0.25), CONVENTIONS["ratio"], inputs) is right


@pytest.mark.parametrize(
    ("figure", "names"),
    [("2.50", ("ratio",)), ("250%", ("ratio", "percent")), ("150%", ("gain",)), ("60.0%", ("saved",)), ("7.0", ())],
)
def test_conventions_of_a_table(figure, names):
    found = conventions_of(printed("5.00"), printed("2.00"), printed(figure))
    assert set(names) <= set(found)
    assert set(found) <= {*names, "ratio", "percent"} if names else found == ()
