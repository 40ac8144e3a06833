"""A new sample folder that already runs: reference, candidates, entry, prompt, readme."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from profkit.contests.gpucodeforces.elementwise import Operation, understand
from profkit.contests.gpucodeforces.form import ID
from profkit.contests.prompt import compose
from profkit.contests.rename import rename_names
from profkit.errors import ProfkitError
from profkit.rundir.files import write_atomic
from profkit.targets.sample import resolve
from profkit.targets.source import Source

SHAPE = (4096, 8192)


@dataclass(frozen=True)
class Wish:
    """What is to be made. `reference`: a file to start from instead of an operation."""

    path: Path
    op: str = ""
    shape: tuple[int, ...] = SHAPE
    reference: Path | None = None
    contestant: str = ""


def create(wish: Wish) -> list[Path]:
    """Write the folder; the files written. Raises ProfkitError when it exists or the wish is not understood."""
    if not ID.fullmatch(wish.path.name):
        raise ProfkitError(
            f"{wish.path}: {wish.path.name!r} is not an issue id: I and five capitals or digits",
            fix="name it after the contest issue, without the #",
        )
    if wish.path.exists() and any(wish.path.iterdir()):
        raise ProfkitError(f"{wish.path} exists and is not empty", fix="choose another id, or remove it yourself")
    texts = _from_reference(wish) if wish.reference is not None else _from_operation(wish, understand(wish.op))
    wish.path.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_atomic(wish.path / name, text.encode())
    write_atomic(wish.path / "prompt.txt", compose(resolve(wish.path)).encode())
    return sorted(wish.path / name for name in [*texts, "prompt.txt"])


def template(form: str, **values: str) -> str:
    """A filled template of the templates beside this file."""
    text = (files("profkit.contests.gpucodeforces") / "templates" / f"{form}.tmpl").read_text("utf-8")
    return Template(text).substitute(values)


def _from_operation(wish: Wish, operation: Operation) -> dict[str, str]:
    values = _values(wish, operation)
    return {
        "example_torchcode.py": template("reference.py", **values),
        "example_cudacode.py": template("cuda.py", **values),
        "example_cppcode.py": template("cpp.py", **values),
        "run_code.py": template("run_code.py", **values),
        "readme.md": template("readme.md", **values),
    }


def _values(wish: Wish, operation: Operation) -> dict[str, str]:
    inputs, count = operation.inputs, len(operation.inputs)
    elements, total = math.prod(wish.shape), count + 1
    draw = "torch.rand(*SHAPE) + 0.5" if operation.positive else "torch.randn(*SHAPE)"
    return {
        "id": wish.path.name,
        "lower": wish.path.name.lower(),
        "op": operation.text,
        "name": operation.name,
        "shape": repr(tuple(wish.shape)),
        "shape_text": " x ".join(str(size) for size in wish.shape),
        "forward_args": ", ".join(f"{name}: torch.Tensor" for name in inputs),
        "call_args": ", ".join(inputs),
        "torch_expression": _bare(operation.torch),
        "draws": ", ".join([draw] * count),
        "flops_each": str(operation.flops),
        "tensors": str(total),
        "signature": ", ".join(f"torch::Tensor {name}" for name in inputs),
        "kernel_args": ", ".join(f"const float* {name}" for name in inputs),
        "first": inputs[0],
        "loads": "\n".join(f"        const float {name}_value = {name}[i];" for name in inputs),
        "body": "\n".join(f"        {line}" for line in operation.c),
        "checks": "\n".join(_check(name, inputs[0]) for name in inputs),
        "pointers": ", ".join(f"{name}.data_ptr<float>()" for name in inputs),
        "cpu_file": "example_cppcode",
        "cpu_label": "C++",
        "contestant": _contestant(wish),
        "flop_text": f"{operation.flops * elements:,}",
        "byte_text": f"{4 * total * elements:,}",
        "intensity": f"{operation.flops / (4 * total):.3g}",
    }


def _bare(expression: str) -> str:
    """Without parentheses round the whole."""
    return ast.unparse(ast.parse(expression, mode="eval"))


def _check(name: str, first: str) -> str:
    lines = [
        f"    TORCH_CHECK({name}.scalar_type() == torch::kFloat32 && {name}.is_contiguous(), "
        f'"{name} must be contiguous float32");'
    ]
    if name != first:
        lines.append(
            f"    TORCH_CHECK({name}.device() == {first}.device() && {name}.sizes() == {first}.sizes(), "
            f'"{name} must match {first}");'
        )
    return "\n".join(lines)


def _contestant(wish: Wish) -> str:
    return f"参赛者: {wish.contestant}\n\n" if wish.contestant else ""


def _from_reference(wish: Wish) -> dict[str, str]:
    """The given reference; the candidate starts as the same operators under the name ModelNew."""
    if wish.reference is None or not wish.reference.is_file():
        raise ProfkitError(
            f"{wish.reference}: no such file",
            fix="--from wants a Python file with Model, get_inputs and get_init_inputs",
        )
    source = Source.read(wish.reference)
    missing = {"Model", "get_inputs", "get_init_inputs"} - {*source.classes, *source.functions}
    if missing:
        raise ProfkitError(f"{wish.reference}: does not define {', '.join(sorted(missing))}", fix="add it")
    candidate = _without_getters(rename_names(source.text, {"Model": "ModelNew"}))
    title = wish.op or wish.reference.stem
    values = {
        "id": wish.path.name,
        "op": title,
        "contestant": _contestant(wish),
        "cpu_file": "example_cudacode",
        "cpu_label": "PyTorch",
    }
    return {
        "example_torchcode.py": source.text,
        "example_cudacode.py": template("torch.py", candidate=candidate, **values),
        "run_code.py": template("run_code.py", **values),
        "readme.md": template("readme_from.md", **values),
    }


def _without_getters(text: str) -> str:
    """The text without its getters and without the module's docstring."""
    tree = ast.parse(text)
    lines = text.splitlines()
    gone: set[int] = set()
    for position, node in enumerate(tree.body):
        function = isinstance(node, ast.FunctionDef) and node.name in ("get_inputs", "get_init_inputs", "get_work")
        if function or (position == 0 and ast.get_docstring(tree) is not None):
            gone |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    kept = "\n".join(line for number, line in enumerate(lines, 1) if number not in gone)
    return re.sub(r"\n{4,}", "\n\n\n", kept).strip("\n")
