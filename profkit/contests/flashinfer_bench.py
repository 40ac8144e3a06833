"""A trace set of FlashInfer-Bench: definitions, workloads, solutions and traces.

definitions/<op>/<name>.json   workloads/<op>/<name>.jsonl   solutions/**/<solution>.json   traces/**/*.jsonl   blob/

A task is one definition's file. A standalone workload is a trace without solution. Source of the format:
flashinfer-ai/flashinfer-bench, docs/flashinfer-trace and flashinfer_bench/data/trace_set.py.
"""

from __future__ import annotations

from pathlib import Path

from profkit.contests.definitions import Dialect, solutions_in, task
from profkit.contests.json_files import read_object, read_rows
from profkit.contests.sources import Sources
from profkit.errors import ProfkitError

DEFINITIONS = "definitions"

_PROMISED = '''
def _promised(name, value):
    """The contest's random probabilities of a sampling task sum to one; everything else is as drawn."""
    return value.float().softmax(-1).to(value.dtype) if name == "probs" else value
'''.strip()


def tasks(path: Path) -> list[Path]:
    """A definition's file itself; in a trace set, the definitions that have a solution."""
    if path.is_file():
        return [path] if path.suffix == ".json" and _root(path) is not None else []
    folder = path / DEFINITIONS
    if not folder.is_dir() or not (path / "solutions").is_dir():
        return []
    solved = {read_object(file).get("definition") for file in (path / "solutions").rglob("*.json")}
    return sorted(file for file in folder.rglob("*.json") if file.stem in solved)


def _root(definition: Path) -> Path | None:
    """Trace set of a definition's file."""
    return next((up.parent for up in definition.resolve().parents if up.name == DEFINITIONS), None)


def read(file: Path, device: str) -> Sources:
    """The sample of a definition's file, with every solution of it in the trace set."""
    root = _root(file)
    if root is None:
        raise ProfkitError(f"{file}: not below {DEFINITIONS}/", fix="give a definition of a trace set")
    definition = read_object(file)
    name = str(definition.get("name", ""))
    found = [file for kind in ("workloads", "traces") for file in sorted((root / kind).rglob("*.jsonl"))]
    rows = [row for file in found for row in read_rows(file) if row.get("definition") == name]
    known = [row["workload"] for row in rows if isinstance(row.get("workload"), dict)]
    workloads = {str(one.get("uuid")): one for one in known}
    dialect = Dialect(_PROMISED, "empty", root)
    solutions = solutions_in([root / "solutions"], name)
    return task(definition, list(workloads.values()), solutions, dialect, file).on(device)
