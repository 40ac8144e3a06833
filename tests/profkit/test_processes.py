"""Own processes by default, several of them in turn; what was allowed; and what a trusted run may do."""

import json
from types import SimpleNamespace

import pandas as pd
import pytest
from candidates import ANSWERS, REFERENCE, task, timings, write_sample

from collectors.caveat import Caveat
from profkit.api import profile
from profkit.cli.group import invoke
from profkit.errors import ProfkitError
from profkit.launch import walls
from profkit.record import measure, request
from profkit.record.request import Request
from profkit.record.session import Session
from profkit.record.tools.ncu import Ncu
from profkit.report.messages import speaking
from profkit.report.sections import method
from profkit.rundir.directory import open_run
from profkit.rundir.manifest import Capture, Check, Impl, Manifest, SampleInfo
from profkit.study.verdicts import verdicts_of
from profkit.targets.sample import resolve

pytestmark = pytest.mark.usefixtures("private_cache")

QUICK = {"device": "cpu", "counters": "off", "budget": 0.15, "trials": 2}
TURNCOAT = """
import os
import torch
from torch import nn

MARK = {mark!r}
SEEN = os.path.exists(MARK)
open(MARK, "w").close()

class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)
    def forward(self, x):
        return torch.relu(x @ self.weight) * (2 if SEEN else 1)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Three processes; one candidate is right in the first alone."""
    root = tmp_path_factory.mktemp("processes")
    folder = write_sample(root, "honest")
    # Where a candidate may write.
    mark = root / "cache/build/mark"
    mark.parent.mkdir(parents=True)
    (folder / "turncoat.py").write_text(TURNCOAT.format(mark=str(mark)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROFKIT_CACHE", str(root / "cache"))
        return profile(folder, runs=root / "runs", processes=3, **QUICK)


def test_times_come_from_processes_of_their_own(run):
    rows = timings(run)
    assert {(row["impl"], row["process"]) for row in rows} == {
        (name, number) for name in ("reference", "honest") for number in "012"
    }
    assert run.manifest.timing.processes == 3
    assert [one.step for one in run.manifest.commands].count("process-2") >= 2
    assert run.manifest.timing.rounds == len(
        {(row["process"], row["round"]) for row in rows if row["method"] == "wall"}
    )
    assert not list(run.path.glob("timings-*.csv"))


def test_the_interval_is_over_processes_and_says_so(run):
    (row,) = [row for row in run.analysis.impls.to_dict("records") if row["impl"] == "honest"]
    assert row["processes"] == 3
    assert row["within"] > 0
    for lang, words in (("en", "in 3 rounds of fresh processes"), ("zh", "启动 3 轮新进程")):
        with speaking(lang):
            assert words in method.timing_line(run)


def test_what_is_wrong_in_a_later_process_is_wrong(run):
    by_name = {impl.name: impl for impl in run.manifest.impls}
    assert (by_name["turncoat"].status, by_name["honest"].status) == ("mismatch", "ok")
    assert run.verdicts["turncoat"].word == "wrong"
    assert len(by_name["honest"].checks) == len(run.manifest.seeds) == 2


@pytest.mark.parametrize(
    ("asked", "device", "count"),
    [
        ({}, "cpu", 5),
        ({}, "cuda", 3),
        ({"budget": 3.5}, "cpu", 3),
        ({"budget": 2.9}, "cpu", 1),
        ({"budget": 60.0}, "cuda", 3),
        ({"budget": 0.1, "processes": 4}, "cuda", 4),
        ({"processes": 1}, "cpu", 1),
    ],
)
def test_a_process_gets_a_second_of_the_budget(asked, device, count):
    assert Request(**asked).sittings(device) == count


@pytest.mark.slow
@pytest.mark.skipif(not walls.version(), reason="this kernel has no Landlock")
def test_a_trusted_candidate_writes_where_it_likes_and_the_run_says_so(tmp_path):
    folder = write_sample(tmp_path, "honest")
    file = folder / "honest.py"
    file.write_text(f"open({str(tmp_path / 'mine')!r}, 'w').close()\n{file.read_text()}")
    runs = [profile(folder, runs=tmp_path / str(trust), trust=trust, **QUICK) for trust in (False, True)]
    assert [[impl.status for impl in one.manifest.candidates] for one in runs] == [["load-error"], ["ok"]]
    assert [[d.code for d in one.manifest.caveats].count("trusted") for one in runs] == [0, 1]
    assert "each candidate in a process of its own" in method.timing_line(runs[1])


@pytest.mark.slow
def test_precisions_are_allowed_by_the_user_and_by_the_sample(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = write_sample(tmp_path, "honest")
    reference = next(folder.glob("*torchcode.py"))
    reference.write_text(REFERENCE + '\nallowed_precisions = ("BF16", "tf32")\n')
    words = ["profile", str(folder), "--device", "cpu", "--budget", "0.05", "--trials", "1", "-q", "--json"]
    assert invoke([*words, "--allow", "tf32, fp16"]) == 0
    assert json.loads(capsys.readouterr().out)["run"]["allowed"] == ["tf32", "fp16", "bf16"]
    assert open_run(tmp_path / "profkit-runs").manifest.allowed == ["tf32", "fp16", "bf16"]
    assert invoke([*words, "--allow", "fp33"]) == 2
    assert "the precisions are tf32" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "code", "about", "held"),
    [("cpu", "", "", True), ("cpu", "busy", "", False), ("cpu", "busy", "honest", True), ("cuda", "busy", "", True)],
)
def test_roofs_measured_beside_other_work_hold_against_nobody(kind, code, about, held):
    impl = Impl("honest", "candidate", "honest.py", status="ok")
    run = Manifest(SampleInfo("ITESTS", "."), "", impls=[impl], device={"kind": kind})
    run.caveats = [Caveat("the machine was busy", "", "", code, about)]
    row = {"impl": "honest", "pace": "faster", "speedup": 3.0, "time": 1e-3, "lower_bound_hard": 2e-3}
    analysis = SimpleNamespace(impls=pd.DataFrame([row]), rows={"honest": row}, caveats=[])
    study = SimpleNamespace(manifest=run, reduced_precision=[], whose={}, weighted={})
    verdict = verdicts_of(study, analysis)["honest"]
    assert ("unexplained" in [one.code for one in verdict.conditions]) is held
    assert verdict.wins is not held
    # In TF32 the work of an FP32 task needs less time.
    run.probe, impl.checks = {"precision": {"type": "fp32"}}, [Check(1, True, precision="tf32", bits=10.4)]
    assert [one.code for one in verdicts_of(study, analysis)["honest"].conditions] == ["reduced"]


@pytest.mark.slow
def test_where_one_process_takes_long_it_is_the_only_one_and_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "PATIENCE", 0.0)
    run = profile(write_sample(tmp_path, "honest"), runs=tmp_path / "runs", **{**QUICK, "budget": 3.0})
    assert [caveat.code for caveat in run.manifest.caveats if caveat.code == "one-process"] == ["one-process"]
    assert run.manifest.timing.processes == 1


