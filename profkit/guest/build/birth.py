"""Live weights during construction: constant parameters get drawn values at once.

A constructor may fold a norm into a product. It must find other values than ones and zeros there, or it could not be
told from one that leaves the norm out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import torch
from torch.nn.modules import module as registry
from torch.nn.parameter import is_lazy

from profkit.guest.build import loading
from profkit.guest.tensors import weights


@contextlib.contextmanager
def live(values: Mapping[str, torch.Tensor], constructed: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Give torch layers these values once initialized, other tensors when registered.

    constructed: the ones they replace. They go by short name and contents, in order.
    """
    waiting = list(values)

    def give(holder: Mapping[str, torch.Tensor]) -> None:
        for name, tensor in holder.items():
            short = name.rpartition(".")[2]
            named = [one for one in waiting if one.rpartition(".")[2] == short and not is_lazy(tensor)]
            found = next((one for one in named if weights.near(tensor, constructed[one])), "")
            if found:
                waiting.remove(found)
                with torch.no_grad():
                    tensor.copy_(values[found])

    kinds = [kind for kind in vars(torch.nn).values() if isinstance(kind, type) and issubclass(kind, torch.nn.Module)]
    bases = {base for kind in kinds for base in kind.__mro__}
    own = [(base, name, vars(base)[name]) for base in bases for name in _INITIALIZERS if name in vars(base)]

    def registered(module: Any, name: str, tensor: Any) -> None:
        if isinstance(tensor, torch.Tensor) and not _initializes(module):
            give({name: tensor})

    hooks = [
        registry.register_module_parameter_registration_hook(registered),
        registry.register_module_buffer_registration_hook(registered),
    ]
    try:
        for base, name, initialize in own:
            setattr(base, name, _then(initialize, give))
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for base, name, initialize in own:
            setattr(base, name, initialize)


_INITIALIZERS = ("reset_parameters", "_reset_parameters")
"""What the constructors of torch's layers end with."""


def _then(initialize: Callable[..., None], give: Callable[[Mapping[str, torch.Tensor]], None]) -> Callable[..., None]:
    def initialized(self: torch.nn.Module) -> None:
        initialize(self)
        if _initializes(self):
            give(self.state_dict())

    return initialized


def _initializes(module: Any) -> bool:
    """Whether it is a layer of torch that fills its tensors after they are registered."""
    ours = type(module).__module__.startswith("torch.nn.")
    return ours and any(hasattr(module, name) for name in _INITIALIZERS)


def construct(module: ModuleType, spec: Mapping[str, Any], seed: int, device: torch.device, dtype: torch.dtype) -> Any:
    """A candidate's model from `init`, with `live` values if given; then load `weights`, if any."""
    with live(spec["live"], spec["constructed"]) if spec["live"] else contextlib.nullcontext():
        model = loading.instance(module, "ModelNew", spec["init"], seed, device, dtype, spec["mode"])
    if spec["weights"] is not None and isinstance(model, torch.nn.Module):
        loading.take_weights(model, spec["weights"])
    return model
