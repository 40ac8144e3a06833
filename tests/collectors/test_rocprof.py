"""AMD's rocprof, of all versions: times, launch facts, and the counters that have a counterpart."""

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from frames import validate

from collectors import CollectError, read
from collectors.counters import COUNTERS

STATS = (
    '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'
    '"add(float*, int)",3,3000,1000,60.0\n"MEMORY_COPY_HOST_TO_DEVICE",1,2000,2000,40.0\n'
)
DATA = Path(__file__).parent.parent / "data" / "rocprof"
COUNTED = DATA / "v3_counter_collection.csv"


def test_a_dispatch_is_one_row_with_its_counters():
    frame = validate(read(COUNTED))
    assert frame["kernel"].tolist() == ["void add<float>(float*, float const*, int)", "gemm(float*)"]
    assert frame["time"].tolist() == [2.5e-4, 8e-4]
    assert frame["dram_read"].tolist() == [8192 * 1024, 2048 * 1024]
    assert frame["dram_write"].tolist() == pytest.approx([4096 * 1024, np.nan], nan_ok=True)
    assert frame["l2_hit_rate"].tolist() == pytest.approx([0.255, np.nan], nan_ok=True)
    assert frame["threads"].tolist() == [1048576, 65600]
    assert frame["registers"].tolist() == [8, 96]
    assert set(frame["tool"]) == {"rocprof"}
    assert set(frame["device"]) == {"4"}


def test_nothing_is_invented():
    """What AMD does not count as NVIDIA does stays out, and what it does count is given a caveat where it must be."""
    frame = read(COUNTED)
    known = {"time", "dram_read", "dram_write", "l2_hit_rate", "registers", "shared_memory", "threads", "block_size"}
    assert {name for name in frame if name in COUNTERS} == known
    assert [one.code for one in frame.attrs["caveats"]] == ["amd-fabric"]


def test_a_grid_counts_work_items_and_becomes_blocks():
    frame = read(DATA / "v3_kernel_trace.csv")
    assert frame["grid"].tolist() == ["16,4,1"] * 2
    assert frame["block"].tolist() == ["64,4,1"] * 2
    assert frame["start"].tolist() == [1e-6, 4e-6]
    assert frame["stream"].tolist() == ["3", "3"]


def test_the_table_of_version_1_has_a_column_a_counter():
    frame = read(DATA / "v1_results.csv")
    assert frame["kernel"].tolist() == ["copy_kernel(float*, float*, int, int)"]
    assert frame["time"].tolist() == [1.6416e-4]
    assert frame["dram_read"].tolist() == [65536 * 1024]


@pytest.mark.parametrize("file", sorted(DATA.glob("*.csv")), ids=lambda path: path.stem)
def test_a_cut_file_is_refused_or_has_its_first_rows(tmp_path, file):
    text, whole = file.read_text(), read(file)
    header = text.index("\n") + 1
    for at in range(header + 1, len(text), 7):
        (tmp_path / "cut.csv").write_text(text[:at])
        if not text[:at].endswith("\n"):
            with pytest.raises(CollectError, match="cut"):
                read(tmp_path / "cut.csv")
        else:
            assert (
                read(tmp_path / "cut.csv")["kernel"].tolist() == whole["kernel"].tolist()[: text[:at].count("\n") - 1]
            )


@pytest.mark.parametrize(
    ("was", "damage", "what"),
    [
        ("4096.000000", "4,096", "line 3: 20 fields"),
        ("4096.000000", "many", "line 3: WRITE_SIZE"),
        ("4096.000000", "1e999", "line 3: WRITE_SIZE"),
        ("4096.000000", "4_096", "line 3: WRITE_SIZE"),
        ("WRITE_SIZE", "FETCH_SIZE", "line 3: FETCH_SIZE of one dispatch"),
        ("317095767800000", "317095766800000", "line 5: ends before it starts"),
        ("317095766000000", "3.17096E+14", "a spreadsheet has rounded"),
    ],
)
def test_damage_names_its_line(tmp_path, was, damage, what):
    (tmp_path / "broken.csv").write_text(COUNTED.read_text().replace(was, damage))
    with pytest.raises(CollectError, match=what):
        read(tmp_path / "broken.csv")


