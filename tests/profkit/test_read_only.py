"""A laptop: everything that reads works without torch and ninja, and where nothing of Linux is there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from profkit.cli.group import invoke
from profkit.errors import CannotProfileError
from profkit.launch import process

ROOT = Path(__file__).parents[2]
MEASURING = ("torch", "ninja", "nvtx", "triton", "pynvml", "setuptools")
POSIX = ("fcntl", "resource", "pwd", "grp", "termios", "pty", "tty", "syslog")
FUNCTIONS = [
    "fork",
    "getsid",
    "setsid",
    "killpg",
    "getuid",
    "sched_getaffinity",
    "set_blocking",
    "posix_spawn",
    "uname",
]

BLOCK = """
import importlib.abc, json, sys, warnings

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in set(BLOCKED):
            raise ModuleNotFoundError(f"no {name} on this machine", name=name)

sys.meta_path.insert(0, Blocked())
for house in ("profkit", "collectors", "roofline", "analyzers"):
    warnings.filterwarnings("error", category=EncodingWarning, module=house + ".*")
"""
ELSEWHERE = """
import os, signal
# What others do on that system is theirs: they are loaded as they are.
import asyncio, click.testing, html.parser, jinja2, matplotlib.pyplot, matplotlib.backends.backend_agg, matplotlib.backends.backend_svg
import msgspec, multiprocessing.pool, pandas, PIL.PngImagePlugin, psutil, rich.cells, sqlite3, tempfile
for name in POSIX:
    sys.modules[name] = None
for name in FUNCTIONS:
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGSTOP", "pthread_sigmask"):
    delattr(signal, name)
matplotlib.font_manager.findSystemFonts = lambda *_, **__: []
sys.platform = PLATFORM
"""
RUN = """
from profkit.cli.group import invoke
codes = [invoke(line) for line in LINES]
sys.stderr.write(json.dumps({"codes": codes, "loaded": sorted(sys.modules)}))
"""


def run(code, **names):
    """The JSON at the end of stderr of a child process that runs `code` with these names."""
    given = "\n".join(f"{name} = {value!r}" for name, value in names.items())
    line = [sys.executable, "-X", "warn_default_encoding", "-c", f"{given}\n{code}"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    done = subprocess.run(line, capture_output=True, text=True, encoding="utf-8", cwd=ROOT, env=env, check=False)
    found = re.search(r'\{"codes".*\}$', done.stderr)
    assert found is not None, done.stderr[-3000:]
    return {**json.loads(found[0]), "stdout": done.stdout, "stderr": done.stderr[: found.start()]}


def reading(folder):
    before, after = "examples/h200/ICJTRP:ori", "examples/h200/ICJTRP:cuda"
    made = folder / "imported"
    return [
        ["import", "tests/data/ncu/h200_default.csv", "-o", str(made), "-q"],
        ["explain", str(made)],
        ["explain", "examples/h200/ICJTRP", "--json"],
        ["explain", "examples/h200/ICJTRP", "--for", "agent"],
        ["report", str(made), "-o", str(folder / "页面.html"), "--lang", "zh"],
        ["report", "examples/h200/ICVXKH", "--for", "pr", "-o", str(folder / "pr.md"), "--lang", "zh"],
        ["report", before.partition(":")[0], "--for", "agent"],
        ["compare", before, after, "-o", str(folder / "ladder.png")],
        ["roofline", str(made), "-o", str(folder / "roofline.svg")],
        ["list", "examples/h200"],
        ["history", "ICJTRP", "--runs", "examples/h200"],
        ["site", "tests/data/rules/runs", "-o", str(folder / "site")],
        ["doctor", "--json"],
        ["--help"],
        ["profile", "--help"],
    ]


@pytest.mark.slow
def test_nothing_that_reads_imports_what_measures(tmp_path):
    # On Linux what may ask for the machine; what reads alone is the same as elsewhere, below.
    every = [
        line for line in reading(tmp_path) if line[0] in ("import", "explain", "list", "doctor", "--help", "profile")
    ]
    lines = [*every, ["profile", "S1/ICVXKH", "--device", "cpu"]]
    found = run(BLOCK + RUN, BLOCKED=MEASURING, LINES=lines)
    assert found["codes"].pop() == 3
    assert "measuring needs torch" in found["stderr"]
    names = dict(zip(map(" ".join, lines[:-1]), found["codes"], strict=True))
    failed = {name for name, code in names.items() if code} - {"doctor --json"}
    assert not failed, found["stderr"][-3000:]
    assert not set(MEASURING) & {name.partition(".")[0] for name in found["loaded"]}


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_reading_needs_nothing_of_linux(tmp_path, platform):
    every = reading(tmp_path)
    # What is blocked is the same: of the other system two lines, one that reads and one that asks for the machine.
    lines = every if platform == "win32" else [line for line in every if line[0] in ("import", "doctor")]
    lines += [["profile", "S1/ICVXKH", "--device", "cpu"], ["ceilings", "--device", "cpu"]]
    code = BLOCK + ELSEWHERE + "import profkit\n[getattr(profkit, name) for name in profkit.__all__]\n" + RUN
    found = run(code, BLOCKED=MEASURING, POSIX=POSIX, FUNCTIONS=FUNCTIONS, PLATFORM=platform, LINES=lines)
    codes = found["codes"]
    assert codes[-2:] == [3, 3], found["stderr"][-3000:]
    assert f"cannot measure on {platform}" in found["stderr"]
    failed = [line for line, code in zip(lines[:-2], codes[:-2], strict=True) if code and line[0] != "doctor"]
    assert not failed, found["stderr"][-3000:]
    assert platform != "win32" or (tmp_path / "页面.html").stat().st_size > 50_000


@pytest.mark.slow
def test_a_pipe_on_windows_gets_utf8(tmp_path):
    code = """
