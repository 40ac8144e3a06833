"""The figures of a comparison are what they are called: largest, relative, mean and median error, and the tolerance."""

from __future__ import annotations

import functools
import math

import pytest
import torch

from profkit.runner import check
from profkit.runner.check import RTOL, Tolerances, equal, rtol_of, share_off, small, tensors

compare = functools.partial(check.compare, figures=True)

WANT = torch.tensor([3.0, -3.0, 3.0, 3.0], dtype=torch.float64)
ERRORS = torch.tensor([0.0, 1e-10, 2e-10, 6e-10], dtype=torch.float64)


def test_the_figures_of_a_right_answer():
    found = compare(WANT + ERRORS, WANT)
    assert found.status == "ok"
    assert found.max_abs == pytest.approx(6e-10, rel=1e-3)
    assert found.max_rel == pytest.approx(6e-10 / (3 + 3), rel=1e-3)
    assert found.mean_abs == pytest.approx(9e-10 / 4, rel=1e-3)
    assert found.median_abs == pytest.approx(1e-10, rel=1e-3)
    assert found.mean_rel == pytest.approx(9e-10 / 4 / (3 + 3), rel=1e-3)
    assert found.median_rel == pytest.approx(1e-10 / (3 + 3), rel=1e-3)
    assert found.tolerance == "float64: rtol 1e-09 of |ref| + rms(ref)"


def test_the_figures_of_a_wrong_answer():
    found = compare(WANT + 1e3 * ERRORS, WANT)
    assert found.status == "mismatch"
    assert found.what == "output: 3 of 4 elements differ, the worst by 6e-07 (rms 3)"
    assert found.max_abs == pytest.approx(6e-7, rel=1e-3)
    assert found.max_rel == pytest.approx(1e-7, rel=1e-3)
    assert found.mean_abs == pytest.approx(9e-7 / 4, rel=1e-3)
    assert found.median_abs == pytest.approx(1e-7, rel=1e-3)


def test_relative_errors_are_held_against_each_elements_own_size():
    want = torch.tensor([1.0, -1.0, 7.0, math.inf], dtype=torch.float64)
    rms = math.sqrt(51 / 3)
    found = compare(want + torch.tensor([1e-10, 2e-10, 4e-10, 0.0], dtype=torch.float64), want)
    sizes = [1e-10 / (1 + rms), 2e-10 / (1 + rms), 4e-10 / (7 + rms), 0.0]
    assert found.mean_rel == pytest.approx(sum(sizes) / 4, rel=1e-3)
    assert found.median_rel == pytest.approx(sorted(sizes)[1], rel=1e-3)
    assert found.max_rel == pytest.approx(max(sizes), rel=1e-3)


def test_each_figure_is_of_the_output_where_it_is_largest():
    found = compare([WANT + ERRORS, WANT + ERRORS.flip(0) * 0.5], [WANT, WANT])
    assert found.max_abs == pytest.approx(6e-10, rel=1e-3)
    assert found.mean_abs == pytest.approx(9e-10 / 4, rel=1e-3)
    assert compare([], []).max_abs == 0


def test_the_rms_is_of_finite_elements_and_infinities_must_agree():
    want = torch.tensor([4.0, 0.0, math.inf, math.nan])
    found = compare(want.clone(), want)
    assert (found.status, found.max_abs, found.mean_abs) == ("ok", 0.0, 0.0)
    got = want.clone()
    got[1] = 2e-4 * math.sqrt(16 / 2)
    assert "1 of 4 elements differ" in compare(got, want).what
    assert "(rms 2.83)" in compare(got, want).what
    for at, value, kind in ((2, 1.0, "finite"), (0, math.inf, "infinite"), (0, math.nan, "NaN")):
        got = want.clone()
        got[at] = value
        found = compare(got, want)
        assert found.status == "nan"
        assert f"1 of 4 elements are {kind}" in found.what
    got = torch.tensor([math.inf, 1.0])
    assert "1 of 2 elements are infinite" in compare(got, torch.ones(2)).what


@pytest.mark.parametrize("dtype", [*RTOL])
def test_the_limit_of_each_type_is_where_it_is_said(dtype):
    want = torch.ones(4, dtype=torch.float64)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    limit = 2 * rtol_of(dtype)
    own = {"output": rtol_of(dtype)}
    # In a wide type, so that rounding of the type itself does not decide.
    assert compare((want + 0.999 * limit).to(wide), want.to(wide), own).status == "ok"
    assert compare((want + 1.001 * limit).to(wide), want.to(wide), own).status == "mismatch"
    assert rtol_of(torch.float8_e4m3fn) == 0.125


