"""Authorship of kernels: share of GPU time in kernels that the candidate's source defines."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pandas as pd

from analyzers.counts import column
from collectors.caveat import Caveat

_JIT = {"triton.jit", "jit", "cuda.jit", "numba.cuda.jit", "cute.kernel"}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(")
_ATTRIBUTES = {"__launch_bounds__", "__cluster_dims__", "__attribute__", "__block_size__", "__maxnreg__", "alignas"}
_TRITON_SUFFIX = re.compile(r"_(?:\d+[cde]*)+")


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


def base_name(kernel: str) -> str:
    """Function name of a demangled kernel, without return type, namespaces and arguments.

    "void ns::(anonymous namespace)::scale<float, 4>(float*)" gives "scale".
    """
    name = kernel.replace("(anonymous namespace)", "").replace("<unnamed>", "").replace("->", "\0")
    name = _without(name, "<>").partition("(")[0].replace(">", "").replace("\0", "->").split("::")[-1].strip()
    return name.split(" ")[-1] if name else kernel


def _without(text: str, brackets: str) -> str:
    """The text without anything between brackets; one that is not closed takes the rest."""
    left, right = map(re.escape, brackets)
    inner = re.compile(f"{left}[^{left}{right}]*{right}")
    while (shorter := inner.sub("", text)) != text:
        text = shorter
    return text.partition(brackets[0])[0]


_LAMBDA = re.compile(r"\[?\{?lambda\(((?:[^()]|\([^()]*\))*)\) ?(?:\(instance |#)(\d+)[)}]\]?")
_VALUES = {"false": "0", "true": "1"}
_NO_NAME = re.compile(r"\(anonymous namespace\)|<unnamed>|\{anonymous\}")


def same_kernels(counted: Iterable[str], recorded: Iterable[str]) -> dict[str, str]:
    """Counted name -> plain_name of the recorded kernel; without unrecorded and ambiguous ones."""
    mine, theirs = dict.fromkeys(counted), {plain_name(name): name for name in recorded}
    found = {name: plain for name in mine if (plain := plain_name(name)) in theirs}
    taken = set(found.values())
    left = _spelt(name for name in mine if name not in found)
    others = _spelt(name for plain, name in theirs.items() if plain not in taken)
    return found | {name: plain_name(others[key]) for key, name in left.items() if key in others}


def _spelt(names: Iterable[str]) -> dict[str, str]:
    """one_spelling(name) -> name, for names with a spelling of their own."""
    known = [(one_spelling(name), name) for name in names]
    counts = Counter(key for key, _ in known)
    return {key: name for key, name in known if counts[key] == 1}


def plain_name(kernel: str) -> str:
    """A kernel's full name without spaces, each unnamed part spelled <unnamed>."""
    return _NO_NAME.sub("<unnamed>", kernel).replace(" ", "")


def one_spelling(kernel: str) -> str:
    """Spelling of a demangled kernel name that ncu, CUPTI, nsys and Kineto have in common.

    Function and template arguments without namespaces, types of calls (T1 in ncu), return types and qualifiers; a
    lambda by its arguments and number, a number without its type. Without template arguments those of the call stay.
    """
    text = _LAMBDA.sub(lambda found: f"^{found[1].replace(', ', '^')}^{found[2]}", _NO_NAME.sub("", kernel))
    text = re.sub(r"\b(?:const|void(?= [\w:^(])|false|true)\b", lambda one: _VALUES.get(one[0], ""), text)
    text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", re.sub(r"\w*::", "", text))
    call = text[text.rindex("(") :] if "<" not in text and text.endswith(")") else ""
    return re.sub(r"\s", "", _without(text, "()") + call)


def is_authored(kernel: str, names: Iterable[str]) -> bool:
    """Whether a kernel is one of these functions; Triton's suffix of argument kinds is ignored."""
    base = base_name(kernel)
    return any(
        base == name or (base.startswith(name) and _TRITON_SUFFIX.fullmatch(base[len(name) :])) for name in names
    )


@dataclass(frozen=True)
class Provenance:
    """Authorship: `fraction` of kernel time in authored kernels; `library`: the others."""

    fraction: float
    authored: tuple[str, ...]
    library: tuple[str, ...]
    unlaunched: tuple[str, ...]

    @property
    def never_launched(self) -> bool:
        """The source defines kernels, kernels ran, and none of them was its own."""
        return bool(self.unlaunched) and not self.authored and bool(self.library)

    def caveat(self, impl: str) -> Caveat | None:
        """Caveat when the candidate's own kernels did not run, or carry less than half of the time."""
        if self.never_launched:
            much = f"defined {', '.join(self.unlaunched)}; ran {', '.join(map(base_name, self.library[:3]))}"
            what = f"{impl}: none of the kernels it defines was launched"
            return Caveat(what, much, "look for a fallback to the library")
        if self.authored and self.fraction < 0.5:
            much, fix = f"{self.fraction:.0%} in its own", "the speed-up is mostly the library's"
            return Caveat(f"{impl}: most of the time is in library kernels", much, fix)
        return None


def provenance(frame: pd.DataFrame, names: Iterable[str]) -> Provenance:
    """Authorship of an implementation's launches. frame: launches, or rows of Analysis.kernels."""
    wanted = sorted(set(names))
    rows = frame[frame["kind"].isin(["kernel", ""])] if "kind" in frame else frame
    own = {str(kernel): is_authored(str(kernel), wanted) for kernel in rows["kernel"].unique()}
    each = pd.Series(column(rows, "time"), index=rows.index) * rows.get("instances", 1.0)
    times = each.groupby(rows["kernel"], sort=False, observed=True).sum(min_count=1)
    total = float(times.sum(skipna=False)) if len(times) else math.nan
    mine = [name for name, authored in own.items() if authored]
    order = [str(name) for name in times.sort_values(ascending=False, kind="stable").index]
    return Provenance(
        fraction=float(times[mine].sum()) / total if total > 0 else math.nan,
        authored=tuple(name for name in order if own[name]),
        library=tuple(name for name in order if not own[name]),
        unlaunched=tuple(name for name in wanted if not any(is_authored(kernel, [name]) for kernel in mine)),
    )
