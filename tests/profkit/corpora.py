"""The corpora of candidates in tests/data: which file belongs to which run, and what it must be called."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent.parent / "data"
_HEADER = re.compile(r"^# (\w+): (.*)$", re.M)


@dataclass(frozen=True)
class Entry:
    """A candidate of a corpus. `expect`: "status NAME [words of the reason]" or "doubt NAME"; `runs`: cpu, gpu, ..."""

    file: Path
    expect: str
    runs: str

    @property
    def name(self) -> str:
        return self.file.stem


def entries(folder: Path, runs: str) -> list[Entry]:
    """The candidates of a folder that run there, by the comments on top of each file."""
    found = []
    for file in sorted(folder.glob("*.py")):
        head = dict(_HEADER.findall(file.read_text().partition('"""')[0]))
        if head.get("runs") == runs:
            found.append(Entry(file, head.get("expect", ""), head["runs"]))
    return found


def as_sample(folder: Path, chosen: Iterable[Entry], into: Path) -> Path:
    """A sample folder with the corpus's reference and these candidates."""
    into.mkdir(parents=True)
    for file in (folder / "reference.py", *(entry.file for entry in chosen)):
        shutil.copy(file, into / file.name)
    return into
