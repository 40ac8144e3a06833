"""Is the candidate right? Its output against the reference's, on inputs it has not seen.

Tolerance: |candidate - reference| <= rtol * (|reference| + rms(reference)), with rtol by dtype. The
second term makes it follow the scale of the output: an absolute 1e-4 would pass anything on outputs of
1e-6, and fail honest rounding on outputs of 1e4. Integers and booleans must be equal. The prober may
set another rtol for an output of this problem; of integers and booleans it is the share that may differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

RTOL = {
    torch.float64: 1e-9,
    torch.complex128: 1e-9,
    torch.float32: 1e-4,
    torch.complex64: 1e-4,
    torch.float16: 5e-3,
    torch.bfloat16: 2e-2,
}
_RTOL_OTHER = 0.125
NEAR = 0.05
"""What an element may be off by, as a share of itself, where the tolerance says nothing of the small ones."""
FIGURES = ("max_abs", "max_rel", "mean_abs", "median_abs", "mean_rel", "median_rel")


@dataclass(frozen=True)
class Verdict:
    """One comparison. `status` is "ok" or what is wrong; `max_abs`, `max_rel` over all outputs; means and medians of the
    output where each is largest. What is relative is so to |reference| + rms(reference), as the tolerance is.
    """

    status: str
    what: str = ""
    max_abs: float | None = None
    max_rel: float | None = None
    tolerance: str = ""
    mean_abs: float | None = None
    median_abs: float | None = None
    mean_rel: float | None = None
    median_rel: float | None = None


def inexact(tensor: torch.Tensor) -> bool:
    """Whether its numbers may be a little off."""
    return bool(tensor.is_floating_point() or tensor.is_complex())


def coded(tensor: torch.Tensor) -> bool:
    """Whether it holds floating numbers of one byte: torch has hardly more for them than to make them wider."""
    return bool(tensor.is_floating_point() and tensor.element_size() == 1)


def numbers(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers in a type that can be computed with; of what holds two in a byte, which nothing makes wider, the bytes."""
    if packed(tensor):
        return tensor.view(torch.uint8)
    return tensor.to(torch.float32) if coded(tensor) else tensor


def packed(tensor: torch.Tensor) -> bool:
    """Whether it holds two floating numbers in a byte. torch has that type from 2.8 on."""
    return str(tensor.dtype) == "torch.float4_e2m1fn_x2"


def identical(one: torch.Tensor, other: torch.Tensor) -> bool:
    """torch.equal, of floating numbers of one byte too."""
    return bool(torch.equal(numbers(one), numbers(other)))


def equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Element by element, NaN being equal to itself."""
    return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())


def tensors(output: Any, path: str = "output") -> Iterator[tuple[str, Any]]:
    """The leaves of an output: tensors and scalars in tuples, lists and dicts, with where they are; of a dict by its keys, for
    the order they were put in is nobody's answer.
    """
    if isinstance(output, Mapping):
        for key in sorted(output, key=str):
            yield from tensors(output[key], f"{path}[{key!r}]")
    elif isinstance(output, Sequence) and not isinstance(output, str):
        for index, item in enumerate(output):
            yield from tensors(item, f"{path}[{index}]")
    else:
        yield path, output


class Tolerances(dict[str, float]):
    """rtol of the outputs that have one of their own, by where they are. `any_dtype`: the task compares values alone, as its
    reference says by `any_dtype = True`; an answer in another type of the same kind (integers, floating) is no other answer.
    """

    any_dtype = False


def compare(
    candidate: Any, reference: Any, tolerances: Mapping[str, float] | None = None, *, figures: bool = False
) -> Verdict:
    """Compare two outputs leaf by leaf; the first thing wrong decides. tolerances: rtol of the outputs that have
    one of their own, by where they are. figures: whether means and medians are wanted too, which take longer than the rest.
    """
    got, want = list(tensors(candidate)), list(tensors(reference))
    if len(got) != len(want):
        return Verdict("wrong-type", f"{len(got)} outputs, the reference has {len(want)}")
    if named := _other_names(candidate, reference):
        return Verdict("wrong-type", named)
    own, loose = tolerances or {}, isinstance(tolerances, Tolerances) and tolerances.any_dtype
    # The reference says where a leaf is: one that wraps its answer in a list gets no other tolerance.
    pairs = [(where, a, b) for (_, a), (where, b) in zip(got, want, strict=True)]
    verdicts = [_leaf(where, a, b, own.get(where), figures, loose) for where, a, b in pairs]
    if all(verdict.status == "ok" for verdict in verdicts):
        verdicts += [
            _measured(where, a, b, off, own[name(where)], what)
            for name, off, what in _FINER
            for where, a, b in pairs
            if name(where) in own
        ]
    wrong = next((verdict for verdict in verdicts if verdict.status != "ok"), None)
    if wrong is not None:
        return wrong
    wanted = FIGURES if figures else FIGURES[:2]
    largest: dict[str, Any] = {name: max((getattr(v, name) or 0.0 for v in verdicts), default=0.0) for name in wanted}
    said = "; ".join(dict.fromkeys(v.tolerance for v in verdicts[: len(pairs)]))
    return Verdict("ok", **largest, tolerance=said)


def _other_names(got: Any, want: Any, where: str = "output") -> str:
    """Where a dict has other keys than the reference's, in words; "" where none has. Keys are told apart as texts: so they
    come from another process.
    """
    if isinstance(got, Mapping) and isinstance(want, Mapping):
        theirs, own = ({str(key): value for key, value in one.items()} for one in (got, want))
        if theirs.keys() != own.keys():
            return f"{where} is a dict of {sorted(theirs)}, the reference gives one of {sorted(own)}"
        return next(filter(None, (_other_names(theirs[key], own[key], f"{where}[{key!r}]") for key in own)), "")
    lists = [isinstance(one, Sequence) and not isinstance(one, str) for one in (got, want)]
    pairs = enumerate(zip(got, want, strict=False)) if all(lists) else ()
    return next(filter(None, (_other_names(a, b, f"{where}[{at}]") for at, (a, b) in pairs)), "")


def small(where: str) -> str:
    """The name among the tolerances for the share of an output's elements that may be off by more than NEAR of themselves."""
    return f"{where}: small"


def share_off(got: torch.Tensor, want: torch.Tensor) -> float:
    """The share of what is finite and no denormal that is off by more than NEAR of itself; 0 where there is nothing of the
    kind. Who flushes denormals to 0, as fast mathematics on a GPU does, is not off by that.
    """
    count, off = 0.0, 0.0
    tiny = torch.finfo(want.dtype).tiny
    for a, b in _chunks(got, want):
        counts = b.isfinite() & a.isfinite() & (b.abs() >= tiny)
        there, wrong = _told(counts.sum(), (counts & ((a - b).abs() > NEAR * b.abs())).sum())
        count, off = count + there, off + wrong
    return off / count if count else 0.0


def rest(where: str) -> str:
    """The name among the tolerances for the rtol of what is beside a filling, by its own rms."""
    return f"{where}: rest"


def rest_off(got: torch.Tensor, want: torch.Tensor) -> float:
    """How far what is beside a filling is off, in the units of rtol by its own rms: where hundreds of elements are one large
    number (a mask's -1e9), the rms of all says nothing of the others. 0 where nothing is filled.
    """
    top = max((float(torch.where(b.isfinite(), b.abs(), 0.0).max()) for _, b in _chunks(got, want)), default=0.0)
    filled, count, squares, largest = 0.0, 0.0, 0.0, 0.0
    for _, b in _chunks(got, want):
        size = b.abs()
        beside = size < _FILLING * top
        others = torch.where(beside, size, 0.0)
        here, there, square, most = _told(
            (size >= _FILLING * top).sum(), beside.sum(), others.square().sum(), others.max()
        )
        filled, count, squares, largest = filled + here, count + there, squares + square, max(largest, most)
    if not 0.0 < largest < _BESIDE * top or filled < max(2, _SHARE * want.numel()):
        return 0.0
    scale, far = math.sqrt(squares / count), 0.0
    for a, b in _chunks(got, want):
        error = torch.where(b.abs() < _FILLING * top, (a - b).abs() / (b.abs() + scale), 0.0)
        far = max(far, float(error.max()))
    return far


_FILLING, _BESIDE, _SHARE = 0.99, 1e-3, 0.01
"""What is filled lies this near the largest number, is so large beside all others, and is at least this share of the elements."""


