"""Two exports in one file, every kind followed by every other: both are read, or the second is named with its line."""

from __future__ import annotations

import gzip
import itertools
import json
import re
from importlib import import_module
from pathlib import Path

import pytest
from exports import Dialect, Launch, write
from nsys_exports import Op, gpu_trace, kern_sum, kern_sum_text, sqlite_export
from recorded import some_slow
from test_key_averages import TABLE as TORCH_TABLE
from test_ncu_page import NEW as NCU_TEXT
from test_nvprof import METRICS, METRICS_CSV, OLD, TEXT, TRACE
from test_nvprof import NEW as NVPROF_CSV
from test_rocprof import STATS as ROCPROF_STATS
from test_trtexec import conv, profile_text
from test_trtexec_log import SUMMARY, heading, log, table

from collectors import READERS, CollectError, read

DATA = Path(__file__).parent.parent / "data"
LAUNCHES = [
    Launch("relu(int)", {"gpu__time_duration.sum": 1536.0, "dram__bytes.sum": 4096.0}),
    Launch("gemm(int)", {"gpu__time_duration.sum": 2048.5, "dram__bytes.sum": 8192.0}),
]
OPS = [Op(0, 1000), Op(2000, 3000, "relu(float *)"), Op(6000, 500, "[CUDA memcpy HtoD]", "memcpy", bytes=4096)]
KINETO = gzip.decompress((DATA / "kineto/resnet_h100.trace.json.gz").read_bytes()).decode()
TIMES = json.dumps([{"latencyMs": 1.5, "computeMs": 1.25}])
LAYERS = json.dumps({"Layers": [conv()], "Bindings": []})


def few_events() -> str:
    """The recorded trace with its first pieces of GPU work alone."""
    trace = json.loads(KINETO)
    work = [one for one in trace["traceEvents"] if one.get("cat") == "kernel"][:3]
    return json.dumps(trace | {"traceEvents": work}, indent=1) + "\n"


PARTS = {
    "ncu raw": write(LAUNCHES, Dialect(before=())).decode(),
    "ncu log": write(LAUNCHES, Dialect(locale="en_US")).decode(),
    "ncu details": write(LAUNCHES, Dialect(page="details", before=())).decode(),
    "ncu text": NCU_TEXT,
    "ncu recorded": (DATA / "ncu/h200_default.csv").read_text(),
    "nsys trace": gpu_trace(OPS),
    "nsys sum": kern_sum(OPS[:2], "2021.1"),
    "nsys text": kern_sum_text(OPS),
    "nvprof old": OLD,
    "nvprof csv": NVPROF_CSV,
    "nvprof text": TEXT,
    "nvprof trace": TRACE,
    "nvprof metrics": METRICS,
    "nvprof metrics csv": METRICS_CSV,
    "trtexec profile": profile_text([("conv", 0.5), ("fc", 0.25)]),
    "trtexec layers": LAYERS + "\n",
    "trtexec times": TIMES + "\n",
    "trtexec log": log(heading(), table(10)),
    "trtexec summary": log(SUMMARY),
    "kineto": few_events(),
    "rocprof 1": (DATA / "rocprof/v1_results.csv").read_text(),
    "rocprof 3": (DATA / "rocprof/v3_counter_collection.csv").read_text(),
    "rocprof trace": (DATA / "rocprof/v3_kernel_trace.csv").read_text(),
    "torch table": TORCH_TABLE,
    "rocprof stats": ROCPROF_STATS,
    "cupti": (DATA / "triggers/slow_host/cupti.csv").read_text(),
}
SECOND = {
    name: PARTS[name]
    for name in (
        "ncu raw",
        "ncu text",
        "nsys trace",
        "nvprof text",
        "trtexec log",
        "kineto",
        "torch table",
        "rocprof 3",
    )
}
JOINTS = {
    "nothing": lambda a, b: (a + b).encode(),
    "a blank line": lambda a, b: (a + "\n" + b).encode(),
    "a line of a log": lambda a, b: (a + "step 3 of 9, loss 0.25\n" + b).encode(),
    "what shells print": lambda a, b: (a + "==> b.csv <==\n" + b).encode(),
    "CRLF": lambda a, b: (a + b).replace("\n", "\r\n").encode(),
    "a byte order mark": lambda a, b: (a + "\ufeff" + b).encode(),
    "UTF-16": lambda a, b: (a + b).encode("utf-16"),
}


ONE_CAPTURE = {"nsys trace", "nsys sum", "nsys text"}
"""What `nsys stats` prints of one capture: of several reports the one that tells most is read."""


def rows(path):
    """How many rows a file gives that stands alone; 0 where it is read with another."""
    try:
        return len(read(path))
    except CollectError:
        return 0


@pytest.fixture(scope="module")
def sizes(tmp_path_factory):
    folder, found = tmp_path_factory.mktemp("alone"), {}
    for name, text in PARTS.items():
        (folder / "one.csv").write_text(text)
        found[name] = rows(folder / "one.csv")
    assert [name for name, size in found.items() if not size] == ["trtexec times"]
    return found


