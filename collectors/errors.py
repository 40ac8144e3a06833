"""The one exception of this house."""

from __future__ import annotations


class CollectError(Exception):
    """A file that cannot be read as it stands.

    The message names the file, and the row and the field where they are known; `fix` is what to do about it.
    """

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix
