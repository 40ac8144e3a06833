"""The waterfall as a picture: its bars are the blocks, names fit, and it is the same bytes each time."""

from itertools import pairwise
from pathlib import Path

import pytest

from profkit.report.figures import order_of, scene_of, steps_of
from profkit.report.page.data import shown_of
from profkit.report.waterfall import blocks
from profkit.study.study import open_study
from roofline.figure.bars import NAME, NAMES, Step, draw_steps
from roofline.figure.plot import save
from roofline.figure.scene import impls
from roofline.figure.sheet import WIDTH, measure
from roofline.figure.style import THEMES, colours

LADDER = Path(__file__).parents[2] / "examples/transformer_ladder/runs/batch8"


@pytest.fixture(scope="module")
def study():
    return open_study(LADDER)


def test_the_bars_are_the_blocks_of_the_best(study):
    steps, _, subtitle = steps_of(study)
    mine = blocks(study, "compiled")
    assert [one.label for one in steps[1:]] == [one.label() for one in mine]
    (axes,) = draw_steps(*steps_of(study)).axes
    bars = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]
    assert bars[0] == (0.0, study.waterfalls["compiled"].time)
    for (start, _), (_, end) in pairwise(bars[1:]):
        assert start == pytest.approx(end)  # each begins where the one above ends
    assert bars[-1][0] == pytest.approx(0.0, abs=1e-12)
    assert "204 us above it" in subtitle


def test_long_names_are_cut_and_kinds_have_hatches():
    long = Step("a_very_long_name_of_a_kernel_" * 4, "why " * 60, 0.0, 1.0, "1 us", "excess")
    figure = draw_steps([Step("now", "", 0.0, 2.0, "2 us"), long], "title", "")
    texts = [text.get_text() for text in figure.texts]
    cut = next(text for text in texts if text.startswith("a_very"))
    assert measure(cut, NAME)[0] <= NAMES < WIDTH
    assert figure.axes[0].patches[1].get_hatch()


def test_the_picture_is_the_same_each_time(study, tmp_path):
    for name in ("a.png", "b.png", "a.svg", "b.svg"):
        save(draw_steps(*steps_of(study)), tmp_path / name)
    for form in ("png", "svg"):
        assert (tmp_path / f"a.{form}").read_bytes() == (tmp_path / f"b.{form}").read_bytes()


def test_a_run_without_a_time_has_none(study):
    bare = open_study(LADDER)
    bare.__dict__["waterfalls"] = {}
    assert steps_of(bare) is None


def test_one_map_of_colours_in_figure_and_page(study):
    tint = colours(impls(scene_of(study)), THEMES["light"])
    for part in shown_of(study):
        of_page = THEMES["light"].reference if part.colour < 0 else THEMES["light"].series[part.colour]
        assert tint[part.impl] == of_page, part.impl
    assert order_of(study)[0] == "reference"
