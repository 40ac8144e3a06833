"""The one exception class of this house."""

from __future__ import annotations


class RooflineError(Exception):
    """A ceiling, device or figure that cannot be what it claims to be; `fix` says what to do about it."""

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix
