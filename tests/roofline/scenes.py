"""Scenes of the plot tests: the usual, the crowded and the degenerate."""

import math
import random
from dataclasses import replace

from roofline.ceilings import Ceiling, Roofline, datasheet_ceilings
from roofline.device import find_spec
from roofline.figure.scene import Arrow, LowerBoundPoint, Point, Scene

NAN = math.nan
SHEET = Roofline("NVIDIA H200", datasheet_ceilings(find_spec("NVIDIA H200")))
MEASURED = SHEET.with_(
    [
        Ceiling("dram", "bandwidth", 4.42e12, "measured", variant="read, 4096 MiB arrays", clock=1.98e9),
        Ceiling("l2", "bandwidth", 10.1e12, "measured", variant="reads of 24 MiB", clock=1.98e9),
        Ceiling("l1", "bandwidth", 31.0e12, "measured", variant="reads of 32 KiB an SM", clock=1.98e9),
        Ceiling("fp32", "compute", 62.1e12, "measured", variant="chains of 16", clock=1.98e9),
        Ceiling("tensor_bf16", "compute", 784e12, "measured", variant="matmul 8192x8192x8192", clock=1.57e9),
    ]
)
OPERATORS = (
    ("relu", 0.125, 0.52, 0.93, "fp32"),
    ("softmax", 0.62, 0.40, 0.88, "fp32"),
    ("layernorm", 0.9, 0.31, 0.86, "fp32"),
    ("rmsnorm", 0.7, 0.22, 0.90, "fp32"),
    ("cross_entropy", 0.5, 0.18, 0.81, "fp32"),
    ("gelu", 1.3, 0.45, 0.92, "fp32"),
    ("gemm_bf16", 683.0, 0.62, 0.88, "tensor_bf16"),
    ("conv2d", 120.0, 0.31, 0.66, "tensor_bf16"),
    ("attention", 210.0, 0.40, 0.72, "tensor_bf16"),
    ("cumsum", 0.25, 0.12, 0.62, "fp32"),
)


def operators(count: int) -> Scene:
    """Reference and candidate of so many operators, joined by arrows, with their lower bounds."""
    points, arrows, lower_bounds = [], [], []
    for name, intensity, before, after, compute in OPERATORS[:count]:
        slow = MEASURED.attainable(intensity * 0.75, compute) * before
        fast = MEASURED.attainable(intensity, compute) * after
        start = Point(name, intensity * 0.75, slow, compute=compute, impl="reference", share=0.1)
        end = Point(name, intensity, fast, compute=compute, impl="candidate", share=0.08)
        points += [start, end]
        arrows.append(Arrow(start, end, f"{after / before / 0.75:.1f}x"))
        lower_bounds.append(LowerBoundPoint(intensity * 1.05, compute))
    subtitle = "NVIDIA H200, SM 1980 MHz, cold L2, median of 50 trials"
    return Scene(MEASURED, tuple(points), tuple(arrows), tuple(lower_bounds), "Ten operators", subtitle)


def many(count: int, seed: int = 3) -> Scene:
    """That many kernels anywhere under the ceilings."""
    source = random.Random(seed)
    points = []
    for index in range(count):
        tensor = source.random() < 0.3
        compute = "tensor_bf16" if tensor else "fp32"
        intensity = 10 ** (source.uniform(1.2, 3) if tensor else source.uniform(-1.2, 1.3))
        label = (
            f"void at::native::elementwise_kernel<4, Functor_{index}<float>>(int)"
            if index % 3
            else f"triton_poi_fused_add_mul_relu_{index}"
        )
        reached = MEASURED.attainable(intensity, compute) * source.uniform(0.02, 0.95)
        points.append(Point(label, intensity, reached, compute=compute, share=source.random() / count))
    return Scene(MEASURED, tuple(points), title=f"{count} kernels", subtitle="NVIDIA H200")


def levels() -> Scene:
    """Two kernels at three memory levels each."""
    points = [
        Point(name, intensity, height, level=level, share=share, impl="triton")
        for name, height, share, at in (
            ("softmax", 1.9e12, 0.7, (0.62, 0.4, 0.11)),
            ("reduce", 3e12, 0.3, (1.9, 1.1, 0.3)),
        )
        for level, intensity in zip(("dram", "l2", "l1"), at, strict=True)
    ]
    return Scene(MEASURED, tuple(points), title="Levels", subtitle="NVIDIA H200")


