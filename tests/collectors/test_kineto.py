"""torch.profiler's traces, damaged: what has no time of its own, or is no archive to its end, is refused by name."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import collectors
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


def test_the_categories_of_torch_before_1_11_are_read(tmp_path):
    trace = json.loads(gzip.decompress(TRACE.read_bytes()))
    then = {now: before for before, now in kineto._BEFORE.items()}
    trace["traceEvents"] = [{**one, "cat": then.get(one.get("cat"), one.get("cat"))} for one in trace["traceEvents"]]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace))
    then_read, now_read = kineto.read(path), kineto.read(TRACE)
    assert then_read["time"].tolist() == now_read["time"].tolist()
    assert then_read["kind"].tolist() == now_read["kind"].tolist()


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


def test_work_without_its_call_is_of_the_process_there_is(tmp_path):
    """Launched before the window, it has no call; the trace files it under its device, which is no process."""
    trace = json.loads(gzip.decompress(TRACE.read_bytes()))
    whole = kineto.read(TRACE)
    first = next(one for one in trace["traceEvents"] if one.get("cat") == "kernel")["args"]["correlation"]
    trace["traceEvents"] = [
        one
        for one in trace["traceEvents"]
        if not (one.get("cat") == "cuda_runtime" and one["args"].get("correlation") == first)
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace))
    assert kineto.read(path)["process"].tolist() == whole["process"].tolist()


def test_a_device_that_the_list_numbers_otherwise_has_its_name(tmp_path):
    trace = json.loads(gzip.decompress(TRACE.read_bytes()))
    for one in trace["traceEvents"]:
        if one.get("cat") == "kernel":
            one["args"]["device"] = 9
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace))
    assert set(kineto.read(path)["device"]) == set(kineto.read(TRACE)["device"])


def test_what_stands_before_the_events_does_not_matter(tmp_path):
    trace = {"metadata": "x" * 400_000} | json.loads(gzip.decompress(TRACE.read_bytes()))
    for name, data in (("a.json", json.dumps(trace).encode()), ("b.gz", gzip.compress(json.dumps(trace).encode()))):
        (tmp_path / name).write_bytes(data)
        assert len(collectors.read(tmp_path / name)) == len(kineto.read(TRACE))
