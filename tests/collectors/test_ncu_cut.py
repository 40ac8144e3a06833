"""A file cut anywhere is refused, or read as far as it is whole; never read wrongly."""

from pathlib import Path

import pandas as pd
import pytest
from exports import Dialect, Launch, write

from collectors import CollectError
from collectors.ncu import read

METRICS = {
    "device__attribute_clock_rate": 1980000.0,
    "dram__bytes.sum": 396626176.0,
    "gpu__time_duration.sum": 2687008.0,
}
LAUNCHES = tuple(
    Launch(
        f'k{i}<"a", 4>(int)',
        {**METRICS, "gpu__time_duration.sum": 48640.0 + i},
        (("profkit", "s"), ("profkit", "impl")),
    )
    for i in range(2)
)
DIALECTS = {
    "raw": Dialect(),
    "raw, en_US, output between": Dialect(locale="en_US", between=("step", "==PROF== x"), after=("bye",)),
    "raw, Windows": Dialect(newline="\r\n", encoding="utf-8-bom"),
    "raw, auto, de_DE": Dialect(auto=True, locale="de_DE"),
    "raw, no units": Dialect(units_row=False),
    "details": Dialect(page="details", rules=(("Rule", "OPT", 'a "quoted", text'),)),
    "details, fr_FR": Dialect(page="details", locale="fr_FR"),
}


def is_prefix(part: pd.DataFrame, whole: pd.DataFrame, *, last_may_lack: bool) -> bool:
    """Whether rows are the first ones of a frame; of the last launch of a details page metrics may be missing."""
    for column in part:
        found = part[column].tolist()
        expected = whole[column].tolist() if column in whole else [None] * len(whole)
        pairs = list(zip(found, expected, strict=False))
        if len(found) > len(expected) or not all(a == b or (pd.isna(a) and pd.isna(b)) for a, b in pairs[:-1]):
            return False
        a, b = pairs[-1]
        if not (a == b or (pd.isna(a) and (last_may_lack or pd.isna(b)))):
            return False
    return True


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", DIALECTS)
def test_cut_at_every_byte(tmp_path: Path, name: str, step: int):
    dialect = DIALECTS[name]
    data = write(LAUNCHES, dialect)
    path = tmp_path / "cut.csv"
    path.write_bytes(data)
    whole = read(path)
    ends = {i for i, byte in enumerate(data) if byte == ord("\n")}
    ends |= {i - 1 for i in ends} | {i + 1 for i in ends} | {len(data)}
    # Every byte for the two pages as profkit and others write them; every fifth for their variants.
    for size in range(0, len(data), step if name in ("raw", "details") else 5 * step):
        path.write_bytes(data[:size])
        try:
            part = read(path)
        except CollectError:
            continue
        at_row_end = size in ends or (dialect.page == "details" and data[size : size + 1] == b",")
        in_output = not data[:size].rsplit(b"\n", 1)[-1].startswith(b'"')
        assert at_row_end or in_output, (size, data[max(0, size - 40) : size])
        assert is_prefix(part, whole, last_may_lack=dialect.page == "details"), (size, data[max(0, size - 40) : size])


@pytest.mark.parametrize("name", DIALECTS)
def test_a_missing_quote_never_loses_a_launch(tmp_path: Path, name: str):
    """One quote anywhere: refused, or every launch with its time; never some of them."""
    data = write((*LAUNCHES, *LAUNCHES, *LAUNCHES), DIALECTS[name])
    path = tmp_path / "whole.csv"
    path.write_bytes(data)
    whole = read(path)
    begin = data.index(b"\n", data.index(b'"ID"'))
    for at in [at for at, byte in enumerate(data) if byte == ord('"') and at > begin][::3]:
        path.write_bytes(data[:at] + data[at + 1 :])
        try:
            found = read(path)
        except CollectError:
            continue
        assert found["launch"].tolist() == whole["launch"].tolist(), data[at - 40 : at + 40]
        assert found["time"].equals(whole["time"]), data[at - 40 : at + 40]


def test_shares_above_one_are_caveats(tmp_path: Path):
    odd = Launch("k", {**METRICS, "sm__warps_active.avg.pct_of_peak_sustained_active": 140.0})
    (tmp_path / "x.csv").write_bytes(write((odd,), DIALECTS["raw"]))
    assert any("above 100 %" in one.what for one in read(tmp_path / "x.csv").attrs["caveats"])


@pytest.mark.parametrize("name", ["raw", "details"])
def test_a_header_that_lost_a_column_it_needs_is_refused(tmp_path: Path, name: str):
    data = write(LAUNCHES, DIALECTS[name])
    needed = ("Kernel Name", "Metric Unit", "Metric Value") if name == "details" else ("Kernel Name",)
    for column in needed:
        path = tmp_path / "lost.csv"
        path.write_bytes(data.replace(column.encode(), column[:-1].encode(), 1))
        with pytest.raises(CollectError, match=f"the header has no column {column}"):
            read(path)
