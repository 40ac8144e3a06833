"""profkit report: the derived files of a run, made again, or written up for somebody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from profkit.cli import options as shared
from profkit.cli.terminal import show
from profkit.report.dialect import Dialect, Written
from profkit.report.dialects import DIALECTS
from profkit.report.messages import speaking
from profkit.rundir.files import is_stream, write_atomic


@click.command("report")
@click.argument("runs", nargs=-1, metavar="RUN [MORE]...")
@shared.output("Write here (.md, .html or .json); - is stdout.")
@click.option("--for", "reader", type=click.Choice(list(DIALECTS)), help="Write it up for this reader.")
@shared.lang("Language of the write-up.")
@shared.force
@shared.json_
@click.pass_context
def report_(
    context: click.Context,
    /,
    runs: tuple[str, ...],
    output: Path | None,
    reader: str | None,
    lang: str,
    force: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Make metrics.json, kernels.csv, the roofline, the waterfall and report.md of RUN again.

    RUN is a run directory, or a folder above: the newest run below it is taken. Needs no GPU.

    \b
    profkit report RUN -o report.html                     one page: answer, waterfall, findings, roofline
    profkit report RUN --for pr                           readme text and pictures
    profkit report BEFORE AFTER --for paddle              the table of a pull request
    profkit report RUN --for tensorrt --lang zh           the hackathon's write-up
    """
    if as_json and reader:
        raise click.UsageError("--json is the metrics; it does not go with --for")
    dialect = DIALECTS.get(reader or ("" if as_json else _by_name(output)))
    own = _own(context, dialect, options)
    if not runs and (dialect is None or dialect.needs_runs):
        raise click.UsageError("name a run")
    if dialect is not None:
        return _deliver(dialect.document(runs, lang, **own), output, force)
    if len(runs) != 1:
        raise click.UsageError("one run at a time; `profkit compare` puts runs in a row")
    return _again(runs[0], output, force, as_json, lang)


report_.params += [option for one in DIALECTS.values() for option in one.options]

_TEXT = (".md", ".markdown", ".txt")


def _by_name(output: Path | None) -> str:
    """The dialect that an output's name asks for, "" for none."""
    ends = ((one.name, one.endings) for one in DIALECTS.values() if one.endings)
    return next((name for name, endings in ends if output is not None and output.name.endswith(endings)), "")


def _own(context: click.Context, dialect: Dialect | None, options: dict[str, Any]) -> dict[str, Any]:
    """The options of this dialect. Raises UsageError for one that was given and is another's."""
    names = {str(option.name) for option in dialect.options} if dialect is not None else set()
    for one in DIALECTS.values():
        for option in one.options:
            given = context.get_parameter_source(str(option.name)) == ParameterSource.COMMANDLINE
            if given and str(option.name) not in names:
                raise click.UsageError(f"{option.opts[0]} goes with --for {one.name}")
    return {name: value for name, value in options.items() if name in names}


def _again(run: str, output: Path | None, force: bool, as_json: bool, lang: str) -> int:
    from profkit.report import derived  # pandas and matplotlib stay out of start-up
    from profkit.report.writers import markdown, terminal
    from profkit.study.study import open_study

    study = open_study(run)
    if as_json or output is not None:
        metrics = as_json or (output is not None and output.suffix == ".json")
        if not metrics and output is not None and output.suffix not in ("", *_TEXT):
            raise click.UsageError(f"{output}: a report is written as .md, .html or .json; pictures: profkit roofline")
        with speaking("en" if metrics else lang):
            shared.deliver(derived.metrics(study) if metrics else markdown.report(study), output or Path("-"), force)
        return 0
    files = derived.write(study, lang=lang)
    with speaking(lang):
        show(terminal.summary(study))
    click.echo(terminal.next_steps(study, files), err=True)
    return 0


def _deliver(written: Written, output: Path | None, force: bool) -> int:
    """Text to stdout, or to the output with its pictures beside it."""
    if output is None and written.home is not None:
        # A derived file of the run, like report.md: it can be made again.
        output, force = written.home, True
        if written.shown:
            click.echo(written.text)
    target = output or Path("-")
    if str(target) == "-" or is_stream(target):
        if written.pictures:
            click.echo(f"pictures are written beside a file only (-o): {', '.join(written.pictures)}", err=True)
        shared.deliver(written.text, target, force)
        return 0
    for name in written.pictures:
        shared.vacant(target.parent / name, force)
    shared.deliver(written.text, target, force)
    for name, data in written.pictures.items():
        write_atomic(target.parent / name, data)
    click.echo(f"wrote {', '.join([str(target), *written.pictures])}", err=True)
    return 0
