"""A task and its solutions as source texts of a sample, and names in such texts."""

from __future__ import annotations

import io
import keyword
import math
import re
import tokenize
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collectors.caveat import Caveat
from profkit.errors import ProfkitError
from profkit.record.profile import Answer, profile
from profkit.rundir.files import temporary, write_atomic

if TYPE_CHECKING:
    from profkit.launch.protocol import Progress
    from profkit.record.request import Request
    from profkit.study.study import Study

REFERENCE, CANDIDATE = "reference.py", "candidate"
GETTERS = '''

class _More:
    """Every other case, drawn when asked for."""

    def __len__(self):
        return len(_CASES) - 1

    def __getitem__(self, place):
        return _drawn(_CASES[1:][place])


def get_inputs():
    return _drawn(_CASES[0])


def get_more_inputs():
    return _More()


def get_init_inputs():
    return []
'''
"""Getters of a reference whose text has _CASES, the timed one first, and _drawn(case): inputs of one call."""


@dataclass(frozen=True)
class Sources:
    """`reference`: text with Model and getters; `candidates`: name -> text with ModelNew.

    `caveats`: about making these texts. `beside`: other files that the texts import, by name.
    """

    name: str
    reference: str
    candidates: Mapping[str, str]
    caveats: tuple[Caveat, ...] = field(default=())
    beside: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the files of the sample into an existing folder."""
        write_atomic(folder / REFERENCE, self.reference.encode())
        for name, text in self.candidates.items():
            write_atomic(folder / f"{name}.py", text.encode())
        for name, text in self.beside.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomic(folder / name, text.encode())

    @contextmanager
    def as_sample(self) -> Iterator[Path]:
        """A temporary sample folder of these sources, with their name."""
        with temporary() as place:
            folder = Path(place) / self.name
            folder.mkdir()
            self.write(folder)
            yield folder

    def measure(self, request: Request, progress: Progress = lambda _: None, answer: Answer = lambda _: None) -> Study:
        """Profile the sample; its files are in the run's directory. `answer`: see record.profile.

        Raises ProfkitError, for instance if a candidate does not parse.
        """
        from profkit.study.study import Study

        with self.as_sample() as folder:
            run = profile(folder, request=request, progress=progress, answer=answer)
            self.write(run.path)
        run.manifest.caveats += self.caveats
        run.manifest.sample.path = str(run.path)
        run.save()
        return Study(run)

    def on(self, device: str) -> Sources:
        """Sources for a device; on "cpu" every string "cuda" becomes "cpu", with a caveat."""
        if device != "cpu":
            return self
        candidates = {name: _on_cpu(text) for name, text in self.candidates.items()}
        beside = {name: _on_cpu(text) if name.endswith(".py") else text for name, text in self.beside.items()}
        moved = replace(self, reference=_on_cpu(self.reference), candidates=candidates, beside=beside)
        if moved == self:
            return self
        what = 'the strings "cuda" of the task and of the submissions were read as "cpu"'
        caveat = Caveat(what, "", "measure it on a GPU, as intended", "moved-to-cpu")
        return replace(moved, caveats=(*self.caveats, caveat))


def _on_cpu(text: str) -> str:
    cuda = re.compile(r"""(['"])cuda(:0)?\1""")
    return _replaced(text, lambda _, one: '"cpu"' if one.type == tokenize.STRING and cuda.fullmatch(one.string) else "")


def _replaced(text: str, change: Callable[[str, tokenize.TokenInfo], str]) -> str:
    """The text with replaced tokens: `change` of the previous and this token, "" to keep it."""
    lines, tokens = text.splitlines(keepends=True), list(tokenize.generate_tokens(io.StringIO(text).readline))
    for before, token in reversed(list(zip(["", *(one.string for one in tokens)], tokens, strict=False))):
        if new := change(before, token):
            (row, column), line = token.start, lines[token.start[0] - 1]
            lines[row - 1] = line[:column] + new + line[column + len(token.string) :]
    return "".join(lines)


def size_of(sizes: Mapping[str, Any]) -> float:
    """Product of the sizes of a case; a list counts as its sum."""
    numbers = [sum(v) if isinstance(v, list) else v for v in sizes.values()]
    return math.prod(float(v) for v in numbers if isinstance(v, (int, float)) and not isinstance(v, bool) and v > 1)


def one_timed(sizes: Mapping[str, Any], count: int) -> Caveat:
    said = ", ".join(f"{key} {value}" for key, value in sizes.items())
    what = "the contest scores all cases; the others are checked, not timed"
    return Caveat(f"timed on one case of {count}: {said}", what, "", "one-case-timed")


def own_tolerance(limits: str) -> Caveat:
    """Caveat that the contest has its own limits, as in "rtol 0.01"."""
    what = f"the task's own tolerance is {limits}"
    return Caveat(what, "profkit measures bits against the reference in float64", "", "own-tolerance")


def pair(name: str, reference: str, candidate: str) -> Sources:
    return Sources(name, reference, {CANDIDATE: candidate})


def write_new(sources: Sources, folder: Path) -> Path:
    """Write a sample folder of the sources. Raises ProfkitError if it exists."""
    if folder.exists() and any(folder.iterdir()):
        raise ProfkitError(f"{folder} exists and is not empty", fix="choose another --output")
    folder.mkdir(parents=True, exist_ok=True)
    sources.write(folder)
    return folder


def rename_names(text: str, names: Mapping[str, str]) -> str:
    """Replace names by token. Raises tokenize.TokenError or SyntaxError for other text."""
    return _replaced(
        text, lambda before, one: names.get(one.string, "") if one.type == tokenize.NAME and before != "." else ""
    )


def used_names(text: str) -> set[str]:
    """Every identifier of the text, attributes too."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {t.string for t in tokens if t.type == tokenize.NAME and not keyword.iskeyword(t.string)}
