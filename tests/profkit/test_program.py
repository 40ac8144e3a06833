"""Any command under the fake tools: what is captured, and every way it can go wrong."""

import html
import json
import os
import re
import signal
import sqlite3
import sys
import time
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent / "collectors"))

from nsys_exports import Base, Nvtx, Op, sqlite_export

from analyzers.timeline.hot import hottest
from collectors import read
from profkit.api import profile
from profkit.cli.group import invoke
from profkit.errors import CannotProfileError, ProfkitError, ProgramFailedError
from profkit.record.profile import prepare
from profkit.record.request import Request
from profkit.report import explain
from profkit.report.dialects.agent import document
from profkit.report.page.run import page
from profkit.report.sections import answer, method, tables
from profkit.study.study import open_study
from profkit.targets.program import Program, bootstrapped, name_of

OK = [sys.executable, "-c", "print('hello')"]


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PROFKIT_NSYS", str(tmp_path / "no-such-nsys"))
    monkeypatch.setenv("PROFKIT_NCU", str(tmp_path / "no-such-ncu"))
    monkeypatch.setattr("profkit.launch.gpu.gpu_present", lambda: True)
    return tmp_path / "runs"


@pytest.fixture
def with_ncu(runs, fake_ncu, monkeypatch):
    def install(mode="ok", **settings):
        monkeypatch.delenv("PROFKIT_NCU", raising=False)
        return fake_ncu(mode, **settings)

    return install


@pytest.fixture
def with_nsys(runs, fake_nsys, monkeypatch, tmp_path):
    """with_nsys(mode, ops, ranges): a fake nsys whose sqlite export holds these operations."""

    def install(mode="ok", ops=None, ranges=(), base=None, **settings):
        monkeypatch.delenv("PROFKIT_NSYS", raising=False)
        folder = tmp_path / "nsys-data"
        folder.mkdir(exist_ok=True)
        made = ops if ops is not None else default_ops()
        sqlite_export(folder / "report.sqlite", made, list(ranges), base or Base())
        return fake_nsys(mode, data=folder, **settings)

    return install


def profile_program(argv, **options):
    return profile(Program.of(argv), **options)


def default_ops():
    names = ["void gemm<int>(float *)", "relu_kernel(float *)", "void ns::norm<4>(float *)"]
    return [
        Op(1000 * number, time, names[number % 3], call=1000 * number - 500)
        for number, time in enumerate([900, 300, 100] * 4, 1)
    ]


@pytest.mark.usefixtures("printed")
def test_a_command_under_ncu_gives_a_run_with_kernels(with_ncu, runs, tmp_path):
    log = tmp_path / "argv.jsonl"
    with_ncu("ok", log=log)
    run = profile_program(OK, runs=runs, counters="ncu")
    assert run.manifest.status == "done"
    assert run.manifest.exit_code == 0
    assert run.manifest.counters.state == "collected"
    assert run.manifest.device["name"] == "NVIDIA H200"
    assert len(run.kernels) == 8
    assert (run.kernels["bound_by"] != "").all()
    assert "hello" in (run.logs / "ncu.log").read_text()
    argv = json.loads(log.read_text().splitlines()[-1])
    assert "--nvtx-include" not in argv
    assert argv[-3:] == OK
    assert open_study(run.path).manifest.program[-1] == "print('hello')"


def test_options_go_to_ncu_as_in_ncu(with_ncu, runs, tmp_path):
    log = tmp_path / "argv.jsonl"
    with_ncu("ok", log=log)
    wanted = {"counters": "ncu", "kernel": "gemm.*"}
    profile(Program.of([*OK, "--launch-count", "x"]), runs=runs, **wanted)
    argv = json.loads(log.read_text().splitlines()[-1])
    assert "-k regex:gemm.*" in " ".join(argv)
    # The program's own options are the program's.
    assert argv[-2:] == ["--launch-count", "x"]
    assert open_study(runs).manifest.captures[0].filtered


