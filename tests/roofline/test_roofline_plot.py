"""The figures: nothing clipped, nothing overlapping, the same bytes each time, no warning whatever comes in."""

import math
import warnings
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenes import ABOVE, CHINESE, COPIES, MEASURED, NAN, SCENES, SHEET, levels, many, operators

from profkit.report.figures import order_of, scene_of, steps_of
from profkit.report.page.data import shown_of
from profkit.report.waterfall import blocks
from profkit.study.study import open_study
from roofline.errors import RooflineError
from roofline.figure import below
from roofline.figure.bars import NAME, NAMES, Step, draw_steps
from roofline.figure.canvas import view
from roofline.figure.captions import CAPTION
from roofline.figure.labels import Board, Box, first_free, place
from roofline.figure.marks import MOST_NAMES, above, names, ranked
from roofline.figure.plot import draw, save
from roofline.figure.scene import Point, Scene, compute_names, impls, level_names, share_of_roof
from roofline.figure.sheet import WIDTH, measure
from roofline.figure.style import THEMES, colours

pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def _strict():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # What older versions of matplotlib ask of a newer pyparsing.
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"matplotlib\.")
        yield


def boxes(figure):
    """Every visible text with its true box, turned as on screen."""
    from matplotlib.text import Text

    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    found = []
    for text in figure.findobj(Text):
        words = text.get_text()
        if not words.strip() or not text.get_visible() or (text.axes and not text.axes.axison):
            continue
        hull = text.get_window_extent(renderer)
        angle = text.get_rotation()
        text.set_rotation(0)
        flat = text.get_window_extent(renderer)
        text.set_rotation(angle)
        centre = ((hull.x0 + hull.x1) / 2, (hull.y0 + hull.y1) / 2)
        found.append((words, Box(*centre, max(flat.width - 1, 0), max(flat.height - 1, 0), angle)))
    return found


def assert_tidy(figure):
    found = boxes(figure)
    width, height = figure.get_size_inches() * figure.dpi
    canvas = Box(width / 2, height / 2, width, height)
    for index, (words, box) in enumerate(found):
        assert box.inside(canvas), f"{words!r} leaves the canvas"
        for other_words, other in found[:index]:
            assert not box.overlaps(other), f"{words!r} covers {other_words!r}"
    return [words for words, _ in found]


@pytest.mark.parametrize("name", SCENES)
def test_every_text_is_inside_and_none_covers_another(name):
    words_of(SCENES[name])


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text("abz_<>:(){}[],. $\\^…µ中文\n☃", max_size=30),
            st.floats(1e-4, 1e5),
            st.floats(1e-4, 1.3),
            st.sampled_from(["fp32", "tensor_bf16"]),
            st.sampled_from(["dram", "l2", "l1"]),
            st.sampled_from(["reference", "candidate", ""]),
            st.just(NAN) | st.floats(0, 1),
        ),
        max_size=18,
    )
)
def test_any_points_make_a_tidy_figure(rows):
    points = tuple(
        Point(label, x, MEASURED.attainable(x, compute, level) * share, NAN, compute, level, impl, share=part)
        for label, x, share, compute, level, impl, part in rows
    )
    assert_tidy(draw(Scene(MEASURED, points, title="Any")))


@pytest.mark.parametrize("name", SCENES)
def test_every_point_and_ridge_is_in_view(name):
    scene = SCENES[name]
    limits = view(scene)
    for point in scene.points:
        if point.placed:
            assert limits.left < point.intensity < limits.right
            assert limits.bottom < point.flops_per_s < limits.top
    for compute in compute_names(scene):
        for level in level_names(scene):
            x, y = scene.roofline.ridge(compute, level), scene.roofline.peak(compute)
            if math.isfinite(x):
                assert limits.left < x < limits.right
                assert limits.bottom < y < limits.top


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("three", "svg"),
        ("three", "png"),
        ("three", "pdf"),
        ("copies", "svg"),
        pytest.param("forty", "svg", marks=pytest.mark.slow),
    ],
)
def test_files_are_the_same_byte_for_byte(name, form, tmp_path):
    files = [tmp_path / f"{file}.{form}" for file in "ab"]
    for file in files:
        save(draw(SCENES[name]), file)
    first, second = (file.read_bytes() for file in files)
    assert first == second
    assert b"Matplotlib v" not in first or form == "pdf"


