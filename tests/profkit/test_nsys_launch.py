"""Nsight Systems' command lines, what it says, and torch's profiler in its place."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from candidates import write_sample

from collectors import cupti
from collectors.frame import host_of
from collectors.operations import parsed
from profkit.errors import ProfkitError
from profkit.launch import tools
from profkit.record.profile import profile
from profkit.torch_tools import trace
from profkit.vendor.nvidia import nsys


def test_a_tool_that_does_not_run_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("PROFKIT_NSYS", str(tmp_path / "none"))
    assert tools.find(tools.NSYS) is None


def test_cpu_sampling_is_off_and_only_needed_traces_are_on(tmp_path):
    argv = nsys.prefix("nsys", tmp_path / "r")
    assert argv[:4] == ["nsys", "profile", "-t", "cuda,nvtx"]
    assert {"--sample=none", "--cpuctxsw=none"} <= set(argv)
    assert argv[-2:] == ["-o", str(tmp_path / "r")]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("Importer error status: Importation succeeded with non-fatal errors.", "imported its record with errors"),
        ("Unknown runtime API function index: 471", "does not know this CUDA"),
        ("Not all CUDA events might have been collected.", "not all events"),
        ("Generated: report.nsys-rep", ""),
    ],
)
def test_what_nsys_says_becomes_a_caveat(said, words):
    caveats = nsys.caveats(f"Processing events...\n{said}\n")
    assert [words in one.what for one in caveats] == ([True] if words else [])
    assert all(one.fix for one in caveats)


def test_why_there_is_no_report(tmp_path):
    newer = "Exportation error: Report was created in Nsight Systems version (2099.1), newer than your current version"
    assert "newer than your" in nsys.failure(newer, tmp_path / "r")[0]
    assert "no space" in nsys.failure("a\nno space left\n", tmp_path / "r")[0]
    (tmp_path / "r.qdstrm").touch()
    assert "qdstrm" in nsys.failure("", tmp_path / "r")[0]


class Event:
    """As kineto's events answer."""

    def __init__(self, text, start, time, *, gpu=True, correlation=0, thread=1, asker=0):
        told = {"name": text, "start_ns": start, "duration_ns": time, "device_type": "gpu" if gpu else "cpu"}
        told |= {"correlation_id": correlation, "linked_correlation_id": asker, "start_thread_id": thread}
        told |= {"device_index": 0, "device_resource_id": 7, "structured_input_strides": []}
        told |= {"structured_input_shapes": [[[2, 3], [2, 3]], []]}
        told |= {"dtypes": ["TensorList", "Scalar"], "concrete_inputs": [None, 1]}
        for name, value in told.items():
            setattr(self, name, lambda value=value: value)


def launched(text, start, correlation, at, thread=1):
    return [
        Event("cudaLaunchKernel", at, 5, gpu=False, correlation=correlation, thread=thread),
        Event(text, start, 100, correlation=correlation),
    ]


def test_kernels_get_the_range_of_the_launching_call(tmp_path):
    events = [
        Event("profkit:outer", 1000, 1000, gpu=False),
        Event("profkit:inner", 1400, 200, gpu=False),
        Event("profkit:outer", 1100, 900),
        *launched("gemm", 5000, 1, at=1200),
        *launched("relu", 5200, 2, at=1500),
        *launched("Memcpy HtoD", 4900, 3, at=900),
        Event("gpu_user_annotation", 0, 9000),
        # Operators count from some length on: shorter ones explain no hole.
        Event("aten::item", 5000, 30_000, gpu=False),
        Event("aten::add", 5000, 3_000, gpu=False),
    ]
    found = trace.gathered(events, "gpu")
    trace.write(trace.rows(found, {0: ("NVIDIA H200", "9.0")}), cupti.TRACE, tmp_path / "trace.csv")
    trace.write(trace.host_rows(found, 0, 9000), cupti.HOST, cupti.host_file(tmp_path / "trace.csv"))
    frame = cupti.read(tmp_path / "trace.csv")
    assert frame["kernel"].tolist() == ["Memcpy HtoD", "gemm", "relu"]
    assert frame["range"].tolist() == ["", "outer", "outer/inner"]
    assert frame["kind"].tolist() == ["memcpy", "kernel", "kernel"]
    assert frame["time"].tolist() == pytest.approx([1e-7] * 3)
    assert frame["start"].tolist() == pytest.approx([0, 1e-7, 3e-7])
    assert set(frame["tool"]) == {"cupti"}
    assert frame.attrs["caveats"]
    host = host_of(frame)
    assert host["call"].tolist() == ["process", *["cudaLaunchKernel"] * 3, "outer", "inner", "aten::item"]
    assert host["kind"].tolist() == ["call"] * 4 + ["range"] * 2 + ["op"]
    assert host["launch"].tolist() == [-1, 0, 1, 2, -1, -1, -1]
    assert host["start"].tolist() == pytest.approx([-4.9e-6, -4.0e-6, -3.7e-6, -3.4e-6, -3.9e-6, -3.5e-6, 1e-7])