def test_no_kernels_is_an_error_that_names_those_there_were(with_ncu, runs, capsys):
    with_ncu("no_kernels")
    assert invoke(["profile", "--ncu", "-q", "--runs", str(runs), "--", *OK]) == 2
    assert "No kernels were profiled" in capsys.readouterr().err


@pytest.mark.parametrize(("mode", "code"), [("app_error", 3), ("segv", 11)])
@pytest.mark.slow
def test_a_program_that_fails_after_its_kernels_keeps_them(with_ncu, runs, capsys, mode, code):
    with_ncu(mode)
    assert invoke(["profile", "--ncu", "-q", "--runs", str(runs), "--", *OK]) == code
    shown = capsys.readouterr()
    assert f"exit code {code}" in shown.err
    assert "launches of" in shown.out
    manifest = open_study(runs).manifest
    assert (manifest.status, manifest.exit_code) == ("failed", code)


@pytest.mark.parametrize("mode", ["empty", "no_kernels"])
def test_a_program_that_fails_before_any_kernel_is_to_blame(with_ncu, runs, mode):
    with_ncu(mode)
    with pytest.raises(ProgramFailedError, match="exit code 7"):
        profile_program([sys.executable, "-c", "raise SystemExit(7)"], runs=runs, counters="ncu")
    assert open_study(runs).manifest.exit_code == 7


def test_a_hang_is_ended(with_ncu, runs):
    with_ncu("hang")
    with pytest.raises(ProgramFailedError, match="did not end within 1 s"):
        profile_program(OK, runs=runs, counters="ncu", limit=1.0)
    assert open_study(runs).manifest.status == "hung"


def test_a_command_under_nsys_gives_a_timeline(with_nsys, runs, tmp_path):
    log = tmp_path / "nsys.jsonl"
    with_nsys(ranges=[Nvtx(0, 8000, "step")], log=log)
    run = profile_program(OK, runs=runs, nsys=True)
    assert run.manifest.counters.state == "missing"
    assert run.kernels["time"].sum() == pytest.approx(4 * 1300e-9)
    assert set(run.kernels["impl"]) == {"step", ""}
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    recorded = next(line for line in lines if line[0] == "profile")
    assert {"--sample=none", "--cpuctxsw=none", "cuda,nvtx"} <= set(recorded)
    assert invoke(["report", str(run.path)]) == 0
    text = (run.path / "report.md").read_text()
    assert "idle" in text
    assert text.count("correctness: not checked (a program's results are not compared)") == 1
    assert "speedup" not in text
    assert not (run.path / "nsys.nsys-rep").exists()


def test_a_partial_import_is_a_caveat(with_nsys, runs):
    with_nsys("partial")
    run = profile_program(OK, runs=runs, nsys=True)
    assert any("imported its record with errors" in caveat.what for caveat in run.analysis.caveats)


def test_a_record_without_kernels_is_an_error(with_nsys, runs):
    with_nsys(ops=[])
    with pytest.raises(ProfkitError, match=r"no kernels were captured: .*no GPU work"):
        profile_program(OK, runs=runs, nsys=True)


def test_hot_ranks_first_and_counts_only_those(with_nsys, with_ncu, runs, tmp_path):
    log = tmp_path / "argv.jsonl"
    with_nsys()
    with_ncu("ok", log=log)
    run = profile_program(OK, runs=runs, hot=2)
    argv = json.loads(log.read_text().splitlines()[-1])
    assert argv[argv.index("--kernel-id") + 1] == "::regex:^(relu_kernel|norm)$:^(2|3|4)$"
    assert argv[argv.index("--launch-count") + 1] == "6"
    assert "-k" not in argv
    assert {one.tool for one in run.manifest.captures} == {"nsys", "ncu"}
    assert method.again(run).startswith("profkit profile --hot 2 -- ")
    # The recording holds other kernels, which must not go unnoticed.
    assert any("hot kernel not captured" in caveat.what for caveat in run.analysis.caveats)
    assert run.analysis.kernels["tool"].eq("ncu").all()


