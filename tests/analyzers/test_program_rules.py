"""Findings of whole programs: each fires on its slice of the wall time and not without, and their slices never overlap."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.rules.findings import examine
from analyzers.rules.rule import LANGUAGES, TIME, Subject
from analyzers.rules.subjects import WHOLE, program_subjects
from analyzers.timeline.budget import Budget, budget
from analyzers.timeline.steady import Steady
from collectors.frame import host_of
from collectors.kineto import read
from profkit.report.explain import gain, worded
from profkit.report.messages import in_each

IDLE = ("away", "host", "waiting", "allocating", "loading", "queued", "unknown")
NOTHING = (*IDLE, "communicating", "copying", "hidden", "tiny", "pageable", "short")
COUNTS = {"launches": 1000, "gaps": 900, "blocking": 20, "loads": 3, "holes": 10, "queued_gaps": 800}
QUIET = Budget(
    window=1.0,
    computing=1.0,
    pageable_bytes=math.nan,
    steady=Steady(0, 1000, 10, "repeating"),
    **dict.fromkeys(NOTHING, 0.0),
    **COUNTS,
)
DATA = Path(__file__).resolve().parent.parent / "data" / "kineto"


def found(budget, counted=False):
    return [one for one in examine(program_subjects({"": budget}, counted=counted), {}) if one.severity == TIME]


@pytest.mark.parametrize(
    ("rule", "variant", "slices", "said"),
    [
        (
            "host-away",
            "",
            {"away": 0.5, "hole_before": "void at::add<int>(int)"},
            "mostly before add: the host does something else; 1 x 50 ms per step",
        ),
        ("host-away", "load", {"away": 0.5, "hole_before": "Memcpy HtoD (Pageable -> Device)"}, "before Memcpy HtoD"),
        ("gpu-idle", "", {"host": 0.5, "short": 0.1}, "100 kernels per step, 0 memcpy and memset"),
        ("gpu-idle", "chain", {"host": 0.5, "short": 0.9}, "launch-bound"),
        ("idle-unexplained", "", {"unknown": 0.5}, "has no host activity"),
        ("idle-unexplained", "uncalled", {"unknown": 0.5, "engaged": {"host": 0.1}}, "pages of unified memory"),
        ("synchronising", "", {"waiting": 0.5}, "2 synchronising calls per step"),
        ("allocating", "", {"allocating": 0.5}, "allocated"),
        ("recompiles", "", {"loading": 0.5}, "recompiled"),
        ("recompiles", "first", {"loading": 0.5, "steady": replace(QUIET.steady, found="all")}, "at its first launch"),
        ("queued-gaps", "", {"queued": 0.5, "queued_gaps": 20_000}, "2000 gaps per step, 25.0 us of each"),
        ("queued-gaps", "few", {"queued": 0.5}, "80 gaps per step, 625 us of each"),
        ("queued-gaps", "few", {"queued": 0.5, "queued_gaps": 20_000, "launches": 10}, "2000 gaps per step"),
        ("copies", "", {"copying": 0.5}, "only copies"),
        (
            "copies",
            "pageable",
            {"copying": 0.5, "pageable": 0.45, "pageable_bytes": 1e9},
            "pageable memory (100 MB a step)",
        ),
        ("communication", "", {"communicating": 0.5, "hidden": 0.5}, "50% of NCCL's time is hidden"),
        ("tiny-kernels", "", {"tiny": 0.5, "short": 0.5}, "50 kernels per step"),
    ],
)
def test_each_rule_has_its_slice_of_a_step(rule, variant, slices, said):
    busy = 1.0 - sum(slices.get(name, 0.0) for name in (*IDLE, "copying", "communicating"))
    (one,) = found(replace(QUIET, computing=busy, **slices))
    assert (one.rule, one.variant, one.impl) == (rule, variant, WHOLE)
    assert said in one.title
    # Half of a step of 0.1 s.
    assert one.upper_bound == pytest.approx(0.05)
    assert one.ratio == pytest.approx(0.5)
    assert one.win == pytest.approx(0.05)
    assert one.evidence
    for lang in LANGUAGES:
        assert all(one.words(lang))
    assert found(QUIET) == []


@pytest.mark.parametrize(
    ("steady", "en", "zh"),
    [
        (Steady(0, 1000, 1, "all"), "50.0% of the record because", "整段记录中有 50.0%"),
        (Steady(0, 1000, 10, "range"), "50.0% of a passage because", "每次经过有 50.0%"),
    ],
)
def test_what_has_no_steps_is_not_told_of_a_step(steady, en, zh):
    """Said before, where nothing repeats: up to 34 % of a step's wall time, 82 launches a step."""
    (one,) = found(replace(QUIET, computing=0.5, host=0.5, short=0.1, steady=steady))
    assert en in one.title
    study = SimpleNamespace(manifest=SimpleNamespace(sample=SimpleNamespace(path=""), program=[], device={}))
    english, chinese = in_each(lambda: worded(one, study)[0] + gain(one))
    assert zh in chinese
    assert "每步" not in chinese
    assert "a step" not in english


