"""Builds of extensions: compiler errors, and one name for equal builds."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from profkit.errors import ProfkitError
from profkit.rundir.files import write_atomic

_TRANSIENT = re.compile(
    r"No space left|quota exceeded|out of memory|Killed|Kill signal|died due to signal|Terminated|Cannot allocate", re.I
)
_ERROR = re.compile(r"^(?:[^\s:]*/)?(\S.*\b(?:error|fatal) *: *.+)$", re.M)
_COMPILED = re.compile(r"^build \S+: \w*compile (\S+)$", re.M)
_FLAGS = re.compile(r"^\w*flags = .*$", re.M)
"""Lines of build.ninja with sources and compiler flags."""


def unbuilt(errors: Mapping[str, str]) -> str:
    """One line of the compiler's output if every build so far failed, else ""."""
    said = [text for text in errors.values() if text]
    if not said or len(said) < len(errors):
        return ""
    return refusal(said[0])[:200]


def refusal(output: str) -> str:
    """First error without the file's folder; Triton's last line; else the first line."""
    found, lines = _ERROR.search(output), output.strip().splitlines() or [""]
    # Triton: "at LINE:COLUMN:", the source up to a caret, and what is wrong.
    return (found[1] if found else lines[-1 if lines[0].startswith("at ") else 0]).strip()


def followed(file: Path, campaign: str = "") -> Mapping[str, str]:
    """Intercept torch's builds; returns the last error of each by directory, "" for success.

    campaign: sources that failed to compile in this campaign are not compiled again.
    """
    errors: dict[str, str] = {}
    if "cpp_extension" in file.read_text("utf-8", "replace"):
        from torch.utils import cpp_extension

        cpp_extension._run_ninja_build = _noted(cpp_extension._run_ninja_build, errors, campaign)
        for builder in ("load", "load_inline"):
            setattr(cpp_extension, builder, _under_one_name(getattr(cpp_extension, builder)))
    return errors


def _noted(build: Callable[..., Any], errors: dict[str, str], campaign: str) -> Callable[..., Any]:
    def noted(build_directory: str, _verbose: bool, error_prefix: str) -> Any:
        folder = Path(build_directory)
        kept, key = folder / "refused.json", _asked(folder) if campaign else ""
        with contextlib.suppress(OSError, ValueError):
            said = json.loads(kept.read_text("utf-8")) if key else []
            if said[:2] == [campaign, key]:
                errors[folder.name] = said[2]
                raise RuntimeError(said[2])
        try:
            # With verbose=True the compiler's words would go to stdout, and not into the error.
            found = build(build_directory, False, error_prefix)
        except RuntimeError as error:
            errors[folder.name] = str(error) or "refused"
            if key and not _TRANSIENT.search(str(error)):
                with contextlib.suppress(ProfkitError):
                    write_atomic(kept, json.dumps([campaign, key, str(error)]).encode())
            raise
        errors[folder.name] = ""
        return found

    return noted


def _asked(folder: Path) -> str:
    """Hash of a build's sources and flags; "" if unreadable."""
    with contextlib.suppress(OSError):
        rules = (folder / "build.ninja").read_text("utf-8", "replace")
        parts = [Path(source).read_bytes() for source in _COMPILED.findall(rules)]
        return hashlib.sha256(b"\0".join([*parts, *(line.encode() for line in _FLAGS.findall(rules))])).hexdigest()
    return ""


def _under_one_name(build: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the builder to reuse the name of an equal build, for names with a process id or time."""
    signature = inspect.signature(build)

    @functools.wraps(build)
    def named(*arguments: Any, **more: Any) -> Any:
        bound = signature.bind(*arguments, **more)
        bound.arguments["name"] = _first_name(bound.arguments)
        return build(*bound.args, **bound.kwargs)

    return named


def _first_name(asked: Mapping[str, Any]) -> str:
    """Name of the first equal build; its own if operators or a directory depend on it."""
    name, root = str(asked["name"]), os.environ.get("TORCH_EXTENSIONS_DIR", "")
    sources = asked.get("sources") or ()
    text = repr(sorted((key, value) for key, value in asked.items() if key not in ("name", "verbose")))
    for one in [sources] if isinstance(sources, str) else sources:
        with contextlib.suppress(OSError, TypeError):
            text += Path(one).read_text("utf-8", "replace")
    if not root or asked.get("build_directory") or not asked.get("is_python_module", True) or "TORCH_LIBRARY" in text:
        return name
    file = Path(root) / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.name"
    with contextlib.suppress(OSError):
        return file.read_text("utf-8")
    with contextlib.suppress(ProfkitError):
        write_atomic(file, name.encode())
    return name
