"""Foreign JSON files; errors name file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from profkit.errors import ProfkitError

Json = dict[str, Any]


def read_json(file: Path) -> Any:
    """A JSON file. Raises ProfkitError."""
    return _parsed(_text(file), str(file))


def read_object(file: Path) -> Json:
    """A JSON file with one object. Raises ProfkitError."""
    found = read_json(file)
    if not isinstance(found, dict):
        raise ProfkitError(f"{file}: not an object", fix="give the unchanged published file")
    return found


def read_rows(file: Path) -> Iterator[Json]:
    """Objects of a file: a list, or one per line. Raises ProfkitError."""
    text = _text(file)
    if text.lstrip().startswith("["):
        rows = list(enumerate(_parsed(text, str(file)), 1))
    else:
        lines = ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())
        rows = [(number, _parsed(line, f"{file}, line {number}")) for number, line in lines]
    for number, row in rows:
        if not isinstance(row, dict):
            raise ProfkitError(f"{file}: row {number} is not an object", fix="give the unchanged published file")
        yield row


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise ProfkitError(f"{file}: {error.strerror}", fix="check the path") from error
    except UnicodeDecodeError as error:
        raise ProfkitError(f"{file}: not UTF-8 text: {error.reason}", fix="the file is cut or damaged") from error


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ProfkitError(f"{where}: not JSON: {error}", fix="the file is cut or damaged") from error