def test_a_bound_is_a_share_of_the_step_as_recorded():
    """Of 100 ms the host is at launches for 60, of which nobody knows how much is recording."""
    budget = replace(QUIET, away=0.3, host=0.5, computing=0.2, short=0.9, engaged={"away": 0.3, "host": 0.6})
    assert budget.least == pytest.approx(0.04)
    told = {one.rule: one for one in found(budget)}
    assert {name: one.ratio for name, one in told.items()} == {
        "host-away": pytest.approx(0.3),
        "gpu-idle": pytest.approx(0.6),
    }
    assert [one.rule for one in found(budget)] == ["gpu-idle", "host-away"]
    away = told["host-away"]
    assert (away.upper_bound, away.win) == pytest.approx((0.03, 0.03))
    assert "idle for 30.0% of a step" in away.title
    assert gain(away) == "up to 30.0% of a step's wall time as recorded (30.0 ms)"
    assert (
        gain(told["gpu-idle"])
        == "up to 60.0% of a step's wall time as recorded (60.0 ms: 50.0 ms there, with what it delays)"
    )
    assert replace(budget, stream=0.7).least == pytest.approx(0.07), (
        "a step is no shorter than its busiest stream works"
    )


def test_what_is_lost_inside_kernels_is_told_once():
    budget = replace(QUIET, tiny=0.5, short=0.5)
    assert [one.rule for one in found(budget)] == ["tiny-kernels"]
    assert found(budget, counted=True) == []


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.floats(0, 1), min_size=10, max_size=10),
    st.floats(0, 1),
    st.lists(st.floats(0, 1), min_size=7, max_size=7),
)
def test_wins_never_pass_the_step_and_the_largest_comes_first(parts, short, freed):
    names = (*IDLE, "copying", "communicating", "computing")
    total = sum(parts) or 1.0
    slices = {name: value / total for name, value in zip(names, parts, strict=True)}
    engaged = dict(zip(IDLE, freed, strict=True))
    one = replace(QUIET, **slices, tiny=slices["computing"] / 2, short=short, engaged=engaged)
    told = found(one)
    assert sum(each.win for each in told) <= 0.1 * (1 + 1e-9)
    for each in told:
        assert each.win == pytest.approx(each.likely)
        assert each.win <= each.upper_bound * (1 + 1e-9)
        assert each.ratio <= 1 + 1e-9
        if each.rule not in ("copies", "communication", "tiny-kernels"):
            assert each.ratio <= one.idle * (1 + 1e-9)
    steps = [round(each.likely / 0.1 / 0.02) for each in told]
    assert steps == sorted(steps, reverse=True)


@pytest.mark.parametrize(
    ("name", "first", "share", "most", "others"),
    [
        ("generate", ("gpu-idle", "chain"), 0.72, 0.951, {"queued-gaps", "tiny-kernels"}),
        ("resnet", ("host-away", "load"), 0.52, 0.548, {"gpu-idle", "queued-gaps", "copies"}),
        ("gpt", ("gpu-idle", "chain"), 0.67, 0.796, {"queued-gaps", "tiny-kernels"}),
    ],
)
def test_what_is_first_in_time_is_first_in_the_list(name, first, share, most, others):
    """Steady steps of generation, of training a ResNet and of training a small GPT, as torch's profiler saw an H100."""
    frame = read(DATA / f"{name}_h100.trace.json.gz")
    one = budget(frame, host=host_of(frame))
    assert one.steady.found == "repeating"
    told = found(one)
    assert (told[0].rule, told[0].variant) == first
    assert told[0].win / one.step == pytest.approx(share, abs=0.02)
    assert told[0].ratio == pytest.approx(most, abs=0.002)
    assert {one.rule for one in told[1:]} >= others
    assert sum(finding.win for finding in told) <= one.step - (one.computing - one.tiny) / one.steady.steps + 1e-12
    if name == "resnet":
        # Said before: launch-bound, a CUDA graph wins 54 %; 41 ms of each step lie before the copy of the next batch.
        assert "a CUDA graph does not shorten these pauses" in told[0].next_step
        assert "before Memcpy HtoD (Pageable -> Device)" in told[0].title
        assert (one.holes, one.gaps) == (4, 2871)
        assert one.shortest < one.step < one.longest
        (copies,) = [finding for finding in told if finding.rule == "copies"]
        assert copies.variant == "pageable"


def test_the_time_that_stands_there_is_told_beside_a_bound_above_it():
    """Said before: up to 75 % of the record, the GPU only copies for 5 % of it."""
    behind = {"engaged": {"copying": 0.5}, "stream": 0.4}
    (one,) = found(replace(QUIET, computing=0.9, copying=0.1, **behind))
    assert gain(one).startswith(
        "up to 50.0% of a step's wall time as recorded (50.0 ms: 10.0 ms there, with what it delays)"
    )
    (near,) = found(replace(QUIET, computing=0.9, copying=0.1))
    assert gain(near).startswith("up to 10.0%")


def test_a_single_launch_comes_after_no_wait_and_work_without_kernels_hides_no_copy():
    waits = {"blocking": 2, "engaged": {"waiting": 0.6, "blocked": 0.6}, "stream": 0.4}
    alone = replace(QUIET, computing=0.4, unknown=0.6, steady=Steady(0, 9, 1, "all"), **waits)
    assert [one.rule for one in found(replace(alone, launches=1))] == ["idle-unexplained"]
    told = {one.rule: one for one in found(replace(alone, launches=9))}
    assert [(proof.counter, proof.value) for proof in told["synchronising"].evidence] == [
        ("host waiting/step", 0.6),
        ("synchronising calls/step", 2.0),
    ]
    assert found(replace(QUIET, computing=0.0, copying=1.0, launches=0)) == []


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
