"""A timeline as Chrome trace: what profkit writes it reads again, and the whole of it is there."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analyzers.timeline.budget import budget
from collectors.frame import build, host_of, set_host
from collectors.kineto import read
from profkit.cli.group import invoke
from profkit.report.dialects.trace import document

DATA = Path(__file__).resolve().parent.parent / "data" / "kineto"
TRACES = sorted(DATA.glob("*.json.gz"))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.partition(".")[0])
def test_a_recorded_trace_comes_back_as_it_was(path, tmp_path):
    before = read(path)
    file = tmp_path / "again.json"
    file.write_text(json.dumps(document(before, host_of(before), "9.0"), allow_nan=False))
    after = read(file)
    for column in ("kernel", "kind", "range", "stream", "device", "cc", "grid", "block"):
        assert after[column].tolist() == before[column].tolist(), column
    for column in ("start", "time", "bytes"):
        np.testing.assert_allclose(after[column], before[column], atol=2e-9, err_msg=column)
    assert len(host_of(after)) == len(host_of(before))
    mine, theirs = (budget(one, host=host_of(one)) for one in (after, before))
    assert mine.steady == theirs.steady
    for name in ("window", "computing", "copying", "host", "waiting", "queued", "blocking", "launches"):
        assert getattr(mine, name) == pytest.approx(getattr(theirs, name), rel=1e-3, abs=1e-6), name


def test_ranges_stand_inside_one_another():
    frame = build(
        {
            "kernel": list("abcd"),
            "start": [1.0, 2.0, 3.0, 4.0],
            "time": [0.5] * 4,
            "kind": ["kernel"] * 4,
            "range": ["step/mlp", "step/mlp", "step/norm", ""],
            "device": ["GPU"] * 4,
            "stream": ["7"] * 4,
        },
        tool="cupti",
    )
    host = pd.DataFrame(
        {
            "call": "cudaLaunchKernel",
            "start": [0.1, 0.2, 0.3, 0.4],
            "time": 0.05,
            "thread": "main",
            "launch": [0, 1, 2, 3],
        }
    )
    set_host(frame, host)
    spans = {
        one["name"]: one
        for one in document(frame, host_of(frame))["traceEvents"]
        if one.get("cat") == "user_annotation"
    }
    assert {name: (one["ts"], one["ts"] + one["dur"]) for name, one in spans.items()} == {
        "step": pytest.approx((100_000, 350_000)),
        "mlp": pytest.approx((100_000, 250_000)),
        "norm": pytest.approx((300_000, 350_000)),
    }


@pytest.mark.slow
def test_the_command_writes_it_by_name_and_by_for(tmp_path, capsys):
    """What `import` read of somebody's trace goes out again."""
    assert invoke(["import", str(DATA / "gpt_h100.trace.json.gz"), "-o", str(tmp_path / "run")]) == 0
    out = tmp_path / "gpt.trace.json"
    assert invoke(["report", str(tmp_path / "run"), "-o", str(out)]) == 0
    theirs = read(DATA / "gpt_h100.trace.json.gz")["kernel"]
    assert theirs.str.contains("<").any()
    assert sorted(read(out)["kernel"]) == sorted(theirs)
    capsys.readouterr()
    assert invoke(["report", str(tmp_path / "run"), "--for", "trace"]) == 0
    said = json.loads(capsys.readouterr().out)
    names = {one["args"]["name"] for one in said["traceEvents"] if one["ph"] == "M"}
    assert "GPU 0: NVIDIA H100 80GB HBM3" in names
    # What ends in .json and names no trace is the metrics, as before.
    assert invoke(["report", str(tmp_path / "run"), "-o", str(tmp_path / "gpt.json")]) == 0
    assert "traceEvents" not in (tmp_path / "gpt.json").read_text()


def test_a_run_without_a_timeline_says_how_to_get_one(capsys):
    run = Path(__file__).parents[2] / "examples/h200/ICVXKH"
    assert invoke(["report", str(run), "--for", "trace"]) != 0
    assert "--nsys" in capsys.readouterr().err


def test_recorded_traces_name_nothing_of_the_machine():
    for path in TRACES:
        text = gzip.decompress(path.read_bytes()).decode()
        assert "/home" not in text
        assert "hostname" not in text.lower()
        assert max(one["ts"] for one in json.loads(text)["traceEvents"]) < 1e6