def test_a_summary_has_a_row_a_kernel(tmp_path):
    path = tmp_path / "kernel_stats.csv"
    path.write_text(STATS)
    frame = validate(read(path))
    assert frame["kernel"].tolist() == ["add(float*, int)", "MEMORY_COPY_HOST_TO_DEVICE"]
    assert frame["kind"].tolist() == ["kernel", "memcpy"]
    assert frame["instances"].tolist() == [3, 1]
    assert frame["time"].tolist() == [1e-6, 2e-6]
    path.write_text("\n".join(STATS.splitlines()[:2]) + "\n")
    with pytest.raises(CollectError, match=r"60\.0% of the time"):
        read(path)
    path.write_text(STATS.replace("add(float*, int)", "hipLaunchKernel").replace("MEMORY_COPY", "hipMemcpy"))
    with pytest.raises(CollectError, match="lists no kernels"):
        read(path)


def test_counters_without_a_counterpart_are_named(tmp_path):
    (tmp_path / "a.csv").write_text(COUNTED.read_text().replace("WRITE_SIZE", "SQ_LDS_BANK_CONFLICT"))
    assert read(tmp_path / "a.csv").attrs["untaken"] == ["SQ_LDS_BANK_CONFLICT", "SQ_WAVES"]


def rocpd(path: Path) -> Path:
    """A database with the views of rocprofv3 that are read, as tables."""
    with sqlite3.connect(path) as base:
        base.executescript("""
            CREATE TABLE rocpd_info_agent (id, name, product_name);
            INSERT INTO rocpd_info_agent VALUES (2, 'gfx942', 'AMD Instinct MI300X');
            CREATE TABLE kernels (name, start, end, pid, agent_id, stream_id, queue_id, event_id, arch_vgpr_count, lds_size,
                grid_x, grid_y, grid_z, workgroup_x, workgroup_y, workgroup_z);
            INSERT INTO kernels VALUES ('gemm(float*)', 2000, 5000, 7, 2, 3, 1, 10, 96, 512, 1000, 4, 1, 256, 1, 1);
            CREATE TABLE memory_copies (name, start, end, pid, dst_agent_id, stream_id, queue_id, event_id, size);
            INSERT INTO memory_copies VALUES ('MEMORY_COPY_HOST_TO_DEVICE', 500, 1000, 7, 2, NULL, NULL, 9, 4096);
            CREATE TABLE pmc_events (event_id, name, value);
            INSERT INTO pmc_events VALUES (10, 'FETCH_SIZE', 8), (10, 'FETCH_SIZE', 4), (10, 'SQ_WAVES', 16);
        """)
    base.close()
    return path


def test_a_database_of_rocprofv3(tmp_path):
    frame = validate(read(rocpd(tmp_path / "results.db")))
    assert frame["kernel"].tolist() == ["MEMORY_COPY_HOST_TO_DEVICE", "gemm(float*)"]
    assert frame["kind"].tolist() == ["memcpy", "kernel"]
    assert frame["time"].tolist() == [5e-7, 3e-6]
    assert frame["grid"].tolist() == ["", "4,4,1"]
    assert frame["stream"].tolist() == ["", "3"]
    assert set(frame["device"]) == {"AMD Instinct MI300X"}
    assert frame["dram_read"].tolist() == pytest.approx([np.nan, 12 * 1024], nan_ok=True)
    assert frame.attrs["untaken"] == ["SQ_WAVES"]
    with sqlite3.connect(tmp_path / "results.db") as base:
        base.execute("UPDATE kernels SET end = 1")
    base.close()
    with pytest.raises(CollectError, match="ends before it starts"):
        read(tmp_path / "results.db")
    with sqlite3.connect(tmp_path / "results.db") as base:
        base.execute("UPDATE kernels SET start = 'soon'")
    base.close()
    with pytest.raises(CollectError, match="without its times"):
        read(tmp_path / "results.db")


