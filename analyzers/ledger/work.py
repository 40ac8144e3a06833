"""Least work of one call of an operation, by the shapes of its arguments.

Bytes are compulsory: every distinct input element read once, every output written once. FLOP are counted only for
products, convolutions and attention; all other operations are bound by bytes. Unknown parts are left out, so the
bound stays a lower bound.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from analyzers.kernels.names import UNKNOWN, stored_type, tensor_type
from analyzers.lower_bound import Work
from collectors.operations import BYTES, Operation, Tensor, parsed

POINTWISE, MOVING, OTHER = "pointwise", "moving", "other"


@dataclass(frozen=True)
class Need:
    """Work of a call, its kind, and the sizes that match it with its neighbours.

    `work`: None if the operation or its shapes are unknown; `output`: elements, 0 unknown; `inputs`: bytes by elements.
    `twice`: bytes of a second input that may be the first one.
    """

    kind: str = OTHER
    work: Work | None = None
    output: int = 0
    inputs: Sequence[tuple[int, float]] = ()
    twice: float = 0.0


@dataclass(frozen=True)
class _Call:
    """A call, and its kernel, which shows types missing in the call."""

    op: Operation
    tensors: list[Tensor]
    kernel: str

    def size(self, one: Tensor) -> float:
        """Bytes of an element; for a list by the kernel that works on it, NaN unknown."""
        if one.kind:
            return float(BYTES[one.kind])
        if plain := re.search(r"OpaqueType<(\d+)u?>", self.kernel):
            return float(plain[1])
        known = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "": 8.0 if "<double" in self.kernel else math.nan}
        return 4.0 if re.search(r"<float\b", self.kernel) else known.get(stored_type(self.kernel), math.nan)

    def bytes(self, several: Sequence[Tensor]) -> float:
        return sum(one.elements * self.size(one) for one in several)

    def made(self, kind: str, read: Sequence[Tensor], written: float, output: int = 0) -> Need:
        inputs = tuple((one.numel, one.elements * self.size(one)) for one in read)
        return Need(kind, Work({}, self.bytes(read) + written, "modelled", written), output, inputs)

    def product(self, found: Need, flops: float, kind: str) -> Need:
        """Put FLOP on the pipe of a type; for FP32 by the kernel's name."""
        told, work = tensor_type(self.kernel), found.work
        pipes = {"c10::BFloat16": "tensor_bf16", "c10::Half": "tensor_fp16", "double": "tensor_fp64"}
        pipes["float"] = f"tensor_{'tf32' if told == UNKNOWN else told}" if told else "fp32"
        pipes["signed char"] = "tensor_int8"
        pipe = pipes.get(kind, "tensor_fp8" if "Float8" in kind else "")
        if work is None or not pipe or math.isnan(flops):
            return found
        return replace(found, work=Work({pipe: flops}, work.bytes, "modelled", work.written))


_Model = Callable[[_Call], "Need | None"]


@lru_cache(maxsize=16384)
def need(operation: str, kernel: str) -> Need:
    """Least work of one call. kernel: its longest one on tensor cores, else its longest."""
    op = parsed(operation)
    model, tensors = _model(op.name), list(op.tensors())
    found = model(_Call(op, tensors, kernel)) if model is not None and tensors else None
    return Need(_kind(op.name)) if found is None or not found.work or math.isnan(found.work.bytes) else found


# ---- operations by name


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TRUE = _words("eq ne lt le gt ge isnan isinf isfinite logical_not logical_and logical_or logical_xor")
_SHAPED = _TRUE | _words(
    """abs acos asin atan ceil cos elu erf exp expm1 floor gelu hardsigmoid hardswish hardtanh leaky_relu log log1p log2 log10
    log_sigmoid mish neg pow reciprocal relu relu6 round rsqrt selu sigmoid sign silu sin softplus sqrt square tan tanh threshold
    trunc clamp clamp_min clamp_max bitwise_not cumsum cumprod native_dropout triu tril add sub rsub mul div remainder fmod
    maximum minimum atan2 lerp addcmul addcdiv masked_fill bitwise_and bitwise_or bitwise_xor where gelu_backward silu_backward
    sigmoid_backward tanh_backward threshold_backward hardtanh_backward hardswish_backward leaky_relu_backward elu_backward
    native_dropout_backward masked_scale _softmax_backward_data _log_softmax_backward_data mse_loss_backward"""
)
"""The output has the broadcast shape of the inputs."""
_LARGEST = re.compile(
    r"(native_layer|_fused_rms|native_group|(native|cudnn|miopen)_batch)_norm(_backward)?|_(log_)?softmax"
)
"""The output has the shape of the largest input."""
_ONCE = re.compile(
    r"(sum|mean|a?max|a?min|arg(max|min)|all|any|prod|norm|linalg_vector_norm|(var|std)(_mean)?|logsumexp|topk|sort|count_nonzero"
    r"|max_pool2d_with_indices|_adaptive_avg_pool2d|avg_pool2d|mse_loss"
    r"|(_C|sgl_kernel|aiter)::(rms_?norm|(silu|gelu|gelu_tanh)_and_mul|static_scaled_\w+_quant))"
    r"|triton_(poi|per|red)_fused(?!.*(index|embedding|gather|slice|split|select|cat|pad|scatter|roll|fold|strided|chunk)).*"
)
"""Arguments once, given outputs included; a named fused kernel may skip elements of its arguments."""
_PLACED: dict[str, tuple[Sequence[int], Sequence[int]]] = {
    "max_pool2d_with_indices_backward": ((0, 2), (1,)),
    "_C::fused_add_rms_norm": ((0, 1, 2), (0, 1)),
    "fill_": ((), (0,)),
    "zero_": ((), (0,)),
}
"""Indices of tensors that are read, and that outputs resemble."""


