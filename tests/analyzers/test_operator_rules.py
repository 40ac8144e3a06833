"""Advice about a call on a CPU by its operators, and the calls in which it would be false."""

import pytest

from analyzers.rules.findings import examine
from analyzers.rules.rule import Subject

FAR = {"lower_bound_time": 1e-4, "lower_bound_ratio": 100.0, "attainable_fraction": 0.01}
REFERENCE = {
    "reference_calls": 1.0,
    "reference_fp64": 0.0,
    "reference_allocated": 0.0,
    "reference_copies": 0.0,
}
MACHINE = {"sm_count": 8.0, "threads": 8.0, "own_slower": 1.0, "dram_peak": 20e9, "compulsory_bytes": 4e6}
FEW = {"own_calls": 4.0, "own_seconds": 9e-3, "own_fp64": 0.0, "own_copies": 0.0, "own_allocated": 0.0}
LOOP = {"own_calls": 4000.0, "own_seconds": 8e-3}


def first(*, compute="fp32", **values):
    known = {**FAR, **REFERENCE, **MACHINE, **FEW, **values}
    text = {"source": "modelled", "cpu": "yes", "roof": "fp32", "shares": "fp32 1%", "compute": compute}
    one = examine([Subject("mine", "", 10e-3, known, text=text)], {"mine": 10e-3}, lower_bounds={"mine": 1e-4})[0]
    return one.rule, one.variant


@pytest.mark.parametrize(
    ("variant", "values"),
    [
        ("", LOOP),
        # Idle threads are what comes of small operators, and not the other way round.
        ("", {**LOOP, "threads": 1.0}),
        ("fp64", {"own_fp64": 8e-3}),
        ("temporaries", {"own_allocated": 64e6}),
        ("copies", {"own_copies": 4e-3, "own_allocated": 16e6}),
    ],
)
def test_a_reason_comes_before_the_distance(variant, values):
    assert first(**values) == ("operators", variant)


@pytest.mark.parametrize(
    "values",
    [
        {"own_calls": 12.0, "own_seconds": 9e-3},  # a loop of three large ones
        {**LOOP, "reference_calls": 4000.0},  # as many as the task's own
        {**LOOP, "own_seconds": 1e-3},  # beside one long kernel
        {"own_fp64": 8e-3, "reference_fp64": 1e-3},  # the task computes in fp64
        {"own_fp64": 8e-3, "compute": "fp64"},
        {"own_fp64": 2e-4},  # a scale
        {"own_copies": 4e-3, "reference_copies": 3e-3},  # a task that copies
        {"own_allocated": 64e6, "reference_allocated": 64e6},  # an answer, or what the reference writes too
        {"own_allocated": 8e6},  # for a product that takes far longer
        dict.fromkeys([*REFERENCE, *FEW], float("nan")),  # not recorded
    ],
)
def test_a_sentence_that_would_be_false_is_not_said(values):
    assert first(**values)[0] == "modelled"


def test_what_shares_of_cores_say_beside_other_work():
    own = {"threads": 2.0, "own_seconds": 1e-3, "lower_bound_time": 1e-3}
    assert first(**own) == first(**own, own_slower=1.5) == ("modelled", "cpu-threads")
    # Of PyTorch's operators nobody can use more threads than they do.
    assert first(threads=2.0) == ("modelled", "cpu-torch")
    assert first(threads=1.0, own_fp64=8e-3) == ("operators", "fp64")
    assert first(threads=2.0, own_slower=4.0) == ("modelled", "cpu-busy")
    assert first(threads=0.5, own_slower=1.0) == first(own_slower=4.0) == ("modelled", "cpu-torch")


@pytest.mark.parametrize(("computing", "variant"), [(4e-3, ""), (1e-4, "exposed")])
def test_copies_are_not_told_to_hide_behind_what_is_not_there(computing, variant):
    values = {"copying": 6e-3, "computing": computing, "launches": 5.0, "pageable": 0.0, "idle": 0.0, "least": 1e-2}
    found = examine([Subject("all", "", 10e-3, values, text={"found": "step"}, whole=True)], {"all": 10e-3})
    (one,) = (one for one in found if one.rule == "copies")
    assert one.variant == variant
    assert ("too little computing" in one.next_step) is bool(variant)
