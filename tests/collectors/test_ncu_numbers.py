import math

import pytest
from exports import number
from hypothesis import given
from hypothesis import strategies as st

from collectors import CollectError
from collectors.numbers import Evidence, classify, parse, scale


def settle(*cells: str) -> str:
    evidence = Evidence("x.csv")
    for cell in cells:
        evidence.feed(cell)
    return evidence.settle()


@pytest.mark.parametrize(
    ("cell", "mark"),
    [
        ("1,980,000", "."),
        ("1.980.000", ","),
        ("6.684.848.484,85", ","),
        ("6,684.5", "."),
        ("0,48", ","),
        ("0.480", "."),
        ("1234.567", "."),
        ("12.34", "."),
        ("1 980 000,5", ","),
        ("1 980", ""),
        ("84480", ""),
        ("84.480", "?"),
        ("84,480", "?"),
        ("1e5", ""),
        ("-12,5", ","),
        ("2338 (8; 8; 16)", ""),
        ("NVIDIA H200", None),
        ("580.159.04", None),
        ("(4)", None),
        ("all", None),
        ("1,98,000", None),
        ("0,3583", ","),
        ("48.480000", "."),
    ],
)
def test_what_a_cell_proves(cell, mark):
    assert classify(cell) == mark


def test_cells_of_a_file_settle_its_locale():
    assert settle("84.480", "0,5") == ","
    assert settle("84.480", "0.5") == "."
    assert settle("84480", "16", "n/a") == "."
    with pytest.raises(CollectError, match="one locale"):
        settle("0,5", "0.5")
    for cell in ("84.480", "84,480"):
        with pytest.raises(CollectError, match="factor of 1000") as caught:
            settle(cell)
        assert "LC_ALL=C" in caught.value.fix


@pytest.mark.parametrize(
    ("cell", "mark", "value"),
    [
        ("84.480", ",", 84480.0),
        ("84.480", ".", 84.48),
        ("6.684.848.484,85", ",", 6684848484.85),
        ("6 684 848,85", ",", 6684848.85),
        ("6\u202f684\u00a0848", ",", 6684848.0),
        ("16,896", ".", 16896.0),
        ("2338 (8; 8; 16)", ".", 2338.0),
        ("-1.5e-3", ".", -0.0015),
        ("1'000.5", ".", 1000.5),
    ],
)
def test_parse(cell, mark, value):
    assert parse(cell, mark) == value


@pytest.mark.parametrize("cell", ["", "n/a", "(!) n/a", "no data", "nan", " n/a "])
def test_missing_is_nan(cell):
    assert math.isnan(parse(cell, "."))


@pytest.mark.parametrize("cell", ["1,5", "1,98,000", "12abc", "1.2.3", "--1"])
def test_what_is_no_number_is_refused(cell):
    with pytest.raises(ValueError, match="not a number"):
        parse(cell, ".")


@given(st.integers(0, 10**15), st.sampled_from(["C", "en_US", "de_DE", "fr_FR", "fr_nbsp"]), st.sampled_from([0, 2, 6]))
def test_parse_undoes_every_locale(value, locale, decimals):
    text = number(value / 100, decimals, locale)
    mark = "." if locale in ("C", "en_US") else ","
    assert parse(text, mark) == pytest.approx(round(value / 100, decimals), rel=1e-12)
    assert classify(text) in (mark, "", "?")


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        ("ns", 1e-9),
        ("nsecond", 1e-9),
        ("usecond", 1e-6),
        ("ms", 1e-3),
        ("second", 1.0),
        ("byte", 1.0),
        ("Kbyte", 1e3),
        ("Gbyte", 1e9),
        ("Tbyte/s", 1e12),
        ("Gbyte/second", 1e9),
        ("Kbyte/block", 1e3),
        ("cycle/nsecond", 1e9),
        ("cycle/usecond", 1e6),
        ("Ghz", 1e9),
        ("Mhz", 1e6),
        ("hz", 1.0),
        ("%", 1.0),
        ("", 1.0),
        ("inst/cycle", 1.0),
        ("register/thread", 1.0),
        ("SM", 1.0),
        ("%/register", 1.0),
        ("sectors", 1.0),
        ("sector/second", 1.0),
    ],
)
def test_units(unit, factor):
    assert scale(unit) == pytest.approx(factor)


@pytest.mark.parametrize("unit", ["furlong", "byte/fortnight", "Xbyte", "K"])
def test_unknown_units_have_no_factor(unit):
    assert scale(unit) is None
