"""nvprof exports: units inside values, a row of units, console text, traces; cut files."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from frames import validate

import collectors
from collectors import CollectError, nvprof, read

SHARED = Path(__file__).parents[3] / "shared" / "data" / "nsys" / "nvprof_summary_old.csv"

OLD = """Time(%),Time,Calls,Avg,Min,Max,Name
75.00%,30.000ms,3,10.000ms,9.0000ms,11.000ms,axpy(float*, float*, int)
25.00%,10.000ms,2,5.0000ms,4000.0us,6.0000ms,[CUDA memcpy HtoD]
"""
NEW = """==97== NVPROF is profiling process 97, command: ./a.out
==97== Profiling application: ./a.out
==97== Profiling result:
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,us,us,us,
"GPU activities",75.000000,30.000000,3,10000.0,9000.0,11000.0,"axpy(float*, float*, int)"
"GPU activities",25.000000,10.000000,2,5000.0,4000.0,6000.0,"[CUDA memcpy HtoD]"
"API calls",90.000000,40.000000,3,9.0,8.0,10.0,"cudaLaunchKernel"
"API calls",10.000000,4.000000,2,2.0,1.0,3.0,"cudaMalloc"
"""
TEXT = """==97== NVPROF is profiling process 97, command: ./a.out
==97== Profiling application: ./a.out
==97== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   75.00%  30.000ms         3  10.000ms  9.0000ms  11.000ms  axpy(float*, float*, int)
                   25.00%  10.000ms         2  5.0000ms  4000.0us  6.0000ms  [CUDA memcpy HtoD]
      API calls:   90.00%  40.000ms         3  9.0000us  8.0000us  10.000us  cudaLaunchKernel
                   10.00%  4.0000ms         2  2.0000us  1.0000us  3.0000us  cudaMalloc
