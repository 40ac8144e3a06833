"""Anybody's exports into a run directory, and what is said of them."""

import csv
import errno
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

from profkit.study.study import Study

sys.path.insert(0, str(Path(__file__).parent.parent / "collectors"))

from nsys_exports import Base, Nvtx, Op, gpu_trace, kern_sum, pushpop_trace, sqlite_export

import profkit
from collectors import CollectError, read
from collectors.ncu.launches import Cells
from profkit.cli.group import invoke
from profkit.errors import ProfkitError
from profkit.record.importing import import_files
from profkit.report.sections import answer

DATA = Path(__file__).parent.parent / "data"
NCU = DATA / "ncu" / "h200_default.csv"
ROCPROF = DATA / "rocprof" / "v3_counter_collection.csv"
SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.fixture
def ops():
    return [
        Op(1000 * number, 400, "void gemm<4>(int)" if number % 2 else "relu(int)", call=1000 * number)
        for number in range(1, 9)
    ]


@pytest.fixture
def sqlite(tmp_path, ops):
    return sqlite_export(tmp_path / "trace.sqlite", ops, [Nvtx(0, 4500, "first"), Nvtx(4600, 9000, "second")], Base())


@pytest.mark.usefixtures("printed")
def test_an_ncu_export_becomes_a_run_that_reports_as_usual(tmp_path):
    found = import_files([NCU], tmp_path / "run")
    run, manifest = Study(found.run), Study(found.run).manifest
    assert found.failures == []
    assert (manifest.sample.kind, manifest.status) == ("import", "done")
    assert (manifest.device["name"], manifest.device["cc"], manifest.device["sms"]) == (
        "NVIDIA H200",
        "9.0",
        132,
    )
    assert (run.path / "imported" / NCU.name).read_bytes() == NCU.read_bytes()
    assert run.kernels["time"].sum() == pytest.approx(read(NCU)["time"].sum())
    assert (run.kernels["attainable_fraction"].dropna() < 1.05).all()
    assert invoke(["report", str(run.path)]) == 0
    assert {"metrics.json", "kernels.csv", "roofline.png", "roofline.svg", "report.md"} <= {
        p.name for p in run.path.iterdir()
    }


