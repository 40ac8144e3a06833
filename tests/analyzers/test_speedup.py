"""The two conventions of a speed-up."""

import math

import pytest

from analyzers.verdicts.speedup import shown, speedup


@pytest.mark.parametrize(("name", "value", "text"), [("ratio", 2.5, "2.50x"), ("gain", 1.5, "150.0%")])
def test_each_convention_by_hand(name, value, text):
    assert speedup(5.0, 2.0, name) == pytest.approx(value)
    assert shown(speedup(5.0, 2.0, name), name) == text
    for old, new in ((0.0, 2.0), (5.0, 0.0), (math.nan, 2.0)):
        assert math.isnan(speedup(old, new, name))
    assert shown(math.nan, name) == "-"
    assert shown(3212.0, "ratio") == "3210x"
