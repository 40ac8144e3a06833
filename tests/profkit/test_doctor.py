"""The doctor on machines that are not this one: judged from facts, made-up /proc trees and fake tools."""

import json
import shutil
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from profkit import doctor
from profkit.cli.group import cli
from profkit.doctor import Finding, abilities, exit_code, gpu, place, software, tools
from profkit.doctor.gpu import Machine

H200 = {"name": "NVIDIA H200", "cc": "9.0", "memory": "150754820096"}
WITH_GPU = Machine((H200,), "580.159.04", (13, 0), hardware=True)
NO_GPU = Machine(trouble="no NVIDIA driver answers: not found")
CUDA_TORCH = {
    "version": "2.13.0",
    "cuda": "13.0",
    "threads": 8,
    "available": True,
    "gpu": "NVIDIA H200",
    "computes": True,
    "triton": "3.7.1",
}
CPU_TORCH = {
    "version": "2.13.0+cpu",
    "cuda": None,
    "threads": 2,
    "available": False,
    "triton_error": "ModuleNotFoundError: No module named 'triton'",
}


def by_name(findings):
    found = {}
    for finding in findings:
        found.setdefault(finding.name, finding)
    return found


def only(findings):
    (finding,) = findings
    return finding


@pytest.fixture
def no_tools(monkeypatch):
    """Neither ncu nor nsys, wherever this machine keeps them."""
    monkeypatch.setattr(tools.tools, "find", lambda _: None)


@pytest.fixture(scope="module")
def this_machine():
    return doctor.check_all()


# what it comes to


def test_every_problem_comes_with_a_fix(this_machine):
    assert {"python", "torch", "driver", "gpu", "c++"} <= {f.name for f in this_machine}
    assert [f for f in this_machine if f.status == "fail" and not f.fix] == []


@pytest.mark.skipif(gpu.survey().hardware, reason="this machine has a GPU")
def test_a_machine_without_a_gpu_is_fine(this_machine):
    assert exit_code(this_machine) == 0
    assert abilities(this_machine) == {"cpu": True, "events": False, "counters": False}
    said = by_name(this_machine)
    assert said["gpu"].status == "warn"
    assert "CPU works" in said["gpu"].what
    assert not {"torch CUDA", "nvcc", "ncu", "counters", "nsys"} & said.keys()


def good():
    names = ("torch", "torch CUDA", "gpu", "ncu", "counters")
    return [Finding(name, "ok", "") for name in names]


@pytest.mark.parametrize(
    ("change", "can", "code"),
    [
        ([], "cpu events counters", 0),
        ([Finding("mig", "warn", "on")], "cpu events counters", 0),
        ([Finding("torch", "fail", "")], "", 3),
        ([Finding("runs folder", "fail", "")], "", 3),
        ([Finding("counters", "warn", "not known")], "cpu events", 0),
    ],
)
def test_abilities_follow_from_the_findings(change, can, code):
    findings = [one for one in good() if one.name not in {new.name for new in change}] + change
    assert " ".join(name for name, able in abilities(findings).items() if able) == can
    assert exit_code(findings) == code


def broken(*_):
    raise ZeroDivisionError("by accident")


@pytest.mark.parametrize(
    ("where", "name", "does", "finding", "words"),
    [
        (software, "check_python", broken, "python", "ZeroDivisionError: by accident"),
        (software, "check_python", lambda: time.sleep(60), "python", "this check did not end in time"),
        (gpu, "survey", broken, "driver", "by accident"),
    ],
)
def test_a_check_that_breaks_or_hangs_tells_of_itself_and_holds_no_other(
    monkeypatch, where, name, does, finding, words
):
    monkeypatch.setattr(where, name, does)
    monkeypatch.setattr(software, "torch_facts", lambda: CPU_TORCH)
    monkeypatch.setattr(doctor, "LIMIT", 1.0)
    found = by_name(doctor.check_all())[finding]
    assert found.status == "warn"
    assert words in found.what


# torch


