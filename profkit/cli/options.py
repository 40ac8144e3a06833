"""Every option that more than one verb has, once; and help that shows options in sections."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from profkit.record.request import NARROW, Request
from profkit.vendor.nvidia.sanitizer import TOOLS

PATH = click.Path(path_type=Path)
Verb = TypeVar("Verb", bound=Callable[..., Any])
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class Option(click.Option):
    """An option that stands in a section of the help."""

    def __init__(self, *arguments: Any, section: str = "Options", **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.section = section


class Amount(click.FloatRange):
    """A number from `least` on, or above it; neither infinite nor NaN."""

    def __init__(self, least: float = 0, *, above: bool = False) -> None:
        super().__init__(min=least, min_open=above)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not finite", param, ctx)
        return number


class Sectioned(click.Command):
    """A verb whose help shows each option in its section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                sections.setdefault(getattr(param, "section", WHERE), []).append(record)
        for name, rows in sections.items():
            with formatter.section(name):
                formatter.write_dl(rows)


def option(*names: str, section: str = "Options", **settings: Any) -> Callable[[Verb], Verb]:
    """click.option, in a section."""
    return click.option(*names, cls=Option, section=section, **settings)


def shared(*options: Callable[[Verb], Verb]) -> Callable[[Verb], Verb]:
    """Several options in the order given."""

    def add(verb: Verb) -> Verb:
        for one in reversed(options):
            verb = one(verb)
        return verb

    return add


def size(text: str) -> int:
    """Bytes, as in 8GiB, 512M or 1000000; K, M, G and T are powers of 1024 with and without iB or B.

    Raises click.BadParameter.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    if match is None:
        raise click.BadParameter(f"{text!r} is no size; write 8GiB or 512MiB")
    return int(float(match[1]) * _UNITS[match[2]])


def tools(text: str) -> tuple[str, ...]:
    """compute-sanitizer's tools, separated by commas; "all" for all of them. Raises click.BadParameter."""
    names = tuple(dict.fromkeys(filter(None, text.replace(" ", "").split(","))))
    if not names or set(names) - {*TOOLS, "all"}:
        raise click.BadParameter(f"{text!r}: the tools are {', '.join(TOOLS)}, or all")
    return TOOLS if "all" in names else names


def precisions(text: str) -> tuple[str, ...]:
    """Precisions separated by commas, in small letters; none for "". Raises click.BadParameter."""
    names = tuple(dict.fromkeys(filter(None, text.lower().replace(" ", "").split(","))))
    if set(names) - set(NARROW):
        raise click.BadParameter(f"{text!r}: the precisions are {', '.join(NARROW)}")
    return names


WHAT, RIGHT, TIMING, NSIGHT, WHERE = "What to measure", "Correctness", "Timing", "Tools", "Where and output"

device = option("--device", section=WHAT, type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True)
trials = option(
    "--trials",
    section=RIGHT,
    default=5,
    show_default=True,
    type=click.IntRange(1),
    help="Correctness trials, fresh inputs each.",
)
budget = option(
    "--budget",
    section=TIMING,
    type=Amount(),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Time spent on timing, at most.",
)
processes = option(
    "--processes",
    section=TIMING,
    metavar="N",
    type=click.IntRange(1),
    callback=lambda _ctx, _param, count: count or 0,
    help="Fresh processes the budget is spread over.  [default: up to 5 on a CPU, 3 on a GPU, a second each; of a campaign one where that tells]",
)
timeout = option(
    "--timeout",
    section=TIMING,
    type=Amount(above=True),
    default=1.0,
    show_default=True,
    metavar="FACTOR",
    help="Scales every time limit.",
)
wait_quiet = option(
    "--wait-quiet",
    section=TIMING,
    type=Amount(),
    default=0.0,
    metavar="SECONDS",
    help="Begin when nobody else works on the device; exit 3 if that takes longer.",
)
precision = option(
    "--precision",
    section=RIGHT,
    type=click.Choice(["fp32", "fp16", "bf16"]),
    default="fp32",
    show_default=True,
    help="Floating inputs and weights of both sides are cast to it; integers stay.",
)
ncu = option(
    "--ncu", "counters", section=NSIGHT, flag_value="ncu", help="Collect hardware counters with Nsight Compute."
)
events = option(
    "--events", "counters", section=NSIGHT, flag_value="off", help="No counters, on purpose: CUDA events alone."
)
runs = option(
    "--runs", section=WHERE, type=PATH, default=Path("profkit-runs"), show_default=True, help="Where runs go."
)
as_json = option("--json", "as_json", section=WHERE, is_flag=True, help="One JSON document on stdout.")
reader = option(
    "--for", "reader", section=WHERE, type=click.Choice(["agent"]), help="One short JSON document; docs/agent.md."
)
quiet = option("-q", "--quiet", section=WHERE, is_flag=True, help="No progress.")


