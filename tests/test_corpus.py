"""The list of public exports, and how its files are fetched."""

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

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


def test_the_list_names_six_hundred_files_by_commit():
    lines = corpus.LIST.read_text("utf-8").splitlines()
    heads = [line for line in lines if not line.startswith(" ")]
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+ [0-9a-f]{40}", head) for head in heads)
    assert len(lines) - len(heads) >= 600


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ('[{"count": 3}, {"name": "conv", "averageMs": 0.5}, {"name": "fc", "averageMs": 0.25}]', (2, 0.75e-3)),
        ('"Start","Duration","Grid X","Name","Size"\nms,us,,,\n1,2.5,1,k,\n2,1.5,1,l,\n', (2, 4e-6)),
        ("Index,KernelName,BeginNs,EndNs,x\n0,k,10,30,\n1,l,40,45,\n", (2, 25e-9)),
        (
            "Dispatch_Id,Kernel_Name,Start_Timestamp,End_Timestamp,Counter_Name\n1,k,10,30,A\n1,k,10,30,B\n",
            (1, 20e-9),
        ),
        (
            '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,ms,,us,us,us,\n'
            '"GPU activities",100.0,6.0,3,2.0,1.0,3.0,"k"\n"API calls",100.0,9.0,5,2.0,1.0,3.0,"cudaFree"\n',
            (3, 6e-3),
        ),
        (
            " GPU activities:   75.00%  30.000ms         3  10.000ms  9.0000ms  11.000ms  k\n"
            "                   25.00%  10.000ms         2  5.0000ms  4000.0us  6.0000ms  [CUDA memcpy HtoD]\n"
            "      API calls:   90.00%  40.000ms         3  9.0000us  8.0000us  10.000us  cudaLaunchKernel\n",
            (5, 40e-3),
        ),
        (
            " Time (%)  Total Time (ns)  Instances  Name\n --------  ---------------  ---------  ----\n"
            "    100.0            4,000          2  k(a b)\n\n"
            " Time (%)  Total Time (ns)  Count  Operation\n --------  ---------------  -----  ----\n"
            "    100.0              500      1  [CUDA memset]\n",
            (3, 4.5e-6),
        ),
        (
            "Device,Kernel,Invocations,Metric Name,Avg\n"
            '"V100 (0)","k",3,"achieved_occupancy",0.5\n"V100 (0)","k",3,"ipc",1.5\n',
            (3, None),
        ),
        ("[I] GPU Compute Time: min = 1 ms, max = 3 ms, mean = 2.5 ms\n", (1, 2.5e-3)),
    ],
)
def test_the_independent_reading_knows_other_tools(tmp_path, text, figures):
    path = tmp_path / ("a.json" if text.startswith("[{") else "a.txt")
    path.write_text(text)
    found = corpus.independent(path)
    launches, time = figures
    assert found["launches"] == launches
    assert found.get("time", found.get("rough_time")) == pytest.approx(time)


def test_a_trace_of_torch_is_added_up_by_its_kernels(tmp_path):
    events = '{"ph": "X", "cat": "kernel", "dur": 2.5}, {"ph": "X", "cat": "cpu_op", "dur": 9}'
    (tmp_path / "a.json").write_text(f'{{"traceEvents": [{events}]}}')
    assert corpus.independent(tmp_path / "a.json") == {"kernels": 1.0, "kernel_time": pytest.approx(2.5e-6)}


def test_a_difference_is_told_by_figure(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("Time (%),Total Time (ns),Instances,Med (ns),Name\n100,1500,2,700,k\n")
    found = {"outcome": "read", "figures": {"time": 1.5e-6, "launches": 2.0}}
    assert corpus.compared(file, found) == "same"
    found["figures"]["time"] = 1.6e-6
    assert corpus.compared(file, found) == "different"
    assert list(found["other"]) == ["time"]