@pytest.mark.parametrize(
    ("check", "facts", "name", "status", "text"),
    [
        (software.check_torch_cuda, CPU_TORCH, "torch CUDA", "fail", "without CUDA"),
        (software.check_torch_cuda, CPU_TORCH, "triton", "warn", "Triton candidates cannot run"),
        (software.check_torch_cuda, CUDA_TORCH, "torch CUDA", "ok", "sees NVIDIA H200"),
        (software.check_torch_cuda, CUDA_TORCH | {"available": False, "said": ["old"]}, "torch CUDA", "fail", ": old"),
        (
            software.check_torch_cuda,
            CUDA_TORCH | {"computes": False, "cuda_error": "no image"},
            "torch CUDA",
            "fail",
            "no image",
        ),
        (software.check_torch, CUDA_TORCH | {"version": "2.3.1+cu121"}, "torch", "fail", "older than 2.4"),
        (software.check_torch, {"error": "ModuleNotFoundError: x", "missing": True}, "torch", "fail", "not installed"),
        (software.check_torch, {"error": "OSError: libtorch.so"}, "torch", "fail", "libtorch.so"),
        (software.check_torch, {"unknown": "importing it takes long"}, "torch", "warn", "takes long"),
    ],
)
def test_torch_is_judged_by_what_it_says(check, facts, name, status, text):
    finding = by_name(check(facts))[name]
    assert finding.status == status
    assert text in finding.what


@pytest.mark.parametrize("code", ["import os; os.abort()", "raise SystemExit('torn')"])
def test_a_torch_that_ends_the_process_is_named(monkeypatch, code):
    monkeypatch.setattr(software, "_TORCH", code)
    finding = only(software.check_torch(software.torch_facts()))
    assert finding.status == "fail"


# compilers


def test_a_missing_compiler_matters_where_there_is_a_gpu(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert only(software.check_compiler(NO_GPU)).status == "warn"
    finding = only(software.check_compiler(WITH_GPU))
    assert finding.status == "fail"
    assert finding.fix


def test_a_compiler_without_its_library_is_found_out(install_tool, tmp_path, monkeypatch):
    script = tmp_path / "cxx.py"
    script.write_text("import sys; sys.exit('<stdin>:1: fatal error: vector: no such file')")
    monkeypatch.setenv("CXX", str(install_tool("broken-c++", script)))
    assert "fatal error: vector" in only(software.check_compiler(NO_GPU)).what


@pytest.mark.parametrize(
    ("release", "facts", "status"),
    [
        ("13.0", CUDA_TORCH, "ok"),
        ("12.8", CUDA_TORCH, "fail"),
        ("12.8", CPU_TORCH, "ok"),
        ("", CUDA_TORCH, "fail"),
    ],
)
def test_nvcc_must_be_of_torchs_cuda(install_tool, tmp_path, monkeypatch, release, facts, status):
    script = tmp_path / "nvcc.py"
    script.write_text(f"print('Cuda compilation tools, release {release}, V1')" if release else "raise SystemExit(1)")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    install_tool("nvcc", script)
    assert only(software.check_nvcc(facts)).status == status


# GPU


def test_a_healthy_gpu():
    findings = [*gpu.check_driver(WITH_GPU), *gpu.check_gpus(WITH_GPU)]
    assert {f.status for f in findings} == {"ok"}
    said = by_name(findings)
    assert said["gpu"].what == "0: NVIDIA H200, compute capability 9.0, 140 GiB"
    assert "CUDA up to 13.0" in said["driver"].what


def test_a_slice_of_a_gpu_is_named():
    machine = replace(WITH_GPU, gpus=(H200 | {"name": "NVIDIA H200 MIG 1g.18gb"},))
    (finding,) = (one for one in gpu.check_gpus(machine) if one.status == "warn")
    assert finding.name == "mig"


class Nvml:
    """As much of NVML as the survey asks for, of a driver that knows half of it."""

    def __getattr__(self, name):
        import pynvml

        def answer(*_):
            known = {
                "nvmlDeviceGetCount": 1,
                "nvmlDeviceGetHandleByIndex": "handle",
                "nvmlDeviceGetName": b"NVIDIA H200",
                "nvmlDeviceGetUUID": "GPU-1",
                "nvmlSystemGetDriverVersion": "580.1",
                "nvmlSystemGetCudaDriverVersion_v2": 13000,
                "nvmlDeviceGetCudaComputeCapability": (9, 0),
                "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=2**37, free=2**36),
            }
            if name not in known:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            return known[name]

        return answer


def test_a_driver_that_knows_little_is_enough(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(gpu.nvml, "driver", Nvml)
    machine = gpu.survey()
    assert machine.hardware
    assert machine.cuda == (13, 0)
    (found,) = machine.gpus
    assert (found["name"], found["cc"], float(found["memory"])) == ("NVIDIA H200", "9.0", 2.0**37)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    hidden = gpu.survey()
    assert not hidden.hardware
    assert "CUDA_VISIBLE_DEVICES" in only(gpu.check_gpus(hidden)).what


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"proc/version": "Linux version 6.1.0"}, "nvidia-smi"),
        ({".dockerenv": ""}, "--gpus all"),
        ({"proc/1/cgroup": "0::/kubepods/besteffort/pod1"}, "--gpus all"),
        ({"proc/version": "Linux version 5.15.90.1-microsoft-standard-WSL2"}, "in Windows"),
    ],
)
def test_a_dead_driver_is_answered_for_the_place(tmp_path, files, words):
    assert only(gpu.check_driver(Machine(trouble="x", hardware=True))).status == "fail"
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert words in gpu.driver_fix(tmp_path)


