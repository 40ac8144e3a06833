"""compute-sanitizer itself on kernels with one defect each; needs an NVIDIA GPU, nvcc and compute-sanitizer."""

from __future__ import annotations

import pytest
import torch

from profkit.launch import sanitizer
from profkit.profiling import profile

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU"),
    pytest.mark.skipif(sanitizer.find() is None, reason="no compute-sanitizer"),
]

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.randn(1000)]

def get_init_inputs():
    return []
"""
CANDIDATE = '''
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
%s
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  auto scratch = torch::empty({x.numel()}, x.options().dtype(torch::kInt32));
  int n = x.numel();
  twice<<<(n + 255) / 256, 256>>>(y.data_ptr<float>(), x.data_ptr<float>(), scratch.data_ptr<int>(), n);
  return y;
}
"""
module = load_inline(name="sanitized_%s", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE,
                     functions=["run"], extra_cuda_cflags=["-lineinfo"])

class ModelNew(nn.Module):
    def forward(self, x):
        return module.run(x)
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


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One run of all candidates under all four tools."""
    root = tmp_path_factory.mktemp("sanitizer")
    folder = root / "twice"
    folder.mkdir()
    (folder / "reference.py").write_text(REFERENCE)
    for name, body in BODIES.items():
        (folder / f"{name}.py").write_text(CANDIDATE % (HEAD + body, name))
    patch = pytest.MonkeyPatch()
    patch.setenv("PROFKIT_CACHE", str(root / "cache"))
    found = profile(
        folder, counters="off", budget=0.5, trials=1, sanitize=sanitizer.TOOLS, runs=root / "runs"
    )
    patch.undo()
    print((root / "runs").resolve())
    return found


def impl(run, name):
    return next(impl for impl in run.manifest.impls if impl.name == name)


@pytest.mark.parametrize("name", WANTED)
def test_the_defect_is_found_by_its_tool_in_its_kernel(run, name):
    tool, kind = WANTED[name]
    found = [f for one in impl(run, name).sanitized if one.tool == tool for f in one.findings]
    assert found, impl(run, name).sanitized
    assert kind in found[0].kind
    assert found[0].kernel.startswith("twice(")
    assert found[0].place.partition(":")[0] == "cuda.cu"
    assert found[0].own
    assert impl(run, name).unsound


def test_a_sound_kernel_is_clean(run):
    found = {one.tool: (one.state, one.why) for one in impl(run, "sound").sanitized}
    assert found == dict.fromkeys(sanitizer.TOOLS, ("clean", ""))


def test_the_logs_are_in_the_form_that_is_read(run):
    logs = list((run.logs / "sanitizer").glob("*/sanitizer.log"))
    assert len(logs) == len(BODIES) * len(sanitizer.TOOLS)
    for log in logs:
        assert log.read_text().startswith("========= COMPUTE-SANITIZER"), log
