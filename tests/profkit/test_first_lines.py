"""What is read first of an import holds for the numbers below it: totals, what binds, and what nobody could look for."""

import csv
import json
from pathlib import Path

import pytest
from synthetic_runs import make_run

from profkit.cli.group import invoke
from profkit.record.importing import import_files
from profkit.report.layout import column
from profkit.report.messages import in_each
from profkit.report.page.data import data_of, shown_of
from profkit.report.sections import answer, method, tables
from profkit.report.writers import markdown
from profkit.rundir.directory import open_run
from profkit.study.study import Study

RECORDED = Path(__file__).parents[2] / "examples/h200/ICGRMS"
NVTX_HEADER = (
    "NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),"
    "Kernel Name"
)
KERNEL_HEADER = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"


def nvtx_row(path, count, each, kernel):
    return f":{path},PushPop,1,1,1,{count},{count * each},{each},{each},{each},{each},0,{kernel}"


@pytest.fixture
def nested(tmp_path):
    """40 launches of a kernel in a loop, each counted once more in one of two parts of it, and one launch in no range."""
    file = tmp_path / "sum.csv"
    rows = [("loop", 40, 100, "gemm"), ("one", 30, 100, "gemm"), ("two", 10, 100, "gemm"), ("two", 5, 20, "relu")]
    lines = [NVTX_HEADER, *(nvtx_row(*row) for row in rows)]
    file.write_text("\n".join(lines) + "\n")
    return Study(import_files([file], tmp_path / "run").run)


def test_a_kernel_counted_under_every_range_round_it_is_not_added_up(nested):
    (first,) = answer.first_lines(nested)
    assert first.startswith("at least 45 launches of 2 kernels, at least 4.10 us of GPU time; hottest: gemm, 97.6%")
    (chinese,) = in_each(lambda: answer.first_lines(nested))[1]
    assert "2 个 kernel 共执行 45 次" in chinese
    assert "GPU 时间至少 4.10 us" in chinese
    told = {row[0]: row[-1] for row in tables.parts_table(nested).rows}
    assert told == {"loop": "97.6%", "one": "73.2%", "two": "26.8%"}
    assert {row["share"] for row in data_of(shown_of(nested))["kernels"] if row["impl"] == "loop"} == {0.97561}
    # Where the time goes is that of the longest range, which it says.
    assert "| loop: GPU time of its launches | 4.00 | 100% |" in markdown.report(nested)


def basic(folder, share, *, kernel="copy", time=50_000):
    """What `ncu --csv` prints of its basic set: no bytes, no FLOP, ncu's own share of DRAM's peak."""
    header = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size"]
    header += ["Grid Size", "Device", "CC", "gpu__time_duration.sum"]
    header += ["gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"]
    units = [""] * (len(header) - 2) + ["ns", "%"]
    row = ["0", "1", "app", "host", kernel, "1", "7", "(256, 1, 1)", "(4096, 1, 1)", "0", "8.6", str(time), str(share)]
    with (folder / "basic.csv").open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([header, units, row])
    return folder / "basic.csv"


@pytest.mark.parametrize(("share", "bound"), [(91.0, "dram"), (30.0, "unknown")])
def test_the_share_of_dram_that_ncu_gives_by_itself_places_a_kernel(tmp_path, capsys, share, bound):
    study = Study(import_files([basic(tmp_path, share)], tmp_path / "run").run)
    (kernel,) = study.kernels.to_dict("records")
    assert kernel["dram_fraction"] == pytest.approx(share / 100)
    assert kernel["bound_by"] == bound
    (first,) = answer.first_lines(study)
    assert first.endswith(", bound by dram") is (bound == "dram")
    assert invoke(["explain", str(study.path)]) == 0
    said = capsys.readouterr().out
    assert ("DRAM-bound: at 91% of the DRAM ceiling" in said) is (bound == "dram")
    assert ("no reason found so far; " in said) is (bound == "unknown")


def test_rules_that_could_not_look_are_no_rules_that_found_nothing(tmp_path, capsys):
    study = Study(import_files([basic(tmp_path, 30.0)], tmp_path / "run").run)
    assert invoke(["explain", str(study.path)]) == 0
    said = capsys.readouterr().out
    assert "rules lack counters" in said
    assert "no rule found a reason" not in said
    assert invoke(["explain", str(study.path), "--for", "agent"]) == 0
    then = json.loads(capsys.readouterr().out)["next"]
    assert "lack counters" in then
    assert "record counters first: profkit profile --ncu --deep -- COMMAND" in then
    page = tmp_path / "page.html"
    assert invoke(["report", str(study.path), "-o", str(page)]) == 0
    assert "rules lack counters" in page.read_text()
    assert "no rule found a reason" not in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("report", str(RECORDED), "-o", "report.pdf"), "written as .md, .html or .json"),
        (("compare", "a", "b", "--fail-on-regression", "5"), "'5' is 500%; write 5% for 5 %"),
        (("gate", "a", "b", "--fail-on-regression", "1"), "'1' is 100%"),
        (("profile", "a", "--budget", "-3"), "-3.0 is not in the range"),
        (("profile", "a", "--budget", "nan"), "'nan' is not finite"),
        (("profile", "a", "--time-limit", "0"), "0.0 is not in the range"),
        *((("mcp", "--seconds", one), "--seconds") for one in ("nan", "inf", "0.5")),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments, said, capsys):
    assert invoke(list(arguments)) == 2
    assert said in capsys.readouterr().err


