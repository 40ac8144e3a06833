"""The reference in another precision than its own: how much does the answer change?"""

from __future__ import annotations

import contextlib
import copy
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from profkit.runner import inputs
from profkit.runner.check import coded, tensors
from profkit.runner.precision import cast, widened

PRECISIONS = ("tf32", "fp16", "bf16")
ELEMENTS = 1 << 20
"""Elements of an output that are looked at."""
PATIENCE = 10.0
"""Seconds for all precisions together; none is begun that might take longer."""
_HARDER = 3.0
_TYPES = {"float64": torch.float64, "fp16": torch.float16, "bf16": torch.bfloat16}
_DROPPED = 13
"""Mantissa bits of a float32 that TF32 has not."""
_FACTORS: dict[str, dict[str, tuple[int, ...]]] = {
    "convolution": {"convolution": (0, 1), "convolution_backward": (0, 1, 2)},
    "matmul": {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2)},
    "recurrence": {"_cudnn_rnn": (0, 1, 3, 4)},
}
"""The arguments of torch's operators that a tensor core multiplies, by the kind of operation."""


class Again:
    """The reference, asked again in other precisions as long as there is time for it. `notes`: what was left out. pause: called before
    it is asked, where others may have waited; that takes none of the time.
    """

    def __init__(
        self, model: Any, arguments: list[Any], seconds: float, pause: Callable[[], None] = lambda: None
    ) -> None:
        self._model = model
        self._arguments = arguments
        self._seconds = seconds
        self._pause = pause
        self._end = time.monotonic() + PATIENCE
        self.notes: list[str] = []

    def thinned(self, precision: str) -> dict[str, Any] | None:
        """The answer in that precision, thinned; None (and a note) when there is none."""
        return self._asked(precision, lambda arguments: lowered(self._model, arguments, precision))

    def widest(self) -> torch.dtype | None:
        """The widest floating type of the inputs or that of the weights, the narrower of the two; None without such a tensor. What has one
        byte is a code, made wider before it is computed with.
        """
        weights = self._model.state_dict() if isinstance(self._model, torch.nn.Module) else {}
        sides = [
            {
                leaf.dtype
                for _, leaf in tensors(side)
                if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and not coded(leaf)
            }
            for side in (self._arguments, weights)
        ]
        widest = [max(types, key=lambda dtype: dtype.itemsize) for types in sides if types]
        return min(widest, key=lambda dtype: dtype.itemsize, default=None)

    @property
    def coarse(self) -> bool:
        """Whether that type is coarser than float32."""
        return bool(torch.finfo(self.widest() or torch.float32).eps > torch.finfo(torch.float32).eps)

    def narrowed(self, operations: Collection[str]) -> dict[str, Any] | None:
        """The answer with the factors of these kinds of operations rounded to TF32, thinned; None (and a note) when there
        is none. operations: convolution, matmul, recurrence.
        """

        def ask(arguments: list[Any]) -> Any:
            with _Narrowed(operations):
                return self._model(*arguments)

        return self._asked(f"TF32 in {', '.join(sorted(operations))}", ask)

    def stirred(self, units: float) -> dict[str, Any] | None:
        """The answer to inputs that are so many units in the last place off, thinned; None (and a note) when there is none."""

        def ask(arguments: list[Any]) -> Any:
            return self._model(*inputs.mapped(arguments, lambda tensor: inputs.stirred(tensor, units)))

        return self._asked("stirred inputs", ask)

    def _asked(self, precision: str, ask: Callable[[list[Any]], Any]) -> dict[str, Any] | None:
        began = time.monotonic()
        self._pause()
        self._end += time.monotonic() - began
        if time.monotonic() + _HARDER * self._seconds > self._end:
            self.notes.append(f"{precision} not tried: a call takes {self._seconds:.2g} s")
            return None
        try:
            return thinned(ask(inputs.clone(self._arguments)))
        except Exception as error:
            traceback.print_exc()
            line = str(error).partition("\n")[0][:120]
            self.notes.append(f"{precision} not tried: {type(error).__name__}: {line}")
            return None


class _Mode(TorchDispatchMode):  # type: ignore[misc]
    """Sees every operator of torch's that is called."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch asks: no, its compiler is not to be loaded to be kept off."""
        return False


class _Narrowed(_Mode):
    """Rounds to TF32 what comes into the operators of these kinds: what tensor cores make of float32 there."""

    def __init__(self, operations: Collection[str]) -> None:
        super().__init__()
        self._factors = {name: places for one in operations for name, places in _FACTORS[one].items()}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        places = self._factors.get(func._overloadpacket._qualified_op_name.removeprefix("aten::"), ())
        given = [inputs.mapped(one, rounded_to_tf32) if n in places else one for n, one in enumerate(args)]
        return func(*given, **(kwargs or {}))


class _ByTorch(_Mode):
    """Convolutions by group by torch's own kernels: on CPUs that compute in FP16, oneDNN's were being made without end (torch 2.11)."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._overloadpacket._qualified_op_name != "aten::convolution" or args[_GROUPS] == 1:
            return func(*args, **(kwargs or {}))
        before = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(False)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            torch._C._set_mkldnn_enabled(before)


_GROUPS = 8
"""The place of their number among the arguments of torch's convolution."""


def thinned(output: Any) -> dict[str, Any]:
    """The leaves of an output by where they are; of large tensors some elements, evenly spread, all flat."""
    return {where: thin(leaf) if isinstance(leaf, torch.Tensor) else leaf for where, leaf in tensors(output)}


def thin(tensor: torch.Tensor) -> torch.Tensor:
    """At most ELEMENTS of a tensor as a flat copy: every n-th, n odd so that no column is favoured."""
    flat = tensor.detach().reshape(-1)
    step = -(-flat.numel() // ELEMENTS) | 1
    return flat[:: max(1, step)].clone()


def lowered(model: Any, arguments: list[Any], precision: str) -> Any:
    """The answer as that precision gives it: tf32 rounds what comes in, the others compute in their type."""
    if precision != "tf32":
        return _converted(model, arguments, _TYPES[precision])
    rounded = copy.deepcopy(model)
    if isinstance(rounded, torch.nn.Module):
        for tensor in [*rounded.parameters(), *rounded.buffers()]:
            tensor.data = rounded_to_tf32(tensor.data)
    return rounded(*inputs.mapped(arguments, lambda tensor: inputs.changed(tensor, rounded_to_tf32)))


def rounded_to_tf32(tensor: torch.Tensor) -> torch.Tensor:
    """float32 values with a mantissa of 10 bits, to nearest; anything else unchanged."""
    if tensor.dtype is not torch.float32:
        return tensor
    bits = tensor.contiguous().view(torch.int32)
    nearest = ((bits + (1 << (_DROPPED - 1))) >> _DROPPED) << _DROPPED
    return torch.where(tensor.isfinite(), nearest.view(torch.float32), tensor)


def _converted(model: Any, arguments: list[Any], dtype: torch.dtype) -> Any:
    other = copy.deepcopy(model)
    if isinstance(other, torch.nn.Module):
        other = widened(other, dtype)
    with _default(dtype), _ByTorch() if dtype is torch.float16 else contextlib.nullcontext():
        return other(*cast(arguments, dtype))


@contextlib.contextmanager
def _default(dtype: torch.dtype) -> Iterator[None]:
    """What the reference makes inside is made in this type as well."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
