"""The tensor ceilings against the best product that a long search over shapes and layouts finds.

    python benchmarks/product_search.py [SECONDS] [REPEATS]      # needs an NVIDIA GPU; 60 s a type, 5 repeats

First the ceilings are measured REPEATS times, as `profkit ceilings` does (afresh, no cache). Then random shapes
in every layout are timed for SECONDS a type by the same protocol (bursts of a millisecond, two
milliseconds of rest), and the ten fastest again. Printed: each repeat, their spread (largest over smallest, less one), the
best product and the ratio of the ceiling to it. Wanted: a spread of at most 1 %, a ratio of at least 0.95.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import torch

from roofline.measure import measure_gpu, probe, products
from roofline.measure.gpu_clock import GpuTimer, gpu_device

SIZES = (1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
DEPTHS = (1024, 2048, 4096, 8192, 13312, 16384)
OPERATIONS = (6e9, 1.2e12)
FINAL, FINAL_TIMINGS = 10, 60
Shape = tuple[int, int, int]


def shapes(seed: int = 0) -> Iterator[tuple[Shape, str]]:
    """Random (M, N, K) and layout for ever; products of whole waves of 128x256 tiles are among them."""
    draw = random.Random(seed)
    while True:
        m, n = draw.choice(SIZES), draw.choice(SIZES)
        if draw.random() < 0.25:
            m, n = 128 * 11 * draw.randint(1, 6), 256 * 6 * draw.randint(1, 8)
        shape = (m, n, draw.choice(DEPTHS))
        if OPERATIONS[0] < 2.0 * m * n * shape[2] < OPERATIONS[1]:
            yield shape, draw.choice(("NN", "NT", "TN", "TT"))


def run_of(name: str, shape: Shape, layout: str) -> Callable[[], object]:
    """The call of one product of the ceiling `name`."""
    if name == "tensor_fp8":
        return products.scaled(torch, *shape)
    if name == "tensor_int8":
        return products.integers(torch, *shape)
    dtype = {"tensor_bf16": torch.bfloat16, "tensor_fp16": torch.float16}.get(name, torch.float32)
    return products.matmul(torch, *shape, dtype, layout)


def rate(run: Callable[[], object], operations: float, timer: GpuTimer, bursts: int) -> float:
    """Median rate [FLOP/s] over so many bursts; 0 when the product cannot be run."""
    try:
        timer(run, 1)
        calls = max(1, round(probe.BURST / timer(run, 1).seconds))
    except (RuntimeError, torch.cuda.OutOfMemoryError):
        return 0.0
    seconds = []
    for _ in range(bursts):
        time.sleep(probe.PAUSE)
        seconds.append(timer(run, calls).seconds / calls)
    return operations / statistics.median(seconds)


def search(name: str, seconds: float, timer: GpuTimer) -> tuple[float, str, int]:
    """(best rate, which product, how many were tried)."""
    found: list[tuple[float, Shape, str]] = []
    seen: set[tuple[Shape, str]] = set()
    end = time.monotonic() + seconds
    for shape, layout in shapes():
        if time.monotonic() > end:
            break
        if (shape, layout) not in seen:
            seen.add((shape, layout))
            work = 2.0 * shape[0] * shape[1] * shape[2]
            found.append((rate(run_of(name, shape, layout), work, timer, 3), shape, layout))
    finals = []
    for _, shape, layout in sorted(found, reverse=True)[:FINAL]:
        work = 2.0 * shape[0] * shape[1] * shape[2]
        again = rate(run_of(name, shape, layout), work, timer, FINAL_TIMINGS)
        finals.append((again, "x".join(map(str, shape)) + " " + layout))
    return (*max(finals), len(found))


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    measured = []
    for _ in range(repeats):
        began = time.monotonic()
        device, result = measure_gpu()
        measured.append({c.name: c for c in result.ceilings})
        print(f"ceilings measured in {time.monotonic() - began:.0f} s", file=sys.stderr)
    print(f"{device.name}, driver {device.driver}, torch {torch.__version__}\n")
    print(f"{'ceiling':13}" + "".join(f"{i + 1:>10}" for i in range(repeats)) + f"{'spread':>9}  variant")
    for name, first in measured[0].items():
        peaks = [m[name].peak for m in measured if name in m]
        cells = "".join(f"{peak / 1e12:10.4g}" for peak in peaks)
        print(f"{name:13}{cells}{max(peaks) / min(peaks) - 1:9.2%}  {first.variant}")
    print(*result.refused, sep="\n")
    torch.set_float32_matmul_precision("high")
    timer = GpuTimer(torch, gpu_device(torch, torch.cuda.current_device()))
    print(f"\n{'ceiling':13}{'measured':>10}{'best found':>12}{'ratio':>8}  product (of so many tried)")
    for name in ("tensor_bf16", "tensor_fp16", "tensor_tf32", "tensor_fp8", "tensor_int8"):
        if name in measured[0]:
            best, which, tried = search(name, seconds, timer)
            peak = statistics.median(m[name].peak for m in measured if name in m)
            print(
                f"{name:13}{peak / 1e12:10.4g}{best / 1e12:12.4g}{peak / best:8.3f}  {which} (of {tried})",
                flush=True,
            )


if __name__ == "__main__":
    main()
