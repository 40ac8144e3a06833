"""KernelBook rows as runnable pairs: Model in PyTorch and ModelNew in Triton.

A row has `entry_point`, `python_code` (module, get_inputs, get_init_inputs returning [args, kwargs]) and
`triton_code` with the class <entry_point>New. Names are changed by token; a row where that is unsafe is refused with
the reason.
"""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from profkit.contests import json_files
from profkit.contests.sources import CANDIDATE, Sources, rename_names, used_names
from profkit.errors import ProfkitError

_NEEDED = ("entry_point", "python_code", "triton_code")


def read_rows(file: Path) -> Iterator[dict[str, Any]]:
    """Rows of a .json (a list, or one per line) or .parquet file. Raises ProfkitError."""
    if file.suffix != ".parquet":
        yield from json_files.read_rows(file)
        return
    import pandas as pd

    try:
        frame = pd.read_parquet(file)
    except ImportError as error:
        fix = "pip install pyarrow, or use the .json file"
        raise ProfkitError(f"{file}: reading parquet needs pyarrow", fix=fix) from error
    except (OSError, ValueError) as error:
        raise ProfkitError(f"{file}: {error}") from error
    for row in frame.to_dict("records"):
        yield {str(key): value for key, value in row.items()}


def adapt(row: dict[str, Any]) -> Sources:
    """A row as a reference and a candidate. Raises ProfkitError with the row and the reason."""
    name = str(row.get("entry_point", ""))
    where = f"KernelBook row {row.get('uuid', '?')} ({name or 'no entry_point'})"
    missing = [key for key in _NEEDED if not row.get(key)]
    if missing:
        raise ProfkitError(f"{where}: no field {missing[0]}", fix="skip this row")
    python, triton = str(row["python_code"]), str(row["triton_code"])
    try:
        reference = _as("Model", name, python, where)
        candidate = _as("ModelNew", f"{name}New", triton, where)
    except (SyntaxError, tokenize.TokenError, ValueError) as error:
        raise ProfkitError(f"{where}: not Python: {error.args[0]}", fix="skip this row") from error
    lacking = {"get_inputs", "get_init_inputs"} - _defined(python)
    if lacking:
        raise ProfkitError(f"{where}: python_code does not define {', '.join(sorted(lacking))}", fix="skip this row")
    return Sources(name, reference, {CANDIDATE: candidate})


def _as(wanted: str, name: str, text: str, where: str) -> str:
    """The text with its class renamed to `wanted`."""
    why = ""
    if name not in _defined(text):
        why = f"no class {name}"
    elif name != wanted and wanted in used_names(text):
        why = f"the name {wanted} is taken"
    elif any(isinstance(node, ast.keyword) and node.arg == name for node in ast.walk(ast.parse(text))):
        why = f"{name} is also the name of an argument"
    if why:
        raise ProfkitError(f"{where}: {why}", fix="skip this row")
    return rename_names(text, {name: wanted})


def _defined(text: str) -> set[str]:
    return {node.name for node in ast.parse(text).body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
