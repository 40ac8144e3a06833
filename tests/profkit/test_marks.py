"""Marks that stand together are told apart by whoever sees no red, no green or no blue: by shape, else by colour."""

import math
import re
from importlib.resources import files
from itertools import combinations

import pytest

from analyzers.waterfall import SLICE_KINDS
from roofline.figure.bars import HATCHES
from roofline.figure.style import BANDS, REFERENCE, SHAPES, THEMES, colours, places, shape

APART = 15.0
"""CIE76 difference of two colours from which an area of one is told from an area of the other; 2.3 is just noticeable."""
# Of linear RGB, at full severity: Machado, Oliveira and Fernandes, IEEE TVCG 15 (2009) 1291, table 1.
EYES = {
    "all cones": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
PARTS = [f"part {number}" for number in range(len(SHAPES))]


def seen(colour, eye):
    """CIELAB of a #rrggbb as that eye has it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    red, green, blue = (min(1.0, max(0.0, sum(a * b for a, b in zip(row, linear, strict=True)))) for row in EYES[eye])
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883
    fx, fy, fz = (one ** (1 / 3) if one > 0.008856 else 7.787 * one + 16 / 116 for one in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def alike(marks, eye):
    """Pairs of marks, {name: (colour, shape)}, that this eye confuses."""
    return [
        (one, other)
        for (one, (colour, form)), (other, (colour_, form_)) in combinations(marks.items(), 2)
        if form == form_ and math.dist(seen(colour, eye), seen(colour_, eye)) < APART
    ]


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("theme", THEMES)
class TestEveryPairIsToldApart:
    def test_parts_of_a_roofline(self, theme, eye):
        names = ["reference", *PARTS]
        shades = colours(names, THEMES[theme])
        marks = {name: (shades[name], shape(place)) for name, place in places(names).items()}
        assert alike(marks, eye) == []

    def test_kinds_of_time_in_the_page(self, theme, eye):
        kinds = {kind: (colour, pattern(kind)) for kind, colour in THEMES[theme].kinds.items()}
        assert set(kinds) == set(SLICE_KINDS)
        assert alike({**kinds, "now": (THEMES[theme].text, "")}, eye) == []

    def test_kinds_of_time_in_the_figure(self, theme, eye):
        kinds = {kind: (colour, HATCHES[kind]) for kind, colour in THEMES[theme].kinds.items()}
        assert alike({**kinds, "now": (THEMES[theme].text, "")}, eye) == []

    def test_kernels_of_a_timeline(self, theme, eye):
        look = THEMES[theme]
        marks = {f"kernel {at}": (look.series[at], bands) for at, bands in enumerate(BANDS)}
        assert alike({**marks, "others": (look.reference, 0)}, eye) == []


def pattern(kind):
    """How the page paints a kind of time, without its colours."""
    css = (files("profkit.report") / "templates/page.css").read_text("utf-8")
    rule = re.search(r"\.k-" + kind + r"\{background:(.*?)\}", css)[1]
    return re.sub(r"var\(--\w+\)|\d+%", "", rule)


def test_outlines_are_as_many_as_the_page_can_draw():
    script = (files("profkit.report") / "templates/core.js").read_text("utf-8")
    polygons = script[script.index("const POLYGONS") : script.index("const outline")]
    drawn = 1 + len(re.findall(r"\[\[", polygons))  # the circle, and a list of corners each
    assert max(SHAPES) + 1 == drawn == 8
    assert shape(REFERENCE) == 0 not in SHAPES


def test_a_test_of_pairs_that_are_confused():
    assert alike({"red": ("#d55e00", 0), "ochre": ("#b07d00", 0)}, "deuteranopia") == [("red", "ochre")]
    assert alike({"red": ("#d55e00", 0), "ochre": ("#b07d00", 1)}, "deuteranopia") == []
    assert alike({"red": ("#d55e00", 0), "ochre": ("#b07d00", 0)}, "tritanopia") == []
