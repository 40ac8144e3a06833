"""Exports that another program wrote again, or that are damaged by hand: right, refused or given a caveat, never a wrong number."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from exports import Dialect, Launch, write
from nsys_exports import Op, gpu_trace, kern_sum
from test_nvprof import OLD

from collectors import CollectError, read

DATA = Path(__file__).parent.parent / "data"
LAUNCHES = [
    Launch("relu(int)", {"gpu__time_duration.sum": 1536.0, "dram__bytes.sum": 4096.0}),
    Launch("gemm(int)", {"gpu__time_duration.sum": 2048.5, "dram__bytes.sum": 8192.0}),
]
OPS = [Op(0, 1000), Op(2000, 3000, "relu(float *)"), Op(6000, 500, "[CUDA memcpy HtoD]", "memcpy", bytes=4096)]
PARTS = {
    "ncu raw": write(LAUNCHES, Dialect(before=())).decode(),
    "ncu details": write(LAUNCHES, Dialect(page="details", before=())).decode(),
    "nsys trace": gpu_trace(OPS),
    "nsys sum": kern_sum(OPS[:2], "2021.1"),
    "nvprof old": OLD,
    "rocprof 1": (DATA / "rocprof/v1_results.csv").read_text(),
    "rocprof 3": (DATA / "rocprof/v3_counter_collection.csv").read_text(),
    "rocprof trace": (DATA / "rocprof/v3_kernel_trace.csv").read_text(),
    "cupti": (DATA / "triggers/slow_host/cupti.csv").read_text(),
}
VALUE = {
    "ncu raw": "gpu__time_duration.sum",
    "nsys trace": "Duration (ns)",
    "nsys sum": "Total Time (ns)",
    "rocprof 1": "EndNs",
    "rocprof 3": "Counter_Value",
    "rocprof trace": "End_Timestamp",
    "cupti": "time",
}
"""Of each table the column that is tampered with."""


def cells(name):
    return list(csv.reader(io.StringIO(PARTS[name])))


def saved(path, rows, *, quoted=False):
    with path.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL, lineterminator="\n").writerows(rows)
    return path


def column(name):
    return cells(name)[0].index(VALUE[name])


def outcome(path):
    """The frame, or None where the file is refused by its name, with a fix."""
    try:
        return read(path)
    except CollectError as error:
        return None if error.fix and str(path) in str(error) else error


def refused(path, match="."):
    with pytest.raises(CollectError, match=match):
        read(path)
    assert outcome(path) is None


@pytest.mark.parametrize("name", [*VALUE])
@pytest.mark.parametrize(
    ("cell", "means"),
    [
        ("1e3", 1000.0),
        ("1.5e+03", 1500.0),
        ("(!) nan", np.nan),
        ("n/a", np.nan),
        ("inf", np.nan),
        ("1,234.5", 1234.5),
        ("1.234,5", None),
        ("#VALUE!", None),
        ("0x10", None),
        ("1e400", np.nan),
        ("5us", None),
        ("=1+1", None),
        ("5.0.1", None),
        ("--", None),
    ],
)
def test_a_cell_is_a_number_or_none_or_refused(tmp_path, name, cell, means):
    header, *rows = cells(name)
    row = 1 if name == "ncu raw" else 0
    begin = {"rocprof 1": "BeginNs", "rocprof trace": "Start_Timestamp"}.get(name)
    rows[row][column(name)] = cell
    if begin:
        rows[row][header.index(begin)] = "500"
    path = saved(tmp_path / "x.csv", [header, *rows], quoted=name.startswith("ncu"))
    if (frame := outcome(path)) is None:
        return
    if name == "rocprof 3":
        assert means is not None
        assert frame["dram_read"][0] == means * 1024
        return
    unit = 1.0 if name == "cupti" else 1e-9
    since = 500.0 if begin else 0.0
    read_as = frame["time"][0] * frame.get("instances", np.ones(len(frame)))[0] / unit + since
    assert means is not None
    np.testing.assert_allclose(read_as, means, equal_nan=True)


def test_blanks_round_cells(tmp_path):
    def padded(name):
        rows = [[f" {cell} " for cell in row] for row in cells(name)]
        return saved(tmp_path / f"{name}.csv", rows, quoted=name.startswith("ncu"))

    assert read(padded("nsys trace"))["kind"].tolist() == ["kernel", "kernel", "memcpy"]
    assert read(padded("rocprof 3"))["dram_read"].notna().any()


@pytest.mark.parametrize("begin", ["", "==PROF== Connected to process 1 (a)\n", PARTS["ncu raw"], PARTS["nsys trace"]])
@pytest.mark.parametrize("letter", ["a", '"', ",", " "])
def test_a_line_without_an_end_is_refused(tmp_path, begin, letter):
    (tmp_path / "x.csv").write_text(begin + letter * 3_000_000)
    frame = outcome(tmp_path / "x.csv")
    assert frame is None or len(frame) in (2, 3)
