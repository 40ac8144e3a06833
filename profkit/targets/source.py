"""Small questions to a parsed Python file, all answered without running it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from profkit.errors import ProfkitError


class NotPythonError(ProfkitError):
    """A file that cannot be parsed."""


def dotted(node: ast.AST) -> str:
    """`torch.cuda.synchronize` for such an expression, "" for what is no plain dotted name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    elif not parts:
        return ""
    return ".".join(reversed(parts))


def calls(node: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Every call below a node with the dotted name of what is called."""
    for found in ast.walk(node):
        if isinstance(found, ast.Call):
            yield found, dotted(found.func)


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((item.value for item in call.keywords if item.arg == name), None)


@dataclass(frozen=True)
class Source:
    """A Python file, parsed."""

    path: Path
    text: str

    @classmethod
    def read(cls, path: Path) -> Source:
        """Raises ProfkitError when the file is not Python."""
        source = cls(path, path.read_text("utf-8", "replace"))
        try:
            source.tree  # noqa: B018  (parses; cached)
        except (SyntaxError, ValueError) as error:
            line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            raise NotPythonError(f"{path}{line}: not Python: {error.args[0]}", fix="mend this file") from error
        return source

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """From the node's parent to the module."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    @cached_property
    def imported(self) -> Source:
        """The file without what runs when it is a program alone: `if __name__ == "__main__":`, and functions that nothing
        else names. Lines keep their numbers.
        """
        if any(
            isinstance(one, ast.Name) and one.id == "__name__" and isinstance(one.ctx, ast.Store)
            for one in ast.walk(self.tree)
        ):
            return self
        lines = re.split(r"\r\n|\r|\n", self.text)
        parts = {node: "\n".join(lines[_first_line(node) - 1 : node.end_lineno]) for node in self.tree.body}
        away = [node for node in parts if _is_program(node)]
        for node in away:
            away += [one for one in parts if one not in away and _only_for(one, node, parts, away)]
        for node in away:
            for number in range(_first_line(node) - 1, node.end_lineno or node.lineno):
                lines[number] = ""
        return Source(self.path, "\n".join(lines)) if away else self

    @cached_property
    def constants(self) -> dict[str, ast.expr]:
        """Module-level names with the expression last assigned to them, tuples taken apart."""
        found: dict[str, ast.expr] = {}
        for node in self.tree.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                found[node.target.id] = node.value
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    found.update(_bindings(target, node.value))
        return found

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """Every function of the file by name; a later one of the same name wins, as in Python."""
        return {node.name: node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)}

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Top-level classes by name."""
        return {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}

    def number(self, node: ast.expr | None) -> float | None:
        """The value of a constant arithmetic expression over module constants; None when it is not one."""
        return _number(node, self.constants, 0)

    def strings(self) -> Iterator[tuple[int, str]]:
        """(line, text) of every string constant."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, node.value


def _bindings(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for inner, part in zip(target.elts, value.elts, strict=True):
            yield from _bindings(inner, part)


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _is_program(node: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":` without an else."""
    return isinstance(node, ast.If) and not node.orelse and ast.unparse(node.test) == "__name__ == '__main__'"


def _only_for(node: ast.stmt, user: ast.stmt, parts: Mapping[ast.stmt, str], away: Collection[ast.stmt]) -> bool:
    """Whether a statement makes a function that `user` names, and nothing else but those that are `away`, and itself."""
    if not isinstance(node, ast.FunctionDef):
        return False
    name = re.compile(rf"\b{node.name}\b")
    others = (text for one, text in parts.items() if one is not node and one not in away)
    return bool(name.search(parts[user])) and not any(map(name.search, others))


_DEEP = 50


def _number(node: ast.expr | None, names: dict[str, ast.expr], depth: int) -> float | None:
    if node is None or depth > _DEEP:
        return None
    if isinstance(node, ast.Constant):
        usable = isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
        return node.value if usable and isinstance(node.value, (int, float)) else None
    if isinstance(node, ast.Name):
        return _number(names.get(node.id), names, depth + 1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _number(node.operand, names, depth + 1)
        return None if value is None else -value
    if isinstance(node, ast.BinOp):
        left, right = (_number(side, names, depth + 1) for side in (node.left, node.right))
        return None if left is None or right is None else _arithmetic(node.op, left, right)
    return None


def _arithmetic(operator: ast.operator, left: float, right: float) -> float | None:
    """One operation; None for those that are not simple, divide by zero or explode."""
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, (ast.Div, ast.FloorDiv)) and right:
        return left / right if isinstance(operator, ast.Div) else left // right
    if isinstance(operator, ast.LShift) and 0 <= right < 64 and left == int(left) and right == int(right):
        return int(left) << int(right)
    if isinstance(operator, ast.Pow) and abs(left) <= 1024 and 0 <= right < 64:
        power: float = left**right
        return power
    return None
