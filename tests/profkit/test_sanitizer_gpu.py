"""compute-sanitizer itself on kernels with one defect each; needs an NVIDIA GPU, nvcc and compute-sanitizer."""

import pytest
import torch
from candidates import task

from profkit.api import profile
from profkit.launch import tools
from profkit.vendor.nvidia import sanitizer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU"),
    pytest.mark.skipif(tools.find(tools.SANITIZER) is None, reason="no compute-sanitizer"),
]

REFERENCE = task("x * 2", "torch.randn(1000)")
CANDIDATE = '''
import ctypes, os, subprocess, tempfile
import torch
from torch import nn

SOURCE = r"""
%s
extern "C" void run(float *y, const float *x, int *scratch, int n, void *stream) {
  twice<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(y, x, scratch, n);
}
"""
folder = tempfile.mkdtemp()
with open(folder + "/cuda.cu", "w") as stream:
    stream.write(SOURCE)
subprocess.run(["nvcc", "-arch=native", "-lineinfo", "-shared", "-Xcompiler", "-fPIC", "-o", "cuda.so", "cuda.cu"],
               cwd=folder, check=True)
library = ctypes.CDLL(folder + "/cuda.so")

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        scratch = torch.empty(x.numel(), dtype=torch.int32, device=x.device)
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (y, x, scratch)]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        library.run(*pointers, ctypes.c_int(x.numel()), stream)
        return y
'''
HEAD = "__global__ void twice(float *y, const float *x, int *scratch, int n) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
BODIES = {
    "sound": "  if (i < n) y[i] = 2 * x[i];\n}",
    "beyond": "  if (i < n) y[i] = 2 * x[i];\n  if (i == n - 1) y[n] = 1;\n}",
    "race": (
        "  __shared__ float tile[256];\n  tile[threadIdx.x] = i < n ? x[i] : 0;\n"
        "  float other = tile[(threadIdx.x + 96) % 256];\n"
        "  if (i < n) y[i] = 2 * x[i] + (other == 12345.0f ? 1e-9f : 0.0f);\n}"
    ),
    "unset": "  if (i < n) y[i] = 2 * x[i] + (scratch[i] == 0x12345678 ? 1.0f : 0.0f);\n}",
    "barrier": "  if (threadIdx.x < 200) __syncthreads();\n  if (i < n) y[i] = 2 * x[i];\n}",
}
WANTED = {
    "beyond": ("memcheck", "Invalid __global__ write"),
    "race": ("racecheck", "Race between"),
    "unset": ("initcheck", "Uninitialized __global__ memory read"),
    "barrier": ("synccheck", "Barrier error"),
}


def run_of(name, tools, root):
    """The run of one candidate under these tools."""
    folder = root / "twice"
    folder.mkdir()
    (folder / "reference.py").write_text(REFERENCE)
    (folder / f"{name}.py").write_text(CANDIDATE % (HEAD + BODIES[name]))
    return profile(folder, counters="off", budget=0.2, trials=1, sanitize=tools, runs=root / "runs")


def impl(run, name):
    return next(impl for impl in run.manifest.impls if impl.name == name)


@pytest.mark.parametrize("name", WANTED)
def test_the_defect_is_found_by_its_tool_in_its_kernel(name, tmp_path):
    tool, kind = WANTED[name]
    run = run_of(name, (tool,), tmp_path)
    found = [finding for one in impl(run, name).sanitized for finding in one.findings]
    assert found, (run.path, impl(run, name))
    assert kind in found[0].kind
    assert found[0].kernel.startswith("twice(")
    assert found[0].place.partition(":")[0] == "cuda.cu"
    assert found[0].own
    assert impl(run, name).unsound


def test_a_sound_kernel_is_clean_and_the_logs_are_in_the_form_that_is_read(tmp_path):
    run = run_of("sound", sanitizer.TOOLS, tmp_path)
    found = {one.tool: (one.state, one.why) for one in impl(run, "sound").sanitized}
    assert found == dict.fromkeys(sanitizer.TOOLS, ("clean", ""))
    logs = list((run.logs / "sanitizer").glob("*/sanitizer.log"))
    assert len(logs) == len(sanitizer.TOOLS)
    for log in logs:
        assert log.read_text().startswith("========= COMPUTE-SANITIZER"), log