def lost(path, together):
    """Whether what is read of a file is less than its parts, and nothing says so."""
    try:
        frame = read(path)
    except CollectError as error:
        return not error.fix or str(path) not in str(error)
    named = any(re.search(r"line \d+", caveat.what) and caveat.fix for caveat in frame.attrs["caveats"])
    return not named and len(frame) != together


@pytest.mark.parametrize("joint", some_slow([*JOINTS], 4))
def test_nothing_that_follows_is_lost(tmp_path, sizes, joint):
    path, silent = tmp_path / "both.csv", []
    for (first, one), (second, other) in itertools.product(PARTS.items(), SECOND.items()):
        # A file that is written over is waited for until it is on the disk.
        path.unlink(missing_ok=True)
        path.write_bytes(JOINTS[joint](one, other))
        if not {first, second} <= ONE_CAPTURE and lost(path, sizes[first] + sizes[second]):
            silent.append((first, second))
    assert not silent


@pytest.mark.parametrize("partial", [False, True])
def test_the_second_is_named_with_its_line_and_how_to_part_them(tmp_path, partial):
    path = tmp_path / "a b.csv"
    first = PARTS["ncu raw"]
    path.write_text(first + PARTS["nsys trace"])
    line = first.count("\n") + 1
    if partial:
        frame = read(path, partial=True)
        assert len(frame) == len(LAUNCHES)
        (caveat,) = (one for one in frame.attrs["caveats"] if "is not read" in one.what)
        said, fix = caveat.what, caveat.fix
    else:
        with pytest.raises(CollectError) as caught:
            read(path)
        said, fix = str(caught.value), caught.value.fix
    assert said.startswith(f"{path}, line {line}: nsys' tables in a file that begins with ncu's CSV")
    assert f"`head -n {line - 1} 'a b.csv'` and `tail -n +{line} 'a b.csv'`" in fix


ALONE = {
    "ncu": "ncu raw",
    "nsys": "nsys trace",
    "nvprof": "nvprof csv",
    "trtexec": "trtexec layers",
    "cupti": "cupti",
    "kineto": "kineto",
    "key_averages": "torch table",
    "rocprof": "rocprof 1",
}


@pytest.mark.parametrize("name", READERS)
def test_who_asks_a_format_by_itself_is_told_too(tmp_path, name):
    path, other = tmp_path / "both.csv", "nvprof metrics" if name == "ncu" else "ncu raw"
    path.write_text(PARTS[ALONE[name]] + PARTS[other])
    direct = import_module(f"collectors.{name}").read
    with pytest.raises(CollectError, match=r"line \d+: .* one of them is not read"):
        direct(path)
    path.write_text(PARTS[ALONE[name]])
    assert len(direct(path)) == rows(path) > 0


def test_a_second_part_behind_many_blocks_is_seen(tmp_path):
    path = tmp_path / "long.csv"
    many = gpu_trace([Op(at * 2000, 1000) for at in range(9000)])
    path.write_text(many + "\n" + PARTS["ncu raw"])
    assert len(many) > 3 << 18
    with pytest.raises(CollectError, match=f"line {9000 + 3}: ncu's CSV"):
        read(path)


def test_what_a_watched_program_printed_is_a_caveat(tmp_path):
    path = tmp_path / "run.log"
    path.write_text(PARTS["trtexec summary"] + PARTS["ncu log"])
    frame = read(path)
    assert len(frame) == len(LAUNCHES)
    assert any(
        "ncu's CSV in a file that begins with what trtexec printed" in one.what for one in frame.attrs["caveats"]
    )


def test_a_summary_of_another_capture_is_a_caveat(tmp_path):
    path = tmp_path / "stats.csv"
    path.write_text(gpu_trace(OPS) + "\n" + kern_sum(OPS[:2]))
    assert not any("two captures" in one.what for one in read(path).attrs["caveats"])
    path.write_text(gpu_trace(OPS) + "\n" + kern_sum(OPS[:1]))
    assert any("two captures" in one.what for one in read(path).attrs["caveats"])


def test_what_stands_behind_a_database_is_refused(tmp_path):
    path = sqlite_export(tmp_path / "a.sqlite", OPS)
    assert len(read(path)) == len(OPS)
    with path.open("ab") as file:
        file.write(PARTS["ncu raw"].encode())
    with pytest.raises(CollectError, match="stand behind the"):
        read(path)


@pytest.mark.parametrize("first", ["ncu raw", "nsys trace", "nvprof csv", "trtexec log", "rocprof 1", "cupti"])
@pytest.mark.parametrize("second", ["sqlite", "gzip"])
def test_what_is_no_text_behind_a_text(tmp_path, first, second):
    database = sqlite_export(tmp_path / "a.sqlite", OPS).read_bytes()
    path = tmp_path / "both.csv"
    path.write_bytes(PARTS[first].encode() + (database if second == "sqlite" else gzip.compress(KINETO.encode())))
    assert not lost(path, 0)
