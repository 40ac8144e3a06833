"""The fenced blocks of a text, as prompts and answers hold code in them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """A fenced block: the line of its fence, its text, and whether it is closed."""

    line: int
    text: str
    closed: bool


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a text, in order; an open one runs to the end."""
    found: list[Block] = []
    start, inside = 0, False
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = line.lstrip().startswith("```")
        if fence and not inside:
            start, lines, inside = number, [], True
        elif fence:
            found.append(Block(start, "\n".join(lines), True))
            inside = False
        elif inside:
            lines.append(line)
    if inside:
        found.append(Block(start, "\n".join(lines), False))
    return found


def first_code(text: str) -> tuple[str, str]:
    """(the first fenced block, why there is none); an unclosed block is a cut answer."""
    found = blocks(text)
    if not found:
        return "", "no fenced block in the answer"
    if not found[0].closed:
        return "", "the first fenced block is never closed: the answer was cut"
    code = found[0].text.strip("\n")
    return (code + "\n", "") if code.strip() else ("", "the first fenced block is empty")
