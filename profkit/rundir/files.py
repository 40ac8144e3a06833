"""Atomic files, full disks, and temporary folders of killed processes.

A temporary file's name contains its owner's mark: machine and process number. The next process that makes one
removes those of ended owners.
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
"""Error numbers for a lack of space."""
ROOM = "free some disk space, or raise the limit on files (ulimit -f); what was written before is untouched"
"""Fix of every error about a full disk."""
_FIXES = {
    errno.ENOENT: "the directory is gone, or never was: name one that is there, or run it again where nothing removes it",
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "a file stands where a directory would be: name another"),
    errno.EMFILE: "raise the limit on open files: ulimit -n 4096",
    errno.EISDIR: "a directory stands there: name a file",
    errno.EBUSY: "a directory stands there: name a file",
}


def unwritable(path: str | os.PathLike[str], error: OSError) -> ProfkitError:
    """Error for a `path` that could not be written; says so if the disk is full."""
    return ProfkitError(
        f"cannot write {os.fspath(path)}: {error.strerror}",
        fix=ROOM
        if error.errno in FULL
        else _FIXES.get(error.errno or 0, "check the permissions of it and its directory"),
    )


@cache
def _machine() -> str:
    """Eight characters of the process namespace, as containers may share a folder."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:8]


def owner() -> str:
    """Unique id of this process: machine, number, and start time."""
    return f"{_machine()}-{os.getpid()}-{_began(os.getpid())}"


def mark() -> str:
    """Mark of this process in the names of its temporary files."""
    return f"{owner()}-"


def gone(text: str) -> bool:
    """Whether the process named in `text` has ended; False for another machine's."""
    found = re.search(rf"{_machine()}-(\d+)-(\d*)(?:-|$)", text)
    return found is not None and _began(int(found[1])) != found[2]


def _began(pid: int) -> str:
    """Start time of a process in kernel ticks; "" if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def sweep(found: Iterable[Path]) -> None:
    """Remove files and folders among `found` with the mark of an ended process."""
    for path in found:
        if not gone(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


MEMORY = Path("/dev/shm")
"""A folder in memory, where there is one."""


def sweep_temporary() -> None:
    """Remove what ended processes left in the system's temporary directory and in MEMORY."""
    for parent in (Path(tempfile.gettempdir()), MEMORY):
        sweep(parent.glob("profkit-*"))


def temporary(place: Path | None = None) -> tempfile.TemporaryDirectory[str]:
    """Temporary directory in `place` or the system's; survives a crash of its tool."""
    parent = place or Path(tempfile.gettempdir())
    sweep(parent.glob("profkit-*"))
    return tempfile.TemporaryDirectory(prefix=f"profkit-{mark()}", dir=parent, ignore_cleanup_errors=True)


def is_stream(path: Path) -> bool:
    """Whether a path is a device or pipe, which is written to, never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file atomically (temporary, fsync, replace); a stream directly."""
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


def write_rows(file: Path, rows: Iterable[Iterable[object]]) -> None:
    """Write a CSV file atomically."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_atomic(file, text.getvalue().encode())


def sha256(path: Path) -> str:
    """Hex digest of a file, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 18):
            digest.update(block)
    return digest.hexdigest()
