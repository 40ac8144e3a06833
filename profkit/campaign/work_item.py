"""One sample of a campaign: its files, what is built ahead, how it is measured."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from profkit.contests import door, formats
from profkit.contests.sources import pair
from profkit.errors import ProfkitError
from profkit.record.request import Request
from profkit.targets import backends
from profkit.targets.sample import resolve

if TYPE_CHECKING:
    from profkit.study.study import Study

_COMPILED = ("cuda", "cpp")


class WorkItem(msgspec.Struct, frozen=True):
    """One sample of a campaign. `key`: digest of files and request; `label`: for people.

    `sample`: probable name of its runs; `path`: a sample's folder or a task in another format, or the reference of a
    `candidate` file. `built`: files with extensions to build ahead; `reference`: has their get_init_inputs().
    """

    key: str
    label: str
    sample: str
    path: str
    candidate: str = ""
    built: tuple[str, ...] = ()
    reference: str = ""

    def measure(self, request: Request) -> Study:
        """Raises ProfkitError as `profkit profile` does."""
        if not self.candidate:
            return formats.measure(Path(self.path), request)
        texts = (_text(Path(self.path)), _text(Path(self.candidate)))
        return door.measure(pair(self.sample, *texts), request)


def of_folder(path: Path, request: Request) -> WorkItem:
    """The item of a sample's folder, or of a task in another format."""
    built: tuple[str, ...] = ()
    reference = ""
    try:
        sample = resolve(path)
    except ProfkitError:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
    else:
        files = sorted(path.iterdir())
        chosen = [one for one in sample.candidates if not request.only or one.name in request.only]
        chosen = [one for one in chosen if one.runs_on("cpu" if request.device == "cpu" else "cuda")]
        reference = str(sample.reference.resolve())
        built = tuple(str(one.path.resolve()) for one in chosen if one.backend in _COMPILED)
    name = path.resolve().name
    key = _key(files, request, name)
    return WorkItem(key, str(path), name, str(path.resolve()), built=built, reference=reference)


def of_pair(name: str, reference: Path, candidate: Path, request: Request) -> WorkItem:
    """One candidate against its reference."""
    built = (str(candidate.resolve()),) if backends.detect(_text(candidate)) in _COMPILED else ()
    files = (str(reference.resolve()), str(candidate.resolve()))
    key = _key((reference, candidate), request, name)
    return WorkItem(key, candidate.name, name, *files, built=built, reference=files[0])


def _text(file: Path) -> str:
    return file.read_text("utf-8", "replace")


def _key(files: Iterable[Path], request: Request, name: str) -> str:
    """Changes when a file or the request does."""
    asked = replace(request, runs=Path(), campaign="")
    digest = hashlib.sha256(encoded(asked) + name.encode())
    for file in files:
        if file.is_file():
            found = file.stat()
            digest.update(f"{file.name} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def encoded(thing: Any) -> bytes:
    return msgspec.json.encode(thing, enc_hook=str)


def decoded(data: bytes, kind: type[Any]) -> Any:
    """What `encoded` wrote. Raises msgspec.DecodeError."""
    return msgspec.json.decode(data, type=kind, dec_hook=lambda wanted, text: wanted(text))
