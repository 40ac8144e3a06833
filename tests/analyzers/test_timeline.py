"""Which kernels fill a call: recorded, else counted; copies and fills; names spelt in two ways."""

import math

import numpy as np
import pandas as pd
import pytest

from analyzers.timeline.call import Recorded, each_in_call, in_call, in_kernels


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
