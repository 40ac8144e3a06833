"""The form of a GPUCodeForces submission: which files, what they define, which lines the entry prints."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from profkit.contests.gpucodeforces.defect import Defect, once
from profkit.contests.gpucodeforces.lint_entry import empties_l2, lint_entry
from profkit.contests.gpucodeforces.lint_kernel import build_names, lint_kernel
from profkit.contests.gpucodeforces.lint_prompt import lint_prompt
from profkit.contests.gpucodeforces.sizes import has_parameters, working_set
from profkit.errors import ProfkitError
from profkit.targets.sample import Candidate, Sample, is_sample, resolve
from profkit.targets.source import Source

ID = re.compile(r"I[A-Z0-9]{5}")
_SEASON = re.compile(r"S\d+")
_EXAMPLE = re.compile(r"\d+-example")
"""How the organisers name samples of their own."""
ENTRY, PROMPT, README = "run_code.py", "prompt.txt", "readme.md"
L2_BYTES = 50 * 2**20
LINES = {
    "精度对齐验证": "-------------------- 精度对齐验证 --------------------",
    "✅ 精度对齐": "✅ 精度对齐：两个模型的输出结果非常接近。",
    "❌ 精度不一致": "❌ 精度不一致！",
    "平均执行时间: ": "<label> 平均执行时间: <seconds> 秒",
    "加速比 (Speedup): ": "加速比 (Speedup): <ratio>x",
}
_ALLOWED = {"torch", "triton", "numpy"}


@dataclass(frozen=True)
class Checked:
    """What `check` found; `sample` is None when the folder's roles cannot be told."""

    path: Path
    sample: Sample | None
    defects: tuple[Defect, ...]

    @property
    def form(self) -> tuple[Defect, ...]:
        """The defects of form alone: with these the contest's own check would not pass."""
        return tuple(defect for defect in self.defects if defect.rejects)

    @property
    def advice(self) -> tuple[Defect, ...]:
        """The defects that no submission is rejected for."""
        return tuple(defect for defect in self.defects if not defect.rejects)


def submissions(folder: Path) -> list[Path]:
    """`folder` when it is a submission; else those in it, or in the seasons in it, broken and misnamed ones too.

    A season is a folder called S1, S2, ..., or one with a folder named after an issue. [folder] when there is no
    submission: what it lacks is then the answer.
    """
    if not folder.is_dir() or ID.fullmatch(folder.resolve().name) or (folder / ENTRY).is_file() or is_sample(folder):
        return [folder]
    seasons = [folder, *(one for one in _folders(folder) if _is_season(one))]
    inside = [one for season in seasons for one in _folders(season) if one not in seasons]
    return sorted(one for one in inside if ID.fullmatch(one.name) or _is_meant(one)) or [folder]


def _is_season(folder: Path) -> bool:
    return bool(_SEASON.fullmatch(folder.name)) or any(ID.fullmatch(one.name) for one in _folders(folder))


def _is_meant(folder: Path) -> bool:
    """Whether a folder of another name is a submission all the same."""
    return (folder / ENTRY).is_file() or (folder / PROMPT).is_file() or is_sample(folder)


def _folders(folder: Path) -> list[Path]:
    return [one for one in sorted(folder.iterdir()) if one.is_dir() and not one.name.startswith(".")]


def check(folder: Path, *, l2_bytes: float = L2_BYTES) -> Checked:
    """Check a submission folder: its form (F1 to F8), then the template defects T1 to T13, each once.

    Raises ProfkitError when there is no such folder.
    """
    if not folder.is_dir():
        resolve(folder)
    form = list(_form(folder))
    try:
        sample = resolve(folder)
    except ProfkitError as error:
        told = any(defect.code == "F4" and str(error).startswith(str(defect.file)) for defect in form)
        if not told:
            what = str(error).removeprefix(f"{folder}: ").replace(f"{folder}{os.sep}", "")
            form.append(Defect("F1", folder, 0, what, error.fix))
        return Checked(folder, None, tuple(form))
    found = [*form, *_against_each_other(sample), *lint(sample, l2_bytes)]
    return Checked(folder, sample, tuple(once(found)))


def lint(sample: Sample, l2_bytes: float = L2_BYTES) -> list[Defect]:
    """T1 to T13 on a sample whose roles are known, in the order of the codes."""
    found: list[Defect] = []
    entry = Source.read(sample.entry) if sample.entry is not None else None
    reference = Source.read(sample.reference)
    if entry is not None:
        learns = any(
            has_parameters(Source.read(file)) for file in (sample.reference, *(c.path for c in sample.candidates))
        )
        found += [defect for defect in lint_entry(entry) if learns or defect.code != "T2"]
    found += _fits_l2(reference, entry, l2_bytes)
    taken = _neighbours(sample.path)
    for candidate in sample.candidates:
        source = Source.read(candidate.path)
        found += lint_kernel(source, sample.id, taken)
        taken |= {name: candidate.path for _, name in build_names(source)}
    if sample.prompt is not None:
        found += lint_prompt(sample.prompt, reference.text)
    return sorted(found, key=lambda defect: int(defect.code[1:]))


