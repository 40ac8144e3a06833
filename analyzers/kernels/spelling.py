"""Spellings of a kernel's name by ncu, CUPTI, nsys and Kineto, and its function name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_TRITON_SUFFIX = re.compile(r"_(?:\d+[cde]*)+")
_LAMBDA = re.compile(r"\[?\{?lambda\(((?:[^()]|\([^()]*\))*)\) ?(?:\(instance |#)(\d+)[)}]\]?")
_VALUES = {"false": "0", "true": "1"}
_NO_NAME = re.compile(r"\(anonymous namespace\)|<unnamed>|\{anonymous\}")


def base_name(kernel: str) -> str:
    """Function name of a demangled kernel, without return type, namespaces and arguments.

    "void ns::(anonymous namespace)::scale<float, 4>(float*)" gives "scale".
    """
    name = kernel.replace("(anonymous namespace)", "").replace("<unnamed>", "").replace("->", "\0")
    name = _without(name, "<>").partition("(")[0].replace(">", "").replace("\0", "->").split("::")[-1].strip()
    return name.split(" ")[-1] if name else kernel


def _without(text: str, brackets: str) -> str:
    """The text without bracketed parts; an unclosed bracket takes the rest."""
    left, right = map(re.escape, brackets)
    inner = re.compile(f"{left}[^{left}{right}]*{right}")
    while (shorter := inner.sub("", text)) != text:
        text = shorter
    return text.partition(brackets[0])[0]


def same_kernels(counted: Iterable[str], recorded: Iterable[str]) -> dict[str, str]:
    """Counted name -> plain_name of the recorded kernel, without unknown and ambiguous ones."""
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
    """Kernel name without spaces; unnamed parts are <unnamed>."""
    return _NO_NAME.sub("<unnamed>", kernel).replace(" ", "")


def one_spelling(kernel: str) -> str:
    """Common spelling of a demangled kernel name for ncu, CUPTI, nsys and Kineto.

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
