"""Modelled work of a task: FLOP by pipe, and compulsory bytes, from a run of the reference.

Matrix products, convolutions and attention use torch's FlopCounterMode formulas. Point-wise operations count one FLOP
per output element, reductions one per input element, normalisations and softmax `_PER_ELEMENT`. Moves, casts and
fills cost none. Bytes are compulsory: each input and parameter read once, each output written once, in whole sectors if
views skip elements.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from profkit.guest.operators import Watched
from profkit.guest.tensors.compare import leaves

_PER_ELEMENT = {
    "_softmax": 5,
    "_log_softmax": 5,
    "native_layer_norm": 8,
    "_fused_rms_norm": 4,
    "native_group_norm": 8,
    "native_batch_norm": 4,
    "_native_batch_norm_legit_no_training": 4,
    "cudnn_batch_norm": 4,
    "std": 4,
    "var": 4,
    "var_mean": 4,
    "logsumexp": 4,
    "norm": 2,
    "linalg_vector_norm": 2,
}
_REDUCTIONS = {
    *("sum", "mean", "amax", "amin", "max", "min", "prod", "cumsum", "cumprod", "argmax", "argmin", "any", "all"),
}
_FREE = {
    *("_to_copy", "copy", "copy_", "clone", "fill", "fill_", "zero_", "where", "alias", "detach", "lift_fresh"),
}
_TENSOR_PIPE = {torch.float16: "tensor_fp16", torch.bfloat16: "tensor_bf16", torch.int8: "tensor_int8"}
_NARROWED = {
    "tensor_fp16": (torch.float32,),
    "tensor_bf16": (torch.float32,),
    "tensor_fp8": (torch.float32, torch.float16, torch.bfloat16),
}
"""Narrower pipe allowed by the task -> wider types in the reference's products."""
# Point-wise kernels on half types compute in FP32.
_VECTOR_PIPE = {torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp32", torch.bfloat16: "fp32"}
SECTOR = 32
"""Smallest DRAM transfer [B], on every NVIDIA GPU since Maxwell."""

_FP64_TENSOR = {"8.0", "9.0", "10.0"}


class FlopModel(Watched):
    """Adds up FLOP by pipe over all operations inside. `matmul` and `vector` name the pipes."""

    def __init__(self, cc: str, narrow: str = "") -> None:
        """narrow: type allowed for products, if the reference uses a wider one."""
        super().__init__()
        self._narrow = f"tensor_{narrow}" if narrow and cc else ""
        self.flops: dict[str, float] = defaultdict(float)
        self.unknown: set[str] = set()
        self._cc = cc

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        out = func(*args, **keywords)
        self._count(func, args, keywords, out)
        return out

    def _count(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        packet = func._overloadpacket
        name = packet._qualified_op_name.split("::")[-1]
        if packet in flop_registry:
            kind = next((tensor.dtype for tensor in leaves(args)), None)
            self.flops[self._matmul_pipe(name, kind)] += flop_registry[packet](*args, **kwargs, out_val=out)
            if name == "addmm":
                self._add(out, out.numel())
        elif name in _FREE:
            return
        elif name in _PER_ELEMENT or name in _REDUCTIONS:
            first = next(iter(leaves(args)), None)
            if first is not None:
                self._add(first, first.numel() * _PER_ELEMENT.get(name, 1))
        elif torch.Tag.pointwise in func.tags:
            for leaf in leaves(out):
                self._add(leaf, leaf.numel())
        elif not func.is_view and name not in _SILENT:
            self.unknown.add(name)

    def _add(self, tensor: torch.Tensor, count: float) -> None:
        pipe = _VECTOR_PIPE.get(tensor.dtype)
        if pipe is not None:
            self.flops[pipe] += count

    def _matmul_pipe(self, name: str, dtype: torch.dtype | None) -> str:
        if dtype in _NARROWED.get(self._narrow, ()):
            return self._narrow
        if dtype is torch.float32:
            # torch's defaults: convolutions use TF32, products do not.
            backend = torch.backends.cudnn if "conv" in name else torch.backends.cuda.matmul
            tf32 = torch.cuda.is_available() and backend.allow_tf32 and self._cc
            return "tensor_tf32" if tf32 and float(self._cc) >= 8.0 else "fp32"
        if dtype is torch.float64:
            return "tensor_fp64" if self._cc in _FP64_TENSOR else "fp64"
        if not self._cc:
            return _VECTOR_PIPE.get(dtype, "fp32") if dtype else "fp32"
        if dtype is not None and "float8" in str(dtype):
            return "tensor_fp8"
        return _TENSOR_PIPE.get(dtype, "fp32") if dtype else "fp32"


_SILENT = {
    *("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided"),
    *("arange", "zeros", "ones", "full", "randn", "rand"),
    *("_unsafe_view", "_local_scalar_dense", "set_", "resize_", "cat", "stack", "index", "index_select", "gather"),
    *("embedding", "constant_pad_nd", "repeat", "flip", "roll"),
}


def modelled(model: torch.nn.Module, inputs: list[Any], cc: str, narrow: str = "") -> dict[str, Any]:
    """Run the reference once; returns {"source", "flops": {pipe: FLOP}, "bytes", "note"}."""
    with FlopModel(cc, narrow) as counter:
        output = model(*inputs)
    state = [*model.parameters(), *model.buffers()] if isinstance(model, torch.nn.Module) else []
    read = _bytes([*leaves(inputs), *state])
    written = _bytes(leaves(output))
    note = f"not in the FLOP model: {', '.join(sorted(counter.unknown))}" if counter.unknown else ""
    return {
        "source": "modelled",
        "flops": dict(counter.flops),
        "bytes": read + written,
        "read": read,
        "written": written,
        "note": note,
    }


def declared(module: ModuleType) -> dict[str, Any] | None:
    """The sample's own `get_work()` in the form of `modelled`; None without one.

    `get_work()` returns {"flops": {pipe: FLOP} or a number of FP32 FLOP, "bytes": bytes}.
    """
    if not hasattr(module, "get_work"):
        return None
    said = module.get_work()
    flops = said.get("flops", {})
    if isinstance(flops, (int, float)):
        flops = {"fp32": flops}
    return {
        "source": "declared",
        "flops": {k: float(v) for k, v in flops.items()},
        "bytes": float(said.get("bytes", math.nan)),
        "note": "get_work() of the reference",
    }


def _bytes(found: Iterable[torch.Tensor]) -> float:
    seen: dict[tuple[Any, ...], int] = {}
    for tensor in found:
        if tensor.layout is torch.strided:
            key = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
            seen[key] = _moved(tensor)
    return float(sum(seen.values()))


def _moved(tensor: torch.Tensor) -> int:
    """Bytes of a tensor's distinct elements, and of gaps smaller than a sector."""
    if not tensor.numel():
        return 0
    size = int(tensor.element_size())
    block, pieces, span = size, 1, size
    for step, count in sorted(
        (stride * size, n) for n, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride and n > 1
    ):
        span += step * (count - 1)
        if pieces == 1 and step - block < SECTOR:
            block += step * (count - 1)
        else:
            pieces *= count
    return block if pieces == 1 else min(span, pieces * -(-block // SECTOR) * SECTOR)
