"""What a judge seals: its modules' tables may not change while it judges, so nothing of its own changes them either."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import profkit.runner

FILES = sorted(Path(profkit.runner.__file__).parent.glob("*.py"))
CHANGES = frozenset(
    {"append", "add", "extend", "insert", "remove", "discard", "pop", "popitem", "clear", "update", "setdefault"}
)


def tables(tree: ast.Module) -> set[str]:
    """Names of a module's lists, dicts and sets."""
    found = set()
    for node in tree.body:
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        called = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
        if isinstance(value, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)) or called in (
            "list",
            "dict",
            "set",
        ):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def changed(tree: ast.Module) -> set[str]:
    """Names of things whose contents functions change."""
    found = set()
    inside = (
        node for function in ast.walk(tree) if isinstance(function, ast.FunctionDef) for node in ast.walk(function)
    )
    for node in inside:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            one = node.func.value
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
            one = node.value
        else:
            continue
        if isinstance(one, ast.Name):
            found.add(one.id)
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_module_of_the_runner_changes_a_table_of_its_own(file):
    tree = ast.parse(file.read_text("utf-8"))
    assert not tables(tree) & changed(tree)
