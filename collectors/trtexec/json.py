"""The JSON that trtexec writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collectors import text_of
from collectors.errors import CollectError


def load(path: Path) -> Any:
    """The JSON of a file; control characters in names are let through. Raises CollectError."""
    text = text_of(path, strict=True)
    if not text.strip():
        raise CollectError(f"{path}: is empty", fix="run trtexec again")
    try:
        return json.loads(text, strict=False)
    except RecursionError as error:
        raise CollectError(f"{path}: JSON nested too deep for any export", fix="give the file trtexec wrote") from error
    except json.JSONDecodeError as error:
        raise _invalid(path, text, error) from error


def _invalid(path: Path, text: str, error: json.JSONDecodeError) -> CollectError:
    if text.rstrip()[-1:] not in "]}" or error.pos >= len(text.rstrip()):
        return CollectError(
            f"{path}, line {error.lineno}: the JSON ends in the middle: the file was cut",
            fix="copy or export it again",
        )
    if error.msg == "Extra data":
        return CollectError(
            f"{path}, line {error.lineno}: another document begins where the JSON of one has ended",
            fix="trtexec ran several times into this file: give each run's JSON in a file of its own",
        )
    return CollectError(
        f"{path}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}",
        fix="trtexec writes names unescaped: rename the layer of that line, or escape the quotes in the file",
    )
