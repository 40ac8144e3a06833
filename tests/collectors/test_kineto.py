"""torch.profiler's traces, damaged: what has no time of its own, or is no archive to its end, is refused by name."""

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest

import collectors
from collectors import CollectError, kineto

TRACE = Path(__file__).parent.parent / "data" / "kineto" / "resnet_h100.trace.json.gz"


def changed(folder, change):
    """The frame of the recorded trace with other events."""
    trace = json.loads(gzip.decompress(TRACE.read_bytes()))
    trace["traceEvents"] = change(trace["traceEvents"])
    (folder / "trace.json").write_text(json.dumps(trace))
    return kineto.read(folder / "trace.json")


def as_before(events):
    """The categories of torch before 1.11."""
    then = {now: before for before, now in kineto._BEFORE.items()}
    return [{**one, "cat": then.get(one.get("cat"), one.get("cat"))} for one in events]


def without_a_call(events):
    """Launched before the window, the first has no call; the trace files it under its device, which is no process."""
    first = next(one for one in events if one.get("cat") == "kernel")["args"]["correlation"]
    return [one for one in events if not (one.get("cat") == "cuda_runtime" and one["args"].get("correlation") == first)]


def renumbered(events):
    """A device that the list of devices numbers otherwise."""
    for one in events:
        if one.get("cat") == "kernel":
            one["args"]["device"] = 9
    return events


@pytest.mark.parametrize("change", [as_before, without_a_call, renumbered])
def test_other_traces_of_the_same_program_are_read_alike(tmp_path, change):
    found, known = changed(tmp_path, change), kineto.read(TRACE)
    for column in ("time", "kind", "process"):
        assert found[column].tolist() == known[column].tolist()
    assert set(found["device"]) == set(known["device"])


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
    def damaged(events):
        next(one for one in events if one.get("cat") == "kernel").update(damage)
        return events

    with pytest.raises(CollectError, match="an event without"):
        changed(tmp_path, damaged)


@pytest.mark.parametrize("events", [None, 5, {}, ["x"]], ids=str)
def test_a_trace_without_events_is_refused(tmp_path, events):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    with pytest.raises(CollectError):
        kineto.read(path)


@pytest.mark.parametrize("size", [700, 40_000])
def test_a_trace_read_in_pieces_is_the_same(monkeypatch, size):
    known = kineto.read(TRACE)
    monkeypatch.setattr(kineto, "_PIECE", size)
    pd.testing.assert_frame_equal(kineto.read(TRACE), known)


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


def test_what_stands_before_the_events_does_not_matter(tmp_path):
    trace = {"metadata": "x" * 400_000} | json.loads(gzip.decompress(TRACE.read_bytes()))
    for name, data in (("a.json", json.dumps(trace).encode()), ("b.gz", gzip.compress(json.dumps(trace).encode()))):
        (tmp_path / name).write_bytes(data)
        assert len(collectors.read(tmp_path / name)) == len(kineto.read(TRACE))
