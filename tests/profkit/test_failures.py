"""What a user meets when things go wrong: the words, the fix, the exit code, and what is left behind."""

import csv
import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest
from candidates import COMPILE_ERROR, candidate, write_sample

from profkit.cli.group import invoke
from profkit.errors import ProfkitError
from profkit.guest.build.loading import BuildLock, build_key
from profkit.launch import alone as locks
from profkit.launch import gpu, runner, tools
from profkit.launch.process import Spool
from profkit.launch.protocol import Job, Subject
from profkit.record import measure, profile
from profkit.rundir import files
from profkit.rundir.directory import create_run
from profkit.rundir.manifest import SampleInfo
from profkit.study.study import open_study
from profkit.vendor.nvidia import ncu

CLI = [sys.executable, "-m", "profkit"]
QUICK = ["--device", "cpu", "--budget", "0.2", "--trials", "1"]


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def said(capsys, *arguments):
    """(exit code, stderr) of a command line."""
    code = invoke([str(argument) for argument in arguments])
    return code, capsys.readouterr().err


# Bad input


def test_an_empty_folder_holds_no_samples(capsys, tmp_path):
    (tmp_path / "empty").mkdir()
    code, words = said(capsys, "profile", tmp_path / "empty")
    assert code == 2
    assert "no samples here" in words


def test_a_runs_place_that_is_a_file_is_refused(capsys, tmp_path):
    (tmp_path / "taken").write_text("")
    code, words = said(capsys, "profile", write_sample(tmp_path, "honest"), "--runs", tmp_path / "taken")
    assert code == 2
    assert "cannot make the run directory" in words
    assert "--runs DIR" in words


def test_counters_asked_for_by_name_that_cannot_be_had_end_it_before_anything_runs(capsys, tmp_path):
    folder = write_sample(tmp_path, "honest")
    code, words = said(capsys, "profile", folder, "--device", "cpu", "--ncu")
    assert code == 3
    assert "no counters: the CPU has no hardware counters" in words
    assert not (tmp_path / "profkit-runs").exists()


def test_a_reference_that_fails_is_blamed_itself(capsys, tmp_path):
    folder = write_sample(tmp_path, "honest")
    file = folder / "example_torchcode.py"
    file.write_text(file.read_text().replace("return torch.relu(x @ self.weight)", "raise ValueError('no way')"))
    code = invoke(["profile", str(folder), *QUICK, "-q"])
    assert code == 1
    assert "no way" in capsys.readouterr().out
    reference, honest = open_study(tmp_path / "profkit-runs").manifest.impls
    assert (reference.status, honest.status) == ("error", "skipped")


# Full disks


def limited(size):
    def apply():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return apply


@pytest.mark.parametrize(("number", "word"), [("EMFILE", "ulimit -n"), ("EFBIG", "ulimit -f"), ("EEXIST", "another")])
def test_a_limit_of_the_shell_and_a_file_in_the_way_have_their_own_fix(number, word):
    assert word in files.unwritable("x", OSError(getattr(errno, number), "")).fix


@pytest.mark.slow(10)
@pytest.mark.usefixtures("given_to_others", "printed")
def test_a_full_disk_names_the_file_and_keeps_what_is_there(tmp_path):
    folder = write_sample(tmp_path, "honest")
    argv = [*CLI, "profile", str(folder), *QUICK, "--runs", str(tmp_path / "runs"), "-q"]
    # No module's byte code is cut at the limit.
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, capture_output=True, text=True, preexec_fn=limited(32 << 10), check=False, env=env)
    assert done.returncode == 2, done.stderr
    assert "roofline.png: File too large" in done.stderr
    assert "ulimit -f" in done.stderr
    assert "Traceback" not in done.stderr
    run = open_study(tmp_path / "runs")
    assert run.manifest.status == "done"
    assert all(impl.ok for impl in run.manifest.impls)
    assert set(run.metrics["impl"]) == {"reference", "honest"}
    assert not [file for file in run.path.iterdir() if file.name.startswith(".")]


