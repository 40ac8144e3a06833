"""`profkit check` on the contest's own two samples (written again from their description) and on sound folders."""

import ast
import json
import re
import shutil
from pathlib import Path

import pytest

from profkit.cli.contests.gpucodeforces import check_ as command
from profkit.contests.gpucodeforces.form import check
from profkit.contests.prompt import blocks
from profkit.errors import ProfkitError

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data/contest"
WORD = re.compile(r"kernelbench|kernelbook|gpucodeforces|kernelbot|hackathon|参赛", re.I)


def codes(folder):
    return {defect.code for defect in check(folder).defects}


@pytest.mark.parametrize("example", [True, False])
def test_the_contests_own_samples_lack_the_bonus_alone(tmp_path, example):
    """Its prompts are cut, or ask for something else; its first example prints no differences and another name."""
    folder = Path(shutil.copytree(DATA / "ICVXKH", tmp_path / "ICVXKH"))
    if example:
        shutil.copy(DATA / "prompt_001.txt", folder / "prompt.txt")
        code = (folder / "run_code.py").read_text("utf-8").replace("PyTorch (matmul + relu)", "PyTorch torch.relu")
        kept = [line for line in code.splitlines(keepends=True) if "差异" not in line]
        (folder / "run_code.py").write_text("".join(kept).replace("自定义 CUDA ReLU", "自定义 CUDA 内核"), "utf-8")
    (defect,) = check(folder).defects
    assert (defect.code, defect.rejects, defect.file.name) == ("P1", False, "prompt.txt")
    assert defect.fix


def test_the_samples_of_this_repository_are_clean():
    found = {
        folder.name: codes(folder) for folder in sorted((ROOT / "S1").iterdir()) if (folder / "run_code.py").exists()
    }
    assert found
    assert not {name: defects for name, defects in found.items() if defects}


def copy(tmp_path, name="IABCDE"):
    return Path(shutil.copytree(ROOT / "S1/ICVXKH", tmp_path / name))


@pytest.mark.parametrize(
    ("file", "change", "code"),
    [
        ("run_code.py", None, "F3"),
        ("prompt.txt", None, "F3"),
        ("readme.md", None, "F3"),
        ("example_torchcode.py", None, "F1"),
        ("run_code.py", lambda text: "def broken(:\n", "F4"),
        ("run_code.py", lambda text: text.replace("加速比 (Speedup): ", "ratio "), "F5"),
    ],
)
def test_what_the_form_asks_for(tmp_path, file, change, code):
    path = copy(tmp_path) / file
    if change is None:
        path.unlink()
    else:
        path.write_text(change(path.read_text("utf-8")), "utf-8")
    assert {defect.code for defect in check(path.parent).form} == {code}
    with pytest.raises(ProfkitError, match="no such sample folder"):
        check(DATA / "ICVXKK")


def test_a_candidate_that_does_not_parse_is_rejected(tmp_path, capsys):
    folder = copy(tmp_path)
    (folder / "example_cudacode.py").write_text("class ModelNew:\n    def forward(:\n")
    (defect,) = check(folder).form
    assert (defect.code, defect.what) == ("F4", "line 2: not Python: invalid syntax")
    assert command.main([str(folder)], standalone_mode=False) == 1
    assert "  rejected F4 " in capsys.readouterr().out


def test_a_prompt_must_hold_the_reference_as_it_is(tmp_path):
    folder = copy(tmp_path)
    reference = folder / "example_torchcode.py"
    reference.write_text(reference.read_text("utf-8") + "\n# a comment more\n", "utf-8")
    assert codes(folder) == set()
    reference.write_text(reference.read_text("utf-8") + "\nEXTRA = 3\n", "utf-8")
    assert codes(folder) == {"P1"}
    (folder / "prompt.txt").write_text(" \n", "utf-8")
    assert codes(folder) == {"P1"}


@pytest.mark.parametrize(
    ("text", "found"),
    [("a", ([], True)), ("```py\na\n```\nb\n ```\nc", (["a", "c"], False)), ("```\n```", ([""], True))],
)
def test_blocks(text, found):
    assert blocks(text) == found


def test_a_season_lists_broken_and_misnamed_submissions(tmp_path, capsys):
    season = tmp_path / "S1"
    copy(season), copy(season, "IABCD")
    (season / "IEMPTY").mkdir()
    broken = copy(season, "IBROKE")
    (broken / "example_cudacode.py").write_text("def broken(:\n")
    (broken / "more.py").write_bytes(b"\x00")
    for name in ("notes", "tools"):
        (season / name).mkdir()
        (season / name / "a.py").write_text("x = 1\n")
    assert command.main([str(season), "--json"], standalone_mode=False) == 1
    found = {one["sample"]: one for one in json.loads(capsys.readouterr().out)["samples"]}
    assert {name: one["rejected"] for name, one in found.items()} == {
        "IABCDE": False,
        "IABCD": True,
        "IEMPTY": True,
        "IBROKE": True,
    }
    (defect,) = found["IBROKE"]["defects"]
    assert defect["what"] == "example_cudacode.py, line 1: not Python: invalid syntax"
    assert [one["code"] for one in found["IABCD"]["defects"] if one["rejects"]] == ["F2"]
    command.main([str(season)], standalone_mode=False)
    said = capsys.readouterr().out
    assert all(f"{season / name}: " in said for name in found)
    assert "line None" not in said


def test_the_verb(capsys):
    assert command.main([str(DATA / "ICVXKH"), "--json"], standalone_mode=False) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "profkit-check/1"
    (sample,) = document["samples"]
    assert sample["sample"] == "ICVXKH"
    assert not sample["ok"]
    assert not sample["rejected"]
    assert not any(defect["rejects"] for defect in sample["defects"])
    assert command.main([str(ROOT / "S1/ICVXKH")], standalone_mode=False) == 0
    assert "nothing found" in capsys.readouterr().out


def test_contest_words_stand_in_the_contests_alone():
    """Imports and texts; a comment or docstring may name a fact's source, and `timers` the clocks of others."""
    own = ("profkit/contests/", "profkit/report/dialects/", "profkit/cli/contests/", "profkit/torch_tools/timers.py")
    for file in (
        f for house in ("collectors", "roofline", "analyzers", "profkit") for f in (ROOT / house).rglob("*.py")
    ):
        name = file.relative_to(ROOT).as_posix()
        if name.startswith(own):
            continue
        tree = ast.parse(file.read_text("utf-8"))
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
        docs = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, documented)}
        texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        words = [text for text in texts if text not in docs and WORD.search(text)]
        assert not words, (name, words)
