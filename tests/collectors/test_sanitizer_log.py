"""compute-sanitizer's log: what was found where, how often, and what kept the tool from finding anything."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.errors import CollectError
from collectors.sanitizer import Finding, parse, read

DATA = Path(__file__).parent.parent / "data" / "sanitizer"
SCALE = "scale(float *, const float *, int)"


def test_an_out_of_bounds_write_is_counted_and_the_first_one_told():
    log = read(DATA / "memcheck.log")
    write, through = log.findings
    assert (write.kind, write.kernel, write.place, write.count) == (
        "Invalid __global__ write of size 4 bytes",
        SCALE,
        "cuda.cu:9",
        2,
    )
    assert write.detail.startswith("by thread (254,0,0) in block (3,0,0), Access to 0x7f1c0a001000 is out of bounds")
    assert (through.kernel, through.place) == (SCALE, "pick.cuh:21")
    assert log.summary == 3
    assert log.troubles == ()


def test_a_race_has_two_places_and_hazards():
    race, other = read(DATA / "racecheck.log").findings
    assert race == Finding("Race between write and read", SCALE, "cuda.cu:7", 508, "error", "against cuda.cu:8")
    assert (other.severity, other.count, other.place) == ("warning", 4, "")
    assert "at::native::reduce_kernel" in other.kernel


def test_a_race_over_several_lines():
    text = (
        "========= COMPUTE-SANITIZER\n========= Error: Race reported between Write access at\n"
        "=========     race(float *)+0xb0 in demo.cu:28\n=========     and Read access at\n"
        "=========     race(float *)+0xc0 in demo.cu:30\n=========     [1,024 hazards]\n=========\n"
    )
    assert parse(text).findings == (
        Finding("Race between write and read", "race(float *)", "demo.cu:28", 1024, "error", "against demo.cu:30"),
    )


def test_the_older_way_to_write_a_place():
    (found,) = read(DATA / "initcheck.log").findings
    assert (found.kernel, found.place) == ("scale(float*, float const*, int)", "cuda.cu:12")


def test_clean_is_no_findings_and_a_summary_of_none():
    log = read(DATA / "clean.log")
    assert (log.findings, log.summary, log.troubles) == ((), 0, ())


def test_a_cut_log_has_no_summary():
    assert read(DATA / "cut.log").summary is None


def test_what_is_no_log_is_refused(tmp_path):
    (tmp_path / "x.log").write_text("hello\n")
    with pytest.raises(CollectError, match=r"x\.log: no log"):
        read(tmp_path / "x.log")
    with pytest.raises(CollectError, match="No such file"):
        read(tmp_path / "none.log")


@given(st.integers(0, 2000))
def test_any_cut_is_read_without_an_exception(length):
    text = "".join((DATA / f"{name}.log").read_text() for name in ("memcheck", "racecheck", "synccheck"))
    whole = {(f.kind, f.kernel) for f in parse(text).findings}
    found = parse(text[: min(length, len(text))]).findings
    assert len(found) <= len(whole) + 1


TWICE = "twice(float *, const float *, int *, int)"


@pytest.mark.parametrize(
    ("name", "kind", "place"),
    [
        ("h200_memcheck.log", "Invalid __global__ write of size 4 bytes", "cuda.cu:5"),
        ("h200_racecheck.log", "Race between write and read", "cuda.cu:5"),
        ("h200_synccheck.log", "Barrier error detected. Divergent thread(s) in warp", "cuda.cu:4"),
    ],
)
def test_logs_recorded_on_an_h200(name, kind, place):
    log = read(DATA / name)
    first = log.findings[0]
    assert (first.kind.rstrip("."), first.kernel, first.place) == (kind, TWICE, place)
    assert len(log.findings) == 1
