"""The geometric mean over shapes, and how well it is known."""

import math

import pandas as pd
import pytest

from analyzers.verdicts.shapes import Shape, geometric, shape, to_dict
from analyzers.verdicts.statistics import Ratio


def of(value, width):
    return Ratio(value, value / width, value * width, n=20)


def test_the_mean_is_that_of_the_logarithms_and_known_better_than_each():
    shapes = [Shape(("a",), {}, {"x": of(2.0, 1.1)}), Shape(("b",), {}, {"x": of(8.0, 1.1)})]
    mean = geometric(shapes)["x"]
    assert mean.value == pytest.approx(4.0)
    assert math.log(mean.high / mean.value) == pytest.approx(math.log(1.1) / math.sqrt(2))
    assert mean.low * mean.high == pytest.approx(mean.value**2)


def test_who_is_missing_on_a_shape_has_no_mean_and_one_shape_has_none():
    one = Shape(("a",), {}, {"x": of(2.0, 1.1), "y": of(1.0, 1.1)})
    assert geometric([one, Shape(("b",), {}, {"x": of(2.0, 1.1)})]).keys() == {"x"}
    assert geometric([one]) == {}
    assert geometric([]) == {}


def test_a_shape_is_read_from_samples():
    rows = [
        (name, n, seconds) for n in range(12) for name, seconds in (("reference", 2e-3), ("x", 1e-3)) for _ in "abc"
    ]
    frame = pd.DataFrame(rows, columns=["impl", "round", "seconds"]).assign(method="wall", l2="warm")
    found = shape(["float32 [4]"], frame, "reference")
    assert found.times == {"reference": pytest.approx(2e-3), "x": pytest.approx(1e-3)}
    assert found.ratios["x"].value == pytest.approx(2.0)
    said = to_dict([found, found])
    assert said["rows"][0]["inputs"] == ["float32 [4]"]
    assert said["geometric_mean"]["x"]["value"] == pytest.approx(2.0)
