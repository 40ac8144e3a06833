"""nsys stats reports -> frames: every version's header, mixed stdout, nulls, encodings, partial captures."""

import codecs
import re
from pathlib import Path

import numpy as np
import pytest
from frames import validate
from hypothesis import given, settings
from hypothesis import strategies as st
from nsys_exports import Nvtx, Op, gpu_trace, kern_sum, kern_sum_text, pushpop_trace, stdout

from collectors import CollectError, nsys
from collectors.nsys import frames
from collectors.nsys.launches import shapes
from collectors.nsys.reports import REPORTS, kind_of

SHARED = Path(__file__).parents[3] / "shared" / "data" / "nsys"
LONG = "void gemm<float, (int)4, std::array<char *, 3>>(const T1 *, T2)"
OPS = [
    Op(1000, 500, "[CUDA memcpy Host-to-Device]", kind="memcpy", bytes=40),
    Op(2000, 1500, LONG, grid=(64, 2, 1), block=(128, 1, 1), registers=96),
    Op(4000, 700),
    Op(5000, 300, "relu"),
]


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("version", ["2022.4", "2023.4"])
def test_trace_gives_one_row_a_launch(tmp_path, version):
    frame = validate(nsys.read(write(tmp_path / "any name.txt", gpu_trace(OPS, version))))
    assert frame["kernel"].tolist() == [op.name for op in OPS]
    assert frame["kind"].tolist() == ["memcpy", "kernel", "kernel", "kernel"]
    assert frame["bytes"].iloc[0] == 40  # 0.000 MB is not zero bytes: the rate still tells
    assert frame["bytes"].iloc[1:].isna().all()
    assert frame["time"].tolist() == [5e-7, 1.5e-6, 7e-7, 3e-7]
    assert frame["start"].tolist() == [1e-6, 2e-6, 4e-6, 5e-6]
    assert frame["grid"].tolist() == ["", "64,2,1", "16,1,1", "16,1,1"]
    assert frame["block"].tolist() == ["", "128,1,1", "256,1,1", "256,1,1"]
    assert frame["device"].unique().tolist() == ["NVIDIA H200"]
    assert frame["stream"].unique().tolist() == ["7"]
    assert np.isnan(frame["registers"][0])
    assert frame["registers"][1] == 96


ODD = {
    "names with commas, quotes and newlines": lambda text: text.replace("relu", 'a "b", c<d>\nsecond line'),
    "names beyond ASCII": lambda text: text.replace("relu", "größe_核"),
    "numbers as names": lambda text: text.replace("relu", "1e3"),
    "None for nothing": lambda text: text.replace(",,", ",None,"),
    "a byte order mark": lambda text: "\ufeff" + text,
    "Windows' ends of lines": lambda text: text.replace("\n", "\r\n"),
    "spaces round numbers": lambda text: text.replace("1500", " 1500 "),
    "a sign": lambda text: text.replace("1500", "+1500"),
    "hexadecimal": lambda text: text.replace("1500", "0x5dc"),
    "an underscore": lambda text: text.replace("1500", "1_500"),
    "more digits than a number holds": lambda text: text.replace("1500", "12345678901234567890123"),
    "separated thousands": lambda text: text.replace("1500", '"1,500"'),
    "a field missing": lambda text: text.replace("1500,", ""),
    "a field too many": lambda text: text.replace("1500", "1500,1500"),
    "an empty line": lambda text: text.replace("\n", "\n\n", 2),
    "the last newline missing": lambda text: text.removesuffix("\n"),
    "the last row cut": lambda text: text[:-9],
    "the last row cut behind a comma": lambda text: text[: text.rindex(",") + 1],
    "an open quote": lambda text: text.replace("relu", '"relu'),
    "bytes that are no text": lambda text: text.replace("relu", "\udcff"),
    "no row": lambda text: text.splitlines(keepends=True)[0],
}