def test_a_database_of_rocm_7_has_events_and_agents_in_the_table_below(tmp_path):
    path = tmp_path / "results.db"
    with sqlite3.connect(path) as base:
        base.executescript("""
            CREATE TABLE rocpd_info_agent (id, name, product_name);
            INSERT INTO rocpd_info_agent VALUES (4, 'gfx942', 'AMD Instinct MI300X');
            CREATE TABLE rocpd_kernel_dispatch (id, guid, agent_id, event_id, pid);
            INSERT INTO rocpd_kernel_dispatch VALUES (1, 'g', 4, 10, 99), (2, 'g', 4, 20, 99);
            CREATE TABLE kernels (id, guid, name, start, end, pid, stream_id, queue_id, vgpr_count);
            INSERT INTO kernels VALUES (1, 'g', 'gemm', 2000, 5000, 7, 3, 1, 96), (2, 'g', 'add', 6000, 7000, 7, 3, 1, 8);
            CREATE TABLE pmc_events (event_id, name, counter_name, counter_value);
            INSERT INTO pmc_events VALUES (10, 'gemm', 'FETCH_SIZE', 8), (10, 'gemm', 'FETCH_SIZE', 4), (20, 'add', 'SQ_WAVES', 1);
        """)
    base.close()
    frame = validate(read(path))
    assert set(frame["device"]) == {"AMD Instinct MI300X"}
    assert set(frame["process"]) == {"7"}
    assert frame["registers"].tolist() == [96, 8]
    assert frame["dram_read"].tolist() == pytest.approx([12 * 1024, np.nan], nan_ok=True)
    assert frame.attrs["untaken"] == ["SQ_WAVES"]


def test_counters_that_are_columns_are_named_and_facts_are_not(tmp_path):
    (tmp_path / "a.csv").write_text(
        "Index,KernelName,gpu-id,queue-id,queue-index,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,fbar,sig,obj,"
        "SQ_INSTS_LDS,TCC_MISS[0],VALUBusy,DispatchNs,BeginNs,EndNs,CompleteNs\n"
        '0,"k.kd",0,0,0,9,1024,256,0,0,8,4,32,6464,0x0,0x7f,12,3,50.5,1,2,5,6\n'
    )
    assert read(tmp_path / "a.csv").attrs["untaken"] == ["SQ_INSTS_LDS", "TCC_MISS[0]", "VALUBusy"]


def test_a_summary_of_version_1_does_not_quote_names_and_fills_are_no_kernels(tmp_path):
    path = tmp_path / "results.stats.csv"
    path.write_text(
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'
        "void f<A, B(int)#1}, C<1, 2> >(A const&, int),3,3000,1000,60.0\nFillBuffer,1,2000,2000,40.0\n"
    )
    frame = validate(read(path))
    assert frame["kernel"].tolist() == ["void f<A, B(int)#1}, C<1, 2> >(A const&, int)", "FillBuffer"]
    assert frame["kind"].tolist() == ["kernel", "memset"]
    assert frame["instances"].tolist() == [3, 1]
    path.write_text(
        STATS.replace("add(float*, int)", "KERNEL_DISPATCH").replace("MEMORY_COPY_HOST_TO_DEVICE", "HIP_API")
    )
    with pytest.raises(CollectError, match="calls or of domains"):
        read(path)


def dispatch(number: int, start: int, end: int, kernel: int = 1) -> dict[str, object]:
    handles = {"agent_id": {"handle": 902}, "queue_id": {"handle": 4}}
    sizes = {"workgroup_size": {"x": 256, "y": 1, "z": 1}, "grid_size": {"x": 1000, "y": 4, "z": 1}}
    info = {**handles, "kernel_id": kernel, "dispatch_id": number, "group_segment_size": 512, **sizes}
    return {"start_timestamp": start, "end_timestamp": end, "dispatch_info": info, "stream_id": {"handle": 3}}


def counted(of: dict[str, object], *values: tuple[int, float]) -> dict[str, object]:
    return {"dispatch_data": of, "records": [{"counter_id": {"handle": one}, "value": value} for one, value in values]}


