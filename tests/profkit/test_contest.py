"""`profkit check` on the contest's own two samples (written again from their description) and on sound folders."""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path

import pytest

from profkit.cli.check import command
from profkit.contests import VERBS
from profkit.contests.gpucodeforces.form import check
from profkit.errors import ProfkitError

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data/contest"
WORD = re.compile(r"kernelbench|kernelbook|gpucodeforces|kernelbot|hackathon|参赛", re.I)
EVERY = {f"T{n}" for n in range(1, 14)}


def codes(folder, **options):
    return {defect.code for defect in check(folder, **options).defects}


def test_the_first_sample_has_every_defect_but_the_one_of_models_with_parameters():
    assert codes(DATA / "001-example") == EVERY - {"T2"}


def test_the_second_sample_has_a_warm_up_and_a_tolerance():
    assert codes(DATA / "ICVXKH") == EVERY - {"T1", "T6"}


@pytest.mark.parametrize("sample", ["001-example", "ICVXKH"])
def test_each_defect_has_a_place_and_a_fix(sample):
    for defect in check(DATA / sample).defects:
        assert defect.file.exists()
        assert defect.fix
        if defect.code.startswith("T"):
            assert 0 < defect.line <= len(defect.file.read_text("utf-8").splitlines())


@pytest.mark.parametrize(
    ("code", "file", "text"),
    [
        ("T2", "run_code.py", "for _ in range(repeats):"),
        ("T7", "example_cudacode.py", 'name="relu"'),
        ("T8", "example_cudacode.py", "data_ptr<float>"),
        ("T9", "example_cudacode.py", "<<<grid, threads>>>"),
        ("T10", "run_code.py", "get_inputs()"),
        ("T11", "run_code.py", "return None"),
        ("T12", "run_code.py", ":.6f} 秒"),
        ("T13", "prompt.txt", "```"),
    ],
)
def test_the_line_is_the_right_one(code, file, text):
    for defect in check(DATA / "ICVXKH").defects:
        if defect.code == code:
            assert defect.file.name == file
            assert text in defect.file.read_text("utf-8").splitlines()[defect.line - 1]


def test_the_samples_of_this_repository_are_clean():
    found = {
        folder.name: codes(folder) for folder in sorted((ROOT / "S1").iterdir()) if (folder / "run_code.py").exists()
    }
    assert found
    assert not {name: defects for name, defects in found.items() if defects}


def test_working_set_is_compared_with_the_l2_given():
    assert "T5" not in codes(DATA / "ICVXKH", l2_bytes=1e6)


def copy(tmp_path, name="IABCDE"):
    return Path(shutil.copytree(ROOT / "S1/ICVXKH", tmp_path / name))


@pytest.mark.parametrize(
    ("file", "code"),
    [("run_code.py", "F3"), ("prompt.txt", "F3"), ("readme.md", "F3"), ("example_torchcode.py", "F1")],
)
def test_a_missing_file_is_named(tmp_path, file, code):
    folder = copy(tmp_path)
    (folder / file).unlink()
    assert code in codes(folder)


def test_what_the_form_asks_for(tmp_path):
    folder = copy(tmp_path, "sample")
    entry = folder / "run_code.py"
    entry.write_text(entry.read_text("utf-8").replace("加速比 (Speedup): ", "ratio ") + "\nimport pandas\n", "utf-8")
    cuda = folder / "example_cudacode.py"
    cuda.write_text(
        cuda.read_text("utf-8").replace("def __init__(self, weight: torch.Tensor)", "def __init__(self)"),
        "utf-8",
    )
    found = check(folder)
    assert {defect.code for defect in found.form} == {"F2", "F5", "F6", "F8"}


def test_a_file_that_does_not_parse_is_a_defect(tmp_path):
    folder = copy(tmp_path)
    (folder / "run_code.py").write_text("def broken(:\n")
    assert [defect.code for defect in check(folder).defects] == ["F4"]


