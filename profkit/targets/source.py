"""A parsed Python file and its definitions, read without running it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from profkit.errors import ProfkitError

_JIT = {"triton.jit", "jit", "cuda.jit", "numba.cuda.jit", "cute.kernel"}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(")
_ATTRIBUTES = {"__launch_bounds__", "__cluster_dims__", "__attribute__", "__block_size__", "__maxnreg__", "alignas"}
LONGEST_TASK = 120
"""Most characters of the sentence on a task."""


def dotted(node: ast.AST) -> str:
    """`torch.cuda.synchronize` for such an expression, "" if it is no plain dotted name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id])) if isinstance(node, ast.Name) else ""


@dataclass(frozen=True)
class Source:
    """A Python file, parsed."""

    path: Path
    text: str

    @classmethod
    def read(cls, path: Path) -> Source:
        """Parse a file. Raises ProfkitError if it is not Python."""
        source = cls(path, path.read_text("utf-8", "replace"))
        try:
            source.tree  # noqa: B018  (parses; cached)
        except (SyntaxError, ValueError) as error:
            line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            raise ProfkitError(f"{path}{line}: not Python: {error.args[0]}", fix="correct this file") from error
        return source

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def constants(self) -> dict[str, ast.expr]:
        """Module-level names with the last expression assigned to them."""
        return {
            target.id: node.value
            for node in self.tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """Every function of the file by name; the last one of a name wins, as in Python."""
        return {node.name: node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)}

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Top-level classes by name."""
        return {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}

    @cached_property
    def task(self) -> str:
        """Task of the Model: the first sentence on the file or class, else what it returns."""
        model, forward = self.classes.get("Model"), self.functions.get("forward")
        told = ast.get_docstring(self.tree) or (model and ast.get_docstring(model)) or ""
        if not told and forward is not None and isinstance(forward.body[-1], ast.Return):
            told = ast.unparse(forward.body[-1]).removeprefix("return").strip()
        said = re.split(r"\.\s|\n\n", re.sub(r"^\w+( \d+)?:\s+", "", told.strip() + "\n\n"))[0]
        return " ".join(said.split())[:LONGEST_TASK]

    @cached_property
    def names(self) -> set[str]:
        """Top-level classes, functions and assigned names."""
        defined = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        return {node.name for node in self.tree.body if isinstance(node, defined)} | self.constants.keys()

    def strings(self) -> Iterator[str]:
        """Every string constant."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def authored_names(source: str) -> set[str]:
    """Kernels a source defines: `__global__` functions and functions decorated with triton.jit."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set(_global_functions(source))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.update(_global_functions(node.value))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            targets = (one.func if isinstance(one, ast.Call) else one for one in node.decorator_list)
            found |= {node.name} if any(ast.unparse(one) in _JIT for one in targets) else set()
    return found


def _global_functions(text: str) -> Iterator[str]:
    """Function names after `__global__`, attributes skipped."""
    code = _COMMENT.sub(" ", text)
    for start in re.finditer(r"\b__global__\b", code):
        position = start.end()
        while (call := _CALL.search(code, position)) is not None:
            if call[1] not in _ATTRIBUTES:
                head = code[start.end() : call.start()]
                returns = re.search(r"\bvoid\s*$", code[: start.start()]) or re.search(r"\bvoid\b", head)
                if returns and not re.search(r"[;{}]", head):
                    yield call[1]
                break
            position = _closing(code, call.end())


def _closing(code: str, position: int) -> int:
    """Position behind the parenthesis that closes the one just before `position`."""
    depth = 1
    while position < len(code) and depth:
        depth += {"(": 1, ")": -1}.get(code[position], 0)
        position += 1
    return position