def _kind(name: str) -> str:
    short = name.removeprefix("aten::")
    if short in ("copy_", "cat", "fill_", "zero_"):
        return MOVING
    # A softmax between two products is fused with them as attention.
    fusable = short == "_softmax" or (short.removesuffix("_") in _SHAPED and not re.match("_|cum", short))
    return POINTWISE if fusable else OTHER


def _model(name: str) -> _Model | None:
    short = name.removeprefix("aten::")
    if short in _MODELS:
        return _MODELS[short]
    if re.fullmatch(r"_foreach_\w+|_fused_(adam|adamw|sgd)_", short):
        return _listwise
    if "attention" in short or "flash_attn" in short:
        return _attention if re.match("aten::|flash_attn", name) else None
    if "convolution" in short:
        return _convolution if "transpose" not in short else None
    if short.removesuffix("_") in _SHAPED or _LARGEST.fullmatch(short):
        return _pointwise
    return _placed if short in _PLACED else _once if _ONCE.fullmatch(short) else None


# ---- models


def _pointwise(call: _Call) -> Need | None:
    """Read every input, write their broadcast shape; scalars do not widen the type."""
    shaped = [one for one in call.tensors if one.dims] or call.tensors
    short = call.op.short
    rank = max(len(one.dims) for one in shaped)
    sizes = zip(*((1,) * (rank - len(one.dims)) + one.dims for one in shaped), strict=True)
    count = math.prod(0 if 0 in each else max(each) for each in sizes)
    if _LARGEST.fullmatch(short):
        count = max(one.numel for one in shaped)
    floating = [one for one in shaped if re.search("[Ff]loat|Half|double", one.kind)]
    size = 1.0 if short.removesuffix("_") in _TRUE else max(map(call.size, floating or shaped))
    if short.endswith("softmax") and call.op.value(2) == "True":
        size = 4.0  # half to float
    if short.endswith("_"):
        count, size = call.tensors[0].numel, call.size(call.tensors[0])
    written = count * (size + (short == "native_dropout"))
    alike = [one for one in shaped[1:] if one[1:3] == shaped[0][1:3]]
    return replace(call.made(_kind(call.op.name), shaped, written, count), twice=call.bytes(alike))


def _once(call: _Call) -> Need | None:
    return call.made(POINTWISE if "_poi_" in call.op.name else OTHER, call.tensors, 0.0)


def _placed(call: _Call) -> Need | None:
    reads, writes = _PLACED[call.op.short]
    if len(call.tensors) <= max(*reads, *writes, 0):
        return None
    out = [call.tensors[at] for at in writes]
    return call.made(_kind(call.op.name), [call.tensors[at] for at in reads], call.bytes(out), out[0].numel)


def _copy(call: _Call) -> Need | None:
    if len(call.tensors) < 2:
        return None
    into, source = call.tensors[:2]
    return call.made(MOVING if into.kind == source.kind else POINTWISE, [source], call.bytes([into]), into.numel)


def _cat(call: _Call) -> Need | None:
    return call.made(MOVING, call.tensors, call.bytes(call.tensors), sum(one.numel for one in call.tensors))


def _rows(call: _Call) -> Need | None:
    """Rows from a table; reads may repeat, so only the written bytes are certain."""
    if len(call.tensors) < 2:
        return None
    table, index = call.tensors[0], call.tensors[1]
    axis = (call.op.ints(1) or [0])[0] if call.op.short == "index_select" else 0
    row = table.numel // max(table.dims[axis], 1)
    return call.made(OTHER, [index], index.numel * row * call.size(table), index.numel * row)


def _listwise(call: _Call) -> Need | None:
    """Read lists of tensors; write Adam's three, others' first list, or nothing (norm)."""
    lists: dict[int, list[Tensor]] = {}
    for one in call.tensors:
        if not one.kind:
            lists.setdefault(one.at, []).append(one)
    each = [call.bytes(part) for part in lists.values()]
    adam = [*each[:1], *each[2:4]] if call.op.short.startswith("_fused_adam") else each[:1]
    written = 0.0 if "norm" in call.op.short else sum(adam)
    return call.made(OTHER, [one for part in lists.values() for one in part], written)


