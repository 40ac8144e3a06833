"""torchrun: every rank traced, on one clock and attributed; NCCL named and measured, and never counted."""

import gzip
import json
import os
import re
import sys
from pathlib import Path

import pytest

from analyzers.timeline.hot import hottest
from collectors.frame import build, host_of
from profkit.api import profile
from profkit.record.profile import prepare
from profkit.record.request import Request
from profkit.report.sections import answer
from profkit.rundir.directory import create_run
from profkit.rundir.manifest import Capture, SampleInfo
from profkit.study.study import open_study
from profkit.targets.program import Program, bootstrapped, name_of
from profkit.torch_tools import trace

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@pytest.mark.parametrize(
    ("words", "options", "rest"),
    [
        (["torchrun", "--nproc-per-node", "2", "train.py", "--x"], ["--nproc-per-node", "2"], ["train.py", "--x"]),
        (["torchrun", "--standalone", "--nproc_per_node=2", "t.py"], ["--standalone", "--nproc_per_node=2"], ["t.py"]),
        (["torchrun", "-m", "--nnodes", "1", "pkg.train", "a"], ["--nnodes", "1"], ["-m", "pkg.train", "a"]),
        (["python", "-u", "-m", "torch.distributed.run", "--standalone", "t.py"], ["--standalone"], ["t.py"]),
    ],
)
def test_the_launcher_stays_and_its_ranks_are_traced(words, options, rest):
    found = bootstrapped(words, Path("o.json"))
    begin = 1 if words[0] == "torchrun" else 4
    assert found == [*words[:begin], *options, "-m", "profkit.torch_tools.trace", "o.json", *rest]
    assert name_of(words) == Path(rest[-2] if rest[-1] in ("a", "--x") else rest[-1]).name.removesuffix(".py")


def test_what_is_no_python_is_not_traced():
    assert bootstrapped(["torchrun", "--no-python", "./bench"], Path("o.json")) is None
    assert bootstrapped(["torchrun", "--nproc-per-node", "2"], Path("o.json")) is None


def rank(folder, number, begin, rows, calls):
    """The trace that one rank writes; begin [s] on the common clock."""

    def event(cat, name, start, time, tid, **args):
        times = {"ts": (begin + start) * 1e6, "dur": time * 1e6}
        return {"ph": "X", "cat": cat, "name": name, "pid": 40 + number, "tid": tid, **times, "args": args}

    events = [event("cuda_runtime", *call, 11, correlation=n) for n, call in enumerate(calls, 1)]
    for n, row in enumerate(rows, 1):
        events.append(event("kernel", *row, 7, correlation=n, device=number, stream=7))
    gpus = [{"id": n, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0} for n in range(2)]
    document = {"deviceProperties": gpus, "baseTimeNanoseconds": 1_759_000_000_000_000_000, "traceEvents": events}
    (folder / f"trace.rank{number}.json.gz").write_bytes(gzip.compress(json.dumps(document).encode()))


@pytest.fixture
def two(tmp_path):
    """Rank 0: 4 s of computing, NCCL from 2 to 6. Rank 1, a second later: NCCL alone for 1 of 4 s."""
    run = create_run(SampleInfo(id="train", path="", kind="program"), tmp_path)
    for number, rows, second in (
        (0, [("gemm", 0.0, 4.0), (NCCL, 2.0, 4.0)], 1.0),
        (1, [("gemm", 0.0, 3.0), (NCCL, 3.0, 1.0)], 0.2),
    ):
        calls = [("cudaLaunchKernel", -0.5, 0.1), ("cudaLaunchKernel", second, 0.1)]
        rank(run.path, number, 100.0 + number, rows, calls)
    other = {"rank1": "trace.rank1.json.gz"}
    run.manifest.captures.append(Capture("trace.rank0.json.gz", "kineto", "times", companions=other))
    run.save()
    return open_study(run.path)


def test_ranks_come_together_on_one_clock(two):
    frame = two.captured.timeline
    assert frame["start"].tolist() == [0.0, 1.0, 2.0, 4.0]
    assert frame["process"].tolist() == ["rank 0", "rank 1", "rank 0", "rank 1"]
    host = host_of(frame)
    asked = host[host["launch"] >= 0]
    assert (frame["process"].to_numpy()[asked["launch"]] == asked["process"]).all()
    assert not [one for one in frame.attrs["caveats"] if "children" in one.what]


def test_each_rank_has_its_budget_with_what_nccl_takes_and_hides(two):
    first, second = two.budgets["rank 0 NVIDIA H200 (0)"], two.budgets["rank 1 NVIDIA H200 (1)"]
    assert (first.window, first.computing, first.communicating, first.hidden) == pytest.approx((6, 4, 2, 2))
    assert (second.window, second.computing, second.communicating, second.hidden) == pytest.approx((4, 3, 1, 0))
    assert first.unknown == second.unknown == 0
    said = "\n".join(answer.wall_time(two))
    assert "rank 0 NVIDIA H200 (0): " in said
    assert "communication only" in said


def test_a_rank_is_one_of_several(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv("RANK", "3")
    assert trace.rank() == ""
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert trace.rank() == "3"


def test_nccl_is_never_counted(fake_ncu, tmp_path, monkeypatch):
    log = tmp_path / "argv.jsonl"
    fake_ncu("ok", log=log)
    launcher = tmp_path / "torchrun"
    launcher.write_text(f"#!{sys.executable}\nprint('ranks')\n")
    launcher.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program = Program.of(["torchrun", "--nproc-per-node", "2", "train.py"])
    study = profile(program, counters="ncu", runs=tmp_path / "runs")
    argv = json.loads(log.read_text().splitlines()[-1])
    pattern = argv[argv.index("-k") + 1].removeprefix("regex:")
    names = ["ncclDevKernel_AllReduce_Sum", "nchwToNhwcKernel", "gemm", "n", "void nccl_like"]
    assert [re.search(pattern, name) is not None for name in names] == [False, True, True, True, True]
    assert [one.code for one in study.manifest.caveats if one.code == "nccl"] == ["nccl"]
    # Nothing asked for by name: times, not counters.
    assert [step.name for step in prepare(program, Request(runs=tmp_path)).recorders] == ["kineto"]


def test_the_hottest_kernel_is_none_of_nccls():
    frame = build({"kernel": [NCCL, "gemm"], "time": [9.0, 1.0], "kind": ["kernel", "kernel"]}, tool="cupti")
    assert hottest(frame, 1).kernels == ("gemm",)
