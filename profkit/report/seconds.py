"""Where the seconds of a run went: every process, and inside it every phase."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec

from profkit.launch.protocol import Event
from profkit.report.layout import Table
from profkit.rundir.manifest import Command
from profkit.study.study import Study


def seconds_table(study: Study) -> Table:
    """One row a process and a phase of it, in order; a phase ends when the next one begins.

    "start-up" is the time to the first event: the interpreter, torch and, under ncu, ncu itself.
    """
    rows: list[list[str]] = []
    for command in study.manifest.commands:
        rows.append([command.step, "all", f"{command.wall:.2f}"])
        rows += [["", phase, f"{took:.2f}"] for phase, took in _phases(study, command)]
    starts = sum(1 for command in study.manifest.commands if "profkit.runner" in command.argv)
    rows.append(["runners started", str(starts), ""])
    return Table(["step", "phase", "seconds"], rows)


def _phases(study: Study, command: Command) -> Iterator[tuple[str, float]]:
    events = _events(study, command)
    if not events:
        return
    yield "start-up", events[0].at
    sums: dict[str, float] = {}
    for this, after in itertools.pairwise(events):
        if this.kind == "phase":
            name = f"{this.phase} {this.impl}".strip()
            current = name
        else:
            current = next(reversed(sums), "facts")
        sums[current] = sums.get(current, 0.0) + after.at - this.at
    yield from sums.items()
    yield "end", max(0.0, command.wall - events[-1].at)


def _events(study: Study, command: Command) -> list[Event]:
    """The events of a process; none where the log is gone or from before events carried their time."""
    file = study.logs / command.log.replace(".log", ".events.jsonl")
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(msgspec.json.decode(line, type=Event))
        except msgspec.DecodeError:
            continue
    return found if found and found[-1].at > 0 else []
