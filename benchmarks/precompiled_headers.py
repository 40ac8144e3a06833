"""What a precompiled torch/extension.h would save of a build, and what it costs.

    python benchmarks/precompiled_headers.py            # a C++ sample
    python benchmarks/precompiled_headers.py --cuda     # and one with a kernel: needs nvcc, no GPU

Builds with torch's load_inline, one job at a time, in directories of their own: as it is, and with the header compiled
before for the same flags, found through CPATH. Seconds are of the processor (user and system, children included): other work
on the machine stretches them less than the clock's. nvcc takes no precompiled header; its host compiler's pass over the
same file finds none either, as nvcc hands it text that is preprocessed already.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch.utils import cpp_extension

CPP = "torch::Tensor twice(torch::Tensor x) { return x * 2; }"
DECLARED = "torch::Tensor twice(torch::Tensor x);"
CUDA = """
__global__ void kernel(float* y, const float* x) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
torch::Tensor twice(torch::Tensor x) {
    auto y = torch::empty_like(x);
    kernel<<<1, 256>>>(y.data_ptr<float>(), x.data_ptr<float>());
    return y;
}
"""


def main() -> int:
    """Build, and print a line a build."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--times", type=int, default=3, help="builds of each, the fastest counts")
    given = parser.parse_args()
    os.environ.update(MAX_JOBS="1", TORCH_CUDA_ARCH_LIST="9.0")
    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=True).stdout.partition("\n")[
        0
    ]
    print(f"torch {torch.__version__}, {compiler}, {given.times} builds of each, the fastest, seconds of a processor")
    with tempfile.TemporaryDirectory() as root:
        for kind in ("C++", "CUDA") if given.cuda else ("C++",):
            cost, size = precompiled(Path(root), kind)
            plain, helped = (
                min(build(Path(root), kind, ready) for _ in range(given.times))
                for ready in ("", f"{root}/{kind}/ready")
            )
            saved = 1 - helped / plain
            print(f"{kind}: {plain:.1f} s as it is, {helped:.1f} s with the header compiled before: {saved:.0%} less")
            print(f"  the header itself: {cost:.1f} s and {size / 1e6:.0f} MB, for each set of flags")
    return 0


def build(root: Path, kind: str, ready: str) -> float:
    """Processor seconds of one build; `ready` is a folder with a precompiled header, or empty."""
    before = _spent()
    with tempfile.TemporaryDirectory(dir=root) as folder:
        os.environ["CPATH"] = ready
        source = {"cpp_sources": CPP} if kind == "C++" else {"cpp_sources": DECLARED, "cuda_sources": CUDA}
        name = f"twice_{Path(folder).name}"
        try:
            cpp_extension.load_inline(name, functions=["twice"], build_directory=folder, extra_cflags=["-O3"], **source)
        except (ImportError, OSError) as error:  # built, but without a CUDA of torch's it does not load
            if not list(Path(folder).glob("*.so")):
                raise error
    return _spent() - before


def precompiled(root: Path, kind: str) -> tuple[float, int]:
    """Compile the header as this kind of build would: (processor seconds, bytes)."""
    folder = root / kind
    folder.mkdir()
    file = folder / "build.ninja"
    cpp_extension._write_ninja_file_to_build_library(  # type: ignore[attr-defined]
        path=str(file),
        name="x",
        sources=["main.cpp"],
        extra_cflags=["-O3"],
        extra_cuda_cflags=[],
        extra_sycl_cflags=[],
        extra_ldflags=[],
        extra_include_paths=[],
        with_cuda=kind == "CUDA",
        with_sycl=False,
        is_standalone=False,
    )
    flags = re.search(r"^cflags = (.*)$", file.read_text(), re.M)
    assert flags
    header = next(path for at in cpp_extension.include_paths() if (path := Path(at, "torch/extension.h")).is_file())
    ready = folder / "ready/torch/extension.h.gch"
    ready.parent.mkdir(parents=True)
    words = [word for word in flags[1].split() if not word.startswith("-DTORCH_EXTENSION_NAME")]
    before = _spent()
    subprocess.run(["c++", "-x", "c++-header", *words, "-w", str(header), "-o", str(ready)], check=True)
    return _spent() - before, ready.stat().st_size


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
