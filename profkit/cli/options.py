"""Options shared by the verbs; measurement options follow from Request's fields."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from profkit.cli.terminal import progress
from profkit.launch import warm
from profkit.launch.environment import environment
from profkit.record.request import NARROW, Request
from profkit.report.messages import LANGUAGES
from profkit.rundir.files import write_atomic
from profkit.vendor.nvidia.sanitizer import TOOLS

if TYPE_CHECKING:
    from profkit.campaign.stages import Answer, WorkItem

PATH = click.Path(path_type=Path)
FIGURES = (".png", ".svg", ".pdf")
Verb = TypeVar("Verb", bound=Callable[..., Any])
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
WHAT, RIGHT, TIMING, NSIGHT, WHERE = "What to measure", "Correctness", "Timing", "Tools", "Where and output"


class Option(click.Option):
    """An option listed under a section of the help."""

    def __init__(self, *arguments: Any, section: str = WHERE, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.section = section


class Amount(click.FloatRange):
    """A finite number >= `least`, or > `least`."""

    def __init__(self, least: float = 0, *, above: bool = False) -> None:
        super().__init__(min=least, min_open=above)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not finite", param, ctx)
        return number


class Sectioned(click.Command):
    """A command that lists options by section in its help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                sections.setdefault(getattr(param, "section", WHERE), []).append(record)
        for name in filter(sections.get, (WHAT, RIGHT, TIMING, NSIGHT, WHERE)):
            with formatter.section(name):
                formatter.write_dl(sections[name])


def option(*names: str, section: str = WHERE, **settings: Any) -> Callable[[Verb], Verb]:
    return click.option(*names, cls=Option, section=section, **settings)


def output(text: str, default: Path | None = None, **settings: Any) -> Callable[[Verb], Verb]:
    """-o, --output: a file or a folder."""
    shown = default is not None
    return click.option("-o", "--output", type=PATH, default=default, show_default=shown, help=text, **settings)


def lang(text: str) -> Callable[[Verb], Verb]:
    return click.option("--lang", type=click.Choice(LANGUAGES), default="en", show_default=True, help=text)


def shared(*options: Callable[[Verb], Verb]) -> Callable[[Verb], Verb]:
    """Combine several options in this order."""

    def add(verb: Verb) -> Verb:
        for one in reversed(options):
            verb = one(verb)
        return verb

    return add


