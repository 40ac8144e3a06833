"""The sqlite export: launches with their ranges, what is missing as a caveat, cut files refused."""

import math
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from frames import validate
from hypothesis import given
from hypothesis import strategies as st
from nsys_exports import PID, Base, Nvtx, Op, sqlite_export

import collectors
from analyzers.timeline.budget import budget
from collectors import CollectError, nsys, read
from collectors.frame import host_of
from collectors.nsys.ranges import Range, by_thread, sweep
from collectors.nsys.scrub import scrub
from collectors.nsys.sqlite import read_sqlite

SHARED = Path(__file__).parents[3] / "shared" / "data" / "nsys"


def whats(frame) -> str:
    return "\n".join(one.what for one in frame.attrs["caveats"])


def change(path, *statements) -> int:
    """How many rows the last of them changed."""
    with closing(sqlite3.connect(path)) as base, base:
        return [base.execute(one).rowcount for one in statements][-1]


def test_kernels_copies_and_memsets_by_start(tmp_path):
    ops = [
        Op(3000, 500, "f(int)", grid=(64, 2, 1), registers=96, call=10),
        Op(1000, 100, kind="memcpy", bytes=65536, call=5),
        Op(2000, 50, kind="memset", bytes=16, call=8),
    ]
    frame = validate(collectors.read(sqlite_export(tmp_path / "r.sqlite", ops)))
    assert frame["kernel"].tolist() == ["[CUDA memcpy Host-to-Device]", "[CUDA memset]", "f(int)"]
    assert frame["kind"].tolist() == ["memcpy", "memset", "kernel"]
    assert frame["bytes"].iloc[0] == 65536
    assert math.isnan(frame["bytes"].iloc[2])
    assert frame["time"].tolist() == [1e-7, 5e-8, 5e-7]
    assert frame["grid"].tolist() == ["", "", "64,2,1"]
    assert frame["cc"].unique().tolist() == ["9.0"]
    assert frame["process"].unique().tolist() == [str(PID)]
    assert frame["registers"][2] == 96
    assert sorted(frame["bytes"].dropna()) == [16, 65536]
    assert frame.attrs["devices"][0]["sms"] == 132
    assert frame.attrs["caveats"] == []


NESTED = {5: "outer", 10: "outer/a", 19: "outer/a", 20: "outer/b", 30: "outer", 99: "outer", 100: "next", 200: ""}


@pytest.mark.parametrize(
    ("ranges", "calls", "expected"),
    [
        (
            [Nvtx(0, 100, "outer"), Nvtx(10, 20, "a"), Nvtx(20, 30, "b", registered=True), Nvtx(100, 200, "next")],
            [(at, PID) for at in NESTED],
            list(NESTED.values()),
        ),
        ([Nvtx(0, 50, "a"), Nvtx(900, 1100, "b")], [(10, PID)], ["a"]),
        (
            [Nvtx(0, 100, "a", type=60), Nvtx(50, 150, "b", type=60)],
            [(40, PID), (60, PID), (120, PID)],
            ["a", "a/b", "b"],
        ),
        ([Nvtx(0, 100, "main"), Nvtx(0, 100, "worker", thread=7)], [(10, PID), (10, 7)], ["main", "worker"]),
        ([Nvtx(0, 100, "a"), Nvtx(0, 100, "b", thread=7)], [(10, 99)], [""]),
    ],
    ids=["half-open", "by the call, not the kernel", "start and end", "by thread", "no adoption between two"],
)
def test_a_launch_is_in_the_ranges_open_at_its_call(tmp_path, ranges, calls, expected):
    ops = [Op(1000 + 10 * at, 5, call=call, thread=thread) for at, (call, thread) in enumerate(calls)]
    assert read_sqlite(sqlite_export(tmp_path / "r.sqlite", ops, ranges))["range"].tolist() == expected


