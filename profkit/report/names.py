"""Kernels' names as people say them: "gelu (ATen)", "bf16 GEMM 256x128 (cuBLAS)". The full one is in kernels.csv."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from profkit.report.layout import cut

LIMIT = 60
_ATEN = re.compile(r"^(?:void )?(?:at::(?:native::)?)?(?:\w+_)?(elementwise|reduce)_kernel<")
_OPERATION = (
    (r"\b(\w+?)_?(?:kernel_)?(?:cuda_kernel|kernel_cuda|kernel_impl|CUDAKernelImpl)(?=[<(])", 1),
    (r"\b(\w+?)_cuda_kernel\b", 1),
    (r"\blaunch_(\w+?)_scalar\b", 1),
    (r"\bCUDAFunctor(?:OnSelf|OnOther)?_(\w+)", 1),
    (r"\b(?!gpu_)(\w+?)_kernel(?=\(at::TensorIter)", 1),
    # A tool may have cut the name.
    (r"\b(Mul|Div|Add|Sub|Fill|Fmod|Compare|Bitwise\w+?)Funct", 1),
    (r"\b(Mean|Norm|Welford|Min|Max|ArgMin|ArgMax|Std)(?:NanPropagate)?Ops\b", 1),
    (r"\b(sum|prod|and|or|xor)_functor\b", 1),
)
"""What an elementwise or reducing kernel of ATen computes stands in its template arguments."""


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


def _gemm(kind: str, tile: str, library: str) -> str:
    """`kind`: how the library spells the type it multiplies in: bf16, s1688, a letter of BLAS."""
    named = next((name for mark, name in _INPUTS if mark in kind), _LETTERS.get(kind[:1], kind))
    return f"{named} GEMM {tile} ({library})"


_Say = Callable[[re.Match[str]], str]
_KNOWN: Sequence[tuple[re.Pattern[str], _Say]] = (
    (
        re.compile(r"nvjet_(?:sm\d+_)?(?P<kind>[a-z])[a-z]+_(?P<tile>\d+x\d+)_"),
        lambda m: _gemm(m["kind"], m["tile"], "cuBLAS"),
    ),
    # f32f32_tf32f32_f32: in what it multiplies comes second.
    (
        re.compile(
            r"sm\d+_xmma_gemm_[a-z0-9]+_(?P<kind>bf16|tf32|f16|f32|f64|e4m3|e5m2|i8)\w*_tilesize(?P<tile>\d+x\d+)"
        ),
        lambda m: _gemm(m["kind"], m["tile"], "cuBLAS"),
    ),
    (
        re.compile(r"cutlass_\d+_(?:simt|tensorop|wmma_tensorop)_(?P<kind>\w*?gemm\w*?)_(?P<tile>\d+x\d+)_"),
        lambda m: _gemm(m["kind"], m["tile"], "CUTLASS"),
    ),
    (
        re.compile(r"^(?:maxwell|volta|turing|ampere|hopper)_(?P<kind>\w*?gemm\w*?)_(?P<tile>\d+x\d+)"),
        lambda m: _gemm(m["kind"], m["tile"], "cuBLAS"),
    ),
    (
        re.compile(
            r"cutlass_(?:simt|tensorop)_(?:[a-z]\d+)?(?P<way>fprop|dgrad|wgrad)_\w*?(?P<kind>bf16|tf32|f16|f32|f64)_(?P<tile>\d+x\d+)_"
        ),
        lambda m: _gemm(m["kind"], m["tile"], "CUTLASS").replace("GEMM", f"convolution {m['way']}"),
    ),
    (
        re.compile(r"cutlass\w*?(?:::|\d+)conv\b.*ImplicitGemmConvolution|^_ZN\d+cutlass\w*ImplicitGemmConvolution"),
        lambda m: "convolution (CUTLASS)",
    ),
    (re.compile(r"cutlass\w*::reduction::kernel::ReduceSplitK"), lambda m: "sum of split K (CUTLASS)"),
    (re.compile(r"\w*cudnn::(?P<what>init_device_workspace)_kernel"), lambda m: f"{m['what']} (cuDNN)"),
    (re.compile(r"cublasLt::splitKreduce_kernel"), lambda m: "sum of split K (cuBLAS)"),
    (re.compile(r"cudnn\w*_sdpa_\w*?(?P<way>fprop|bprop)"), lambda m: f"attention {m['way']} (cuDNN)"),
    (re.compile(r"flash_(?P<way>fwd|bwd)_\w*kernel"), lambda m: f"flash attention {m['way']} (ATen)"),
    (re.compile(r"cunn_SoftMax(?P<way>Forward|Backward)"), lambda m: f"softmax {m['way'].lower()} (ATen)"),
    (re.compile(r"softmax_warp_(?P<way>forward|backward)"), lambda m: f"softmax {m['way']} (ATen)"),
    (
        re.compile(
            r"sm\d+_xmma_(?P<way>fprop|dgrad|wgrad)_\w*?implicit_gemm_(?:indexed_(?:wo_smem_)?)?[a-z0-9]+_(?P<kind>bf16|tf32|f16|f32|f64|e4m3|e5m2|i8)\w*"
            r"_tilesize(?P<tile>\d+x\d+)"
        ),
        lambda m: _gemm(m["kind"], m["tile"], "cuDNN").replace("GEMM", f"convolution {m['way']}"),
    ),
    (re.compile(r"cudnn::bn_bw_"), lambda m: "batch norm backward (cuDNN)"),
    (re.compile(r"cudnn::bn_fw_"), lambda m: "batch norm forward (cuDNN)"),
    (
        re.compile(r"cudnn::\w*?(?:::)?(?P<old>nchw|nhwc)To(?P<new>Nchw|Nhwc)Kernel"),
        lambda m: f"{m['old'].upper()} to {m['new'].upper()} (cuDNN)",
    ),
    (
        re.compile(r"ncclDev(?:ice)?Kernel_(?P<what>[A-Za-z]+)|ncclKernel_(?P<old>[A-Za-z]+)"),
        lambda m: f"{m['what'] or m['old']} (NCCL)",
    ),
    (re.compile(r"\bcub::.*?Device(?P<what>\w+?)Kernel"), lambda m: f"{_words(m['what'])} (CUB)"),
    (re.compile(r"vectorized_layer_norm_kernel"), lambda m: "layer_norm (ATen)"),
    (re.compile(r"layer_norm_grad_input_kernel"), lambda m: "layer_norm backward (ATen)"),
    (re.compile(r"GammaBetaBackward"), lambda m: "layer_norm backward of weights (ATen)"),
    (
        re.compile(r"(?P<what>\w+_pool)_(?P<way>forward|backward)_(?:nchw|nhwc)"),
        lambda m: f"{m['what']} {m['way']} (ATen)",
    ),
    (re.compile(r"embedding_backward_feature_kernel"), lambda m: "embedding backward (ATen)"),
    (re.compile(r"indexSelect(?:Small|Large)Index"), lambda m: "index_select (ATen)"),
    (re.compile(r"multi_tensor_apply_kernel<.*?FusedOptimizer"), lambda m: "fused optimizer (ATen)"),
    (re.compile(r"multi_tensor_apply_kernel<"), lambda m: "foreach (ATen)"),
    (re.compile(r"CatArrayBatchedCopy"), lambda m: "cat (ATen)"),
    (re.compile(r"^triton_(?:poi|per|red|tem)_fused_(?P<what>\w+?)_\d+$"), lambda m: f"{m['what']} (Triton)"),
)


@lru_cache(maxsize=8192)
def short_name(kernel: str, limit: int = LIMIT) -> str:
    """What a kernel of a known library computes, and whose it is; of others the name without types and arguments."""
    for pattern, said in _KNOWN:
        found = pattern.search(kernel)
        if found:
            return cut(said(found), limit)
    aten = _ATEN.match(kernel)
    return cut(f"{_operation(kernel) or aten[1]} (ATen)" if aten else _bare(kernel), limit)


def _words(name: str) -> str:
    """ "GeluBackward" as "gelu backward"."""
    return re.sub(r"(?<=[a-z])(?<!Arg)(?=[A-Z])", " ", name).lower()


def _operation(kernel: str) -> str:
    for pattern, group in _OPERATION:
        found = re.search(pattern, kernel)
        if found:
            return _words(re.sub(r"_tensor_scalar$|^direct_|^b?float\d+_", "", found[group]))
    return ""


def _bare(kernel: str) -> str:
    """Without return type, namespaces, template arguments and parameters; a name that is none of C++'s as it is."""
    text, depth = [], 0
    if not re.match(r"^(void )?[\w:<>]+(<.*)?\(.*\)?$", kernel, re.S):
        return kernel
    for letter in kernel.removeprefix("void ").replace("<unnamed>::", "").replace("(anonymous namespace)::", ""):
        depth += letter in "<("
        text.append(letter if not depth else "")
        depth -= letter in ">)"
    return "".join(text).strip().rsplit("::", 1)[-1] or kernel


def short_names(kernels: Iterable[str], limit: int = LIMIT) -> Mapping[str, str]:
    """Short names of the kernels of one table, told apart by a number where two would read the same."""
    found: dict[str, str] = {}
    seen: dict[str, int] = {}
    for kernel in dict.fromkeys(kernels):
        name = short_name(kernel, limit)
        seen[name] = seen.get(name, 0) + 1
        found[kernel] = name if seen[name] == 1 else f"{name} #{seen[name]}"
    return found