def test_a_parent_of_seasons_lists_broken_and_misnamed_submissions(tmp_path, capsys):
    season = tmp_path / "contest/S1"
    copy(season), copy(season, "IABCD")
    (season / "IEMPTY").mkdir()
    broken = copy(season, "IBROKE")
    (broken / "example_cudacode.py").write_text("def broken(:\n")
    (broken / "more.py").write_bytes(b"\x00")
    for name in ("notes", "../tools"):
        (season / name).mkdir()
        (season / name / "a.py").write_text("x = 1\n")
    assert command.main([str(tmp_path / "contest"), "--json"], standalone_mode=False) == 1
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
    command.main([str(tmp_path / "contest")], standalone_mode=False)
    said = capsys.readouterr().out
    assert all(f"{season / name}: " in said for name in found)
    assert "line None" not in said


def test_the_organisers_own_sample_has_no_false_defect():
    """Its Model has no Parameters, so that autograd records nothing, and its name is the organisers' way."""
    found = check(DATA / "001-example")
    assert found.form == ()
    assert "T2" not in {defect.code for defect in found.defects}


def test_a_build_name_of_a_neighbour_collides(tmp_path):
    copy(tmp_path)
    twin = copy(tmp_path, "IABCDF")
    found = [defect for defect in check(twin).defects if defect.code == "T7"]
    assert found
    assert all("IABCDE" in defect.what for defect in found)


def test_the_verb(capsys):
    # Advice alone is no failure: nobody is rejected for it.
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


def test_no_such_folder():
    with pytest.raises(ProfkitError, match="no such sample folder"):
        check(DATA / "ICVXKK")


@pytest.mark.parametrize("sample", ["001-example", "ICVXKH"])
def test_each_defect_stands_once_with_all_its_lines(sample):
    found = check(DATA / sample).defects
    assert len({(d.code, d.file, d.what) for d in found}) == len(found)
    clock = next(d for d in found if d.code == "T3")
    assert len(clock.also) == 1
    assert clock.place.endswith(f"run_code.py:{clock.line}, {clock.also[0]}")


def test_weights_are_what_makes_autograd_matter(tmp_path):
    folder = copy(tmp_path)
    entry = folder / "run_code.py"
    entry.write_text(entry.read_text("utf-8").replace("torch.no_grad()", "open('/dev/null')"), "utf-8")
    assert "T2" in codes(folder)
    for file in folder.glob("example_*.py"):
        file.write_text(file.read_text("utf-8").replace("nn.Parameter(", "("), "utf-8")
    assert "T2" not in codes(folder)


def test_rejections_stand_apart_from_advice(tmp_path, capsys):
    folder = copy(tmp_path, "sample")
    assert command.main([str(folder)], standalone_mode=False) == 1
    out = capsys.readouterr().out
    assert "would be rejected for 1; " in out
    assert "  rejected F2 " in out


def test_a_folder_of_seasons_and_its_broken_folders(tmp_path, capsys):
    copy(tmp_path / "S1")
    (tmp_path / "S1/IABCDF").mkdir()
    broken = copy(tmp_path / "S2", "IABCDG")
    (broken / "example_torchcode.py").write_text("def broken(:\n")
    (tmp_path / "docs").mkdir()
    for where, names in [(tmp_path, ["IABCDE", "IABCDF", "IABCDG"]), (tmp_path / "S1", ["IABCDE", "IABCDF"])]:
        assert command.main([str(where), "--json"], standalone_mode=False) == 1
        document = json.loads(capsys.readouterr().out)
        assert [row["sample"] for row in document["samples"]] == names
        assert [row["rejected"] for row in document["samples"]] == [False, True, True][: len(names)]


def test_contest_words_stand_in_the_contests_alone():
    """Imports and texts; a comment or docstring may name a fact's source."""
    own = {f"profkit/cli/{verb}.py" for verb in VERBS}
    for file in (
        f for house in ("collectors", "roofline", "analyzers", "profkit") for f in (ROOT / house).rglob("*.py")
    ):
        name = file.relative_to(ROOT).as_posix()
        exempt = ("profkit/contests/", "profkit/report/dialects/", "profkit/cli/kernelbench")
        if name in own or name.startswith(exempt):
            continue
        tree = ast.parse(file.read_text("utf-8"))
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
        docs = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, documented)}
        texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        words = [text for text in texts if text not in docs and WORD.search(text)]
        assert not words, (name, words)
