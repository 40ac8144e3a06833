"""Whole files or none, and what a full disk says."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
from pathlib import Path

from profkit.errors import ProfkitError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says when there is no room for a file."""
ROOM = "free some disk space; what was written before is untouched"
"""The fix of every error that is a full disk."""


def unwritable(path: str | os.PathLike[str], error: OSError) -> ProfkitError:
    """The error to raise when `path` could not be written; the fix depends on whether the disk is full."""
    return ProfkitError(
        f"cannot write {os.fspath(path)}: {error.strerror}",
        fix=ROOM if error.errno in FULL else "check the directory's permissions",
    )


def write_atomic(path: Path, data: bytes) -> None:
    """Write a whole file or nothing: temporary file, fsync, replace. A full disk names itself."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        raise unwritable(path, error) from error


def sha256(path: Path) -> str:
    """Hex digest of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