"""
TRACE = """==97== Profiling result:
"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread","Static SMem",\
"Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream","Name"
ms,us,,,,,,,,KB,B,KB,GB/s,,,,,,
210.5,1.5,,,,,,,,,,4.0,2.6,"Pageable","Device","Tesla V100 (0)","1","7","[CUDA memcpy HtoD]"
211.0,20.0,16,2,1,256,1,1,32,0.0,0,,,,,"Tesla V100 (0)","1","7","axpy(float*, float*, int) [123]"
"""
UNIFIED = """
==97== Unified Memory profiling result:
"Device","Count","Avg Size","Min Size","Max Size","Total Size","Total Time",""
"TITAN Xp (0)",158,40.860352KB,4.000000KB,600.000000KB,6.304688MB,0.000000,"Host To Device"
Total CPU Page faults: 49
"""
API = "==97== API calls:\nTime(%),Time,Calls,Avg,Min,Max,Name\n100.00%,9.0ms,3,3.0ms,3.0ms,3.0ms,cudaLaunch\n"
SUMMARIES = {"unified memory": NEW + UNIFIED, "old": OLD, "new": NEW, "text": TEXT}
ROUND = {"in a fence": f"# Notes\n\n```\n$ nvprof ./a.out\n{TEXT}```\n\nThat was all.\n", "API apart": f"{OLD}\n{API}"}
METRICS = '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'


@pytest.mark.parametrize("name", [*SUMMARIES, *ROUND])
def test_summaries_of_all_ages_are_one_frame(tmp_path, name):
    path = tmp_path / "any.txt"
    path.write_text((SUMMARIES | ROUND)[name])
    frame = validate(collectors.read(path))
    assert frame["kernel"].tolist() == ["axpy(float*, float*, int)", "[CUDA memcpy HtoD]"]
    assert frame["kind"].tolist() == ["kernel", "memcpy"]
    assert frame["instances"].tolist() == [3, 2]
    assert frame["time"].tolist() == pytest.approx([0.01, 0.005])
    assert frame["tool"].unique().tolist() == ["nvprof"]


def test_trace(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(TRACE)
    frame = validate(collectors.read(path))
    assert frame["kernel"].tolist() == ["[CUDA memcpy HtoD]", "axpy(float*, float*, int)"]
    assert frame["start"].tolist() == pytest.approx([0.2105, 0.211])
    assert frame["time"].tolist() == pytest.approx([1.5e-6, 2e-5])
    assert frame["grid"].tolist() == ["", "16,2,1"]
    assert frame["device"].unique().tolist() == ["Tesla V100"]
    assert np.isnan(frame["registers"][0])
    assert frame["bytes"][0] == 4000


@pytest.mark.parametrize("name", ["new", "text"])
def test_two_programs_in_one_file_are_refused(tmp_path, name):
    path = tmp_path / "two.txt"
    path.write_text(SUMMARIES[name] + "\n" + SUMMARIES[name].replace("==97==", "==98=="))
    with pytest.raises(CollectError, match=r"2 results of nvprof are in one file \(processes 97, 98\)") as caught:
        collectors.read(path)
    assert "%p" in caught.value.fix


@pytest.mark.parametrize(
    ("said", "match"), [("No kernels were profiled.\n", "No kernels were profiled"), (METRICS, "metrics or events")]
)
def test_what_has_no_times_is_refused_by_name(tmp_path, said, match):
    path = tmp_path / "n.txt"
    result = "Metric" if said == METRICS else "Profiling"
    path.write_text(f"==9== NVPROF is profiling process 9, command: ./mm\n==9== {result} result:\n{said}")
    with pytest.raises(CollectError, match=match):
        collectors.read(path)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("10.000ms,9", "10.000parsec,9", "line 2.*10.000parsec"),
        (",3,", ",x3,", "line 2: calls"),
        ("75.00%,30.000ms,3,10.000ms,9.0000ms,11.000ms,", "75.00%,30.000ms,3,", "line 2"),
        ("30.000ms", "30.000", "line 2"),
    ],
)
def test_damage_names_the_line(tmp_path, old, new, match):
    path = tmp_path / "d.csv"
    path.write_text(OLD.replace(old, new, 1))
    with pytest.raises(CollectError, match=match):
        nvprof.read(path)


@pytest.mark.parametrize("name", ["trace", *(pytest.param(one, marks=pytest.mark.slow) for one in SUMMARIES)])
def test_cut_anywhere(tmp_path, name):
    data = (SUMMARIES | {"trace": TRACE})[name].encode()
    path = tmp_path / "cut.csv"
    path.write_bytes(data)
    whole = nvprof.read(path)
    for at in range(0, len(data), 2):
        path.write_bytes(data[:at])
        try:
            frame = nvprof.read(path)
        except CollectError:
            continue
        same = whole.iloc[: len(frame)]
        assert frame["kernel"].tolist() == same["kernel"].tolist()
        assert np.array_equal(frame["time"], same["time"])
        if name != "trace":
            assert np.array_equal(frame["instances"], same["instances"])
            assert len(frame) == len(whole)


@pytest.mark.skipif(not SHARED.exists(), reason="recorded exports are not here")
def test_recorded_summary():
    frame = collectors.read(SHARED)
    assert frame["instances"].tolist() == [45, 150, 150, 10]
    assert frame["time"][0] == pytest.approx(12.052e-3)
    assert (frame["time"] * frame["instances"]).sum() == pytest.approx(1134.77e-3, rel=1e-3)


def test_a_row_without_a_type_is_of_the_section_above_it(tmp_path):
    path = tmp_path / "log.csv"
    rows = ('"GPU activities",60.00%,3.0000ms', ",40.00%,2.0000ms", '"API calls",90.00%,9.0000ms', ",10.00%,1.0000ms")
    names = ("axpy(int)", "[CUDA memset]", "cudaLaunchKernel", "cudaFree")
    text = "".join(f'{row},1,1.0000ms,1.0000ms,1.0000ms,"{name}"\n' for row, name in zip(rows, names, strict=True))
    path.write_text(f"Type,Time(%),Time,Calls,Avg,Min,Max,Name\n{text}")
    assert nvprof.read(path)["kernel"].tolist() == ["axpy(int)", "[CUDA memset]"]


def test_what_is_cut_behind_the_rows_of_the_gpu_loses_none(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(
        "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
        " GPU activities:  100.00%  3.0000ms         1  3.0000ms  3.0000ms  3.0000ms  axpy(int)\n"
        "      API calls:   99.00%  9.0000ms         1  9.0000ms  9.0000ms  9.0000ms  cudaMal"
    )
    assert nvprof.read(path)["kernel"].tolist() == ["axpy(int)"]
    path.write_text(path.read_text().partition("\n      API")[0])
    with pytest.raises(CollectError, match="cut"):
        nvprof.read(path)


KERNELS = "start, end, deviceId, streamId, correlationId, gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread, name"


def database(path: Path) -> Path:
    """What `nvprof -o` writes, without what is not read."""
    copies = "start, end, deviceId, streamId, correlationId, bytes"
    with sqlite3.connect(path) as base:
        base.executescript(f"""
            CREATE TABLE StringTable (_id_, value);
            INSERT INTO StringTable VALUES (1, 'Tesla T4'), (2, '_Z6vecAddPdS_'), (3, '_Z3addIfEvPT_'), (4, '_ZN2at1kEv');
            CREATE TABLE CUPTI_ACTIVITY_KIND_DEVICE (id, name, computeCapabilityMajor, computeCapabilityMinor,
                numMultiprocessors, l2CacheSize, globalMemorySize);
            INSERT INTO CUPTI_ACTIVITY_KIND_DEVICE VALUES (0, 1, 7, 5, 40, 4194304, 15843721216);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({KERNELS});
            CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ({KERNELS});
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
                (1600000000000009000, 1600000000000009100, 0, 7, 4, 1, 1, 1, 32, 1, 1, 8, 4);
            INSERT INTO CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL VALUES
                (1600000000000002000, 1600000000000004500, 0, 7, 2, 16, 2, 1, 256, 1, 1, 20, 2),
                (1600000000000005000, 1600000000000005001, 0, 13, 3, 1, 1, 1, 32, 1, 1, 8, 3);
            CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY ({copies}, copyKind);
            INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1600000000000000000, 1600000000000001000, 0, 7, 1, 4096, 1);
            CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET ({copies}, value);
            INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (1600000000000006000, 1600000000000006001, 0, 7, 5, 64, 0);
            CREATE TABLE CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER (counterKind, value, start, end, srcId, dstId, streamId);
            INSERT INTO CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER VALUES
                (2, 65536, 1600000000000007000, 1600000000000008000, 0, 0, -1), (4, 3, 1600000000000007000, 0, 0, 0, -1);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (processId);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (77), (77);
            CREATE TABLE CUPTI_ACTIVITY_KIND_METRIC (id, value);
        """)
    base.close()
    return path


@pytest.mark.parametrize("name", ["theirs.nvvp", "theirs.nvprof"])
def test_a_database_of_nvprof(tmp_path, name):
    frame = validate(read(database(tmp_path / name)))
    copies = "[CUDA memcpy Host-to-Device]", "[CUDA memset]", "[CUDA Unified Memory memcpy Device-to-Host]"
    assert frame["kernel"].tolist() == [copies[0], "vecAdd", "_Z3addIfEvPT_", *copies[1:], "_ZN2at1kEv"]
    assert frame["kind"].tolist() == ["memcpy", "kernel", "kernel", "memset", "memcpy", "kernel"]
    assert frame["start"].tolist() == pytest.approx([0, 2e-6, 5e-6, 6e-6, 7e-6, 9e-6], abs=1e-15)
    assert frame.attrs["caveats"] == []
    assert frame["time"].tolist() == pytest.approx([1e-6, 2.5e-6, 1e-9, 1e-9, 1e-6, 1e-7], abs=1e-15)
    assert frame["bytes"].dropna().tolist() == [4096, 64, 65536]
    assert frame["grid"][1] == "16,2,1"
    assert frame["registers"].tolist() == pytest.approx([np.nan, 20, 8, np.nan, np.nan, 8], nan_ok=True)
    assert (set(frame["device"]), set(frame["cc"]), set(frame["process"])) == ({"Tesla T4"}, {"7.5"}, {"77"})
    assert frame.attrs["devices"][0]["sms"] == 40
    with sqlite3.connect(tmp_path / name) as base:
        base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_METRIC VALUES (1280, 0), (1281, 0)")
    base.close()
    counted = validate(read(tmp_path / name))
    assert [one.how_much for one in counted.attrs["caveats"]] == ["2 values"]
    assert "start" not in counted


def test_a_database_of_nvprof_without_work_or_cut_is_refused(tmp_path):
    path = database(tmp_path / "x.nvvp")
    whole = path.read_bytes()
    with sqlite3.connect(path) as base:
        for table in ("KERNEL", "CONCURRENT_KERNEL", "MEMCPY", "MEMSET", "UNIFIED_MEMORY_COUNTER"):
            base.execute(f"DELETE FROM CUPTI_ACTIVITY_KIND_{table}")
    base.close()
    with pytest.raises(CollectError, match="no GPU work"):
        read(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CollectError):
        read(path)
