"""Matrix products as probes of the tensor pipes: shapes, layouts and library calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from roofline.device import Device
from roofline.measure.probe import Probe

GEMM_SHAPES = (
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (2048, 2048, 13312),
    (6144, 4096, 8192),
    (4096, 8192, 13312),
    (2048, 16384, 16384),
    (16384, 2048, 13312),
    (8192, 4096, 16384),
    (5632, 1536, 16384),
    (8448, 3072, 16384),
    (2816, 12288, 16384),
)
"""M, N, K. The first two suit every library; the others won a search (benchmarks/product_search.py) on
H200 and H100. Each runs in every layout of the second operand; heats select the finalists.
"""
LAYOUTS = ("NN", "NT", "TT")
"""Whether the first and the second operand are stored as used (N) or transposed (T)."""
FP64_SHAPES = ((4096, 4096, 4096), (2048, 2048, 2048))


def probes(torch: Any, device: Device) -> Iterator[Probe]:
    """Products supported by the device, each in every shape and layout."""
    yield from _by_mm(torch, device)
    yield from _small_types(torch, device)


def _by_mm(torch: Any, device: Device) -> Iterator[Probe]:
    """Dense products through torch, FP32 as TF32; the first run makes the operands."""
    kinds = [("tensor_tf32", torch.float32), ("tensor_bf16", torch.bfloat16), ("tensor_fp16", torch.float16)]
    if _cc(device) < (8, 0):
        kinds = kinds[2:]
    for name, dtype in kinds:
        for shape in GEMM_SHAPES:
            for layout in LAYOUTS:
                yield _product(name, shape, layout, matmul(torch, *shape, dtype, layout))
    if _cc(device) in ((8, 0), (9, 0), (10, 0)):
        for shape in FP64_SHAPES:
            yield _product("tensor_fp64", shape, "NN", matmul(torch, *shape, torch.float64, "NN"))


def _product(name: str, shape: tuple[int, int, int], layout: str, run: Callable[[], object]) -> Probe:
    m, n, k = shape
    return Probe(name, "compute", f"matmul {m}x{n}x{k} {layout}", 2.0 * m * n * k, run, burst=True)


def _cc(device: Device) -> tuple[int, int]:
    major, _, minor = device.cc.partition(".")
    return int(major or 0), int(minor or 0)


def _lazily(make: Callable[[], tuple[Any, ...]], product: Callable[..., object]) -> Callable[[], object]:
    """Delay making the operands to the first run."""
    operands = cache(make)
    return lambda: product(*operands())


def matmul(torch: Any, m: int, n: int, k: int, dtype: Any, layout: str) -> Callable[[], object]:
    """Product (m, k) @ (k, n) on random data in that layout."""

    def make() -> tuple[Any, ...]:
        out = torch.empty(m, n, device="cuda", dtype=dtype)
        return _stored(torch, m, k, dtype, layout[0]), _stored(torch, k, n, dtype, layout[1]), out

    return _lazily(make, lambda a, b, out: torch.mm(a, b, out=out))


def _stored(torch: Any, rows: int, columns: int, dtype: Any, how: str) -> Any:
    """A random (rows, columns) matrix, row-major for N, column-major for T."""
    if how == "N":
        return torch.randn(rows, columns, device="cuda").to(dtype)
    return torch.randn(columns, rows, device="cuda").to(dtype).t()


def _small_types(torch: Any, device: Device) -> Iterator[Probe]:
    """FP8 and INT8 products; the second operand is column-major, as their kernels require."""
    for shape in GEMM_SHAPES:
        if _cc(device) >= (8, 9):
            yield _product("tensor_fp8", shape, "NT", scaled(torch, *shape))
        if _cc(device) >= (7, 5):
            yield _product("tensor_int8", shape, "NT", integers(torch, *shape))


def scaled(torch: Any, m: int, n: int, k: int) -> Callable[[], object]:
    """FP8 (e4m3) product with fast accumulation."""

    def make() -> tuple[Any, ...]:
        kind, one = torch.float8_e4m3fn, torch.ones((), device="cuda")
        return _stored(torch, m, k, kind, "N"), _stored(torch, k, n, kind, "T"), one

    def product(a: Any, b: Any, one: Any) -> object:
        return torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)

    return _lazily(make, product)


def integers(torch: Any, m: int, n: int, k: int) -> Callable[[], object]:
    def drawn(rows: int, columns: int) -> Any:
        return torch.randint(-128, 127, (rows, columns), device="cuda", dtype=torch.int8)

    return _lazily(lambda: (drawn(m, k), drawn(n, k).t()), lambda a, b: torch._int_mm(a, b))