def rtol_of(dtype: torch.dtype) -> float:
    """The rtol of an output type, where the problem does not ask for another."""
    return RTOL.get(dtype, _RTOL_OTHER)


def _leaf(where: str, got: Any, want: Any, rtol: float | None, figures: bool, loose: bool) -> Verdict:
    if not isinstance(want, torch.Tensor):
        return _scalar(where, got, want)
    for status, have, need in _facts(got, want):
        if have != need and not (loose and status == "wrong-dtype" and _kind(got.dtype) == _kind(want.dtype)):
            return Verdict(status, f"{where} is {have}, the reference gives {need}")
    if not want.is_floating_point() and not want.is_complex():
        wrong, most = int((got != want).sum()), int((rtol or 0.0) * want.numel())
        said = f"equal but for {most} of {want.numel()}" if most else "equal"
        what = f"{where}: {wrong} of {want.numel()} elements differ" if wrong > most else ""
        return Verdict("mismatch" if what else "ok", what, tolerance=said)
    return _close(where, got, want, rtol or rtol_of(want.dtype), figures)


_FINER: tuple[tuple[Callable[[str], str], Callable[[torch.Tensor, torch.Tensor], float], str], ...] = (
    (
        small,
        share_off,
        "{where}: {off:.0%} of the elements are off by more than {near:.0%} of themselves: the small ones are wrong",
    ),
    (rest, rest_off, "{where}: what is not filled with one number is off by {off:.2g} of its size"),
)
"""What the rms of a whole output hides: the name of its tolerance, how it is measured, and what to say of more."""


def _measured(
    where: str, got: Any, want: Any, measure: Callable[[torch.Tensor, torch.Tensor], float], most: float, what: str
) -> Verdict:
    """Whether an output is off by no more than this, measured so."""
    if not isinstance(want, torch.Tensor) or not isinstance(got, torch.Tensor) or got.shape != want.shape:
        return Verdict("ok")
    off = measure(got, want)
    return Verdict("mismatch", what.format(where=where, off=off, near=NEAR)) if off > most else Verdict("ok")


def _scalar(where: str, got: Any, want: Any) -> Verdict:
    """What is no tensor must be of the same type and equal; floating numbers as a float32 would be."""
    if type(got) is not type(want):
        return Verdict("wrong-type", f"{where} is {type(got).__name__}, the reference gives {type(want).__name__}")
    near = isinstance(want, float) and math.isclose(got, want, rel_tol=RTOL[torch.float32])
    if near or got == want or (got != got and want != want):
        return Verdict("ok")
    return Verdict("mismatch", f"{where} is {got!r}, the reference gives {want!r}")


def _facts(got: Any, want: torch.Tensor) -> Iterator[tuple[str, str, str]]:
    """(status when different, what we got, what we need), in the order they are worth hearing."""
    yield "wrong-type", type(got).__name__, type(want).__name__
    yield "wrong-shape", str(tuple(got.shape)), str(tuple(want.shape))
    yield "wrong-dtype", str(got.dtype), str(want.dtype)
    yield "wrong-device", str(got.device.type), str(want.device.type)


def _kind(dtype: torch.dtype) -> str:
    return "complex" if dtype.is_complex else "floating" if dtype.is_floating_point else "integer"


CHUNK = 1 << 26
"""Elements that are compared at once: the comparison is made in float64 and must fit beside the outputs."""


_STRANGE: Mapping[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "NaN where the reference is not": lambda a, b: a.isnan(),
    "infinite where the reference is not": lambda a, b: a.isinf() & b.isfinite(),
    "not NaN where the reference is": lambda a, b: b.isnan(),
    "finite where the reference is infinite": lambda a, b: a.isfinite() & b.isinf(),
    "infinite with the other sign": lambda a, b: a.isinf() & b.isinf(),
}
"""What an element that is not finite here or there can be, the first that there is being told."""


