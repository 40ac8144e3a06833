"""Which small mistakes would no test notice? Mutants of the modules that make numbers, against the tests that guard them.

    python benchmarks/mutants.py [MODULE...] [--budget 40] [--seed 0] [--json OUT]

A mutant is a module with one comparison, operator, number or name of a function changed, in a process that is forked before the
module is imported; it is killed when one of the module's tests fails. --budget: how many of each module's mutants are
tried, drawn by --seed; 0 for all. Prints the survivors with their lines, and the share that was killed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import importlib
import importlib.machinery
import json
import os
import random
import resource
import sys
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).parents[1]
TESTS: dict[str, tuple[str, ...]] = {
    "analyzers/floor.py": ("analyzers/test_floor.py", "analyzers/test_verdict.py"),
    "analyzers/verdicts/speedup.py": ("analyzers/test_compare.py", "analyzers/test_speedup.py"),
    "analyzers/verdicts/statistics.py": ("analyzers/test_statistics.py",),
    "analyzers/timeline/summary.py": ("analyzers/test_timeline.py",),
    "collectors/counters.py": ("collectors/test_counters.py",),
    "collectors/ncu_metrics.py": ("collectors/test_counters.py",),
    "profkit/contests/gpucodeforces/score.py": ("profkit/test_score.py",),
    "profkit/runner/check.py": ("profkit/test_check_chunks.py", "profkit/test_check_figures.py"),
    "profkit/runner/work.py": ("profkit/test_work_model.py", "profkit/test_work_bytes.py"),
}
LIMIT = 40
"""CPU seconds after which a mutant counts as killed: it hangs."""
_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OPERATOR: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_UNUSED = ("cacheprovider", "unraisableexception", "threadexception", "faulthandler")
"""Plugins of pytest that take longer than most of the tests: two collect garbage among all that torch has made."""
_NAMES = {"max": "min", "min": "max", "any": "all", "all": "any"}


class _Mutate(ast.NodeTransformer):
    """Changes the place of number `at`; counts the places. Words, annotations and decorators are left alone."""

    def __init__(self, at: int = -1) -> None:
        self.at = at
        self.places: list[int] = []

    def _here(self, node: Any) -> bool:
        self.places.append(node.lineno)
        return len(self.places) - 1 == self.at

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if type(node.ops[0]) in _COMPARE and self._here(node):
            node.ops[0] = _COMPARE[type(node.ops[0])]()
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if type(node.op) in _OPERATOR and self._here(node):
            node.op = _OPERATOR[type(node.op)]()
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if self._here(node):
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return node.operand if not isinstance(node.op, ast.UAdd) and self._here(node) else node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, (int, float)) and self._here(node):
            changed = not node.value if isinstance(node.value, bool) else node.value + 1
            return ast.copy_location(ast.Constant(changed), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _NAMES and self._here(node):
            node.func.id = _NAMES[node.func.id]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = [self.visit(one) for one in node.body]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [self.visit(one) for one in node.body]
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return node


def places(tree: ast.Module) -> list[int]:
    """The line of every place that can be changed, in the order of their numbers."""
    counter = _Mutate()
    counter.visit(copy.deepcopy(tree))
    return counter.places


def mutant(tree: ast.Module, at: int, path: Path) -> tuple[CodeType, str]:
    """The code with place number `at` changed, and that line as it reads then."""
    changed = _Mutate(at)
    made = ast.fix_missing_locations(changed.visit(copy.deepcopy(tree)))
    line = changed.places[at]
    old, new = (ast.unparse(one).splitlines() for one in (tree, made))
    said = next((_change(a.strip(), b.strip()) for a, b in zip(old, new, strict=False) if a != b), "?")
    return compile(made, str(path), "exec"), f"{path.relative_to(ROOT)}:{line}: {said}"


def _change(old: str, new: str) -> str:
    """What differs between two lines, with a little of what stands around it."""
    same = _alike(old, new)
    rest = _alike(old[same:][::-1], new[same:][::-1])
    begin, end = max(0, same - 50), max(0, rest - 30)
    return f"{old[begin : len(old) - end]}  ->  {new[begin : len(new) - end]}"


def _alike(a: str, b: str) -> int:
    """With how many characters both begin."""
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def survives(code: CodeType, path: Path, tests: list[str]) -> bool:
    """Whether the tests pass with this code in the place of the module's."""
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        loader = importlib.machinery.SourceFileLoader
        original = loader.get_code

        def get_code(self: Any, fullname: str) -> Any:
            return code if Path(self.path) == path else original(self, fullname)

        loader.get_code = get_code  # type: ignore[method-assign]
        import pytest

        options = ["-x", "-q", "--assert=plain", "-m", "not slow and not gpu"]
        options += [word for name in _UNUSED for word in ("-p", f"no:{name}")]
        os._exit(int(pytest.main([*options, *tests])))
    return os.WEXITSTATUS(status) == 0 if os.WIFEXITED(status := os.waitpid(child, 0)[1]) else False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("modules", nargs="*", default=[*TESTS], metavar="MODULE")
    parser.add_argument("--budget", type=int, default=40, help="mutants tried of each module, 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    os.chdir(ROOT)
    sys.dont_write_bytecode = True
    os.environ.setdefault("HYPOTHESIS_PROFILE", "few")
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import _pytest.config
    import hypothesis  # noqa: F401 - shared by the forks, with the rest
    import numpy.testing  # noqa: F401
    import pandas  # noqa: F401
    import torch
    import torch.utils.flop_counter  # noqa: F401

    for plugin in _pytest.config.default_plugins:
        importlib.import_module(f"_pytest.{plugin}")
    gc.freeze()

    results: dict[str, Any] = {}
    for module in given.modules:
        path = ROOT / module
        tree = ast.parse(path.read_text("utf-8"))
        tests = [str(ROOT / "tests" / test) for test in TESTS[module] if (ROOT / "tests" / test).exists()]
        if not survives(compile(tree, str(path), "exec"), path, tests):
            sys.exit(f"{module}: its tests fail as it is")
        numbers = [*range(len(places(tree)))]
        chosen = (
            sorted(random.Random(given.seed).sample(numbers, given.budget or len(numbers)))
            if (0 < given.budget < len(numbers))
            else numbers
        )
        left = [said for at in chosen for code, said in [mutant(tree, at, path)] if survives(code, path, tests)]
        results[module] = {"places": len(numbers), "tried": len(chosen), "survived": left}
        print(f"{module}: {len(chosen) - len(left)} of {len(chosen)} killed, {len(numbers)} places", flush=True)
        for said in left:
            print(f"  {said}", flush=True)
    tried = sum(one["tried"] for one in results.values())
    killed = tried - sum(len(one["survived"]) for one in results.values())
    print(f"all: {killed} of {tried} killed, {killed / max(tried, 1):.0%}")
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