def _told(path):
    """What comes of a file: its frame with all it carries, or why there is none."""
    try:
        frame = nsys.FORMAT.read(path)
    except CollectError as error:
        return str(error)
    return frame.to_dict("list"), [str(kind) for kind in frame.dtypes], repr(frame.attrs)


@pytest.mark.parametrize("odd", ODD)
def test_a_parser_tells_of_odd_tables_what_reading_row_by_row_does(tmp_path, monkeypatch, odd):
    path = tmp_path / "t.csv"
    path.write_bytes(ODD[odd](gpu_trace(OPS)).encode(errors="surrogateescape"))
    quickly = _told(path)
    monkeypatch.setattr(frames, "_quick", lambda *_: None)
    np.testing.assert_equal(quickly, _told(path))


def test_a_trace_that_is_read_in_parts_is_whole_and_can_be_changed(tmp_path, monkeypatch):
    text = gpu_trace([Op(1000 * at, 500, LONG, grid=(at % 9 + 1, 2, 1)) for at in range(1, 6000)], "2023.4")
    assert len(text) > 2 * (1 << 18)
    with monkeypatch.context() as patched:
        patched.setattr(frames, "_exact", None)
        frame = validate(nsys.read(write(tmp_path / "a.csv", text)))
    assert frame["kernel"].tolist() == [LONG] * 5999
    assert frame["grid"].tolist() == [f"{at % 9 + 1},2,1" for at in range(1, 6000)]
    frame.loc[0, ["start", "time", "registers"]] = 1.0
    assert frame.loc[0, ["start", "time", "registers"]].tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(CollectError, match="line 5001"):
        nsys.read(write(tmp_path / "b.csv", text.replace("5000000,500,", "5000000,", 1)))


def test_text_among_the_numbers_of_a_long_trace_names_its_line(tmp_path, recwarn):
    head, *rows = gpu_trace([Op(1000 * at, 500, "k") for at in range(1, 5)], "2023.4").splitlines(keepends=True)
    with pytest.raises(CollectError, match=r"line 40002, column 'Duration .ns.': expected a number, found 'x5'"):
        nsys.read(write(tmp_path / "a.csv", "".join([head, *rows * 10_000, rows[0].replace(",500,", ",x5,")])))
    assert not recwarn.list


@pytest.mark.parametrize("unknown", [np.nan, -1])
@pytest.mark.parametrize("at", range(3))
def test_a_shape_without_one_side_is_unknown(unknown, at):
    sides = [[4.0, 4.0, 4.0, 2**31 - 1], [2.0, 3.0, 2.0, 65535], [1.0, 1.0, 1.0, 65535]]
    sides[at][1] = unknown
    assert list(shapes(*sides)) == ["4,2,1", "", "4,2,1", "2147483647,65535,65535"]


def test_streams_of_two_devices_stay_apart(tmp_path):
    ops = [Op(1000, 100), Op(1000, 100, device=1)]
    frame = nsys.read(write(tmp_path / "t.csv", gpu_trace(ops)))
    assert frame["stream"].tolist() == ["0:7", "1:7"]
    assert frame["device"].unique().tolist() == ["NVIDIA H200"]


@pytest.mark.parametrize("version", ["2021.1", "2023.4"])
def test_summary_rows_stand_for_instances(tmp_path, version):
    ops = [Op(0, 100), Op(200, 300), Op(600, 1000, LONG)]
    frame = validate(nsys.read(write(tmp_path / "k.csv", kern_sum(ops, version))))
    assert frame["instances"].tolist() == [1, 2]
    assert frame["time"].tolist() == [1e-6, 2e-7]
    assert frame.attrs["report"] == "kern_sum"


