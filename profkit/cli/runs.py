"""profkit list, profkit history, profkit site: many runs."""

from __future__ import annotations

import fnmatch
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from analyzers.verdicts.verdict import WORDS
from profkit.campaign.index import Index
from profkit.campaign.ledger import unfinished
from profkit.cli import options as shared
from profkit.cli.terminal import show
from profkit.errors import ProfkitError
from profkit.report.layout import UNLIMITED, Column, Table, cut, room, terminal_table
from profkit.report.writers.terminal import tone
from profkit.rundir import harmless
from profkit.targets import find_samples, is_sample, resolve
from roofline import units

if TYPE_CHECKING:
    from profkit.campaign.history import Change, Series
    from profkit.campaign.index import Row

_VERDICT = 48
"""Most characters of a verdict on a terminal; a pipe gets all."""
_device = click.option(
    "--device", default="", metavar="NAME", help="Only devices whose name contains this, as in h200."
)
_Damaged = Sequence[tuple[str, str]]


def _complain(runs: Path, damaged: _Damaged) -> None:
    for path, why in damaged:
        click.echo(harmless.line(f"damaged, not looked at: {runs / path}: {why}"), err=True)


def _demand(runs: Path) -> None:
    if not runs.is_dir():
        raise ProfkitError(
            f"{runs}: no such folder of runs", fix="name it with --runs DIR; `profkit profile SAMPLE` makes one"
        )


@click.command("list")
@click.argument("folder", type=shared.PATH, default=Path("S1"))
@shared.runs
@click.option("--sample", default="", metavar="ID", help="Only this sample; * and ? stand for any characters.")
@_device
@shared.since
@click.option("--verdict", "words", multiple=True, type=click.Choice(WORDS), help="Only these verdicts.")
@click.option(
    "--sort",
    type=click.Choice(["created", "time", "lower_bound", "share", "speedup"]),
    default="created",
    show_default=True,
    help="First: the newest, the shortest time, the nearest to its lower bound or ceiling, or the largest speed-up.",
)
@click.option("--top", default=50, show_default=True, type=click.IntRange(0), help="Number of rows; 0 for all.")
@shared.json_
def list_(folder: Path, runs: Path, top: int, as_json: bool, **wanted: Any) -> int:
    """List samples in FOLDER (default S1), runs in profkit-runs, and unfinished campaigns.

    \b
    profkit list --sort speedup --device h200 --since 2026-11-01
    profkit list --sample 'IC*' --verdict wrong --verdict failed
    """
    given = click.get_current_context().get_parameter_source("folder") is not ParameterSource.DEFAULT
    if given and not folder.is_dir():
        raise ProfkitError(f"{folder}: no such folder of samples", fix="omit it to list only runs")
    pattern = wanted["sample"].replace("[", "[[]") or "*"
    samples = [row for row in _samples(folder) if fnmatch.fnmatchcase(row["id"], pattern)]
    rows: list[Row] = []
    damaged: _Damaged = []
    campaigns = unfinished(runs)
    if runs.is_dir():
        index = Index(runs)
        rows, damaged = index.rows(**wanted), index.damaged()
    if as_json:
        document = {
            "schema": "profkit-list/2",
            "samples": samples,
            "runs": [msgspec.structs.asdict(row) | {"path": os.path.join(runs, row.path)} for row in rows],
            "damaged": [{"path": str(runs / path), "why": why} for path, why in damaged],
            "campaigns": campaigns,
        }
        shared.print_json(document)
        return 0
    click.echo(f"samples in {folder}:" if samples else f"no samples in {folder}")
    for sampled in samples:
        show(harmless.line(f"  {sampled['id']:10} {sampled['error'] or ', '.join(sampled['candidates'])}"))
    chosen = any(wanted[name] for name in ("sample", "device", "since", "words"))
    none = "none of them fits" if chosen else "`profkit profile SAMPLE` makes one"
    click.echo(f"runs in {runs}:" if rows else f"no runs in {runs}; {none}")
    if rows:
        click.echo(_table(runs, rows[: top or None]), nl=False)
    if top and len(rows) > top:
        click.echo(f"  and {len(rows) - top} more: --top 0 shows them")
    if campaigns:
        click.echo("campaigns that are not finished:")
    for one in campaigns:
        click.echo(harmless.line(f"  {one.line()}"))
    _complain(runs, damaged)
    return 0


