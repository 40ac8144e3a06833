"""Keep freed host memory in the process, as CUDA's allocator does with the device's.

By default the C library gives large blocks back to the system at once, or does not, depending on what was allocated
before. A block that comes back costs a page fault for every 4 KiB: an eager chain of 36 operations on 16 MiB met 7500
of them in every call, or none, and took twice as long with them.
"""

from __future__ import annotations

import ctypes
import secrets

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # parameters of mallopt(3)
_PAD = 64 << 20
_NEVER = 2**31 - 1
_LINE = 64
_LINES = 1 << 14


def _shift() -> None:
    """Put a block of up to a MiB, which stays, before all others: forks of one process would all have the same
    addresses, and a time that hangs on them would look like one that holds everywhere.
    """
    malloc = ctypes.CDLL(None).malloc
    malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    malloc(_LINE * (1 + secrets.randbelow(_LINES)))


def keep() -> bool:
    """Serve every block from the heap and never shrink it; False where the C library has no such switch."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    wanted = {_MMAP_MAX: 0, _TRIM_THRESHOLD: _NEVER, _TOP_PAD: _PAD}
    kept: bool = sum(mallopt(parameter, value) for parameter, value in wanted.items()) == len(wanted)
    _shift()
    return kept
