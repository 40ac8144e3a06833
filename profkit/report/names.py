"""Short kernel names: "gelu (ATen)", "bf16 GEMM 256x128 (cuBLAS)"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from analyzers.kernels.spelling import base_name
from profkit.report.layout import cut

LIMIT = 60
_ATEN = re.compile(r"^(?:void )?(?:at::(?:native::)?)?(?:\w+_)?(elementwise|reduce)_kernel<")
_OPERATION = (
    r"\b(?!gpu_)(\w+?)_?(?:kernel_)?(?:cuda_kernel|kernel_cuda|kernel_impl|CUDAKernelImpl)(?=[<(])",
    r"\b(\w+?)_cuda_kernel\b",
    r"\blaunch_(\w+?)_scalar\b",
    r"\bCUDAFunctor(?:OnSelf|OnOther)?_(\w+)",
    r"\b(?!gpu_)(\w+?)_kernel(?=\(at::TensorIter)",
    # A tool may have cut the name.
    r"\b(Mul|Div|Add|Sub|Fill|Fmod|Compare|Bitwise\w+?)Funct",
    r"\b(Mean|Norm|Welford|Min|Max|ArgMin|ArgMax|Std)(?:NanPropagate)?Ops\b",
    r"\b(sum|prod|and|or|xor)_functor\b",
)
"""ATen's elementwise and reduction kernels name their operation in a template argument."""


_INPUTS = (
    ("bf16", "bf16"),
    ("f16", "fp16"),
    ("fp16", "fp16"),
    ("tf32", "tf32"),
    ("f32", "fp32"),
    ("f64", "fp64"),
    ("e4m3", "fp8"),
    ("e5m2", "fp8"),
    ("i8", "int8"),
    ("s1688", "tf32"),
)
_LETTERS = {
    "h": "fp16",
    "t": "bf16",
    "s": "fp32",
    "d": "fp64",
    "q": "fp8",
    "i": "int8",
    "c": "complex64",
    "z": "complex128",
}


_TYPES = "bf16|tf32|f16|f32|f64|e4m3|e5m2|i8"
_KNOWN = [
    (re.compile(pattern), said)
    for pattern, said in (
        (r"nvjet_(?:sm\d+_)?(?P<kind>[a-z])[a-z]+_(?P<tile>\d+x\d+)_", "{type} GEMM {tile} (cuBLAS)"),
        # f32f32_tf32f32_f32: in what it multiplies comes second.
        (
            rf"sm\d+_xmma_gemm_[a-z0-9]+_(?P<kind>{_TYPES})\w*_tilesize(?P<tile>\d+x\d+)",
            "{type} GEMM {tile} (cuBLAS)",
        ),
        (
            r"cutlass_\d+_(?:simt|tensorop|wmma_tensorop)_(?P<kind>\w*?gemm\w*?)_(?P<tile>\d+x\d+)_",
            "{type} GEMM {tile} (CUTLASS)",
        ),
        (
            r"^(?:maxwell|volta|turing|ampere|hopper)_(?P<kind>\w*?gemm\w*?)_(?P<tile>\d+x\d+)",
            "{type} GEMM {tile} (cuBLAS)",
        ),
        (
            r"cutlass_(?:simt|tensorop)_(?:[a-z]\d+)?(?P<way>fprop|dgrad|wgrad)_\w*?(?P<kind>bf16|tf32|f16|f32|f64)_(?P<tile>\d+x\d+)_",
            "{type} convolution {way} {tile} (CUTLASS)",
        ),
        (
            r"cutlass\w*?(?:::|\d+)conv\b.*ImplicitGemmConvolution|^_ZN\d+cutlass\w*ImplicitGemmConvolution",
            "convolution (CUTLASS)",
        ),
        (r"cutlass\w*::reduction::kernel::ReduceSplitK", "sum of split K (CUTLASS)"),
        (r"\w*cudnn::(?P<what>init_device_workspace)_kernel", "{what} (cuDNN)"),
        (r"cublasLt::splitKreduce_kernel", "sum of split K (cuBLAS)"),
        (r"cudnn\w*_sdpa_\w*?(?P<way>fprop|bprop)", "attention {way} (cuDNN)"),
        (r"flash_(?P<way>fwd|bwd)_\w*kernel", "flash attention {way} (ATen)"),
        (r"cunn_SoftMax(?P<way>Forward|Backward)", "softmax {way} (ATen)"),
        (r"softmax_warp_(?P<way>forward|backward)", "softmax {way} (ATen)"),
        (
            rf"sm\d+_xmma_(?P<way>fprop|dgrad|wgrad)_\w*?implicit_gemm_(?:indexed_(?:wo_smem_)?)?[a-z0-9]+_(?P<kind>{_TYPES})\w*"
            r"_tilesize(?P<tile>\d+x\d+)",
            "{type} convolution {way} {tile} (cuDNN)",
        ),
        (r"cudnn::bn_bw_", "batch norm backward (cuDNN)"),
        (r"cudnn::bn_fw_", "batch norm forward (cuDNN)"),
        (r"cudnn::\w*?(?:::)?nchwToNhwcKernel", "NCHW to NHWC (cuDNN)"),
        (r"cudnn::\w*?(?:::)?nhwcToNchwKernel", "NHWC to NCHW (cuDNN)"),
        (r"nccl(?:Dev(?:ice)?)?Kernel_(?P<what>[A-Za-z]+)", "{what} (NCCL)"),
        (r"\bcub::.*?Device(?P<plain>\w+?)Kernel", "{plain} (CUB)"),
        (r"vectorized_layer_norm_kernel", "layer_norm (ATen)"),
        (r"layer_norm_grad_input_kernel", "layer_norm backward (ATen)"),
        (r"GammaBetaBackward", "layer_norm backward of weights (ATen)"),
        (r"(?P<what>\w+_pool)_(?P<way>forward|backward)_(?:nchw|nhwc)", "{what} {way} (ATen)"),
        (r"embedding_backward_feature_kernel", "embedding backward (ATen)"),
        (r"indexSelect(?:Small|Large)Index", "index_select (ATen)"),
        (r"multi_tensor_apply_kernel<.*?FusedOptimizer", "fused optimizer (ATen)"),
        (r"multi_tensor_apply_kernel<", "foreach (ATen)"),
        (r"CatArrayBatchedCopy", "cat (ATen)"),
        (r"^triton_(?:poi|per|red|tem)_fused_(?P<what>\w+?)_\d+$", "{what} (Triton)"),
    )
]
"""Patterns of library kernels and the operation they compute; the first match counts."""


