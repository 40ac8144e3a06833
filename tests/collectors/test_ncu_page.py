"""ncu's text pages and messages, and exports that profkit recorded."""

from pathlib import Path

import pytest

from collectors import CollectError, read, sniffed
from collectors.counters import counter_set
from collectors.frame import uncollected
from collectors.ncu.log import diagnose, profiled, reason

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


MESSAGES = {
    "permission": "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance "
    "Counters on the target device 0.",
    "busy": "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool (like DCGM) "
    "is concurrently collecting profiling data.",
    "sandbox": "==ERROR== Failed to initialize the profiler: LibraryNotLoaded",
    "lock": "==ERROR== Failed to open/create lock file /tmp/nsight-compute-lock",
    "launch": "==ERROR== LaunchFailed",
    "memory": "==ERROR== Failed to allocate 8589934592 bytes of memory for saving device state.",
    "backup": "==WARNING== Backing up device memory in system memory. Kernel replay might be slow. Consider using "
    '"--replay-mode application" to avoid memory save-and-restore.',
    "no kernels": "==WARNING== No kernels were profiled.",
    "target": "==ERROR== The application returned an error code (11).",
    "metrics": "==WARNING== Unable to access the following 2 metrics: a__b.sum, c__d.sum.",
    "metric": "==ERROR== Failed to find metric sm__throughput",
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_known_messages_have_a_kind_and_a_fix(kind):
    (found,) = diagnose(f"noise\n{MESSAGES[kind]}\nmore noise\n{MESSAGES[kind]}")
    assert found.kind == kind
    assert found.fix
    assert found.message in MESSAGES[kind]


def test_unknown_tagged_lines_are_kept_and_prof_lines_are_not():
    found = diagnose("==PROF== Connected to process 7 (x)\n==ERROR== Something new.\n==WARNING== Careful.")
    assert [(one.kind, one.message, one.level) for one in found] == [
        ("error", "Something new.", "error"),
        ("warning", "Careful.", "warning"),
    ]


@pytest.mark.parametrize(
    "line", ["Out of memory", "OutOfMemory: tried to allocate 2 GB", "Failed to allocate memory", "error: LaunchFailed"]
)
def test_what_the_program_says_itself_is_no_message_of_ncu(line):
    assert diagnose(f"==PROF== Connected to process 7 (x)\n{line}\n") == []
    assert len(diagnose(f"{line}\nloss 0.5==ERROR== {line}\n")) == 1


CLOCKS = "==WARNING== Note: Running with unmodified GPU clocks. If not controlled otherwise, ..."


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        (f"{MESSAGES['target']}\n{MESSAGES['no kernels']}\n{MESSAGES['permission']}", "permission"),
        # The export breaks off: nothing later says why.
        (f"==PROF== Profiling 1: 0%\n{MESSAGES['backup']}\n", "backup"),
        (CLOCKS, None),
    ],
)
def test_the_best_reason_is_the_one_to_fix_first(log, kind):
    best = reason(diagnose(log))
    assert (best.kind if best is not None else None) == kind


def test_profiled_counts_launches_once():
    line = '==PROF== Profiling "k" - {}: 0%....50%....100% - 1 pass'
    assert profiled("\n".join([line.format(0), line.format(1), line.format(1)])) == 2
    assert profiled("") == 0


@pytest.mark.parametrize("kind", ["launch", "memory", "backup"])
def test_what_replay_needs_names_the_ways_round_it(kind):
    best = reason(diagnose(MESSAGES[kind]))
    assert best is not None
    assert all(way in best.fix for way in ("--replay-mode application", "fewer metrics", "input smaller"))


DATA = Path(__file__).parents[1] / "data/ncu"


def recorded(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not recorded")
    return path


@pytest.mark.parametrize("name", ["h200_default.csv", "h200_suffixes.csv"])
def test_the_default_set(name):
    frame = read(recorded(name))
    assert set(frame["impl"]) == {"reference", "candidate"}
    assert frame["device"].unique().tolist() == ["NVIDIA H200"]
    assert frame["cc"].unique().tolist() == ["9.0"]
    assert frame["passes"].max() <= 8
    assert uncollected(frame, counter_set("default")) == ("l2_write",)  # asked for since; these pages are older
    assert frame.attrs["caveats"] == []


def test_a_matrix_product_is_counted_exactly():
    gemm = read(recorded("h200_default.csv")).iloc[0]
    assert gemm["op_tensor_bf16"] == 2 * 4096**3
    assert 0.7 < gemm["op_tensor_bf16"] / gemm["time"] / gemm["peak_tensor_bf16"] < 1.0
    assert gemm["peak_dram_bw"] == pytest.approx(4812e9, rel=1e-3)