@pytest.mark.slow
def test_a_runner_that_cannot_write_blames_no_implementation(tmp_path):
    folder = write_sample(tmp_path, "honest")
    subjects = [
        Subject("reference", "reference", str(folder / "example_torchcode.py"), "torch"),
        Subject("honest", "candidate", str(folder / "honest.py"), "torch"),
    ]
    places = {"cache": str(tmp_path / "c"), "timings": str(tmp_path / "gone/timings.csv")}
    job = Job("measure", "ITESTS", subjects, device="cpu", seeds=[1], budget=0.1, **places)
    outcome = runner.Outcome()
    with pytest.raises(ProfkitError, match=r"cannot write .*timings\.csv: No such file") as caught:
        runner.run_isolated(job, tmp_path, outcome=outcome)
    assert caught.value.fix
    assert outcome.fallen == {}
    assert [event.data["status"] for event in outcome.of("check")] == ["ok"]


def test_a_pipe_is_written_into_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with open(os.open(pipe, os.O_RDWR), "rb", buffering=0) as stream:
        files.write_atomic(pipe, b"{}")
        assert pipe.is_fifo()
        assert stream.read(2) == b"{}"
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_log_that_cannot_grow_costs_only_itself():
    spool = Spool(Path("/dev/full"))
    spool.feed(b"the last words\n" * 100)
    spool.close()
    assert spool.last_lines(1) == "the last words"


# Two at once


