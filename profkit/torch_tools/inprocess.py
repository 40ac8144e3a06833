"""Time callables in this process, for a notebook.

Unlike a sample it is not isolated: damage persists, and other work of the process disturbs it.
"""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import torch

from profkit.guest import facts
from profkit.guest.subject import TimedCall
from profkit.guest.tensors.compare import leaves
from profkit.judge.precision.bits import Precision
from profkit.judge.precision.oracle import Oracle
from profkit.judge.precision.probe import task_type
from profkit.judge.timing import engine
from profkit.launch import cache
from profkit.launch.protocol import Events, Job
from profkit.torch_tools import ceilings, work


class Repeated:
    """Repeated calls on the same arguments, with the interface of TimedCall."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
        self._function = function
        self._arguments = arguments

    def __call__(self) -> Any:
        return self._function(*self._arguments)

    def turn(self) -> None:
        """No-op: there is one set of arguments."""


def measure(functions: Mapping[str, Callable[..., Any]], arguments: Sequence[Any], job: Job, events: Path) -> None:
    """Time the callables alternately and model the first one's work; the first is the reference."""
    out = Events(events, job.limits)
    device = device_of(arguments, job.device)
    found = facts.device_facts(device)
    out.send("facts", device=found, versions=facts.versions())
    try:
        said = work.modelled(cast(Any, next(iter(functions.values()))), list(arguments), str(found.get("cc", "")))
        out.send("work", **said)
    except Exception as error:
        traceback.print_exc()
        out.send(
            "caveat",
            what="the work of the callable could not be modelled",
            how_much=f"{type(error).__name__}: {error}",
            fix="",
        )
    right = [name for number, name in enumerate(functions) if not number or _checked(functions, name, arguments, out)]
    calls = {name: cast(TimedCall, Repeated(functions[name], arguments)) for name in right}
    out.send("timing", **engine.time_all(job, calls, device, out, lambda _: None))
    if device.type == "cpu" and not cache.ceilings(found).exists():
        ceilings.send(out, device)
    out.send("done")


def _checked(functions: Mapping[str, Callable[..., Any]], name: str, arguments: Sequence[Any], out: Events) -> bool:
    """Compare a callable with the first one; each has a copy of the arguments."""
    first, given = next(iter(functions.values())), list(arguments)
    wanted, got = (one(*copy.deepcopy(given)) for one in (first, functions[name]))
    case = Oracle(first, Precision(task_type(first, given, wanted))).case(given, wanted)
    found = case.judged(got, exact=True, full=True)
    out.send("check", name, seed=0, **asdict(found))
    out.send("impl", name, status=found.status, reason=found.what)
    out.send(
        "caveat",
        what="a callable is compared once, on the arguments it is timed with",
        how_much="no fresh inputs",
        fix="make it a sample: profkit new",
        code="compared-once",
    )
    return found.status == "ok"


def device_of(arguments: Sequence[Any], wanted: str) -> torch.device:
    """The device of the arguments; without tensors the GPU if there is one."""
    if wanted != "auto":
        return facts.choose(wanted)
    given = leaves(list(arguments))
    on_host = torch.device("cpu") if given else facts.choose("auto")
    return next((leaf.device for leaf in given if leaf.is_cuda), on_host)
