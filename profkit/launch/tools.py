"""Find command line tools and their versions, each once."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

PATIENCE = 30.0
"""Seconds for a tool to print its version."""


@dataclass(frozen=True)
class Kind:
    """A tool to look for: its name on PATH, the variable that overrides it, usual places."""

    name: str
    title: str
    variable: str
    places: tuple[str, ...]
    besides: str = ""

    @property
    def missing(self) -> str:
        return f"{self.title} was not found"

    @property
    def fix(self) -> str:
        toolkit = f"install {self.title.partition(' (')[0]} (part of the CUDA toolkit) and put its folder on PATH"
        return f"{toolkit}, or set {self.variable}=/path/to/{self.name}{self.besides}"


@dataclass(frozen=True)
class Tool:
    """A tool that runs. `version`: (2025, 3, 1), or () if unknown."""

    path: str
    version: tuple[int, ...]

    @property
    def text(self) -> str:
        return ".".join(map(str, self.version)) or "unknown version"


NCU = Kind(
    "ncu",
    "Nsight Compute (ncu)",
    "PROFKIT_NCU",
    ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu"),
)
NSYS = Kind(
    "nsys",
    "Nsight Systems (nsys)",
    "PROFKIT_NSYS",
    (
        "/usr/local/cuda/bin/nsys",
        "/opt/nvidia/nsight-systems/**/bin/nsys",
        "/opt/nvidia/nsight-systems-cli/**/bin/nsys",
    ),
    "; a Python program can be traced without it",
)
SANITIZER = Kind(
    "compute-sanitizer",
    "compute-sanitizer",
    "PROFKIT_SANITIZER",
    ("/usr/local/cuda/bin/compute-sanitizer", "/usr/local/cuda/compute-sanitizer/compute-sanitizer"),
)


def find(kind: Kind) -> Tool | None:
    """The tool named by its variable, else the first that runs on PATH or in the usual places."""
    return next((tool for path in _candidates(kind) if (tool := _ask(path)) is not None), None)


def _candidates(kind: Kind) -> Iterator[str]:
    named = os.environ.get(kind.variable)
    if named:
        yield named
        return
    found = shutil.which(kind.name)
    if found:
        yield found
    for place in kind.places:
        yield from (path for path in sorted(glob.glob(place, recursive=True), reverse=True) if os.access(path, os.X_OK))


@lru_cache(maxsize=32)
def _ask(path: str) -> Tool | None:
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    match = re.search(r"version (\d+(?:\.\d+)+)", done.stdout, re.IGNORECASE)
    return Tool(path, tuple(int(part) for part in match[1].split(".")[:3]) if match else ())
