"""The fake Nsight tools, driven by profkit's own command lines: each failure looks as the real one does."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from candidates import write_sample

from collectors import CollectError, read
from collectors.ncu.log import diagnose, reason
from profkit.errors import ProfkitError
from profkit.launch import process, runner, tools
from profkit.launch.protocol import Job, Subject
from profkit.record.ncu import Ncu, planned
from profkit.record.request import Request
from profkit.record.session import Session
from profkit.rundir.directory import create_run
from profkit.rundir.manifest import Impl, SampleInfo
from profkit.targets import resolve
from profkit.vendor.nvidia import ncu

RUNNER = [sys.executable, "-m", "profkit.judge"]


@pytest.fixture
def capture(tmp_path, fake_ncu):
    """capture(mode, target=None): ncu's command line of profkit on a job or a target; (exit code, csv, output)."""

    def run(mode, target=None, job="skip", **settings):
        tool = fake_ncu(mode, target=job, **settings)
        csv = tmp_path / "ncu.csv"
        csv.unlink(missing_ok=True)
        options = ncu.Options(metrics=("gpu__time_duration.sum", "dram__bytes.sum"), csv=csv)
        argv = [*ncu.prefix(str(tool), options), *(target or job_argv(tmp_path))]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return done.returncode, csv, done.stdout + done.stderr

    return run


def job_argv(folder, sample="ICTEST", names=("reference", "cuda", "triton")):
    subjects = [Subject(n, "reference" if n == "reference" else "candidate", f"{n}.py") for n in names]
    job = folder / "counters.job.json"
    job.write_bytes(msgspec.json.encode(Job("counters", sample, subjects)))
    return [*RUNNER, str(job), str(folder / "counters.events.jsonl")]


def test_a_capture_names_the_implementations_of_the_job(capture, tmp_path):
    code, csv, _ = capture("ok")
    frame = read(csv)
    assert code == 0
    assert list(dict.fromkeys(frame["impl"])) == ["reference", "cuda", "triton"]
    assert set(frame["range"]) == {f"ICTEST/{n}/counters" for n in ("reference", "cuda", "triton")}
    assert frame["launch"].tolist() == list(range(12))
    assert (frame["time"] > 0).all()
    assert '"done"' in (tmp_path / "counters.events.jsonl").read_text()


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("permission", "permission"),
        ("dcgm", "busy"),
        ("lock", "lock"),
        ("sandbox", "sandbox"),
        ("no_kernels", "no kernels"),
    ],
)
def test_a_refusal_exits_0_without_a_table(capture, mode, kind):
    code, csv, _ = capture(mode)
    assert code == 0
    with pytest.raises(CollectError):
        read(csv)
    assert reason(diagnose(csv.read_text())).kind == kind


def test_the_stub_driver_is_named_on_stderr_alone(capture):
    code, csv, output = capture("stub")
    assert code == 1
    assert not csv.exists()
    assert reason(diagnose(output)).kind == "stub"


@pytest.mark.parametrize(("mode", "code"), [("app_error", 3), ("segv", 11)])
def test_a_failing_target_leaves_a_whole_table(capture, mode, code):
    got, csv, _ = capture(mode)
    assert got == code
    frame = read(csv)
    assert set(frame["impl"]) == {"reference", "cuda", "triton"}
    assert any(f"({code})" in caveat.what for caveat in frame.attrs["caveats"])


@pytest.mark.parametrize("mode", ["truncated", "garbage", "empty"])
def test_a_broken_export_is_refused(capture, mode):
    code, csv, _ = capture(mode)
    assert code == 0
    with pytest.raises(CollectError):
        read(csv)


def test_an_unknown_metric_goes_without_a_word(capture):
    code, csv, _ = capture("unknown_metric")
    assert code == 0
    assert len(read(csv)) == 12


def test_the_target_runs_and_its_exit_code_is_passed_on(capture, tmp_path):
    mark = tmp_path / "ran"
    target = [sys.executable, "-c", f"open({str(mark)!r}, 'w').close(); raise SystemExit(7)"]
    code, csv, _ = capture("ok", target, job="run")
    assert code == 7
    assert mark.exists()
    assert "error code (7)" in csv.read_text()
    assert len(read(csv)) == 9


