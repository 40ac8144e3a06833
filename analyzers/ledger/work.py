"""The least that one call of an operation must do, from the shapes it was called with.

Bytes are compulsory: every distinct element of the inputs in once, every output out once. FLOP are counted for products,
convolutions and attention alone: what else there is never takes longer than its bytes. What is not known is left out of
the bound, so that it stays one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from analyzers.kernels.names import UNKNOWN, stored_type, tensor_type
from analyzers.lower_bound import Work
from collectors.operations import BYTES, Operation, moved, parsed

POINTWISE, MOVING, PRODUCT, OTHER = "pointwise", "moving", "product", "other"


@dataclass(frozen=True)
class Need:
    """What a call needs: `work` (None where the operation or its shapes are not known), its `kind`, and sizes by which it is
    fitted to its neighbours: elements of its `output` (0 unknown) and bytes of each of its `inputs` by elements.

    `twice`: bytes counted for a second input that may be the first one.
    """

    kind: str = OTHER
    work: Work | None = None
    output: int = 0
    inputs: Sequence[tuple[int, float]] = field(default=())
    twice: float = 0.0


@dataclass(frozen=True)
class _Tensor:
    at: int
    kind: str
    dims: tuple[int, ...]
    elements: int
    size: float

    @property
    def bytes(self) -> float:
        return self.elements * self.size

    @property
    def numel(self) -> int:
        return math.prod(self.dims)


_Model = Callable[[Operation, "list[_Tensor]", str], "Need | None"]


@lru_cache(maxsize=16384)
def need(operation: str, kernel: str) -> Need:
    """What a call of an operation (`op` of a launches frame) needs; kernel: its longest, which tells types that it does not."""
    op = parsed(operation)
    model = _model(op.name)
    if not op.shaped or model is None:
        return Need(_kind(op.name))
    listed = _listed_size(kernel)
    tensors = [
        _Tensor(at, kind, dims, moved(dims, steps), float(BYTES.get(kind, listed)))
        for at, kind, dims, steps in op.tensors()
    ]
    found = model(op, tensors, kernel) if tensors else None
    return Need(_kind(op.name)) if found is None or not found.work or math.isnan(found.work.bytes) else found


def _listed_size(kernel: str) -> float:
    """Bytes of an element of a list of tensors, by the kernel that works on it; NaN unknown."""
    if plain := re.search(r"OpaqueType<(\d+)u?>", kernel):
        return float(plain[1])
    if kind := stored_type(kernel):
        return {"bf16": 2.0, "fp16": 2.0}.get(kind, 1.0)
    return 8.0 if "<double" in kernel else 4.0 if re.search(r"<float\b", kernel) else math.nan


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
"""An output as large as what the inputs broadcast to."""
_LARGEST = _words(
    """native_layer_norm _fused_rms_norm native_group_norm native_batch_norm cudnn_batch_norm miopen_batch_norm _softmax _log_softmax
    native_layer_norm_backward _fused_rms_norm_backward native_group_norm_backward native_batch_norm_backward
    cudnn_batch_norm_backward miopen_batch_norm_backward"""
)
"""An output as large as the largest input."""
_READING = _words(
    """sum mean amax amin max min argmax argmin all any prod norm linalg_vector_norm var std var_mean std_mean logsumexp topk sort
    count_nonzero max_pool2d_with_indices _adaptive_avg_pool2d avg_pool2d mse_loss"""
)
_ALL_ONCE = re.compile(r"_C::(?:rms_norm|silu_and_mul|gelu_and_mul|gelu_tanh_and_mul|static_scaled_\w+_quant)$")
_INDUCTOR = re.compile(r"triton_(?:poi|per|red)_fused")
_PARTLY = re.compile(r"index|embedding|gather|slice|split|select|cat|pad|scatter|roll|unfold|as_strided|chunk|narrow")
"""Parts of a fused kernel's name that say that it may leave out elements of its arguments."""
_PLACED: dict[str, tuple[Sequence[int], Sequence[int]]] = {
    "nll_loss_backward": ((), (1,)),
    "max_pool2d_with_indices_backward": ((0, 2), (1,)),
    "_C::fused_add_rms_norm": ((0, 1, 2), (0, 1)),
    "fill_": ((), (0,)),
    "zero_": ((), (0,)),
}
"""Which of the tensors are read, and as which the outputs are."""


