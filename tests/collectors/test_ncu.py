import math
from pathlib import Path

import pandas as pd
import pytest
from exports import Dialect, Launch, write
from frames import validate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import collectors
from collectors import CollectError
from collectors.ncu import read, sniff

TIME, BYTES = "gpu__time_duration.sum", "dram__bytes.sum"
CLOCK, OCCUPANCY = "sm__cycles_elapsed.avg.per_second", "sm__warps_active.avg.pct_of_peak_sustained_active"
SASS = "sm__sass_thread_inst_executed_op_{}_pred_on.sum"


def launch(
    kernel: str = "relu(float *, long)", ns: float = 2687008, size: float = 396626176, **more: float | None
) -> Launch:
    metrics = {
        "device__attribute_clock_rate": 1980000.0,
        TIME: ns,
        BYTES: size,
        CLOCK: 1970778870.37,
        OCCUPANCY: 12.5,
        SASS.format("fadd"): 7.0,
        SASS.format("fmul"): 0.0,
        SASS.format("ffma"): 68736253952.0,
        **more,
    }
    return Launch(kernel, metrics, (("profkit", "S1"), ("profkit", "candidate"), ("profkit", "measure")))


TWO = (launch(), launch('gemm<"a", 4>(int, T2)', ns=48640, size=114729112))


def put(folder: Path, data: bytes, name: str = "x.csv") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def check(frame: pd.DataFrame, launches: tuple[Launch, ...], tolerance: float = 1e-9) -> None:
    validate(frame)
    assert frame["kernel"].tolist() == [one.kernel for one in launches]
    for name, metric, factor in (("time", TIME, 1e-9), ("dram_bytes", BYTES, 1.0), ("occupancy", OCCUPANCY, 0.01)):
        expected = [math.nan if one.metrics[metric] is None else one.metrics[metric] * factor for one in launches]
        assert frame[name].tolist() == pytest.approx(expected, rel=tolerance, abs=tolerance, nan_ok=True)