def _samples(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in [folder] if is_sample(folder) else find_samples(folder) if folder.is_dir() else []:
        try:
            sample = resolve(path)
            candidates = [f"{c.name} ({c.backend})" for c in sample.candidates]
            rows.append({"id": sample.id, "candidates": candidates, "error": ""})
        except ProfkitError as error:
            rows.append({"id": path.name, "candidates": [], "error": str(error)})
    return rows


def _table(runs: Path, rows: Sequence[Row]) -> str:
    """The rows as a table; a terminal gets shortened verdicts."""
    most = UNLIMITED if room() >= UNLIMITED else _VERDICT
    columns = [
        Column("run", [str(runs / row.path) for row in rows]),
        Column("candidate", [row.impl for row in rows]),
        Column("measured", [row.created for row in rows], 4),
        Column("device", [row.device for row in rows], 3),
        Column("time", [units.text(row.time, "s") for row in rows]),
        Column("x lower bound", [units.digits(row.lower_bound) for row in rows], 2),
        Column("verdict", [cut(_verdict(row), most) for row in rows]),
    ]
    return terminal_table(Table.of(columns), tones=[tone(row.word) for row in rows])


def _verdict(row: Row) -> str:
    """Verdict, else state of the run."""
    if row.status != "done" and row.word in ("", "skipped"):
        return row.status
    said = (row.line if row.line.startswith(row.word) else f"{row.word}: {row.line}") or row.status
    caveats = len(row.caveats)
    return f"{said} ({caveats} caveat{'s' if caveats > 1 else ''})" if caveats else said


@click.command("history")
@click.argument("sample", default="")
@shared.runs
@shared.since
@_device
@shared.json_
def history_(sample: str, runs: Path, since: str, device: str, as_json: bool) -> int:
    """Find change points in the time of SAMPLE (default: all), and what else changed there.

    \b
    profkit history ICVXKH
    profkit history --since 2026-11-01

    The method is e-divisive; changes below 1% are left out. A slower time may be noise: measure the
    sample again.
    """
    from profkit.campaign.history import histories  # numpy

    name = Path(sample).name
    _demand(runs)
    index = Index(runs)
    found = histories(index, sample=name, device=device, since=since)
    if not found:
        fix = "`profkit list` shows the runs; `profkit profile` makes one"
        raise ProfkitError(f"no finished run {f'of {name} ' if name else ''}in {runs} has a time", fix=fix)
    if as_json:
        document = {"schema": "profkit-history/1", "series": [_document(one) for one in found]}
        shared.print_json(document)
    else:
        show("\n".join(harmless.line(line) for line in _history(found, bool(name))))
    _complain(runs, index.damaged())
    return 0


def _document(one: Series) -> dict[str, Any]:
    return {
        "sample": one.sample,
        "impl": one.impl,
        "device": one.device,
        "runs": [[row.created, row.path, row.time, row.lower_bound] for row in one.rows],
        "levels": one.levels,
        "changes": one.changes,
        "regression": "suspected" if one.suspect is not None else "",
    }


def _history(found: Sequence[Series], whole: bool) -> Iterator[str]:
    """Series of one sample by device; of several samples only series with a change."""
    for one in found:
        if whole or one.changes:
            yield from _series(one)
    quiet = 0 if whole else sum(not one.changes for one in found)
    if quiet:
        yield f"{quiet} series without a change"


def _series(one: Series) -> Iterator[str]:
    count = len(one.rows)
    named = f"{one.sample} {one.impl} on {one.device or 'an unknown device'}"
    yield f"{named}: {count} run{'s' if count > 1 else ''}, {one.rows[0].created} to {one.rows[-1].created}"
    for level in one.levels:
        runs = "runs" if level.runs > 1 else "run "
        bound = f"  {units.digits(level.lower_bound)}x lower bound" if math.isfinite(level.lower_bound) else ""
        yield f"  from {level.since}  {level.runs:4} {runs}  {units.text(level.time, 's')}{bound}"
    if not one.changes:
        yield "  no change"
    for change in one.changes:
        yield from _change(change)
    if one.suspect is not None:
        yield f"  slower? Measure it again: profkit profile {one.sample}"


def _change(change: Change) -> Iterator[str]:
    yield f"  {change.created}: a change, {change.ratio - 1:+.1%} ({change.path})"
    if change.measured:
        yield "    measured otherwise than before: the times do not compare"
    causes = "; ".join(change.causes)
    yield f"    with it: {causes}" if causes else "    nothing that was recorded changed with it"


@click.command("site")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR")
@shared.output("The folder to write.", Path("site"))
@shared.runs
@click.option("--pages", default=20, show_default=True, type=click.IntRange(0), help="Pages of runs, the best first.")
@shared.json_
def site_(folder: Path, output: Path, runs: Path, pages: int, as_json: bool) -> int:
    """Write a site for DIR (runs or a season): leaderboard, fast_p and the runs' pages.

    \b
    profkit site profkit-runs -o site/
    profkit site S1 --runs profkit-runs -o site/      ranked by the contest's rules as well

    Open site/index.html from disk; it needs no network. Repeat the command to update it.
    """
    from profkit.campaign.site import build  # pandas

    season = folder if find_samples(folder) else None
    source = folder if season is None else runs
    _demand(source)
    if season is None and next(source.rglob("run.json"), None) is None:
        raise ProfkitError(f"{source}: no runs here or below", fix="`profkit profile SAMPLE` makes one")
    made = build(source, output, season=season, pages=pages)
    _complain(source, made.damaged)
    if as_json:
        shared.print_json(made)
    else:
        many = "run" if made.runs == 1 else "runs"
        click.echo(f"{made.index}: {made.runs} {many}, {made.pages} with a page")
    return 0