def test_aligned_text_with_grouped_numbers(tmp_path):
    ops = [Op(0, 3_481_709), Op(4_000_000, 182_472, "relu")]
    path = write(tmp_path / "log.txt", kern_sum_text(ops))
    assert nsys.sniff(path.read_text(), path)
    frame = nsys.read(path)
    assert frame["kernel"].tolist() == ["axpy(float *, int)", "relu"]
    assert (frame["time"] * frame["instances"]).tolist() == [3.481709e-3, 1.82472e-4]
    notes = f"# Notes\n\n```\n$ nsys stats r.nsys-rep\n{path.read_text().rstrip()}\n```\n\nThat was all.\n"
    assert nsys.read(write(tmp_path / "notes.md", notes))["kernel"].tolist() == ["axpy(float *, int)", "relu"]


def test_2022_summary_with_shapes_and_range_names(tmp_path):
    text = (
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),GridXYZ,BlockXYZ,Name\n"
        '60.0,600,2,300.0,300.0,300,300,0.0,1024    1   40, 128    1    1,"Step 1/2/f<(int)4>(int)"\n'
        "40.0,400,1,400.0,400.0,400,400,0.0,   1  512    1,  32   16    1,g\n"
    )
    frame = nsys.read(write(tmp_path / "k.csv", text))
    assert frame["grid"].tolist() == ["1024,1,40", "1,512,1"]
    assert frame["range"].tolist() == ["Step 1/2", ""]
    assert frame["kernel"].tolist() == ["f<(int)4>(int)", "g"]


def test_division_is_not_a_range(tmp_path):
    ops = [Op(0, 10, "void operator/(T1, T2)"), Op(20, 10, "f<a/b>(int)")]
    frame = nsys.read(write(tmp_path / "k.csv", kern_sum(ops)))
    assert set(frame["range"]) == {""}


def test_stdout_of_several_reports(tmp_path):
    text = stdout(
        ("nvtx_sum", "SKIPPED: r.sqlite does not contain NV Tools Extension (NVTX) data.\n"),
        ("cuda_gpu_kern_sum", kern_sum(OPS[1:])),
        ("cuda_gpu_trace", gpu_trace(OPS)),
    )
    path = write(tmp_path / "out.txt", text)
    assert nsys.sniff(text, path)
    frame = nsys.read(path)
    assert frame.attrs["report"] == "gpu_trace"
    assert any("NVTX" in one.what for one in frame.attrs["caveats"])


def test_kernels_and_copies_of_a_stdout_are_one_frame(tmp_path):
    memory = (
        "Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation\n"
        "100.0,500,2,250.0,250.0,200,300,0.0,[CUDA memcpy Host-to-Device]\n"
    )
    parts = (("cuda_gpu_kern_sum", kern_sum(OPS[1:])), ("cuda_gpu_mem_time_sum", memory))
    frame = validate(nsys.read(write(tmp_path / "out.txt", stdout(*parts))))
    assert frame["kind"].tolist() == ["kernel", "kernel", "kernel", "memcpy"]
    assert frame["launch"].tolist() == [0, 1, 2, 3]


def test_all_skipped_is_an_error_with_the_reason(tmp_path):
    text = stdout(("cuda_gpu_trace", "SKIPPED: r.sqlite does not contain CUDA kernel data.\n"))
    with pytest.raises(CollectError, match="does not contain CUDA kernel data"):
        nsys.read(write(tmp_path / "out.txt", text))


def test_an_error_line_is_a_caveat(tmp_path):
    text = stdout(("cuda_gpu_trace", gpu_trace(OPS)), ("x", "ERROR: Report 'gpukernsums' could not be found.\n"))
    path = write(tmp_path / "out.txt", text)
    assert any("gpukernsums" in one.what for one in nsys.read(path).attrs["caveats"])


def test_report_without_kernels_is_refused_with_what_it_holds(tmp_path):
    path = write(tmp_path / "p.csv", pushpop_trace([Nvtx(0, 10, "a")]))
    with pytest.raises(CollectError, match="nvtx_pushpop_trace, from which no launches are read") as caught:
        nsys.read(path)
    assert caught.value.rows == 1


