"""Cache of builds and measured ceilings."""

from __future__ import annotations

import functools
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from collectors.caveat import Caveat

_ROOM = 1 << 24
"""Free bytes that a usable cache needs: the build of one small extension."""


def root() -> Path:
    """The configured cache, or a temporary one if that was not writable at first."""
    wanted = _wanted()
    return wanted if not _trouble(wanted) else Path(tempfile.gettempdir()) / f"profkit-cache-{os.getuid()}"


def caveats() -> list[Caveat]:
    """Caveat that another cache than the configured one is used, and why; usually []."""
    wanted = _wanted()
    why = _trouble(wanted)
    what = f"the cache {wanted} cannot be used: {why}"
    fix = "set PROFKIT_CACHE to a directory that can be written and has room"
    return [Caveat(what, f"builds and ceilings are kept in {root()} for now", fix, "cache")] if why else []


@functools.cache
def _trouble(folder: Path) -> str:
    """Why a folder was unusable when first checked; "" if usable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            return "no permission to write"
        return "" if shutil.disk_usage(folder).free >= _ROOM else "no room is left"
    except OSError as error:
        return str(error.strerror)


def _wanted() -> Path:
    """PROFKIT_CACHE, else profkit's folder in the user's cache directory."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("PROFKIT_CACHE") or os.path.join(base, "profkit"))


def builds() -> Path:
    """Build directories of samples, one per source hash."""
    return root() / "build"


def ceilings(device: Mapping[str, Any]) -> Path:
    """Path of a device's ceilings, by UUID and driver, or by CPU model and threads."""
    names = ("uuid", "driver") if device.get("uuid") else ("name", "driver", "threads", "l2_bytes", "memory_bytes")
    key = "-".join(f"{device.get(name, 'none')}" for name in names)
    return root() / "ceilings" / (re.sub(r"[^A-Za-z0-9.]+", "-", key) + ".json")
