"""Where this process runs (container, WSL2) and where its files would go."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from profkit.doctor.finding import Finding, Status
from profkit.launch import warm
from profkit.launch.walls import caveat, missing, version

_CONTAINER_WORDS = ("docker", "kubepods", "containerd", "libpod", "lxc")
_LOW = 1 << 30
_EMPTY = 50 << 20


@dataclass(frozen=True)
class Place:
    """The kinds of box this process may be in; more than one can be true."""

    container: bool = False
    wsl2: bool = False

    @property
    def permission_fix(self) -> str:
        """How counters are allowed here, after ERR_NVGPUCTRPERM."""
        module = "put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into a file in /etc/modprobe.d and reboot"
        if self.wsl2:
            return (
                "in Windows: NVIDIA Control Panel > Desktop > Enable Developer Settings, then Developer > Manage GPU "
                "Performance Counters > allow access to all users; then `wsl --shutdown`"
            )
        if self.container:
            return (
                "start the container with --cap-add=SYS_ADMIN (Kubernetes: securityContext.capabilities.add "
                f"[SYS_ADMIN]); or, as administrator of the host, {module}"
            )
        return f"run with sudo; or, as administrator, {module}"


def surroundings(root: Path = Path("/")) -> Place:
    """Detect containers and WSL2; `root` is where /proc lies."""
    cgroup = _read(root / "proc/1/cgroup")
    container = (root / ".dockerenv").exists() or (root / "run/.containerenv").exists()
    return Place(
        container=container or any(word in cgroup for word in _CONTAINER_WORDS),
        wsl2="microsoft" in _read(root / "proc/version").lower(),
    )


def _read(path: Path) -> str:
    """What a file of /proc says, "" where it cannot be read."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


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
    room = f"{path}: {free / 1e9:.3g} GB free"
    if free < _LOW:
        return Finding(name, bad if free < _EMPTY else "warn", room, fix)
    if name == "build cache" and os.statvfs(there).f_flag & os.ST_NOEXEC:
        return Finding(name, "warn", f"{room}, but mounted noexec: built extensions cannot be loaded", fix)
    return Finding(name, "ok", room)


def walls() -> Finding:
    """Whether the kernel can keep candidates in."""
    lacks = missing()
    if not lacks:
        return Finding("walls", "ok", f"Landlock {version()}: candidates write only into folders of their own")
    said = caveat() or {}
    return Finding("walls", "warn", f"the kernel does not keep candidates in: {', '.join(lacks)}", said.get("fix", ""))


def servers() -> Finding:
    """The process that keeps torch imported for the next command."""
    lines = [line for name in warm.running() if (line := warm.joined(name)) is not None]
    found = ", ".join(str(warm.peer(line)[0]) for line in lines)
    for line in lines:
        line.close()
    what = f"process {found} keeps torch imported; it leaves after 15 idle minutes (or kill it)"
    why = "the next `profkit profile` starts one" if warm.wanted() else "none is started here, --server asks for it"
    return Finding("server", "ok", what if found else f"torch is not kept imported: {why}")