# place


def test_disks(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    free = {"bytes": 1 << 40}
    monkeypatch.setattr(place.shutil, "disk_usage", lambda _: usage._replace(free=free["bytes"]))
    wanted = tmp_path / "not/yet/there"
    assert {f.status for f in place.disks(wanted, wanted)} == {"ok"}
    free["bytes"] = 200 << 20
    assert {f.status for f in place.disks(wanted, wanted)} == {"warn"}
    free["bytes"] = 1 << 20
    assert [f.status for f in place.disks(wanted, wanted)] == ["fail", "warn", "warn"]
    assert "1.05 MB free" in next(place.disks(wanted, wanted)).what


# Nsight


def test_tools_that_are_missing(no_tools):
    assert only(tools.check_ncu(WITH_GPU)).status == "fail"
    assert only(tools.check_nsys(WITH_GPU)).status == "warn"


@pytest.mark.parametrize(
    ("tool", "version", "cc", "status"),
    [
        ("ncu", "2025.3.1.0", "9.0", "ok"),
        ("ncu", "2022.3.0.0", "9.0", "ok"),
        ("ncu", "2022.2.0.0", "7.0", "warn"),
        ("ncu", "2024.3.0.0", "10.0", "warn"),
        ("ncu", "2025.1.0.0", "10.0", "ok"),
        ("ncu", "2024.1.0.0", "9.9", "ok"),
        ("nsys", "2025.3.2.0", "9.0", "ok"),
        ("nsys", "2023.4.4.54", "9.0", "warn"),
    ],
)
def test_an_ncu_too_old_for_the_chip_and_an_nsys_older_than_the_driver(fake_ncu, fake_nsys, tool, version, cc, status):
    {"ncu": fake_ncu, "nsys": fake_nsys}[tool](version=version)
    finding = only(getattr(tools, f"check_{tool}")(replace(WITH_GPU, gpus=(H200 | {"cc": cc},))))
    assert finding.status == status
    assert version.rsplit(".", 1)[0] in finding.what


@pytest.fixture
def params(tmp_path):
    def write(value):
        file = tmp_path / "params"
        file.write_text(f"ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: {value}\n")
        return file

    return write


@pytest.mark.parametrize(
    ("value", "privileged", "status"),
    [(0, False, "ok"), (0, True, "ok"), (1, False, "fail"), (1, True, "ok")],
)
def test_counter_permission(params, monkeypatch, value, privileged, status):
    monkeypatch.setattr(tools.ncu, "_privileged", lambda: privileged)
    missing = params(value).parent / "none"
    assert "--ncu" in only(tools.check_counters(missing)).fix
    finding = only(tools.check_counters(params(value)))
    assert finding.status == status
    if status == "fail":
        assert "ERR_NVGPUCTRPERM" in finding.what
        assert "SYS_ADMIN" in finding.fix


# the command


FINDINGS = [Finding("torch", "ok", "2.13.0"), Finding("ncu", "fail", "not found", "install it")]


@pytest.fixture
def report(monkeypatch):
    """Run the command on FINDINGS: (exit code, output)."""
    monkeypatch.setattr(doctor, "check_all", lambda **_: FINDINGS)
    for name in ("FORCE_COLOR", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments, color=False):
        result = CliRunner().invoke(cli, ["doctor", *arguments], standalone_mode=False, color=color)
        assert result.exception is None, result.exception
        return result.return_value, result.stdout

    return run


def test_json_is_one_document(report):
    code, text = report("--json")
    document = json.loads(text)
    assert code == 3
    assert document["schema"] == "profkit-doctor/1"
    assert document["checks"][1] == {
        "name": "ncu",
        "status": "fail",
        "what": "not found",
        "fix": "install it",
    }
    assert set(document["can"]) == {"cpu", "events", "counters"}