def test_saving_refuses_what_it_cannot(tmp_path):
    figure = draw(SCENES["nothing at all"])
    with pytest.raises(RooflineError, match="bmp"):
        save(figure, tmp_path / "a.bmp")
    with pytest.raises(RooflineError) as error:
        save(figure, tmp_path / "missing" / "a.png")
    assert "folder" in error.value.fix
    with pytest.raises(RooflineError, match="sepia"):
        draw(replace(SCENES["single"], theme="sepia"))


@pytest.mark.parametrize("title", ["ill " * 80, "l" * 400], ids=["words", "one word"])
def test_a_title_is_folded_as_wide_as_it_is_drawn(title):
    """Bold is wider, and how much by depends on the letters."""
    assert_tidy(draw(replace(SCENES["single"], title=title)))


@cache
def words_of(scene):
    """The texts of a tidy figure, drawn once however many tests ask."""
    return "\n".join(assert_tidy(draw(scene)))


def test_roofs_carry_their_value_and_the_slopes_their_angle():
    figure = draw(levels())
    found = dict(boxes(figure))
    for words in ("DRAM  4.42 TB/s", "L2  10.1 TB/s", "L1  31.0 TB/s"):
        assert 15 < found[words].angle < 60
    assert found["FP32  62.1 TFLOP/s"].angle == 0


def test_crowded_figures_name_the_longest_kernels_and_count_the_rest():
    scene = SCENES["forty"]
    lines = words_of(scene).split("\n")
    short = names(scene.points)
    named = [point for point in ranked(scene) if any(line.startswith(f"{short[point.label]}  ") for line in lines)]
    assert 5 < len(named) <= MOST_NAMES
    assert named == [point for point in ranked(scene)[:MOST_NAMES] if point in named]
    assert any(f"{len(ranked(scene)) - len(named)} more points without a name" in line for line in lines)


def test_a_point_above_its_roof_is_flagged_and_not_moved():
    assert [p.label for p in above(ABOVE)] == ["gelu", "fast_gemm"]
    words = words_of(ABOVE)
    assert "Above the ceiling: gelu 123%, fast_gemm 104%" in words
    assert view(ABOVE).top > 70e12


def test_copies_get_bars_and_no_place_on_the_log_axes():
    scene = SCENES["mixed"]
    assert not any(p.copies for p in ranked(scene))
    words = words_of(scene)
    assert "No FLOPs" in words
    assert "65.6% of DRAM" in words
    assert "111% of DRAM" in words
    assert len(draw(Scene(MEASURED, COPIES)).axes) == 1


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        (SCENES["every ceiling"], ["BF16 / FP16 tensor  989 TFLOP/s", "FP8 / INT8 tensor  1980 TOP/s"]),
        (SCENES["three"], ["softmax  2.9x  88.0%", "reference", "candidate", "lower bound of the task"]),
        (SCENES["unknown hardware"], ["No ceiling known for NVIDIA H20-3e", "Measure the ceilings"]),
        (SCENES["nan"], ["3 of 4 points not shown"]),
        (Scene(MEASURED, tuple(replace(COPIES[0], label=f"copy {i}") for i in range(20))), ["(12 more not shown)"]),
        (SCENES["ten"], ["Ceilings: FP32, BF16 tensor, DRAM measured."]),
        (SCENES["single"], ["NVIDIA H200 datasheet"]),
        pytest.param(many(2000), ["more points without a name"], marks=pytest.mark.slow),
    ],
    ids=["equal roofs", "names and gains", "unknown hardware", "nan", "copies", "measured", "datasheet", "2000"],
)
def test_what_a_figure_says(scene, said):
    words = words_of(scene).replace("\n", " ")
    assert all(one in words for one in said)


