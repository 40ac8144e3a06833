"""Shared options of the verbs; those of a measurement follow from Request's fields."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

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
    """An option that stands in a section of the help."""

    def __init__(self, *arguments: Any, section: str = WHERE, **settings: Any) -> None:
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
    """A command with the options of its help in sections."""

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
    """click.option, in a section."""
    return click.option(*names, cls=Option, section=section, **settings)


def output(text: str, default: Path | None = None, **settings: Any) -> Callable[[Verb], Verb]:
    """-o, --output: a file or a folder."""
    shown = default is not None
    return click.option("-o", "--output", type=PATH, default=default, show_default=shown, help=text, **settings)


def lang(text: str) -> Callable[[Verb], Verb]:
    return click.option("--lang", type=click.Choice(LANGUAGES), default="en", show_default=True, help=text)


def shared(*options: Callable[[Verb], Verb]) -> Callable[[Verb], Verb]:
    """Several options in the order given."""

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
    """Words separated by commas, in small letters. Raises click.BadParameter for an unknown one."""
    names = tuple(dict.fromkeys(filter(None, text.lower().replace(" ", "").split(","))))
    if not names or set(names) - set(known):
        raise click.BadParameter(f"{text!r}: the {what} are {', '.join(known)}")
    return names


@dataclass(frozen=True)
class Field:
    """How a field of Request stands on the command line.

    `names`: its options, --field unless given; `read`: parses its value; `settings`: further ones of click's.
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
        "Floating inputs and weights of both sides are cast to it; integers stay.",
        choices=("fp32", "fp16", "bf16"),
        settings={"default": "fp32"},
    ),
    "mode": Field(
        RIGHT,
        "Modules as constructed (train) or in eval mode.  [default: `mode` of the reference, else eval]",
        choices=("train", "eval"),
    ),
    "hot": Field(WHAT, _COUNTED + "rank first, count the N hottest.", "N"),
    "range": Field(WHAT, _COUNTED + "only inside this range.", "NAME"),
    "after": Field(WHAT, _COUNTED + "pass over N steps.", "N"),
    "steps": Field(WHAT, _COUNTED + "then N steps.", "N"),
    "kernel": Field(WHAT, _COUNTED + "count only kernels that match.", "REGEX", ("-k", "--kernel-name", "kernel")),
    "trials": Field(RIGHT, "Correctness trials, fresh inputs each.", "N"),
    "backward": Field(RIGHT, "Compare the gradients too, and time them apart."),
    "trust": Field(
        RIGHT,
        "Your own code: reference and candidates in one process. Otherwise each has one of its own.",
        names=("--trust/--isolate",),
    ),
    "allow": Field(
        RIGHT,
        "Precisions below the task's that count as a win all the same, as in tf32,bf16.",
        "TYPES",
        read=lambda text: words_of(text, NARROW, "precisions"),
    ),
    "memory": Field(RIGHT, "Host memory a candidate's process may take, as in 8GiB.", "SIZE", read=size),
    "sanitize": Field(
        RIGHT,
        "Run compute-sanitizer: memcheck, racecheck, initcheck, synccheck, or all.",
        "TOOLS",
        read=lambda text: TOOLS if "all" in (names := words_of(text, (*TOOLS, "all"), "tools")) else names,
    ),
    "shapes": Field(TIMING, "Time get_inputs() alone, or all of get_more_inputs() too.", choices=("first", "all")),
    "budget": Field(
        TIMING,
        "Timing, over all processes. Checks and builds come on top. After 12 times as long, or a minute if that is more, the "
        "answer stands, and a caveat names what is left out: processes, other layouts and shapes, counters without --ncu.",
        "SECONDS",
    ),
    "processes": Field(
        TIMING,
        "Fresh processes the budget is spread over.  [default: one where that tells, else up to 5 on a CPU, 3 on a GPU]",
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
    "perturb": Field(TIMING, "Infer what binds it from time alone, under other conditions."),
    "nsys": Field(NSIGHT, "Record a timeline with Nsight Systems; commands: without it by torch's profiler."),
    "deep": Field(NSIGHT, "The counters that `profkit explain` asks for as well."),
    "lines": Field(NSIGHT, "--deep, and the source lines that the kernels wait for."),
    "runs": Field(WHERE, "Where runs go.", "DIR", settings={"type": PATH}),
}
"""The fields of Request that are options; the others are for the library."""
_LEAST = {"after": 0, "trials": 1, "hot": 1, "steps": 1, "processes": 1}
_PHASE = 60.0
"""Seconds that a call or a check of a candidate may take by default; `--time-limit` scales every limit by it."""