ENDLESS = [
    sys.executable,
    "-c",
    "import os, time\nif not os.environ.get('LC_ALL', '').endswith('8'): time.sleep(600)",
]
"""Ends under nsys, whose environment has LC_ALL=C.UTF-8, and not under ncu."""


def test_hot_ends_the_program_when_its_launches_are_captured(with_nsys, with_ncu, runs, tmp_path):
    log = tmp_path / "argv.jsonl"
    with_nsys()
    with_ncu("ok", log=log)
    run = profile_program(ENDLESS, runs=runs, hot=2, limit=60.0)
    argv = json.loads(log.read_text().splitlines()[-1])
    assert argv[argv.index("--kill") + 1] == "yes"
    manifest = open_study(run.path).manifest
    assert (manifest.status, manifest.exit_code) == ("done", 0)
    step = next(one for one in manifest.commands if one.step == "ncu")
    assert step.exit_code == 9
    assert "on purpose after 6 launches" in step.note
    capture = next(one for one in manifest.captures if one.tool == "ncu")
    assert (capture.ended, capture.partial, capture.rows) == (True, False, 6)
    assert not any("error code" in caveat.what for caveat in run.analysis.caveats)


@pytest.mark.parametrize("ops", [None, []])
@pytest.mark.slow
def test_where_nsys_lost_the_end_kernels_are_ranked_by_torch(with_nsys, with_ncu, runs, ops):
    with_nsys(ops=ops, base=Base(lost_calls=[90_000, 91_000]))
    with_ncu("ok")
    if ops is None:
        run = profile_program(OK, runs=runs, hot=2)
        assert any("ranked by CUPTI" in caveat.what for caveat in run.analysis.caveats)
    else:
        # This program launches nothing, whoever looks.
        with pytest.raises(ProfkitError, match="no kernels were captured"):
            profile_program(OK, runs=runs, hot=2)
    steps = [one.step for one in open_study(runs).manifest.commands]
    assert steps[:3] == ["nsys", "nsys-export", "kineto"]
    assert ("ncu" in steps) == (ops is None)


def test_what_nsys_says_of_the_machine_is_not_kept(with_nsys, runs, tmp_path):
    with_nsys()
    base = sqlite3.connect(tmp_path / "nsys-data" / "report.sqlite")
    base.execute("CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT)")
    base.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('DeviceEnvironment', 'TOKEN=hush')")
    base.commit()
    base.close()
    run = profile_program(OK, runs=runs, nsys=True)
    assert len(run.captured.timeline) == len(default_ops())
    assert not [file for file in run.path.rglob("*") if file.is_file() and b"hush" in file.read_bytes()]


def test_without_nsys_a_python_program_is_traced_by_torch_which_is_said(runs):
    argv = [sys.executable, "-c", "print(1)"]
    with pytest.raises(ProfkitError, match="no kernels were captured"):
        profile_program(argv, runs=runs, nsys=True)
    log = open_study(runs).manifest.commands[0]
    assert log.step == "kineto"
    assert "CUPTI" in log.note


def test_what_cannot_be_is_refused_before_anything_runs(runs, tmp_path):
    with pytest.raises(CannotProfileError, match="ncu"):
        profile_program(OK, runs=runs, counters="ncu")
    with pytest.raises(CannotProfileError, match="not a Python program"):
        profile_program(["true"], runs=runs, nsys=True)
    with pytest.raises(ProfkitError, match="no program"):
        profile_program(["no-such-program-anywhere"], runs=runs)
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(ProfkitError, match="not executable") as caught:
        profile_program([str(script)], runs=runs)
    assert "chmod +x" in caught.value.fix
    assert not runs.exists()