@pytest.mark.slow(20)
@pytest.mark.usefixtures("lent_to_others")
def test_two_runs_of_a_sample_at_once(tmp_path):
    folder = write_sample(tmp_path, "honest")
    argv = [*CLI, "profile", str(folder), *QUICK, "--runs", str(tmp_path / "runs"), "-q"]
    both = [subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
    for child in both:
        assert child.communicate()[1].count(b"error") == 0
    assert [child.returncode for child in both] == [0, 0]
    assert len(list((tmp_path / "runs/ITESTS").iterdir())) == 2


def test_a_lock_file_of_a_dead_build_is_removed_and_that_of_another_process_is_not(tmp_path):
    source = tmp_path / "code.py"
    source.write_text("x = 1\n")
    lock = tmp_path / "build" / build_key(source) / "extension/lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("")
    with BuildLock(source, tmp_path / "build") as first:
        assert not lock.exists()
        lock.write_text("")
    with BuildLock(source, tmp_path / "build") as second:
        assert first.path == second.path == lock.parent.parent
    assert lock.exists()


# Signals


def stop_at(word, number, folder, runs, *more):
    """(exit code, stderr, children left) of a run that is sent a signal once its progress shows `word`."""
    argv = [*CLI, "profile", str(folder), "--device", "cpu", "--budget", "60", "--runs", str(runs), *more]
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    seen = ""
    for line in child.stderr:
        seen += line
        if word in line:
            break
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
    child.send_signal(number)
    seen += child.communicate()[1]
    return child.returncode, seen, [pid for pid in children if alive(pid)]


def alive(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.parametrize(
    ("kind", "word", "number", "code", "checks"),
    [
        pytest.param("hang", "building hang", signal.SIGINT, 130, 0, marks=pytest.mark.slow),
        ("honest", "timing honest", signal.SIGINT, 130, 5),
        pytest.param("honest", "timing honest", signal.SIGTERM, 143, 5, marks=pytest.mark.slow),
    ],
    ids=["Ctrl-C in the check", "Ctrl-C in the timing", "SIGTERM"],
)
@pytest.mark.slow(10)
@pytest.mark.usefixtures("given_to_others")
def test_an_interrupted_run_is_readable_and_leaves_no_child(tmp_path, kind, word, number, code, checks):
    got, words, left = stop_at(word, number, write_sample(tmp_path, kind), tmp_path / "runs")
    assert got == code, words
    assert f"interrupted; what was measured is in {open_study(tmp_path / 'runs').path}" in words
    assert "Traceback" not in words
    assert left == []
    run = open_study(tmp_path / "runs")
    assert run.manifest.status == "interrupted"
    assert run.manifest.finished
    assert len(run.manifest.impls[1].checks) == checks
    assert not checks or len(run.manifest.seeds) == checks


def test_sigterm_is_as_before_after_a_command(capsys):
    before = signal.getsignal(signal.SIGTERM)
    assert said(capsys, "profile", "nothing")[0] == 2
    assert signal.getsignal(signal.SIGTERM) is before


# Broken files

COUNTS = {"reference": 3.0e-5, "honest": 2.0e-5}


def fake_measure(step, session):
    """Stands for the measuring step of a machine with a GPU."""
    run = session.run
    run.manifest.device = {"kind": "cuda", "name": "NVIDIA H200", "cc": "9.0", "sms": 132}
    for impl in run.manifest.impls:
        impl.status = "ok"
    with (run.path / "timings.csv").open("w", newline="") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(["impl", "method", "round", "trial", "seconds", "l2", "kept"])
        for number in range(20):
            for name, seconds in COUNTS.items():
                rows.writerow([name, "event", number, 0, seconds * (1 + number % 3 / 1000), "cold", 1])
    run.manifest.work = [{"source": "modelled", "flops": {"fp32": 8192.0}, "bytes": 3584.0}]


@pytest.fixture
def on_gpu(monkeypatch):
    """As if there were a GPU: the measuring step is faked, and the device says cuda."""
    monkeypatch.setattr(profile, "expected_device", lambda wanted: "cuda")
    monkeypatch.setattr(measure.Measure, "record", fake_measure)
    monkeypatch.setattr(ncu, "counters_restricted", lambda: False)


@pytest.fixture(scope="module")
def recorded_once(tmp_path_factory):
    """Where `recorded` keeps what it has made."""
    return tmp_path_factory.mktemp("recorded") / "profkit-runs"


@pytest.fixture
def recorded(recorded_once, tmp_path, on_gpu, fake_ncu, capsys):
    """A run directory with counters in it."""
    if not recorded_once.exists():
        fake_ncu("ok", target="skip")
        sample = str(write_sample(tmp_path, "honest"))
        assert invoke(["profile", sample, "--ncu", "-q", "--runs", str(recorded_once)]) == 0
        capsys.readouterr()
    shutil.copytree(recorded_once, tmp_path / "profkit-runs")
    run = open_study(tmp_path / "profkit-runs")
    assert run.manifest.counters.state == "collected"
    return run


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("timings.csv", lambda whole: whole[:-5]),
        ("timings.csv", lambda whole: whole[:30]),
        ("timings.csv", lambda _: b""),
        ("timings.csv", lambda _: b"a,b,c\n"),
        ("timings.csv", lambda _: b"impl,method,round,seconds\nreference,event,0,fast\n"),
        ("ncu.csv", lambda whole: whole[:-40]),
        ("ncu.csv", lambda whole: whole[:300]),
        ("run.json", lambda whole: whole[:-9]),
    ],
)
def test_a_damaged_file_is_refused_by_name(recorded, capsys, file, change):
    (recorded.path / file).write_bytes(change((recorded.path / file).read_bytes()))
    code, words = said(capsys, "report", recorded.path)
    assert code == 2
    assert file in words
    assert "fix: " in words


def test_the_newest_of_one_second_is_the_last(tmp_path):
    for name in ("20260101T000000Z", "20260101T000000Z-2", "20260101T000000Z-10"):
        run = create_run(SampleInfo("ITESTS", "."), tmp_path / "runs")
        run.manifest.created = "2026-01-01T00:00:00Z"
        run.save()
        run.path.rename(tmp_path / "runs" / name)
    assert open_study(tmp_path / "runs").path.name == "20260101T000000Z-10"


