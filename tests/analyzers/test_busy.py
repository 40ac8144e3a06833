"""How much of a call its kernels take."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from analyzers.busy import Recorded, in_call, in_kernels


def call(*rows):
    return pd.DataFrame(rows, columns=["impl", "kind", "start", "time"])


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
