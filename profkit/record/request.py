"""The user's options for any target, and which of them can apply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from profkit.errors import ProfkitError
from profkit.rundir.directory import RUNS
from profkit.rundir.manifest import Window

MOST = {"cpu": 5, "cuda": 3}
"""Default number of timed processes per implementation; on a GPU each costs a context."""
LEAST = 3
"""Fewest processes whose spread predicts the next one."""
WHOLE, LEAST_WHOLE = 12.0, 60.0
"""Limit of checks and timing: times the budget, and at least these seconds."""
NARROW = ("tf32", "fp16", "bf16", "fp8", "fp6", "fp4")
"""Precisions below FP32 that a task may allow."""


@dataclass(frozen=True)
class Request:
    """Options of a measurement.

    counters: "auto" (ncu if it works; for a program only if launches or counters are named, or nothing else records
    it), "ncu" (required) or "off". runs: the folder of the run directories. deep: also collect the counters of
    `explain`. lines: deep, and source lines where kernels stall.

    For a sample: device: auto, cuda, cpu. only: candidates to run, () for all. trials: correctness trials. budget:
    seconds of timing; `whole` limits the rest. timeout: scales the limit of every phase. processes: fresh processes of
    each implementation that share the budget; 0: one per second of it, up to MOST, fewer if clear. target: relative
    half-width of the median's interval at which timing stops. l2: cold or warm. mode: train (modules as constructed) or
    eval; "": the sample's, else eval. precision: fp32, fp16 or bf16: cast floating inputs and weights of both sides;
    "": as written. allow: precisions below the task's own in which a candidate may compute (tf32, bf16, ...). trust:
    put no walls around candidates. memory: host bytes of a candidate's process, 0 for no limit. shapes: "all" also times get_more_inputs(), "first" only get_inputs(). backward: compare and time gradients. perturb: time
    under changed conditions, to infer the bottleneck. sanitize: tools of compute-sanitizer to run. campaign: the
    campaign and this item of it. company: its other samples may use the GPU while this one is not timing.

    For a program: nsys: record a timeline. range, after, steps: the part to record (rundir.manifest.Window). kernel:
    ncu's -k. hot: rank kernels, count so many of the hottest, then end the program. limit: seconds until it counts as
    hung, or None.
    """

    counters: str = "auto"
    device: str = "auto"
    only: tuple[str, ...] = ()
    trials: int = 5
    budget: float = 5.0
    processes: int = 0
    target: float = 0.005
    l2: str = "cold"
    timeout: float = 1.0
    deep: bool = False
    lines: bool = False
    perturb: bool = False
    nsys: bool = False
    precision: str = ""
    mode: str = ""
    allow: tuple[str, ...] = ()
    trust: bool = False
    memory: int = 0
    shapes: str = "first"
    backward: bool = False
    sanitize: tuple[str, ...] = ()
    campaign: str = ""
    company: bool = False
    range: str = ""
    after: int = 0
    steps: int = 0
    hot: int = 0
    kernel: str = ""
    limit: float | None = None
    runs: Path = RUNS

    def __post_init__(self) -> None:
        for name, known in {"l2": ("cold", "warm"), "shapes": ("first", "all"), "mode": ("", "train", "eval")}.items():
            if (value := getattr(self, name)) not in known:
                raise ProfkitError(f"{name}={value!r} is unknown", fix=f"use one of: {', '.join(map(repr, known))}")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Request:
        """Keyword options of profkit.profile() and measure(). Raises TypeError for an unknown name."""
        known = [one.name for one in fields(cls)]
        for name in options:
            if name not in known:
                near = get_close_matches(name, known, n=1, cutoff=0.5)
                said = f"did you mean {near[0]!r}?" if near else f"these: {', '.join(known)}"
                raise TypeError(f"profkit.profile() and profkit.measure() have no option {name!r}; {said}")
        return cls(**options)

    def sittings(self, device: str) -> int:
        """Number of processes that time each implementation."""
        many = min(MOST[device], int(self.budget))
        return self.processes or (many if many >= LEAST else 1)

    @property
    def whole(self) -> float:
        """Seconds of checks and timing after which only steps that decide a verdict are started."""
        return max(LEAST_WHOLE, WHOLE * self.budget)

    @property
    def insists(self) -> bool:
        """Whether a sample's run fails without counters."""
        return self.counters == "ncu" or self.deep or self.lines

    @property
    def filtered(self) -> bool:
        """Whether only some launches of a program are counted."""
        return bool(self.hot or self.kernel or self.range)

    @property
    def window(self) -> Window:
        """The wanted part of a program."""
        return Window(self.range, self.after, self.steps)

    @property
    def given(self) -> dict[str, str]:
        """Fields that differ from their default, under their own names."""
        return {one.name: one.name for one in fields(self) if getattr(self, one.name) != one.default}


_PROGRAM = {"range", "after", "steps", "hot", "kernel", "limit"}
_FOR = {
    "folder": {one.name for one in fields(Request)} - _PROGRAM - {"nsys"},
    "program": _PROGRAM | {"counters", "deep", "lines", "nsys", "runs"},
    "callable": {"device", "budget", "target", "l2", "runs"},
}
_WORDS = {"folder": "a sample", "program": "a command after --", "callable": "a callable"}


def refuse(kind: str, wanted: Request, given: Mapping[str, str] | None = None) -> None:
    """Raise ProfkitError, with the name, for options that cannot apply to this kind of target.

    given: the options on the command line; by default all fields that differ from their default.
    """
    said = wanted.given if given is None else dict(given)
    if kind == "callable" and wanted.counters == "off":
        said.pop("counters", None)
    strange = [shown for name, shown in said.items() if name not in _FOR[kind]]
    if strange:
        others = [words for one, words in _WORDS.items() if all(name in _FOR[one] for name in said) and one != kind]
        fix = f"leave it out, or profile {' or '.join(others)}" if others else "leave it out"
        raise ProfkitError(f"{', '.join(strange)}: not for {_WORDS[kind]}", fix=fix)
    traced = kind == "program" and wanted.nsys and not wanted.hot and wanted.counters == "auto"
    useless = [shown for name, shown in said.items() if name in ("deep", "lines", "kernel")]
    if useless and (traced or wanted.counters == "off"):
        raise ProfkitError(f"{', '.join(useless)}: only with hardware counters", fix="add --ncu")
    if (wanted.window.after or wanted.steps) and not wanted.range and not traced:
        steps = ", ".join(said[name] for name in ("after", "steps") if name in said)
        raise ProfkitError(
            f"{steps}: ncu counts launches and needs a range that defines a step",
            fix="give --range NAME, entered once per step; or use only --nsys, which detects steps",
        )
    if wanted.hot and wanted.kernel:
        raise ProfkitError(f"{said['kernel']}: --hot already selects kernels", fix="give only one of them")
    if kind == "program" and wanted.counters == "off":
        raise ProfkitError("a command without counters needs nsys", fix="use --nsys instead of --events")
