"""Source lines of findings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from profkit.rundir.files import sha256

if TYPE_CHECKING:
    from analyzers.kernels.source_lines import Line
    from profkit.study.study import Study


def place_of(study: Study, impl: str, kernel: str = "") -> str | None:
    """ "file:line" of the line the kernel waits for most, else of its definition."""
    file, lines = _source(study, impl)
    waits = [one for one in study.lines if (one.impl, one.kernel) == (impl, kernel) and one.number]
    if waits:
        at = _where(waits, lines)
        return f"{file.name}:{at}" if file is not None and at else f"{Path(waits[0].file).name}:{waits[0].number}"
    at = _definition(study, impl, kernel, lines)
    return f"{file.name}:{at}" if file is not None and at else None


def _source(study: Study, impl: str) -> tuple[Path | None, Sequence[str]]:
    """File of an implementation and its lines; no lines where it changed since."""
    sample = study.manifest.sample
    listed = sample.files.get(impl)
    if listed is None:
        return None, ()
    file = Path(sample.path) / listed.path
    same = file.is_file() and sha256(file) == listed.sha256
    return file, file.read_text("utf-8", "replace").splitlines() if same else ()


def _where(waits: Sequence[Line], lines: Sequence[str]) -> int:
    """Line of the first of them in the file, 0 if absent; a CUDA string has its own numbers."""
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
