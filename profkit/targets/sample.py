"""A sample folder: which file is the reference, which are candidates.

Contents decide, as published rules on file names contradict each other: the reference is the file that defines
`Model`, `get_inputs` and `get_init_inputs`; a candidate is a file that defines `ModelNew`. Names only break ties
and name the candidates.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from profkit.errors import ProfkitError
from profkit.targets import backends
from profkit.targets.source import Source
from profkit.targets.target import Part

_REFERENCE_NAMES = {"Model", "get_inputs", "get_init_inputs"}
_CANDIDATE = re.compile(r"^class ModelNew\b", re.M)
_HINTS = ("example_torchcode.py", "torchcode.py", "reference.py", "model.py")
_PLAIN = {"example_cudacode": "cuda", "cudacode_opt": "cuda", "example_cppcode": "cpp", "cudacode_ori": "ori"}


@dataclass(frozen=True)
class Sample:
    """A unit of work: the reference, its candidates, and the other files of the folder."""

    id: str
    path: Path
    reference: Path
    candidates: tuple[Part, ...]
    prompt: Path | None = None
    kind: str = "folder"

    @property
    def parts(self) -> tuple[Part, ...]:
        return Part("reference", self.reference, "torch", "reference"), *self.candidates


def resolve(path: Path) -> Sample:
    """Find the roles in a folder. Raises ProfkitError with the missing role."""
    if path.is_file():
        raise ProfkitError(f"{path} is a file, but a sample is a folder", fix=f"name its folder: {path.parent}")
    if not path.is_dir():
        raise ProfkitError(f"{path}: no such sample folder", fix=_suggest(path))
    names = {file: _names(file) for file in sorted(path.glob("*.py"))}
    reference = _reference(path, names)
    candidates = tuple(
        Part(
            _PLAIN.get(file.stem, re.sub(r"^(example_|cudacode_)|(_?code)$", "", file.stem) or file.stem),
            file,
            backends.detect(file.read_text("utf-8", "replace")),
        )
        for file, defined in names.items()
        if "ModelNew" in defined
    )
    if not candidates:
        raise ProfkitError(
            f"{path}: no candidate: no .py file here defines ModelNew",
            fix="add a file with `class ModelNew(nn.Module)`, for example example_cudacode.py",
        )
    return Sample(
        id=path.resolve().name,
        path=path,
        reference=reference,
        candidates=_unique(candidates),
        prompt=prompt if (prompt := path / "prompt.txt").is_file() else None,
    )


def _names(file: Path) -> set[str]:
    """Names a file defines; a candidate that does not parse counts as one and fails on load."""
    try:
        return defined_names(file)
    except ProfkitError:
        if _CANDIDATE.search(file.read_text("utf-8", "replace")):
            return {"ModelNew"}
        raise


def find_samples(root: Path) -> list[Path]:
    """Folders directly below `root` that hold a reference, sorted by name."""
    if not root.is_dir():
        raise ProfkitError(f"{root}: no such folder", fix=_suggest(root))
    return [folder for folder in sorted(root.iterdir()) if folder.is_dir() and is_sample(folder)]


def is_sample(folder: Path) -> bool:
    """Whether a file of the folder has a reference's or a candidate's contents."""
    for file in folder.glob("*.py"):
        try:
            defined = defined_names(file)
        except ProfkitError:
            return True
        if defined >= _REFERENCE_NAMES or "ModelNew" in defined:
            return True
    return False


def defined_names(file: Path) -> set[str]:
    """Top-level classes, functions and assigned names of a Python file. Raises ProfkitError."""
    return Source.read(file).names


def _reference(path: Path, names: dict[Path, set[str]]) -> Path:
    found = [file for file, defined in names.items() if defined >= _REFERENCE_NAMES]
    pure = [file for file in found if "ModelNew" not in names[file]] or found
    if not pure:
        have = set().union(*names.values()) if names else set()
        missing = ", ".join(sorted(_REFERENCE_NAMES - have)) or "all of them in one file"
        raise ProfkitError(
            f"{path}: no reference: no .py file defines Model, get_inputs and get_init_inputs (missing: {missing})",
            fix="add example_torchcode.py with those three",
        )
    if len(pure) > 1:
        hinted = [file for hint in _HINTS for file in pure if file.name == hint]
        if not hinted:
            raise ProfkitError(
                f"{path}: more than one reference: {', '.join(file.name for file in pure)}",
                fix="keep one, or name it example_torchcode.py",
            )
        return hinted[0]
    return pure[0]


def _unique(candidates: tuple[Part, ...]) -> tuple[Part, ...]:
    names = [candidate.name for candidate in candidates]
    clash = {name for name in names if names.count(name) > 1 or name == "reference"}
    return tuple(Part(c.path.stem, c.path, c.backend) if c.name in clash else c for c in candidates)


def _suggest(path: Path) -> str:
    parent = path.parent
    names = [child.name for child in parent.iterdir() if child.is_dir()] if parent.is_dir() else []
    close = difflib.get_close_matches(path.name, names, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(str(parent / name) for name in close) + "?"
    return "name a folder with a reference and a candidate; `profkit new` makes one"
