"""Atomic files, and the error when writing fails."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from profkit.rundir.files import mark


class CannotWriteError(OSError):
    """A file of the run could not be written; no candidate is to blame."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(error.errno, f"cannot write {path}: {error.strerror}")


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A stream for csv rows that becomes `path` at the end. Raises CannotWriteError."""
    part = path.with_suffix(f".{mark()}.part")
    try:
        with part.open("w", newline="", encoding="utf-8") as stream:
            yield stream
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise CannotWriteError(path, error) from error
