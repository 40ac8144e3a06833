"""A program recorded in part: which passages of a range, what the tools are told, what is refused."""

import json
import sys

import numpy as np
import pytest

from analyzers.timeline.budget import budget
from analyzers.timeline.steady import steady_of
from collectors.frame import build
from profkit import annotation
from profkit.api import open_run, profile
from profkit.errors import ProfkitError
from profkit.record.request import Request, refuse
from profkit.report.messages import in_each
from profkit.report.sections import answer
from profkit.rundir.manifest import Window as Wanted
from profkit.targets.program import Program

torch = pytest.importorskip("torch")
from profkit.torch_tools import trace  # noqa: E402

STEPS = """
import pathlib, torch
from torch.autograd.profiler import profile
from torch.profiler import record_function
exported = profile.export_chrome_trace

# On a CPU its operators stand for kernels.
def as_kernels(self, path):
    exported(self, path)
    file = pathlib.Path(path)
    file.write_text(file.read_text().replace('"cpu_op"', '"kernel"'))

profile.export_chrome_trace = as_kernels
operators = [torch.exp, torch.sin, torch.cos, torch.tan, torch.sqrt, torch.tanh]
x = torch.ones(8)
for one in operators:
    torch.neg(x)
    with record_function("step"):
        one(x)
"""


@pytest.fixture
def ranges(monkeypatch):
    """What a window changes is undone."""
    from torch.autograd.profiler import record_function
    from torch.cuda import nvtx

    for name in ("__enter__", "__exit__"):
        monkeypatch.setattr(record_function, name, getattr(record_function, name))
    for name in ("range_push", "range_pop"):
        monkeypatch.setattr(nvtx, name, lambda *_: None)
    yield record_function, nvtx
    annotation.listen()


def marks(words, ranges):
    """What a window told, with six steps of which each has something inside."""
    told = []
    wanted, rest = trace.parsed([*words, "--", "train.py", "--", "x"])
    assert rest == ["train.py", "--", "x"]
    one = trace.Window(wanted, lambda: told.append("begin"), lambda: told.append("end"))
    for number in range(6):
        with ranges[0]("step"):
            told.append(number)
        told.append("-")
    one.finish()
    return told


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["--after", "2", "--steps", "2"], "0 - 1 - begin 2 - 3 end - 4 - 5 -"),
        (["--after", "2", "--steps", "2", "--each"], "0 - 1 - begin 2 end - begin 3 end - 4 - 5 -"),
        (["--after", "4"], "0 - 1 - 2 - 3 - begin 4 - 5 - end"),
        (["--after", "4", "--each"], "0 - 1 - 2 - 3 - begin 4 end - begin 5 end -"),
    ],
)
def test_the_passages_that_were_asked_for(words, want, ranges, capsys):
    assert " ".join(map(str, marks(["--range", "step", *words], ranges))) == want
    said = capsys.readouterr().err
    assert "range 'step': " in said
    assert ("entered: " in said) == ("begin" not in want)


def test_what_did_not_come_is_said_with_what_did(ranges, capsys):
    marks(["--range", "stpe"], ranges)
    assert "range 'stpe': 0 passages recorded; ranges that were entered: step (6)" in capsys.readouterr().err
    marks(["--range", "step", "--after", "5", "--steps", "3"], ranges)
    assert "range 'step': 1 passages recorded; ranges" in capsys.readouterr().err


def test_ranges_of_annotate_and_of_nvtx_are_heard_of(ranges):
    told = []
    wanted, _ = trace.parsed(["--range", "mlp", "--each", "--", "x"])
    one = trace.Window(wanted, lambda: told.append("begin"), lambda: told.append("end"))
    annotation.listen(trace._mirror)
    with annotation.annotate("block"), annotation.annotate("mlp"):
        told.append(1)
    ranges[1].range_push("mlp")
    ranges[1].range_push("inner")
    told.append(2)
    ranges[1].range_pop()
    ranges[1].range_pop()
    one.finish()
    assert told == ["begin", 1, "end", "begin", 2, "end"]


@pytest.mark.slow
def test_only_the_steps_that_were_asked_for_are_recorded(tmp_path, monkeypatch):
    """From the command line to the report, with torch's own profiler."""
    monkeypatch.setenv("PROFKIT_NSYS", str(tmp_path / "no-such-nsys"))
    monkeypatch.setenv("PROFKIT_NCU", str(tmp_path / "no-such-ncu"))
    monkeypatch.setattr("profkit.launch.gpu.gpu_present", lambda: True)
    script = tmp_path / "train.py"
    script.write_text(STEPS)
    program = Program.of([sys.executable, str(script)])
    run = profile(program, nsys=True, range="step", after=2, steps=2, runs=tmp_path / "runs")
    frame = run.captured.timeline
    assert [name for name in frame["kernel"] if name != "aten::neg"] == ["aten::cos", "aten::tan"]
    again = open_run(run.path)
    assert again.manifest.window == Wanted("step", 2, 2, 2)
    assert "range step, 2 passages of " in answer.wall_time(again)[0]
    assert "区间 step，经过 2 次" in in_each(lambda: answer.wall_time(again))[1][0]
    with pytest.raises(ProfkitError, match=r"'stpe': 0 passages recorded; .*: step \(6\)"):
        profile(program, nsys=True, range="stpe", runs=tmp_path / "runs")


@pytest.mark.slow
def test_ncu_counts_each_passage(fake_ncu, tmp_path, monkeypatch):
    log = tmp_path / "argv.jsonl"
    fake_ncu("ok", log=log)
    script = tmp_path / "train.py"
    script.write_text("from profkit import annotate\nfor _ in range(3):\n    with annotate('step'): pass\n")
    run = profile(Program.of([sys.executable, str(script)]), counters="ncu", range="step", steps=5, runs=tmp_path / "r")
    argv = json.loads(log.read_text().splitlines()[-1])
    assert argv[argv.index("--profile-from-start") + 1] == "off"
    assert run.manifest.window.taken == 3
    assert run.manifest.captures[0].filtered
    assert any(one.what.startswith("3 of the 5 passages") for one in run.manifest.caveats)
    fake_ncu("no_kernels", log=log)
    with pytest.raises(ProfkitError, match=r"range 'other': 0 passages recorded; .*: step \(3\)"):
        profile(Program.of([sys.executable, str(script)]), counters="ncu", range="other", runs=tmp_path / "r")


def test_what_cannot_apply_is_refused():
    with pytest.raises(ProfkitError, match="not for a sample"):
        refuse("folder", Request(range="step"))
    for asked in ({"steps": 3}, {"after": 3}):
        for more in ({}, {"counters": "ncu"}, {"nsys": True, "hot": 2}):
            with pytest.raises(ProfkitError, match="defines a step"):
                refuse("program", Request(**asked, **more))
        refuse("program", Request(**asked, nsys=True))
        refuse("program", Request(**asked, range="step"))


def test_a_program_that_is_not_pythons_cannot_be_asked(fake_nsys, tmp_path):
    fake_nsys("ok")
    with pytest.raises(ProfkitError, match="only possible for a Python program"):
        profile(Program(("/bin/true",)), nsys=True, range="step", runs=tmp_path)


def frame_of(count):
    """Steps of two kernels, 10 s each; every second one is inside of a range."""
    start = np.arange(count, dtype=float) * 5
    return build(
        {
            "range": ["train/step" if number % 2 else "train" for number in range(count)],
            "kernel": ["a" if number % 2 else "b" for number in range(count)],
            "start": start,
            "time": np.full(count, 2.0),
            "kind": ["kernel"] * count,
        },
        tool="nsys",
    )


def test_steps_that_repeat_are_cut_to_those_asked_for():
    whole, part = steady_of(frame_of(40)), steady_of(frame_of(40), after=3, at_most=4)
    assert (part.first, part.steps) == (whole.first + 6, 4)
    assert part.end == part.first + 8
    one = budget(frame_of(40), after=3, at_most=4)
    # The last step ends where the next one begins, as every other: each takes 10 s.
    assert one.window == pytest.approx(40.0)
    assert (one.step, one.shortest, one.longest) == pytest.approx((10.0, 10.0, 10.0))


def test_a_range_is_one_of_a_path():
    one = budget(frame_of(40), within="step", passages=20)
    assert (one.steady.found, one.steady.steps, one.steady.first) == ("range", 20, 1)
    assert budget(frame_of(40), within="ste").steady.first == 0
