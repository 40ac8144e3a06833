"""torch.profiler's traces, damaged: what has no time of its own, or is no archive to its end, is refused by name."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from collectors import CollectError, kineto

TRACE = Path(__file__).parent.parent / "data" / "kineto" / "resnet_h100.trace.json.gz"


@pytest.mark.parametrize(
    "damage",
    [
        {"dur": -1},
        {"dur": float("nan")},
        {"dur": None},
        {"ts": float("inf")},
        {"ts": "later"},
        {"args": "none"},
        {"args": {"device": float("inf")}},
    ],
    ids=str,
)
def test_an_event_that_is_damaged_is_refused(tmp_path, damage):
    trace = json.loads(gzip.decompress(TRACE.read_bytes()))
    next(one for one in trace["traceEvents"] if one.get("cat") == "kernel").update(damage)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace))
    with pytest.raises(CollectError, match="an event without"):
        kineto.read(path)


@pytest.mark.parametrize("events", [None, 5, {}, ["x"]], ids=str)
def test_a_trace_without_events_is_refused(tmp_path, events):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    with pytest.raises(CollectError):
        kineto.read(path)


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9])
def test_an_archive_that_is_damaged_is_refused(tmp_path, at):
    data = bytearray(TRACE.read_bytes())
    place = int(at * len(data))
    data[place : place + 64] = bytes(64)
    path = tmp_path / "trace.json.gz"
    path.write_bytes(data)
    with pytest.raises(CollectError):
        kineto.read(path)
    path.write_bytes(TRACE.read_bytes()[:place])
    with pytest.raises(CollectError):
        kineto.read(path)
