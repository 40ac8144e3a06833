"""Form of a GPUCodeForces submission: files, definitions, output lines."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from profkit.contests.prompt import blocks
from profkit.errors import ProfkitError
from profkit.targets.sample import Sample, is_sample, resolve
from profkit.targets.source import Source

ID = re.compile(r"I[A-Z0-9]{5}")
_EXAMPLE = re.compile(r"\d+-example")
"""Names of the organisers' own samples."""
ENTRY, PROMPT, README = "run_code.py", "prompt.txt", "readme.md"
_ASKED = {ENTRY: "the contest runs exactly this name", PROMPT: "it is the bonus point", README: "it is asked for"}
LINES = {
    "精度对齐验证": "-------------------- 精度对齐验证 --------------------",
    "✅ 精度对齐": "✅ 精度对齐：两个模型的输出结果非常接近。",
    "❌ 精度不一致": "❌ 精度不一致！",
    "平均执行时间: ": "<label> 平均执行时间: <seconds> 秒",
    "加速比 (Speedup): ": "加速比 (Speedup): <ratio>x",
}
BONUS = "P1"
"""Code of a prompt without a bonus; no reason for rejection."""


@dataclass(frozen=True)
class Defect:
    """`code`: F1 to F5 for a reason of rejection, or BONUS."""

    code: str
    file: Path
    what: str
    fix: str

    @property
    def rejects(self) -> bool:
        return self.code != BONUS

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"file": str(self.file), "rejects": self.rejects}


@dataclass(frozen=True)
class Checked:
    """Result of `check`; `sample` is None if the folder's roles cannot be resolved."""

    path: Path
    sample: Sample | None
    defects: tuple[Defect, ...]

    @property
    def form(self) -> tuple[Defect, ...]:
        """Defects that the contest's own check rejects."""
        return tuple(defect for defect in self.defects if defect.rejects)


def submissions(folder: Path) -> list[Path]:
    """Submissions in a season, broken and misnamed ones too; else the folder itself."""
    if not folder.is_dir() or ID.fullmatch(folder.resolve().name) or _is_submission(folder):
        return [folder]
    inside = [one for one in sorted(folder.iterdir()) if one.is_dir() and not one.name.startswith(".")]
    return [one for one in inside if ID.fullmatch(one.name) or _is_submission(one)] or [folder]


def _is_submission(folder: Path) -> bool:
    return (folder / ENTRY).is_file() or (folder / PROMPT).is_file() or is_sample(folder)


def check(folder: Path) -> Checked:
    """Check the form of a submission folder. Raises ProfkitError if there is no such folder."""
    if not folder.is_dir():
        resolve(folder)
    found = list(_files(folder))
    try:
        sample = resolve(folder)
    except ProfkitError as error:
        if not any(defect.code == "F4" and str(error).startswith(str(defect.file)) for defect in found):
            what = str(error).removeprefix(f"{folder}: ").replace(f"{folder}{os.sep}", "")
            found.append(Defect("F1", folder, what, error.fix))
        return Checked(folder, None, tuple(found))
    for candidate in sample.candidates:
        try:
            Source.read(candidate.path)
        except ProfkitError as error:
            found.append(_unparsable(candidate.path, error))
    if sample.prompt is not None:
        found += _prompt(sample.prompt, sample.reference.read_text("utf-8", "replace"))
    return Checked(folder, sample, tuple(found))


def _files(folder: Path) -> Iterator[Defect]:
    name = folder.resolve().name
    if not ID.fullmatch(name) and not _EXAMPLE.fullmatch(name):
        what = "the folder is not named after an issue id (I and five more)"
        yield Defect("F2", folder, what, "rename it, without the #")
    there = {file.name if file.name == ENTRY else file.name.lower() for file in folder.iterdir()}
    for asked, why in _ASKED.items():
        if asked not in there:
            fix = "copy it from a folder that `profkit new` writes; `profkit prompt` writes the prompt"
            yield Defect("F3", folder / asked, f"missing: {why}", fix)
    if (folder / ENTRY).is_file():
        yield from _entry(folder / ENTRY)


def _unparsable(path: Path, error: ProfkitError) -> Defect:
    return Defect("F4", path, str(error).removeprefix(str(path)).lstrip(",: "), error.fix)


def _entry(path: Path) -> Iterator[Defect]:
    try:
        source = Source.read(path)
    except ProfkitError as error:
        yield _unparsable(path, error)
        return
    text = "\n".join(source.strings())
    for part, line in LINES.items():
        if part not in text:
            fix = "print it word for word: it is what the contest shows"
            yield Defect("F5", path, f"never prints the line `{line}`", fix)


def _prompt(path: Path, reference: str) -> Iterator[Defect]:
    """Why a prompt earns nothing: it is cut, or lacks the reference."""
    fix = "`profkit prompt FOLDER` writes one that ends with the reference"
    fenced, whole = blocks(path.read_text("utf-8", "replace"))
    if not whole:
        yield Defect(BONUS, path, "its last fence is never closed: the prompt breaks off", fix)
    elif not any(_code(reference) in _code(block) for block in fenced):
        yield Defect(BONUS, path, "the reference to optimise is not in the prompt as it is in the folder", fix)


def _code(text: str) -> str:
    """The text without blanks, comments and docstrings."""
    return re.sub(r"\s+", "", re.sub(r'"""[\s\S]*?"""|#[^\n]*', "", text))
