"""Short kernel names: "gelu (ATen)", "bf16 GEMM 256x128 (cuBLAS)"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import msgspec

from analyzers.kernels.spelling import base_name
from profkit.report.layout import cut

LIMIT = 60
_ATEN = re.compile(r"^(?:void )?(?:at::(?:native::)?)?(?:\w+_)?(elementwise|reduce)_kernel<")


class Spellings(msgspec.Struct, forbid_unknown_fields=True):
    """Patterns of kernel names, each with its operation; types by a mark or a first letter."""

    kernels: list[tuple[str, str]]
    operations: list[str]
    types: dict[str, str]
    letters: dict[str, str]


@cache
def _spellings() -> Spellings:
    """Load names.toml."""
    return msgspec.toml.decode((files("profkit.report") / "names.toml").read_bytes(), type=Spellings)


def _said(found: re.Match[str], said: str) -> str:
    """Fill a name with the pattern's matches; `kind`: the library's spelling of its type."""
    parts = {name: text for name, text in found.groupdict().items() if text}
    kind = parts.get("kind", "")
    known = _spellings()
    named = next((name for mark, name in known.types.items() if mark in kind), known.letters.get(kind[:1], kind))
    own = {"type": named, "plain": _words(parts.get("plain", "")), "way": parts.get("way", "").lower()}
    return said.format(**{**parts, **own})


@lru_cache(maxsize=8192)
def short_name(kernel: str, limit: int = LIMIT) -> str:
    """Operation and library of a known kernel, else its name without types and arguments."""
    for pattern, said in _spellings().kernels:
        found = re.search(pattern, kernel)
        if found:
            return cut(_said(found, said), limit)
    aten = _ATEN.match(kernel)
    return cut(f"{_operation(kernel) or aten[1]} (ATen)" if aten else _bare(kernel), limit)


def _words(name: str) -> str:
    """ "GeluBackward" as "gelu backward"."""
    return re.sub(r"(?<=[a-z])(?<!Arg)(?=[A-Z])", " ", name).lower()


def _operation(kernel: str) -> str:
    found = next(filter(None, (re.search(pattern, kernel) for pattern in _spellings().operations)), None)
    return _words(re.sub(r"_tensor_scalar$|^direct_|^b?float\d+_", "", found[1])) if found is not None else ""


def _bare(kernel: str) -> str:
    """Function name of a C++ kernel; any other name as it is."""
    return base_name(kernel) if re.match(r"^(void )?[\w:<>]+(<.*)?\(.*\)?$", kernel, re.S) else kernel


def short_names(kernels: Iterable[str], limit: int = LIMIT) -> Mapping[str, str]:
    """Short names of the kernels of one table; equal names are numbered."""
    found: dict[str, str] = {}
    seen: dict[str, int] = {}
    for kernel in dict.fromkeys(kernels):
        name = short_name(kernel, limit)
        seen[name] = seen.get(name, 0) + 1
        found[kernel] = name if seen[name] == 1 else f"{name} #{seen[name]}"
    return found


def names_of(rows: Sequence[Mapping[Any, Any]]) -> list[str]:
    """Short names of kernel rows, numbered per implementation as on its page."""
    own: dict[str, list[str]] = {}
    for row in rows:
        own.setdefault(str(row["impl"]), []).append(str(row["kernel"]))
    short = {impl: short_names(kernels) for impl, kernels in own.items()}
    return [short[str(row["impl"])][str(row["kernel"])] for row in rows]