def test_copies_alone_are_no_program_without_kernels(tmp_path):
    file = tmp_path / "copies.csv"
    header = KERNEL_HEADER.replace("Instances", "Count").replace("Name", "Operation")
    file.write_text(f"{header}\n100.0,5000,2,2500.0,2500.0,2000,3000,0,[CUDA memcpy Host-to-Device]\n")
    study = Study(import_files([file], tmp_path / "run").run)
    assert answer.first_lines(study) == ["no kernels in these exports: 2 memcpy, 5.00 us"]
    assert method.kernel_times_line(study).startswith("times: by Nsight Systems")
    assert "roofline.png" not in markdown.report(study)


def test_layers_without_times_are_told_of_the_export_that_has_them(tmp_path):
    layer = {"Name": "conv", "LayerType": "Convolution", "Inputs": [], "Outputs": []}
    (tmp_path / "layers.json").write_text(json.dumps({"Layers": [layer], "Bindings": []}))
    study = Study(import_files([tmp_path / "layers.json"], tmp_path / "run").run)
    assert answer.first_lines(study) == ["1 launch of 1 layer, no times recorded"]
    (caveat,) = [one for one in study.analysis.caveats if one.what == "not in this export: time"]
    assert "--exportProfile" in caveat.fix


def test_a_program_that_failed_is_told_in_the_first_line(tmp_path):
    file = basic(tmp_path, 30.0)
    file.write_text("==ERROR== The application returned an error code (11).\n" + file.read_text())
    study = Study(import_files([file], tmp_path / "run").run)
    (first,) = answer.first_lines(study)
    assert first.endswith("; the program ended with an error")


def test_a_lower_bound_of_the_work_is_one_of_the_intensity():
    rows = [{"intensity": 2.0, "flops_lower": True}, {"intensity": 3.0, "flops_lower": False}, {"flops_lower": True}]
    assert column("FLOP/B", rows, "intensity", "").cells == [">= 2.00", "3.00", "-"]


def test_what_does_an_import_again_names_every_file(tmp_path):
    layer = {"Name": "conv", "LayerType": "Convolution", "Inputs": [], "Outputs": []}
    (tmp_path / "layers.json").write_text(json.dumps({"Layers": [layer], "Bindings": []}))
    times = [{"count": 10}, {"name": "conv", "timeMs": 100.0, "averageMs": 10.0, "medianMs": 10.0, "percentage": 100}]
    (tmp_path / "profile.json").write_text(json.dumps(times))
    files = [tmp_path / "profile.json", tmp_path / "layers.json"]
    study = Study(import_files(files, tmp_path / "run").run)
    assert method.again(study) == "profkit import profile.json layers.json -o NEW"


def test_a_busy_host_excuses_gaps_between_kernels_and_no_kernel():
    run = open_run(RECORDED)
    run.manifest.timing.slower = 300.0
    assert Study(run).verdicts["cuda"].word == "faster"


@pytest.mark.parametrize(("seconds", "word"), [(2e-4, "inconclusive"), (2e-1, "faster")])
def test_a_thread_that_waits_for_a_core_waits_for_a_whole_slice(tmp_path, seconds, word):
    run = make_run(tmp_path, {"reference": 10 * seconds, "mine": seconds})
    run.manifest.device["kind"] = "cpu"
    run.manifest.timing.slower = 4.0
    run.manifest.timing.load = "CPU contention 97%"
    assert run.verdicts["mine"].word == word


def test_a_table_of_torch_that_leaves_kernels_out_says_of_how_much(tmp_path):
    titles = ("Name", "Self CPU", "CPU total", "Self CUDA", "Self CUDA %", "# of Calls")
    row = ("gemm_kernel", "0.000us", "0.000us", "3.000ms", "75.00%", "3")
    ruler = "  ".join(["-" * 14] * len(titles))
    lines = [ruler, *("  ".join(cell.rjust(14) for cell in cells) for cells in (titles,)), ruler]
    lines += ["  ".join(cell.rjust(14) for cell in row), ruler, "Self CPU time total: 5.000ms"]
    file = tmp_path / "table.txt"
    file.write_text("\n".join([*lines, "Self CUDA time total: 4.000ms", ""]))
    (first,) = answer.first_lines(Study(import_files([file], tmp_path / "run").run))
    told = "3.00 ms of GPU time, of 4.00 ms in total (25.0% not listed); hottest: gemm_kernel, 75.0%"
    assert first == f"3 launches of 1 kernel, {told}"
