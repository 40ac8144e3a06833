"""Computations of known precision, and to how many bits the judge's oracle finds each of them right.

    python benchmarks/measured_precision.py [--seed 1]

Each is judged on inputs of three seeds, as the reference's and with the type of its task. `known` follows from how it computes: its own type, a
coarser one, `exact` integers, or `wrong`. Wanted: all of them, on every seed.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import cache

import numpy
import torch
from torch import Tensor
from torch.nn import functional

from profkit.judge.precision.oracle import Case, Oracle, Precision

E4M3, E5M2, BF16, FP16 = torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16
normal, uniform = torch.randn, torch.rand
PLACES, ENDS = torch.arange(4096) * 37 % 61, torch.linspace(-6, 6, 97)


def rounded_to_tf32(x: Tensor) -> Tensor:
    """float32 values with a mantissa of 10 bits, to nearest."""
    return ((x.contiguous().view(torch.int32) + (1 << 12)) & -(1 << 13)).view(torch.float32)


def by(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The values in a narrower type, as float32."""
    return x.to(dtype).float()


def in_order(parts: Tensor) -> Tensor:
    """Sum over the first dimension with one accumulator of its type."""
    return torch.from_numpy(parts.numpy().cumsum(0, dtype=parts.numpy().dtype)[-1])


def product_in_order(x: Tensor, y: Tensor) -> Tensor:
    return in_order(x.T[..., None] * y[:, None])


def pairwise(x: Tensor) -> Tensor:
    return x[0] if len(x) == 1 else pairwise(x[::2] + x[1::2])


def kahan(parts: Tensor) -> Tensor:
    total = lost = torch.zeros_like(parts[0])
    for part in parts:
        part = part - lost
        new = total + part
        total, lost = new, (new - total) - part
    return total


def strassen(x: Tensor, y: Tensor) -> Tensor:
    (a, b), (c, d) = (half.chunk(2, 1) for half in x.chunk(2))
    (e, f), (g, h) = (half.chunk(2, 1) for half in y.chunk(2))
    one, two, three, four = (a + d) @ (e + h), (c + d) @ e, a @ (f - h), d @ (g - e)
    five, six, seven = (a + b) @ h, (c - a) @ (e + f), (b - d) @ (g + h)
    above = torch.cat([one + four - five + seven, three + five], 1)
    return torch.cat([above, torch.cat([two + four, one - two + three + six], 1)])


def three_bf16_products(x: Tensor, y: Tensor) -> Tensor:
    (a, b), (c, d) = ((by(one, BF16), by(one - by(one, BF16), BF16)) for one in (x, y))
    return a @ c + (a @ d + b @ c)


def exp_polynomial(x: Tensor, degree: int) -> Tensor:
    """exp by Taylor's polynomial of 2**f, f in [-0.5, 0.5]."""
    whole = (x * math.log2(math.e)).round()
    f = x - whole * math.log(2)
    return torch.ldexp(sum(f**n / math.factorial(n) for n in range(degree + 1)), whole)


def exp_shifted(x: Tensor) -> Tensor:
    """exp by writing x / ln 2 into the bits of a float32: a line between powers of two."""
    return ((x * math.log2(math.e) + 127) * 2**23).int().view(torch.float32)


def online_attention(q: Tensor, k: Tensor, v: Tensor, p: torch.dtype = torch.float32, block: int = 32) -> Tensor:
    """Blocks of keys with a running maximum; p: type of the weights of values."""
    top, below = torch.full((*q.shape[:-1], 1), -math.inf), torch.zeros(*q.shape[:-1], 1)
    total = torch.zeros(*q.shape[:-1], v.shape[-1])
    for keys, values in zip(k.split(block, -2), v.split(block, -2), strict=True):
        scores = q @ keys.mT / math.sqrt(q.shape[-1])
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        weights, old = (scores - new).exp(), (top - new).exp()
        below, total, top = below * old + weights.sum(-1, keepdim=True), total * old + by(weights, p) @ values, new
    return total / below


