"""ncu's text pages: what a terminal shows and course notes hold."""

import pytest

from collectors import CollectError, read, sniffed

NEW = """==PROF== Connected to process 4711 (/usr/bin/python3)
==PROF== Profiling "relu" - 0: 0%....50%....100% - 10 passes
[4711] python3@127.0.0.1
  void relu<4>(int, T2) (864, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    DRAM Frequency                  Ghz         1.21
    Elapsed Cycles                cycle       15,606
    Duration                         us        14.46
    ----------------------- ----------- ------------

    OPT   Estimated Speedup: 50%
          This kernel exhibits low throughput.
          ----- --------------------- --------------------
          Metric Name Value Guidance
          ----- --------------------- --------------------
          x     99.9                  make it less
          ----- --------------------- --------------------

    Section: Launch Statistics
    ----------------------- --------------- ------------
    Metric Name                 Metric Unit Metric Value
    ----------------------- --------------- ------------
    Registers Per Thread    register/thread           38
    ----------------------- --------------- ------------

"""
OLD = """[9] a.out@127.0.0.1
  scale(float*, int), 2021-Mar-03 10:11:12, Context 1, Stream 13
    Section: GPU Speed Of Light
    ---------------------- --------------- ------------------
    Duration                       usecond               2.50
    ---------------------- --------------- ------------------

  scale(float*, int), 2021-Mar-03 10:11:12, Context 1, Stream 13
    Section: GPU Speed Of Light
    ---------------------- --------------- ------------------
    Duration                       msecond               1.25
    ---------------------- --------------- ------------------

"""


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_launch_with_the_metrics_of_its_sections(tmp_path, wrapped):
    path = tmp_path / "notes.txt"
    path.write_text(NEW.replace("T2) (864", "T2)\n  (864" if wrapped else "T2) (864"))
    assert sniffed(NEW, path).name == "ncu"
    row = read(path).iloc[0]
    told = [row[name] for name in ("kernel", "grid", "block", "cc", "process", "stream")]
    assert told == ["void relu<4>(int, T2)", "864,1,1", "256,1,1", "8.0", "4711", "7"]
    assert row["time"] == pytest.approx(14.46e-6)
    assert row["dram_clock"] == pytest.approx(1.21e9)
    assert row["registers"] == 38
    path.write_text(NEW.replace("Elapsed Cycles ", "sm__x.sum      "))
    assert "sm__x.sum" in read(path).attrs["untaken"]


@pytest.mark.parametrize(("name", "read_as"), [("scale(", "scale("), ("unnamed>::scale(", "<unnamed>::scale(")])
def test_the_pages_of_2021_have_no_titles(tmp_path, name, read_as):
    path = tmp_path / "notes.txt"
    path.write_text(OLD.replace("scale(", name))
    assert sniffed(OLD, path).name == "ncu"
    frame = read(path)
    assert frame["kernel"].tolist() == [f"{read_as}float*, int)"] * 2
    assert frame["time"].tolist() == pytest.approx([2.5e-6, 1.25e-3])
    assert frame["launch"].tolist() == [0, 1]


@pytest.mark.parametrize("indent", ["", "    ", "\t"])
def test_a_page_in_a_fence_of_a_list(tmp_path, indent):
    path = tmp_path / "notes.md"
    page = "".join(f"{indent}{line.removeprefix('  ')}\n" for line in NEW.split("\n"))
    path.write_text(f"- I ran it:\n\n{indent}```\n{page}{indent}```\n\nand so on\n")
    row = read(path).iloc[0]
    assert (row["kernel"], row["time"]) == ("void relu<4>(int, T2)", pytest.approx(14.46e-6))


@pytest.mark.parametrize("text", [NEW, OLD], ids=["titles", "no titles"])
def test_a_page_cut_in_a_table_is_refused(tmp_path, text):
    path = tmp_path / "cut.txt"
    path.write_text(text)
    whole = read(path)
    for at in range(text.index("Duration"), len(text), 5):
        path.write_text(text[:at])
        try:
            found = read(path)
        except CollectError:
            continue
        assert found["time"].tolist() == whole["time"].tolist()[: len(found)]
