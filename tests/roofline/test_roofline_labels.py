"""Geometry of label placement."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.figure.labels import Board, Box, first_free, place

FRAME = Box(500, 400, 1000, 800)
spots = st.lists(st.tuples(st.floats(20, 980), st.floats(20, 780)), min_size=1, max_size=25)
boxes = st.builds(Box, st.floats(0, 100), st.floats(0, 100), st.floats(1, 60), st.floats(1, 60), st.floats(-90, 90))


@given(boxes, boxes)
def test_overlap_is_symmetric_and_reflexive(one, other):
    assert one.overlaps(one)
    assert one.overlaps(other) == other.overlaps(one)


@given(boxes, boxes)
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


@given(boxes, st.tuples(*[st.floats(-200, 200)] * 4))
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
