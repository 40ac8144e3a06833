"""Twelve kernels by every clock of `profkit timers`, and what is left unexplained.

    python benchmarks/timers.py --json timers.json       # needs an NVIDIA GPU; two to three minutes

Wanted: profkit's event pairs within max(2 %, 0.3 us) of CUPTI, cold and warm; 90 % of every gap larger than that attributed.
One kernel alone: `profkit timers benchmarks/timers.py:softmax`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from analyzers.records import number
from profkit.record import timers

Call = Callable[[], Any]


def relu(n: int) -> Call:
    x, out = torch.randn(n, device="cuda"), torch.empty(n, device="cuda")
    return lambda: torch.clamp_min(x, 0, out=out)


def of_rows(function: Callable[[torch.Tensor], Any], n: int = 4096) -> Call:
    x = torch.randn(n, n, device="cuda")
    return lambda: function(x)


def gemm(n: int, dtype: torch.dtype) -> Call:
    a, b, out = (torch.randn(n, n, device="cuda").to(dtype) for _ in range(3))
    return lambda: torch.mm(a, b, out=out)


def chain() -> Call:
    """Six launches."""
    x, w = torch.randn(256, 1024, device="cuda"), torch.randn(1024, 1024, device="cuda") / 32
    return lambda: (((x @ w).relu() @ w).relu() @ w).relu()


def two_streams(n: int) -> Call:
    """Two softmaxes at once: the second on a stream of its own, which the caller's waits for."""
    (a, b), (x, y) = torch.randn(2, n, n, device="cuda"), torch.empty(2, n, n, device="cuda")
    side = torch.cuda.Stream()

    def call() -> None:
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            torch.softmax(b, -1, out=y)
        torch.softmax(a, -1, out=x)
        main.wait_stream(side)

    return call


def triton_add(n: int = 1 << 20) -> Call:
    global tl
    import triton
    import triton.language as tl

    @triton.jit
    def add(x, y, out, n, BLOCK: tl.constexpr):  # noqa: N803
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)

    x, y, out = torch.randn(3, n, device="cuda")
    return lambda: add[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)


KERNELS: dict[str, Callable[[], Call]] = {
    "relu_4k": lambda: relu(1 << 12),
    "triton_add_1m": triton_add,
    "relu_4m": lambda: relu(1 << 22),
    "gemm_bf16_1024": lambda: gemm(1024, torch.bfloat16),
    "six_launches": chain,
    "two_streams_1024": lambda: two_streams(1024),
    "layer_norm": lambda: of_rows(lambda x: torch.nn.functional.layer_norm(x, (4096,))),
    "softmax": lambda: of_rows(lambda x: torch.softmax(x, -1)),
    "two_streams_8192": lambda: two_streams(8192),
    "gemm_bf16_4096": lambda: gemm(4096, torch.bfloat16),
    "relu_256m": lambda: relu(1 << 28),
    "gemm_fp32_4096": lambda: gemm(4096, torch.float32),
}


def __getattr__(name: str) -> Call:
    """A kernel by its name, for `profkit timers FILE.py:NAME`."""
    if name not in KERNELS:
        raise AttributeError(name)
    return KERNELS[name]()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="keep everything here")
    out = parser.parse_args().json
    told = timers.measure([f"{__file__}:{name}" for name in KERNELS], progress=print, limit=9.0)
    if out:
        out.write_text(json.dumps(told), "utf-8")
    from profkit.cli.machine import clocks

    print(clocks(told))
    for kernel in told["kernels"]:
        by = {(row["clock"], row["cache"]): row["time"] for row in kernel["rows"] if "time" in row}
        print(f"\n{kernel['name']}: {kernel['error'] or 'every clock ran'}")
        for state in ("cold", "warm"):
            judge, mine = by.get(("CUPTI", state)), by.get(("profkit", state))
            if judge and mine:
                good = abs(mine - judge) <= max(0.02 * judge, 0.3e-6)
                print(
                    f"  {state}: profkit {mine * 1e6:.2f} us, CUPTI {judge * 1e6:.2f}: {'within' if good else 'NOT within'}"
                )
        for row in kernel["rows"]:
            share = attributed(row)
            print(
                f"  {row['clock']}, {row['cache']}: {'within, or not known' if share is None else f'{share:.0%} of the gap attributed'}"
            )


def attributed(row: Mapping[str, Any]) -> float | None:
    """Share of a clock's gap that is not `rest`; None where the gap is within max(2 %, 0.3 us), or nothing is known."""
    gap, rest = number(row, "gap"), number(row, "rest")
    if math.isnan(rest) or abs(gap) <= max(0.02 * (number(row, "time") - gap), 0.3e-6):
        return None
    return max(0.0, 1.0 - abs(rest / gap))


if __name__ == "__main__":
    main()
