"""A run's timeline as Chrome trace JSON: `profkit report RUN --for trace`, or `-o NAME.trace.json`; Perfetto opens it.

The form is that of torch.profiler, so that profkit reads it again. Where the ranges' own times were not recorded, one
stands on the thread that launched its work, from its first launch to its last.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from profkit.errors import ProfkitError
from profkit.report.dialect import Dialect, Written, the_one

if TYPE_CHECKING:
    import pandas as pd

    from profkit.study.study import Study

KINDS = {"kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset"}
_SPANS = {"range": "user_annotation", "op": "cpu_op"}
_GPU = 1_000_000
"""Process ids of GPUs begin here: Chrome knows processes and threads, and nothing else."""
Event = dict[str, Any]


def write(runs: Sequence[str | Study], lang: str) -> Written:
    """Raises ProfkitError for a run without a timeline."""
    study = the_one(runs)
    frame = study.captured.timeline
    if frame is None or "start" not in frame:
        raise ProfkitError(f"{study.path}: no timeline in this run", fix="record one: profkit profile --nsys")
    return Written(json.dumps(document(frame, study.host, str(study.manifest.device.get("cc", "")))))


def document(frame: pd.DataFrame, host: pd.DataFrame | None, cc: str = "") -> dict[str, Any]:
    """The trace of a launches frame with start and time [s]; host: what the host did beside it (collectors.frame.host_of)."""
    owners = _owners(frame)
    devices = _devices(frame)
    work = [_work(row, number, devices) for number, row in enumerate(frame.to_dict("records"))]
    calls = _calls(host, frame, owners) if host is not None else []
    told = any(one["cat"] == _SPANS["range"] for one in calls)
    names = [_named(pid, name) for name, pid in owners.items()]
    names += [_named(_GPU + at, f"GPU {at}: {name}") for at, name in devices.items()]
    events = [*(() if told else _ranges(calls, frame)), *calls, *work]
    early = min((one["ts"] for one in events), default=0.0)
    for one in events if early < 0 else ():
        one["ts"] = round(one["ts"] - early, 3)
    major, _, minor = cc.partition(".")
    known = {"computeMajor": int(major), "computeMinor": int(minor)} if minor.isdigit() and major.isdigit() else {}
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": at, "name": name, **known} for at, name in devices.items()],
        "displayTimeUnit": "ms",
        "traceEvents": [*names, *events],
    }


def _owners(frame: pd.DataFrame) -> dict[str, int]:
    """Process -> the number it is shown by: its own where it is one."""
    found = dict.fromkeys(frame["process"].astype(str)) if "process" in frame else {"": None}
    return {name: int(name) if name.isdigit() else at + 1 for at, name in enumerate(found)}


def _devices(frame: pd.DataFrame) -> dict[int, str]:
    """Number of each device -> its name."""
    streams = frame["stream"].astype(str) if "stream" in frame else [""] * len(frame)
    return {_device(stream): str(name) for stream, name in zip(streams, frame["device"], strict=True)}


def _device(stream: str) -> int:
    """Streams of several devices carry the number of theirs: "1:7"."""
    number, colon, _ = stream.partition(":")
    return int(number) if colon and number.isdigit() else 0


def _named(pid: int, name: str) -> Event:
    return {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name or "the program"}}


def _span(name: str, kind: str, start: float, time: float) -> Event:
    return {"ph": "X", "name": name, "cat": kind, "ts": round(start * 1e6, 3), "dur": round(time * 1e6, 3)}


def _work(row: Mapping[Any, Any], number: int, devices: Mapping[int, str]) -> Event:
    stream = str(row.get("stream", ""))
    device = _device(stream)
    lane = stream.rpartition(":")[2]
    args: dict[str, Any] = {"device": device, "stream": lane, "correlation": number + 1}
    for name in ("grid", "block"):
        if str(row.get(name, "")).replace(",", "").isdigit():
            args[name] = [int(part) for part in str(row[name]).split(",")]
    if row.get("bytes", 0.0) > 0:
        args["bytes"] = int(row["bytes"])
    if row.get("range"):
        args["range"] = str(row["range"])
    span = _span(str(row["kernel"]), KINDS.get(str(row["kind"]), "kernel"), row["start"], row["time"])
    return {**span, "pid": _GPU + device, "tid": int(lane) if lane.isdigit() else 0, "args": args}


def _calls(host: pd.DataFrame, frame: pd.DataFrame, owners: Mapping[str, int]) -> list[Event]:
    """What the host did, in order: CUDA calls, ranges, operators; a thread whose name is no number gets one."""
    processes = frame["process"].astype(str).tolist() if "process" in frame else [""] * len(frame)
    only = next(iter(owners))
    threads: dict[str, int] = {}
    found = []
    for row in host[host["call"] != "process"].sort_values("start", kind="stable").to_dict("records"):
        launch = int(row["launch"])
        owner = str(row.get("process", processes[launch] if launch >= 0 else only))
        thread = str(row["thread"])
        lane = int(thread) if thread.isdigit() else threads.setdefault(thread, len(threads) + 1)
        driver = str(row["call"]).startswith("cu") and str(row["call"])[2:3].isupper()
        kind = _SPANS.get(str(row.get("kind")), "cuda_driver" if driver else "cuda_runtime")
        args = {"correlation": launch + 1} if launch >= 0 else {}
        place = {"pid": owners.get(owner, owners[only]), "tid": lane}
        found.append({**_span(str(row["call"]), kind, row["start"], row["time"]), **place, "args": args})
    return found


def _ranges(calls: Sequence[Event], frame: pd.DataFrame) -> Iterator[Event]:
    """The ranges of each thread, one inside the other, as far as launches show them."""
    paths = frame["range"].astype(str).tolist()
    launching = sorted((one for one in calls if one["args"]), key=lambda one: (one["pid"], one["tid"]))
    for (pid, tid), mine in groupby(launching, key=lambda one: (one["pid"], one["tid"])):
        open_: list[Event] = []
        for call in mine:
            path = [part for part in paths[call["args"]["correlation"] - 1].split("/") if part]
            same = 0
            while same < min(len(open_), len(path)) and open_[same]["name"] == path[same]:
                same += 1
            yield from reversed(open_[same:])
            del open_[same:]
            for name in path[same:]:
                place = {"ph": "X", "cat": "user_annotation", "pid": pid, "tid": tid, "args": {}}
                open_.append({"name": name, "ts": call["ts"], "dur": 0.0, **place})
            for one in open_:
                # Half open, as ranges are: the last call begins before the end.
                one["dur"] = round(max(call["ts"] + call["dur"], call["ts"] + 0.001) - one["ts"], 3)
        yield from reversed(open_)


DIALECT = Dialect("trace", write, endings=("trace.json",))