def test_a_run_left_unfinished_shadows_no_finished_one(tmp_path, capsys):
    shutil.copytree(Path(__file__).parents[2] / "examples/h200/ICJTRP", tmp_path / "runs" / "before")
    left = create_run(SampleInfo("ITESTS", "."), tmp_path / "runs")
    left.manifest.status = "interrupted"
    left.save()
    code, words = said(capsys, "explain", tmp_path / "runs")
    assert code == 0
    assert f"note: {left.path} is unfinished (interrupted): this is {tmp_path / 'runs' / 'before'}" in words


# ncu that does not do what it should, through the command line


@pytest.mark.slow
def test_counters_that_fail_are_said_everywhere(on_gpu, fake_ncu, capsys, tmp_path):
    why = "ERR_NVGPUCTRPERM"
    fake_ncu("permission", target="skip")
    folder = write_sample(tmp_path, "honest")
    assert invoke(["profile", str(folder), "-q"]) == 0
    out = capsys.readouterr().out
    run = open_study(tmp_path / "profkit-runs")
    assert run.manifest.counters.state == "missing"
    for place in (out, (run.path / "report.md").read_text()):
        assert "counters are missing" in place.lower() or "no hardware counters" in place.lower()
        assert why in place
    assert why in json.dumps(run.analysis.to_dict(), ensure_ascii=False)


def test_an_ncu_is_begun_when_no_other_of_profkit_counts_on_the_gpu(on_gpu, fake_ncu, capsys, tmp_path, monkeypatch):
    """A driver lends its counters to one at a time, and each ncu has a temporary directory of its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(gpu, "identity", lambda: {"uuid": "GPU-1"})
    monkeypatch.setattr(locks, "COUNTERS_WAIT", 0.05)
    fake_ncu("ok", target="skip")
    with locks.counting("GPU-1"):
        assert invoke(["profile", str(write_sample(tmp_path, "honest"))]) == 0
    assert "waiting: another process counts on GPU-1" in "".join(capsys.readouterr())


def test_without_ncu_it_says_so_and_falls_back(on_gpu, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(tools, "find", lambda _: None)
    folder = str(write_sample(tmp_path, "honest"))
    assert invoke(["profile", folder, "-q"]) == 0
    out = capsys.readouterr().out
    run = open_study(tmp_path / "profkit-runs")
    assert "ncu) was not found" in out
    assert tools.NCU.fix in out
    report = (run.path / "report.md").read_text()
    assert "ncu) was not found" in report
    from profkit.report.figures import scene_of

    assert "counters" in msgspec.json.encode(str(scene_of(run, "light"))).decode()
    assert invoke(["profile", folder, "--ncu", "-q"]) == 3


def test_required_counters_that_ncu_could_not_read_exit_3(on_gpu, fake_ncu, capsys, tmp_path):
    fake_ncu("permission", target="skip")
    code, words = said(capsys, "profile", write_sample(tmp_path, "honest"), "--ncu", "-q")
    assert code == 3
    assert "ERR_NVGPUCTRPERM" in words
    assert "fix: " in words


def test_who_goes_on_without_the_extension_that_the_compiler_refused_is_told(tmp_path):
    head, call = COMPILE_ERROR.partition("\nclass ")[0].split("module = ")
    guarded = f"{head}try:\n    module = {call.strip()}\nexcept RuntimeError:\n    module = None\n"
    folder = write_sample(tmp_path, "honest")
    (folder / "honest.py").write_text(f"{candidate('honest')}\n{guarded}")
    assert invoke(["profile", str(folder), *QUICK]) == 0
    study = open_study(next((tmp_path / "profkit-runs" / folder.name).iterdir()))
    (found,) = (caveat for caveat in study.manifest.caveats if caveat.code == "not-built")
    assert (found.about, found.what) == ("honest", "honest: its own extension does not compile here")
    assert "expected" in found.how_much