def test_the_limits_are_those_that_are_documented():
    assert {str(dtype).removeprefix("torch."): rtol for dtype, rtol in RTOL.items()} == {
        "float64": 1e-9,
        "complex128": 1e-9,
        "float32": 1e-4,
        "complex64": 1e-4,
        "float16": 5e-3,
        "bfloat16": 2e-2,
    }


STRANGE = [
    (math.nan, 1.0, "NaN where the reference is not"),
    (math.inf, 1.0, "infinite where the reference is not"),
    (1.0, math.nan, "not NaN where the reference is"),
    (math.inf, math.nan, "not NaN where the reference is"),
    (1.0, math.inf, "finite where the reference is infinite"),
    (-math.inf, math.inf, "infinite with the other sign"),
]


def _one(value):
    return torch.tensor([value, 1.0])


def test_the_order_of_a_dict_is_nobodys_answer():
    one, two = torch.ones(2), torch.zeros(3)
    assert compare({"b": two, "a": [one, None]}, {"a": [one, None], "b": two}).status == "ok"
    assert [where for where, _ in tensors({"b": 1, "a": 2})] == ["output['a']", "output['b']"]
    # From another process keys come as texts.
    assert compare({"0": one}, {0: one}).status == "ok"


def test_the_first_thing_wrong_decides_and_is_named():
    said = [
        (torch.ones(2, 2), torch.ones(4), "wrong-shape", "output is (2, 2), the reference gives (4,)"),
        (torch.ones(4, dtype=torch.float64), torch.ones(4), "wrong-dtype", "torch.float64"),
        (4.0, torch.ones(4), "wrong-type", "output is float, the reference gives Tensor"),
        ([torch.ones(4)] * 2, torch.ones(4), "wrong-type", "2 outputs, the reference has 1"),
        ({"a": torch.tensor([1, 2])}, {"a": torch.tensor([1, 3])}, "mismatch", "output['a']: 1 of 2 elements differ"),
        ((1, "x"), (1, "y"), "mismatch", "output[1] is 'x', the reference gives 'y'"),
        (1, 1.0, "wrong-type", "output is int, the reference gives float"),
        (1.0 + 3e-4, 1.0, "mismatch", "1.0003"),
        ({"b": 1}, {"a": 1}, "wrong-type", "output is a dict of ['b'], the reference gives one of ['a']"),
        ([{"b": 1}], ({"a": 1},), "wrong-type", "output[0] is a dict of ['b'], the reference gives one of ['a']"),
        *((_one(a), _one(b), "nan", f"output: 1 of 2 elements are {what}") for a, b, what in STRANGE),
    ]
    for got, want, status, what in said:
        found = compare(got, want)
        assert (found.status, what in found.what) == (status, True), found
    for same in (1.0 + 5e-5, math.nan, 3, "x", True):
        assert compare(same, 1.0 if isinstance(same, float) and same == same else same).status == "ok"
    empty = compare(torch.empty(0), torch.empty(0))
    assert (empty.mean_rel, empty.median_rel) == (0, 0)
    assert (empty.status, empty.max_abs, empty.max_rel, empty.mean_abs, empty.median_abs) == ("ok", 0, 0, 0, 0)
    assert compare(torch.tensor([1, 2]), torch.tensor([1, 2])).tolerance == "equal"


def test_a_task_that_compares_values_alone_takes_any_type_of_the_kind():
    loose = Tolerances()
    loose.any_dtype = True
    told = [
        (torch.tensor([1, 2], dtype=torch.int32), torch.tensor([1, 2]), "ok"),
        (torch.tensor([1, 3], dtype=torch.int32), torch.tensor([1, 2]), "mismatch"),
        (torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor([1.0, 2.0]), "ok"),
        (torch.tensor([1.0, 2.0]), torch.tensor([1, 2]), "wrong-dtype"),
    ]
    for got, want, status in told:
        assert compare(got, want, loose).status == status
        assert compare(got, want).status == "wrong-dtype"


def test_zeros_are_right_and_have_no_error():
    for dtype in (torch.float32, torch.complex64):
        found = compare(torch.zeros(3, dtype=dtype), torch.zeros(3, dtype=dtype))
        assert (found.status, found.max_abs, found.max_rel, found.mean_abs, found.median_abs) == ("ok", 0, 0, 0, 0)
    assert compare(torch.full((3,), 1e-30), torch.zeros(3)).status == "mismatch"


def test_the_relative_error_of_small_numbers_is_relative():
    found = compare(
        1.00005 * torch.full((4,), 1e-6, dtype=torch.float64), torch.full((4,), 1e-6).double(), {"output": 1}
    )
    assert found.max_rel == pytest.approx(5e-5 / 2, rel=1e-2)
    assert (found.status, found.what) == ("ok", "")


