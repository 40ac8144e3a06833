"""Aliasing of extensions that differ in their names alone.

Many candidates put a process id or the time into the name, so every process would compile again. The first name of a
build is kept beside it and replaces later ones. An empty build directory of its own is ignored.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from profkit.guest.whole import CannotWriteError, whole_file

_SILENT = ("name", "verbose")


def under_one_name(cpp_extension: ModuleType) -> None:
    """Build one extension under one name in torch's `load` and `load_inline`."""
    taken: dict[str, str] = {}
    for builder in ("load", "load_inline"):
        setattr(cpp_extension, builder, _under_one_name(getattr(cpp_extension, builder), taken))


def _under_one_name(build: Callable[..., Any], taken: dict[str, str]) -> Callable[..., Any]:
    """taken: name of a build of this process -> the requested name."""
    signature = inspect.signature(build)

    @functools.wraps(build)
    def named(*arguments: Any, **more: Any) -> Any:
        try:
            bound = signature.bind(*arguments, **more)
        except TypeError:
            return build(*arguments, **more)
        if _is_empty(bound.arguments.get("build_directory")) and bound.arguments.get("is_python_module", True):
            del bound.arguments["build_directory"]
        name = bound.arguments["name"]
        other = _first_name(str(name), bound.arguments)
        if taken.setdefault(other, str(name)) == name:
            bound.arguments["name"] = other
        return build(*bound.args, **bound.kwargs)

    return named


def _first_name(name: str, asked: Mapping[str, Any]) -> str:
    """The name of the first equal build; its own where operators or a directory depend on it."""
    root = os.environ.get("TORCH_EXTENSIONS_DIR", "")
    text = repr(sorted((key, value) for key, value in asked.items() if key not in _SILENT)) + _texts(
        asked.get("sources")
    )
    if not root or asked.get("build_directory") or not asked.get("is_python_module", True) or "TORCH_LIBRARY" in text:
        return name
    file = Path(root) / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.name"
    with contextlib.suppress(OSError):
        return file.read_text("utf-8")
    with contextlib.suppress(CannotWriteError), whole_file(file) as stream:
        stream.write(name)
    return name


def _is_empty(folder: Any) -> bool:
    """Whether a directory is named and empty."""
    try:
        return bool(folder) and not os.listdir(folder)
    except OSError:
        return False


def _texts(sources: Any) -> str:
    """The contents of these files."""
    found = []
    for one in [sources] if isinstance(sources, str) else sources or ():
        with contextlib.suppress(OSError, TypeError):
            found.append(Path(one).read_text("utf-8", "replace"))
    return "\0".join(found)
