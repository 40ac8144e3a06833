"""Language of a candidate by its source, and whether it is available here."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator

BACKENDS = ("cuda", "triton", "cute", "tilelang", "cpp", "torch-compile", "torch")
"""cute is CUTLASS's Python DSL; cuda and cpp are built by torch.utils.cpp_extension."""

GPU = ("cuda", "triton", "cute", "tilelang", "torch-compile", "torch")
CPU = ("cpp", "torch-compile", "torch")

_PACKAGES = {  # backend -> (package as imported, name to install), the first imported one decides
    "tilelang": ("tilelang", "tilelang"),
    "cute": ("cutlass", "nvidia-cutlass-dsl"),
    "triton": ("triton", "triton"),
}


_USES_CUDA = re.compile(
    r"#include\s*[<\"](cuda|cublas|cudnn|cufft|cusparse|cutlass|ATen/cuda/|c10/cuda/)"
    r"|\b(at|c10)::cuda::|\bwith_cuda\s*=\s*True|\bcu(blas|dnn|fft|sparse)[A-Z]\w*\s*\("
)
"""C++ that uses a GPU without its own kernel: calls of NVIDIA's libraries or torch's CUDA functions."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_RAW = re.compile(r"data_ptr\b|accessor|storage\s*\(|\.\s*data\s*<")
"""C++ that accesses a tensor's memory directly."""


def of_tensors(source: str) -> bool:
    """Whether C++ calls only torch's operators, which run on the tensors' device."""
    return not _RAW.search(source)


def detect(source: str) -> str:
    """One of BACKENDS: the imported DSL, else the compiled language, torch.compile or torch.

    An optional DSL that is not installed does not count.
    """
    imported = dict(sorted(_imports(source), reverse=True))
    for backend, (package, _) in _PACKAGES.items():
        if package in imported and not (imported[package] and missing(backend)):
            return backend
    if "__global__" in source or re.search(r"\bcuda_sources\s*=", source):
        return "cuda"
    if re.search(r"\b(load_inline|load)\s*\(", source) and "cpp_extension" in source:
        return "cuda" if re.search(r"\.cu\b", source) or _USES_CUDA.search(_COMMENT.sub(" ", source)) else "cpp"
    return "torch-compile" if re.search(r"\btorch\.compile\b", source) else "torch"


def _imports(source: str) -> Iterator[tuple[str, bool]]:
    """Top-level packages imported anywhere in a source, and whether each is optional."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    tries = [node for node in ast.walk(tree) if isinstance(node, ast.Try) and any(map(_does_without, node.handlers))]
    tried = {one for node in tries for line in node.body for one in ast.walk(line)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node in tried) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0], node in tried


def _does_without(handler: ast.ExceptHandler) -> bool:
    """Whether a handler accepts a missing package, and does not raise again."""
    caught = {"Exception"} if handler.type is None else {ast.unparse(handler.type)}
    if isinstance(handler.type, ast.Tuple):
        caught = {ast.unparse(one) for one in handler.type.elts}
    again = any(isinstance(one, ast.Raise) for line in handler.body for one in ast.walk(line))
    return not again and bool(caught & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def missing(backend: str) -> str:
    """Why a backend cannot run here ("tilelang is not installed: ..."); "" if it can."""
    package, install = _PACKAGES.get(backend, ("", ""))
    if not package or importlib.util.find_spec(package) is not None:
        return ""
    named = backend if backend == package else f"{package}, which {backend} candidates need,"
    return f"{named} is not installed: pip install {install}"
