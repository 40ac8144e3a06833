"""A kernelbot task and its submissions, rewritten as a sample.

    task.yml         files (with the paths of task.py and utils.py), tests and benchmarks: arguments of generate_input
    reference.py     ref_kernel(data), generate_input(..., seed), check_implementation(data, output)
    submission.py    custom_kernel(data); so does every other file of the folder, and of submissions/, that is measured

Source of the format: gpu-mode/reference-kernels, problems/*/*/task.yml; gpu-mode/kernelbot, src/libkernelbot/task.py.

Sources stay unchanged; the code that makes them Model and ModelNew is appended. Inputs that generate_input leaves empty,
or ref_kernel only writes and returns, are output buffers: both sides get an empty one per call, which is no input.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from collectors.caveat import Caveat
from profkit.contests.sources import GETTERS, REFERENCE, Sources, one_timed, own_tolerance, size_of, used_names
from profkit.errors import ProfkitError
from profkit.targets.sample import defined_names
from profkit.targets.source import Source, dotted

TASK, SUBMISSION = "task.yml", "@SUBMISSION@"
_OURS = {"eval.py", "reference.py"}

_WHOLE = '''

# Below: the task as a sample, written by profkit.
import torch as _torch

_BUFFERS = {buffers!r}


def _whole(data):
    """The data with an empty tensor for each buffer of the answer."""
    if not _BUFFERS:
        return data
    parts = list(data)
    device = next((part.device for part in parts if isinstance(part, _torch.Tensor)), "cpu")
    for place in _BUFFERS:
        shape, kind = parts[place]
        parts[place] = _torch.empty(shape, dtype=getattr(_torch, kind), device=device)
    return tuple(parts)


class {model}(_torch.nn.Module):
    def forward(self, data):
        return {kernel}(_whole(data))
'''
_CHECKS = {"match_reference", "make_match_reference", "verbose_allclose", "verbose_allequal"}
"""The contest's functions that compare values in any type."""
_SEEDS = 1 << 16
"""Different seeds of a task, at least."""
_GETTERS = '''

_CASES = {cases!r}


def _drawn(case):
    """The arguments of one call: a buffer is told by its shape and type."""
    seed = {{"seed": int(_torch.randint({seeds}, ()))}} if "seed" in case else {{}}
    data = generate_input(**(case | seed))
    if _BUFFERS:
        parts = list(data)
        for place in _BUFFERS:
            parts[place] = (tuple(parts[place].shape), str(parts[place].dtype).removeprefix("torch."))
        data = tuple(parts)
    return [data]
'''


def tasks(path: Path) -> list[Path]:
    """The folder itself if it is a kernelbot task."""
    return [path] if (path / TASK).is_file() and (path / "reference.py").is_file() else []


def read(folder: Path, device: str) -> Sources:
    """Sample of a task's folder; on "cpu" with "cuda" replaced. Raises ProfkitError."""
    task = _yaml(folder / TASK)
    if task.get("multi_gpu"):
        raise ProfkitError(f"{folder}: tasks with several GPUs are not supported", fix="choose a task of one GPU")
    if task.get("lang", "py") != "py":
        raise ProfkitError(f"{folder}: its language is {task['lang']}, not py", fix="choose a Python task")
    cases = _cases(task, folder)
    reference = Source.read(folder / "reference.py")
    missing = {"ref_kernel", "generate_input"} - defined_names(reference.path)
    if missing:
        raise ProfkitError(f"{reference.path}: does not define {', '.join(sorted(missing))}", fix="add it")
    taken = {"Model", "get_inputs", "get_init_inputs", "get_more_inputs"} & used_names(reference.text)
    if taken:
        raise ProfkitError(f"{reference.path}: the name {min(taken)} is taken", fix="rename it in the task")
    submissions = dict(_submissions(folder))
    if not submissions:
        raise ProfkitError(f"{folder}: no file defines custom_kernel", fix="put a submission.py beside task.yml")
    put = buffers(reference)
    sizes = {key: value for key, value in cases[0].items() if key != "seed"}
    # A task may add its seed to its values, as pmpp's sort does: above the listed seeds no digits would be left.
    listed = [case["seed"] for case in cases if isinstance(case.get("seed"), int)]
    getters = _GETTERS.format(cases=cases, seeds=max([_SEEDS, *listed])) + GETTERS
    getters += "\nany_dtype = True\n" if _CHECKS & used_names(reference.text) else ""
    found = Sources(
        folder.resolve().name,
        reference.text + _WHOLE.format(buffers=put, model="Model", kernel="ref_kernel") + getters,
        {
            name: source.text + _WHOLE.format(buffers=put, model="ModelNew", kernel="custom_kernel")
            for name, source in submissions.items()
        },
        (one_timed(sizes, len(cases)), *_checked(reference)),
        dict(_beside(task, folder)),
    )
    return found.on(device)


