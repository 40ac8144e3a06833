"""Environment variables passed to a child: known to be useful and not secret."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

_NAMES = re.compile(
    "PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|TZ|TERM|TMPDIR|TEMP|TMP|XDG_CACHE_HOME|XDG_RUNTIME_DIR|LD_LIBRARY_PATH|"
    "LD_PRELOAD|LIBRARY_PATH|CPATH|C_INCLUDE_PATH|CPLUS_INCLUDE_PATH|CC|CXX|CFLAGS|CXXFLAGS|LDFLAGS|MAX_JOBS|"
    "NVCC_PREPEND_FLAGS|NVCC_APPEND_FLAGS|VIRTUAL_ENV|CONDA_PREFIX|SOURCE_DATE_EPOCH|NO_COLOR"
)
_FAMILIES = re.compile(
    "LC_|CUDA|CUDNN|CUBLAS|CUTLASS|CUTE_|NVIDIA|NCCL|NSIGHT|NSYS|NV_|TORCH|PYTORCH|TRITON|INDUCTOR|TILELANG|TVM|OMP_|GOMP_|"
    "KMP_|MKL_|OPENBLAS|BLIS|NUMEXPR|ATEN_|PYTHON|PROFKIT|MALLOC_|CCACHE|CMAKE|NINJA|FAKE_|COVERAGE"
)
"""Allowed prefixes."""
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE", re.I)


def allowed(given: Mapping[str, str]) -> dict[str, str]:
    """The variables of `given` that a candidate, a build or a tool may see."""
    useful = {name: value for name, value in given.items() if _NAMES.fullmatch(name) or _FAMILIES.match(name)}
    return {name: value for name, value in useful.items() if not _SECRET.search(name)}


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """A child's environment: the allowed variables, unbuffered, UTF-8, ninja found.

    PYTHONPATH keeps only absolute entries, so that the child imports nothing from its working directory.
    """
    path = os.pathsep.join(p for p in (os.environ.get("PATH"), os.path.dirname(sys.executable)) if p)
    found = {**allowed(os.environ), "PATH": path, "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1"}
    places = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(place)]
    # Where this package would not be found.
    mine = str(Path(__file__).resolve().parent.parent.parent)
    places += [] if mine in places or mine.endswith("-packages") else [mine]
    found["PYTHONPATH"] = os.pathsep.join(places)
    if not found.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}:
        found["OMP_WAIT_POLICY"] = "PASSIVE"
    return {name: value for name, value in {**found, **(extra or {})}.items() if value or name != "PYTHONPATH"}
