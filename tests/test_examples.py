"""The examples run, and recorded runs say what the raw pages and the ladder's write-ups say."""

import csv
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from recorded import opened, some_slow

import collectors
import profkit
from profkit.cli.group import invoke
from roofline.wording import has_chinese

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
RECORDED = sorted(file.parent for file in (EXAMPLES / "h200").glob("*/run.json"))


@pytest.mark.slow(40)
@pytest.mark.xdist_group("icvxkh")
@pytest.mark.usefixtures("fewer_headers", "lent_to_others")
def test_profile_sample(tmp_path):
    options = ("--device", "cpu", "--budget", "0.05", "--trials", "1", "-o", "a.png")
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    argv = [sys.executable, str(EXAMPLES / "profile_sample.py"), str(ROOT / "S1" / "ICVXKH"), *options]
    env = {**os.environ, "PYTHONPATH": path, "MPLBACKEND": "Agg"}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert "cpp: ok" in done.stdout, done.stderr
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert profkit.open_run(tmp_path / "profkit-runs").metrics["impl"].tolist() == ["reference", "cpp"]


@pytest.fixture
def example(tmp_path, monkeypatch, capsys):
    """example(name, *arguments): standard output of an example, run in this process and an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_read_export(example):
    out = example("read_export.py")
    assert "3 launches on NVIDIA H200, by ncu" in out
    assert "nvjet" in out


def test_reanalyse(example, tmp_path):
    out = example("reanalyse.py", "-o", "a.svg")
    assert "ICNPLY on NVIDIA H200" in out
    assert "fp32" in out
    assert "<svg" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_annotate(example, tmp_path):
    assert "rows add up to 1.000" in example("annotate.py")
    assert not list(tmp_path.iterdir()), "without a listener nothing is written"


def test_every_sample_was_recorded():
    ids = {folder.name for folder in (ROOT / "S1").iterdir() if folder.is_dir() and folder.name.isupper()}
    assert {folder.name for folder in RECORDED} == ids


@pytest.mark.usefixtures("printed")
@pytest.mark.parametrize("recorded", some_slow(RECORDED, 2), ids=lambda folder: folder.name)
def test_report_of_a_recorded_run(recorded, tmp_path):
    """From the collected files alone; what was measured stays as it is, all that is derived comes again."""
    run = tmp_path / recorded.name
    run.mkdir()
    for name in ("run.json", "timings.csv", "cupti.csv", "ncu.csv"):
        shutil.copy(recorded / name, run / name)
    assert invoke(["report", str(run)]) == 0
    for name in (
        "metrics.json",
        "kernels.csv",
        "roofline.png",
        "roofline.svg",
        "waterfall.png",
        "waterfall.svg",
        "report.md",
    ):
        assert (run / name).stat().st_size > 0
    for name in ("timings.csv", "cupti.csv", "ncu.csv"):
        assert (run / name).read_bytes() == (recorded / name).read_bytes()
    assert "no hardware counters" not in (run / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", ["examples/h200", "examples/transformer_ladder/runs", "tests/data/triggers"])
def test_recorded_runs_are_scrubbed(folder):
    files = [file for file in (ROOT / folder).rglob("*.*") if file.suffix != ".png"]
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert not [name for name in ("root", "home", "work", "tmp") if f"/{name}/" in text], file
        assert not re.search(r'"uuid": ?"(?!GPU-[0-]+")', text), file
    assert any(file.name == "run.json" for file in files)


def raw_page(file: Path) -> list[dict[str, str]]:
    """The launches of a raw page as text, read without profkit; units must be base units."""
    with file.open(encoding="utf-8", newline="") as stream:
        names, units, *rows = list(csv.reader(line for line in stream if line.startswith('"')))
    wanted = units[names.index("dram__bytes.sum")], units[names.index("gpu__time_duration.sum")]
    assert wanted == ("byte", "ns")
    return [dict(zip(names, row, strict=True)) for row in rows]


EXACT = {
    "dram_bytes": "dram__bytes.sum",
    "dram_read": "dram__bytes_read.sum",
    "dram_write": "dram__bytes_write.sum",
    "l2_bytes": "lts__t_bytes.sum",
    "l1_bytes": "l1tex__t_bytes.sum",
    "op_tensor_bf16": "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
    "op_tensor_fp64": "sm__ops_path_tensor_src_fp64.sum",
}


def integer(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda folder: folder.name)
def test_counters_are_the_raw_page_exactly(recorded):
    page, launches = raw_page(recorded / "ncu.csv"), collectors.read(recorded / "ncu.csv")
    assert len(page) == len(launches) > 0
    for row, (_, launch) in zip(page, launches.iterrows(), strict=True):
        for column, metric in EXACT.items():
            assert launch[column] == integer(row[metric]), column
        assert launch["time"] == pytest.approx(integer(row["gpu__time_duration.sum"]) * 1e-9, rel=1e-15)
        for kind, letter in (("fp32", "f"), ("fp64", "d")):
            add, mul, fma = (
                integer(row[f"sm__sass_thread_inst_executed_op_{letter}{op}_pred_on.sum"])
                for op in ("add", "mul", "fma")
            )
            assert launch[f"inst_{kind}_fma"] == fma
            assert launch[f"flop_{kind}"] == add + mul + 2 * fma


def test_tensor_operations_of_a_4096_product():
    launches = collectors.read(EXAMPLES / "h200" / "ICHTCM" / "ncu.csv")
    assert launches["op_tensor_bf16"].tolist() == [2 * 4096**3] * 3 == [137438953472] * 3
    run = opened(EXAMPLES / "h200" / "ICHTCM")
    reference = run.kernels[run.kernels["impl"] == "reference"]
    assert reference["op_tensor_bf16"].tolist() == [137438953472]
    assert run.metrics.set_index("impl")["flops"].to_dict()["reference"] == 137438953472


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