def test_a_blank_line_inside_a_trace_loses_no_launch(tmp_path):
    rows = gpu_trace(OPS).splitlines(keepends=True)
    for end in ("\n", "\r\n"):
        path = write(tmp_path / "t.csv", "".join([*rows[:3], "\n", *rows[3:]]).replace("\n", end))
        assert nsys.read(path)["kernel"].tolist() == [op.name for op in OPS]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings_of_windows(tmp_path, encoding):
    name = "нагрузка(int)"
    text = gpu_trace([*OPS, Op(9000, 100, name)]).replace("\n", "\r\n")
    path = write(tmp_path / "t.csv", text, encoding)
    frame = nsys.read(path)
    assert frame["kernel"].tolist()[-1] == name
    assert len(frame) == 5
    assert not path.read_bytes().startswith(codecs.BOM_UTF8) or encoding == "utf-8-sig"


def test_recordings_name_the_command(tmp_path):
    path = write(tmp_path / "r.nsys-rep", "binary")
    with pytest.raises(CollectError) as caught:
        nsys.read(path)
    assert "nsys export --type sqlite r.nsys-rep" in caught.value.fix
    with pytest.raises(CollectError, match="is empty"):
        nsys.read(write(tmp_path / "e.csv", ""))


def test_thousands_separators_are_settled_or_refused(tmp_path):
    clear = re.sub(r"3481709(\.0)?", r'"3,481,709\1"', kern_sum([Op(0, 3_481_709)]))
    assert nsys.read(write(tmp_path / "a.csv", clear))["time"].tolist() == [3.481709e-3]
    header = "Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name\n"
    with pytest.raises(CollectError, match="thousand"):
        nsys.read(write(tmp_path / "b.csv", header + '100,"1,234",1,"1,234","1,234","1,234",k\n'))


