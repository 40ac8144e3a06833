"""A model in float64, with inputs and weights perturbed at random by a small relative step."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from profkit.guest.tensors import inputs
from profkit.guest.tensors.compare import CHUNK, Left, coded, inexact, leaves

_FINE = 2.0**-16
"""Step above which one-byte codes are perturbed too."""
View = Callable[[Any, list[Any]], Any]
"""(model, arguments, used up) -> the values to compare."""


def called(model: Any, arguments: list[Any]) -> Any:
    """View of a model's answer."""
    return model(*arguments)


def left(model: Any, arguments: list[Any]) -> Left:
    """View of a call's changes to its inputs."""
    before = inputs.clone(arguments)
    model(*arguments)
    return Left(before, arguments)


def after(value: Any) -> Any:
    """What a view compares, without the state before the call."""
    return value.after if isinstance(value, Left) else value


def asked(
    model: Any, arguments: list[Any], view: View, step: float = 0.0, seed: int = 0, sign: float = 1.0, *, wide: bool
) -> tuple[Any, float]:
    """(the view's result, step taken), in float64 if `wide`; codes move by coarse steps only."""
    codes = step > _FINE or all(coded(one) or not inexact(one) for one in [*leaves(arguments), *held(model)])
    perturbation = _Perturbation(step, seed, sign, wide=wide, codes=codes)
    own, pairs = _copied(model, wide)
    with _widening() if wide else contextlib.nullcontext():
        for target, source in pairs:
            if inexact(source) and (codes or not coded(source)):
                target.copy_(perturbation.moved(source))
        return view(own, inputs.mapped(arguments, perturbation.changed)), perturbation.taken


class _Perturbation:
    """Perturbs tensors by up to a relative step. `taken`: the largest step, at least 1 ulp."""

    def __init__(self, step: float, seed: int, sign: float, *, wide: bool, codes: bool) -> None:
        self._step, self._seed, self._sign = step, seed, sign
        self._wide, self._codes = wide, codes
        self._generators: dict[torch.device, torch.Generator] = {}
        self.taken = step

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        """A perturbed copy of an argument, in its layout."""
        still = not inexact(tensor) or (coded(tensor) and not self._codes)
        return inputs.changed(tensor, torch.Tensor.clone if still else self.moved)

    def moved(self, source: torch.Tensor) -> torch.Tensor:
        """A perturbed copy: in float64 if wide, else in its own type."""
        wide = torch.complex128 if source.is_complex() else torch.float64
        keeps = coded(source) or not self._wide
        if not self._step:
            return source.clone() if keeps else source.to(wide, copy=True)
        step = max(self._step, 2 * torch.finfo(source.dtype).eps) if keeps else self._step
        self.taken = max(self.taken, step)
        if source.device not in self._generators:
            self._generators[source.device] = torch.Generator(source.device).manual_seed(self._seed)
        chance = self._generators[source.device]
        far = (source.to(torch.float32) if coded(source) else source).to(wide, copy=True).contiguous()
        for part in far.view(-1).split(CHUNK):
            noise = torch.rand(part.shape, generator=chance, device=source.device)
            part *= 1.0 + (2.0 * self._sign * step) * (noise.to(torch.float64) - 0.5)
        if not keeps:
            return far
        if coded(source):
            # Codes use the full range of their type, beyond which some have NaN.
            most = torch.finfo(source.dtype).max
            far = torch.where(far.isfinite(), far.clamp(-most, most), far)
        return far.to(source.dtype)


def held(model: Any) -> list[torch.Tensor]:
    """Parameters, buffers and tensor attributes of a model, each once, in a fixed order."""
    found: dict[int, torch.Tensor] = {}
    if not isinstance(model, torch.nn.Module):
        return []
    for one in [*model.parameters(), *model.buffers()]:
        found.setdefault(id(one), one)
    for module in model.modules():
        for name, item in vars(module).items():
            if name not in ("_parameters", "_buffers", "_modules"):
                for leaf in _leaves(item):
                    found.setdefault(id(leaf), leaf)
    return [one for one in found.values() if one.layout is torch.strided and not torch.nn.parameter.is_lazy(one)]


def _leaves(item: Any) -> Iterator[torch.Tensor]:
    if isinstance(item, torch.Tensor):
        yield item
    elif type(item) in (list, tuple, dict):
        yield from leaves(item)


def _copied(model: Any, wide: bool) -> tuple[Any, list[tuple[torch.Tensor, torch.Tensor]]]:
    """A deep copy, and (its tensor, the model's) per tensor to perturb; functions are shared."""
    if not isinstance(model, torch.nn.Module):
        return model, []
    try:
        own = copy.deepcopy(model)
    except Exception:
        own = copy.deepcopy(model, _shared(model))
    if wide:
        own._apply(_widened)
        for module in own.modules():
            for name, item in list(vars(module).items()):
                if name not in ("_parameters", "_buffers", "_modules") and any(True for _ in _leaves(item)):
                    object.__setattr__(module, name, inputs.mapped(item, _widened))
    return own, list(zip(held(own), held(model), strict=True))


def _shared(model: torch.nn.Module) -> dict[int, Any]:
    """Attributes that cannot be copied (a Python module, a generator), for a copy to share."""
    found = {}
    for module in model.modules():
        for name, item in vars(module).items():
            try:
                copy.deepcopy(item if name != "_modules" else None)
            except Exception:
                found[id(item)] = item
    return found


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    if not inexact(tensor) or coded(tensor):
        return tensor
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


_NARROW = (torch.float32, torch.float16, torch.bfloat16)
_METHODS = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)


class _Widening(TorchFunctionMode):  # type: ignore[misc]
    """Keep float64 where a model asks for a narrower type: the truth has no rounding."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _METHODS and not args[0].is_complex():
            return args[0].to(torch.float64, **kwargs)
        # A view reinterprets bits.
        if func is not torch.Tensor.view:
            args = tuple(_wide(one) for one in args)
            kwargs = {name: _wide(one) for name, one in kwargs.items()}
        return func(*args, **kwargs)


@contextlib.contextmanager
def _widening() -> Iterator[None]:
    """Use float64 for new tensors and for tensors that the model would narrow."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widening():
            yield
    finally:
        torch.set_default_dtype(before)


def _wide(argument: Any) -> Any:
    return torch.float64 if isinstance(argument, torch.dtype) and argument in _NARROW else argument
