"""Python, torch and compilers; torch and matplotlib are imported only in child processes."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from profkit.doctor.finding import Finding
from profkit.doctor.gpu import Machine

Facts = Mapping[str, Any]

PATIENCE = 11.0
"""Seconds for one child process, so that all checks together stay below 15."""

_TORCH = """
import json, warnings
facts = {}
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    try:
        import torch
        facts.update(version=str(torch.__version__), cuda=torch.version.cuda, hip=torch.version.hip,
                     threads=torch.get_num_threads(), available=torch.cuda.is_available())
        if facts["available"]:
            facts["gpu"] = torch.cuda.get_device_name(0)
            try:
                facts["computes"] = bool((torch.ones(8, device="cuda") + 1).sum().item() == 16)
            except Exception as error:
                facts["computes"], facts["cuda_error"] = False, str(error).strip().splitlines()[0]
    except Exception as error:
        facts.update(error=f"{type(error).__name__}: {error}", missing=getattr(error, "name", None) == "torch")
facts["said"] = [str(one.message).strip().splitlines()[0] for one in said if "CUDA" in str(one.message)]
try:
    facts["triton"] = __import__("triton").__version__
except Exception as error:
    facts["triton_error"] = f"{type(error).__name__}: {error}"
print("\\n" + json.dumps(facts))
"""


def torch_facts() -> Facts:
    """Facts from a child process: import torch and Triton, add eight numbers on a GPU."""
    try:
        done = _ran([sys.executable, "-X", "utf8", "-c", _TORCH])
    except subprocess.TimeoutExpired:
        return {"unknown": f"importing it takes more than {PATIENCE:g} s"}
    if done.returncode:
        tail = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"error": f"importing it ended the process: {tail}"}
    found: Facts = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def check_python() -> Iterator[Finding]:
    yield Finding("python", "ok", f"{platform.python_version()} ({sys.executable})")


def check_torch(facts: Facts) -> Iterator[Finding]:
    """Whether torch can be imported and is new enough, from `torch_facts`."""
    version = str(facts.get("version", ""))
    if "unknown" in facts:
        yield Finding("torch", "warn", str(facts["unknown"]), "try `python -c 'import torch'` by hand")
    elif not version:
        what = "not installed" if facts.get("missing") else f"cannot be imported: {facts.get('error', '')}"
        yield Finding("torch", "fail", what, "pip install torch (2.4 or newer; on a GPU machine a CUDA build)")
    elif tuple(map(int, re.findall(r"\d+", version)[:2])) < (2, 4):
        yield Finding("torch", "fail", f"{version} is older than 2.4", "pip install --upgrade torch")
    else:
        yield Finding("torch", "ok", f"{version}, {facts['threads']} CPU threads")


def check_torch_cuda(facts: Facts) -> Iterator[Finding]:
    """torch's CUDA on the GPU here, and Triton, from `torch_facts`."""
    if "version" not in facts:
        return
    name, seen = "torch CUDA", f"CUDA {facts['cuda']} sees {facts.get('gpu')}"
    said = "; ".join(facts.get("said", []))
    if not facts["cuda"]:
        build = "built for ROCm; profkit profiles NVIDIA GPUs" if facts.get("hip") else "built without CUDA"
        yield Finding(name, "fail", build, "install a CUDA build of torch (pytorch.org, Get Started, has the command)")
    elif not facts["available"]:
        fix = "install a driver at least as new as torch's CUDA, or a torch built for an older CUDA"
        yield Finding(name, "fail", f"CUDA {facts['cuda']}, but torch sees no GPU" + (f": {said}" if said else ""), fix)
    elif not facts.get("computes"):
        why = facts.get("cuda_error") or said or "a sum came out wrong"
        fix = "install a torch built for this GPU's architecture, and see that the GPU is free"
        yield Finding(name, "fail", f"{seen}, but cannot compute on it: {why}", fix)
    else:
        yield Finding(name, "ok", seen)
    if "triton" in facts:
        yield Finding("triton", "ok", str(facts["triton"]))
    else:
        what = f"cannot be imported: {facts.get('triton_error', '')}: Triton candidates cannot run"
        yield Finding("triton", "warn", what, "pip install triton")


def check_compiler(machine: Machine) -> Iterator[Finding]:
    """C++ compiler that torch would call, tried on a standard include and one of Python's."""
    chosen = os.environ.get("CXX", "c++")
    words, headers = chosen.split(), sysconfig.get_paths()["include"]
    if not words or not shutil.which(words[0]):
        what = f"{chosen} not found: C++ and CUDA candidates cannot be built"
        yield Finding("c++", machine.needed, what, "install g++ (Debian, Ubuntu: apt install g++), or set CXX")
        return
    source = "#include <vector>\n#include <Python.h>\nint main() {}\n"
    tried = _ran([*words, "-std=c++17", "-fsyntax-only", "-I", headers, "-x", "c++", "-"], source)
    if tried.returncode:
        why = (tried.stderr.strip().splitlines() or ["no reason given"])[0]
        fix = "install a complete g++ 9 or newer, and Python's headers (Debian, Ubuntu: apt install g++ python3-dev)"
        yield Finding("c++", machine.needed, f"{chosen} cannot compile C++17: {why}", fix)
    else:
        said = _output([words[0], "--version"]).strip().splitlines() or words
        yield Finding("c++", "ok", said[0])


def check_nvcc(facts: Facts) -> Iterator[Finding]:
    """CUDA compiler that torch would find, and whether its version is torch's."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    places = [Path(home, "bin/nvcc")] if home else [Path(shutil.which("nvcc") or ""), Path("/usr/local/cuda/bin/nvcc")]
    nvcc = next((str(path) for path in places if path.is_file() and os.access(path, os.X_OK)), None)
    if nvcc is None:
        what = "no CUDA toolkit (CUDA_HOME, PATH, /usr/local/cuda): CUDA C++ candidates cannot be built"
        fix = "install the CUDA toolkit of torch's version, and set CUDA_HOME if it is in an unusual place"
        yield Finding("nvcc", "fail", what, fix)
        return
    match = re.search(r"release (\d+)\.(\d+)", _output([nvcc, "--version"]))
    if not match:
        yield Finding("nvcc", "fail", f"{nvcc} does not run", "reinstall the CUDA toolkit")
        return
    mine, theirs = f"CUDA {match[1]}.{match[2]} ({nvcc})", str(facts.get("cuda") or "")
    if theirs and theirs.split(".")[0] != match[1]:
        fix = f"install the CUDA {theirs} toolkit and point CUDA_HOME at it"
        yield Finding("nvcc", "fail", f"{mine}, but torch was built with {theirs}", fix)
    else:
        yield Finding("nvcc", "ok", mine)


def _ran(argv: list[str], given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a child process to its end. Raises OSError, TimeoutExpired."""
    return subprocess.run(
        argv, input=given, capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False
    )


def _output(argv: list[str]) -> str:
    """Output of a tool, "" if it does not run."""
    try:
        done = _ran(argv)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
