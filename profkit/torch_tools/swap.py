"""Run a Python program with a candidate instead of one of torch's operations.

    python -m profkit.torch_tools.swap CANDIDATE.py SCRIPT ARGS...      (or -m MODULE ARGS..., -c CODE ARGS...)

CANDIDATE has ModelNew, OPERATION ("aten::mm") and PLACES, the operation's arguments that its forward takes (profkit
tasks). With own=CANDIDATE.py the operation itself is called through Python, for comparison. Gradients stay the
operation's own.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from typing import Any

from profkit.torch_tools.trace import run

OWN = "own="


def main(arguments: Sequence[str]) -> int:
    """Run the program; return its exit code."""
    import torch

    candidate, *target = arguments
    own = candidate.startswith(OWN)
    found = runpy.run_path(candidate.removeprefix(OWN))
    library = torch.library.Library(found["OPERATION"].partition("::")[0], "IMPL")
    replace(library, found, "CUDA" if torch.cuda.is_available() else "CPU", own)
    return run(target)


def replace(library: Any, found: dict[str, Any], key: str, same: bool) -> None:
    """Register the candidate's forward for the operation; same: call the operation's own."""
    import torch

    namespace, _, name = found["OPERATION"].partition("::")
    operation = getattr(getattr(torch.ops, namespace), name)
    operation = getattr(operation, next(one for one in ("default", "Tensor", "int") if one in operation.overloads()))
    results = len(operation._schema.returns)
    if results != 1 or not hasattr(torch.library, "get_kernel"):
        why = f"it has {results} results" if results != 1 else "that takes torch 2.9"
        sys.exit(f"profkit: {operation} cannot be replaced ({why}): give a patch of the program instead")
    own, keys = torch.library.get_kernel(operation, key), torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
    model, places = found["ModelNew"]().eval(), found["PLACES"]
    arguments = operation._schema.arguments
    inside = same

    def replaced(*given: Any, **more: Any) -> Any:
        nonlocal inside
        if inside:
            return own.call_boxed(keys, *given, **more)
        inside = True
        try:
            every = [*given, *(more.get(one.name, one.default_value) for one in arguments[len(given) :])]
            return model(*(every[at] for at in places))
        finally:
            inside = False

    library.impl(operation, replaced, key)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