def test_the_operation_that_launched_a_kernel_is_recorded_with_its_shapes(tmp_path):
    events = [
        Event("aten::cat", 1000, 100, gpu=False, correlation=12),
        *launched("gemm", 5000, 1, at=1200),
        Event("cudaLaunchKernel", 1300, 5, gpu=False, correlation=2),
        Event("CatArrayBatchedCopy", 5300, 100, correlation=2, asker=12),
    ]
    file = tmp_path / "trace.csv"
    trace.write(trace.rows(trace.gathered(events, "gpu"), {}), cupti.TRACE, file)
    frame = cupti.read(file)
    assert frame["call"].tolist() == [-1, 12]
    assert parsed(frame["op"].iloc[1]).shapes() == "[2, 3] [2, 3]"
    file.write_text("".join(line.rsplit(",", 2)[0] + "\n" for line in file.read_text().splitlines()[:2]))
    assert cupti.sniff(file.read_text(), file)
    assert "op" not in cupti.read(file)


def test_ranges_of_torch_count_and_their_echo_on_the_gpu_is_no_work():
    class Said(Event):
        def is_user_annotation(self):
            return self.name() == "a/b"

    events = [
        Said("a/b", 1000, 1000, gpu=False),
        Said("cudaLaunchKernel", 1500, 5, gpu=False, correlation=1),
        Said("gemm", 5000, 100, correlation=1),
        Said("a/b", 5000, 100),
    ]
    assert [(row["kernel"], row["range"]) for row in trace.rows(trace.gathered(events, "gpu"), {})] == [("gemm", "a|b")]


def test_launches_of_autograds_thread_get_the_only_range_that_is_open():
    events = [
        Event("profkit:backward", 1000, 1000, gpu=False, thread=1),
        *launched("grad", 5000, 1, at=1500, thread=9),
        *launched("later", 6000, 2, at=3000, thread=9),
    ]
    assert [row["range"] for row in trace.rows(trace.gathered(events, "gpu"), {})] == ["backward", ""]


def test_a_sample_has_no_timeline(tmp_path):
    with pytest.raises(ProfkitError, match="nsys: not for a sample"):
        profile(write_sample(tmp_path, "honest"), nsys=True, runs=tmp_path / "runs")


def traced(tmp_path, *target):
    out = tmp_path / "trace.csv"
    done = subprocess.run(
        [sys.executable, "-m", trace.__name__, str(out), *target],
        capture_output=True,
        text=True,
        check=False,
    )
    return done, out


@pytest.mark.slow
def test_the_traced_program_is_itself(tmp_path):
    script = tmp_path / "main.py"
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    script.write_text(
        "import sys, beside, torch\nfrom profkit import annotate\n"
        "with annotate('a', flops=1): torch.ones(4).sum()\n"
        "print(__name__, sys.argv[1:], beside.NAME)\nraise SystemExit(6)\n"
    )
    done, out = traced(tmp_path, str(script), "--x", "1")
    assert (done.returncode, done.stdout) == (6, "__main__ ['--x', '1'] beside\n")
    assert out.read_text().startswith("range,kernel,launch")


@pytest.mark.slow
def test_an_exception_in_the_traced_program_is_shown(tmp_path):
    done, out = traced(tmp_path, "-c", "import sys; print(sys.argv)\n1/0", "y")
    assert (done.returncode, done.stdout) == (1, "['-c', 'y']\n")
    assert "ZeroDivisionError" in done.stderr
    assert out.exists()


@pytest.mark.slow
def test_a_callable_is_profiled_in_this_process(tmp_path):
    torch = pytest.importorskip("torch")
    import profkit
    from profkit.report.writers import terminal

    def gelu_times(x, y):
        return torch.nn.functional.gelu(x) * y

    run = profkit.profile(gelu_times, torch.ones(64, 64), torch.ones(64, 64), budget=0.05, runs=tmp_path, device="cpu")
    row = run.metrics.iloc[0]
    assert (row["impl"], row["work_source"]) == ("gelu_times", "modelled")
    assert row["time"] > 0
    assert row["flops"] == 2 * 64 * 64
    assert math.isfinite(row["lower_bound_time"])
    text = terminal.summary(run)
    assert "not checked" in text
    assert "no candidate" not in text
    again = profkit.open_run(run.path)
    assert (again.manifest.sample.kind, again.manifest.status) == ("callable", "done")
    assert json.loads((run.path / "run.json").read_text())["schema"] == "profkit/1"


def test_what_a_callable_raises_is_raised(tmp_path):
    pytest.importorskip("torch")
    import profkit

    def wrong(_):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        profkit.profile(wrong, 1, budget=0.05, runs=tmp_path, device="cpu")
    assert profkit.open_run(tmp_path).manifest.status == "failed"


@pytest.mark.slow
def test_the_example_runs_without_a_gpu():
    example = Path(__file__).parents[2] / "examples" / "transformer_block.py"
    done = subprocess.run(
        [sys.executable, str(example), "--steps", "2", "--backward"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "2 steps" in done.stdout


def test_lists_and_strides_are_found_where_events_leave_them_out():
    torch = pytest.importorskip("torch")
    with torch.profiler.profile(record_shapes=True) as recorded:
        torch.cat([torch.ones(4, 5), torch.ones(5, 2).t()])
    found = trace.inputs_of(recorded.profiler.kineto_results)
    assert ([[[4, 5], [2, 5]], []], [[[5, 1], [1, 2]], []]) in found.values()
