"""SOL-ExecBench problems and FlashInfer-Bench trace sets, hand-written in the published form, on the CPU."""

import json

import pytest

from profkit.api import profile
from profkit.contests import flashinfer_bench, formats, sol_execbench
from profkit.errors import ProfkitError
from profkit.targets.backends import detect

REFERENCE = """import torch


def make(axes_and_scalars, device):
    return {"index": torch.randint(0, axes_and_scalars["N"], (axes_and_scalars["T"],), device=device)}


@torch.no_grad()
def run(x, index, norm_weight, eps):
    rows = x[index].float()
    scaled = rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + eps) * norm_weight.float()
    return scaled.to(x.dtype), rows.sum(-1)
"""
DEFINITION = {
    "name": "gather_norm_h16",
    "op_type": "norm",
    "axes": {
        "N": {"type": "var"},
        "B": {"type": "var"},
        "H": {"type": "const", "value": 16},
        "T": {"type": "expr", "expression": "B * 2"},
    },
    "custom_inputs_entrypoint": "make",
    "inputs": {
        "x": {"shape": ["N", "H"], "dtype": "float32"},
        "index": {"shape": ["T"], "dtype": "int64"},
        "norm_weight": {"shape": ["H"], "dtype": "float32"},
        "eps": {"shape": None, "dtype": "float32"},
    },
    "outputs": {
        "y": {"shape": ["T", "H"], "dtype": "float32"},
        "sums": {"shape": ["T"], "dtype": "float32"},
    },
    "reference": REFERENCE,
}
RANDOM = {"x": {"type": "random"}, "norm_weight": {"type": "random"}, "eps": {"type": "scalar", "value": 1e-5}}
WORKLOADS = [
    {"uuid": "small", "axes": {"N": 4, "B": 3}, "inputs": RANDOM | {"index": {"type": "custom"}}},
    {"uuid": "large", "axes": {"N": 32, "B": 8}, "inputs": RANDOM | {"index": {"type": "custom"}}},
]
RETURNING = """import torch
from helper import EXTRA


def run(x, index, norm_weight, eps):
    rows = x.index_select(0, index)
    y = torch.nn.functional.rms_norm(rows, rows.shape[-1:], norm_weight, eps)
    return {"sums": rows.sum(-1) + EXTRA, "y": y}
"""
WRITING = """import torch


def go(x, index, norm_weight, eps, y, sums):
    rows = x.index_select(0, index)
    y.copy_(torch.nn.functional.rms_norm(rows, rows.shape[-1:], norm_weight, eps))
    torch.sum(rows, -1, out=sums)
"""


def solution(name, text, entry="kernel.py::run", definition="gather_norm_h16", beside=(), **spec):
    sources = [{"path": entry.split("::")[0], "content": text}, *beside]
    return {
        "name": name,
        "definition": definition,
        "author": "somebody",
        "spec": {"languages": ["pytorch"], "target_hardware": ["LOCAL"], "entry_point": entry, **spec},
        "sources": sources,
    }


HELPER = {"path": "helper.py", "content": "EXTRA = 0\n"}
GOOD = solution("returns-it", RETURNING, destination_passing_style=False, beside=[HELPER])
SOLUTIONS = [
    GOOD,
    solution("writes", WRITING, "kernel.py::go"),
    solution("ignores_weight", WRITING.replace("norm_weight, eps))", "None, eps))"), "kernel.py::go"),
]


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "gather_norm"
    place.mkdir()
    (place / "definition.json").write_text(json.dumps(DEFINITION))
    (place / "workload.jsonl").write_text("\n".join(map(json.dumps, WORKLOADS)) + "\n")
    for number, one in enumerate(SOLUTIONS):
        (place / f"solution_{number}.json").write_text(json.dumps(one))
    return place