def _product(call: _Call) -> Need | None:
    """A matrix product, batched or not, with or without an addend."""
    added = call.tensors[: call.op.short in ("addmm", "baddbmm", "_addmm_activation")]
    pair = [one for one in call.tensors[len(added) :] if len(one.dims) in (2, 3)][:2]
    if len(pair) < 2 or pair[0].dims[-1] != pair[1].dims[-2]:
        return None
    count = pair[0].numel // pair[0].dims[-1] * pair[1].dims[-1]
    size = call.size(pair[0])
    if call.op.short == "_scaled_mm":
        size = {"15": 2.0, "5": 2.0, "6": 4.0}.get(call.op.value(6), 1.0)
    found = call.made(OTHER, [*added, *pair], count * size, count)
    return call.product(found, 2.0 * count * pair[0].dims[-1], pair[0].kind)


_CAUSAL = {
    "scaled_dot_product_attention": 5,
    "_scaled_dot_product_flash_attention": 4,
    "_scaled_dot_product_efficient_attention": 6,
    "_scaled_dot_product_cudnn_attention": 6,
    "_cudnn_attention_forward": 10,
    "_flash_attention_forward": 8,
    "_flash_attention_backward": 11,
    "_efficient_attention_forward": 9,
    "_efficient_attention_backward": 12,
}
"""Argument that marks a causal call; for the efficient one a kind of mask, 0 for none."""


def _attention(call: _Call) -> Need | None:
    """softmax(Q K^T) V over heads; backward has five products. Packed lengths: bytes only."""
    back = "backward" in call.op.short
    parts = [one for one in call.tensors if len(one.dims) in (3, 4) and call.size(one) > 1]
    if len(parts) < 3 + 2 * back:
        return None
    query, key, value = parts[back : back + 3]
    output = query.numel // query.dims[-1] * value.dims[-1]
    read = [query, key, value, *([parts[0], parts[4]] if back else [])]
    written = call.bytes([query, key, value]) if back else output * call.size(query)
    found = call.made(OTHER, read, written, output)
    if len(query.dims) != 4 or len(key.dims) != 4:
        return found
    at = 2 if "scaled_dot_product" in call.op.short else 1
    rows, columns = query.dims[at], key.dims[at]
    pairs = {"False": float(rows * columns), "0": float(rows * columns)}
    # Bottom right or top left: at least the pairs that either of them has.
    pairs |= dict.fromkeys(("True", "1", "2"), float(sum(min(columns, row + 1) for row in range(rows))))
    known = pairs.get(call.op.value(_CAUSAL.get(call.op.short, 99)), math.nan)
    heads = query.numel // query.dims[-1] // max(rows, 1)
    return call.product(found, (5 if back else 2) * heads * known * (query.dims[-1] + value.dims[-1]), query.kind)


def _convolution(call: _Call) -> Need | None:
    """Convolution; bytes only for Winograd and FFT; taps in the padding do not count."""
    op, back = call.op, call.op.short == "convolution_backward"
    place = 4 if back else 2 if op.short == "cudnn_convolution" else 3
    order = (1, 0, 2) if re.match("cudnn|miopen|mkldnn", op.short) else (0, 1, 2)
    steps, pads, gaps = (op.ints(place + at) or [fill] for at, fill in zip(order, (0, 0, 1), strict=True))
    if len(call.tensors) < 2 + back or not steps[0] or (back and op.value(7) == "True"):
        return None
    image, weight = call.tensors[back : back + 2]
    taps, seen, outs = 1, 1, 1
    for axis, (size, width) in enumerate(zip(image.dims[2:], weight.dims[2:], strict=False)):
        step, pad, gap = (one[axis % len(one)] for one in (steps, pads, gaps))
        count = max(0, (size + 2 * pad - gap * (width - 1) - 1) // step + 1)
        places = (out * step - pad + tap * gap for out in range(count) for tap in range(width))
        inside = [at for at in places if 0 <= at < size]
        taps, seen, outs = taps * len(inside), seen * len(set(inside)), outs * count
    output = image.dims[0] * weight.dims[0] * outs
    used = Tensor(image.at, image.kind, (*image.dims[:2], seen))
    sides: list[tuple[tuple[Tensor, ...], float]] = [((used, weight), output * call.size(image))]
    if back:
        both = [((weight,), call.bytes([image])), ((used,), call.bytes([weight]))]
        asked = re.findall("True|False", op.value(10))
        sides = [one for one, said in zip(both, asked, strict=False) if said == "True"]
    read = [*call.tensors[:back], *(one for reads, _ in sides for one in reads)]
    found = call.made(OTHER, read, sum(written for _, written in sides), 0 if back else output)
    flops = 2.0 * image.dims[0] * weight.dims[0] * weight.dims[1] * taps * len(sides)
    return found if re.search(r"winograd|fft", call.kernel, re.IGNORECASE) else call.product(found, flops, image.kind)


_MODELS: dict[str, _Model] = {
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm", "_addmm_activation", "_scaled_mm"), _product),
    **dict.fromkeys(("embedding", "index_select"), _rows),
    "copy_": _copy,
    "cat": _cat,
}
