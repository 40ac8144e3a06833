"""The exception of this house."""

from __future__ import annotations


class AnalyzeError(Exception):
    """Input the analyzers cannot judge; the message names the place, `fix` says what to do."""

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix
