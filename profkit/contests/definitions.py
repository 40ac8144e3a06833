"""The schema that FlashInfer-Bench and SOL-ExecBench share, rewritten as a sample.

    definition   {name, axes, inputs, outputs, reference}   reference: Python source with run(*inputs)
    workload     {axes, inputs, uuid}                       what the variable axes are, and where each input comes from
    solution     {name, definition, spec, sources}          spec.entry_point: "kernel.py::run"; sources: files as text

Source: flashinfer-ai/flashinfer-bench, docs/flashinfer-trace; NVIDIA/SOL-ExecBench, docs/*.md.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from collectors.caveat import Caveat
from profkit.contests.json_files import Json, read_object
from profkit.contests.sources import GETTERS, REFERENCE, Sources, one_timed, own_tolerance, rename_names, size_of
from profkit.errors import ProfkitError

_PLAIN = {"float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "bool"}
_TYPES = _PLAIN | {"float8_e4m3fn", "float8_e5m2"}
_ARITHMETIC = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Name, ast.Load, ast.Constant, ast.operator, ast.unaryop)
_TAKEN = {name: f"published_{name}" for name in ("Model", "get_inputs", "get_init_inputs", "get_more_inputs")}
"""Names of a sample; a reference's own functions of these names are renamed."""
_COMPILED = (".cu", ".cpp", ".cc", ".cxx", ".c")
_LFS = b"version https://git-lfs"


@dataclass(frozen=True)
class Dialect:
    """Differences of the two formats.

    `promised`: source of _promised(name, tensor), which gives a random input the property of its name. `allocate`:
    how output arguments are made; `root`: base of workload paths.
    """

    promised: str
    allocate: str
    root: Path


def task(
    definition: Json, workloads: Sequence[Json], solutions: Iterable[Json], dialect: Dialect, where: Path
) -> Sources:
    """The sample of a definition. Raises ProfkitError with `where` and the field."""
    _complete(definition, ("name", "axes", "inputs", "outputs", "reference"), where)
    _understood(definition, where)
    cases, caveats = _cases(definition, workloads, dialect.root, where)
    candidates: dict[str, str] = {}
    beside: dict[str, str] = {}
    for solution in solutions:
        name = re.sub(r"\W", "_", str(solution.get("name", "solution")))
        text, files_, why = _solution(definition, solution, dialect)
        clash = [path for path, other in files_.items() if beside.get(path, other) != other]
        if clash:
            why = f"another solution brings a different {clash[0]}: measure them one by one"
        if why:
            caveats.append(Caveat(f"solution {name} was left out", why, "", "solution-left-out"))
            continue
        candidates[name] = text
        beside |= files_
    if not candidates:
        said = "; ".join(f"{d.what}: {d.how_much}" for d in caveats if d.code == "solution-left-out")
        raise ProfkitError(f"{where}: no solution to measure{': ' if said else ''}{said}", fix="add one beside it")
    largest = {axis: value for axis, value in cases[0]["axes"].items() if axis in _variable(definition)}
    caveats.insert(0, one_timed(largest, len(cases)))
    custom = definition.get("custom_inputs_entrypoint") or ""
    reference = rename_names(definition["reference"], _TAKEN) + _task_text(definition)
    values = {"cases": repr(cases), "custom": repr(_TAKEN.get(custom, custom)), "promised": dialect.promised}
    reference += _template("reference", **values) + GETTERS
    return Sources(re.sub(r"\W", "_", definition["name"]), reference, candidates, tuple(caveats), beside)


def _complete(row: Mapping[str, Any], fields: Iterable[str], where: Path) -> None:
    missing = [name for name in fields if not row.get(name)]
    if missing:
        raise ProfkitError(f"{where}: no field {missing[0]}", fix="give the unchanged published file")


def _understood(definition: Json, where: Path) -> None:
    for name, tensor in {**definition["inputs"], **definition["outputs"]}.items():
        if tensor["dtype"] not in _TYPES:
            raise ProfkitError(
                f"{where}: {name} is {tensor['dtype']}, which is not supported here", fix="choose another task"
            )
    reference = definition["reference"]
    try:
        defined = {node.name for node in ast.parse(reference).body if isinstance(node, ast.FunctionDef)}
    except (SyntaxError, ValueError) as error:
        raise ProfkitError(f"{where}: reference: not Python: {error.args[0]}", fix="correct it") from error
    if "run" not in defined:
        raise ProfkitError(f"{where}: reference: does not define run", fix="correct it")
    for axis, said in definition["axes"].items():
        if said["type"] != "expr":
            continue
        with contextlib.suppress(SyntaxError):
            if all(isinstance(node, _ARITHMETIC) for node in ast.walk(ast.parse(said["expression"], mode="eval"))):
                continue
        raise ProfkitError(f"{where}: axis {axis}: {said['expression']!r} is not arithmetic on axes", fix="correct it")


def _variable(definition: Json) -> set[str]:
    return {axis for axis, said in definition["axes"].items() if said["type"] == "var"}


def _derived(definition: Json) -> dict[str, int | str]:
    """Axes that no workload sets: numbers in shapes, constants, expressions over others."""
    tensors = (*definition["inputs"].values(), *definition["outputs"].values())
    numbers = {axis: int(axis) for tensor in tensors for axis in tensor["shape"] or [] if str(axis).isdecimal()}
    return numbers | {
        axis: said["value"] if said["type"] == "const" else said["expression"]
        for axis, said in definition["axes"].items()
        if said["type"] != "var"
    }


def _cases(definition: Json, workloads: Sequence[Json], root: Path, where: Path) -> tuple[list[Json], list[Caveat]]:
    """Workloads with available inputs, the largest first; caveats."""
    found, caveats = [], []
    for workload in workloads:
        _complete(workload, ("inputs",), where)
        inputs = {name: dict(source) for name, source in workload["inputs"].items()}
        why = next(filter(None, (_missing(source, root) for source in inputs.values())), "")
        if why:
            caveats.append(Caveat(f"workload {workload.get('uuid', '?')} was left out", why, "", "workload-left-out"))
            continue
        axes: dict[str, Any] = dict(workload.get("axes") or {})
        for axis, value in _derived(definition).items():
            known = axes | {name: source["value"] for name, source in inputs.items() if source["type"] == "scalar"}
            axes[axis] = int(eval(value, {"__builtins__": {}}, known)) if isinstance(value, str) else value
        found.append({"axes": axes, "inputs": inputs})
    if not found:
        said = f": {caveats[0].how_much}" if caveats else ""
        raise ProfkitError(
            f"{where}: no workload with available inputs{said}", fix="add the workloads of this definition"
        )
    variable = _variable(definition)
    first = max(found, key=lambda one: size_of({k: v for k, v in one["axes"].items() if k in variable}))
    limits = next((w["tolerance"] for w in workloads if w.get("tolerance")), None)
    if limits:
        said = ", ".join(f"{key} {value}" for key, value in limits.items())
        caveats.append(own_tolerance(said))
    return [first, *(case for case in found if case is not first)], caveats


def _missing(source: Json, root: Path) -> str:
    """Why an input is not available; "" if it is. Paths become absolute."""
    if source.get("type") not in ("random", "scalar", "safetensors", "custom"):
        return f"an input of type {source.get('type')!r}"
    if source["type"] != "safetensors":
        return ""
    if importlib.util.find_spec("safetensors") is None:
        return "its inputs are in .safetensors: pip install safetensors"
    parts = Path(source["path"]).parts
    there = next((root.joinpath(*parts[n:]) for n in range(len(parts)) if root.joinpath(*parts[n:]).is_file()), None)
    if there is None:
        return f"{source['path']} is not there"
    with there.open("rb") as file:
        if file.read(len(_LFS)) == _LFS:
            return f"{source['path']} is a pointer of git-lfs: git lfs pull"
    source["path"] = str(there.resolve())
    return ""