def _kind(name: str) -> str:
    short = name.removeprefix("aten::")
    if short in ("copy_", "cat", "fill_", "zero_"):
        return MOVING
    return POINTWISE if short.removesuffix("_") in _SHAPED and not re.match("_|cum", short) else OTHER


def _model(name: str) -> _Model | None:
    short = name.removeprefix("aten::")
    if short in _MODELS:
        return _MODELS[short]
    if short.startswith("_foreach_") or re.fullmatch(r"_fused_(?:adam|adamw|sgd)_", short):
        return _listwise
    if "attention" in short or "flash_attn" in short:
        return _attention
    if "convolution" in short and "transpose" not in short:
        return _convolution
    if short.removesuffix("_") in _SHAPED or short in _LARGEST:
        return _pointwise
    if short in _READING or _ALL_ONCE.match(name) or (_INDUCTOR.match(name) and not _PARTLY.search(name)):
        return _reading
    return _placed if short in _PLACED else None


# ---- models


def _made(kind: str, read: Sequence[_Tensor], written: float, output: int = 0, twice: float = 0.0) -> Need:
    work = Work({}, sum(one.bytes for one in read) + written, "modelled", written)
    return Need(kind, work, output, tuple((one.numel, one.bytes) for one in read), twice)


def _pointwise(op: Operation, tensors: list[_Tensor], kernel: str) -> Need | None:
    """Every input in, an output of their common shape out. Numbers in a tensor of no dimension do not widen the type."""
    shaped = [one for one in tensors if one.dims] or tensors
    short = op.short
    if short in _LARGEST:
        dims = max((one.dims for one in shaped), key=math.prod)
    else:
        dims = _broadcast([one.dims for one in shaped])
    floating = [one for one in shaped if one.kind == "double" or "loat" in one.kind or one.kind == "c10::Half"]
    size = max(one.size for one in floating or shaped)
    if short.endswith("softmax") and op.value(2) == "True":
        size = 4.0  # half to float
    if short.removesuffix("_") in _TRUE:
        size = 1.0
    if short.endswith("_") and not short.startswith("_"):
        dims, size = tensors[0].dims, tensors[0].size
    extra = math.prod(dims) if short == "native_dropout" else 0
    first, *others = shaped
    alike = [one for one in others if one.dims == first.dims and one.kind == first.kind]
    return _made(_kind(op.name), shaped, math.prod(dims) * size + extra, math.prod(dims), sum(o.bytes for o in alike))


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(one)) + one for one in shapes]
    return tuple(0 if 0 in sizes else max(sizes) for sizes in zip(*padded, strict=True))


def _reading(op: Operation, tensors: list[_Tensor], kernel: str) -> Need | None:
    """Arguments once, outputs that are given included; others are small."""
    return _made(POINTWISE if "_poi_" in op.name else OTHER, tensors, 0.0)


def _placed(op: Operation, tensors: list[_Tensor], kernel: str) -> Need | None:
    reads, writes = _PLACED[op.short]
    if len(tensors) <= max(*reads, *writes, 0):
        return None
    out = [tensors[at] for at in writes]
    return _made(_kind(op.name), [tensors[at] for at in reads], sum(one.bytes for one in out), out[0].numel)


def _copy(op: Operation, tensors: list[_Tensor], kernel: str) -> Need | None:
    if len(tensors) < 2:
        return None
    into, source = tensors[:2]
    read = _Tensor(1, source.kind, source.dims, min(source.elements, into.elements), source.size)
    kind = MOVING if into.kind == source.kind else POINTWISE
    return _made(kind, [read], into.elements * into.size, into.numel)


def _cat(op: Operation, tensors: list[_Tensor], kernel: str) -> Need | None:
    return _made(MOVING, tensors, sum(one.bytes for one in tensors), sum(one.numel for one in tensors))


def _rows(op: Operation, tensors: list[_Tensor], kernel: str) -> Need | None:
    """Rows picked from a table: the same one may be read again and again, so that only what is written is sure."""
    if len(tensors) < 2:
        return None
    table, index = tensors[0], tensors[-1] if op.short != "gather" else tensors[1]
    if op.short == "gather":
        count = index.numel
    elif op.short == "index_select":
        axis = (op.ints(1) or [0])[0]
        count = index.numel * table.numel // max(table.dims[axis], 1)
    else:
        count = index.numel * table.dims[-1]
    return _made(OTHER, [index], count * table.size, count)


def _embedding_backward(op: Operation, tensors: list[_Tensor], kernel: str) -> Need | None:
    grad, rows = tensors[0], (op.ints(2) or [0])[0]
    return _made(OTHER, tensors[:2], rows * grad.dims[-1] * grad.size)


def _listwise(op: Operation, tensors: list[_Tensor], kernel: str) -> Need | None:
    """Lists of tensors in; of optimizers three lists out, of others the first, of a norm nothing."""
    lists: dict[int, list[_Tensor]] = {}
    for one in tensors:
        if not one.kind:
            lists.setdefault(one.at, []).append(one)
    each = [sum(one.bytes for one in part) for part in lists.values()]
    if op.short.startswith("_fused_adam"):
        written = each[0] + sum(each[2:4])
    else:
        written = 0.0 if "norm" in op.short else sum(each[:1])
    read = [one for part in lists.values() for one in part]
    return _made(OTHER, read, written)


def _product(op: Operation, tensors: list[_Tensor], kernel: str) -> Need | None:
    """A matrix product, batched or not, with or without what is added."""
    added = tensors[:1] if op.short in ("addmm", "baddbmm", "_addmm_activation", "addbmm") else []
    pair = [one for one in tensors[len(added) :] if len(one.dims) in (2, 3)][:2]
    if len(pair) < 2 or pair[0].dims[-1] != pair[1].dims[-2]:
        return None
    (*_, rows, inner), columns = pair[0].dims, pair[1].dims[-1]
    batch = math.prod(pair[0].dims[:-2])
    size = pair[0].size if op.short != "_scaled_mm" else {"15": 2.0, "5": 2.0, "6": 4.0}.get(op.value(6), 1.0)
    count = batch * rows * columns
    found = _made(PRODUCT, [*added, *pair], count * size, count)
    return _with_flops(found, 2.0 * count * inner, pair[0].kind, kernel)


def _with_flops(found: Need, flops: float, kind: str, kernel: str) -> Need:
    pipe = _pipe(kind, kernel)
    work = found.work
    if work is None or not pipe or math.isnan(flops):
        return found
    return Need(found.kind, Work({pipe: flops}, work.bytes, "modelled", work.written), found.output, found.inputs)


def _pipe(kind: str, kernel: str) -> str:
    """The pipe that products of a type use; of FP32 the kernel's name decides, "" for a type with none."""
    if kind == "float":
        told = tensor_type(kernel)
        return "fp32" if not told else f"tensor_{'tf32' if told == UNKNOWN else told}"
    known = {"c10::BFloat16": "tensor_bf16", "c10::Half": "tensor_fp16", "double": "tensor_fp64"}
    return known.get(kind, "tensor_fp8" if "Float8" in kind else "tensor_int8" if kind == "signed char" else "")


def _attention(op: Operation, tensors: list[_Tensor], kernel: str) -> Need | None:
    """softmax(Q K^T) V over heads; backward five products in the place of two. Of packed lengths only the bytes are known."""
    back = "backward" in op.short
    four = [one for one in tensors if len(one.dims) in (3, 4) and one.kind in ("c10::BFloat16", "c10::Half", "float")]
    first = 1 if back else 0
    if op.name.startswith(("vllm::", "sglang::", "aiter::")) or len(four) < first + 3:
        return None
    query, key, value = four[first : first + 3]
    heads_first = "scaled_dot_product" in op.short
    read = four[: first + 3] + (four[4:5] if back else [])
    written = sum(one.bytes for one in (query, key, value)) if back else query.numel * query.size
    output = query.numel if len(query.dims) < 4 else query.numel // query.dims[-1] * value.dims[-1]
    found = _made(PRODUCT, read, written if back else output * query.size, output)
    if len(query.dims) != 4 or len(key.dims) != 4:
        return found
    batch, heads, rows, width = query.dims if heads_first else [query.dims[at] for at in (0, 2, 1, 3)]
    columns = key.dims[2] if heads_first else key.dims[1]
    causal = _causal(op)
    pairs = float(rows * columns)
    if causal != "False":
        # Bottom right or top left, or not known: at least the pairs that any of them has.
        pairs = sum(min(columns, row + 1) for row in range(rows)) if causal == "True" else math.nan
    flops = 2.0 * batch * heads * pairs * (width + value.dims[-1]) * (2.5 if back else 1.0)
    return _with_flops(found, flops, query.kind, kernel)