def of_request(*names: str) -> Callable[[Verb], Verb]:
    """Options of these fields of Request; "ncu" and "events" are the two of `counters`."""
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
        "--ncu", "counters", section=NSIGHT, flag_value="ncu", help="Hardware counters, or exit 3 where there are none."
    ),
    "events": option(
        "--events", "counters", section=NSIGHT, flag_value="off", help="No counters, on purpose: CUDA events alone."
    ),
}
json_ = option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
reader = option("--for", "reader", type=click.Choice(["agent"]), help="One short JSON document; docs/agent.md.")
quiet = option("-q", "--quiet", is_flag=True, help="No progress.")
server = option(
    "--server/--no-server",
    default=None,
    callback=lambda _ctx, _param, asked: warm.wanted(asked),
    help="Keep torch imported for the next command: a process that leaves after 15 idle minutes.  [default: yes, not in CI]",
)
force = option("--force", is_flag=True, help="Overwrite an existing output.")
since = option(
    "--since",
    type=click.DateTime(("%Y-%m-%d", "%Y-%m-%dT%H:%M")),
    callback=lambda _ctx, _param, when: f"{when:%Y-%m-%dT%H:%M:%S}" if when else "",
    metavar="WHEN",
    help="Only what is of this date (UTC) or later, as in 2026-11-22 or 2026-11-22T08:00.",
)
"""--since of the verbs about many runs: an ISO time, "" without."""
runs = option(
    "--runs",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("profkit-runs"),
    show_default=True,
    help="Where runs are.",
)


def request_of(counters: str | None, *, otherwise: str = "off", **options: Any) -> Request:
    """The request of these options; `otherwise`: the counters where none are asked for."""
    limit = options.pop("limit", None)
    if limit is not None:
        options["timeout"] = limit / _PHASE
    return Request(counters=counters or otherwise, **options)


def _engine(context: click.Context, param: click.Parameter, text: str | None) -> Any:
    """--jobs ("auto" is 0) or --dask: a cluster's workers decide themselves how many build."""
    if text and any(context.params.get(name) is not None for name in ("jobs", "dask")):
        raise click.UsageError("--jobs is for this machine, --dask for a cluster: give one of them")
    if param.name == "dask" or text is None:
        return text
    if text != "auto" and not (text.isdecimal() and int(text)):
        raise click.BadParameter(f"{text!r}: auto, or how many builds run at once")
    return 0 if text == "auto" else int(text)


campaign = shared(
    option(
        "--jobs",
        metavar="auto|N",
        callback=_engine,
        help="As a campaign: N builds run ahead, every GPU measures; the same command again goes on.",
    ),
    option("--dask", metavar="ADDRESS", callback=_engine, help="As a campaign on this Dask cluster."),
)


@dataclass(frozen=True)
class Runners:
    """Where a campaign runs: see profkit.campaign.campaign.run. `quiet`: nothing is shown."""

    jobs: int
    dask: str
    quiet: bool

    @classmethod
    def of(cls, jobs: int | None, dask: str | None, quiet: bool) -> Runners | None:
        """None without a campaign; on this machine a process imports torch for all of it at once."""
        if jobs is None and not dask:
            return None
        if not dask:
            click.get_current_context().with_resource(warm.runners(environment()))
        return cls(jobs or 0, dask or "", quiet)

    def run(self, name: str, items: Sequence[WorkItem], request: Request) -> Iterator[tuple[WorkItem, Answer]]:
        """Each item with what came of it, as it is done; see profkit.campaign.campaign.run."""
        from profkit.campaign.campaign import run  # pandas

        with progress(self.quiet) as now, closing(run(name, items, request, now.line, self.jobs, self.dask)) as done:
            for item, one in done:
                with now.aside():
                    yield item, one


def one_form(as_json: bool, reader: str | None) -> None:
    """Raises click.UsageError where --json and --for are both asked for."""
    if as_json and reader:
        raise click.UsageError("--json holds everything, --for agent what matters: one of them")


def deliver(text: str, output: Path, force: bool) -> None:
    """Write text to stdout ("-") or a file. Raises click.UsageError for an existing file."""
    if str(output) == "-":
        click.echo(text, nl=not text.endswith("\n"))
        return
    vacant(output, force)
    write_atomic(output, text.encode())


def vacant(output: Path, force: bool, *endings: str) -> None:
    """Raises click.UsageError for an output that is there already, or of another ending."""
    if endings and output.suffix.lower() not in endings:
        raise click.UsageError(f"{output}: name a file that ends in {', '.join(endings)}")
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
