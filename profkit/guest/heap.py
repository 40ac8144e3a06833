"""Keep freed host memory in the process, as CUDA's caching allocator does on the device.

By default the C library may return large blocks to the system. Each 4 KiB of such a block then costs a page fault:
7500 in a chain of 36 operations on 16 MiB, which doubled its time.
"""

from __future__ import annotations

import ctypes
import secrets

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # parameters of mallopt(3)
_PAD = 64 << 20
_NEVER = 2**31 - 1
_LINE = 64
_LINES = 1 << 14


def keep() -> bool:
    """Serve every block from the heap and never shrink it; False without such a C library."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return False
    wanted = {_MMAP_MAX: 0, _TRIM_THRESHOLD: _NEVER, _TOP_PAD: _PAD}
    kept = all(library.mallopt(parameter, value) for parameter, value in wanted.items())
    # A random offset: forks share addresses, and times may depend on them.
    library.malloc(ctypes.c_size_t(_LINE * (1 + secrets.randbelow(_LINES))))
    return kept
