"""Sentences that earlier reports got wrong, each provoked by the recorded file that provoked it, and what is said now."""

import csv
import html
import io
import json
import math
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from recorded import opened

from analyzers.rules.findings import examine
from analyzers.rules.rule import HINT, TIME
from analyzers.rules.subjects import WHOLE, program_subjects
from analyzers.timeline.budget import budget
from collectors.frame import host_of
from collectors.kineto import read
from profkit.cli.group import invoke
from profkit.report.derived import document
from profkit.report.dialects import agent, pr
from profkit.report.explain import gain, headline, in_order
from profkit.report.explain import text as explained
from profkit.report.messages import in_each, speaking
from profkit.report.page.data import shown_of
from profkit.report.page.run import page
from profkit.report.sections import answer, caveats, method, tables
from profkit.report.waterfall import wall_blocks
from profkit.report.writers import terminal
from profkit.report.writers.markdown import report
from profkit.study.study import open_study
from roofline.figure.style import places

pytestmark = pytest.mark.xdist_group("recorded")
ROOT = Path(__file__).resolve().parent.parent
SAMPLES = sorted(path for path in (ROOT / "examples/h200").iterdir() if path.is_dir())
LADDER = ROOT / "examples/transformer_ladder/runs"
DATA = Path(__file__).resolve().parent / "data"
RUNS = sorted(file.parent for root in (ROOT / "examples", DATA) for file in root.rglob("run.json"))
TRACES = sorted((DATA / "kineto").glob("*.trace.json.gz"))


def first_line(study, impl):
    return next(line for line in answer.first_lines(study) if line.startswith((f"{impl}: ", f"{impl}：")))


def test_a_kernel_as_short_as_a_launch_is_not_hundreds_of_lower_bounds_away():
    """Said before: 218x the lower bound of the algorithm, up to 98.5 %."""
    study = opened(ROOT / "examples/h200/ICMTNY")
    row = study.analysis.impl("cuda")
    assert row["time"] < 2e-6
    assert row["lower_bound_bound_by"] == "launch"
    assert row["lower_bound_ratio"] < 2
    assert "1.93x the lower bound" in first_line(study, "cuda")
    for one in study.findings():
        if one.impl == "cuda" and one.severity == TIME:
            assert one.upper_bound <= row["time"] - row["lower_bound_time"]
    assert not [caveat for caveat in study.analysis.caveats if caveat.code == "lower-bound-without-launch"]


def test_stores_that_take_eight_sectors_for_one_are_named():
    """Said before: latency, and nothing else."""
    study = opened(ROOT / "examples/h200/ICJTRP")
    assert first_line(study, "ori").endswith("bound by latency (access is not coalesced)")
    assert in_each(lambda: first_line(study, "ori"))[1].endswith("（访存未合并）")
    mine = [one for one in study.findings() if one.impl == "ori"]
    assert "writes to L2 are 8x the bytes of the output" in mine[0].title
    assert "latency" not in {one.rule for one in mine}


@pytest.mark.parametrize("run", RUNS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_no_finding_promises_more_than_lies_above_the_lower_bound_and_none_overlap(run):
    """Said before: 44 us to win, 41 us above the lower bound. Every run that was recorded on a GPU and is kept here."""
    study = opened(run)
    told = study.waterfalls
    assert set(told) == {part.name for part in study.parts if part.row is not None and part.row["time"] > 0} != set()
    for name, one in told.items():
        assert one.time == study.analysis.impl(name)["time"]
        assert sum(part.seconds for part in one.slices) == pytest.approx(one.time, rel=1e-9)
        assert min(part.seconds for part in one.slices) > 0
        room = one.time - (0.0 if math.isnan(one.lower_bound) else one.lower_bound)
        mine = [finding for finding in study.findings() if finding.impl == name and finding.severity == TIME]
        assert all(0 <= finding.win <= finding.upper_bound <= room * (1 + 1e-9) for finding in mine)
        assert sum(finding.win for finding in mine) <= room * (1 + 1e-9)


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name.partition("_")[0])
def test_the_blocks_of_a_programs_step_add_up_and_no_win_passes_its_idle_and_copying(trace):
    """The same of the recorded programs: the lower bound of a step is its computing, but for what its short kernels waste."""
    frame = read(trace)
    one = budget(frame, host=host_of(frame))
    found = [f for f in examine(program_subjects({"": one}), {}) if f.severity == TIME]
    for most in (0, 8):
        mine = wall_blocks(one, WHOLE, found, most=most)
        assert sum(block.seconds for block in mine) == pytest.approx(one.step, rel=1e-9)
        assert mine[-1].top - mine[-1].seconds == pytest.approx(0.0, abs=1e-9)
    assert sum(f.win for f in found) <= one.step - (one.computing - one.tiny) / one.parts + 1e-12
    named = sum(hole.seconds for hole in one.named)
    assert named <= (one.idle - one.queued - one.unknown) * (1 + 1e-9)
    assert one.named[0].seconds > 0.5 * named


