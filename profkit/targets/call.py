"""A callable of this very process, with the arguments it is to be called with."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from profkit.errors import ProfkitError
from profkit.targets.target import Part

REFERENCE = "reference"


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
        """The callable's name, fit for a folder. Raises ProfkitError for what cannot be called."""
        given = getattr(self.function, "__name__", "") or type(self.function).__name__
        if not callable(self.function):
            raise ProfkitError(f"{given} cannot be called", fix="give a function or a module, then its arguments")
        return re.sub(r"[^A-Za-z0-9._-]+", "-", given).strip("-.") or "callable"

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """What is timed, by name: the reference first, the callable never under its name."""
        if self.reference is None:
            return {self.id: self.function}
        return {REFERENCE: self.reference, self.id if self.id != REFERENCE else "candidate": self.function}
