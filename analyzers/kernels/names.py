"""Library and tensor pipe of a kernel, by its name.

cuBLAS, cuDNN and CUTLASS encode the compute type of a product:
sm80_xmma_gemm_f32f32_tf32f32_f32_..., cutlass_80_tensorop_s1688gemm_... (FP32 operands: TF32),
ampere_bf16_s16816gemm_bf16_..., nvjet_sm90_tst_... (h: fp16, t: bf16), GemmUniversal<... cutlass::half_t ...>.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from analyzers.pipes import keeps

UNKNOWN = "tensor"
"""On a tensor pipe, with a type not shown by the name."""

_XMMA = re.compile(
    r"_xmma_\w*?_((?:tf32|bf16|f16|f32|f64|i8|u8|e4m3|e5m2){2})_((?:tf32|bf16|f16|f32|f64|i32|i8|e4m3|e5m2){2})_"
)
_NVJET = re.compile(r"\bnvjet_(?:sm\d+_)?([a-z])")
_CLASSIC = re.compile(
    r"(?:^|_)(fp16_|bf16_)?([hscdzi])(?:884|1688|16816|16832|161616)(tf32|bf16|f16|f32|fastf32)?(?:gemm|fprop|dgrad|wgrad)"
)
_TEMPLATES = {
    "tfloat32_t": "tf32",
    "bfloat16_t": "bf16",
    "float_e4m3_t": "fp8",
    "float_e5m2_t": "fp8",
    "half_t": "fp16",
}
_TENSOR = re.compile(r"tensorop|wgmma|warpgroup|fmha|flash_fwd", re.I)
_FAST = re.compile(r"FastF32|fastf32|3xtf32", re.I)


_LIBRARIES = (
    ("NCCL", re.compile(r"\bnccl(Dev)?Kernel", re.I)),
    ("cuDNN", re.compile(r"cudnn|implicit_convolve|_xmma_(fprop|dgrad|wgrad)|_s\w*(fprop|dgrad|wgrad)")),
    (
        "cuBLAS",
        re.compile(
            r"cublas|\bnvjet_|_xmma_gemm|\bcutlass_\d+_|\bgemv\w*_kernel|(^|_)[hscdz]gemm_\d|_s(884|1688|168\d+)\w*gemm"
        ),
    ),
    ("ATen", re.compile(r"\bat::|\bcunn_SoftMax|\bsoftmax_warp_(forward|backward)|vectorized_layer_norm_kernel")),
)


@lru_cache(maxsize=4096)
def library(kernel: str) -> str:
    """cuBLAS, cuDNN, ATen or NCCL by the kernel's name, else ""."""
    return next((name for name, pattern in _LIBRARIES if pattern.search(kernel)), "")


_COMPILED = re.compile(r"(?<![a-z])(torch)?compiled?(?![a-z])", re.I)
_INDUCTOR = re.compile(r"^triton_(poi|per|red|tem|for|mm)_")


@lru_cache(maxsize=1 << 14)
def compiled(impl: str, kernels: Collection[str]) -> bool:
    """Whether torch.compile made a part: by its kernels' names, or by the part's name."""
    return bool(_COMPILED.search(impl)) or any(_INDUCTOR.match(name) for name in kernels)


@lru_cache(maxsize=4096)
def tensor_type(kernel: str) -> str:
    """tf32, bf16, fp16, fp8, UNKNOWN, or "" for a kernel not known to use a tensor pipe."""
    if _FAST.search(kernel):
        return ""
    told = (found for reader in (_xmma, _nvjet, _classic, _template) if (found := reader(kernel)) is not None)
    return next(told, UNKNOWN if _TENSOR.search(kernel) else "")


_STORED = (
    ("bf16", re.compile(r"\b(c10::BFloat16|__nv_bfloat162?|bfloat16_t|bfloat16_copy_kernel_cuda)\b")),
    ("fp16", re.compile(r"\b(c10::Half|__half2?|half_t|float16_copy_kernel_cuda)\b")),
    ("fp8", re.compile(r"\bc10::Float8_\w|\b__nv_fp8|\bfloat_e[45]m[23]_t\b")),
)


@lru_cache(maxsize=4096)
def stored_type(kernel: str) -> str:
    """Narrowest of bf16, fp16, fp8 among a kernel's template arguments and parameters, else ""."""
    if _FAST.search(kernel):
        return ""
    found = [kind for kind, pattern in _STORED if pattern.search(kernel)]
    return min(found, key=keeps, default="")


def _xmma(kernel: str) -> str | None:
    match = _XMMA.search(kernel)
    if match is None:
        return None
    kinds = {"tf32": "tf32", "bf16": "bf16", "e4m3": "fp8", "e5m2": "fp8", "f16": "fp16"}
    return next((kind for token, kind in kinds.items() if match[2].startswith(token)), "")


def _nvjet(kernel: str) -> str | None:
    match = _NVJET.search(kernel)
    return None if match is None else {"h": "fp16", "t": "bf16"}.get(match[1], UNKNOWN)


def _classic(kernel: str) -> str | None:
    match = _CLASSIC.search(kernel)
    if match is None:
        return None
    text = match[0]
    if "bf16" in text or "gemm_bf16" in kernel:
        return "bf16"
    if match[3] in ("f32", "fastf32") or match[2] in "dzi":
        return ""
    if "tf32" in text or re.search(r"_optimized_tf32|_tf32_", kernel):
        return "tf32"
    if match[2] == "h" or "f16" in text or re.search(r"gemm_fp16|gemm_f16|_f16_|884", kernel):
        return "fp16"
    # FP32 operands, single precision sums, on a pipe that takes nothing wider than TF32.
    return "tf32" if "1688" in text and not re.search(r"turing|_75_", kernel) else UNKNOWN


def _template(kernel: str) -> str | None:
    product = re.search(r"gemm|conv|fmha|flash|mma", kernel, re.I) and not re.search(r"reduce", kernel, re.I)
    if not product or ("cutlass" not in kernel and "cute" not in kernel):
        return None
    return next((kind for mark, kind in _TEMPLATES.items() if mark in kernel), None)
