"""What records by kineto, and which of its GPU records are work: kernels, copies and fills, not waits and not echoes of ranges.

Kineto says it by the type of the record where torch hands that on; older ones leave the name alone to tell by.
"""

from __future__ import annotations

from typing import Any

WORK = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
"""Kineto's types of GPU work -> kinds of the launches frame."""
_NO_WORK = ("gpu_", "Context Sync", "Stream", "Event", "Device")


def recorder(*, cpu: bool, cuda: bool, shapes: bool = False) -> Any:
    """torch's profiler of the host, the device or both. torch.profiler.profile is this one and more: when it begins it imports
    torch's compiler and Triton, seconds of a program's time, or of the device's, which nobody else has meanwhile.
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
    # A demangled kernel has its parameters behind its name.
    if name.startswith(_NO_WORK) and "(" not in name:
        return ""
    return next((kind for kind in ("memcpy", "memset") if name.lower().startswith(kind)), "kernel")


def said_by_user(event: Any) -> bool:
    """Whether a record is a range of record_function (on the GPU: its echo), where torch tells."""
    return bool(hasattr(event, "is_user_annotation") and event.is_user_annotation())