def _said(found: re.Match[str], said: str) -> str:
    """Fill a name with the pattern's matches; `kind`: the library's spelling of its type."""
    parts = {name: text for name, text in found.groupdict().items() if text}
    kind = parts.get("kind", "")
    named = next((name for mark, name in _INPUTS if mark in kind), _LETTERS.get(kind[:1], kind))
    own = {"type": named, "plain": _words(parts.get("plain", "")), "way": parts.get("way", "").lower()}
    return said.format(**{**parts, **own})


@lru_cache(maxsize=8192)
def short_name(kernel: str, limit: int = LIMIT) -> str:
    """Operation and library of a known kernel, else its name without types and arguments."""
    for pattern, said in _KNOWN:
        found = pattern.search(kernel)
        if found:
            return cut(_said(found, said), limit)
    aten = _ATEN.match(kernel)
    return cut(f"{_operation(kernel) or aten[1]} (ATen)" if aten else _bare(kernel), limit)


def _words(name: str) -> str:
    """ "GeluBackward" as "gelu backward"."""
    return re.sub(r"(?<=[a-z])(?<!Arg)(?=[A-Z])", " ", name).lower()


def _operation(kernel: str) -> str:
    found = next(filter(None, (re.search(pattern, kernel) for pattern in _OPERATION)), None)
    return _words(re.sub(r"_tensor_scalar$|^direct_|^b?float\d+_", "", found[1])) if found is not None else ""


def _bare(kernel: str) -> str:
    """Function name of a C++ kernel; any other name as it is."""
    return base_name(kernel) if re.match(r"^(void )?[\w:<>]+(<.*)?\(.*\)?$", kernel, re.S) else kernel


def short_names(kernels: Iterable[str], limit: int = LIMIT) -> Mapping[str, str]:
    """Short names of the kernels of one table; equal names are numbered."""
    found: dict[str, str] = {}
    seen: dict[str, int] = {}
    for kernel in dict.fromkeys(kernels):
        name = short_name(kernel, limit)
        seen[name] = seen.get(name, 0) + 1
        found[kernel] = name if seen[name] == 1 else f"{name} #{seen[name]}"
    return found


def names_of(rows: Sequence[Mapping[Any, Any]]) -> list[str]:
    """Short names of kernel rows, numbered per implementation as on its page."""
    own: dict[str, list[str]] = {}
    for row in rows:
        own.setdefault(str(row["impl"]), []).append(str(row["kernel"]))
    short = {impl: short_names(kernels) for impl, kernels in own.items()}
    return [short[str(row["impl"])][str(row["kernel"])] for row in rows]
