"""profkit import, explain, roofline and report: read runs and report on them."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from profkit.cli import options as shared
from profkit.cli.group import complain
from profkit.cli.terminal import progress, show
from profkit.errors import ProfkitError
from profkit.report import explain
from profkit.report.dialects import DIALECTS, Dialect, Written
from profkit.report.messages import speaking
from profkit.report.names import short_name
from profkit.rundir.files import is_stream, write_atomic

LINES = "record them: profkit profile SAMPLE --lines"


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=shared.PATH, metavar="FILE...")
@shared.output("The run directory to make.", metavar="RUN")
@click.option("--device", default="", metavar="NAME", help="The GPU, if the exports do not name it.")
@shared.json_
@shared.quiet
def import_(
    files: tuple[Path, ...],
    output: Path | None,
    device: str,
    as_json: bool,
    quiet: bool,
) -> int:
    """Read exports of ncu, nsys, nvprof, trtexec, rocprof, torch.profiler into a run.

    \b
    profkit import their.csv more.csv report.ncu-rep trace.sqlite -o RUN
    profkit import profile.json layers.json times.json

    Formats are detected by content; the files are copied unchanged. If a file cannot be read, the others are
    imported, and the exit code is 2.
    """
    from profkit.record.importing import import_files
    from profkit.report.derived import metrics, write
    from profkit.report.writers import terminal
    from profkit.study.study import Study

    with progress(quiet) as now, contextlib.ExitStack() as undo:
        found = import_files(files, output, device=device, progress=now)
        undo.callback(shutil.rmtree, found.run.path, ignore_errors=True)  # of an interrupted import nothing stays
        now("analysing")
        study = Study(found.run, found.frames)
        # Of times alone a picture tells no more than the report's table, and takes longer than reading 100 MB.
        written = write(study, pictures=study.manifest.counters.state == "collected")
        undo.pop_all()
    for error in found.failures:
        complain(str(error), error.fix)
    if as_json:
        click.echo(metrics(study), nl=False)
    else:
        show(terminal.summary(study))
        click.echo(terminal.next_steps(study, written), err=True)
    return 2 if found.failures else 0


@click.command("explain")
@click.argument("run", type=shared.PATH)
@click.option("--kernel", default="", metavar="NAME", help="Only kernels whose name contains NAME.")
@click.option("--lines", is_flag=True, help="Source lines where kernels stall.")
@shared.lang("Language of the text.")
@shared.json_
@shared.reader
def explain_(run: Path, kernel: str, lines: bool, lang: str, as_json: bool, reader: str | None) -> int:
    """List findings about the newest run at or below RUN, ranked by the time they could save.

    \b
    profkit explain profkit-runs/ICVXKH
    profkit explain profkit-runs/ICVXKH --kernel relu --json
    profkit explain profkit-runs/ICVXKH --lines

    That time is an upper bound: time now minus roofline time after the fix. Rules that lack counters
    are listed; `profkit profile SAMPLE --deep` collects them.
    """
    shared.one_form(as_json, reader)
    from profkit.study.study import open_study  # pandas stays out of start-up

    study = open_study(run)
    findings = study.findings(kernel)
    names = sorted({str(name) for name in study.kernels.get("kernel", ())})
    if kernel and not any(kernel in name for name in names):
        known = ", ".join(short_name(name, 40) for name in names[:6]) or "none: no counters in this run"
        raise ProfkitError(f"{study.path}: no kernel's name contains {kernel!r}", fix=f"kernels here: {known}")
    if reader is not None:
        from profkit.report.dialects import agent

        click.echo(agent.document(study, findings))
    elif as_json:
        shared.print_json(explain.document(study, findings))
    elif lines:
        with speaking(lang):
            told = explain.lines_text(study.lines, kernel=kernel)
        if not told:
            raise ProfkitError(f"{study.path}: no source lines in this run", fix=explain.runnable(LINES, study))
        show(told)
    else:
        with speaking(lang):
            show(explain.text(study, findings))
    return 0


@click.command("roofline")
@click.argument("runs", nargs=-1, required=True, type=shared.PATH, metavar="RUN...")
@shared.output("A .png, .svg or .pdf file.", Path("roofline.png"))
@click.option(
    "--level",
    "levels",
    default="dram",
    show_default=True,
    callback=lambda _context, _option, text: shared.words_of(text, ("dram", "l2", "l1"), "levels"),
    help="Memory levels, one point per kernel and level: dram,l2,l1.",
)
@click.option("--top", default=12, show_default=True, type=click.IntRange(1), help="Number of kernels, the longest.")
@click.option("--theme", type=click.Choice(["light", "dark"]), default="light", show_default=True)
@shared.force
def roofline_(runs: tuple[Path, ...], output: Path, force: bool, **options: Any) -> int:
    """Draw the kernels of RUN, or of several runs of one device, on one roofline.

    \b
    profkit roofline RUN -o roofline.svg --level dram,l2 --top 20
    profkit roofline BEFORE AFTER --theme dark
    """
    from profkit.report.figures import kernels_scene  # pandas and matplotlib stay out of start-up
    from profkit.study.study import open_study
    from roofline.figure.plot import draw, save

    shared.vacant(output, force, *shared.FIGURES)
    scene = kernels_scene([open_study(run) for run in runs], **options)
    if not any(point.placed or point.copies for point in scene.points):
        raise ProfkitError(
            "nothing to draw: these runs have no kernel with FLOP or bytes",
            fix="a timeline has only times; collect counters with `profkit profile --ncu`, or import an ncu export",
        )
    save(draw(scene), output)
    click.echo(output)
    return 0


@click.command("report")
@click.argument("runs", nargs=-1, metavar="RUN [MORE]...")
@shared.output("Write here (.md, .html or .json); - is stdout.")
@click.option("--for", "reader", type=click.Choice(list(DIALECTS)), help="Form of the report.")
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
    """Write metrics.json, kernels.csv, roofline, waterfall and report.md of RUN again.

    RUN is a run directory, or a folder: its newest run is taken. Needs no GPU.

    \b
    profkit report RUN -o report.html                     one page: answer, waterfall, findings, roofline
    profkit report RUN --for pr                           readme text and pictures
    profkit report BEFORE AFTER --for paddle              the table of a pull request
    profkit report RUN --for tensorrt --lang zh           the hackathon's write-up
    """
    if as_json and reader:
        raise click.UsageError("--json writes the metrics; give it without --for")
    named = [one.name for one in DIALECTS.values() if output is not None and output.name.endswith(one.endings)]
    dialect = DIALECTS.get(reader or ("" if as_json else next(iter(named), "")))
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


def _own(context: click.Context, dialect: Dialect | None, options: dict[str, Any]) -> dict[str, Any]:
    """Options of this dialect. Raises UsageError for an option of another dialect."""
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
    """Write text to stdout, or to the output with its pictures beside it."""
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
