"""Triton kernels whose FP32 products run in TF32 by default."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_PRECISION_POSITION = 3
"""tl.dot(input, other, acc, input_precision, ...)"""


def tf32_dots(source: str) -> set[str]:
    """Names of the functions of a source that call `tl.dot` without asking for more than TF32.

    From compute capability 8.0 on, Triton takes TF32 for FP32 operands by default; "ieee" and "tf32x3" keep FP32.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {function.name for function in functions if any(map(_takes_tf32, _dots(function)))}


def _dots(function: ast.FunctionDef) -> Iterator[ast.Call]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("tl.dot", "triton.language.dot"):
            yield node


def _takes_tf32(call: ast.Call) -> bool:
    said = {word.arg: word.value for word in call.keywords}
    if len(call.args) > _PRECISION_POSITION:
        said["input_precision"] = call.args[_PRECISION_POSITION]
    precision, allowed = said.get("input_precision"), said.get("allow_tf32")
    if precision is not None:
        return isinstance(precision, ast.Constant) and precision.value in (None, "tf32")
    return allowed is None or (isinstance(allowed, ast.Constant) and allowed.value is not False)