def test_an_import_that_found_no_room_or_was_interrupted_leaves_nothing_and_works_again(tmp_path, monkeypatch):
    export = NCU

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as change:
        change.setattr("profkit.report.derived.write", interrupted)
        assert invoke(["import", str(export), "-o", str(tmp_path / "run")]) == 130
    assert not (tmp_path / "run").exists()

    with monkeypatch.context() as change:
        change.setattr("profkit.record.importing.shutil.copy2", full)
        with pytest.raises(ProfkitError, match="No space left"):
            import_files([export], tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert import_files([export], tmp_path / "run").run.manifest.status == "done"
    with pytest.raises(ProfkitError, match="exists"):
        import_files([export], tmp_path / "run")


def test_runs_of_trtexec_in_one_page_are_ranges_that_compare(tmp_path, capsys):
    summary = "GPU Compute Time: min = {0} ms, max = {0} ms, mean = {0} ms, median = {0} ms"
    parts = (f"## x:{n}\n```\n=== Performance summary ===\n{summary.format(n)}\n```\n" for n in (1.5, 6.0))
    (tmp_path / "README.md").write_text("".join(parts))
    study = Study(import_files([tmp_path / "README.md"], tmp_path / "run").run)
    times = {part.name: part.row["time"] for part in study.parts}
    assert times == pytest.approx({"run 1": 1.5e-3, "run 2": 6e-3})
    run = tmp_path / "run"
    assert invoke(["compare", f"{run}:run 1", f"{run}:run 2"]) == 0
    assert "0.250x" in capsys.readouterr().out


def test_a_file_is_parsed_once_for_import_and_report(tmp_path, monkeypatch, capsys):
    parsed = []
    launches = Cells.launches
    monkeypatch.setattr(Cells, "launches", lambda self: parsed.append(1) or launches(self))
    assert invoke(["import", str(NCU), "-q", "--json", "-o", str(tmp_path / "run")]) == 0
    assert parsed == [1]
    assert json.loads(capsys.readouterr().out)["schema"] == "profkit-metrics/1"


@pytest.mark.parametrize(
    "kept",
    ["", "launch__occupancy.*|sm__warps_active.*", "launch__.*", "sm__sass.*|dram__bytes.*"],
    ids=["keys alone", "section Occupancy", "section LaunchStats", "work without time"],
)
@pytest.mark.slow
def test_an_export_without_time_says_so_and_reports(tmp_path, capsys, kept):
    rows = [row for row in csv.reader(NCU.read_text().splitlines()) if len(row) > 20]
    places = [at for at, name in enumerate(rows[0]) if "__" not in name or re.fullmatch(kept, name)]
    with (tmp_path / "some.csv").open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([row[at] for at in places] for row in rows)
    run = str(tmp_path / "run")
    assert invoke(["import", str(tmp_path / "some.csv"), "-q", "-o", run]) == 0
    assert "not in this export: time" in capsys.readouterr().out
    assert "--section SpeedOfLight" in (tmp_path / "run" / "report.md").read_text()
    assert invoke(["explain", run]) == 0
    assert invoke(["report", run, "-o", str(tmp_path / "page.html")]) == 0


def test_json_nested_too_deep_is_refused(tmp_path):
    (tmp_path / "deep.json").write_text('{"Layers": ' + "[" * 200_000 + "]" * 200_000 + "}")
    with pytest.raises(CollectError, match="nested too deep"):
        import_files([tmp_path / "deep.json"])


def test_amd_is_not_cuda(tmp_path):
    found = import_files([ROCPROF], tmp_path / "run")
    study = Study(found.run, found.frames)
    assert study.manifest.device == {"kind": "rocm", "name": "unknown device"}
    assert study.kernels["time"].sum() == pytest.approx(1.05e-3)
    assert "NVIDIA" not in study.roofline.device
    assert invoke(["report", str(found.run.path)]) == 0
    with_nvidia = import_files([NCU, ROCPROF], tmp_path / "both")
    assert "amd" in str(with_nvidia.failures[0])


def test_an_owner_of_an_amd_gpu_is_not_sent_to_nvidias_tools(tmp_path, capsys):
    (tmp_path / "a.csv").write_text('Index,KernelName,gpu-id,queue-id,grd,wgr\n0,"k.kd",0,0,1024,256\n')
    assert invoke(["import", str(tmp_path / "a.csv"), "-q", "-o", str(tmp_path / "run")]) == 0
    assert invoke(["explain", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out
    assert "times: by rocprof" in shown
    assert "collect: rocprofv3 --pmc" in shown
    assert not re.search("ncu|nsys|CUDA", shown)


def test_a_summary_tells_copies_beside_its_kernels(tmp_path, capsys):
    stats = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'
    rows = '"add",3,3000,1000,30.0\n"CopyHostToDevice",2,6000,3000,60.0\n"FillBuffer",1,1000,1000,10.0\n'
    (tmp_path / "a.csv").write_text(stats + rows)
    assert invoke(["import", str(tmp_path / "a.csv"), "-q", "-o", str(tmp_path / "run")]) == 0
    assert "3.00 us of GPU time" in (shown := capsys.readouterr().out)
    assert "beside kernels 2 memcpy, 1 memset: 7.00 us, 70.0% of the GPU's work" in shown
    (tmp_path / "b.csv").write_text(stats + '"CopyHostToDevice",2,6000,3000,100.0\n')
    assert invoke(["import", str(tmp_path / "b.csv"), "-q", "-o", str(tmp_path / "copies")]) == 0
    assert "no kernels in these exports: 2 memcpy, 6.00 us" in capsys.readouterr().out


def test_correctness_is_said_to_be_unknown_once_and_no_speedup(tmp_path, capsys):
    assert invoke(["import", str(NCU), "-q", "-o", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr()
    report = (tmp_path / "run" / "report.md").read_text()
    for text in (shown.out, report):
        assert text.count("correctness: not checked (an export holds no results)") == 1
        assert not re.search(r"correct(?!ness)|speedup|candidate could", text)
    assert "ncu" in report
    assert "profkit import h200_default.csv" in report


def test_a_sqlite_export_gives_shares_ranges_and_a_timeline(tmp_path, sqlite, capsys):
    assert invoke(["import", str(sqlite), "-q", "-o", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out
    assert "GPU idle" in shown
    assert "no hardware counters" in shown
    run = profkit.open_run(tmp_path / "run")
    assert set(run.metrics["impl"]) == {"first", "second"}


def test_steps_say_what_share_of_the_record_they_hold_where_it_is_small(tmp_path, capsys):
    """Said before: 5 steps of 27 ms, GPU computing 100 %; three quarters of the GPU's work were other launches."""
    ops = [
        Op(0, 4000, "setup(int)"),
        *(Op(10_000 + 1000 * at, 400, "f(int)", call=9000 + 1000 * at) for at in range(8)),
    ]
    trace = sqlite_export(tmp_path / "trace.sqlite", ops)
    assert invoke(["import", str(trace), "-q", "-o", str(tmp_path / "run")]) == 0
    assert (
        "7 steps of 1.00 us (1.00 to 1.00 us; not marked, may be layers; 38.9% of the record's GPU time)"
        in capsys.readouterr().out
    )
    trace = sqlite_export(tmp_path / "even.sqlite", ops[1:])
    assert invoke(["import", str(trace), "-q", "-o", str(tmp_path / "even")]) == 0
    assert "of the record's GPU time" not in capsys.readouterr().out


def test_graphs_traced_whole_are_no_kernels(tmp_path, capsys):
    ops = [Op(1000 * at, 400, "f(int)", call=1000 * at - 100, graph=bool(at % 2)) for at in range(2, 18)]
    trace = sqlite_export(tmp_path / "trace.sqlite", ops)
    assert invoke(["import", str(trace), "-q", "-o", str(tmp_path / "run")]) == 0
    assert "1 kernel, 1 CUDA graph" in capsys.readouterr().out


def test_shares_without_times_are_shown_and_metrics_left_out_are_named(tmp_path, capsys):
    """Said before, of 445 launches with their share of DRAM's peak: a table of names, and nothing of the other metrics."""
    (tmp_path / "ncu.csv").write_text(
        '"ID","Process ID","Process Name","Kernel Name","dram__throughput.avg.pct_of_peak_sustained_elapsed","sm__x.sum"\n'
        '"","","","","%",""\n"0","7","a","scale","42","1"\n"1","7","a","scale","44","1"\n'
    )
    assert invoke(["import", str(tmp_path / "ncu.csv"), "-q", "-o", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert re.search(r"scale +2 +43.0%", said)
    assert "metrics of the file that are not used here: 1, sm__x.sum" in said


def test_counters_come_before_times_and_the_timeline_stays(tmp_path, sqlite):
    run = Study(import_files([sqlite, NCU], tmp_path / "run").run)
    assert [one.role for one in run.manifest.captures] == ["times", "counters"]
    assert run.kernels["tool"].eq("ncu").all()
    assert run.captured.timeline is not None
    assert any("not added to the kernels: trace.sqlite" in caveat.what for caveat in run.analysis.caveats)


def test_the_same_launches_in_two_exports_count_once(tmp_path, sqlite, ops):
    (tmp_path / "sum.csv").write_text(kern_sum(ops))
    (tmp_path / "trace.csv").write_text(gpu_trace(ops))
    run = Study(import_files([tmp_path / "sum.csv", sqlite, tmp_path / "trace.csv"], tmp_path / "run").run)
    assert [one.role for one in run.manifest.captures] == ["summary", "times", "timeline"]
    assert run.kernels["time"].sum() == pytest.approx(8 * 400e-9)


def test_an_import_of_times_alone_draws_when_it_is_asked(tmp_path):
    (tmp_path / "t.csv").write_text(gpu_trace([Op(2000 * at, 900, f"k{at % 3}") for at in range(1, 30)]))
    run = tmp_path / "run"
    assert invoke(["import", str(tmp_path / "t.csv"), "-q", "-o", str(run)]) == 0
    assert not [*run.glob("*.png"), *run.glob("*.svg")]
    assert "## Where the time goes" in (run / "report.md").read_text()
    assert ".png" not in (run / "report.md").read_text()
    assert invoke(["report", str(run)]) == 0
    assert (run / "waterfall.png").exists()
    assert "](waterfall.png)" in (run / "report.md").read_text()


def test_several_ncu_exports_are_told_apart_by_name(tmp_path):
    shutil.copyfile(NCU, tmp_path / "before.csv")
    shutil.copyfile(NCU, tmp_path / "after.csv")
    run = Study(import_files([tmp_path / "before.csv", tmp_path / "after.csv"], tmp_path / "run").run)
    assert {impl.partition(":")[0] for impl in run.kernels["impl"]} == {"before", "after"}
    assert len(run.captured.launches) == 18


def test_files_of_one_name_are_both_kept(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        shutil.copyfile(NCU, tmp_path / name / "ncu.csv")
    run = Study(import_files([tmp_path / "a" / "ncu.csv", tmp_path / "b" / "ncu.csv"], tmp_path / "run").run)
    assert [one.file for one in run.manifest.captures] == ["imported/ncu.csv", "imported/ncu-2.csv"]


def test_a_report_without_kernels_is_kept_beside_the_others(tmp_path, sqlite):
    (tmp_path / "ranges.csv").write_text(pushpop_trace([Nvtx(0, 100, "a")]))
    run = Study(import_files([sqlite, tmp_path / "ranges.csv"], tmp_path / "run").run)
    assert [one.role for one in run.manifest.captures] == ["times", "report"]
    with pytest.raises(ProfkitError, match="of nsys: lists no kernels"):
        import_files([tmp_path / "ranges.csv"], tmp_path / "other")


def test_an_unreadable_file_costs_itself_alone(tmp_path, capsys):
    (tmp_path / "broken.csv").write_text(NCU.read_text()[:-40])
    files = [NCU, tmp_path / "broken.csv", tmp_path / "none.csv"]
    assert invoke(["import", *map(str, files), "-q", "-o", str(tmp_path / "run")]) == 2
    shown = capsys.readouterr()
    assert re.search(r"broken\.csv, line \d+", shown.err)
    assert "fix:" in shown.err
    assert "none.csv does not exist\nfix: check the path" in shown.err
    run = profkit.open_run(tmp_path / "run")
    assert len(run.manifest.captures) == 1
    assert sum("could not be imported" in caveat.what for caveat in run.analysis.caveats) == 2


def test_when_nothing_can_be_read_nothing_is_made(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("hello\n")
    assert invoke(["import", str(tmp_path / "notes.txt"), "-o", str(tmp_path / "run")]) == 2
    assert "export" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_devices_do_not_mix(tmp_path, ops):
    other = sqlite_export(tmp_path / "t4.sqlite", ops, [], Base(devices=("Tesla T4",)))
    found = import_files([NCU, other], tmp_path / "run")
    assert "Tesla T4" in str(found.failures[0])
    assert Study(found.run).manifest.device["name"] == "NVIDIA H200"
    with pytest.raises(ProfkitError, match="not on A100"):
        import_files([NCU], tmp_path / "more", device="A100")


def test_the_device_may_be_said_where_the_export_does_not(tmp_path, ops):
    (tmp_path / "sum.csv").write_text(kern_sum(ops))
    assert Study(import_files([tmp_path / "sum.csv"], tmp_path / "a").run).manifest.device["name"] == "unknown device"
    run = Study(import_files([tmp_path / "sum.csv"], tmp_path / "b", device="NVIDIA H200").run)
    assert not any("no ceiling is known" in caveat.what for caveat in run.analysis.caveats)


def test_without_a_name_it_goes_below_the_runs_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Study(import_files([NCU]).run)
    assert run.path.parent == Path("profkit-runs/h200_default")


@pytest.mark.skipif(not SHARED.is_dir(), reason="recorded exports are not here")
@pytest.mark.parametrize(
    "names",
    [
        ["ncu/nt_manual_nvtx.ncu-rep"],
        ["ncu/ncu_details_rtx3070_nvtx.csv"],
        ["ncu/ncu_raw_t4_full_base.csv"],
        ["nsys/nvprof_summary_old.csv"],
        ["nsys/nsys_a100_cuda_gpu_kern_sum_2023.4.4.csv", "nsys/nsys_a100_cuda_api_sum_2023.4.4.csv"],
        [f"trtexec/A100.fp32.{part}.json" for part in ("timing", "graph", "profile")],
    ],
)
def test_recorded_exports_are_imported(tmp_path, names):
    if any(name.endswith("ncu-rep") for name in names):
        pytest.importorskip("ncu_report")
    found = import_files([SHARED / name for name in names], tmp_path / "run")
    assert found.failures == []
    assert isinstance(Study(found.run).kernels, pd.DataFrame)
    study = Study(found.run)
    assert len(study.kernels)
    if names[0].endswith("ncu-rep"):
        assert [one.role for one in found.run.manifest.captures] == ["counters", "lines"]
        assert {one.kernel for one in study.lines} <= set(study.kernels["kernel"])
        assert not any("not added" in one.what for one in study.analysis.caveats)


def test_a_recording_of_nsys_is_exported_where_nsys_is(tmp_path, sqlite, fake_nsys, monkeypatch, capsys):
    monkeypatch.delenv("PROFKIT_NSYS", raising=False)
    (tmp_path / "data").mkdir()
    shutil.copy(sqlite, tmp_path / "data" / "report.sqlite")
    fake_nsys(data=tmp_path / "data")
    (tmp_path / "theirs.nsys-rep").write_bytes(b"a recording")
    taken = import_files([tmp_path / "theirs.nsys-rep"], tmp_path / "run").run
    assert [(one.origin, one.tool, one.role) for one in taken.manifest.captures] == [("theirs.sqlite", "nsys", "times")]
    assert (taken.path / "imported" / "theirs.sqlite").read_bytes() == sqlite.read_bytes()


def test_a_recording_that_nsys_cannot_export_costs_itself_alone(tmp_path, sqlite, install_tool, monkeypatch):
    monkeypatch.delenv("PROFKIT_NSYS", raising=False)
    script = tmp_path / "broken.py"
    script.write_text("import sys\nprint('version 2020.1.1' if '--version' in sys.argv else 'it is newer than I am')\n")
    install_tool("nsys", script)
    (tmp_path / "theirs.nsys-rep").write_bytes(b"a recording")
    taken = import_files([tmp_path / "theirs.nsys-rep", sqlite], tmp_path / "run")
    assert [str(one) for one in taken.failures] == ["theirs.nsys-rep: nsys wrote no report: it is newer than I am"]
    assert len(taken.run.manifest.captures) == 1


def test_a_program_of_copies_alone_is_told_by_its_copies(tmp_path, capsys):
    ops = [Op(1000 * n, 600, kind="memcpy" if n % 4 else "memset", bytes=4096) for n in range(1, 20)]
    timed = sqlite_export(tmp_path / "copies.sqlite", ops, [], Base())
    whole = answer.first_lines(Study(import_files([timed], tmp_path / "whole").run))
    assert whole[0].endswith("memcpy only 61.3%, GPU idle 38.7% (queued but not started 38.7%)")
    assert whole[1] == "the whole record: 15 memcpy, 4 memset; no kernel"
    assert invoke(["explain", str(tmp_path / "whole")]) == 0
    assert "hint: the GPU copies and fills for 61.3% of the record and runs no kernel" in capsys.readouterr().out
    assert invoke(["report", str(tmp_path / "whole"), "-o", str(tmp_path / "page.html")]) == 0