def test_a_product_without_a_column_of_additions_is_a_lower_bound_and_not_nothing(tmp_path, capsys):
    """Said before: 0 FLOP/s, latency, of an imported FP32 product whose FFMA counter reads 68,736,253,952."""
    rows = list(csv.reader(io.StringIO(exported())))
    ffma = rows[0].index("sm__sass_thread_inst_executed_op_ffma_pred_on.sum")
    assert {row[ffma] for row in rows[2:]} == {"68736253952"}
    file = tmp_path / "gemm.csv"
    file.write_text(exported())
    assert invoke(["import", str(file), "-o", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    study = open_study(tmp_path / "run")
    (kernel,) = study.kernels.to_dict("records")
    assert kernel["flops"] == pytest.approx(2 * 68736253952, rel=1e-4)
    assert kernel["flops_lower"]
    assert kernel["bound_by"] == "fp32"
    assert ">= " in said
    assert "latency" not in said
    # Findings are of the innermost range, here of one that is all of its parent.
    assert "let cuBLAS use the tensor cores" in page(study)


def exported():
    """The recorded product of 4096 x 4096 in FP32, whose owner had asked for FFMA alone of the FP32 instructions."""
    lines = (line for line in (DATA / "ncu/h200_default.csv").read_text().splitlines() if line.startswith('"'))
    table = list(csv.reader(lines))
    at = [n for n, title in enumerate(table[0]) if "_op_fadd_" not in title and "_op_fmul_" not in title]
    out = io.StringIO()
    name = table[0].index("Kernel Name")
    rows = [row for row in table[2:] if "f32f32_f32_nn" in row[name]]
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([[row[n] for n in at] for row in (*table[:2], *rows)])
    return out.getvalue()


def test_a_sum_of_a_ranges_short_kernels_is_no_time_that_a_graph_could_win(tmp_path):
    """Said before, of nsys's summary by range: up to 100 % (3.00 ms): launch-bound: 1130 kernels in 3.00 ms."""
    file = tmp_path / "t4_cuda_gpu_kern_sum.csv"
    head = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
    file.write_text(
        f"{head}\n90.0,3000000,1130,2654.9,2600.0,2500,2900,50.0,IO 3/add\n10.0,333333,1,333333.0,333333.0,333333,333333,0.0,Compute 3/mul\n"
    )
    assert invoke(["import", str(file), "-o", str(tmp_path / "run")]) == 0
    (found,) = (one for one in open_study(tmp_path / "run").findings() if one.rule == "launch-bound")
    assert (found.impl, found.severity) == ("IO 3", HINT)
    assert "the cost of a launch, which these times do not include" in found.title


def imported(tmp_path_factory, name):
    """The study of a recorded trace, as `profkit import` makes it."""
    run = tmp_path_factory.mktemp(name) / "run"
    assert invoke(["import", str(DATA / f"kineto/{name}_h100.trace.json.gz"), "-o", str(run)]) == 0
    return open_study(run)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return imported(tmp_path_factory, "generate")


def test_the_first_line_and_the_first_finding_of_a_program_are_of_its_wall_time(program):
    """Said before, of transformers' generate on an H100: 120 us of GPU time, latency; too few blocks: 16 for 132 SMs."""
    line, *_ = answer.first_lines(program)
    assert line.startswith(
        "steady state, 5 steps of 27.3 ms as recorded (26.5 to 28.4 ms; not marked, may be layers): GPU"
    )
    assert "GPU idle 95.1%" in line
    first, *_ = program.findings()
    assert (first.rule, first.variant) == ("gpu-idle", "chain")
    assert gain(first).startswith(
        "up to 95.1% of a step's wall time as recorded (26.0 ms: 19.8 ms there, with what it delays)"
    )
    assert "few-blocks" not in {one.rule for one in program.findings() if one.severity == TIME}


@pytest.fixture(scope="module")
def resnet(tmp_path_factory):
    return imported(tmp_path_factory, "resnet")


def test_a_programs_times_are_of_one_step_and_its_shares_of_one_whole(resnet):
    """Said before: step 75.6 ms, of four steps, below one step of 78.3 ms; 10.7 % and 10.8 % of one kernel; 2955 launches,
    copies and fills among them."""
    text = re.sub(r"<script.*?</script>", "", page(resnet), flags=re.S)
    assert "719 kernels, 2.25 memcpy, 17 memset per step" in text
    for wrong in ("75.6 ms", "10.7%", "2878", "2955", "launches of"):
        assert wrong not in text, wrong
    _, line = answer.first_lines(resnet)
    head = "a step: 719 kernels (72 different), 2.25 memcpy, 17 memset; kernels take 18.9 ms; hottest: "
    assert line == f"{head}batch norm backward (cuDNN), 10.8% of that"
    # Range, kernel and wall: the same seconds of the same step.
    step, one = resnet.step, next(iter(resnet.budgets.values()))
    ran = step[step["kind"] == "kernel"]
    assert ran["time"].sum() == pytest.approx(one.computing / one.parts, rel=0.01)
    (name, count, time, share) = tables.parts_table(resnet).rows[0]
    assert (name, count, time, share) == ("step", "719", "18.9", "100%")
    hot = resnet.hottest.iloc[0]
    assert hot["share"] == pytest.approx(hot["step_time"] / ran["time"].sum())
    assert hot["wall_share"] == pytest.approx(hot["step_time"] / one.step)
    first = tables.kernels_table(resnet)
    cells = dict(zip(first.head, first.rows[0], strict=True))
    assert (cells["launches per step"], cells["of kernel time"], cells["of a step"]) == ("11", "10.8%", "2.59%")
    # explain's text and the data for programs too.
    told = explained(resnet, resnet.findings())
    assert "75.6 ms" not in told
    assert told.count("not checked, counters missing") == 1
    rows = {one["impl"]: one for one in document(resnet)["impls"]}
    for result in json.loads(agent.write([resnet]).text)["results"]:
        assert result["time"] == pytest.approx(rows[result["name"]]["time"], rel=1e-3)
        assert result["step_time"] == pytest.approx(resnet.in_ranges[result["name"]][0], rel=1e-3)
    assert headline(resnet, "step") == "step: its kernels take 18.9 ms of a step"
    blocks = wall_blocks(one, WHOLE, resnet.findings())
    assert sum(block.seconds for block in blocks) == pytest.approx(one.step)
    assert next(block.seconds for block in blocks if block.kernel == hot["kernel"]) == pytest.approx(hot["step_time"])


def test_a_reader_of_a_programs_page_finds_each_answer(resnet):
    """Not said before: how far it is from what the machine allows and of what, what was not checked, what the host did."""
    for lang, asked in (
        (
            "en",
            (
                "How much longer than its GPU work?",
                "3.71x",
                "21.1 ms of it GPU work",
                "up to 37.0 ms of the step may be profiler overhead",
                "not checked",
            ),
        ),
        ("zh", ("是其 GPU 工作时间的多少倍？", "3.71 倍", "profiler 自身造成的", "未校验")),
    ):
        with speaking(lang):
            text = html.unescape(page(resnet))
        top = text[text.index('<dl class="answer">') : text.index("</dl>")]
        assert all(one in top for one in asked), lang
    (table,) = tables.holes_tables(resnet)
    assert table.rows[0][0] == "the host did something else"
    assert table.rows[0][1:4] == ["40.7", "51.9%", "1"]
    assert table.rows[1][-1] == "step"
    assert sum(float(row[1]) for row in table.rows) < 57.3
    assert all(each[0].head[0] in page(resnet) for each in in_each(lambda: tables.holes_tables(resnet)))


def test_what_tma_moves_is_no_traffic_of_the_l1_and_libraries_are_not_told_to_use_what_they_use():
    """Said before, of a product of cuBLAS: local memory is 99 % of the L1 traffic; move to wgmma."""
    found = opened(LADDER / "batch8").findings()
    mine = [one for one in found if "nvjet" in one.kernel]
    assert mine
    assert "local-memory" not in {one.rule for one in mine}
    assert not [one for one in mine if "wgmma" in one.next_step]


def test_a_speed_up_that_no_peak_explains_stays_a_caveat():
    study = opened(ROOT / "examples/h200/ICGRMS")
    (one,) = [caveat for caveat in study.analysis.caveats if caveat.code.startswith("excessive")]
    assert (one.code, one.what) == ("excessive", "cuda: a speed-up above 10x is rare for the same work")
    assert "excessive" in {said.code for said in caveats.that_matter(study)}


def test_bytes_below_the_least_are_explained_where_they_stand():
    """Said before: 516 MB counted beside 537 MB at least, without a word."""
    study = opened(ROOT / "examples/h200/ICJTRP")
    line = method.below_least(study)
    assert line.startswith(
        "Counted DRAM bytes are below the compulsory bytes (537 MB): cuda 516 MB, reference 522 MB; "
    )
    assert "stayed in L2" in line
    assert line in page(study)
    assert f"{line}." in report(study)
    assert line in pr.snippet(study)
    assert "留在 L2 里" in in_each(lambda: method.below_least(study))[1]
    for name in ("ICAPYS", "ICHTCM"):  # which move more than the least
        assert "cuda" not in method.below_least(opened(ROOT / f"examples/h200/{name}"))


def test_a_speed_up_that_the_two_times_do_not_give_says_why():
    """Said before: 2.86x beside 462 us and 161 us, which make 2.87."""
    study = opened(ROOT / "examples/h200/ICJTRP")
    line = method.paired_line(study)
    assert line.endswith("the ratio of the two medians in the table differs: cuda 2.87x")
    for text in (page(study), report(study), pr.snippet(study), terminal.summary(study)):
        assert line in text
    for sample in SAMPLES:
        told = method.paired_line(opened(sample))
        rows = {part.name: part.row for part in opened(sample).parts if part.row is not None}
        for name, row in rows.items():
            if row["verdict"] in ("faster", "slower", "same"):
                plain = f"{rows['reference']['time'] / row['time']:.3g}"
                assert (f" {name} " in told) == (plain != f"{row['speedup']:.3g}"), sample.name


def test_what_is_left_under_a_roof_is_left_of_the_bytes_that_must_move():
    """Said before: 10 % less time at 80 % of the ceiling, of a share that was known to read low."""
    study = opened(ROOT / "examples/h200/ICJTRP")
    (found,) = [one for one in study.findings() if one.impl == "cuda" and one.rule == "dram-bound"]
    assert "at 80 % the kernel takes 6% less time" in found.words("en")[2]


def test_one_lower_bound_has_one_name():
    """Said before: the lower bound of the algorithm, above the lower bound of the task."""
    for text in (page(opened(LADDER / "batch8")), report(opened(ROOT / "examples/h200/ICJTRP"))):
        assert "lower bound of the task" in text
        assert "lower bound of the algorithm" not in text


def test_implementations_stand_in_one_order_everywhere():
    """Said before of ICJTRP: reference, ori, cuda in the tables; cuda, ori, reference among the findings; cuda, reference, ori
    on the page.
    """
    study = opened(ROOT / "examples/h200/ICJTRP")
    ranked = ["cuda", "reference", "ori"]
    assert [part.name for part in study.ranked] == ranked
    assert [row[0] for row in tables.parts_table(study).rows] == ranked
    assert [row[1] for row in tables.kernels_table(study).rows] == ranked
    assert in_order(study) == [part.impl for part in shown_of(study)] == ranked
    assert [line.partition(":")[0] for line in answer.first_lines(study)] == ["cuda", "ori"]
    # Colours are those of the run's pictures, whatever the order.
    assert {part.impl: part.colour for part in shown_of(study)} == places([part.name for part in study.parts])
    best = opened(LADDER / "batch8")
    times = [float(part.row["time"]) for part in best.ranked if part.row is not None]
    assert times == sorted(times)


def test_what_the_callers_clock_timed_is_said_to_be_its(tmp_path):
    """Said before, of a candidate that gave the GPU no work: cold cache, 126 MB flushed before each call."""
    folder = tmp_path / "ICDQRM"
    shutil.copytree(ROOT / "examples/h200/ICDQRM", folder)
    table = pd.read_csv(folder / "timings.csv")
    unseen = table["impl"].eq("cuda") & table["method"].isin(["cupti", "event"])
    table.assign(seconds=table["seconds"].mask(unseen)).to_csv(folder / "timings.csv", index=False)
    before, after = open_study(ROOT / "examples/h200/ICDQRM"), open_study(folder)
    assert (before.analysis.method, after.analysis.method) == ("cupti", "host")
    assert "by the caller's clock, with launch and wait" in after.verdicts["cuda"].text()
    assert "caller" not in before.verdicts["cuda"].text()
    assert "cold cache" in method.timing_line(before)
    assert "flushed before each call" in method.timing_line(before)
    assert "warm cache" in method.timing_line(after)
    assert "flushed" not in method.timing_line(after)