import os, sys
sys.stdout.reconfigure(encoding="cp1252")
sys.stderr.reconfigure(encoding="cp1252")
import click.testing, matplotlib.figure, matplotlib.backends.backend_agg, multiprocessing.pool, pandas, psutil
import matplotlib.font_manager
matplotlib.font_manager.findSystemFonts = lambda *_, **__: []
sys.platform = "win32"
from profkit.cli import main
try:
    main(["report", "examples/h200/ICLSUM", "--for", "pr", "-o", "-", "--lang", "zh"])
except SystemExit as end:
    sys.stderr.write('{"codes": [%d]}' % (end.code or 0))
"""
    found = run(code)
    assert found["codes"] == [0]
    assert "无效" in found["stdout"]


def test_nothing_is_started_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(CannotProfileError) as caught:
        process.run(["true"], log=tmp_path / "log", env={})
    assert "WSL 2" in caught.value.fix
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("word", ["C:\\runs\\missing", "C:/runs/missing", "C:\\runs\\missing:cuda"])
def test_a_drive_is_no_run(capsys, word):
    assert invoke(["compare", word, word]) == 2
    assert capsys.readouterr().err.startswith("error: C:")
    assert "C:\\runs" in word or "C:/runs" in word


def test_a_run_of_windows_is_read_anywhere(tmp_path, capsys):
    """Backslashes in the paths of a manifest are a name like any other."""
    target = tmp_path / "r"
    target.mkdir()
    for file in (ROOT / "examples/h200/ICJTRP").iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    manifest = json.loads((target / "run.json").read_text("utf-8"))
    manifest["sample"]["path"] = "C:\\work\\内核\\ICJTRP"
    (target / "run.json").write_text(json.dumps(manifest), "utf-8")
    assert invoke(["report", str(target)]) == 0
    assert invoke(["explain", str(target), "--for", "agent"]) == 0
    assert "C:\\\\work\\\\内核" in capsys.readouterr().out


def test_the_short_list_is_the_long_one_without_what_measures():
    long = re.search(r"^dependencies = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text("utf-8"), re.M | re.S)[1]
    wanted = {line.strip().strip('",').replace('"', "'") for line in long.splitlines() if line.strip()}
    measuring = {line for line in wanted if re.match(r"torch|ninja|nvtx|nvidia-ml-py|setuptools", line)}
    short = [line for line in (ROOT / "requirements-read.txt").read_text("utf-8").splitlines() if line[:1] != "#"]
    assert set(short) == wanted - measuring