COPIES = (
    Point("transpose", 0.0, 0.0, bytes_per_s=2.9e12, time=3e-4, impl="reference"),
    Point("transpose_tiled", 0.0, 0.0, bytes_per_s=4.1e12, time=2e-4, impl="candidate"),
    Point("impossible memcpy", 0.0, 0.0, bytes_per_s=4.9e12, time=1e-4, impl="candidate"),
)
SINGLE = Scene(
    SHEET,
    (Point("softmax_kernel", 0.62, 2.4e12, share=1.0),),
    lower_bounds=(LowerBoundPoint(0.625),),
    title="One kernel",
)
ABOVE = Scene(
    SHEET,
    (
        Point("gelu", 1.2, 7.1e12, share=0.5, impl="candidate"),
        Point("fast_gemm", 300.0, 70e12, share=0.3, impl="candidate"),
        Point("softmax", 0.6, 2e12, share=0.2, impl="candidate"),
    ),
    title="Above",
)
CHINESE = Scene(
    MEASURED,
    (
        Point("矩阵乘法", 400.0, 500e12, compute="tensor_bf16", share=0.5, impl="候选"),
        Point("融合softmax", 0.6, 2e12, share=0.3, impl="reference"),
        Point("层归一化", 1.5, 3e12, share=0.2, impl="reference"),
    ),
    title="算子优化 softmax",
    subtitle="英伟达 H200",
    caption=("测量方法: CUPTI",),
)
CPU = Roofline("A CPU", (Ceiling("fp32", "compute", 210e9, "measured"), Ceiling("dram", "bandwidth", 23e9, "measured")))

SCENES = {
    "ten": operators(10),
    "three": operators(3),
    "dark": replace(operators(10), theme="dark"),
    "single": SINGLE,
    "levels": levels(),
    "copies": Scene(MEASURED, COPIES, title="Copies"),
    "mixed": replace(operators(3), points=operators(3).points + COPIES),
    "forty": many(40),
    "fourteen": many(14),
    "cpu": Scene(CPU, (Point("softmax", 0.6, 9e9, share=0.5),), title="CPU"),
    "one ceiling": Scene(Roofline("x", CPU.ceilings[:1]), (Point("a", 1.0, 1e10),)),
    "only bandwidth": Scene(Roofline("x", CPU.ceilings[1:]), (Point("a", 1.0, 1e10),)),
    "chinese": CHINESE,
    "above": ABOVE,
    "unknown hardware": Scene(Roofline("NVIDIA H20-3e"), operators(4).points, title="Unknown"),
    "no points": Scene(SHEET, title="Nothing"),
    "nothing at all": Scene(Roofline("")),
    "nan": Scene(SHEET, (Point("a", NAN, NAN), Point("b", 1.0, 1e11), Point("c", math.inf, 1e10), Point("d", -1, 1e9))),
    "extremes": Scene(MEASURED, (Point("tiny", 1e-9, 1e2), Point("huge", 1e9, 5e13, share=0.9))),
    "cluster": Scene(
        MEASURED,
        tuple(
            Point(f"layer_norm_variant_{i}", 0.9 * (1 + 0.01 * i), 3.1e12 * (1 + 0.012 * i), share=0.08)
            for i in range(10)
        ),
    ),
    "same place": Scene(MEASURED, tuple(Point(f"k{i}", 1.0, 1e12, share=0.1) for i in range(6))),
    "long words": Scene(
        MEASURED,
        (Point("x" * 300, 1.0, 1e12, impl="y" * 200),),
        title="word " * 60,
        subtitle="z" * 400,
        caption=("a caption that goes on " * 20, "w" * 500),
    ),
    "markup": Scene(MEASURED, (Point(r"$\frac{1$ _^{", 1.0, 1e12, impl="$x$"),), title="$", caption=("100 % $5",)),
    "every ceiling": Scene(
        SHEET,
        tuple(Point(one.name, 30.0, 1e12, compute=one.name) for one in SHEET.ceilings if one.kind == "compute"),
        levels=("dram", "l2", "l1"),
    ),
}
