"""What importing costs, and who may import whom."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import profkit

# One process parses our files, once.
pytestmark = pytest.mark.xdist_group("imports")
ROOT = Path(__file__).resolve().parent.parent
HEAVY = {"torch", "pandas", "matplotlib", "numpy"}

_COMMAND = """
import json, sys
from profkit.cli import main
try:
    main(json.loads(sys.argv[1]))
except SystemExit as end:
    assert not end.code, end.code
sys.stderr.write(json.dumps(sorted(sys.modules)))
"""


def loaded(code: str, *arguments: str) -> set[str]:
    """Top-level modules a child process has imported after `code`, which writes sys.modules to stderr."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(done.stderr)}


@pytest.mark.parametrize(
    "line", ["--version", "--help", "-h", "profile --help", "report --help", "list --help", "doctor --help"]
)
def test_cheap_commands_import_nothing_heavy(line):
    heavy = HEAVY | ({"click", "rich", "msgspec"} if line == "--version" else set())
    assert not heavy & loaded(_COMMAND, json.dumps(line.split()))


@pytest.mark.parametrize("house", ["profkit", "collectors", "roofline", "analyzers"])
def test_importing_a_house_loads_neither_torch_nor_matplotlib(house):
    names = "[getattr(profkit, name) for name in profkit.__all__]" if house == "profkit" else ""
    code = f"import {house}, json, sys; {names}\nsys.stderr.write(json.dumps(sorted(sys.modules)))"
    assert not {"torch", "matplotlib"} & loaded(code)


def test_the_public_names_are_sorted_and_there():
    assert list(profkit.__all__) == sorted(profkit.__all__)
    for name in profkit.__all__:
        assert getattr(profkit, name) is not None
    assert set(profkit.__all__) <= set(dir(profkit))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = profkit.nonsense


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def nodes(file: Path) -> list[ast.AST]:
    """The imports and calls of a file."""
    return [node for node in ast.walk(tree(file)) if isinstance(node, (ast.Import, ast.ImportFrom, ast.Call))]


def imported(file: Path) -> list[tuple[str, int]]:
    found = []
    for node in nodes(file):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append((node.module, node.lineno))
    return found


HOUSES = ("profkit", "analyzers", "roofline", "collectors")
FILES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for house in HOUSES
    for file in sorted((ROOT / house).rglob("*.py"))
}

_LAZY = """
analyzers.timeline.hot analyzers.verdicts.timing collectors.cupti collectors.frame collectors.ncu collectors.ncu.log
collectors.ncu.source collectors.nsys.scrub collectors.trtexec profkit.api profkit.bridges.mcp
profkit.campaign.campaign profkit.campaign.gate profkit.campaign.history profkit.campaign.site profkit.campaign.stages
profkit.contests.kernelbench.fastp profkit.contests.served profkit.guest.candidate profkit.guest.clocks.clocks
profkit.guest.clocks.cupti profkit.guest.tensors.compare profkit.judge.session profkit.record.block
profkit.record.importing profkit.record.timers profkit.record.verify profkit.report.compare profkit.report.derived
profkit.report.dialects.agent profkit.report.figures profkit.report.ledger profkit.report.page.compare
profkit.report.page.run profkit.study.files profkit.study.ledger profkit.study.study profkit.torch_tools.ahead
profkit.torch_tools.inprocess roofline.figure.plot
"""
LAZY = _LAZY.split()
"""Modules of ours that may be imported inside functions: that keeps torch, pandas, matplotlib or numpy out of start-up."""

INSIDE: dict[str, int] = {
    "profkit.campaign.site": 1,
    "profkit.cli": 3,
    "profkit.cli.machine": 3,
    "profkit.cli.terminal": 2,
    "profkit.cli.reading": 3,
    "profkit.torch_tools.bench": 3,
}
"""How many other imports of ours are still inside the functions of a file. It may only shrink."""


@cache
def own_imports(name: str) -> list[tuple[str, bool]]:
    """(module of ours, whether inside a function) of every import of a file, but for those of the type checker."""
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, inside: bool) -> None:
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            for child in node.orelse:
                visit(child, inside)
            return
        if isinstance(node, ast.Import):
            found.extend((alias.name, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.append((whole if whole in FILES else node.module, inside))
        inside = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(tree(FILES[name]), False)
    return [(target, inside) for target, inside in found if target in FILES and target != name]


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that reach each other."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen, todo = set(), [start]
        while todo:
            new = graph[todo.pop()] - seen
            seen |= new
            todo += new
        reached[start] = seen
    found = {frozenset({name, *(other for other in reached[name] if name in reached[other])}) for name in graph}
    return sorted((set(one) for one in found if len(one) > 1), key=sorted)


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a", "d"}}) == [{"b", "c"}]


@pytest.mark.slow
def test_no_files_import_each_other_in_a_circle():
    """Imports inside functions count as well."""
    found = circles({name: {target for target, _ in own_imports(name)} for name in FILES})
    assert found == [], "\n".join(" <-> ".join(sorted(one)) for one in found)


@cache
def loads(name: str) -> set[str]:
    """The heavy packages that importing a module of ours loads, with all it imports on top."""
    heavy, seen, todo = set(), {name}, [name]
    while todo:
        current = todo.pop()
        for node in tree(FILES[current]).body:
            if isinstance(node, ast.Import):
                heavy |= {alias.name.partition(".")[0] for alias in node.names} & HEAVY
            elif isinstance(node, ast.ImportFrom) and node.module:
                heavy |= {node.module.partition(".")[0]} & HEAVY
        parents = {current.rpartition(".")[0]} & FILES.keys()
        new = ({target for target, inside in own_imports(current) if not inside} | parents) - seen
        seen |= new
        todo += new
    return heavy


@pytest.mark.slow
def test_our_own_modules_are_imported_on_top():
    """Except where that keeps torch, pandas or matplotlib out of start-up."""
    found: dict[str, int] = {}
    for name in FILES:
        lazy = [target for target, inside in own_imports(name) if inside]
        idle = sum(target not in LAZY or loads(target) <= loads(name) for target in lazy)
        found |= {name: idle} if idle else {}
    assert found == INSIDE, found


@pytest.mark.slow
def test_what_is_imported_late_is_heavy():
    assert [name for name in LAZY if not loads(name)] == []