def results(**changes: object) -> dict[str, object]:
    """What `rocprofv3 --output-format json` writes of a process, without what is not read."""
    agents = [
        {"id": {"handle": 901}, "type": 1, "name": "cpu", "product_name": "EPYC"},
        {"id": {"handle": 902}, "type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X"},
    ]
    symbols = [(0, ""), (1, "gemm(float*)"), (2, "add_kernel.kd")]
    copy = {"kind": 1, "operation": 2, "start_timestamp": 6000, "end_timestamp": 6500, "bytes": 4096}
    ends = {"dst_agent_id": {"handle": 901}, "src_agent_id": {"handle": 902}}
    kinds = [
        {"kind": "NONE", "operations": []},
        {"kind": "MEMORY_COPY", "operations": ["NONE", "H2D", "DEVICE_TO_HOST"]},
    ]
    tool = {
        "metadata": {"pid": 7},
        "agents": agents,
        "counters": [{"id": {"handle": 31}, "name": "FETCH_SIZE"}, {"id": {"handle": 32}, "name": "SQ_WAVES"}],
        "strings": {"buffer_records": kinds},
        "kernel_symbols": [{"kernel_id": of, "formatted_kernel_name": name} for of, name in symbols],
        "callback_records": {
            "counter_collection": [counted(dispatch(1, 2000, 5000), (31, 8.0), (31, 4.0), (32, 16.0))]
        },
        "buffer_records": {
            "kernel_dispatch": [dispatch(1, 2000, 5000), dispatch(2, 5000, 5250, 2)],
            "memory_copy": [{**copy, **ends}],
        },
    }
    return {"rocprofiler-sdk-tool": [{**tool, **changes}]}


def test_a_json_of_rocprofv3(tmp_path):
    file = tmp_path / "7_results.json"
    file.write_text(json.dumps(results()))
    frame = validate(read(file))
    assert frame["kernel"].tolist() == ["gemm(float*)", "add_kernel", "DEVICE_TO_HOST"]
    assert frame["kind"].tolist() == ["kernel", "kernel", "memcpy"]
    assert frame["time"].tolist() == [3e-6, 2.5e-7, 5e-7]
    assert frame["grid"].tolist() == ["4,4,1", "4,4,1", ""]
    assert frame["shared_memory"].tolist() == pytest.approx([512, 512, np.nan], nan_ok=True)
    assert frame["bytes"].tolist() == pytest.approx([np.nan, np.nan, 4096], nan_ok=True)
    assert (set(frame["device"]), set(frame["process"])) == ({"AMD Instinct MI300X"}, {"7"})
    assert frame["dram_read"].tolist() == pytest.approx([12 * 1024, np.nan, np.nan], nan_ok=True)
    assert frame.attrs["untaken"] == ["SQ_WAVES"]
    assert [one.code for one in frame.attrs["caveats"]] == ["amd-fabric"]


def test_a_json_of_counters_alone_and_of_two_processes(tmp_path):
    """Without --kernel-trace a dispatch stands in its counters alone; processes number their dispatches each from 1."""
    both = results(buffer_records={"kernel_dispatch": []})
    both["rocprofiler-sdk-tool"] += results(metadata={"pid": 8}, callback_records={})["rocprofiler-sdk-tool"]
    (tmp_path / "results.json").write_text(json.dumps(both))
    frame = validate(read(tmp_path / "results.json"))
    assert frame["process"].tolist().count("8") == 3
    assert sorted(frame["kernel"]) == ["DEVICE_TO_HOST", "add_kernel", "gemm(float*)", "gemm(float*)"]
    assert frame["dram_read"].notna().sum() == 1
    copies = {"memory_copy": results()["rocprofiler-sdk-tool"][0]["buffer_records"]["memory_copy"]}
    (tmp_path / "results.json").write_text(json.dumps(results(buffer_records=copies, callback_records={})))
    assert validate(read(tmp_path / "results.json"))["kind"].tolist() == ["memcpy"]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"kernel_symbols": []}, "a record without 1"),
        ({"buffer_records": {"kernel_dispatch": [dispatch(1, 9, 3)]}}, "ends before it starts"),
        ({"buffer_records": {}, "callback_records": {}}, "no kernels and no copies"),
        ({"callback_records": {"counter_collection": [counted(dispatch(1, 1, 2), (32, 1.0))] * 2}}, "SQ_WAVES"),
    ],
)
def test_a_json_that_lacks_something_is_refused(tmp_path, changes, match):
    (tmp_path / "results.json").write_text(json.dumps(results(**changes)))
    with pytest.raises(CollectError, match=match):
        read(tmp_path / "results.json")


def test_a_json_that_is_cut_is_refused(tmp_path):
    text = json.dumps(results())
    for end in range(40, len(text) - 1, 97):
        (tmp_path / "results.json").write_text(text[:end])
        with pytest.raises(CollectError):
            read(tmp_path / "results.json")