def test_chinese_without_a_font_becomes_numbers(monkeypatch, tmp_path):
    monkeypatch.setattr("roofline.wording._cjk_family", lambda: "")
    figure = draw(CHINESE)
    save(figure, tmp_path / "a.png")
    words = "\n".join(assert_tidy(figure))
    assert words.isascii() or all(ord(c) < 0x2E80 for c in words)
    assert "#1" in words
    assert "softmax (#2)" in words
    assert "no font on this machine" in words


def test_chinese_with_a_font_is_drawn(tmp_path):
    from roofline.wording import _cjk_family

    if not _cjk_family():
        pytest.skip("no CJK font here")
    figure = draw(CHINESE)
    save(figure, tmp_path / "a.png")
    assert "矩阵乘法" in "\n".join(assert_tidy(figure))


def test_names_are_unique():
    points = [Point(f"{'a' * 40}<{i}>", 1, 1) for i in range(5)]
    assert len(set(names(points).values())) == 5
    assert [p.label for p in ranked(levels())] == ["softmax", "reduce"], "levels of one kernel share one name"
    assert len(ranked(operators(10))) == 10


def test_the_share_is_of_the_points_own_roofs():
    memory, tensor = Point("a", 1.0, 2.4e12), Point("b", 1e4, 494.7e12, compute="tensor_bf16")
    assert share_of_roof(memory, SHEET) == pytest.approx(0.5)
    assert share_of_roof(tensor, SHEET) == pytest.approx(0.5)
    assert math.isnan(share_of_roof(replace(memory, compute="tensor_fp4"), SHEET))


def test_the_winner_is_labelled_first_and_lies_in_front():
    points = [
        Point("a", 1.0, 1e12, impl="reference", share=0.9),
        Point("b", 1.0, 1.01e12, impl="cuda", share=0.1),
        Point("copied", 0.0, 0.0, 1e12, impl="reference", time=2.0),
        Point("copied too", 0.0, 0.0, 1e12, impl="cuda", time=1.0),
    ]
    scene = Scene(MEASURED, tuple(points), winner="cuda")
    assert [p.impl for p in ranked(scene)] == ["cuda", "reference"]
    assert [p.impl for p in below.copies(scene)] == ["cuda", "reference"]
    from matplotlib.collections import PathCollection
    from matplotlib.colors import to_rgb

    marks = [one for one in draw(scene).axes[0].collections if isinstance(one, PathCollection)]
    front = max(marks, key=lambda one: one.get_zorder())
    assert tuple(front.get_facecolor()[0][:3]) == to_rgb(THEMES["light"].series[0])


def test_a_caption_has_two_lines_and_the_lower_bound_a_shape_of_its_own():
    long = tuple(f"caption {n} " + "of many words " * 12 for n in range(5))
    figure = draw(replace(SCENES["three"], caption=long))
    low = [text for text in figure.texts if text.get_fontsize() == CAPTION and text.get_position()[0] < 0.05]
    assert len(low) == 2
    assert low[-1].get_text().endswith("…")
    marks = {line.get_marker() for line in figure.get_children() if hasattr(line, "get_marker")}
    assert "D" in marks


def test_every_letter_can_be_read_at_800_pixels():
    from matplotlib.text import Text

    for name in ("three", "mixed", "forty"):
        assert min(text.get_fontsize() for text in draw(SCENES[name]).findobj(Text) if text.get_text().strip()) >= 7.8


