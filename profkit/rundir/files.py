"""Atomic files, full disks, and temporary folders of killed processes.

A temporary file carries its owner's mark in its name: machine and process number. The next process to make one
removes those of owners that have ended.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import glob
import hashlib
import io
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from profkit.errors import ProfkitError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says when there is no room for a file."""
ROOM = "free some disk space; what was written before is untouched"
"""The fix of every error that is a full disk."""
_FIXES = {
    errno.ENOENT: "the directory is gone, or never was: name one that is there, or run it again where nothing removes it",
    errno.ENOTDIR: "a file stands where a directory would be: name another",
    errno.EISDIR: "a directory stands there: name a file",
    errno.EBUSY: "a directory stands there: name a file",
}


def unwritable(path: str | os.PathLike[str], error: OSError) -> ProfkitError:
    """Error for a `path` that could not be written; names a full disk."""
    return ProfkitError(
        f"cannot write {os.fspath(path)}: {error.strerror}",
        fix=ROOM if error.errno in FULL else _FIXES.get(error.errno or 0, "check the directory's permissions"),
    )


@cache
def _machine() -> str:
    """Eight characters of the process namespace: containers may share a folder."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:8]


def owner() -> str:
    """This process, as no other will be: machine, number, and when it began."""
    return f"{_machine()}-{os.getpid()}-{_began(os.getpid())}"


def mark() -> str:
    """This process, as it stands in the names of what it makes for a while."""
    return f"{owner()}-"


def gone(text: str) -> bool:
    """Whether the process named in `text` has ended; False for another machine's."""
    found = re.search(rf"{_machine()}-(\d+)-(\d*)(?:-|$)", text)
    return found is not None and _began(int(found[1])) != found[2]


def _began(pid: int) -> str:
    """When a process began, in the kernel's ticks; "" for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def sweep(found: Iterable[Path]) -> None:
    """Remove files and folders among `found` that carry the mark of a process that is gone."""
    for path in found:
        if not gone(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


def temporary(place: Path | None = None) -> tempfile.TemporaryDirectory[str]:
    """Temporary directory in `place` or the system's; outlives a crash of its tool."""
    parent = place or Path(tempfile.gettempdir())
    sweep(parent.glob("profkit-*"))
    return tempfile.TemporaryDirectory(prefix=f"profkit-{mark()}", dir=parent, ignore_cleanup_errors=True)


def is_stream(path: Path) -> bool:
    """Whether a path is a device or pipe, which is written into, never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file atomically (temporary, fsync, replace); into a stream as it is."""
    try:
        if is_stream(path):
            path.write_bytes(data)
            return
        sweep(path.parent.glob(f".{glob.escape(path.name)}.*"))
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.{mark()}", dir=path.parent)
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


def read_rows(file: Path) -> list[list[str]]:
    """Rows of a CSV file, the header first; [] without a file."""
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))


def write_rows(file: Path, rows: Iterable[Iterable[object]]) -> None:
    """A whole CSV file or nothing."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_atomic(file, text.getvalue().encode())


def sha256(path: Path) -> str:
    """Hex digest of a file's content, which is never held whole."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 18):
            digest.update(block)
    return digest.hexdigest()
