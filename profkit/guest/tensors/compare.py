"""Compare two outputs leaf by leaf: form, non-finite elements, equality, distance."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

FIGURES = ("max_abs", "max_rel", "mean_abs", "median_abs", "mean_rel", "median_rel")
CHUNK = 1 << 22
"""Elements compared at once, so that float64 copies stay small beside large outputs."""
_CACHED = 3 << 13
"""Elements at once on a CPU: fits its caches and one thread."""
ELEMENTS = 1 << 20
"""Elements in a sample of a tensor."""

_PLACE = re.compile(r"\[\d+\]")
"""In a path: index of a list or tuple, not a key."""


@dataclass(frozen=True)
class Verdict:
    """Result of a comparison. `status`: "ok" or kind of error; `bits`: None for exact outputs.

    Figures are over all outputs, relative to |reference| + rms(reference). Means and medians are of the output where
    each is largest.
    """

    status: str
    what: str = ""
    max_abs: float | None = None
    max_rel: float | None = None
    precision: str = ""
    bits: float | None = None
    mean_abs: float | None = None
    median_abs: float | None = None
    mean_rel: float | None = None
    median_rel: float | None = None


@dataclass(frozen=True)
class Left:
    """State before and after a call; their difference is compared."""

    before: Any
    after: Any


def inexact(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds floating or complex numbers."""
    return bool(tensor.is_floating_point() or tensor.is_complex())


def coded(tensor: torch.Tensor) -> bool:
    """Whether it holds one-byte floats, which torch can only convert."""
    return bool(tensor.is_floating_point() and tensor.element_size() == 1)


def packed(tensor: torch.Tensor) -> bool:
    """Whether it packs two floating numbers in a byte (torch 2.8 on)."""
    return str(tensor.dtype) == "torch.float4_e2m1fn_x2"


def numbers(tensor: torch.Tensor) -> torch.Tensor:
    """One-byte floats as float32; packed ones, which torch cannot convert, as bytes."""
    if packed(tensor):
        return tensor.view(torch.uint8)
    return tensor.to(torch.float32) if coded(tensor) else tensor


def equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal element by element; NaN equals NaN."""
    if one.shape != other.shape:
        return False
    pairs = zip(parts(one), parts(other), strict=True)
    return all(bool(((a == b) | ((a != a) & (b != b))).all()) for a, b in pairs)


def whole(tensor: torch.Tensor) -> bool:
    """Whether the tensor holds integers only."""
    return all(bool((part == part.round()).all()) for part in parts(tensor))


def same(one: Any, other: Any) -> bool:
    """Whether all tensors of two nestings are `equal`."""
    pairs = zip(tensors(one), tensors(other), strict=True)
    return all(equal(a, b) for (_, a), (_, b) in pairs if isinstance(a, torch.Tensor))


def tensors(output: Any, path: str = "output") -> Iterator[tuple[str, Any]]:
    """Yield (path, leaf) of tuples, lists and dicts; dict keys in string order."""
    if isinstance(output, Mapping):
        for key in sorted(output, key=str):
            yield from tensors(output[key], f"{path}[{str(key)!r}]")
    elif isinstance(output, Sequence) and not isinstance(output, str):
        for index, item in enumerate(output):
            yield from tensors(item, f"{path}[{index}]")
    else:
        yield path, output


def leaves(item: Any) -> list[torch.Tensor]:
    """The tensors in any nesting."""
    return [leaf for _, leaf in tensors(item) if isinstance(leaf, torch.Tensor)]


def thin(tensor: torch.Tensor, most: int = ELEMENTS) -> torch.Tensor:
    """At most `most` elements, flat: every n-th, n odd so that no column is favoured."""
    flat = tensor.detach().reshape(-1)
    return flat[:: step(flat.numel(), most)].clone()


def step(count: int, most: int = ELEMENTS) -> int:
    """Distance of the elements that `thin` takes."""
    return int(max(1, -(-count // most) | 1))


def form(candidate: Any, reference: Any, *, any_dtype: bool = False) -> Verdict | None:
    """Difference in keys, types, shapes, dtypes (any_dtype: kinds) or devices, or None.

    Lists and tuples may be nested differently, with the same tensors in the same order.
    """
    got, want = list(tensors(candidate)), list(tensors(reference))
    if len(got) != len(want):
        return Verdict("wrong-type", f"{len(got)} outputs, the reference has {len(want)}")
    for (name, a), (where, b) in zip(got, want, strict=True):
        if _PLACE.sub("", name) != _PLACE.sub("", where):
            return Verdict("wrong-type", f"{name} is where the reference gives {where}")
        if not isinstance(b, torch.Tensor):
            if type(a) is not type(b):
                return Verdict("wrong-type", f"{where} is {type(a).__name__}, the reference gives {type(b).__name__}")
            continue
        for status, have, need in _facts(a, b):
            loose = any_dtype and status == "wrong-dtype" and _kind(a.dtype) == _kind(b.dtype)
            if have != need and not loose:
                return Verdict(status, f"{where} is {have}, the reference gives {need}")
    return None


def _facts(got: Any, want: torch.Tensor) -> Iterator[tuple[str, str, str]]:
    """(status if different, actual, expected)."""
    yield "wrong-type", type(got).__name__, type(want).__name__
    yield "wrong-shape", str(tuple(got.shape)), str(tuple(want.shape))
    yield "wrong-dtype", str(got.dtype), str(want.dtype)
    yield "wrong-device", str(got.device.type), str(want.device.type)


def _kind(dtype: torch.dtype) -> str:
    return "complex" if dtype.is_complex else "floating" if dtype.is_floating_point else "integer"


def close(candidate: Any, reference: Any, bits: float, jumps: float = 0.0) -> bool:
    """Whether outputs agree within 2**-bits of |reference| + rms(reference); integers exactly.

    jumps: share of the integers and one-byte floats of each output that may differ.
    """
    if form(candidate, reference, any_dtype=True) is not None:
        return False
    pairs = zip(tensors(candidate), tensors(reference), strict=True)
    return all(_leaf_close(a, b, 2.0**-bits, jumps) for (_, a), (_, b) in pairs)


def _leaf_close(got: Any, want: Any, rtol: float, jumps: float) -> bool:
    if not isinstance(want, torch.Tensor):
        near = isinstance(want, float) and math.isclose(got, want, rel_tol=max(rtol, 1e-5))
        return bool(near or got == want or (got != got and want != want))
    if not inexact(want) or (jumps and coded(want)):
        return bool(((numbers(got) != numbers(want)).sum()) <= jumps * want.numel())
    if torch.equal(numbers(got), numbers(want)):
        return True
    return strange(got, want) == "" and all(
        bool((error <= rtol * size).all()) for error, size in errors(got, want, rms(want))
    )


_STRANGE: Mapping[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "NaN where the reference is not": lambda a, b: a.isnan() & ~b.isnan(),
    "infinite where the reference is not": lambda a, b: a.isinf() & b.isfinite(),
    "not NaN where the reference is": lambda a, b: b.isnan() & ~a.isnan(),
    "finite where the reference is infinite": lambda a, b: a.isfinite() & b.isinf(),
    "infinite with the other sign": lambda a, b: a.isinf() & b.isinf() & (a != b),
}
"""Kinds of non-finite elements on one side; the first found is reported."""


def strange(got: torch.Tensor, want: torch.Tensor) -> str:
    """Number of elements that are not finite on one side only, in words; "" for none."""
    found: dict[str, int] = dict.fromkeys(_STRANGE, 0)
    for a, b in chunks(got, want):
        if not bool((a.sum() + b.sum()).isfinite()):
            odd = ~(a.isfinite() & b.isfinite())
            for name, holds in _STRANGE.items():
                found[name] += int((odd & holds(a, b)).sum())
    return next((f"{n} of {want.numel()} elements are {name}" for name, n in found.items() if n), "")


def figures(candidate: Any, reference: Any) -> dict[str, float]:
    """Error figures of `Verdict`."""
    largest = dict.fromkeys(FIGURES, 0.0)
    for (_, a), (_, b) in zip(tensors(candidate), tensors(reference), strict=True):
        if isinstance(b, torch.Tensor) and inexact(b) and b.numel():
            for name, value in zip(FIGURES, _leaf_figures(a, b), strict=True):
                largest[name] = max(largest[name], value)
    return largest


def _leaf_figures(got: torch.Tensor, want: torch.Tensor) -> list[float]:
    """The largest errors, and the means and medians of a sample."""
    most, absolute, shares = [], [], []
    part = min(1.0, ELEMENTS / want.numel())
    for error, size in errors(got, want, rms(want)):
        share = error / size.clamp_min(1e-300)
        most.append(torch.stack([error.max(), share.max()]))
        few = math.ceil(part * error.numel())
        absolute.append(thin(error, few).to(torch.float32))
        shares.append(thin(share, few).to(torch.float32))
    means = [
        item for one in map(torch.cat, (absolute, shares)) for item in (one.mean(dtype=torch.float64), one.median())
    ]
    return scalars(*torch.stack(most).amax(0), *means)


def errors(got: torch.Tensor, want: torch.Tensor, scale: float) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """(error, |want| + scale) by chunk, 0 if either side is not finite."""
    for a, b in chunks(got, want):
        error, size = (a - b).abs(), b.abs()
        if not bool(error.sum().isfinite()):
            both = a.isfinite() & b.isfinite()
            error, size = torch.where(both, error, 0.0), torch.where(both, size, 0.0)
        yield error, size + scale


def rms(tensor: torch.Tensor) -> float:
    """Root mean square of the finite elements; 0 if none."""
    squares, count = 0.0, 0.0
    for b in _wide(tensor):
        square, real = float(torch.linalg.vector_norm(b)) ** 2, float(b.numel())
        if not math.isfinite(square):
            finite = b.isfinite()
            square, real = scalars(torch.where(finite, b.abs().square(), 0.0).sum(), finite.sum())
        squares, count = squares + square, count + real
    return math.sqrt(squares / count) if count else 0.0


def scalars(*values: torch.Tensor) -> list[float]:
    """Read several numbers from the device at once: on a shared GPU each transfer waits."""
    found: list[float] = torch.stack([value.to(torch.float64) for value in values]).tolist()
    return found


def chunks(got: torch.Tensor, want: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Both flat, in float64 or complex128, CHUNK elements at a time."""
    yield from zip(_wide(got, want.is_complex()), _wide(want), strict=False)


def _wide(tensor: torch.Tensor, complex_: bool | None = None) -> Iterator[torch.Tensor]:
    wide = torch.complex128 if (tensor.is_complex() if complex_ is None else complex_) else torch.float64
    return (part.to(wide) for part in parts(tensor))


def parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Flat, in a type to compare in, as many elements at a time as are compared at once."""
    flat = tensor.detach().reshape(-1)
    size = CHUNK if flat.is_cuda else _CACHED
    return (numbers(flat[start : start + size]) for start in range(0, flat.numel(), size))
