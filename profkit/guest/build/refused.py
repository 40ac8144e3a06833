"""Results of compilers, kept so that a campaign never repeats a build."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from profkit.guest.build import alias
from profkit.guest.whole import CannotWriteError, whole_file


class BuildFailedError(RuntimeError):
    """The compiler refused this source earlier in the campaign; the message is its output."""


_TRANSIENT = re.compile(
    r"No space left|quota exceeded|out of memory|Killed|Kill signal|died due to signal|Terminated|Cannot allocate", re.I
)
_BUILT = "built.json"
_HEADERS = {".h", ".hpp", ".cuh", ".inl"}
_ASKS = re.compile(r"cuda\.(is_available|device_count|get_device|current_device)")


def remember(file: Path, cache: Path, key: str, campaign: str, error: Exception) -> None:
    """Keep a compiler's error for a campaign; not if transient or if the source queries the GPU."""
    text = str(error)
    if not _ASKS.search(file.read_text("utf-8", "replace")):
        _keep(_failure(cache, key), campaign, text)


def _failure(cache: Path, key: str) -> Path:
    return cache / f"{key}.failed"


def known(cache: Path, key: str, campaign: str) -> None:
    """Raise BuildFailedError when the compiler has refused this build in this campaign."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        kept = json.loads(_failure(cache, key).read_text("utf-8"))
        if campaign and kept["campaign"] == campaign:
            raise BuildFailedError(kept["error"])


def unbuilt(errors: Mapping[str, str]) -> str:
    """One line of the compiler's output where it refused every build so far; "" otherwise."""
    said = [text for text in errors.values() if text]
    if not said or len(said) < len(errors):
        return ""
    found = re.search(r"\berror: *(.+)", said[0])
    return (found[1] if found else said[0].partition("\n")[0]).strip()[:200]


def extensions(file: Path, campaign: str) -> Mapping[str, str]:
    """Intercept torch's builds; returns the last error of each by directory, "" for success.

    A build refused in this campaign fails at once, and a finished one is not repeated. So a candidate that catches
    the error does not compile while it holds the GPU.
    """
    errors: dict[str, str] = {}
    if "cpp_extension" not in file.read_text("utf-8", "replace"):
        return errors
    from torch.utils import cpp_extension

    cpp_extension._run_ninja_build = _asked_once(cpp_extension._run_ninja_build, campaign, errors)
    alias.under_one_name(cpp_extension)
    return errors


def _asked_once(build: Callable[..., Any], campaign: str, errors: dict[str, str]) -> Callable[..., Any]:
    def asked(build_directory: str, *rest: Any, **more: Any) -> Any:
        place, key = Path(build_directory), ""
        try:
            known(place, key := _digest(place), campaign)
            if (there := _libraries(place)) and _built(place) == {"campaign": campaign, "key": key, "libraries": there}:
                errors[place.name] = ""
                return None
            found = build(build_directory, *rest, **more)
        except RuntimeError as error:
            errors[place.name] = str(error) or "refused"
            if not isinstance(error, BuildFailedError):
                _keep(_failure(place, key), campaign, str(error))
            raise
        errors[place.name] = ""
        if campaign and _libraries(place):
            with contextlib.suppress(CannotWriteError), whole_file(place / _BUILT) as stream:
                json.dump({"campaign": campaign, "key": key, "libraries": _libraries(place)}, stream)
        return found

    return asked


def _built(place: Path) -> Any:
    """The last build of a directory; None where unknown."""
    with contextlib.suppress(OSError, ValueError):
        return json.loads((place / _BUILT).read_text("utf-8"))
    return None


def _libraries(place: Path) -> dict[str, list[int]]:
    """Size and time of each library in a directory, by its name."""
    found = {one.name: one.stat() for one in sorted(place.glob("*.so"))}
    return {name: [one.st_size, one.st_mtime_ns] for name, one in found.items()}


def _digest(place: Path) -> str:
    """Digest of a build directory's sources and commands; random where unreadable."""
    found = hashlib.sha256()
    try:
        inside = [one for one in sorted(place.iterdir()) if one.suffix in (".ninja", ".cpp", ".cu", ".cuh", ".h")]
        steps = re.findall(r"^build .*: *\w*compile (.+)$", _steps(place / "build.ninja"), re.M)
        sources = [Path(step.strip()) for step in steps]
        # Sources may include neighbouring headers.
        folders = sorted({one.parent for one in sources} - {place})
        beside = [one for folder in folders for one in sorted(folder.iterdir()) if one.suffix in _HEADERS]
        for one in [*inside, *sources, *beside]:
            if one.is_file():
                data = one.read_bytes()
                if one.suffix == ".ninja":
                    data = _steps(one).encode()
                    for known_as, path in ((b"%", place), (b".", Path.cwd())):
                        data = data.replace(f"{path}/".encode(), known_as + b"/")
                found.update(f"{one.name}\0{len(data)}\0".encode() + data)
    except OSError:
        found.update(os.urandom(16))
    return found.hexdigest()[:24]


def _steps(file: Path) -> str:
    """A ninja file with its escapes resolved."""
    return re.sub(r"\$([ :$])", r"\1", file.read_text("utf-8", "replace")) if file.is_file() else ""


def _keep(file: Path, campaign: str, text: str) -> None:
    if campaign and not _TRANSIENT.search(text):
        with whole_file(file) as stream:
            json.dump({"campaign": campaign, "error": text}, stream)
