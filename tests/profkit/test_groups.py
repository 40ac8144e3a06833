"""Candidates in groups: no more processes than a handful at a time, one table of all in the end."""

import csv

import pytest
from candidates import timings, write_sample
from test_isolation import measure

from profkit.launch.protocol import Job, Subject
from profkit.record import measure as measuring
from profkit.rundir.files import write_rows


def job(count, timings):
    subjects = [Subject("reference", "reference", "r.py")]
    subjects += [Subject(f"c{n}", "candidate", f"c{n}.py") for n in range(count)]
    return Job("measure", "I", subjects, budget=5.0, timings=str(timings))


def read_rows(file):
    return list(csv.reader(file.read_text().splitlines()))


@pytest.mark.parametrize(("count", "sizes"), [(1, [1]), (8, [8]), (9, [8, 1]), (20, [8, 8, 4])])
def test_each_group_has_the_reference_and_a_share_of_the_time(tmp_path, count, sizes):
    made = [one for one, _ in measuring.in_groups(job(count, tmp_path / "timings.csv"))]
    assert [[s.role for s in one.subjects].count("candidate") for one in made] == sizes
    assert {one.subjects[0].name for one in made} == {"reference"}
    assert len({one.timings for one in made}) == len(sizes)
    assert sum(one.budget for one in made) >= 5.0


def test_rounds_of_a_later_group_are_none_of_an_earlier_one(tmp_path):
    timings = tmp_path / "timings.csv"
    head = ["impl", "method", "round"]
    write_rows(timings, [head, ["reference", "wall", 0], ["a", "wall", 3]])
    place = tmp_path / "group-2"
    (place / "shapes/0").mkdir(parents=True)
    write_rows(place / "timings.csv", [head, ["reference", "wall", 0], ["b", "wall", 1]])
    write_rows(place / "shapes/0/timings.csv", [head, ["b", "wall", 0]])
    write_rows(place / "cupti.csv", [["impl", "kernel"], ["reference", "k"], ["b", "k"]])
    write_rows(tmp_path / "cupti.csv", [["impl", "kernel"], ["reference", "k"], ["a", "k"]])
    measuring.merge_group(timings, 2)
    assert [(row[0], row[2]) for row in read_rows(timings)[1:]] == [
        ("reference", "0"),
        ("a", "3"),
        ("reference", "4"),
        ("b", "5"),
    ]
    assert [row[0] for row in read_rows(tmp_path / "cupti.csv")] == ["impl", "reference", "a", "b"]
    assert read_rows(tmp_path / "shapes/0/timings.csv")[1:] == [["b", "wall", "0"]]
    assert not place.exists()


@pytest.mark.slow
def test_all_are_measured_and_no_more_than_a_group_is_alive(tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(measuring, "TOGETHER", 2)
    folder = write_sample(tmp_path, "honest", "nan")
    for name in ("second", "third"):
        (folder / f"{name}.py").write_text((folder / "honest.py").read_text())
    run = measure(folder, tmp_path, counters="off", processes=2)
    assert {impl.name: impl.status for impl in run.manifest.impls} == {
        "reference": "ok",
        "honest": "ok",
        "nan": "nan",
        "second": "ok",
        "third": "ok",
    }
    rows = [row for row in timings(run) if row["method"] == "wall" and row["process"] == "1"]
    rounds = {name: {row["round"] for row in rows if row["impl"] == name} for name in ("honest", "second", "third")}
    first, other = {frozenset(one) for one in rounds.values()}
    assert not first & other
    assert run.manifest.timing.processes == 2
    assert set(run.verdicts) == {"honest", "nan", "second", "third"}
    assert all(run.verdicts[name].text() for name in ("honest", "second", "third"))
    assert not [*run.path.glob("group-*")]