def test_marks_at_one_place_stay_in_sight_and_differ_in_outline():
    from matplotlib.colors import to_hex

    impls = ("reference", "a", "b")
    points = [Point(f"k{impl}", 10.0, 1e12, compute="fp32", impl=impl, share=0.5) for impl in impls]
    figure = draw(Scene(MEASURED, points=tuple(points), order=impls, winner="b"))
    drawn = [one for one in figure.axes[0].collections if len(one.get_offsets()) == 1 and len(one.get_sizes()) == 1]
    tint = colours(impls, THEMES["light"])
    marks = {impl: next(c for c in drawn if to_hex(c.get_facecolor()[0]) == tint[impl]) for impl in impls}
    sizes = [marks[impl].get_sizes()[0] for impl in impls]
    assert sizes[0] > sizes[1] > sizes[2]
    assert len({str(marks[impl].get_paths()[0].vertices.round(2).tolist()) for impl in impls}) == 3


FRAME = Box(500, 400, 1000, 800)
spots = st.lists(st.tuples(st.floats(20, 980), st.floats(20, 780)), min_size=1, max_size=25)
drawn_boxes = st.builds(
    Box, st.floats(0, 100), st.floats(0, 100), st.floats(1, 60), st.floats(1, 60), st.floats(-90, 90)
)


@given(drawn_boxes, drawn_boxes)
def test_overlap_is_symmetric_and_reflexive(one, other):
    assert one.overlaps(one)
    assert one.overlaps(other) == other.overlaps(one)


@given(drawn_boxes, drawn_boxes)
def test_a_box_that_holds_anothers_corner_overlaps_it(one, other):
    local = np.abs(one.local(other.corners))
    if np.any(np.all(local < [one.width / 2 - 1e-6, one.height / 2 - 1e-6], axis=1)):
        assert one.overlaps(other)


def test_boxes_that_touch_or_nearly_touch_across_a_corner():
    one = Box(0, 0, 60, 80)
    assert not one.overlaps(Box(60, 80, 60, 80))
    assert one.overlaps(Box(59.9, 79.9, 60, 80))
    assert not one.overlaps(Box(1000, 0, 60, 80))


def test_turned_boxes_use_their_true_shape():
    slope = Box(0, 0, 200, 10, 45)
    assert not slope.overlaps(Box(60, -60, 40, 40))  # inside the upright hull, beside the line
    assert slope.overlaps(Box(60, 60, 40, 40))


@given(drawn_boxes, st.tuples(*[st.floats(-200, 200)] * 4))
def test_crossing_agrees_with_sampling(box, ends):
    start, end = np.array(ends[:2]), np.array(ends[2:])
    steps = np.linspace(0, 1, 500)[:, None]
    local = np.abs(box.local(start + (end - start) * steps))
    if np.any(np.all(local < [box.width / 2, box.height / 2], axis=1)):
        assert box.crosses(start, end, 1e-6)


@settings(max_examples=30, deadline=None)
@given(spots)
def test_placed_labels_overlap_nothing_and_stay_inside(found):
    board = Board(FRAME, boxes=[Box(500, 400, 200, 40)])
    board.discs = np.array([(x, y, 8.0) for x, y in found])
    for x, y in found:
        place(board, np.array([x, y]), 8.0, (90.0, 20.0), 2.0)
    for index, box in enumerate(board.boxes):
        assert box.inside(FRAME)
        assert not any(box.overlaps(other) for other in board.boxes[:index])


def test_no_room_is_no_place():
    board = Board(Box(50, 50, 100, 100))
    assert place(board, np.array([50.0, 50.0]), 5.0, (200.0, 20.0), 2.0) is None
    assert first_free(board, [Box(50, 50, 300, 10)]) is None


def test_a_lone_label_goes_to_the_right():
    board = Board(FRAME)
    placed = place(board, np.array([300.0, 300.0]), 8.0, (90.0, 20.0), 2.0)
    assert placed is not None
    assert placed.box.x > 300
    assert placed.leader is None


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