def _solution(definition: Json, solution: Json, dialect: Dialect) -> tuple[str, dict[str, str], str]:
    """(the candidate's text, other files, why it is skipped)."""
    spec = solution.get("spec") or {}
    sources = {str(row["path"]): str(row["content"]) for row in solution.get("sources") or []}
    file, _, function = str(spec.get("entry_point", "")).rpartition("::")
    if file not in sources:
        return "", {}, f"its entry point {spec.get('entry_point')!r} is not among its sources"
    if any(Path(path).is_absolute() or ".." in Path(path).parts for path in sources):
        return "", {}, "a source lies outside its folder"
    if not function.isidentifier():
        return "", {}, f"{function!r} is no name of a function"
    if file.endswith(".py"):
        text, beside = sources[file], {path: other for path, other in sources.items() if path != file}
        if REFERENCE in beside or "ModelNew" in text:
            return "", {}, f"it uses the name {REFERENCE if REFERENCE in beside else 'ModelNew'}"
    else:
        binding = spec.get("binding") or ("torch" if spec.get("languages") else "tvm-ffi")
        if binding != "torch":
            return "", {}, f"its binding is {binding}; extensions are read with PyTorch's"
        text, beside = _extension(solution, sources, function), {}
    style = "solution" if spec.get("destination_passing_style", True) else "returning"
    if style == "solution" and (unknown := _unknown(definition)):
        return "", {}, f"it writes into outputs whose {min(unknown)} the shapes of the inputs do not tell"
    text += _task_text(definition)
    values = {"axes": repr(_told(definition)), "allocate": dialect.allocate, "function": function}
    return text + _template(style, **values), beside, ""


def _told(definition: Json) -> dict[str, int | str]:
    """Derived axes that follow from the shapes of the inputs."""
    inputs = definition["inputs"].items()
    known = {axis for name, tensor in inputs for axis in (tensor["shape"] if tensor["shape"] is not None else [name])}
    told: dict[str, int | str] = {}
    for axis, value in _derived(definition).items():
        names = {n.id for n in ast.walk(ast.parse(str(value), mode="eval")) if isinstance(n, ast.Name)}
        if axis not in known and names <= known | told.keys():
            told[axis] = value
    return told


def _unknown(definition: Json) -> set[str]:
    """Axes of the outputs that do not follow from the inputs' shapes."""
    known = {axis for tensor in definition["inputs"].values() for axis in tensor["shape"] or []}
    wanted = {axis for tensor in definition["outputs"].values() for axis in tensor["shape"] or []}
    return wanted - known - _told(definition).keys()


def _extension(solution: Json, sources: Mapping[str, str], function: str) -> str:
    """Head of a candidate that builds C++ and CUDA sources with torch's builder."""
    options = (solution.get("spec") or {}).get("compile_options") or {}
    names = {"cflags": "extra_cflags", "cuda_cflags": "extra_cuda_cflags", "ld_flags": "extra_ldflags"}
    flags = {name: list(options[key]) for key, name in names.items() if options.get(key)}
    listed = "{\n" + "".join(f"    {path!r}: {text!r},\n" for path, text in sources.items()) + "}"
    name = re.sub(r"\W", "_", str(solution["name"])).lower()
    compiled = [path for path in sources if Path(path).suffix in _COMPILED]
    return _template(
        "extension", sources=listed, name=name, compiled=repr(compiled), flags=repr(flags), function=function
    )


def _task_text(definition: Json) -> str:
    def table(tensors: Json) -> str:
        return repr({name: (tensor.get("shape"), tensor["dtype"]) for name, tensor in tensors.items()})

    return _template("task", inputs=table(definition["inputs"]), outputs=table(definition["outputs"]))


def _template(which: str, /, **values: str) -> str:
    text = (files("profkit.contests") / "templates" / f"definition_{which}.py.tmpl").read_text("utf-8")
    return Template(text).substitute(values)


def solutions_in(folders: Iterable[Path], definition: str) -> Iterator[Json]:
    """The solutions of a definition among the .json files of some folders, by file name."""
    for file in sorted({file for folder in folders if folder.is_dir() for file in folder.rglob("*.json")}):
        found = read_object(file)
        if found.get("definition") == definition and "sources" in found:
            yield found