DIALECTS = {
    "as profkit records": Dialect(),
    "no nvtx": Dialect(nvtx=False),
    "coloured ranges": Dialect(coloured=True),
    "en_US": Dialect(locale="en_US"),
    "de_DE": Dialect(locale="de_DE"),
    "fr_FR": Dialect(locale="fr_FR"),
    "fr_FR, no-break spaces": Dialect(locale="fr_nbsp"),
    "auto units": Dialect(auto=True),
    "auto units, two number styles": Dialect(auto=True, locale="en_US"),
    "auto units, old names": Dialect(auto=True, long_units=True),
    "auto units, de_DE": Dialect(auto=True, locale="de_DE"),
    "old names": Dialect(long_units=True),
    "instances": Dialect(instances=True),
    "Windows": Dialect(newline="\r\n", encoding="utf-8-bom"),
    "PowerShell": Dialect(newline="\r\n", encoding="utf-16"),
    "program output around": Dialect(
        before=("hello", '"quoted"', "==PROF== Connected to process 7 (x)", "1,2,3"),
        between=("step 1: 50%", "==PROF== Disconnected from process 9"),
        after=("done",),
    ),
    "words among the metrics": Dialect(extra={"launch__func_cache_config": "CachePreferNone", "c2clink__present": "0"}),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_raw_page(tmp_path, name):
    dialect = DIALECTS[name]
    frame = read(put(tmp_path, write(TWO, dialect)))
    check(frame, TWO, 1e-5 if dialect.auto else 1e-9)
    assert frame["flop_fp32"].tolist() == [137472507911.0] * 2
    assert frame["grid"].tolist() == ["16,32,1"] * 2
    assert frame["cc"].tolist() == ["9.0"] * 2
    assert frame["process"].tolist() == ["4711"] * 2
    assert frame["impl"].tolist() == (["candidate"] * 2 if dialect.nvtx else ["", ""])
    assert frame["range"].tolist() == (["S1/candidate/measure"] * 2 if dialect.nvtx else ["", ""])
    assert frame.attrs["caveats"] == []


@pytest.mark.parametrize("locale", ["C", "en_US", "de_DE", "fr_FR"])
@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("body", [False, True])
def test_details_page(tmp_path, locale, auto, body):
    rules = (("SOLBottleneck", "OPT", 'Look at "memory", it is slow.'),)
    dialect = Dialect(page="details", locale=locale, auto=auto, body_labels=body, rules=rules)
    frame = read(put(tmp_path, write(TWO, dialect)))
    check(frame, TWO, 5e-3 if auto else 1e-9)
    assert [one.what for one in frame.attrs["caveats"]] == ["the details page rounds to two decimals of a scaled unit"]


@pytest.mark.parametrize("missing", ["n/a", "", "no data", "(!) n/a"])
def test_missing_values_are_nan(tmp_path, missing):
    launches = (TWO[0], launch(**{SASS.format("fmul"): None}))
    for page in ("raw", "details"):
        frame = read(put(tmp_path, write(launches, Dialect(page=page, missing=missing))))
        assert frame["flop_fp32"].notna().tolist() == [True, False]


def test_a_table_without_a_metric_leaves_nan(tmp_path):
    lean = Launch("lean", {"device__attribute_clock_rate": 1980000.0, TIME: 10.0})
    frame = read(put(tmp_path, write(TWO, Dialect()) + write((lean,), Dialect())))
    assert frame["dram_bytes"].notna().tolist() == [True, True, False]


def test_output_without_a_line_end_before_header_and_row(tmp_path):
    data = write(TWO, Dialect(before=()))
    glued = b"progress 10%" + data.replace(b'"1","4711"', b'working..."1","4711"')
    check(read(put(tmp_path, glued)), TWO)


def test_no_row_of_units_is_a_caveat(tmp_path):
    frame = read(put(tmp_path, write(TWO, Dialect(units_row=False))))
    check(frame, TWO)
    assert frame.attrs["caveats"][0].what == "the export has no row of units"


def test_an_unknown_unit_leaves_the_metric_out_with_a_caveat(tmp_path):
    data = write(TWO, Dialect()).replace(b'"byte"', b'"furlong"')
    frame = read(put(tmp_path, data))
    assert frame["dram_bytes"].isna().all()
    assert "furlong" in frame.attrs["caveats"][0].what


def test_numbers_that_could_be_read_two_ways_are_refused(tmp_path):
    only = Launch("k", {TIME: 84480.0})
    for page in ("raw", "details"):
        path = put(tmp_path, write((only,), Dialect(page=page, locale="de_DE")))
        with pytest.raises(CollectError, match=r"84\.480"):
            read(path)


def test_two_locales_in_one_file_are_refused(tmp_path):
    path = put(tmp_path, write(TWO, Dialect(locale="de_DE")) + write(TWO, Dialect(locale="en_US")))
    with pytest.raises(CollectError, match="one locale"):
        read(path)


def test_a_word_in_a_counter_names_the_field(tmp_path):
    path = put(tmp_path, write(TWO, Dialect()).replace(b'"2687008"', b'"oops"'))
    with pytest.raises(CollectError, match=r"gpu__time_duration\.sum.*oops"):
        read(path)


@pytest.mark.parametrize(
    ("ranges", "impl", "path"),
    [
        ((), "", ""),
        (
            (("<default domain>", "outer"), ("<default domain>", "case:gemm_fp32")),
            "case:gemm_fp32",
            "outer/case:gemm_fp32",
        ),
        ((("profkit", "S1/ICVXKH"),), "", "S1/ICVXKH"),
        ((("profkit", "s"), ("profkit", "reference"), ("torch", "aten::mm")), "reference", "s/reference/aten::mm"),
    ],
)
@pytest.mark.parametrize("coloured", [False, True])
def test_ranges_and_implementation(tmp_path, ranges, impl, path, coloured):
    one = Launch("k", launch().metrics, ranges)
    frame = read(put(tmp_path, write((one,), Dialect(coloured=coloured))))
    assert frame["impl"].tolist() == [impl]
    assert frame["range"].tolist() == [path]


def test_the_applications_failure_is_a_caveat_when_the_table_is_whole(tmp_path):
    dialect = Dialect(before=("==ERROR== The application returned an error code (11).",))
    frame = read(put(tmp_path, write(TWO, dialect)))
    check(frame, TWO)
    assert "error code (11)" in frame.attrs["caveats"][0].what
    assert any(one.code == "ncu-target" for one in frame.attrs["caveats"])


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", "ERR_NVGPUCTRPERM", "CAP_SYS_ADMIN"),
        ("==ERROR== The application returned an error code (3).\n", r"error code \(3\)", "without ncu"),
        ("==WARNING== No kernels were profiled.\nAvailable Kernels:\n1. gemm\n", "saw: gemm", "filters"),
        ("==PROF== Connected to process 7 (x)\n", "breaks off before its CSV", "again"),
        (
            '==PROF== Profiling "k": 0%....100% - 1 pass\n==WARNING== Backing up device memory in system memory.\n'
            "==ERROR== The application returned an error code (1).\n==PROF== Report: /home/x/a b.ncu-rep\n",
            "wrote them into a b.ncu-rep",
            "give that file",
        ),
        ("==ERROR== ERR_NVGPUCTRPERM\n==PROF== Report: C:\\\\x\\\\a.ncu-rep\n", "ERR_NVGPUCTRPERM", "as root"),
        ('==PROF== Profiling "k" - 0: 0%....100% - 1 pass\nk\n  Section: X\n', "text page", "--csv"),
    ],
)
def test_no_table_gives_the_reason_and_the_fix(tmp_path, text, message, fix):
    path = put(tmp_path, text.encode())
    with pytest.raises(CollectError, match=message) as caught:
        collectors.read(path)
    assert str(path) in str(caught.value)
    assert fix in caught.value.fix


