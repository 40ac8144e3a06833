"""Targets: a sample's folder, a program's command line, a callable of this process."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from profkit.errors import ProfkitError
from profkit.targets import backends

REFERENCE = "reference"


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
    without files of its own.
    """

    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def parts(self) -> Sequence[Part]: ...


@dataclass(frozen=True)
class Call:
    """`function(*arguments)`, always with these arguments. `reference`: compared with, or None."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    reference: Callable[..., Any] | None = None
    kind = "callable"
    parts: tuple[Part, ...] = ()

    @property
    def id(self) -> str:
        """The callable's name, valid for a folder. Raises ProfkitError for something not callable."""
        given = getattr(self.function, "__name__", "") or type(self.function).__name__
        if not callable(self.function):
            raise ProfkitError(f"{given} is not callable", fix="give a function or module, then its arguments")
        return re.sub(r"[^A-Za-z0-9._-]+", "-", given).strip("-.") or "callable"

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """Functions to time, by name: the reference first, the callable never under its name."""
        if self.reference is None:
            return {self.id: self.function}
        return {REFERENCE: self.reference, self.id if self.id != REFERENCE else "candidate": self.function}