def _fits_l2(reference: Source, entry: Source | None, l2_bytes: float) -> Iterator[Defect]:
    touched = working_set(reference)
    if touched is None or touched.bytes >= l2_bytes or (entry is not None and empties_l2(entry)):
        return
    function = reference.functions.get("get_inputs")
    yield Defect(
        "T5",
        reference.path,
        function.lineno if function else 0,
        f"the working set of {touched.bytes / 1e6:.3g} MB fits in an L2 of {l2_bytes / 1e6:.3g} MB, and nothing empties it",
        "make the sizes a few times the L2, or overwrite a large buffer between calls",
    )


def _neighbours(folder: Path) -> dict[str, Path]:
    """Build names of the other samples of the same season -> file."""
    found: dict[str, Path] = {}
    here = folder.resolve()
    for file in sorted(here.parent.glob("*/*.py")):
        if file.parent == here or not ID.fullmatch(file.parent.name):
            continue
        try:
            source = Source.read(file)
        except ProfkitError:
            continue
        for _, name in build_names(source):
            found.setdefault(name, Path(file.parent.name) / file.name)
    return found


def _form(folder: Path) -> Iterator[Defect]:
    if not ID.fullmatch(folder.resolve().name) and not _EXAMPLE.fullmatch(folder.resolve().name):
        yield Defect(
            "F2",
            folder,
            0,
            "the folder is not named after an issue id (I and five more)",
            "rename it, without the #",
        )
    for name, why in (
        (ENTRY, "the contest runs exactly this name"),
        (PROMPT, "it is the bonus point"),
        (README, "it is asked for"),
    ):
        if not any(file.name.lower() == name for file in folder.iterdir()) or (
            name == ENTRY and not (folder / name).is_file()
        ):
            yield Defect(
                "F3",
                folder / name,
                0,
                f"missing: {why}",
                "`profkit new` writes one; `profkit prompt` the prompt",
            )
    if (folder / ENTRY).is_file():
        yield from _entry_form(folder / ENTRY)


def _entry_form(path: Path) -> Iterator[Defect]:
    try:
        source = Source.read(path)
    except ProfkitError as error:
        yield Defect("F4", path, 0, str(error).removeprefix(str(path)).lstrip(",: "), error.fix)
        return
    text = "\n".join(value for _, value in source.strings())
    for part, line in LINES.items():
        if part not in text:
            yield Defect(
                "F5",
                path,
                0,
                f"never prints the line `{line}`",
                "print it word for word: it is what the contest shows",
            )
    for node in ast.walk(source.tree):
        for name in _imported(node):
            top = name.split(".")[0]
            local = (path.parent / f"{top}.py").is_file()
            if not local and top not in _ALLOWED and top not in sys.stdlib_module_names:
                yield Defect(
                    "F6",
                    path,
                    getattr(node, "lineno", 0),
                    f"imports {top}, which is neither here nor part of torch's world",
                    "import the folder's own files and torch alone",
                )


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module]
    return []


def _against_each_other(sample: Sample) -> Iterator[Defect]:
    """Constructor and forward of each candidate take what the reference's take."""
    reference = Source.read(sample.reference)
    for name in ("get_inputs", "get_init_inputs"):
        function = reference.functions.get(name)
        if function is not None and _needs(function):
            yield Defect(
                "F7",
                sample.reference,
                function.lineno,
                f"{name} wants arguments; it is called with none",
                "give them defaults",
            )
    for candidate in sample.candidates:
        yield from _same_signature(reference, candidate)


def _same_signature(reference: Source, candidate: Candidate) -> Iterator[Defect]:
    theirs, ours = reference.classes.get("Model"), Source.read(candidate.path).classes.get("ModelNew")
    for method in ("__init__", "forward"):
        want, have = _method(theirs, method), _method(ours, method)
        if want is None or have is None or have.args.vararg or want.args.vararg:
            continue
        accepted = len(have.args.args) - 1
        called = len(want.args.args) - 1 - len(want.args.defaults)
        if not _needs(have) - 1 <= called <= accepted:
            yield Defect(
                "F8",
                candidate.path,
                have.lineno,
                f"ModelNew.{method} takes {accepted} arguments, Model.{method} is called with {called}",
                "take what the reference takes",
            )


def _method(of: ast.ClassDef | None, name: str) -> ast.FunctionDef | None:
    body = of.body if of is not None else []
    return next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == name), None)


def _needs(function: ast.FunctionDef) -> int:
    """Positional arguments without a default."""
    return len(function.args.args) - len(function.args.defaults)