def one_pass(x: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    return (x - mean) * ((x * x).mean(-1, keepdim=True) - mean * mean + 1e-5).rsqrt()


def fft_convolution(x: Tensor, w: Tensor) -> Tensor:
    size = x.shape[-2:]
    far = torch.einsum("nchw,kchw->nkhw", torch.fft.rfft2(x), torch.fft.rfft2(w, s=size).conj())
    return torch.fft.irfft2(far, s=size)[:, :, : size[0] - 2, : size[1] - 2]


def winograd(x: Tensor, w: Tensor) -> Tensor:
    """F(2x2, 3x3)."""
    b = torch.tensor([[1.0, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
    g = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
    a = torch.tensor([[1.0, 1, 1, 0], [0, 1, -1, -1]])
    tiles = b @ x.unfold(2, 4, 2).unfold(3, 4, 2) @ b.T
    y = a @ torch.einsum("nchwij,kcij->nkhwij", tiles, g @ w @ g.T) @ a.T
    return y.permute(0, 1, 2, 4, 3, 5).reshape(len(x), len(w), 2 * y.shape[2], 2 * y.shape[3])


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


def factors(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [normal(128, 512).to(dtype), normal(512, 96).to(dtype)]


TASKS = {
    "product": (torch.matmul, factors),
    "product fp64": (torch.matmul, lambda: factors(torch.float64)),
    "product fp16": (torch.matmul, lambda: factors(FP16)),
    "product bf16": (torch.matmul, lambda: factors(BF16)),
    "product e4m3": (lambda x, y: x.to(y.dtype) @ y, lambda: [normal(128, 512).to(E4M3), normal(512, 96)]),
    "sum": (lambda x: x.sum(0), lambda: [normal(2**13, 16)]),
    "sum positive": (lambda x: x.sum(0), lambda: [uniform(2**17, 16)]),
    "softmax": (lambda x: x.softmax(-1), lambda: [normal(64, 512)]),
    "layer norm": (lambda x: functional.layer_norm(x, (512,)), lambda: [normal(64, 512)]),
    "gelu": (functional.gelu, lambda: [normal(64, 512)]),
    "convolution": (functional.conv2d, lambda: [normal(2, 16, 18, 18), normal(16, 16, 3, 3)]),
    "attention": (attention, lambda: list(normal(3, 2, 4, 256, 32))),
    "attention bf16": (attention, lambda: list(normal(3, 2, 4, 256, 32).to(BF16))),
    "top-k": (lambda x: x.topk(256, -1).indices, lambda: [normal(64, 4096)]),
    "top-k of uniform": (lambda x: x.topk(64, -1).indices, lambda: [uniform(64, 16384)]),
    "argmax of uniform": (lambda x: x.argmax(-1), lambda: [uniform(64, 16384)]),
    "argmax of ties": (lambda x: x.argmax(-1), lambda: [(normal(64, 512) * 4).round()]),
    "levels": (lambda x, y: (x @ y).round(), factors),
    "scatter": (lambda n, x: x.new_zeros(64, 16).index_add(0, n, x), lambda: [PLACES, normal(4096, 16)]),
}
ROWS: list[tuple[str, str, str, Callable[..., Tensor]]] = [
    ("product", "library", "fp32", torch.matmul),
    ("product", "fp64 inside", "fp32", lambda x, y: (x.double() @ y.double()).float()),
    ("product", "in order over K", "fp32", product_in_order),
    ("product", "Strassen, one level", "fp32", strassen),
    ("product", "K in halves", "fp32", lambda x, y: x[:, :256] @ y[:256] + x[:, 256:] @ y[256:]),
    ("product", "three bf16 products", "fp32", three_bf16_products),
    ("product", "tf32 inputs", "tf32", lambda x, y: rounded_to_tf32(x) @ rounded_to_tf32(y)),
    ("product", "fp16 inputs", "tf32", lambda x, y: by(x, FP16) @ by(y, FP16)),
    ("product", "bf16 inputs", "bf16", lambda x, y: by(x, BF16) @ by(y, BF16)),
    ("product", "e4m3 inputs", "wrong", lambda x, y: by(x, E4M3) @ by(y, E4M3)),
    ("product", "rank 72 of 96", "wrong", lambda x, y: x @ y[:, :72] @ torch.linalg.lstsq(y[:, :72], y).solution),
    ("product", "1/64 of K left out", "wrong", lambda x, y: x[:, 8:] @ y[8:]),
    ("product", "inputs below 0.1 dropped", "wrong", lambda x, y: torch.where(x.abs() < 0.1, 0, x) @ y),
    ("product fp64", "in order over K", "fp64", product_in_order),
    ("product fp64", "fp32 inside", "fp32", lambda x, y: (x.float() @ y.float()).double()),
    ("product fp16", "fp32 inside", "fp16", lambda x, y: (x.float() @ y.float()).half()),
    ("product bf16", "fp32 inside", "bf16", lambda x, y: (x.float() @ y.float()).bfloat16()),
    ("product bf16", "e4m3 inputs", "fp8", lambda x, y: (by(x, E4M3) @ by(y, E4M3)).bfloat16()),
    ("product bf16", "e5m2 inputs", "fp8", lambda x, y: (by(x, E5M2) @ by(y, E5M2)).bfloat16()),
    ("product e4m3", "in order over K", "fp32", lambda x, y: product_in_order(x.float(), y)),
    ("product e4m3", "both in e4m3", "wrong", lambda x, y: x.float() @ by(y, E4M3)),
    ("sum", "in order", "fp32", in_order),
    ("sum", "pairwise", "fp32", pairwise),
    ("sum", "Kahan", "fp32", kahan),
    ("sum", "fp16 accumulator", "wrong", lambda x: in_order(x.half()).float()),
    ("sum positive", "in order", "bf16", in_order),
    ("sum positive", "bf16 inputs", "bf16", lambda x: by(x, BF16).sum(0)),
    ("softmax", "less the log of the sum", "fp32", lambda x: (x - x.logsumexp(-1, keepdim=True)).exp()),
    ("softmax", "bf16 inputs", "bf16", lambda x: by(x, BF16).softmax(-1)),
    ("softmax", "exp of degree 7", "fp32", lambda x: functional.normalize(exp_polynomial(x, 7), p=1, dim=-1)),
    ("softmax", "exp by shifting bits", "wrong", lambda x: functional.normalize(exp_shifted(x), p=1, dim=-1)),
    ("softmax", "below 1e-3 dropped", "wrong", lambda x: functional.threshold(x.softmax(-1), 1e-3, 0)),
    ("layer norm", "two passes", "fp32", lambda x: functional.layer_norm(x, (512,))),
    ("layer norm", "one pass", "fp32", one_pass),
    ("layer norm", "fp16", "tf32", lambda x: functional.layer_norm(x.half(), (512,)).float()),
    ("gelu", "erfc", "fp32", lambda x: x * torch.special.erfc(-x / math.sqrt(2)) / 2),
    ("gelu", "tanh", "bf16", lambda x: functional.gelu(x, approximate="tanh")),
    ("gelu", "lines of 1/8", "wrong", lambda x: torch.from_numpy(numpy.interp(x, ENDS, functional.gelu(ENDS))).float()),
    ("convolution", "one product", "fp32", lambda x, w: (w.flatten(1) @ functional.unfold(x, 3)).view(2, 16, 16, 16)),
    ("convolution", "FFT", "fp32", fft_convolution),
    ("convolution", "Winograd", "fp32", winograd),
    ("attention", "online softmax", "fp32", online_attention),
    ("attention", "weights in fp16", "tf32", lambda q, k, v: online_attention(q, k, v, FP16)),
    ("attention", "224 of 256 keys", "wrong", lambda q, k, v: attention(q, k[..., 32:, :], v[..., 32:, :])),
    ("attention bf16", "sdpa", "bf16", functional.scaled_dot_product_attention),
    ("attention bf16", "fp32 inside", "bf16", lambda *qkv: online_attention(*(x.float() for x in qkv)).bfloat16()),
    ("top-k", "by sorting", "exact", lambda x: x.argsort(-1, descending=True)[:, :256]),
    (
        "top-k",
        "keys of 22 bits",
        "wrong",
        lambda x: ((x.view(torch.int32) >> 10) << 10).view(torch.float32).topk(256, -1).indices,
    ),
    ("top-k", "keys of 16 bits", "wrong", lambda x: by(x, BF16).topk(256, -1).indices),
    ("top-k of uniform", "the lowest", "wrong", lambda x: (-x).topk(64, -1).indices),
    ("argmax of uniform", "half of each row", "wrong", lambda x: x[:, :8192].argmax(-1)),
    ("argmax of ties", "from behind", "exact", lambda x: 511 - x.flip(-1).argmax(-1)),
    ("levels", "K in other parts", "fp32", lambda x, y: (x[:, :100] @ y[:100] + x[:, 100:] @ y[100:]).round()),
    ("levels", "one level up", "wrong", lambda x, y: (x @ y).round() + 1),
    ("scatter", "from behind", "fp32", lambda n, x: torch.zeros(64, 16).index_add(0, n.flip(0), x.flip(0))),
]


@cache
def asked(task: str, seed: int) -> tuple[list[Tensor], Case]:
    torch.manual_seed(seed)
    model, draw = TASKS[task]
    arguments = draw()
    type_ = task.split()[-1] if task.endswith(("fp64", "fp16", "bf16")) else "fp32"
    return arguments, Oracle(model, Precision(type_)).case(arguments, model(*arguments))


def said(task: str, candidate: Callable[..., Tensor], seed: int) -> tuple[str, str]:
    """(type, exact or wrong; bits) by the oracle."""
    arguments, case = asked(task, seed)
    verdict = case.judged(candidate(*arguments), exact=True)
    bits = "" if verdict.bits is None else f"{verdict.bits:.1f}"
    return "wrong" if verdict.status != "ok" else verdict.precision or "exact", bits


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    first, right = parser.parse_args().seed, 0
    print("| task | computation | known | oracle | bits |\n| --- | --- | --- | --- | ---: |")
    for task, name, known, candidate in ROWS:
        words, bits = zip(*(said(task, candidate, seed) for seed in range(first, first + 3)), strict=True)
        right += set(words) == {known}
        print(f"| {task} | {name} | {known} | {', '.join(dict.fromkeys(words))} | {' '.join(bits)} |", flush=True)
    print(f"\n{right} of {len(ROWS)} right")


if __name__ == "__main__":
    main()
