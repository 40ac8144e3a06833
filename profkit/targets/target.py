"""Targets: a sample's folder, a program's command line, a callable of this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from profkit.targets import backends


@dataclass(frozen=True)
class Part:
    """One implementation with its file. `role`: reference or candidate; `backend`: of BACKENDS."""

    name: str
    path: Path
    backend: str
    role: str = "candidate"

    def runs_on(self, kind: str) -> bool:
        """Whether it can run on a device of this kind ("cuda" or "cpu")."""
        if kind == "cuda" and self.backend == "cpp":
            return backends.of_tensors(self.path.read_text("utf-8", "replace"))
        return self.backend in (backends.GPU if kind == "cuda" else backends.CPU)


class Target(Protocol):
    """Something to measure.

    `id` names its runs; `kind` is the manifest's: folder, program or callable; `parts` are its implementations, none
    for what has no files of its own.
    """

    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def parts(self) -> Sequence[Part]: ...
