"""What killed processes leave is removed by the next run; what the system refuses is one line and the right exit code."""

import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from candidates import REFERENCE
from test_process import alive, wait_for

from profkit.api import profile
from profkit.campaign.index import Index
from profkit.cli.group import invoke
from profkit.errors import BUG
from profkit.launch import cache, process
from profkit.launch.protocol import BARE
from profkit.rundir import files
from profkit.rundir.directory import create_run, find_runs, open_run
from profkit.rundir.manifest import SampleInfo

CLI = [sys.executable, "-m", "profkit"]


def dead() -> str:
    """The mark of a process that is gone."""
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    return files.mark().replace(f"-{os.getpid()}-", f"-{child.pid}-")


def test_the_next_temporary_directory_removes_those_of_the_dead(tmp_path):
    gone, mine, other = (tmp_path / f"profkit-{mark}x" for mark in (dead(), files.mark(), "01234567-1-"))
    for folder in (gone, mine, other):
        (folder / "in").mkdir(parents=True)
    with files.temporary(tmp_path) as name:
        assert Path(name).parent == tmp_path
        assert not gone.exists()
        assert mine.exists()
        assert other.exists(), "of another machine, as its mark says"
    assert not Path(name).exists()


def test_half_a_file_of_the_dead_goes_with_the_next_of_its_name_and_the_next_run(tmp_path):
    (tmp_path / f".a.json.{dead()}x").write_text("half")
    (tmp_path / f".a.json.{files.mark()}x").write_text("somebody is at it")
    files.write_atomic(tmp_path / "a.json", b"{}")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".a.json.{files.mark()}x", "a.json"]
    before = create_run(SampleInfo(id="S", path=""), tmp_path)
    left = [before.path / f".metrics.json.{dead()}x", before.path / f"timings.{dead()}.part"]
    for path in left:
        path.write_text("half")
    create_run(SampleInfo(id="S", path=""), tmp_path)
    assert not any(path.exists() for path in left)
    assert (before.path / "run.json").exists()


@pytest.mark.parametrize("victim", ["parent", "warden"])
def test_nothing_outlives_its_parent_or_its_warden(tmp_path, victim):
    """A program that ignores SIGTERM, and its own child."""
    word = f"94{os.getpid()}.{1 if victim == 'parent' else 2}"
    stubborn = (
        "import os, signal, subprocess, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(tmp_path / 'ready')!r}, 'w').write(f'{{os.getpid()}} {{os.getppid()}}')\ntime.sleep({word})"
    )
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom profkit.launch import process\n"
        f"process.run([sys.executable, '-c', {stubborn!r}], log=Path({str(tmp_path / 'log')!r}), env=dict(os.environ))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    wait_for(lambda: (tmp_path / "ready").exists() and len((tmp_path / "ready").read_text().split()) == 2)
    _, warden = map(int, (tmp_path / "ready").read_text().split())
    os.kill(parent.pid if victim == "parent" else warden, signal.SIGKILL)
    parent.wait()
    wait_for(lambda: not alive(word))


def test_a_warden_whose_parent_is_gone_begins_nothing(tmp_path):
    warden = Path(process.__file__).with_name("warden.py")
    mark = tmp_path / "ran"
    child = [sys.executable, "-c", f"open({str(mark)!r}, 'w')"]
    argv = [sys.executable, "-I", "-S", str(warden), str(os.getpid() + 1), *child]
    assert subprocess.run(argv, check=False).returncode == 127
    assert not mark.exists()


def test_a_server_of_runners_whose_parent_is_gone_imports_nothing():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        argv = [*BARE, "profkit.launch.server", str(theirs.fileno()), str(os.getpid() + 1), "no_such_module"]
        assert subprocess.run(argv, pass_fds=[theirs.fileno()], check=False).returncode == 0