def size(text: str) -> int:
    """Bytes, as in 8GiB, 512M or 1000000; K, M, G and T are powers of 1024.

    Raises click.BadParameter.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    if match is None:
        raise click.BadParameter(f"{text!r} is no size; write 8GiB or 512MiB")
    return int(float(match[1]) * _UNITS[match[2]])


def words_of(text: str, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    """Split words at commas, in lower case. Raises click.BadParameter for an unknown word."""
    names = tuple(dict.fromkeys(filter(None, text.lower().replace(" ", "").split(","))))
    if not names or set(names) - set(known):
        raise click.BadParameter(f"{text!r}: the {what} are {', '.join(known)}")
    return names


@dataclass(frozen=True)
class Field:
    """Command-line form of a field of Request.

    `names`: its options, default --field; `read`: parses the value; `settings`: more arguments for click.
    """

    section: str
    help: str
    metavar: str | None = None
    names: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    read: Callable[[Any], Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


_COUNTED = "Commands: "
FIELDS = {
    "only": Field(WHAT, "Only this candidate; repeatable.", "NAME", ("--candidate", "only")),
    "device": Field(WHAT, "", choices=("auto", "cuda", "gpu", "cpu"), read=lambda one: one.replace("gpu", "cuda")),
    "precision": Field(
        RIGHT,
        "Cast floating-point inputs and weights of both sides to it.",
        choices=("fp32", "fp16", "bf16"),
        settings={"default": "fp32"},
    ),
    "mode": Field(
        RIGHT,
        "Modules as constructed (train) or in eval mode.  [default: `mode` of the reference, else eval]",
        choices=("train", "eval"),
    ),
    "hot": Field(WHAT, _COUNTED + "rank kernels first, then count the N hottest.", "N"),
    "range": Field(WHAT, _COUNTED + "record only inside this range.", "NAME"),
    "after": Field(WHAT, _COUNTED + "skip N steps.", "N"),
    "steps": Field(WHAT, _COUNTED + "record N steps.", "N"),
    "kernel": Field(WHAT, _COUNTED + "count only kernels that match.", "REGEX", ("-k", "--kernel-name", "kernel")),
    "trials": Field(RIGHT, "Correctness trials, each with fresh inputs.", "N"),
    "backward": Field(RIGHT, "Compare the gradients too, and time backward separately."),
    "trust": Field(
        RIGHT,
        "Put no walls around candidates (for your own code): they may write anywhere and use the network.",
        names=("--trust/--isolate",),
    ),
    "allow": Field(
        RIGHT,
        "Accept these precisions below the task's for a speed-up, as in tf32,bf16.",
        "TYPES",
        read=lambda text: words_of(text, NARROW, "precisions"),
    ),
    "memory": Field(RIGHT, "Host memory limit of a candidate's process, as in 8GiB.", "SIZE", read=size),
    "sanitize": Field(
        RIGHT,
        "Run compute-sanitizer: memcheck, racecheck, initcheck, synccheck, or all.",
        "TOOLS",
        read=lambda text: TOOLS if "all" in (names := words_of(text, (*TOOLS, "all"), "tools")) else names,
    ),
    "shapes": Field(TIMING, "Time get_inputs() only, or get_more_inputs() too.", choices=("first", "all")),
    "budget": Field(
        TIMING,
        "Time for timing, over all processes, without checks and builds. A measurement stops after 12 times this or a minute, "
        "whichever is longer; a caveat lists what was skipped: processes, counters without --ncu.",
        "SECONDS",
    ),
    "processes": Field(
        TIMING,
        "Fresh processes for timing.  [default: one if conclusive, else up to 5 on a CPU, 3 on a GPU]",
        "N",
    ),
    "timeout": Field(
        TIMING,
        "Kill a command, or a candidate's call or check, that takes longer; a compiler may take 10 minutes.  "
        "[default: 60 for a candidate]",
        "SECONDS",
        ("--time-limit", "limit"),
        settings={"type": Amount(above=True), "default": None, "callback": None},
    ),
    "perturb": Field(TIMING, "Infer the bottleneck from times under changed conditions, without counters."),
    "nsys": Field(NSIGHT, "Record a command's timeline with Nsight Systems, or torch's profiler if it is missing."),
    "deep": Field(NSIGHT, "Also collect the counters that `profkit explain` uses."),
    "lines": Field(NSIGHT, "--deep, and source lines where kernels stall."),
    "runs": Field(WHERE, "Folder for new runs.", "DIR", settings={"type": PATH}),
}
"""Fields of Request with an option; the others are for the library only."""
_LEAST = {"after": 0, "trials": 1, "hot": 1, "steps": 1, "processes": 1}
_PHASE = 60.0
"""Default limit in seconds of a candidate's call or check; `--time-limit` scales every limit by it."""


def of_request(*names: str) -> Callable[[Verb], Verb]:
    """Options of these fields of Request; "ncu" and "events" are the two options of `counters`."""
    known = {one.name: one.default for one in fields(Request)}
    return shared(*(_COUNTERS[name] if name in _COUNTERS else _of_field(name, known[name]) for name in names))


def _of_field(name: str, default: Any) -> Callable[[Verb], Verb]:
    one = FIELDS[name]
    read = one.read or (lambda value: value)
    settings: dict[str, Any] = {
        "help": one.help,
        "metavar": one.metavar,
        "default": default or None,
        "callback": lambda _ctx, _param, value: default if value in (None, ()) else read(value),
    }
    if one.choices:
        settings["type"] = click.Choice(one.choices)
    elif isinstance(default, bool):
        settings |= {"is_flag": True, "metavar": None, "default": default}
    elif isinstance(default, tuple):
        settings["multiple"] = one.read is None
    elif name in _LEAST:
        settings["type"] = click.IntRange(_LEAST[name])
    elif isinstance(default, float):
        settings["type"] = Amount()
    settings |= one.settings
    settings["show_default"] = settings["default"] not in (None, False)
    return option(*(one.names or (f"--{name}",)), section=one.section, **settings)


_COUNTERS = {
    "ncu": option(
        "--ncu", "counters", section=NSIGHT, flag_value="ncu", help="Collect hardware counters; exit 3 if impossible."
    ),
    "events": option("--events", "counters", section=NSIGHT, flag_value="off", help="No counters; CUDA events only."),
}
json_ = option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
reader = option("--for", "reader", type=click.Choice(["agent"]), help="One short JSON document; docs/agent.md.")
quiet = option("-q", "--quiet", is_flag=True, help="No progress.")
server = option(
    "--server/--no-server",
    default=None,
    callback=lambda _ctx, _param, asked: warm.wanted(asked),
    help="Keep a process with torch imported for the next command; it exits after 15 idle minutes.  [default: yes, not in CI]",
)
force = option("--force", is_flag=True, help="Overwrite an existing output.")
since = option(
    "--since",
    type=click.DateTime(("%Y-%m-%d", "%Y-%m-%dT%H:%M")),
    callback=lambda _ctx, _param, when: f"{when:%Y-%m-%dT%H:%M:%S}" if when else "",
    metavar="WHEN",
    help="Only runs from this time (UTC) on, as in 2026-11-22 or 2026-11-22T08:00.",
)
"""--since: an ISO time, default ""."""
runs = option(
    "--runs",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("profkit-runs"),
    show_default=True,
    help="Folder of runs.",
)