def test_what_the_host_did_is_there(tmp_path):
    """Said before, of every record of nsys: the record does not say what the host did."""
    ops = [Op(500, 5, call=10), Op(1000, 5, kind="memcpy", bytes=8, call=700)]
    frame = read_sqlite(sqlite_export(tmp_path / "r.sqlite", ops, [Nvtx(0, 50, "a"), Nvtx(60, None, "open")]))
    host = host_of(frame)
    spans, calls = host[host["kind"] == "range"], host[host["kind"] == "call"]
    assert (spans["call"].tolist(), spans["start"].tolist(), spans["time"].tolist()) == (["a"], [0.0], [5e-8])
    assert calls["start"].tolist() == [1e-8, 7e-7]
    assert set(calls["call"]) == {"cudaLaunchKernel"}
    assert calls["launch"].tolist() == [0, 1]
    assert set(host["process"]) == {str(PID)}
    found = budget(frame, host=host)
    assert found.unknown == 0
    assert found.host == pytest.approx(1.95e-7)


def test_backward_threads_have_the_range_open_on_another(tmp_path):
    ranges = [Nvtx(0, 100, "backward")]
    ops = [Op(1000, 1, call=10), Op(1001, 1000, call=10, thread=99), Op(3000, 1, call=150, thread=99)]
    path = sqlite_export(tmp_path / "r.sqlite", ops, ranges)
    frame = read_sqlite(path)
    assert frame["range"].tolist() == ["backward", "backward", ""]
    assert "the range open on another thread" in whats(frame)


A, LATE = Nvtx(0, 50, "a"), [Nvtx(5000, 6000, "a"), Nvtx(7000, 8000, "b")]
UNTRACED = Base(with_calls=False, warnings=("Not all CUDA events might have been collected.", "Dwarf collected."))


@pytest.mark.parametrize(
    ("op", "ranges", "more", "range_", "said"),
    [
        (Op(1000, 1, call=500), [Nvtx(0, None, "train")], None, "train", ["never closed"]),
        (Op(100, 5, call=10), LATE, None, "", ["before the first NVTX range"]),
        (Op(100, 5, call=10), [Nvtx(0, 6000, "a")], Base(lost_calls=(4000, 5000)), "a", ["stops before the program"]),
        (Op(100, 5), [A], UNTRACED, "", ["API calls were not traced", "Not all CUDA events"]),
        (Op(100, 50, graph=True, call=5), [A], None, "a", ["CUDA graphs were traced whole"]),
    ],
    ids=["unclosed", "begun late", "cut", "without calls", "whole graphs"],
)
def test_what_a_record_lacks_is_a_caveat(tmp_path, op, ranges, more, range_, said):
    frame = read_sqlite(sqlite_export(tmp_path / "r.sqlite", [op], ranges, more))
    assert frame["range"].tolist() == [range_]
    assert frame["kernel"].tolist() == ["[CUDA graph 1]" if op.graph else op.name]
    assert all(words in whats(frame) for words in said)
    assert "Dwarf" not in whats(frame)


def test_range_without_gpu_work_at_the_end_is_no_caveat(tmp_path):
    ops = [Op(100, 5, call=10), Op(9000, 5, call=8000)]
    path = sqlite_export(tmp_path / "r.sqlite", ops, [Nvtx(0, 50, "a"), Nvtx(7500, 9500, "save")])
    assert read_sqlite(path).attrs["caveats"] == []


def test_two_devices(tmp_path):
    ops = [Op(100, 5, call=1), Op(100, 5, device=1, call=2)]
    frame = read_sqlite(sqlite_export(tmp_path / "r.sqlite", ops, more=Base(devices=("A", "B"))))
    assert sorted(zip(frame["device"], frame["stream"], strict=True)) == [("A", "0:7"), ("B", "1:7")]


def test_what_is_no_device_of_cuda_does_not_take_its_number(tmp_path):
    """Windows lists its renderer beside the GPU, both as device 0."""
    path = sqlite_export(tmp_path / "r.sqlite", [Op(1000, 500)], more=Base(devices=("NVIDIA T4", "Basic Renderer")))
    change(
        path,
        "UPDATE TARGET_INFO_GPU SET cuDevice = 0",
        "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INT, cudaId INT)",
        "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0)",
    )
    assert set(collectors.read(path)["device"]) == {"NVIDIA T4"}


