"""Rename identifiers in Python source by token: never attributes, strings or comments."""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Mapping


def rename_names(text: str, names: Mapping[str, str]) -> str:
    """Replace names by token. Raises tokenize.TokenError or SyntaxError on other text."""
    lines = text.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    edits: list[tuple[int, int, str]] = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        attribute = before is not None and before.type == tokenize.OP and before.string == "."
        if token.type == tokenize.NAME and token.string in names and not attribute:
            edits.append((token.start[0] - 1, token.start[1], token.string))
    for row, column, old in reversed(edits):
        line = lines[row]
        lines[row] = line[:column] + names[old] + line[column + len(old) :]
    return "".join(lines)


def used_names(text: str) -> set[str]:
    """Every identifier of the text, attributes too."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {t.string for t in tokens if t.type == tokenize.NAME and not keyword.iskeyword(t.string)}
