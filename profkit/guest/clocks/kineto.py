"""Kineto recording, and the kinds of its GPU records: kernels, copies and fills.

Newer torch reports the type of a record; older ones only its name.
"""

from __future__ import annotations

from typing import Any

WORK = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
"""Kineto's types of GPU work -> kinds of the launches frame."""
_NO_WORK = ("gpu_", "Context Sync", "Stream", "Event", "Device")


def recorder(*, cpu: bool, cuda: bool, shapes: bool = False) -> Any:
    """torch's profiler of the host, the device or both.

    torch.profiler.profile wraps this one; it imports torch's compiler and Triton when it begins, which takes seconds.
    """
    import torch

    return torch.autograd.profiler.profile(
        use_cpu=cpu, use_device="cuda" if cuda else None, use_kineto=True, record_shapes=shapes
    )


def kind_of(event: Any) -> str:
    """ "kernel", "memcpy" or "memset" of a GPU record; "" when it is no work."""
    if hasattr(event, "activity_type"):
        return WORK.get(event.activity_type(), "")
    if said_by_user(event):
        return ""
    name = event.name()
    # Demangled kernels have a parameter list.
    if name.startswith(_NO_WORK) and "(" not in name:
        return ""
    return next((kind for kind in ("memcpy", "memset") if name.lower().startswith(kind)), "kernel")


def said_by_user(event: Any) -> bool:
    """Whether a record is a range of record_function, or its echo on the GPU."""
    return bool(hasattr(event, "is_user_annotation") and event.is_user_annotation())