def request_of(counters: str | None, *, otherwise: str = "off", **options: Any) -> Request:
    """Build the Request from options; `otherwise`: counters by default."""
    limit = options.pop("limit", None)
    if limit is not None:
        options["timeout"] = limit / _PHASE
    return Request(counters=counters or otherwise, **options)


def _engine(context: click.Context, param: click.Parameter, text: str | None) -> Any:
    """--jobs (0 for "auto") or --dask, where the cluster decides the number of builds."""
    if text and any(context.params.get(name) is not None for name in ("jobs", "dask")):
        raise click.UsageError("--jobs is for this machine, --dask for a cluster: give only one")
    if param.name == "dask" or text is None:
        return text
    if text != "auto" and not (text.isdecimal() and int(text)):
        raise click.BadParameter(f"{text!r}: give auto or a number of builds")
    return 0 if text == "auto" else int(text)


campaign = shared(
    option(
        "--jobs",
        metavar="auto|N",
        callback=_engine,
        help="Run a campaign: N builds ahead, all GPUs measure; repeat the command to resume.",
    ),
    option("--dask", metavar="ADDRESS", callback=_engine, help="Run the campaign on this Dask cluster."),
)


@dataclass(frozen=True)
class Runners:
    """Execution of a campaign, see profkit.campaign.campaign.run. `quiet`: no progress."""

    jobs: int
    dask: str
    quiet: bool

    @classmethod
    def of(cls, jobs: int | None, dask: str | None, quiet: bool) -> Runners | None:
        """Runners of a campaign, None without one; locally one process imports torch for all."""
        if jobs is None and not dask:
            return None
        if not dask:
            click.get_current_context().with_resource(warm.runners(environment()))
        return cls(jobs or 0, dask or "", quiet)

    def run(self, name: str, items: Sequence[WorkItem], request: Request) -> Iterator[tuple[WorkItem, Answer]]:
        """Yield each item with its result when done; see profkit.campaign.campaign.run."""
        from profkit.campaign.campaign import run  # pandas

        with progress(self.quiet) as now, closing(run(name, items, request, now.line, self.jobs, self.dask)) as done:
            for item, one in done:
                with now.aside():
                    yield item, one


def print_json(document: Any) -> None:
    """One document on stdout: an unknown number is null, structs and dataclasses are objects."""
    text = msgspec.json.encode(document, enc_hook=lambda one: one.item() if hasattr(one, "item") else str(one))
    click.echo(text.decode())


def one_form(as_json: bool, reader: str | None) -> None:
    """Raise click.UsageError if both --json and --for are given."""
    if as_json and reader:
        raise click.UsageError("give --json (everything) or --for agent (the essentials), not both")


def deliver(text: str, output: Path, force: bool) -> None:
    """Write text to stdout ("-") or a file. Raises click.UsageError for an existing file."""
    if str(output) == "-":
        click.echo(text, nl=not text.endswith("\n"))
        return
    vacant(output, force)
    write_atomic(output, text.encode())


def vacant(output: Path, force: bool, *endings: str) -> None:
    """Raise click.UsageError for an existing output or a wrong extension."""
    if endings and output.suffix.lower() not in endings:
        raise click.UsageError(f"{output}: name a file that ends in {', '.join(endings)}")
    if output.exists() and not force:
        raise click.UsageError(f"{output} exists, will not overwrite it without --force")


def written(ctx: click.Context) -> dict[str, str]:
    """Options given on the command line: parameter -> longest option name."""
    found: dict[str, str] = {}
    for param in ctx.command.params:
        source = ctx.get_parameter_source(param.name or "")
        if source is click.core.ParameterSource.COMMANDLINE and isinstance(param, click.Option):
            value, flag = ctx.params.get(param.name or ""), param.flag_value
            names = param.secondary_opts if value is False and param.secondary_opts else param.opts
            if flag is None or not isinstance(flag, str) or flag == value:
                found[param.name or ""] = max(names, key=len)
    return found