def test_the_device_of_an_export_by_an_nsys_of_2021(tmp_path):
    path = sqlite_export(tmp_path / "r.sqlite", [Op(1000, 500)])
    facts = "deviceId INT, name TEXT, computeCapabilityMajor INT, computeCapabilityMinor INT, numMultiprocessors INT"
    change(
        path,
        "DROP TABLE TARGET_INFO_GPU",
        "CREATE TABLE TARGET_INFO_GPU (deviceId INT, name TEXT)",
        f"CREATE TABLE TARGET_INFO_CUDA_GPU ({facts})",
        "INSERT INTO TARGET_INFO_CUDA_GPU VALUES (0, 'NVIDIA T4', 7, 5, 40)",
    )
    assert collectors.read(path).iloc[0][["device", "cc"]].tolist() == ["NVIDIA T4", "7.5"]


def test_no_gpu_work_is_an_error(tmp_path):
    with pytest.raises(CollectError, match="no GPU work"):
        read_sqlite(sqlite_export(tmp_path / "r.sqlite", [], [Nvtx(0, 50, "a")]))


def test_cut_database_is_refused_everywhere(tmp_path):
    path = sqlite_export(tmp_path / "r.sqlite", [Op(100 * at, 5, call=at) for at in range(200)], [Nvtx(0, 50, "a")])
    data = path.read_bytes()
    cuts = [*range(130), *np.random.default_rng(3).integers(0, len(data) - 1, 300).tolist()]
    cut = tmp_path / "cut.sqlite"
    for at in cuts:
        cut.write_bytes(data[:at])
        with pytest.raises(CollectError):
            nsys.read(cut)


def test_damaged_database_is_refused(tmp_path):
    path = sqlite_export(tmp_path / "r.sqlite", [Op(100, 5)])
    data = bytearray(path.read_bytes())
    data[100:4000] = b"\xff" * 3900
    path.write_bytes(data)
    with pytest.raises(CollectError, match="cannot be read"):
        nsys.read(path)


@st.composite
def nested(draw, low=0, high=1000, depth=3):
    """Push/pop ranges of one thread: siblings in order, children inside."""
    points = sorted(draw(st.lists(st.integers(low, high), max_size=6)))
    found = []
    for start, end in zip(points[::2], points[1::2], strict=False):
        found.append(Range(start, end, f"r{start}_{end}_{depth}", PID))
        if depth and end > start:
            found += draw(nested(start, end, depth - 1))
    return found


@given(ranges=nested(), times=st.lists(st.integers(-10, 1010)))
def test_sweep_equals_the_definition(ranges, times):
    """Brute force: every open range, the outer first."""
    times = sorted(times)
    ordered = by_thread(ranges).get(PID, [])
    expected = ["/".join(one.name for one in ordered if one.start <= t < one.end) for t in times]
    assert sweep(ordered, times) == expected


@pytest.mark.skipif(not SHARED.is_dir(), reason="recorded exports are not here")
def test_recorded_export_agrees_with_nsys_itself():
    frame = read_sqlite(SHARED / "nsys_t4_2025.3.1_schema3.20.2.sqlite")
    trace = nsys.read(SHARED / "nsys_t4_gputrace_2022.4.2.csv")
    for column in ("start", "time", "grid", "block", "kind", "device"):
        assert frame[column].tolist() == trace[column].tolist(), column
    assert frame["bytes"].sum() == trace["bytes"].sum()
    kernels = frame[frame["kind"] == "kernel"]
    by_range = nsys.read(SHARED / "nsys_t4_cuda_gpu_kern_sum-nvtx-name-base_2023.4.4.csv")
    inner = kernels["range"].str.rsplit("/", n=1).str[-1].value_counts().to_dict()
    assert inner == by_range.groupby("range")["instances"].sum().to_dict()
    nested_counts = nsys.read(SHARED / "nsys_t4_nvtxkernsum_2022.4.2.csv")
    loop = nested_counts[nested_counts["range"] == "Loop"]["instances"].sum()
    assert kernels["range"].str.startswith("Loop").sum() == loop


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'abc'",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET registersPerThread = 9e300",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1",
        "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET end = NULL",
        "UPDATE NVTX_EVENTS SET start = NULL",
        "UPDATE NVTX_EVENTS SET end = x'00ff'",
        "UPDATE NVTX_EVENTS SET globalTid = 3.5",
        "UPDATE NVTX_EVENTS SET text = x'00ff'",
    ],
)
def test_cells_of_another_kind_are_refused(tmp_path, damage):
    path = sqlite_export(tmp_path / "r.sqlite", [Op(1000, 5, call=10)], [Nvtx(0, 100, "outer")])
    assert change(path, damage)
    with pytest.raises(CollectError, match="the database cannot be read: "):
        read_sqlite(path)