def _count(text: str) -> int:
    """ "auto" as 0, else a number above 0. Raises click.BadParameter."""
    if text == "auto":
        return 0
    if not text.isdecimal() or int(text) < 1:
        raise click.BadParameter(f"{text!r}: auto, or how many builds run at once")
    return int(text)


@dataclass(frozen=True)
class Runners:
    """Who runs a campaign: see profkit.campaign.campaign.Campaign. `quiet`: nothing is shown."""

    jobs: int
    dask: str
    quiet: bool


def _engine(context: click.Context, param: click.Parameter, text: str | None) -> Any:
    """--jobs or --dask: a cluster's workers decide themselves how many build."""
    if text and any(context.params.get(name) is not None for name in ("jobs", "dask")):
        raise click.UsageError("--jobs is for this machine, --dask for a cluster: give one of them")
    return _count(text) if param.name == "jobs" and text is not None else text


campaign = shared(
    option(
        "--jobs",
        section=WHERE,
        metavar="auto|N",
        callback=_engine,
        help="As a campaign: N builds run ahead, every GPU measures; the same command again goes on.",
    ),
    option(
        "--dask",
        section=WHERE,
        metavar="ADDRESS",
        callback=_engine,
        help="As a campaign on this Dask cluster.",
    ),
)


def fenced(*, sanitize: bool = True) -> Callable[[Verb], Verb]:
    """What keeps a candidate apart: --trust, --memory, --gpu-memory and --sanitize; and what it is --allow-ed."""
    checked = option(
        "--sanitize",
        section=RIGHT,
        metavar="TOOLS",
        callback=lambda _ctx, _param, text: tools(text) if text is not None else (),
        help="Run compute-sanitizer: memcheck, racecheck, initcheck, synccheck, or all.",
    )
    return shared(
        option(
            "--trust/--isolate",
            section=RIGHT,
            help="Your own code: reference and candidates in one process. Otherwise each has one of its own.",
        ),
        option(
            "--allow",
            section=RIGHT,
            metavar="TYPES",
            default="",
            callback=lambda _ctx, _param, text: precisions(text),
            help="Precisions below the task's that count as a win all the same, as in tf32,bf16.",
        ),
        option(
            "--memory",
            section=RIGHT,
            metavar="SIZE",
            callback=lambda _ctx, _param, text: size(text) if text else 0,
            help="Host memory a candidate's process may take, as in 8GiB.",
        ),
        option(
            "--gpu-memory",
            section=RIGHT,
            metavar="SIZE",
            callback=lambda _ctx, _param, text: size(text) if text else 0,
            help="GPU memory that torch may allocate in it (not with --trust).",
        ),
        *([checked] if sanitize else []),
    )


def measuring(verb: Verb) -> Verb:
    """What every verb asks that measures many samples."""
    return shared(device, trials, budget, processes, precision, wait_quiet, timeout, ncu, runs, quiet)(verb)


def request_of(counters: str | None, **options: Any) -> Request:
    """The request of a verb with the options of `measuring`: no counters unless they are asked for."""
    return Request(counters=counters or "off", **options)


def vacant(output: Path, force: bool) -> None:
    """Raises click.UsageError for an output that is there already, unless it may be overwritten."""
    if output.exists() and not force:
        raise click.UsageError(f"{output} exists, will not overwrite it without --force")


def written(ctx: click.Context) -> dict[str, str]:
    """The options that stand on the command line, by parameter, each as its longest name."""
    found: dict[str, str] = {}
    for param in ctx.command.params:
        source = ctx.get_parameter_source(param.name or "")
        if source is click.core.ParameterSource.COMMANDLINE and isinstance(param, click.Option):
            value, flag = ctx.params.get(param.name or ""), param.flag_value
            names = param.secondary_opts if value is False and param.secondary_opts else param.opts
            if flag is None or not isinstance(flag, str) or flag == value:
                found[param.name or ""] = max(names, key=len)
    return found
