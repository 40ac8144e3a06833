"""Folders for files, restrictions of candidates, and the process that keeps torch imported."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from profkit.doctor.finding import Finding, Status
from profkit.launch import warm
from profkit.launch.walls import caveat, version
from roofline import units

_LOW = 1 << 30
_EMPTY = 50 << 20


def disks(runs: Path, cache: Path) -> Iterator[Finding]:
    """Free space and permissions of the folders for runs, builds and temporary files."""
    yield _disk("runs folder", runs, "fail", "choose another place: --runs DIR")
    yield _disk("build cache", cache, "warn", "set PROFKIT_CACHE to a writable directory with room")
    yield _disk("temporary files", Path(tempfile.gettempdir()), "warn", "set TMPDIR to a writable directory with room")


def _disk(name: str, path: Path, bad: Status, fix: str) -> Finding:
    there = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.is_dir())
    if not os.access(there, os.W_OK | os.X_OK):
        return Finding(name, bad, f"{path}: {there} is not writable", fix)
    free = shutil.disk_usage(there).free
    room = f"{path}: {units.text(free, 'B')} free"
    if name == "build cache" and os.statvfs(there).f_flag & os.ST_NOEXEC:
        return Finding(name, "warn", f"{room}, but mounted noexec: built extensions cannot be loaded", fix)
    status: Status = "ok" if free >= _LOW else bad if free < _EMPTY else "warn"
    return Finding(name, status, room, "" if status == "ok" else fix)


def walls() -> Iterator[Finding]:
    """Whether the kernel can restrict candidates."""
    if (lacks := caveat()) is None:
        yield Finding("walls", "ok", f"Landlock {version()}: candidates write only into folders of their own")
    else:
        yield Finding("walls", "warn", f"{lacks['what']}; {lacks['how_much']}", lacks["fix"])


def servers() -> Iterator[Finding]:
    """The process that keeps torch imported for the next command."""
    lines = [line for name in warm.running() if (line := warm.joined(name)) is not None]
    found = ", ".join(str(warm.peer(line)[0]) for line in lines)
    for line in lines:
        line.close()
    what = f"process {found} keeps torch imported; it leaves after 15 idle minutes (or kill it)"
    why = "the next `profkit profile` starts one" if warm.wanted() else "none is started here, --server asks for it"
    yield Finding("server", "ok", what if found else f"torch is not kept imported: {why}")
