"""Sizes that keep the product readable: lines of a file and a function, parameters, files of a folder."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOUSES = ("profkit", "collectors", "analyzers", "roofline")
LIMITS = {"lines of a file": 450, "lines of a function": 60, "parameters": 8, "files of a folder": 16}
EXEMPT: dict[str, dict[str, str]] = {limit: {} for limit in LIMITS}
"""By limit: name -> reason of what may be larger; five names a limit at most."""


def product() -> list[Path]:
    return sorted(path for house in HOUSES for path in (ROOT / house).rglob("*.py"))


def sizes() -> Iterator[tuple[str, str, int]]:
    """(limit, name, size) of everything that is limited. Files of a folder are counted without __init__.py."""
    folders = Counter(path.parent.relative_to(ROOT).as_posix() for path in product() if path.name != "__init__.py")
    yield from (("files of a folder", name, count) for name, count in folders.items())
    for path in product():
        name, text = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
        yield "lines of a file", name, text.count("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                given = node.args
                taken = len(given.posonlyargs + given.args + given.kwonlyargs)
                yield "lines of a function", f"{name}:{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1
                yield "parameters", f"{name}:{node.name}", taken


def test_nothing_is_larger_than_its_limit_but_what_is_exempt():
    found = list(sizes())
    for limit, most in LIMITS.items():
        over = {name: size for what, name, size in found if what == limit and size > most}
        assert over.keys() <= EXEMPT[limit].keys(), f"{limit}, {most} at most: {over}"
        assert over.keys() == EXEMPT[limit].keys(), f"{limit}: no longer too large, remove the exemption"
        assert len(EXEMPT[limit]) <= 5
        assert all(EXEMPT[limit].values())
