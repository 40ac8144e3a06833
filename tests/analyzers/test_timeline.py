"""Timeline facts: busy + gaps = span, overlap, copies; laws on random work; which kernels fill a call."""

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.errors import AnalyzeError
from analyzers.timeline.call import Recorded, each_in_call, in_call, in_kernels
from analyzers.timeline.summary import device_labels, timeline
from collectors.frame import build


def frame_of(rows, **more):
    """rows: (start ns, time ns, kernel, range)."""
    columns = {
        "kernel": [row[2] for row in rows],
        "range": [row[3] if len(row) > 3 else "" for row in rows],
        "start": [row[0] / 1e9 for row in rows],
        "time": [row[1] / 1e9 for row in rows],
    }
    return build({**columns, **more}, tool="nsys")


def test_gaps_overlap_and_busy():
    facts = timeline(frame_of([(0, 100, "a"), (50, 100, "b"), (200, 10, "a"), (300, 50, "c")]))
    (device,) = facts.devices
    assert device.span == pytest.approx(350e-9)
    assert device.busy == pytest.approx(210e-9)
    assert device.overlap == pytest.approx(50e-9)
    assert device.gaps == 2
    assert device.largest == pytest.approx(90e-9)
    assert device.after == "a"
    assert device.idle == pytest.approx(140 / 350)


def test_devices_of_one_name_are_apart():
    rows = [(0, 10, "a"), (0, 10, "a"), (90, 10, "a")]
    facts = timeline(frame_of(rows, device="H200", stream=["0:7", "1:7", "0:7"]))
    assert [(one.device, one.gaps) for one in facts.devices] == [("H200 (0)", 1), ("H200 (1)", 0)]


def test_copies_are_apart_from_kernels():
    frame = frame_of([(0, 30, "k"), (50, 10, "[CUDA memcpy Host-to-Device]")], kind=["kernel", "memcpy"])
    facts = timeline(frame)
    assert facts.copied == pytest.approx(0.25 * facts.total)


def test_summaries_have_a_total_and_no_devices():
    frame = build({"kernel": ["a", "b"], "time": [1e-6, 1e-6], "instances": [3, 1]}, tool="nsys")
    facts = timeline(frame)
    assert facts.devices == ()
    assert facts.total == pytest.approx(4e-6)


def test_nothing_to_tell_is_an_error():
    with pytest.raises(AnalyzeError):
        timeline(build({"kernel": []}, tool="nsys"))
    with pytest.raises(AnalyzeError, match="layers"):
        timeline(build({"kernel": ["l"], "kind": "layer", "time": [1.0]}, tool="trtexec"))


WORK = st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**5), st.sampled_from("abc")), min_size=1)


@given(rows=WORK)
def test_laws(rows):
    """busy + overlap = summed time; busy as counted moment by moment."""
    facts = timeline(frame_of(rows))
    (device,) = facts.devices
    total = sum(row[1] for row in rows)
    assert round((device.busy + device.overlap) * 1e9) == total
    edges = sorted([(row[0], 1) for row in rows] + [(row[0] + row[1], -1) for row in rows])
    depth, busy = 0, 0
    for (at, step), (after, _) in pairwise(edges):
        depth += step
        busy += (after - at) if depth else 0
    assert round(device.busy * 1e9) == busy


@pytest.mark.parametrize(
    ("rows", "after", "gaps", "largest"),
    [
        ([(0, 100, "long"), (10, 5, "short"), (200, 1, "next"), (221, 1, "last")], "long", 2, 100e-9),
        ([(0, 100, "long"), (10, 5, "short"), (100, 1, "next")], "", 0, 0.0),
        ([(5, 10, "only")], "", 0, 0.0),
    ],
)
def test_a_gap_is_after_the_work_that_ended_last(rows, after, gaps, largest):
    (device,) = timeline(frame_of(rows)).devices
    assert (device.after, device.gaps, device.largest) == (after, gaps, pytest.approx(largest))


