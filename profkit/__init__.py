"""profkit: from a kernel's folder to a verdict that can be trusted.

    run = profkit.profile("S1/ICVXKH")                    # measure; a Run, which a notebook shows
    run = profkit.measure(function, x, y, reference=f)    # a callable, here and now, against another
    with profkit.record("step") as r: ...                 # what the GPU does in a block; r.run
    with profkit.annotate("mlp", flops=f): ...            # a named range in any program, with its declared work
    run.kernels, run.metrics, run.explain()               # DataFrames; why it is slow
    profkit.compare(before, after)                        # steps of a ladder; .slower(0.05) is the gate
    profkit.sweep(function, {"n": [1024, 2048]})          # a tidy frame over a grid
    profkit.draw(run)                                     # the roofline, a matplotlib Figure
    profkit.do_bench(f); profkit.compare_timings(f, g)    # milliseconds as Triton's; g against f, paired, with interval
    profkit.read("ncu.csv")                               # somebody else's export, a launches frame

Names are resolved on first use, so that importing profkit stays cheap. `%load_ext profkit` brings %%profkit.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from profkit._version import __version__

if TYPE_CHECKING:
    from collectors import read
    from profkit import record
    from profkit.annotation import annotate
    from profkit.api import Run, compare, draw, measure, open_run, profile, roofline, sweep
    from profkit.errors import CannotProfileError, ProfkitError
    from profkit.torch_tools.bench import compare_timings, do_bench

_HOME = {
    "CannotProfileError": "profkit.errors",
    "ProfkitError": "profkit.errors",
    "annotate": "profkit.annotation",
    "compare_timings": "profkit.torch_tools.bench",
    "do_bench": "profkit.torch_tools.bench",
    "read": "collectors",
}
"""Module of each public name outside profkit.api."""

__all__ = [
    "CannotProfileError",
    "ProfkitError",
    "Run",
    "__version__",
    "annotate",
    "compare",
    "compare_timings",
    "do_bench",
    "draw",
    "measure",
    "open_run",
    "profile",
    "read",
    "record",
    "roofline",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name in __all__ and _HOME.get(name) != "profkit.annotation":
        import_module("profkit.errors")  # it says first which file of the caller's hides a package of ours
    if name == "record":
        # A package that can be called: the name is both.
        return import_module("profkit.record")
    if name not in __all__:
        raise AttributeError(f"module 'profkit' has no attribute {name!r}")
    value = getattr(import_module(_HOME.get(name, "profkit.api")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext profkit` calls."""
    import_module("profkit.bridges.notebook").load(shell)
