"""The line that makes a kernel wait is named first, recorded on an H100 with one slow line planted in each kernel."""

import math
from pathlib import Path

import pytest

from analyzers.kernels.source_lines import _producer, _used, hot_lines
from collectors.errors import CollectError
from collectors.ncu.source import Instruction, read

DATA = Path(__file__).resolve().parent.parent / "data" / "ncu"


@pytest.mark.parametrize(
    ("name", "number", "text"),
    [
        ("source_cuda.csv", 12, "float c = x[index[i]];"),
        ("source_triton.csv", 9, "c = tl.load(x + where, mask=inside)"),
    ],
)
def test_the_planted_line_comes_first(name, number, text):
    (listing,) = read(DATA / name)
    lines = hot_lines(listing, time=200e-6, least=60e-6)
    assert (lines[0].number, lines[0].text) == (number, text)
    assert lines[0].reason == "long scoreboard"
    assert lines[0].excess > 4
    assert sum(line.share for line in lines) == pytest.approx(1)


def test_no_line_wins_more_than_the_kernel_can():
    (listing,) = read(DATA / "source_cuda.csv")
    lines = hot_lines(listing, time=200e-6, least=190e-6)
    assert max(line.bound for line in lines) == pytest.approx(10e-6)
    assert all(math.isnan(line.bound) for line in hot_lines(listing))


def test_a_wait_is_charged_to_the_load_and_not_to_who_needs_it():
    code = ["LDG.E R7, desc[UR4][R6.64]", "FFMA R0, R2, R13, 2", "@!P1  FADD R11, R0, R7"]
    listing = [Instruction(n, sass, n, "", 0, {}, 0, 0, "") for n, sass in enumerate(code)]
    assert _producer(listing, 2) == 0
    overwritten = [*listing[:1], Instruction(1, "MOV R7, RZ", 1, "", 0, {}, 0, 0, ""), listing[2]]
    assert _producer(overwritten, 2) is None


def test_registers_read_and_written():
    assert _used("LDG.E.128 R12, desc[UR4][R4.64]")[1] == {"R12", "R13", "R14", "R15"}
    assert _used("LDG.E.128 R12, desc[UR4][R4.64]")[0] == {"UR4", "R4", "R5"}
    assert _used("STG.E desc[UR4][R8.64], R11")[1] == set()
    assert {"R8", "R9", "R11"} <= _used("STG.E desc[UR4][R8.64], R11")[0]
    assert _used("IMAD.WIDE R6, R5, 0x4, R6")[1] == {"R6", "R7"}


def test_a_cut_page_is_refused(tmp_path):
    file = tmp_path / "cut.csv"
    text = (DATA / "source_cuda.csv").read_text()
    file.write_text(text[:-30])
    with pytest.raises(CollectError, match="cut"):
        read(file)
    file.write_text("".join(text.splitlines(keepends=True)[:3]))
    with pytest.raises(CollectError, match="no instructions") as error:
        read(file)
    assert "SourceCounters" in error.value.fix