def test_a_table_without_launches_is_refused(tmp_path):
    with pytest.raises(CollectError, match="no launches"):
        read(put(tmp_path, write((), Dialect())))


def test_fewer_rows_than_ncu_counted(tmp_path):
    lines = tuple(f'==PROF== Profiling "k" - {i}: 0%....50%....100% - 1 pass' for i in range(3))
    path = put(tmp_path, write(TWO, Dialect(before=lines)))
    with pytest.raises(CollectError, match="profiled 3 launches, the file has 2"):
        read(path)
    assert len(read(path, partial=True)) == 2


def test_nul_bytes_at_the_end_are_a_file_not_written(tmp_path):
    path = put(tmp_path, write(TWO, Dialect()) + b"\0" * 512)
    with pytest.raises(CollectError, match="NUL"):
        read(path)
    assert len(read(path, partial=True)) == 2


@pytest.mark.parametrize("place", [b'","7","(', b'","1147291', b'"python3', b',"python3', b", T2)", b'"1","4711"'])
def test_a_row_broken_by_other_output_is_refused(tmp_path, place):
    data = write(TWO, Dialect())
    middle = data.rindex(place) + 1
    path = put(tmp_path, data[:middle] + b"\nprogram says hi\n" + data[middle:])
    with pytest.raises(CollectError, match=r"line \d+"):
        read(path)


def test_bytes_that_are_no_text_do_not_stop_it(tmp_path):
    data = write((launch("caf\N{LATIN SMALL LETTER E WITH ACUTE}"),), Dialect())
    frame = read(put(tmp_path, data.replace("\N{LATIN SMALL LETTER E WITH ACUTE}".encode(), b"\xe9")))
    assert frame["kernel"][0] == "caf\N{REPLACEMENT CHARACTER}"


