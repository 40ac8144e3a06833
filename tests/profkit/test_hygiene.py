"""What is left of a candidate, what it sees, and what becomes of what it writes into the run."""

import os
import signal
import sys

import pytest
from candidates import write_sample
from test_isolation import HEAD, RELU, measure
from test_process import alive, wait_for

from profkit.launch import cache, gpu, process

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("private_cache")]


def candidate(setup, body=""):
    return f"{HEAD}        import os, subprocess\n{setup}    def forward(self, x):\n{body}        return {RELU}\n"


@pytest.mark.usefixtures("fresh_runners")
def test_no_secret_and_no_process_remains(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sesame")
    # Where a candidate may write.
    builds = cache.builds()
    builds.mkdir(parents=True)
    mark, loot = f"93{os.getpid()}.5", builds / "loot"
    folder = write_sample(tmp_path, "mismatch")
    (folder / "spy.py").write_text(candidate(f"        open({str(loot)!r}, 'w').write(str(sorted(os.environ)))\n"))
    stays = f"(setsid env -i /bin/sleep {mark} >/dev/null 2>&1 </dev/null &)"
    (folder / "stays.py").write_text(candidate(f"        subprocess.run({stays!r}, shell=True)\n"))
    (folder / "statistics.py").write_text(f"open({str(builds / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(folder)
    run = measure(folder, tmp_path)
    assert {one.name: one.status for one in run.manifest.candidates} == {
        "spy": "ok",
        "stays": "ok",
        "mismatch": "mismatch",
    }
    assert "OMP_NUM_THREADS" in loot.read_text()
    assert "OPENAI_API_KEY" not in loot.read_text()
    assert alive(mark) == []
    assert not (builds / "ran").exists()


def test_without_cuda_nothing_is_begun(tmp_path, monkeypatch, capsys):
    from profkit.cli.group import invoke

    if gpu.gpu_present():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)
    assert invoke(["profile", str(write_sample(tmp_path, "honest")), "--device", "cuda"]) == 3
    assert "fix: use --device cpu" in capsys.readouterr().err
    assert not (tmp_path / "profkit-runs").exists()


# It leaves its parent and its session, and works on.
DAEMON = """
import os, sys
def named(file):
    open(file + ".part", "w").write(str(os.getpid()))
    os.rename(file + ".part", file)
first = os.fork()
if not first:
    os.setsid()
    if os.fork():
        os._exit(0)
    named(sys.argv[1])
    while True: pass
os.waitpid(first, 0)
while not os.path.exists(sys.argv[1]): pass
named(sys.argv[2])
while True: pass
"""


def test_a_process_that_is_not_asked_stands_still(tmp_path):
    from test_judge import Line, Told

    from profkit.launch import waiting

    line = Line("restless", tmp_path, Told())
    argv = [sys.executable, "-c", DAEMON, str(tmp_path / "daemon"), str(tmp_path / "self")]
    child = process.guarded(argv)
    try:
        wait_for((tmp_path / "self").exists)
        both = [int((tmp_path / name).read_text()) for name in ("daemon", "self")]
        line.remote.meet(both[1])
        assert line.remote.process == both[1]
        line.remote.phase = "time"
        line.say({}, {})
        line.remote.ask("run")
        wait_for(lambda: {waiting.state_of(pid) for pid in both} == {"stopped"})
        assert waiting.state_of(child.pid) != "stopped"
        line.remote.phase = "build"
        line.remote.ask("output")
        wait_for(lambda: {waiting.state_of(pid) for pid in both} == {"running"})
    finally:
        os.kill(child.pid, signal.SIGTERM)
        child.wait()
