"""Bytes, FLOP and pipe of a TensorRT layer, from --exportLayerInfo.

Modelled from shapes: each input, output, weight and bias once. The pipe follows from the tactic's name: an "fp32"
engine runs its convolutions on TF32 tensor cores by default.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_SIZES = (
    (r"INT64|DOUBLE|FP64", 8.0),
    (r"BF16|BFLOAT16|FP16|HALF|FLOAT16", 2.0),
    (r"FP8|FLOAT8|INT8|UINT8|BOOL|E4M3|E5M2", 1.0),
    (r"INT4|FP4|FLOAT4|E2M1", 0.5),
    (r"FP32|FLOAT|INT32", 4.0),
)
_TYPES = (  # of a tactic's operands; the first that is found names the tensor path
    ("e4m3|e5m2|fp8", "tensor_fp8"),
    ("tf32", "tensor_tf32"),
    ("bf16", "tensor_bf16"),
    ("i8i8|i8i32|int8|(?<![a-z0-9])[su]8(?![a-z0-9])|i8816|i16832|imma", "tensor_int8"),
    ("f16f16|f16f32|fp16|(?<![a-z0-9])f16(?![a-z0-9])|h884|h1688|h16816", "tensor_fp16"),
    ("f64f64", "tensor_fp64"),
)
_TENSOR = re.compile(r"tensor\d|tensorop|gmma|hmma|imma|[hs](?:884|1688|16816)|i(?:8816|16832)|xmma_warpspecialized")
_SCALAR = (("simt|scudnn|sgemm|_sconv|f32f32_f32f32", "fp32"), ("hcudnn|hgemm", "fp16"), ("dgemm|dcudnn", "fp64"))
_INTEGER = re.compile(r"icudnn|igemm|dp4a|int8x4|i8i8")
_FORMATS = (
    ("FP8|E4M3|E5M2", "tensor_fp8"),
    ("BF16|BFLOAT16", "tensor_bf16"),
    ("FP16|HALF", "tensor_fp16"),
    ("INT8", "tensor_int8"),
)


class Layer(NamedTuple):
    """A layer's modelled bytes read (with weights) and written [B] and FLOP; NaN unknown.

    compute: ceiling of its FLOP by its tactic, else by its formats, "" unknown. opaque: fused by Myelin.
    """

    name: str
    type: str = ""
    read: float = math.nan
    written: float = math.nan
    flop: float = math.nan
    compute: str = ""
    opaque: bool = False


def layer(info: Mapping[str, Any] | str) -> Layer:
    """A Layer from one entry of "Layers": an object, or a plain name without detailed verbosity."""
    if isinstance(info, str):
        return Layer(info, opaque="ForeignNode" in info)
    kind, name = str(info.get("LayerType", "")), str(info["Name"])
    if kind == "NoOp":
        return Layer(name, kind)
    return Layer(
        name,
        kind,
        _bytes(info.get("Inputs")) + _weights(info.get("Weights")) + _weights(info.get("Bias")),
        _bytes(info.get("Outputs")),
        flop(info),
        _compute(info, kind),
        "ForeignNode" in name or "myelin" in kind.lower(),
    )


def flop(info: Mapping[str, Any]) -> float:
    """2 * multiply-adds of a convolution, fully connected or matrix multiply; NaN for others."""
    kind = f"{info.get('ParameterType', '')} {info.get('LayerType', '')}".lower()
    inputs, outputs = _shapes(info.get("Inputs")), _shapes(info.get("Outputs"))
    count = _number((info.get("Weights") or {}).get("Count"))
    if not outputs or not _known(outputs[0]):
        return math.nan
    out = outputs[0]
    if "deconv" in kind:
        return 2.0 * _places(inputs[0]) * count if inputs and _known(inputs[0]) else math.nan
    if "convolution" in kind:
        return 2.0 * _places(out) * (count if count > 0 else _conv_weights(info, inputs))
    if "fullyconnected" in kind.replace(" ", ""):
        return 2.0 * _places(out) * count
    if "matrixmultiply" in kind or "matmul" in kind or "gemm" in kind.split():
        return _matmul(inputs, out)
    return math.nan


def element_size(text: str) -> float:
    """Bytes per element by "Format/Datatype" or a weights' Type; NaN if unknown."""
    return next((size for pattern, size in _SIZES if re.search(pattern, text, re.IGNORECASE)), math.nan)


