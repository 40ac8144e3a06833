import numpy as np
import pandas as pd
import pytest

from collectors import CollectError
from collectors.caveat import Caveat
from collectors.counters import COUNTERS
from collectors.frame import KEYS, OPTIONAL, build, host_of, key_order, set_host, uncollected


def test_build_fills_keys_orders_columns_and_keeps_caveats():
    frame = build(
        {"time": [1.0, 2.0], "kernel": ["a", "b"], "stream": "7"}, tool="nsys", caveats=[Caveat("x", "y", "z")]
    )
    assert list(frame.columns) == [*KEYS, "stream", "time"]
    assert frame["launch"].tolist() == [0, 1]
    assert frame["kind"].tolist() == ["kernel", "kernel"]
    assert frame["impl"].tolist() == ["", ""]
    assert frame["time"].dtype == np.float64
    assert frame.attrs["caveats"] == [Caveat("x", "y", "z")]
    assert np.isnan(build({"time": [1, None]}, tool="ncu")["time"][1])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"kernel": ["a"], "nonsense": [1.0]}, "nonsense"),
        ({"kernel": ["a"], "time": [1.0, 2.0]}, "different length"),
        ({"kernel": ["a"], "kind": "ballet"}, "ballet"),
        ({"kernel": ["a"], "time": ["fast"]}, "time"),
        ({"kernel": ["a"], "launch": [None]}, "launch"),
    ],
)
def test_build_refuses(columns, message):
    with pytest.raises(CollectError, match=message):
        build(columns, tool="ncu")
    with pytest.raises(CollectError, match="vtune"):
        build({"kernel": ["a"]}, tool="vtune")


def test_uncollected_names_what_was_asked_for_and_did_not_come():
    frame = build({"time": [1.0], "flop_fp32": [float("nan")], "cc": "9.0"}, tool="ncu")
    assert uncollected(frame, ["time", "flop_fp32", "dram_bytes", "op_tensor_int4"]) == ("flop_fp32", "dram_bytes")


def test_key_order_is_keys_optional_counters():
    everything = key_order([*COUNTERS, *OPTIONAL, *KEYS])
    assert everything == [*KEYS, *OPTIONAL, *COUNTERS]


def test_what_the_host_did_is_handed_on_as_it_is():
    frame, host = build({"kernel": ["a", "b"]}, tool="nsys"), pd.DataFrame({"call": ["launch"] * 3})
    assert host_of(frame) is None
    set_host(frame, host)
    assert host_of(frame[["kernel", "kind"]].astype(str)) is host
    assert host_of(pd.concat([frame[["kernel"]], frame[["kind"]]], axis=1)) is host
