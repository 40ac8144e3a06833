"""Where the seconds went, from the events of a run."""

from __future__ import annotations

import msgspec

from profkit.launch.protocol import Event
from profkit.report.seconds import seconds_table
from profkit.rundir.directory import create_run
from profkit.rundir.manifest import Command, SampleInfo


def test_phases_end_where_the_next_begins(tmp_path):
    run = create_run(SampleInfo("ITESTS", "S1/ITESTS"), tmp_path)
    events = [
        Event("facts", at=2.0),
        Event("phase", phase="load", impl="reference", at=2.5),
        Event("impl", at=3.0),
        Event("phase", phase="check", impl="cuda", at=4.0),
        Event("phase", phase="check", impl="cuda", at=5.0),
        Event("done", at=7.0),
    ]
    (run.logs / "measure.events.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, events)))
    run.manifest.commands.append(Command("measure", ["python", "-m", "profkit.runner"], 0, 7.5, "measure.log"))
    rows = seconds_table(run).rows
    assert rows[0] == ["measure", "all", "7.50"]
    took = {phase: float(seconds) for _, phase, seconds in rows[1:-1]}
    assert took == {"start-up": 2.0, "facts": 0.5, "load reference": 1.5, "check cuda": 3.0, "end": 0.5}
    assert sum(took.values()) == 7.5
    assert rows[-1][:2] == ["runners started", "1"]


def test_a_run_without_event_times_has_its_processes_alone(tmp_path):
    run = create_run(SampleInfo("ITESTS", "S1/ITESTS"), tmp_path)
    run.manifest.commands.append(Command("measure", ["python"], 0, 7.5, "measure.log"))
    assert seconds_table(run).rows[0] == ["measure", "all", "7.50"]