def test_outputs_without_figures_have_none_and_each_tolerance_is_said_once():
    figures = ("max_abs", "max_rel", "mean_abs", "median_abs")
    alone = compare(torch.ones(2), torch.ones(3))
    assert [getattr(alone, name) for name in (*figures, "tolerance")] == [None] * 4 + [""]
    assert [getattr(compare([1, torch.tensor([2])], [1, torch.tensor([2])]), name) for name in figures] == [0.0] * 4
    want = [torch.ones(2), torch.ones(2), torch.ones(2, dtype=torch.float64), torch.tensor([1])]
    own = compare(want, want, {"output[1]": 0.5}).tolerance
    assert own.split("; ")[1:] == [
        "float32: rtol 0.5 of |ref| + rms(ref)",
        "float64: rtol 1e-09 of |ref| + rms(ref)",
        "equal",
    ]
    assert [getattr(compare([], []), name) for name in figures] == [0.0] * 4


def test_scalars_are_compared_as_float32_would_be_and_nan_is_nan():
    assert compare(1.0 + 0.99e-4, 1.0).status == "ok"
    assert compare(1.0 + 1.02e-4, 1.0).status == "mismatch"
    assert compare(math.nan, 1.0).status == compare(1.0, math.nan).status == "mismatch"
    assert compare(10001, 10000).status == "mismatch"
    assert compare(None, None).status == "ok"


def test_complex_answers_are_judged_by_their_distance():
    want = torch.tensor([3.0 + 4.0j, -5.0])
    found = compare(want + torch.tensor([3e-4j, 0]), want)
    assert (found.status, found.max_abs) == ("ok", pytest.approx(3e-4, rel=1e-3))
    assert found.max_rel == pytest.approx(3e-4 / 10, rel=1e-3)
    assert compare(want + torch.tensor([2e-3j, 0]), want).status == "mismatch"
    assert compare(torch.tensor([math.inf + 1j, -5.0]), want).status == "nan"


def test_equal_is_of_every_element_and_nan_is_itself():
    nan = torch.tensor([1.0, math.nan])
    assert equal(nan, nan.clone())
    assert not equal(nan, torch.tensor([math.nan, 1.0]))
    assert not equal(torch.tensor([1.0, 2.0]), nan)
    assert not equal(torch.ones(2), torch.ones(3))


@pytest.mark.parametrize("count", [1, 2, 7, 1000, 65537])
def test_the_median_is_torchs(count):
    drawn = torch.Generator().manual_seed(count)
    for errors in (
        torch.rand(count, generator=drawn) * 1e-6,
        torch.randint(0, 3, (count,), generator=drawn).float(),
        torch.randn(count, generator=drawn).abs() * 1e30,
        torch.full((count,), math.inf),
        torch.zeros(count),
    ):
        assert check._middle(errors) == float(errors.median())
        assert check._by_bits(errors, (count - 1) // 2) == float(errors.median())


def test_errors_that_are_no_numbers_end_no_trial():
    want = torch.full((4,), 1e200, dtype=torch.float64)
    assert compare(want.clone(), want).status == "ok"


def test_means_and_medians_are_told_where_they_are_asked_for():
    found = check.compare(WANT + ERRORS, WANT)
    assert found.max_abs == pytest.approx(6e-10, rel=1e-3)
    assert (found.mean_abs, found.median_abs, found.mean_rel, found.median_rel) == (None, None, None, None)


def test_denormals_flushed_to_zero_are_not_off():
    want = torch.tensor([1.0, 1e-40, 2e-39, 3.0])
    assert share_off(want.where(want > 1e-30, 0.0), want) == 0.0
    assert share_off(torch.tensor([1.0, 0.0, 0.0, 0.0]), want) == 0.5


def test_what_is_known_to_be_wrong_is_not_looked_at_closer():
    known = Tolerances({small("output"): 0.05})
    assert compare(torch.empty(4, device="meta"), torch.ones(4), known).status == "wrong-device"


def test_beside_a_filling_what_is_left_is_held_to_its_own_size():
    want = torch.randn(64, 64).masked_fill(torch.ones(64, 64, dtype=torch.bool).triu(1), -1e9)
    far = check.rest_off(torch.where(want > -1e8, want * 1.01, want), want)
    assert 1e-3 < far < 1e-2
    assert check.rest_off(want.clone(), want) == 0.0
    # Nothing is filled here, or with what is not large beside the rest.
    assert check.rest_off(torch.zeros(64), torch.randn(64)) == 0.0
    assert check.rest_off(torch.zeros(64, 64), torch.ones(64, 64).tril()) == 0.0
