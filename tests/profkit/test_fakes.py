"""The fake Nsight tools, driven by profkit's own command lines: each failure looks as the real one does."""

import contextlib
import json
import subprocess
import time

import psutil
import pytest
from candidates import write_sample

from collectors import read
from profkit.errors import ProfkitError
from profkit.launch import runner, tools
from profkit.launch.protocol import Job, Subject
from profkit.record.request import Request
from profkit.record.session import Session
from profkit.record.tools.ncu import Ncu, planned
from profkit.rundir.directory import create_run
from profkit.rundir.manifest import Impl, SampleInfo
from profkit.targets import resolve
from profkit.vendor.nvidia import ncu


@pytest.mark.parametrize(
    "argv",
    [["--nonsense", "true"], ["--nvtx-include", "a/", "true"], ["--metrics"], ["--csv"]],
    ids=["unknown option", "include without nvtx", "missing value", "no target"],
)
def test_a_wrong_command_line_is_refused(fake_ncu, argv):
    done = subprocess.run([str(fake_ncu()), *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("==ERROR==")


def test_a_hang_is_blamed_on_the_implementation(fake_ncu, tmp_path):
    tool = fake_ncu("hang")
    job = Job("counters", "ICTEST", [Subject("reference", "reference", "r.py")], limits={"count": 0.5})
    options = ncu.Options(metrics=("gpu__time_duration.sum",), csv=tmp_path / "ncu.csv")
    outcome = runner.run_job(job, tmp_path, prefix=ncu.prefix(str(tool), options))
    assert not outcome.finished
    assert outcome.fallen["reference"][0] == "hang"


def test_the_real_runner_under_ncu(fake_ncu, tmp_path, monkeypatch):
    log = tmp_path / "argv.jsonl"
    tool = fake_ncu("ok", log=log)
    folder = write_sample(tmp_path, "honest")
    subjects = [
        Subject("reference", "reference", str(next(folder.glob("*torchcode.py"))), "torch"),
        Subject("honest", "candidate", str(next(folder.glob("*honest*.py"))), "torch"),
    ]
    job = Job("counters", "ICTEST", subjects, device="cpu", seeds=[1], cache=str(tmp_path / "cache"))
    options = ncu.Options(metrics=("gpu__time_duration.sum",), csv=tmp_path / "ncu.csv")
    prefix = ncu.prefix(str(tool), options)
    ahead = runner.Ahead(tmp_path, "counters", prefix, {}, 0)
    time.sleep(1.0)
    outcome = runner.run_job(job, tmp_path, prefix=prefix, ahead=ahead)
    ahead.close()
    assert outcome.finished
    ((_, ended, _),) = outcome.exits
    assert (ended.code, ended.hung) == (0, False)
    counted = {event.impl for event in outcome.of("impl") if event.data.get("status") == "counted"}
    assert counted == {"reference", "honest"}
    assert set(read(tmp_path / "ncu.csv")["impl"]) == counted
    assert "profkit@counters/" in json.loads(log.read_text().splitlines()[-1])


def test_a_runner_that_gets_no_job_is_ended(fake_ncu, tmp_path):
    options = ncu.Options(metrics=("gpu__time_duration.sum",), csv=tmp_path / "ncu.csv")

    def mine():
        return [one for one in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(one.info["cmdline"] or ())]

    ahead = runner.Ahead(tmp_path, "ncu", ncu.prefix(str(fake_ncu("ok")), options), {}, 0)
    while not mine():
        time.sleep(0.05)
    ahead.close()
    assert mine() == []
    assert not (tmp_path / "ncu.job.json").exists()


@pytest.fixture
def counted(fake_ncu, tmp_path, monkeypatch):
    """counted(mode): a measured run after its counters step under the fake ncu."""

    def run(mode):
        fake_ncu(mode, target="skip")
        monkeypatch.setattr(ncu, "counters_restricted", lambda: False)
        sample = resolve(write_sample(tmp_path, "honest"))
        made = create_run(SampleInfo("ITESTS", str(sample.path)), tmp_path / "runs")
        made.manifest.impls = [
            Impl("reference", "reference", "example_torchcode.py", status="ok"),
            Impl("honest", "candidate", "honest.py", status="ok"),
        ]
        made.manifest.device = {"cc": "9.0"}
        wanted = Request(timeout=0.01)
        made.manifest.counters = planned(sample, wanted, "cuda")
        with contextlib.suppress(ProfkitError):
            Ncu().record(Session(sample, wanted, made, chosen=sample.candidates))
        return made

    return run


@pytest.mark.parametrize("mode", ["ok", "app_error", "segv", "unknown_metric"])
def test_a_run_has_counters_when_the_csv_has_them(counted, mode):
    made = counted(mode)
    assert made.manifest.counters.state == "collected"
    assert made.manifest.counters.why == ""
    assert set(read(made.path / "ncu.csv")["impl"]) == {"reference", "honest"}


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("permission", "ERR_NVGPUCTRPERM"),
        ("stub", "failed to connect to the CUDA driver"),
        ("no_kernels", "No kernels were profiled"),
        ("truncated", "cut"),
        ("garbage", "ncu.csv"),
        ("empty", "breaks off"),
        ("hang", ""),
    ],
)
@pytest.mark.slow
def test_a_run_says_why_counters_are_missing(counted, mode, why):
    made = counted(mode)
    assert made.manifest.counters.state == "missing"
    assert why in made.manifest.counters.why
    assert made.manifest.counters.why
    assert all(impl.ok for impl in made.manifest.impls)
    assert mode != "hang" or "hung" in [command.note for command in made.manifest.commands]


def test_find_reads_the_version(fake_ncu):
    tool = fake_ncu(version="2022.3.0.0")
    assert tools.find(tools.NCU) == tools.Tool(str(tool), (2022, 3, 0))
