"""Where in somebody's files a finding stands: the line its kernel waits for, the kernel's definition, else the file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from profkit.rundir.files import sha256

if TYPE_CHECKING:
    from analyzers.kernels.source_lines import Line
    from profkit.study.study import Study


@dataclass(frozen=True)
class Place:
    """`path`: of a source file, POSIX; `line` counts from 1, 0 is the file as a whole; `text`: of that line, "" if unknown."""

    path: str
    line: int = 0
    text: str = ""


def place_of(study: Study, impl: str, kernel: str = "") -> Place | None:
    """The line that the kernel waits for most, where lines were recorded; else where the kernel is defined; else the file
    of the implementation. None where the run knows none of them. A file that has changed since tells no line.
    """
    file, lines = _source(study, impl)
    waits = [one for one in study.lines if (one.impl, one.kernel) == (impl, kernel) and one.number]
    if waits:
        at = _where(waits, lines)
        path = file.as_posix() if file is not None and at else waits[0].file
        return Place(path, at or waits[0].number, waits[0].text.strip())
    if file is None:
        return None
    at = _definition(study, impl, kernel, lines)
    return Place(file.as_posix(), at, lines[at - 1].strip() if at else "")


def _source(study: Study, impl: str) -> tuple[Path | None, Sequence[str]]:
    """The file of an implementation, None of a range; its lines, none where it is not the one that was measured."""
    sample = study.manifest.sample
    listed = sample.files.get(impl)
    if listed is None:
        return None, ()
    file = Path(sample.path) / listed.path
    same = file.is_file() and sha256(file) == listed.sha256
    return file, file.read_text("utf-8", "replace").splitlines() if same else ()


def _where(waits: Sequence[Line], lines: Sequence[str]) -> int:
    """Where the first of them stands among these lines, 0 if it does not.

    CUDA inside a string is compiled from a file of its own: its lines are those of the string, moved by one number.
    """
    first = waits[0]
    mine = {one.number: one.text.strip() for one in waits if one.file == first.file and one.text.strip()}
    moved = Counter(
        at - number for at, text in enumerate(lines, 1) for number, said in mine.items() if text.strip() == said
    )
    for shift, _ in moved.most_common():
        at = first.number + shift
        if 1 <= at <= len(lines) and lines[at - 1].strip() == first.text.strip():
            return at
    return 0


def _definition(study: Study, impl: str, kernel: str, lines: Sequence[str]) -> int:
    """The line that defines the kernel, 0 if none does."""
    known = next((one.kernels for one in study.manifest.impls if one.name == impl), [])
    name = next((one for one in known if one in kernel), "")
    head = re.compile(rf"(__global__.*|^void |^def |^\s*){re.escape(name)}\s*\(")
    return next((at for at, line in enumerate(lines, 1) if name and head.search(line)), 0)
