"""profkit list: samples of a folder, and runs with their verdicts, ranked."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from analyzers.verdicts.verdict import WORDS
from profkit.campaign.ledger import Seen, unfinished
from profkit.cli import options as shared
from profkit.cli.terminal.screen import show
from profkit.errors import ProfkitError
from profkit.report import units
from profkit.report.layout import UNLIMITED, Column, Table, cut, room, terminal_table
from profkit.rundir import harmless
from profkit.targets import find_samples, resolve

if TYPE_CHECKING:
    from profkit.campaign.rows import Row

_VERDICT = 48
"""Characters of a verdict on a terminal; in a pipe it stands whole."""


@click.command("list", short_help="Samples and runs.")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("S1"))
@shared.runs
@click.option("--sample", default="", metavar="ID", help="Only this sample; * and ? stand for any characters.")
@click.option("--device", default="", metavar="NAME", help="Only runs of devices whose name holds this, as in h200.")
@shared.since
@click.option("--verdict", "words", multiple=True, type=click.Choice(WORDS), help="Only these verdicts.")
@click.option(
    "--sort",
    type=click.Choice(["created", "time", "lower_bound", "share", "speedup"]),
    default="created",
    show_default=True,
    help="The newest, the shortest, the nearest to its lower bound or to what is attainable, or the fastest first.",
)
@click.option("--top", default=50, show_default=True, type=click.IntRange(0), help="How many rows; 0 for all.")
@shared.json_
def command(
    folder: Path,
    runs: Path,
    sample: str,
    device: str,
    since: str,
    words: tuple[str, ...],
    sort: str,
    top: int,
    as_json: bool,
) -> int:
    """The samples in FOLDER (default S1), the runs in profkit-runs, a row each implementation, and what runs.

    \b
    profkit list --sort speedup --device h200 --since 2026-11-01
    profkit list --sample 'IC*' --verdict wrong --verdict failed
    """
    from profkit.campaign.index import Index

    given = click.get_current_context().get_parameter_source("folder") is not ParameterSource.DEFAULT
    if given and not folder.is_dir():
        raise ProfkitError(f"{folder}: no such folder of samples", fix="leave it out to see the runs alone")
    samples = [
        row for row in _samples(folder) if not sample or fnmatch.fnmatchcase(row["id"], sample.replace("[", "[[]"))
    ]
    rows: list[Row] = []
    damaged: list[tuple[str, str]] = []
    campaigns = list(unfinished(runs))
    if runs.is_dir():
        index = Index(runs)
        rows = index.rows(sample=sample, device=device, since=since, words=words, sort=sort)
        damaged = index.damaged()
    if as_json:
        click.echo(_document(runs, samples, rows, damaged, campaigns))
        return 0
    click.echo(f"samples in {folder}:" if samples else f"no samples in {folder}")
    for sampled in samples:
        show(harmless.line(f"  {sampled['id']:10} {sampled['error'] or ', '.join(sampled['candidates'])}"))
    chosen = any((sample, device, since, words))
    none = "none of them fits" if chosen else f"`profkit profile {folder}/ID` makes one"
    click.echo(f"runs in {runs}:" if rows else f"no runs in {runs}; {none}")
    if rows:
        click.echo(_table(runs, rows[: top or None]), nl=False)
    if top and len(rows) > top:
        click.echo(f"  and {len(rows) - top} more: --top 0 shows them")
    if campaigns:
        click.echo("campaigns that are not finished:")
    for one in campaigns:
        click.echo("\n".join(harmless.line(f"  {line}") for line in one.lines()))
    for path, why in damaged:
        click.echo(harmless.line(f"damaged: {runs / path}: {why}"), err=True)
    return 0


def _samples(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in find_samples(folder) if folder.is_dir() else []:
        try:
            sample = resolve(path)
            candidates = [f"{c.name} ({c.backend})" for c in sample.candidates]
            rows.append({"id": sample.id, "candidates": candidates, "error": ""})
        except ProfkitError as error:
            rows.append({"id": path.name, "candidates": [], "error": str(error)})
    return rows


def _document(
    runs: Path,
    samples: Sequence[Any],
    rows: Sequence[Row],
    damaged: Sequence[tuple[str, str]],
    campaigns: Sequence[Seen],
) -> str:
    import msgspec

    document = {
        "schema": "profkit-list/2",
        "samples": samples,
        "runs": [msgspec.structs.asdict(row) | {"path": os.path.join(runs, row.path)} for row in rows],
        "damaged": [{"path": str(runs / path), "why": why} for path, why in damaged],
        "campaigns": [one.document() for one in campaigns],
    }
    # msgspec writes NaN as null.
    return msgspec.json.encode(document).decode()


def _table(runs: Path, rows: Sequence[Row]) -> str:
    """The rows as a table; on a terminal the verdicts are cut to leave room for the rest."""
    from profkit.report.writers.terminal import tone

    most = UNLIMITED if room() >= UNLIMITED else _VERDICT
    table = Table.of(
        [
            Column("run", [str(runs / row.path) for row in rows]),
            Column("", [row.impl for row in rows]),
            Column("measured", [row.created for row in rows], 4),
            Column("device", [row.device for row in rows], 3),
            Column("time", [units.text(row.time, "s") for row in rows]),
            Column("x lower bound", [units.digits(row.lower_bound) for row in rows], 2),
            Column("verdict", [cut(_said(row), most) for row in rows]),
        ]
    )
    return terminal_table(table, tones=[tone(row.word) for row in rows])


def _said(row: Row) -> str:
    """The verdict, else what became of the run."""
    if row.status != "done" and row.word in ("", "skipped"):
        return row.status
    said = row.line if row.line.startswith(row.word) else f"{row.word}: {row.line}"
    caveats = len(row.caveats)
    return f"{said or row.status} ({caveats} caveat{'s' if caveats > 1 else ''})" if caveats else said or row.status