def _close(where: str, got: torch.Tensor, want: torch.Tensor, rtol: float, figures: bool) -> Verdict:
    if want.numel() == 0:
        none: dict[str, Any] = dict.fromkeys(FIGURES, 0.0)
        return Verdict("ok", **none)
    strange: dict[str, int] = dict.fromkeys(_STRANGE, 0)
    squares, finite = 0.0, 0.0
    for a, b in _chunks(got, want):
        both = a.isfinite() & b.isfinite()
        square, real = _told(torch.where(both, b.abs().square(), 0.0).sum(), both.sum())
        if real < len(a):
            # Most answers are finite, and nothing of this is to be computed.
            wrong = ~both & ~((a == b) | (a.isnan() & b.isnan()))
            if wrong.any():
                for name, holds in _STRANGE.items():
                    strange[name] += int((wrong & holds(a, b)).sum())
        squares, finite = squares + square, finite + real
    kind = next((name for name, count in strange.items() if count), "")
    if kind:
        return Verdict("nan", f"{where}: {strange[kind]} of {want.numel()} elements are {kind}")
    scale = math.sqrt(squares / finite) if finite else 0.0
    return _differences(where, got, want, rtol, scale, figures)


def _differences(
    where: str, got: torch.Tensor, want: torch.Tensor, rtol: float, scale: float, figures: bool
) -> Verdict:
    wrong, largest, relative, total = 0, 0.0, 0.0, 0.0
    errors = torch.empty(want.numel() if figures else 0, dtype=torch.float32, device=want.device)
    at = 0
    for a, b in _chunks(got, want):
        both = a.isfinite() & b.isfinite()
        error = torch.where(both, (a - b).abs(), 0.0)
        size = torch.where(both, b.abs(), 0.0) + scale
        far, most, share, mean = _told(
            (error > rtol * size).sum(), error.max(), (error / size.clamp_min(1e-300)).max(), error.sum()
        )
        wrong, largest, relative, total = wrong + int(far), max(largest, most), max(relative, share), total + mean
        if figures:
            errors[at : at + len(error)] = error
            at += len(error)
    tolerance = f"{str(want.dtype).removeprefix('torch.')}: rtol {rtol:.3g} of |ref| + rms(ref)"
    what = f"{where}: {wrong} of {want.numel()} elements differ, the worst by {largest:.3g} (rms {scale:.3g})"
    more = [total / want.numel(), _middle(errors), *_relative(errors, want, scale)] if figures else []
    if wrong:
        return Verdict("mismatch", what, largest, relative, tolerance, *more)
    return Verdict("ok", "", largest, relative, tolerance, *more)


def _middle(errors: torch.Tensor) -> float:
    """The median, the lower of two, of numbers that are not negative, float32.

    torch.median has a GPU look through all of them with one block, and a histogram of answers that are hardly off counts them
    all in one place: either takes a tenth of a second of 67 million. There the bits of the median are found one by one.
    """
    rank = (len(errors) - 1) // 2
    return _by_bits(errors, rank) if errors.is_cuda else float(errors.kthvalue(rank + 1).values)


def _by_bits(errors: torch.Tensor, rank: int) -> float:
    """The number that `rank` others come before."""
    # Without the sign that a NaN may have.
    bits = errors.view(torch.int32) & 0x7FFFFFFF
    found = torch.zeros((), dtype=torch.int32, device=errors.device)
    for bit in reversed(range(31)):
        higher = found + (1 << bit)
        found = torch.where((bits < higher).sum() <= rank, higher, found)
    return float(found.view(torch.float32))


def _told(*numbers: torch.Tensor) -> list[float]:
    """What these are, asked for at once: who shares a GPU waits for its turn each time."""
    found: list[float] = torch.stack([number.to(torch.float64) for number in numbers]).tolist()
    return found


def _relative(errors: torch.Tensor, want: torch.Tensor, scale: float) -> tuple[float, float]:
    """Mean and median of the errors over |want| + scale; the errors are overwritten: there may be room for them once."""
    at, total = 0, 0.0
    for a, b in _chunks(want, want):
        size = torch.where(a.isfinite(), b.abs(), 0.0) + scale
        part = errors[at : at + len(b)]
        part /= size.clamp_min(1e-300)
        total += float(part.sum(dtype=torch.float64))
        at += len(b)
    return total / len(errors), _middle(errors)


def _chunks(got: torch.Tensor, want: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Both flat, in float64 or complex128, CHUNK elements at a time."""
    wide = torch.complex128 if want.is_complex() else torch.float64
    a, b = got.detach().reshape(-1), want.detach().reshape(-1)
    for start in range(0, want.numel(), CHUNK):
        end = start + CHUNK
        yield a[start:end].to(wide), b[start:end].to(wide)
