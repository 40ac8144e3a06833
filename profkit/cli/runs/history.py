"""profkit history: samples over time and devices; what changed, and what changed with it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from profkit.cli import options as shared
from profkit.cli.terminal.screen import show
from profkit.rundir import harmless

if TYPE_CHECKING:
    from profkit.campaign.history import Change, Series

SCHEMA = "profkit-history/1"


@click.command("history", short_help="How a sample's time changed, and why.")
@click.argument("sample", default="")
@shared.runs
@shared.since
@click.option("--device", default="", metavar="NAME", help="Only runs of devices whose name holds this.")
@shared.json_
def command(sample: str, runs: Path, since: str, device: str, as_json: bool) -> int:
    """Where the time of SAMPLE (default: of every sample) changed its level, and what changed with it.

    \b
    profkit history ICVXKH
    profkit history --since 2026-11-01

    Change points are found by e-divisive; changes below 1% are not said. A slower time is a suspicion: measure the
    sample again.
    """
    from profkit.campaign.history import histories
    from profkit.campaign.index import Index
    from profkit.errors import ProfkitError

    name = Path(sample).name
    if not runs.is_dir():
        raise ProfkitError(f"{runs}: no such folder of runs", fix="name it with --runs DIR")
    index = Index(runs)
    found = histories(index, sample=name, device=device, since=since)
    if not found:
        fix = "`profkit list` shows the runs; `profkit profile` makes one"
        raise ProfkitError(f"no finished run {f'of {name} ' if name else ''}in {runs} has a time", fix=fix)
    if as_json:
        click.echo(_document(found))
    else:
        show("\n".join(_text(found, bool(name))))
    for path, why in index.damaged():
        click.echo(harmless.line(f"damaged, not looked at: {runs / path}: {why}"), err=True)
    return 0


def _document(found: Sequence[Series]) -> str:
    import msgspec

    series = [
        {
            "sample": one.sample,
            "impl": one.impl,
            "device": one.device,
            "runs": [[row.created, row.path, row.time, row.lower_bound] for row in one.rows],
            "levels": one.levels,
            "changes": one.changes,
            "regression": "suspected" if one.suspect is not None else "",
        }
        for one in found
    ]
    return msgspec.json.encode({"schema": SCHEMA, "series": series}).decode()


def _text(found: Sequence[Series], whole: bool) -> Iterator[str]:
    """Every series of one sample; of several samples those with a change."""
    quiet = 0
    for one in found:
        if not (whole or one.changes):
            quiet += 1
            continue
        yield from _series(one)
    if quiet:
        yield f"{quiet} series without a change"
    yield from _devices(found, whole)


def _series(one: Series) -> Iterator[str]:
    first, last = one.rows[0].created, one.rows[-1].created
    count = len(one.rows)
    named = harmless.line(f"{one.sample} {one.impl} on {one.device or 'an unknown device'}")
    yield f"{named}: {count} run{'s' if count > 1 else ''}, {first} to {last}"
    for level in one.levels:
        runs = "runs" if level.runs > 1 else "run "
        yield f"  from {level.since}  {level.runs:4} {runs}  {_time(level.time, level.lower_bound)}"
    if not one.changes:
        yield "  no change"
    for change in one.changes:
        yield from _change(change)
    if one.suspect is not None:
        yield f"  slower? Measure it again: profkit profile {one.sample}"


def _time(seconds: float, lower_bound: float) -> str:
    from profkit.report import units

    return units.text(seconds, "s") + (
        f"  {units.digits(lower_bound)}x lower bound" if math.isfinite(lower_bound) else ""
    )


def _change(change: Change) -> Iterator[str]:
    which = "the newest runs" if change.newest else "a change"
    yield f"  {change.created}: {which}, {change.ratio - 1:+.1%} ({change.path})"
    if change.measured:
        yield "    measured otherwise than before: the times do not compare"
    yield (
        f"    with it: {'; '.join(change.causes)}" if change.causes else "    nothing that was recorded changed with it"
    )
    if math.isfinite(change.reference):
        yield f"    the reference: {change.reference - 1:+.1%}"


def _devices(found: Sequence[Series], whole: bool) -> Iterator[str]:
    """The newest level of each device beside one another, by the time over the lower bound."""
    from profkit.report import units

    names = dict.fromkeys((one.sample, one.impl) for one in found)
    for sample, impl in names:
        own = [one for one in found if (one.sample, one.impl) == (sample, impl)]
        if len(own) > 1 and whole:
            said = [f"{one.device} {units.digits(one.levels[-1].lower_bound)}x" for one in own]
            yield harmless.line(f"{sample} {impl} over the lower bound of each device: {', '.join(said)}")
