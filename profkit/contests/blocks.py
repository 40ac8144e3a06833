"""The fenced blocks of a text, as prompts and answers hold code in them."""

from __future__ import annotations


def blocks(text: str) -> tuple[list[str], bool]:
    """(the fenced blocks in order, whether the last is closed); an open one runs to the end."""
    found: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            inside = not inside
            found += [[]] if inside else []
        elif inside:
            found[-1].append(line)
    return ["\n".join(lines) for lines in found], not inside


def first_code(text: str) -> tuple[str, str]:
    """(the first fenced block, why there is none); an unclosed block is a cut answer."""
    found, whole = blocks(text)
    if not found:
        return "", "no fenced block in the answer"
    if len(found) == 1 and not whole:
        return "", "the first fenced block is never closed: the answer was cut"
    code = found[0].strip("\n")
    return (code + "\n", "") if code.strip() else ("", "the first fenced block is empty")