SUMMARY_PAGE = """==PROF== Profiling "k" - 0: 0%....100% - 9 passes
==PROF== Profiling "k" - 1: 0%....100% - 9 passes
[77] a.out@127.0.0.1
  {above}k(int, long) (4, 1, 1)x(256, 1, 1){beside}, Invocations 2
    Section: GPU Speed Of Light Throughput
    ----------------------- ------------- -------- -------- --------
    Metric Name               Metric Unit  Minimum  Maximum  Average
    ----------------------- ------------- -------- -------- --------
    Duration                           us     1.50     2.50     2.00
    Memory Throughput                   %    10.00    50.00    30.00
    ----------------------- ------------- -------- -------- --------

    Section: Launch Statistics
    ----------- --------------- --------- --------- ---------
    Metric Name     Metric Unit   Minimum   Maximum   Average
    ----------- --------------- --------- --------- ---------
    Threads              thread  1,024.00  1,024.00  1,024.00
    ----------- --------------- --------- --------- ---------
"""
SUMMARY_HEAD = [
    *("Kernel Name", "Block Size", "Grid Size", "Device", "CC", "Invocations", "Section Name", "Metric Name"),
    *("Metric Unit", "Minimum", "Maximum", "Average"),
]
SUMMARY_CELLS = ("k(int, long)", "(256, 1, 1)", "(4, 1, 1)", "0", "8.6", "2", "GPU Speed")
SUMMARY_METRICS = [
    ("Duration", "us", "1.50", "2.50", "2.00"),
    ("Memory Throughput", "%", "10.00", "50.00", "30.00"),
    ("Threads", "thread", "1,024.00", "1,024.00", "1,024.00"),
]


def summary_csv(head, *cells):
    rows = [[*head, *SUMMARY_HEAD], *([*cells, *SUMMARY_CELLS, *metric] for metric in SUMMARY_METRICS)]
    return "==PROF== Connected\n" + "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)


OF_PROCESS = ("Process ID", "Process Name", "Host Name")
OF_RANGE = ("Domain", "Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg")
NESTED = ' ""run:none:none:RGB:0xff00ff00:ASCII:run""  ""check:none:none:none:none:none:none"" '


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        (SUMMARY_PAGE.format(above="", beside=", Device 0, CC 8.6"), ""),
        (SUMMARY_PAGE.format(above="Device 0, CC 8.6\n    ", beside=""), ""),
        (summary_csv(OF_PROCESS, "77", "a.out", "127.0.0.1"), ""),
        (summary_csv(OF_RANGE, "<default domain>", NESTED), "run/check"),
    ],
    ids=["kernel", "gpu", "csv", "nvtx"],
)
def test_a_summary_stands_for_many_launches_and_says_that_it_averages(tmp_path, text, ranges):
    frame = collectors.read(put(tmp_path, text.encode()))
    (row,) = frame.to_dict("records")
    assert (row["kernel"], row["instances"], row["range"]) == ("k(int, long)", 2, ranges)
    assert (row["grid"], row["block"], row["device"], row["cc"]) == ("4,1,1", "256,1,1", "0", "8.6")
    assert (row["time"], row["memory_throughput"], row["threads"]) == (pytest.approx(2e-6), pytest.approx(0.3), 1024)
    assert any("averages over the launches of a kernel" in one.what for one in frame.attrs["caveats"])


@pytest.mark.parametrize("place", ["8.6", "Metric Unit", "2.50", "30.0"])
def test_a_summary_that_is_cut_is_refused(tmp_path, place):
    page = SUMMARY_PAGE.format(above="", beside=", Device 0, CC 8.6")
    for text in (page, summary_csv(OF_PROCESS, "77", "a.out", "127.0.0.1")):
        with pytest.raises(CollectError):
            collectors.read(put(tmp_path, text[: text.index(place) + 2].encode()))