def test_the_order_of_rows_is_no_matter():
    rows = [(0, 10, "a"), (110, 10, "b"), (140, 10, "c")]
    assert timeline(frame_of(rows)).devices == timeline(frame_of(rows[::-1])).devices


def test_labels_of_devices():
    frame = frame_of([(0, 1, "a"), (0, 1, "b")], device="H200", stream=["7", "12:7"])
    assert list(device_labels(frame)) == ["H200", "H200 (12)"]
    assert list(device_labels(frame.drop(columns="stream"))) == ["H200", "H200"]


def call(*rows, names=""):
    """Activities of one call; `names`: a letter a kernel."""
    frame = pd.DataFrame(rows, columns=["impl", "kind", "start", "time"])
    return frame.assign(kernel=list(names or "k" * len(rows)))


def test_what_runs_beside_counts_once_and_what_is_no_kernel_not_at_all():
    found = in_kernels(
        call(("a", "memset", 0.0, 1.0), ("a", "kernel", 2.0, 4.0), ("a", "kernel", 3.0, 1.0), ("a", "kernel", 8.0, 2.0))
    )
    assert found == {"a": Recorded(span=10.0, share=pytest.approx(0.6), kernels=3)}


def test_a_call_without_kernels_tells_nothing():
    assert in_kernels(call(("a", "memset", 0.0, 1.0))) == {}


def test_a_record_stands_only_for_calls_like_it():
    one = Recorded(span=10.0, share=0.6, kernels=3)
    assert one.seconds(10.5, 3) == pytest.approx(6.3)
    assert math.isnan(one.seconds(12.0, 3))
    assert math.isnan(one.seconds(10.0, 4))
    assert math.isnan(one.seconds(10.0, math.nan))


def test_without_a_record_the_counted_kernels_fill_the_call_at_most():
    assert in_call(5.0, 7.0) == 5.0
    assert in_call(5.0, 7.0, 3.0) == 3.0
    assert math.isnan(in_call(5.0, math.nan))


def test_copies_and_fills_count_where_they_were_counted():
    """Said before of samples without counters: no record is like a call of which a fill is one of 15 launches."""
    rows = call(("a", "memset", 0.0, 1.0), ("a", "kernel", 2.0, 4.0))
    assert in_kernels(rows)["a"].kernels == 1
    found = in_kernels(rows, pd.DataFrame({"impl": ["a", "a"], "kind": ["memset", "kernel"]}))["a"]
    assert (found.kernels, found.share) == (2, pytest.approx(5 / 6))
    assert found.seconds(6.0, 2) == pytest.approx(5.0)


def test_each_kernel_takes_what_it_took_in_the_recorded_call():
    """ncu and CUPTI spell names in two ways; the launches are the same where they come in the same order."""
    one = in_kernels(
        call(("a", "kernel", 3.0, 2.0), ("a", "kernel", 0.0, 1.0), ("a", "kernel", 6.0, 4.0), names="bab")
    )["a"]
    assert one.of(pd.DataFrame({"kernel": ["void a<int>(float *)", "b", "b"]})) == {
        "void a<int>(float *)": 1.0,
        "b": 6.0,
    }
    assert one.of(pd.DataFrame({"kernel": ["b", "a", "b"]})) == {}
    assert one.of(pd.DataFrame({"kernel": ["a", "b"]})) == {}


def test_shares_are_of_the_record_where_it_knows_all_and_else_of_the_counts():
    counted = np.array([4.0, 4.0])
    assert each_in_call(counted, np.array([1.0, 3.0]), 8.0).tolist() == [2.0, 6.0]
    assert each_in_call(counted, np.array([1.0, math.nan]), 6.0).tolist() == [3.0, 3.0]
    assert np.isnan(each_in_call(np.zeros(2), np.full(2, math.nan), 6.0)).all()
