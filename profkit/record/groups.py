"""Measure many candidates in groups: hundreds of processes would not fit into memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from profkit.launch.protocol import Job
from profkit.rundir.files import read_rows, write_rows

TOGETHER = 8
"""Candidates whose processes are alive at a time."""
_FOLDER = "group-{}"


def of(job: Job) -> Iterator[tuple[Job, str]]:
    """Split a job: (job of the reference and a group of candidates, suffix of its logs' names).

    What the others write goes into folders of their own, until `merge`.
    """
    reference = [subject for subject in job.subjects if subject.role == "reference"]
    candidates = [subject for subject in job.subjects if subject.role != "reference"]
    if len(candidates) <= TOGETHER:
        yield job, ""
        return
    for first in range(0, len(candidates), TOGETHER):
        some, number = candidates[first : first + TOGETHER], first // TOGETHER + 1
        place = _place(Path(job.timings), number) if first else Path(job.timings)
        place.parent.mkdir(exist_ok=True)
        share = (len(some) + 1) / (len(candidates) + 1)
        yield (
            msgspec.structs.replace(
                job,
                subjects=[*reference, *some],
                budget=job.budget * share,
                timings=str(place),
            ),
            f"-{number}" if first else "",
        )


def merge(timings: Path, number: int) -> None:
    """Append the rows of group `number` to the files of the first, and remove its folder."""
    folder = _place(timings, number).parent
    for file in sorted(folder.rglob("*.csv")):
        target, more = timings.parent / file.relative_to(folder), read_rows(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_rows(target, _joined(read_rows(target), more))
    shutil.rmtree(folder, ignore_errors=True)


def _place(timings: Path, number: int) -> Path:
    return timings.parent / _FOLDER.format(number) / timings.name


def _joined(rows: Sequence[Sequence[str]], more: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The rows of two tables; a round of the second is none of the first."""
    if not rows or not more:
        return [*(rows or more)]
    if "round" not in rows[0]:
        known = {row[0] for row in rows}
        return [*rows, *(row for row in more[1:] if row[0] not in known)]
    at = rows[0].index("round")
    begin = 1 + max((int(row[at]) for row in rows[1:]), default=-1)
    return [*rows, *([*row[:at], str(begin + int(row[at])), *row[at + 1 :]] for row in more[1:])]
