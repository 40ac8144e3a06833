"""torch's process-wide settings: kept as they were, and told when switched.

Those that decide in which precision torch computes are read and put back by precision.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, MutableSet
from functools import partial
from typing import Any

import torch

from profkit.runner import precision

_Setting = tuple[Callable[[], Any], Callable[[Any], Any]]


def _attribute(holder: Any, name: str) -> _Setting:
    return lambda: getattr(holder, name), lambda value: setattr(holder, name, value)


def _default_device(device: torch.device) -> None:
    """Back to a device that nobody had set: the CPU is what torch says when there is none."""
    torch.set_default_device(None if device.type == "cpu" else device)


def _flushes() -> bool:
    """Whether this thread's arithmetic takes denormals for zeros."""
    return not bool(torch.tensor(_DENORMAL, dtype=torch.float32, device="cpu") * 0.5)


_DENORMAL = 1e-40


def _settings() -> dict[str, _Setting]:
    backends = torch.backends
    found: dict[str, _Setting] = {
        "autograd": (torch.is_grad_enabled, torch.set_grad_enabled),
        "threads": (torch.get_num_threads, torch.set_num_threads),
        "deterministic algorithms": (
            torch.are_deterministic_algorithms_enabled,
            torch.use_deterministic_algorithms,
        ),
        "cuDNN": _attribute(backends.cudnn, "enabled"),
        "cuDNN benchmark": _attribute(backends.cudnn, "benchmark"),
        "cuDNN deterministic": _attribute(backends.cudnn, "deterministic"),
        "FP16 reductions": _attribute(backends.cuda.matmul, "allow_fp16_reduced_precision_reduction"),
        "BF16 reductions": _attribute(backends.cuda.matmul, "allow_bf16_reduced_precision_reduction"),
        "fast transformer path": (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
        "deterministic fill": _attribute(torch.utils.deterministic, "fill_uninitialized_memory"),
        "oneDNN": _attribute(backends.mkldnn, "enabled"),
        "denormals as zeros": (_flushes, torch.set_flush_denormal),
        "default device": (torch.get_default_device, _default_device),
    }
    for name in ("flash", "mem_efficient", "math", "cudnn"):
        get, put = (getattr(backends.cuda, word.format(name), None) for word in ("{}_sdp_enabled", "enable_{}_sdp"))
        if get is not None and put is not None:
            found[f"attention by {name}"] = (get, put)
    for name in ("preferred_linalg_library", "preferred_blas_library"):
        asked = getattr(backends.cuda, name, None)
        if asked is not None:
            found[name.replace("_", " ")] = (asked, asked)
    for kind in ("cpu", "cuda"):
        found[f"{kind} autocast"] = (
            partial(torch.is_autocast_enabled, kind),
            partial(torch.set_autocast_enabled, kind),
        )
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["current stream"] = (torch.cuda.current_stream, torch.cuda.set_stream)
    return found


def read() -> tuple[dict[str, Any], dict[str, Any]]:
    """(what decides the precision, every other setting this torch has), by name."""
    return precision.switches(), _others()


def _others() -> dict[str, Any]:
    found = {}
    for name, (get, _) in _settings().items():
        with contextlib.suppress(RuntimeError, AttributeError):
            found[name] = get()
    return found


CALLED = "settings-called"
"""The code of the doubt about what a candidate switches in its calls, the timed ones among them."""


def keep(
    before: tuple[Mapping[str, Any], Mapping[str, Any]],
    name: str,
    events: precision.Listener,
    *,
    called: MutableSet[str] | None = None,
) -> None:
    """Undo what a candidate switched since `read`, and say so. called: of a call, the settings that
    earlier ones switched. What it does again it does in the timed ones as well; what it did once is off when anything is timed.
    """
    precision.keep(before[0], name, events)
    _keep_others(before[1], name, events, called=called)


def _keep_others(
    before: Mapping[str, Any], name: str, events: precision.Listener, *, called: MutableSet[str] | None
) -> None:
    switched, again = [], False
    for key, (get, put) in _settings().items():
        with contextlib.suppress(RuntimeError, AttributeError):
            now = get()
            if key in before and now != before[key]:
                put(before[key])
                switched.append(f"{key}: {before[key]} -> {now}")
                again |= called is not None and key in called
                if called is not None:
                    called.add(key)
    if again:
        events.send(
            "doubt",
            name,
            what=f"settings: {name} switches torch's in its calls",
            how_much=f"{'; '.join(switched)}; so it was timed, and the reference without",
            fix="leave the process as it was, or switch it for the reference too",
            code=CALLED,
        )
    elif switched:
        events.send(
            "doubt",
            name,
            what=f"settings: {name} switches torch's for the whole process",
            how_much=f"{'; '.join(switched)}; switched back",
            fix="leave the process as it was: the caller's other work lives in it",
            code="settings",
        )