_CAUSAL = {
    "scaled_dot_product_attention": 5,
    "_scaled_dot_product_flash_attention": 4,
    "_scaled_dot_product_efficient_attention": 6,
    "_scaled_dot_product_cudnn_attention": 6,
    "_cudnn_attention_forward": 10,
    "_flash_attention_forward": 8,
    "_flash_attention_backward": 11,
}


def _causal(op: Operation) -> str:
    """ "True", "False", or "" where the call does not say; a window of keys is not known either."""
    if "efficient_attention_" in op.short:
        mask = op.value(9) if op.short.endswith("forward") else op.value(12)
        return {"0": "False", "1": "True", "2": "True"}.get(mask, "")
    return op.value(_CAUSAL[op.short]) if op.short in _CAUSAL else ""


_PLACES = {"convolution_backward": 4, "cudnn_convolution": 2, "miopen_convolution": 3, "mkldnn_convolution": 3}
"""Where stride, padding and dilation begin; cuDNN and others tell padding first."""


def _convolution(op: Operation, tensors: list[_Tensor], kernel: str) -> Need | None:
    """Taps inside the image alone; Winograd and Fourier need fewer FLOP, so that of them the bytes are known."""
    back = op.short == "convolution_backward"
    if len(tensors) < 2 + back:
        return None
    image, weight = tensors[1:3] if back else tensors[:2]
    place = _PLACES.get(op.short, 3)
    steps, pads, gaps = (op.ints(place + at) for at in range(3))
    if op.short in ("cudnn_convolution", "miopen_convolution", "mkldnn_convolution"):
        steps, pads = pads, steps
    rank = len(image.dims) - 2
    if (back and op.value(7) == "True") or rank < 1 or len(weight.dims) != rank + 2 or not steps:
        return None
    steps, pads, gaps = (
        (one or [fill]) * (rank if len(one) < 2 else 1) for one, fill in ((steps, 1), (pads, 0), (gaps, 1))
    )
    outs, taps, touched = 1, 1, 1
    for size, width, step, pad, gap in zip(image.dims[2:], weight.dims[2:], steps, pads, gaps, strict=False):
        places = [
            (at * step - pad + tap * gap) for at in range(_steps(size, width, step, pad, gap)) for tap in range(width)
        ]
        inside = [one for one in places if 0 <= one < size]
        outs, taps, touched = outs * (len(places) // width), taps * len(inside), touched * len(set(inside))
    batch, channels = image.dims[0], weight.dims[0]
    seen = _Tensor(image.at, image.kind, image.dims, batch * image.dims[1] * touched, image.size)
    output = batch * channels * outs
    mask = [one == "True" for one in re.findall("True|False", op.value(10))] if back else []
    if back:
        parts = [(weight, image.bytes), (seen, weight.bytes)]
        wanted = [part for part, asked in zip(parts, mask, strict=False) if asked]
        found = _made(PRODUCT, [tensors[0], *(read for read, _ in wanted)], sum(out for _, out in wanted))
        times = len(wanted)
    else:
        found, times = _made(PRODUCT, [seen, weight], output * image.size, output), 1
    if re.search(r"winograd|fft", kernel, re.IGNORECASE):
        return found
    return _with_flops(found, 2.0 * batch * channels * weight.dims[1] * taps * times, image.kind, kernel)


def _steps(size: int, width: int, step: int, pad: int, gap: int) -> int:
    return max(0, (size + 2 * pad - gap * (width - 1) - 1) // step + 1)


_MODELS: dict[str, _Model] = {
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm", "_addmm_activation", "_scaled_mm", "linear"), _product),
    **dict.fromkeys(("embedding", "index_select", "gather"), _rows),
    "copy_": _copy,
    "cat": _cat,
    "embedding_dense_backward": _embedding_backward,
}
