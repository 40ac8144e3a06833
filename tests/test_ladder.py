"""examples/transformer_ladder: the readme's commands make the write-ups that stand there, from the recorded runs."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from roofline.wording import has_chinese

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples/transformer_ladder"
RUNS = FOLDER / "runs"


def commands():
    """The readme's second block, the one that needs no GPU."""
    blocks = re.findall(r"```sh\n(.*?)```", (FOLDER / "readme.md").read_text("utf-8"), re.S)
    assert len(blocks) == 2
    return blocks[1]


def test_the_commands_name_every_step_and_both_languages():
    text = commands()
    for step in ("reference", "tf32", "bf16", "sdpa", "compiled"):
        assert f"batch8:{step}" in text
    assert "--lang zh -o $R/writeup.zh.md" in text
    assert "--lang en -o $R/writeup.en.md" in text


@pytest.mark.slow(20)
def test_the_commands_make_the_write_ups(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "ladder")
    for old in (tmp_path / "ladder").glob("writeup.*"):
        old.unlink()
    script = f'set -e\nprofkit() {{ {sys.executable} -m profkit "$@"; }}\n' + commands().replace(
        "R=examples/transformer_ladder", f"R={tmp_path / 'ladder'}"
    )
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("writeup.zh.md", "writeup.en.md"):
        made = (tmp_path / "ladder" / name).read_text("utf-8")
        # Recorded where there is a Chinese font.
        made = made if has_chinese() else made.replace("\n图中文字为英文：制图的机器上没有中文字体。\n", "")
        assert "待作者补充" not in made
        assert "[to be filled in" not in made
        assert made == (FOLDER / name).read_text("utf-8"), f"{name} is not what the readme's commands make"


def test_the_recorded_runs_are_small_and_scrubbed():
    files = list(RUNS.rglob("*.*"))
    assert {file.parent.name for file in files if file.name == "run.json"} == {"batch1", "batch8", "batch32"}
    assert sum(file.stat().st_size for file in files) < 1_000_000
    for file in files:
        text = file.read_text("utf-8")
        assert not [name for name in ("root", "home", "work", "tmp") if f"/{name}/" in text], file