LEAVES = """
import os, signal, torch
from pathlib import Path

class ModelNew(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
    def forward(self, x):
        Path(os.environ["TMPDIR"], "ccAbCdEf.s").write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_what_a_killed_candidate_or_compiler_leaves_in_tmpdir_is_gone_with_the_run(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    folder = tmp_path / "S"
    folder.mkdir()
    (folder / "ref.py").write_text(REFERENCE)
    (folder / "leaves.py").write_text(LEAVES)
    run = profile(folder, device="cpu", budget=0.05, trials=1, processes=1, runs=tmp_path / "runs")
    assert [impl.status for impl in run.manifest.candidates] == ["crash"]
    assert [path.name for path in (tmp_path / "tmp").rglob("*") if path.suffix == ".s"] == []


def test_a_cache_that_cannot_be_written_is_replaced_with_a_caveat(tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    assert cache.root() == tmp_path / "cache"
    assert cache.caveats() == []
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert cache.root().parent == tmp_path
    (caveat,) = cache.caveats()
    assert caveat.code == "cache"
    assert str(tmp_path / "file" / "cache") in caveat.what
    assert "PROFKIT_CACHE" in caveat.fix


def test_a_full_cache_is_replaced_with_a_caveat(tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000})())
    assert "no room" in cache.caveats()[0].what


def said(argv, **options):
    found = subprocess.run(argv, stderr=subprocess.PIPE, text=True, check=False, **options)
    assert "Traceback" not in found.stderr
    return found.returncode, found.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_no_room_on_stdout_is_one_line_and_exit_2(tmp_path):
    for argv in (["--help"], ["list", str(tmp_path)]):
        with open("/dev/full", "w") as full:
            code, words = said([*CLI, *argv], stdout=full)
        assert code == 2
        assert "No space left" in words


def test_a_working_directory_that_is_gone_is_one_line(tmp_path):
    gone = tmp_path / "gone"
    code = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.argv[1], sys.argv[1:])"
    gone.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    found, words = said([sys.executable, "-c", code, *CLI, "import", "x.csv"], cwd=gone, env=environment)
    assert (found, "error: " in words) == (2, True)


def test_a_bug_is_never_exit_1(monkeypatch, capsys):
    from profkit import cli

    def broken(arguments):
        raise RuntimeError("a bug")

    monkeypatch.setattr("profkit.cli.group.invoke", broken)
    with pytest.raises(SystemExit) as ended:
        cli.main(["list"])
    assert ended.value.code == BUG == 70
    assert "RuntimeError: a bug" in capsys.readouterr().err


def test_a_number_of_6000_digits_is_refused(tmp_path, capsys):
    file = tmp_path / "big.csv"
    file.write_text(f"Time (%),Total Time (ns),Instances,Avg (ns),Name\n100.0,{'9' * 6000},1,5,k\n")
    assert invoke(["import", str(file), "-o", str(tmp_path / "run")]) == 2
    assert "line 2, column 'Total Time (ns)': expected a number" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "word"),
    [
        (errno.ENOENT, "is gone"),
        (errno.ENOTDIR, "a file stands"),
        (errno.EISDIR, "a directory stands there: name a file"),
        (errno.EACCES, "permissions"),
    ],
)
def test_what_to_do_about_a_file_that_cannot_be_written(number, word):
    assert word in files.unwritable("x", OSError(number, os.strerror(number))).fix


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (["profile", "S1", "--jobs", "auto"], "the same command"),
        (["kernelbench", "eval", "A", "B", "--jobs=2"], "the same command"),
        (["profile", "S1/A"], "what was measured is in runs/A/1"),
        (["profile", "--", "make", "--jobs"], "what was measured is in runs/A/1"),
    ],
)
def test_who_is_interrupted_is_told_what_stays(monkeypatch, capsys, line, word):
    def pressed(*_, **__):
        raise KeyboardInterrupt("runs/A/1")

    monkeypatch.setattr("profkit.cli.group.cli.main", pressed)
    assert invoke(line) == 130
    assert word in capsys.readouterr().err


def test_a_run_whose_process_was_killed_is_not_running_for_ever(tmp_path):
    code = (
        "import os, sys\nfrom profkit.rundir.directory import create_run\nfrom profkit.rundir.manifest import SampleInfo\n"
        "create_run(SampleInfo(id='S', path=''), sys.argv[1])\nos.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    mine = create_run(SampleInfo(id="T", path=""), tmp_path)
    runs = {run.manifest.sample.id: run.manifest.status for run in find_runs(tmp_path)}
    assert runs == {"S": "interrupted", "T": "running"}
    assert {row.sample: row.status for row in Index(tmp_path).rows()} == {"S": "interrupted", "T": "running"}
    # Another machine's, or another's of the same number: nobody knows.
    mine.manifest.owner = "01234567-1-1"
    mine.save()
    assert open_run(mine.path).manifest.status == "running"