@pytest.mark.parametrize(
    ("at", "damage", "said"),
    [
        (2, lambda row, _: row[:30] + "\n", "line 3"),
        (2, lambda row, after: row[:-2] + after, "line 3"),
        (2, lambda row, after: row[: len(row) // 2] + after, "line 3"),
        (3, lambda row, _: row.rsplit(",", 3)[0] + "\n", "line 4"),
        (2, lambda row, _: row.replace("gemm", 'ge"mm'), "line 3"),
        (2, lambda row, _: row.replace("1500", "nan"), "without time"),
        (3, lambda row, _: row.replace("700,", "7x0,", 1), r"line 4.*Duration.*7x0"),
        (3, lambda row, _: row.replace(",700,", ",,", 1), "without time"),
    ],
)
def test_damaged_rows_name_the_line(tmp_path, at, damage, said):
    lines = gpu_trace(OPS).splitlines(keepends=True)
    glued = damage(lines[at], "") != damage(lines[at], lines[at + 1])
    path = write(tmp_path / "a.csv", "".join([*lines[:at], damage(lines[at], lines[at + 1]), *lines[at + 1 + glued :]]))
    with pytest.raises(CollectError, match=said):
        nsys.read(path)


def test_times_without_unit_are_caveats(tmp_path):
    text = "Time(%),Total Time,Instances,Average,Minimum,Maximum,Name\n100.0,500,1,500.0,500,500,k\n"
    frame = nsys.read(write(tmp_path / "k.csv", text))
    assert frame["time"].tolist() == [5e-7]
    assert any("no unit" in one.what for one in frame.attrs["caveats"])
    other = gpu_trace([Op(5, 70)]).replace("(ns)", "(us)")
    assert nsys.read(write(tmp_path / "t.csv", other))["time"].tolist() == [7e-5]


def test_headers_belong_to_one_report():
    assert kind_of(("Start (ns)", "Nothing (ns)", "Name")) == ""
    for kind, cells in REPORTS.items():
        assert kind_of(tuple(cells)) in (kind, ""), kind  # "" where old and new names of a column are both given


def test_missing_shares_are_noticed(tmp_path):
    ops = [Op(0, 600), Op(0, 400, "relu")]
    text = kern_sum(ops)
    lost = text[: text.rindex("40.0")]
    path = write(tmp_path / "k.csv", lost)
    with pytest.raises(CollectError, match=r"60\.0%"):
        nsys.read(path)


# ---- cut anywhere ------------------------------------------------------------------------------------------------


def outcome(path: Path):
    try:
        return nsys.read(path)
    except CollectError:
        return None


def check_cut(path: Path, data: bytes, at: int, whole) -> None:
    """A cut export is refused, or its rows are the first rows of the whole one."""
    path.write_bytes(data[:at])
    frame = outcome(path)
    if frame is None:
        return
    same = whole.iloc[: len(frame)]
    assert frame["kernel"].tolist() == same["kernel"].tolist(), at
    for column in ("time", "start", "instances"):
        if column in frame:
            assert np.array_equal(frame[column], same[column]), (at, column)
    for column in ("grid", "block", "device", "stream"):
        if column in frame:
            assert frame[column].tolist() == same[column].tolist(), (at, column)
    on_row = at == len(data) or data[at - 1 : at] == b"\n" or data[:at].endswith(b"]") or data[:at].endswith(b"\r")
    assert on_row or frame.attrs["caveats"], at


FEW = [OPS[0], Op(7000, 10, 'said "x, y", z')]
EXPORTS = {
    "trace": gpu_trace(FEW),
    "trace 2022": gpu_trace(FEW[1:] + FEW[:1], "2022.4"),
    "summary": kern_sum(OPS[1:]),
    "summary 2021": kern_sum(FEW, "2021.1"),
    "text": kern_sum_text(FEW),
    "stdout": stdout(("cuda_gpu_trace", gpu_trace(FEW[:1])), ("nvtx_sum", "SKIPPED: no NVTX data.\n")),
}


@pytest.mark.parametrize("name", EXPORTS)
@pytest.mark.parametrize("step", [11, pytest.param(2, marks=pytest.mark.slow)])
def test_cut_anywhere(tmp_path, name, step):
    data = EXPORTS[name].encode()
    path = tmp_path / "cut.csv"
    path.write_bytes(data)
    whole = nsys.read(path)
    for at in range(0, len(data), step):
        check_cut(path, data, at, whole)


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1).filter(
    lambda text: text.strip() == text and text not in ("None",) and not text.startswith(":") and "/" not in text
)
GENERATED = st.builds(
    Op,
    start=st.integers(0, 10**12),
    time=st.integers(1, 10**10),
    name=NAMES,
    grid=st.tuples(*[st.integers(1, 2**31 - 1)] * 3),
    stream=st.integers(0, 99),
)


@settings(max_examples=25, deadline=None)
@given(ops=st.lists(GENERATED, min_size=1, max_size=6), version=st.sampled_from(["2022.4", "2023.4"]), data=st.data())
def test_read_of_write_is_the_same_and_no_cut_misreads(tmp_path_factory, ops, version, data):
    path = tmp_path_factory.mktemp("fuzz") / "t.csv"
    text = gpu_trace(ops, version).encode()
    path.write_bytes(text)
    whole = nsys.read(path)
    assert whole["kernel"].tolist() == [op.name for op in ops]
    assert whole["time"].tolist() == [op.time / 1e9 for op in ops]
    assert whole["grid"].tolist() == [",".join(map(str, op.grid)) for op in ops]
    for _ in range(5):
        at = data.draw(st.integers(0, len(text)))
        check_cut(path, text, at, whole)


# ---- recorded exports --------------------------------------------------------------------------------------------

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="recorded exports are not here")
RECORDED = sorted(path.name for path in SHARED.glob("*") if path.suffix in (".csv", ".txt")) if SHARED.is_dir() else []