WORK = """
import torch, profkit
x = torch.ones(200, 200)
for _ in range(3):
    with profkit.annotate("mlp", flops=16e6), torch.profiler.record_function("step"):
        y = torch.nn.functional.linear(x, x).relu().sum()
"""


def test_without_a_gpu_the_operators_of_a_python_program_are_timed_as_torch_times_them(runs, monkeypatch):
    from torch.profiler import profile as torch_profile

    monkeypatch.setattr("profkit.launch.gpu.gpu_present", lambda: False)
    run = profile_program([sys.executable, "-c", WORK], runs=runs)
    with torch_profile() as recorded:
        exec(WORK, {})
    calls = run.hottest.set_index("kernel")["launches"]
    assert [calls[f"aten::{name}"] for name in ("linear", "mm", "relu")] == [3, 3, 3]
    assert run.manifest.device["kind"] == "cpu"
    declared = run.analysis.rows["mlp"]
    assert declared["achieved_flops"] == pytest.approx(3 * 16e6 / declared["time"])
    recorded.export_chrome_trace(str(runs / "trace.json"))
    again = read(runs / "trace.json")
    own = again.groupby("kernel")["time"].agg(["size", "sum"])
    torchs = {one.key: one for one in recorded.key_averages() if one.key.startswith("aten::")}
    assert set(own.index) == set(torchs)
    for name, one in torchs.items():
        assert own["size"][name] == one.count
        assert own["sum"][name] * 1e6 == pytest.approx(one.self_cpu_time_total, abs=0.1)
    ends = again["start"] + again["time"]
    assert (again["start"].to_numpy()[1:] > ends.to_numpy()[:-1] - 1e-9).all()
    assert "operators" in answer.first_lines(run)[0]
    said = page(run)[: page(run).index('id="kernels"')] + explain.text(run, []) + document(run)
    assert "of CPU time" in said
    assert not re.search("GPU time|--ncu|Which kernel", said)
    assert any(line.startswith("thread") for line in tables.thread_lines(run))
    with pytest.raises(ProfkitError, match="no operators were captured") as none:
        profile_program([sys.executable, "-c", "print(1)"], runs=runs)
    assert "does it use torch?" in none.value.fix
    with pytest.raises(CannotProfileError, match="no CUDA device") as caught:
        profile_program(["true"], runs=runs / "none")
    assert "python train.py" in caught.value.fix
    assert not (runs / "none").exists()


def test_what_ends_profkit_ends_the_program_and_is_no_fault_of_the_profilers(runs, monkeypatch, capfd):
    monkeypatch.setattr("profkit.launch.gpu.gpu_present", lambda: False)
    began = runs.parent / "began"

    def end():
        while not began.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=end, daemon=True).start()
    program = [sys.executable, "-c", f"import time; open({str(began)!r}, 'w'); time.sleep(60)"]
    assert invoke(["profile", "--runs", str(runs), "--", *program]) == 143
    assert "was told to end and was killed by SIGTERM\nfix: let it come to its end" in capfd.readouterr().err
    assert len(list(runs.glob("*/*/run.json"))) == 1


def test_a_programs_output_and_exit_code_are_profkits(with_nsys, runs, capfd):
    with_nsys()
    program = [sys.executable, "-c", "print('mine'); raise SystemExit(5)"]
    assert invoke(["profile", "--nsys", "--runs", str(runs), "--", *program]) == 5
    assert capfd.readouterr().out.startswith("mine\n")
    assert invoke(["profile", "--nsys", "--json", "--runs", str(runs), "--", *program]) == 5
    assert json.loads(capfd.readouterr().out)["exit_code"] == 5


def test_a_program_is_counted_only_where_that_is_asked_for_or_nothing_else_can_tell_of_it(with_ncu, with_nsys, runs):
    with_ncu("ok")
    script, binary = Program.of(OK), Program.of(["true"])
    assert [step.name for step in recorders(script, "", runs)] == ["kineto"]
    assert [step.name for step in recorders(binary, "", runs)] == ["ncu"]
    with_nsys()
    assert [step.name for step in recorders(binary, "", runs)] == ["nsys"]
    for asked in ("deep", "lines", "kernel"):
        assert [step.name for step in recorders(script, asked, runs)] == ["ncu"]