@pytest.fixture
def traces(tmp_path):
    root = tmp_path / "trace-set"
    definition = {key: value for key, value in DEFINITION.items() if key != "custom_inputs_entrypoint"} | {
        "name": "relu_h16",
        "axes": {"T": {"type": "var"}, "H": {"type": "const", "value": 16}},
        "inputs": {"x": {"shape": ["T", "H"], "dtype": "float16"}, "eps": {"shape": None, "dtype": "float32"}},
        "outputs": {"y": {"shape": ["T", "H"], "dtype": "float16"}},
        "reference": "import torch\n\ndef run(x, eps):\n    return torch.relu(x) + eps\n",
    }
    content = "def run(x, eps, y):\n    y[...] = x.clamp_min(0) + eps\n"
    good = solution("clamp", content, "main.py::run", "relu_h16")
    good["spec"] = {"language": "python", "target_hardware": ["cpu"], "entry_point": "main.py::run"}
    cuda = solution("ffi", "//", "k.cu::run", "relu_h16")
    cuda["spec"] = {"language": "cuda", "target_hardware": ["cpu"], "entry_point": "k.cu::run"}
    inputs = {"x": {"type": "random"}, "eps": {"type": "scalar", "value": 0.5}}
    lost = inputs | {"x": {"type": "safetensors", "path": "blob/x.safetensors", "tensor_key": "x"}}
    rows = [
        {"definition": name, "solution": None, "evaluation": None}
        | {"workload": {"uuid": uuid, "axes": axes, "inputs": given}}
        for name, uuid, axes, given in (
            ("relu_h16", "w1", {"T": 64}, inputs),
            ("relu_h16", "w2", {"T": 8}, lost),
            ("other", "w3", {}, {}),
        )
    ]
    times = {"latency_ms": 1.0, "reference_latency_ms": 2.0, "speedup_factor": 2.0}
    evaluation = {"status": "PASSED", "environment": {"hardware": "NVIDIA_H100", "libs": {}}, "performance": times}
    for kind in ("definitions/act", "workloads/act", "solutions/a/act", "traces/act"):
        (root / kind).mkdir(parents=True)
    (root / "definitions/act/relu_h16.json").write_text(json.dumps(definition))
    (root / "definitions/act/unsolved.json").write_text(json.dumps(definition | {"name": "unsolved"}))
    (root / "workloads/act/relu_h16.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for one in (good, cuda):
        (root / f"solutions/a/act/{one['name']}.json").write_text(json.dumps(one))
    trace = rows[0] | {"solution": "clamp", "evaluation": evaluation}
    (root / "traces/act/relu_h16.jsonl").write_text(json.dumps(trace) + "\n")
    return root


@pytest.mark.slow
def test_a_trace_set_is_measured(traces, tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    (task,) = formats.targets(traces)
    assert task == traces / "definitions/act/relu_h16.json"
    assert formats.targets(task) == [task]
    run = profile(task, device="cpu", trials=2, budget=0.05, runs=tmp_path / "runs")
    assert {i.name: i.status for i in run.manifest.impls} == {"reference": "ok", "clamp": "ok"}, [
        i.reason for i in run.manifest.impls
    ]
    said = {caveat.code: f"{caveat.what}: {caveat.how_much}" for caveat in run.manifest.caveats}
    assert "tvm-ffi" in said["solution-left-out"]
    assert "workload w2" in said["workload-left-out"]


@pytest.mark.slow
def test_solutions_of_a_problem_are_judged(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    broken = solution("breaks", "raise ImportError('gone')\n")
    (folder / "solution_9.json").write_text(json.dumps(broken))
    run = profile(folder, device="cpu", trials=1, budget=0.1, runs=tmp_path / "runs")
    assert run.manifest.sample.id == "gather_norm_h16"
    assert run.manifest.inputs == ["float32 [32, 16]", "int64 [16]", "float32 [16]", "1e-05"]
    assert (run.path / "helper.py").is_file()
    assert {impl.name: impl.status for impl in run.manifest.candidates} == {
        "returns_it": "ok",
        "writes": "ok",
        "ignores_weight": "mismatch",
        "breaks": "load-error",
    }


def test_the_largest_workload_is_timed_and_the_others_are_checked(folder):
    namespace = {}
    exec(sol_execbench.read(folder, "cuda").reference, namespace)
    assert [part.shape[0] for part in namespace["get_inputs"]()[:2]] == [32, 16]
    more = namespace["get_more_inputs"]()
    assert len(more) == 1
    assert [part.shape[0] for part in more[0][:2]] == [4, 6]
    y, sums = namespace["Model"]()(*more[0])
    assert (tuple(y.shape), tuple(sums.shape)) == ((6, 16), (6,))
    weight = namespace["get_inputs"]()[2]
    assert abs(float(weight.mean()) - 1) < 0.2
    assert float(weight.std()) > 0


def test_a_reference_may_have_names_of_a_sample_and_shapes_may_have_numbers(folder):
    text = REFERENCE.replace("def make(", "def get_inputs(") + "\n\nclass Model:\n    pass\n"
    inputs = DEFINITION["inputs"] | {"norm_weight": {"shape": ["1", "H"], "dtype": "float32"}}
    outputs = DEFINITION["outputs"] | {"ones": {"shape": ["3"], "dtype": "float32"}}
    text = text.replace("rows.sum(-1)", "rows.sum(-1), x.new_ones(3)")
    changed = {"reference": text, "custom_inputs_entrypoint": "get_inputs", "inputs": inputs, "outputs": outputs}
    (folder / "definition.json").write_text(json.dumps(DEFINITION | changed))
    found = sol_execbench.read(folder, "cpu")
    namespace = {}
    exec(found.reference, namespace)
    drawn = namespace["get_inputs"]()
    assert drawn[2].shape == (1, 16)
    y, sums, ones = namespace["Model"]()(*drawn)
    assert (y.shape, sums.shape, ones.shape) == ((16, 16), (16,), (3,))
    assert "_AXES = {'3': 3}" in found.candidates["writes"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reference": "def go(): pass"}, "does not define run"),
        ({"reference": "def run(:"}, "not Python"),
        ({"axes": DEFINITION["axes"] | {"T": {"type": "expr", "expression": "__import__('os')"}}}, "not arithmetic"),
        ({"outputs": {}}, "no field outputs"),
        ({"outputs": {"y": {"shape": ["T"], "dtype": "float4_e2m1"}}}, "float4_e2m1, which is not supported"),
        ({"name": "renamed"}, "no solution to measure"),
    ],
)
def test_what_cannot_be_a_sample_is_said(folder, change, message):
    (folder / "definition.json").write_text(json.dumps(DEFINITION | change))
    with pytest.raises(ProfkitError, match=message):
        sol_execbench.read(folder, "cpu")


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (solution("a", WRITING, "kernel.py::go") | {"sources": []}, "not among its sources"),
        (solution("a", WRITING, "kernel.py::go", beside=[{"path": "../x.py", "content": ""}]), "outside its folder"),
        (solution("a", RETURNING, beside=[{"path": "helper.py", "content": "EXTRA = 1\n"}]), "different helper.py"),
        (solution("a", WRITING, "kernel.py::go()"), "no name of a function"),
    ],
)
def test_a_solution_that_cannot_run_is_left_out_and_said(folder, one, why):
    (folder / "solution_9.json").write_text(json.dumps(one))
    found = sol_execbench.read(folder, "cpu")
    (caveat,) = [d for d in found.caveats if d.code == "solution-left-out"]
    assert why in caveat.how_much
    assert "a" not in found.candidates