@needs_shared
@pytest.mark.parametrize("name", [name for name in RECORDED if "nvprof" not in name])
def test_recorded_exports_read_or_say_why(name):
    path = SHARED / name
    assert nsys.sniff(path.read_text()[: 1 << 18], path)
    if (frame := outcome(path)) is None:
        with pytest.raises(CollectError, match="from which no launches are read"):
            nsys.read(path)
        return
    validate(frame)
    if frame.attrs["report"] not in ("nvtx_kern_sum", "mem_time_sum"):
        total = (frame["time"] * frame.get("instances", 1))[frame["kind"] == "kernel"].sum()
        expected = {"a100": 1.831281e-3, "nsys_t4": 1.131742684, "h200": 1.873051e-3}
        assert total == pytest.approx(next(value for key, value in expected.items() if key in name), rel=1e-4)


STATS_2021 = """Generating CUDA Kernel Statistics...

Generating CUDA Memory Operation Statistics...
CUDA Kernel Statistics ({unit})

Time(%)  Total Time   Instances  Average  Minimum    Maximum  Name                
-------  ----------  ----------  -------  -------  ---------  --------------------
   75.0       90000           2  45000.0    40000      50000  conv_forward_kernel 
   25.0       30000           1  30000.0    30000      30000  relu                


CUDA Memory Operation Statistics ({unit})

Time(%)  Total Time  Operations     Average   Minimum   Maximum  Name              
-------  ----------  ----------  ----------  --------  --------  ------------------
  100.0    89602913           2  44801456.5  41565528  48037385  [CUDA memcpy HtoD]


CUDA Memory Operation Statistics (KiB)

   Total  Operations   Average     Minimum   Maximum  Name              
--------  ----------  --------  ----------  --------  ------------------
538906.0           2  269453.0  250000.000  288906.0  [CUDA memcpy HtoD]

"""  # noqa: W291


@pytest.mark.parametrize(("unit", "scale"), [("nanoseconds", 1e9), ("microseconds", 1e6)])
def test_the_unit_in_a_title_of_2021_counts(tmp_path, unit, scale):
    path = write(tmp_path / "out.txt", STATS_2021.format(unit=unit))
    frame = nsys.read(path)
    assert frame["kernel"].tolist() == ["conv_forward_kernel", "relu", "[CUDA memcpy HtoD]"]
    assert frame["time"].tolist() == [45000 / scale, 30000 / scale, 89602913 / 2 / scale]
    assert frame.attrs["caveats"] == []


def test_percents_that_were_cut_to_whole_ones_lose_no_rows(tmp_path):
    path = write(tmp_path / "out.txt", STATS_2021.format(unit="nanoseconds").replace("25.0  ", "24.0  "))
    assert nsys.read(path).attrs["caveats"] == []


def test_aligned_text_of_a_locale_with_decimal_commas(tmp_path):
    text = kern_sum_text([Op(0, 3_481_709), Op(4_000_000, 182_472, "relu")])
    head, ruler, rest = text.partition("-\n")
    swapped = rest.translate(str.maketrans(",.", ".,"))
    frame = nsys.read(write(tmp_path / "log.txt", head + ruler + swapped))
    assert (frame["time"] * frame["instances"]).tolist() == [3.481709e-3, 1.82472e-4]
    mixed = rest.replace(".", ",", 1)
    with pytest.raises(CollectError, match="one locale"):
        nsys.read(write(tmp_path / "mixed.txt", head + ruler + mixed))


def test_a_row_that_stands_twice_makes_more_than_the_whole(tmp_path):
    text = kern_sum([Op(0, 100), Op(200, 300, "relu")])
    rows = text.splitlines(keepends=True)
    path = write(tmp_path / "k.csv", "".join([*rows, rows[-1]]))
    with pytest.raises(CollectError, match="stand here twice"):
        nsys.read(path)