def recorders(program, asked, runs):
    wanted = Request(runs=runs, **{asked: "gemm" if asked == "kernel" else True} if asked else {})
    return prepare(program, wanted).recorders


def test_declared_work_meets_the_launches(with_ncu, runs, tmp_path):
    with_ncu("ok")
    code = "from profkit import annotate\nwith annotate('outer', flops=1e9): pass"
    run = profile_program([sys.executable, "-c", code], runs=runs, counters="ncu")
    # The recording has no such range: its work is said to be without kernels, not dropped.
    assert any("outer" in caveat.what and "no kernels" in caveat.what for caveat in run.analysis.caveats)


def test_both_a_sample_and_a_command_are_too_much(capsys):
    assert invoke(["profile", "S1/ICVXKH", "--", "true"]) == 2
    assert invoke(["profile"]) == 2
    assert "--" in capsys.readouterr().err


def launched(order, grids="", **seconds):
    """A launches frame: a kernel a letter of `order`, its grid the letter of `grids` below it."""
    import pandas as pd

    names = {"f": "void ns::f<float>(float*)", "g": "void ns::f<int>(int*)"}
    return pd.DataFrame(
        {
            "kernel": [names.get(one, one) for one in order],
            "time": [float(seconds.get(one, 1)) for one in order],
            "grid": list(grids or "1" * len(order)),
            "block": "32,1,1",
            "kind": "kernel",
        }
    )


def counted(hot, order):
    """What ncu counts of these launches: it numbers the launches of each function, whatever its instance."""
    numbers, found = {}, []
    for one in order:
        base = "f" if one == "g" else one
        if re.fullmatch(hot.pattern.removeprefix("regex:"), base):
            numbers[base] = numbers.get(base, 0) + 1
            if re.fullmatch(hot.identifier.split(":")[-1], str(numbers[base])):
                found.append(one)
    return "".join(found)


@pytest.mark.parametrize(
    ("order", "seconds", "number", "expected"),
    [
        # Other instances of a hot template are hardly counted.
        ("gggggg" + "gfgggg" * 20, {"f": 90}, 1, "fff"),
        # What lies between two kernels that run once a step is not counted.
        (("a" * 60 + "b" + "g" * 60 + "c") * 6, {"a": 2, "b": 500, "c": 400}, 3, "aaabbbccc"),
    ],
)
def test_no_launches_in_between_are_counted(order, seconds, number, expected):
    hot = hottest(launched(order, **seconds), number)
    assert "".join(sorted(counted(hot, order))) == expected
    assert (hot.count, len(hot.kernels)) == (len(expected), number)


def test_of_each_hot_kernel_three_launches_are_counted_and_not_the_first():
    order = "ab" * 5
    hot = hottest(launched(order, b=2), 2)
    assert (hot.invocations, hot.count) == ((2, 3, 4), 6)
    assert counted(hot, order) == "ababab"
    assert hot.identifier == "::regex:^(b|a)$:^(2|3|4)$"
    # Where only one is there it is taken, first or not.
    assert counted(hottest(launched("aaab", b=9), 2), "aaab").count("b") == 1


def test_shapes_of_a_hot_kernel_are_counted_the_dearest_first():
    order, grids = "a" * 40, "1234" * 10
    frame = launched(order, grids)
    frame["time"] = frame["grid"].map({"1": 1.0, "2": 8.0, "3": 4.0, "4": 2.0})
    hot = hottest(frame, 1)
    assert sorted(grids[at - 1] for at in hot.invocations) == ["2", "3", "4"]
    frame["grid"] = None  # Nobody recorded it.
    assert hottest(frame, 1).count == 3