def tactic_compute(tactic: str) -> str:
    """Ceiling of a tactic by its name; "" for an unknown one, and for dp4a, which has none."""
    name = tactic.lower()
    if not _TENSOR.search(name) or "simt" in name:
        if _INTEGER.search(name):
            return ""
        return next((compute for pattern, compute in _SCALAR if re.search(pattern, name)), "")
    return next((compute for pattern, compute in _TYPES if re.search(pattern, name)), "")


def _compute(info: Mapping[str, Any], kind: str) -> str:
    if info.get("TacticName"):
        return tactic_compute(str(info["TacticName"]))
    # Without a tactic only the library's matrix kernels are known to use tensor cores, depthwise never does.
    if not re.search(r"^(Cask|Cublas|gemm$)", kind, re.IGNORECASE) or "epthwise" in kind:
        return ""
    formats = [_format(one).upper() for one in (*(info.get("Inputs") or ()), *(info.get("Outputs") or ()))]
    alike = (compute for pattern, compute in _FORMATS if formats and all(re.search(pattern, one) for one in formats))
    return next(alike, "")


def _format(tensor: Mapping[str, Any]) -> str:
    return str(tensor.get("Format/Datatype") or tensor.get("Format") or "")


def _bytes(tensors: Any) -> float:
    """Bytes of all tensors; NaN if there is none or one is unknown."""
    sizes = [math.prod(one.get("Dimensions") or ()) * element_size(_format(one)) for one in tensors or ()]
    return sum(sizes) if sizes and all(_known(one.get("Dimensions")) for one in tensors) else math.nan


def _weights(info: Any) -> float:
    count = _number((info or {}).get("Count"))
    return count * element_size(str(info.get("Type", ""))) if count > 0 else 0.0


def _shapes(tensors: Any) -> list[list[int]]:
    return [list(one.get("Dimensions") or []) for one in tensors or ()]


def _known(dims: Any) -> bool:
    return isinstance(dims, list) and all(isinstance(size, int) and size >= 0 for size in dims)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan


def _places(dims: Sequence[int]) -> float:
    """Batch times spatial size: every dimension except the channels."""
    return float(dims[0] * math.prod(dims[2:])) if dims else math.nan


def _conv_weights(info: Mapping[str, Any], inputs: Sequence[Sequence[int]]) -> float:
    kernel, maps, groups = info.get("Kernel"), _number(info.get("OutMaps")), _number(info.get("Groups", 1))
    if not kernel or not inputs or len(inputs[0]) < 2:
        return math.nan
    return float(math.prod(kernel) * maps * inputs[0][1] / groups)


def _matmul(inputs: Sequence[Sequence[int]], out: Sequence[int]) -> float:
    """2 M N K batch, whichever operand is transposed: |A| |B| / |C| = batch K^2."""
    three = (*inputs[:2], out)
    if len(three) < 3 or not all(_known(dims) and len(dims) >= 2 for dims in three) or not math.prod(out):
        return math.nan
    batch = math.prod(out[:-2])
    if len({len(dims) for dims in three}) != 1 or any(math.prod(dims[:-2]) != batch for dims in inputs[:2]):
        return math.nan
    inner = math.sqrt(math.prod(inputs[0]) * math.prod(inputs[1]) / math.prod(out) / batch)
    return 2.0 * math.prod(out) * inner if inner == round(inner) else math.nan