def test_a_table_of_calls_without_rows_is_none(tmp_path):
    path = sqlite_export(tmp_path / "r.sqlite", [Op(1000, 5, call=10)], [Nvtx(0, 100, "outer")])
    change(path, "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME")
    frame = read_sqlite(path)
    assert frame["range"].tolist() == [""]
    assert "API calls were not traced" in whats(frame)


SECRETS = ("TOKEN=hush", "box-17.example.org", "/home/somebody/train.py", "daemon-of-theirs", "somebody")


@pytest.fixture
def export(tmp_path):
    ops = [Op(1000, 50, "gemm<int>(float *)", call=900), Op(2000, 10, "", kind="memcpy", call=1900)]
    path = sqlite_export(
        tmp_path / "r.sqlite",
        ops,
        [Nvtx(0, 5000, "step"), Nvtx(800, 1500, "inner", registered=True)],
        Base(warnings=["CUDA buffers of /home/somebody/train.py were lost"], devices=["NVIDIA H200"]),
    )
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT)")
    base.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
    base.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
    base.execute("CREATE TABLE PROCESSES (name TEXT)")
    base.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('DeviceEnvironment', ?)", (SECRETS[0],))
    base.execute("INSERT INTO META_DATA_CAPTURE VALUES ('COMMAND', ?)", (SECRETS[2],))
    rows = [("EXPORT_HOST", SECRETS[1]), ("EXPORT_USER", SECRETS[4]), ("EXPORT_PRODUCT_VERSION", "2025.3")]
    base.executemany("INSERT INTO META_DATA_EXPORT VALUES (?, ?)", rows)
    base.execute("INSERT INTO PROCESSES VALUES (?)", (SECRETS[3],))
    base.executemany("INSERT INTO StringIds VALUES (?, ?)", [(900, SECRETS[3]), (901, SECRETS[0])])
    base.commit()
    # What is deleted stays in the file's free pages.
    base.execute("DELETE FROM PROCESSES")
    base.commit()
    base.close()
    return path


def test_the_launches_stay_and_the_machine_goes(export):
    before = read(export)
    assert all(word.encode() in export.read_bytes() for word in SECRETS)
    scrub(export)
    after = read(export)
    pd.testing.assert_frame_equal(before, after)
    assert before.attrs["devices"] == after.attrs["devices"]
    assert len(before.attrs["caveats"]) == len(after.attrs["caveats"])
    data = export.read_bytes()
    assert not [word for word in SECRETS if word.encode() in data]
    assert b"2025.3" in data
    assert not list(export.parent.glob("*.part"))


def test_a_copy_leaves_the_original_alone(export, tmp_path):
    whole = export.read_bytes()
    scrub(export, tmp_path / "copy.sqlite")
    assert export.read_bytes() == whole
    assert SECRETS[0].encode() not in (tmp_path / "copy.sqlite").read_bytes()


def test_what_is_no_whole_database_is_refused_and_left(export, tmp_path):
    export.write_bytes(export.read_bytes()[:-4096])
    cut = export.read_bytes()
    with pytest.raises(CollectError, match="cut"):
        scrub(export)
    assert export.read_bytes() == cut
    with pytest.raises(CollectError, match="cannot be opened"):
        scrub(tmp_path / "none.sqlite")


def test_a_place_that_cannot_be_written_is_named(export, tmp_path):
    with pytest.raises(CollectError, match="no-folder"):
        scrub(export, tmp_path / "no-folder" / "copy.sqlite")