def _yaml(file: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError as error:
        raise ProfkitError(f"{file}: reading it needs PyYAML", fix="pip install pyyaml") from error
    try:
        task = yaml.safe_load(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ProfkitError(f"{file}: {' '.join(str(error).split())}", fix="correct the file") from error
    if not isinstance(task, dict):
        raise ProfkitError(f"{file}: no fields in it", fix="give a task.yml with files, tests and benchmarks")
    return task


def _cases(task: Mapping[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Arguments of generate_input: the largest benchmark first, which is timed; tests last."""
    benchmarks, tests = (task.get(key) or [] for key in ("benchmarks", "tests"))
    found = [*benchmarks, *tests]
    if not found or not all(isinstance(case, dict) for case in found):
        raise ProfkitError(f"{folder / TASK}: no benchmarks and no tests", fix="list the arguments of generate_input")
    first = max(benchmarks or tests, key=lambda case: size_of({k: v for k, v in case.items() if k != "seed"}))
    return [first, *(case for case in found if case is not first)]


def _submissions(folder: Path) -> Iterator[tuple[str, Source]]:
    """(name, source) of every file that defines custom_kernel; names are unique identifiers."""
    seen: set[str] = set()
    for file in [*sorted(folder.glob("*.py")), *sorted(folder.glob("submissions/*.py"))]:
        if file.name in _OURS or "custom_kernel" not in defined_names(file):
            continue
        stem = re.sub(r"\W", "_", file.stem)
        name = next(n for n in (stem, *(f"{stem}_{k}" for k in range(2, 1000))) if n not in seen)
        seen.add(name)
        yield name, Source.read(file)


def _beside(task: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, str]]:
    """(name, text) of the task's other files, as task.yml names them."""
    listed = task.get("files") or []
    for row in listed if isinstance(listed, list) else []:
        name, source = str(row.get("name", "")), str(row.get("source", ""))
        if source == SUBMISSION or name in _OURS or not name.endswith(".py"):
            continue
        if Path(name).name != name or name == REFERENCE:
            raise ProfkitError(f"{folder / TASK}: {name!r} is no plain file name", fix="correct the list of files")
        try:
            yield name, (folder / source).read_text("utf-8", "replace")
        except OSError as error:
            raise ProfkitError(f"{folder / source}: {error.strerror}", fix="add it, or correct task.yml") from error


def buffers(reference: Source) -> tuple[int, ...]:
    """Places in the data of output buffers."""
    return tuple(sorted({*_empty(reference), *_only_written(reference)}))


def _empty(reference: Source) -> Iterator[int]:
    """Places of tensors that generate_input allocates by torch.empty and returns as they are."""
    function = reference.functions.get("generate_input")
    if function is None:
        return
    last, text = function.body[-1], ast.unparse(function)
    returned = last.value if isinstance(last, ast.Return) else None
    for place, item in enumerate(returned.elts if isinstance(returned, ast.Tuple) else []):
        name = re.escape(ast.unparse(item).removesuffix(".contiguous()"))
        made = re.search(rf"^ *{name} = torch\.empty(?:_like)?\(", text, re.M)
        if made and len(re.findall(rf"\b{name}\b", text)) == 2:
            yield place


def _only_written(reference: Source) -> tuple[int, ...]:
    """Places of tensors that ref_kernel only writes, completely, and returns."""
    kernel = reference.functions.get("ref_kernel")
    if kernel is None or not kernel.args.args:
        return ()
    words = ast.get_docstring(kernel) is not None
    data, text = kernel.args.args[0].arg, "\n".join(map(ast.unparse, kernel.body[words:]))
    unpacked = re.search(rf"^ *\(?(\w+(?:, \w+)*),?\)? = {data}$", text, re.M)
    names = unpacked[1].split(", ") if unpacked else []
    returned = re.findall(r"\w+", " ".join(re.findall(r"^ *return ([\w(), ]+)$", text, re.M)))

    def only_written(name: str) -> bool:
        written = len(re.findall(rf"\b{name}(?:\[(?:\.\.\.|:)\] =(?!=)|\.copy_\()|\bout={name}\b", text))
        # Where it is unpacked, and nowhere else.
        return bool(written) and len(re.findall(rf"\b{name}\b", text)) == 1 + written + returned.count(name)

    return tuple(place for place, name in enumerate(names) if name != data and only_written(name))


def _checked(reference: Source) -> Iterator[Caveat]:
    """Caveats about the task's own check, as far as its source shows."""
    node = reference.constants.get("check_implementation")
    own = "" if isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] == "make_match_reference" else "whole"
    if own:
        yield Caveat(
            "the task checks answers with its own function",
            "here they are compared with ref_kernel's element by element",
            "a task with more than one right answer is judged too strictly here",
            "own-check",
        )
    elif isinstance(node, ast.Call) and node.keywords:
        said = ", ".join(f"{k.arg} {ast.unparse(k.value)}" for k in node.keywords)
        yield own_tolerance(said)