def test_a_target_without_ranges_has_none(tmp_path, fake_ncu):
    tool, csv = fake_ncu(), tmp_path / "ncu.csv"
    options = ncu.Options(metrics=("gpu__time_duration.sum",), csv=csv, include=())
    subprocess.run([*ncu.prefix(str(tool), options), sys.executable, "-c", ""], check=True)
    assert set(read(csv)["range"]) == {""}


@pytest.mark.parametrize(
    "argv",
    [["--nonsense", "true"], ["--nvtx-include", "a/", "true"], ["--metrics"], ["--csv"]],
    ids=["unknown option", "include without nvtx", "missing value", "no target"],
)
def test_a_wrong_command_line_is_refused(fake_ncu, argv):
    done = subprocess.run([str(fake_ncu()), *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("==ERROR==")


def test_a_report_is_not_overwritten_unless_forced(fake_ncu, tmp_path):
    base = [str(fake_ncu()), "-o", str(tmp_path / "r"), "--log-file", str(tmp_path / "log")]
    assert subprocess.run([*base, "true"], check=False).returncode == 0
    assert (tmp_path / "r.ncu-rep").exists()
    assert subprocess.run([*base, "true"], check=False, stdout=subprocess.DEVNULL).returncode == 1
    assert subprocess.run([*base, "-f", "true"], check=False).returncode == 0


def test_a_hang_is_ended_with_its_children(capture, fake_ncu, tmp_path):
    pids = tmp_path / "pids"
    tool = fake_ncu("hang", pids=pids)
    ended = process.run([str(tool), "true"], log=tmp_path / "log", env=dict(os.environ), limit=1.0)
    assert ended.hung
    left = [int(pid) for pid in pids.read_text().split()]
    assert len(left) == 2
    while any(Path(f"/proc/{pid}").exists() and "\nState:\tZ" not in status(pid) for pid in left):
        time.sleep(0.05)


def status(pid):
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "\nState:\tZ"


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
    outcome = runner.run_job(job, tmp_path, prefix=ncu.prefix(str(tool), options))
    assert outcome.finished
    counted = {event.impl for event in outcome.of("impl") if event.data.get("status") == "counted"}
    assert counted == {"reference", "honest"}
    assert set(read(tmp_path / "ncu.csv")["impl"]) == counted
    assert "profkit@counters/" in json.loads(log.read_text().splitlines()[-1])


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
        ("dcgm", "a driver resource was unavailable"),
        ("lock", "lock file"),
        ("sandbox", "LibraryNotLoaded"),
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


def test_nsys_profiles_and_gives_its_tables(fake_nsys, tmp_path):
    tool, report = str(fake_nsys()), tmp_path / "timeline"
    argv = [tool, "profile", "-t", "cuda,nvtx", "--sample=none", "-f", "true", "-o", str(report)]
    code = subprocess.run([*argv, sys.executable, "-c", "raise SystemExit(5)"], check=False).returncode
    assert code == 5
    assert Path(f"{report}.nsys-rep").exists()
    stats = [
        tool,
        "stats",
        "-r",
        "cuda_gpu_kern_sum,gputrace",
        "--format",
        "csv",
        "-o",
        str(report),
        f"{report}.nsys-rep",
    ]
    subprocess.run(stats, check=True)
    frame = read(tmp_path / "timeline_cuda_gpu_trace.csv")
    assert frame["time"].tolist() == pytest.approx([14e-6, 16e-6, 10e-6])
    assert (tmp_path / "timeline_cuda_gpu_kern_sum.csv").exists()


def test_nsys_without_data_says_so_and_exits_0(fake_nsys):
    done = subprocess.run(
        [str(fake_nsys("no_data")), "stats", "-r", "cuda_gpu_trace", "x.nsys-rep"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("SKIPPED: x.nsys-rep")