def test_what_is_left_out_after_the_budget_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(request, "LEAST_WHOLE", 0.0)
    run = profile(write_sample(tmp_path, "honest"), runs=tmp_path / "runs", **{**QUICK, "budget": 0.01})
    assert run.manifest.candidates[0].ok
    assert run.manifest.candidates[0].notes == []
    wanted = Request(runs=tmp_path / "runs", budget=0.01)
    session = Session(resolve(tmp_path / "ITESTS"), wanted, run, spent=5.0)
    with pytest.raises(ProfkitError, match="left out: checks and timing took 5 s"):
        Ncu().record(session)
    run.manifest.captures.append(Capture("cupti.csv", "cupti", "times", rows=1000))
    with pytest.raises(ProfkitError, match="left out: counting 1000 launches would take about 350 s"):
        Ncu().record(Session(resolve(tmp_path / "ITESTS"), Request(runs=tmp_path / "runs", budget=5.0), run))
    assert run.manifest.counters.state == "missing"


FIXED = task("torch.relu(x - 100.0)", "torch.arange(4096.0).reshape(64, 64) / 7.0")
RIGHT = ANSWERS + "        return (x - 100.0).clamp(min=0.0)\n"


def test_what_the_first_process_found_out_of_the_reference_holds_for_the_others(tmp_path, monkeypatch):
    """Its inputs are the same every time, and made other ones; it keeps nothing."""
    folder = tmp_path / "fixed"
    folder.mkdir()
    (folder / "reference.py").write_text(FIXED)
    (folder / "right.py").write_text(RIGHT)
    again = []
    start = measure._start
    monkeypatch.setattr(measure, "_start", lambda *given: again.append(start(*given)) or again[-1])
    run = profile(folder, runs=tmp_path / "runs", processes=2, **QUICK)
    assert [impl.status for impl in run.manifest.impls] == ["ok", "ok"]
    assert (run.manifest.probe["varied"], run.manifest.probe["keeps"]) == (True, False)
    _, other = again
    phases = [event.phase for event in other.of("phase")]
    # Making its weights live, and what its answer is made of: what others were found by is not looked for again.
    assert phases[: phases.index("first", phases.index("first") + 1)].count("work") == 2
