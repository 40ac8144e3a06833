"""The list of public exports, and how its files are fetched."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
spec = importlib.util.spec_from_file_location("corpus_exports", BENCHMARKS / "corpus_exports.py")
assert spec is not None
assert spec.loader is not None
corpus = importlib.util.module_from_spec(spec)
spec.loader.exec_module(corpus)


def git(folder, *words):
    return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True).stdout.strip()


def test_the_files_of_a_commit_are_fetched_once(tmp_path):
    home = tmp_path / "some/where"
    (home / "a b").mkdir(parents=True)
    (home / "a b/one.csv").write_text("1\n")
    git(home, "init", "-q")
    git(home, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(home, "config", "uploadpack.allowFilter", "true")
    git(home, "add", "-A")
    git(home, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "one")
    commit = git(home, "rev-parse", "HEAD")
    (home / "a b/one.csv").write_text("2\n")
    git(home, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qam", "two")
    listed = tmp_path / "list.txt"
    listed.write_text(f"some/where {commit}\n  a b/one.csv\n")
    host = f"file://{tmp_path}"
    assert corpus.fetch(tmp_path / "out", listed, host) == []
    (found,) = (tmp_path / "out").iterdir()
    assert (found.name, found.read_text()) == ("some+where__a b__one.csv", "1\n")
    assert corpus.fetch(tmp_path / "out", listed, "nowhere") == [], "what is there is not fetched again"
    listed.write_text(f"some/where {commit}\n  other.csv\nno/body {commit}\n  x.csv\n")
    (why, gone) = corpus.fetch(tmp_path / "out", listed, host)
    assert "other.csv" in why
    assert gone.startswith("no/body: ")


def test_the_list_names_three_hundred_files_by_commit():
    lines = corpus.LIST.read_text("utf-8").splitlines()
    heads = [line for line in lines if not line.startswith(" ")]
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+ [0-9a-f]{40}", head) for head in heads)
    assert len(lines) - len(heads) >= 300


def test_a_difference_is_told_by_figure(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("Time (%),Total Time (ns),Instances,Med (ns),Name\n100,1500,2,700,k\n")
    found = {"outcome": "read", "figures": {"time": 1.5e-6, "launches": 2.0}}
    assert corpus.compared(file, found) == "same"
    found["figures"]["time"] = 1.6e-6
    assert corpus.compared(file, found) == "different"
    assert list(found["other"]) == ["time"]