def test_outputs_that_no_input_tells_the_size_of_are_not_guessed(folder):
    outputs = DEFINITION["outputs"] | {"sums": {"shape": ["B"], "dtype": "float32"}}
    (folder / "definition.json").write_text(json.dumps(DEFINITION | {"outputs": outputs}))
    found = sol_execbench.read(folder, "cpu")
    assert set(found.candidates) == {"returns_it"}
    assert all("whose B the shapes" in d.how_much for d in found.caveats if d.code == "solution-left-out")


def test_a_cut_file_names_its_line(folder, traces):
    (folder / "workload.jsonl").write_text(json.dumps(WORKLOADS[0]) + '\n{"axes": ')
    with pytest.raises(ProfkitError, match="line 2: not JSON"):
        sol_execbench.read(folder, "cpu")
    (traces / "definitions/act/relu_h16.json").write_text("{")
    with pytest.raises(ProfkitError, match="not JSON"):
        flashinfer_bench.read(traces / "definitions/act/relu_h16.json", "cpu")


EXTENSION = """#include <pybind11/pybind11.h>
#include "scale.h"

void run(py::object x, double eps, py::object y) { y.attr("copy_")(scaled(x)); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run, "relu(x) + eps"); }
"""


def test_an_extension_is_cuda_where_a_source_is(folder):
    built = solution("built", EXTENSION, "main.cpp::run", binding="torch") | {
        "spec": {"entry_point": "main.cpp::run", "binding": "torch", "destination_passing_style": False}
    }
    (folder / "solution_9.json").write_text(json.dumps(built))
    assert detect(sol_execbench.read(folder, "cpu").candidates["built"]) == "cpp"
    built["sources"].append({"path": "k.cu", "content": ""})
    (folder / "solution_9.json").write_text(json.dumps(built))
    assert detect(sol_execbench.read(folder, "cpu").candidates["built"]) == "cuda"


@pytest.mark.slow(20)
def test_an_extension_is_built_from_its_sources(traces, tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    # Through Python's objects: torch's own headers take half a minute to read.
    header = (
        "#pragma once\n#include <pybind11/pybind11.h>\nnamespace py = pybind11;\n"
        'inline py::object scaled(py::object x) { return x.attr("clamp_min")(0) + py::float_(0.5); }\n'
    )
    built = solution("built", EXTENSION, "main.cpp::run", "relu_h16", [{"path": "scale.h", "content": header}])
    built["spec"] |= {"languages": ["cuda_cpp"], "binding": "torch"}
    (traces / "solutions/a/act/built.json").write_text(json.dumps(built))
    task = traces / "definitions/act/relu_h16.json"
    run = profile(task, device="cpu", trials=2, budget=0.05, only=("built",), runs=tmp_path / "runs")
    assert [(i.name, i.status, i.backend) for i in run.manifest.impls if i.status != "skipped"] == [
        ("reference", "ok", "torch"),
        ("built", "ok", "cpp"),
    ]
