"""Kernels made to trigger one rule each, and siblings made not to: launched under annotated ranges, for ncu to count.

    profkit profile --ncu --deep -- python tests/triggers/kernels.py

needs an NVIDIA GPU and nvcc; record.py does it, and keeps what the tests read. One range a row of PAIRS.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).with_name("kernels.cu")
LIBRARY = "PROFKIT_TRIGGERS"
"""Environment variable: the built library, so that a profiler does not watch the compiler."""

BYTES = 4 * (1 << 26)
"""Bytes of one array; N of kernels.cu."""


@dataclass(frozen=True)
class Pair:
    """`rule` (and `variant`) must be found in range `hit`, and must not be in range `miss`.

    first: it must be the first finding of `hit`. work: what the ranges declare, as `annotate` takes it.
    shallow: judged without the counters that --deep adds, as a run without it would be.
    """

    rule: str
    hit: str
    miss: str
    variant: str = ""
    first: bool = True
    work: dict[str, object] = field(default_factory=dict)
    shallow: bool = False


FP32 = {"flops": {"fp32": 2.0 * 132 * 8 * 256 * 2048 * 8}}
PAIRS = (
    Pair("small-grid", "small_grid", "full_grid"),
    Pair("uneven-occupancy", "uneven_blocks", "even_blocks", first=False),
    Pair("l2-bound", "l2_sweep", "dram_sweep"),
    Pair("dram-excess", "read_twice", "read_once", work={"bytes": float(BYTES)}),
    Pair("divergence", "idle_lanes", "idle_warps", first=False),
    Pair("stalls", "one_warp_late", "idle_warps", "barrier", first=False),
    Pair("stalls", "shared_chase", "one_warp_late", "short_scoreboard", first=False),
    Pair("latency", "one_warp_late", "read_once", shallow=True),
    Pair("precision", "horner_fp64", "horner_fp32", work=FP32),
    Pair("launch-bound", "chain_of_8", "one_of_8"),
    Pair("fuse", "two_passes", "one_pass", work={"bytes": 2.0 * BYTES}),
)


def ranges() -> dict[str, dict[str, object]]:
    """Every range once, with the work it declares."""
    found: dict[str, dict[str, object]] = {}
    for pair in PAIRS:
        for name in (pair.hit, pair.miss):
            found[name] = found.get(name) or pair.work
    return found


def build(target: Path) -> Path:
    """Compile kernels.cu into a shared library."""
    subprocess.run(
        ["nvcc", "-O3", "-arch=sm_90", "-lineinfo", "-shared", "-Xcompiler", "-fPIC", "-o", target, SOURCE],
        check=True,
    )
    return target


@contextmanager
def library() -> Iterator[ctypes.CDLL]:
    """The library from PROFKIT_TRIGGERS, else a fresh one."""
    with tempfile.TemporaryDirectory(prefix="profkit-triggers-") as folder:
        loaded = ctypes.CDLL(os.environ.get(LIBRARY) or str(build(Path(folder) / "libtriggers.so")))
        loaded.prepare.restype = loaded.launch.restype = ctypes.c_char_p
        yield loaded


def main() -> int:
    from profkit import annotate

    with library() as kernels:
        told = {"prepare": kernels.prepare()}
        for name, work in ranges().items():
            with annotate(name, **work):  # type: ignore[arg-type]
                told[name] = kernels.launch(name.encode())
    bad = {name: said.decode() for name, said in told.items() if said != b"no error"}
    print(bad or f"{len(told) - 1} ranges launched")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