def test_labels_of_the_details_page(tmp_path):
    head = ["ID", *OF_PROCESS, "Kernel Name", "Kernel Time", "Context", "Stream", "Section Name", "Metric Name"]
    head += ["Metric Unit", "Metric Value", "Rule Name", "Rule Type", "Rule Description"]
    who = ["0", "7", "a.out", "127.0.0.1", "k", "2022-Nov-21 15:45:04", "1", "7"]
    values = [
        ("GPU Speed Of Light Throughput", "Memory Throughput", "%", "25.77"),
        ("GPU Speed Of Light", "SM [%]", "%", "68.36"),
        ("GPU Speed Of Light", "SOL TEX", "%", "11.33"),
        ("GPU Speed Of Light Throughput", "L2 Cache Throughput", "%", "30.89"),
        ("GPU Speed Of Light", "Memory Frequency", "cycle/nsecond", "5.01"),
        ("GPU Speed Of Light Throughput", "Duration", "second", "2.50"),
        ("Memory Workload Analysis", "L1 Hit Rate", "%", "87.50"),
        ("Memory Workload Analysis", "Memory Throughput", "Gbyte/second", "367.14"),
        ("Launch Statistics", "Static Shared Memory Per Block", "byte/block", "48"),
        ("Launch Statistics", "Dynamic Shared Memory Per Block", "Kbyte/block", "1.02"),
        ("Launch Statistics", "Driver Shared Memory Per Block", "byte/block", "0"),
        ("Launch Statistics", "Function Cache Configuration", "", "cudaFuncCachePreferNone"),
        ("Occupancy", "Achieved Occupancy", "%", "80.59"),
    ]
    lines = [",".join(f'"{cell}"' for cell in head)]
    lines += [",".join(f'"{cell}"' for cell in (*who, *value)) + "," for value in values]
    path = put(tmp_path, ("\n".join(lines) + "\n").encode())
    (row,) = read(path).to_dict("records")
    shares = {
        "memory_throughput": 0.2577,
        "compute_throughput": 0.6836,
        "l1_throughput": 0.1133,
        "l2_throughput": 0.3089,
    }
    wanted = {**shares, "dram_clock": 5.01e9, "l1_hit_rate": 0.875, "shared_memory": 1068.0, "occupancy": 0.8059}
    assert {name: row[name] for name in wanted} == pytest.approx(wanted)
    assert (row["dram_bytes"], row["cc"]) == (pytest.approx(2.5 * 367.14e9), "")


def test_sniff_by_content(tmp_path):
    assert sniff("progress\n==PROF== Connected to process 7 (x)\n", put(tmp_path, b"x"))
    assert not sniff("==1234== NVPROF is profiling process 1234\n", put(tmp_path, b"x"))
    check(collectors.read(put(tmp_path, write(TWO, Dialect(encoding="utf-16")), "strange.name")), TWO)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(CollectError, match="does not exist"):
        collectors.read(tmp_path / "nope.csv")
    with pytest.raises(CollectError, match="directory"):
        collectors.read(tmp_path)
    with pytest.raises(CollectError, match="no format"):
        collectors.read(put(tmp_path, b"x"), format="vtune")


NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\n\r\x85\u2028\u2029", exclude_categories=("Cs",)), min_size=1
)
RANGES = st.text(st.sampled_from('abc:/_ <>,é"').filter(lambda char: char != '"'), min_size=1).filter(str.strip)
VALUES = st.one_of(st.none(), st.integers(0, 10**13).map(float))


@st.composite
def some_launches(draw):
    count = draw(st.integers(1, 4))
    ranges = st.lists(st.tuples(st.sampled_from(["profkit", "<default domain>"]), RANGES), max_size=3).map(tuple)
    return tuple(
        Launch(draw(NAMES), launch(ns=draw(VALUES), size=draw(VALUES)).metrics, draw(ranges)) for _ in range(count)
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    some_launches(),
    st.builds(
        Dialect,
        page=st.sampled_from(["raw", "details"]),
        locale=st.sampled_from(["C", "en_US", "de_DE", "fr_FR", "fr_nbsp"]),
        coloured=st.booleans(),
        long_units=st.booleans(),
        missing=st.sampled_from(["n/a", "", "no data"]),
        newline=st.sampled_from(["\n", "\r\n"]),
        encoding=st.sampled_from(["utf-8", "utf-8-bom", "utf-16"]),
        between=st.sampled_from([(), ("==PROF== x", "out, put", "")]),
    ),
)
def test_reading_undoes_writing(tmp_path, launches, dialect):
    frame = read(put(tmp_path, write(launches, dialect)))
    check(frame, launches)
    assert frame["range"].tolist() == ["/".join(name for _, name in one.ranges) for one in launches]


def test_a_time_below_0_is_refused_and_another_counter_given_a_caveat(tmp_path):
    with pytest.raises(CollectError, match="launch 1 has a negative time"):
        read(put(tmp_path, write((launch(), launch(ns=-5.0)), Dialect())))
    (caveat,) = read(put(tmp_path, write((launch(size=-5.0),), Dialect()))).attrs["caveats"]
    assert (caveat.what, caveat.how_much) == ("counters below 0, or shares above 100 %", "dram_bytes -5")