@given(order=st.text("abfg", min_size=1, max_size=80), number=st.integers(1, 4))
def test_every_hot_kernel_is_counted_in_any_order_of_launches(order, number):
    hot = hottest(launched(order, a=3, f=2), number)
    found = counted(hot, order)
    assert len(found) == hot.count
    names = {"void ns::f<float>(float*)": "f", "void ns::f<int>(int*)": "g"}
    assert {names.get(name, name) for name in hot.kernels} <= set(found)


@pytest.mark.parametrize(
    ("argv", "rest"),
    [
        (["python", "train.py", "--x"], ["train.py", "--x"]),
        (["python3.11", "-u", "-X", "dev", "-m", "pkg.mod", "a"], ["-m", "pkg.mod", "a"]),
        (["python", "-c", "pass"], ["-c", "pass"]),
        (["python", "-mpkg"], ["-m", "pkg"]),
    ],
)
def test_python_command_lines_are_rewritten(argv, rest):
    found = bootstrapped(argv, Path("o.csv"))
    assert found[-len(rest) :] == rest
    assert found[: len(found) - len(rest)][-3:] == ["-m", "profkit.torch_tools.trace", "o.csv"]


def test_other_programs_are_not(tmp_path):
    assert bootstrapped(["true"], Path("o")) is None
    assert bootstrapped(["python"], Path("o")) is None
    script = tmp_path / "tool"
    script.write_text(f"#!{sys.executable}\nprint(1)\n")
    script.chmod(0o755)
    assert bootstrapped([str(script), "x"], Path("o"))[-2:] == [str(script), "x"]


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["python", "a/train.py", "x"], "train"),
        (["python", "-m", "pkg.run"], "pkg.run"),
        (["./bench"], "bench"),
        (OK, "python"),
    ],
)
def test_a_run_is_named_after_the_program(argv, name):
    assert name_of(argv).startswith(name)


def test_shares_are_of_the_whole_program_after_hot(with_nsys, with_ncu, runs):
    """Two of many kernels are counted: their shares are of all GPU time and of the wall, by the timeline."""
    with_ncu("ok")
    text = (Path(__file__).parent.parent / "data/ncu/h200_default.csv").read_text()
    names = list(dict.fromkeys(re.findall(r'"(sm80_xmma_gemm[^"]*|nvjet[^"]*)"', text)))[:2]
    ops = [Op(1000 * n, 400 if n % 2 else 200, names[n % 2], call=1000 * n - 500) for n in range(1, 9)]
    ops += [Op(9000, 3600, "never_counted(int)", call=8900)]
    with_nsys(ops=ops)
    run = profile_program(OK, runs=runs, hot=3)
    assert run.filtered
    found = run.hottest.set_index("kernel")
    total = 4 * 400 + 4 * 200 + 3600
    assert found.loc[names[1], "share"] == pytest.approx(1600 / total)
    assert found.loc[names[0], "share"] == pytest.approx(800 / total)
    assert found.loc[names[1], "wall_share"] == pytest.approx(1600 / (9000 + 3600 - 1000))
    of_kernels = [one for one in run.findings() if one.kernel in names and one.upper_bound > 0]
    step = sum(one.step for one in run.budgets.values())
    assert of_kernels
    for one in of_kernels:
        # No more than the kernel takes of a step, and told of that.
        assert one.upper_bound <= found.loc[one.kernel, "step_time"]
        assert one.ratio == pytest.approx(one.upper_bound / step)
        assert "as recorded" in explain.gain(one)
    said = "\n".join(answer.first_lines(run))
    assert "counted: " in said
    assert "of the program's 6.00 us" in said
    assert "of wall time" in tables.kernels_table(run).head
    text = html.unescape(page(run))
    top = text[text.index('<dl class="answer">') : text.index("</dl>")]
    assert "of the program's GPU time" in top
    assert "at their ceilings" in top
    assert "GPU time of the counted launches" in text
