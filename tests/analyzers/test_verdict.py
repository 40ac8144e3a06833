"""One word an implementation, decided once; the sentence is true in both languages."""

import math

import msgspec
import pytest

from analyzers.records import tables
from analyzers.verdicts.verdict import (
    LONGEST,
    PACED,
    WORDS,
    Condition,
    Evidence,
    Verdict,
    decide,
    weakness,
)

FAST = {"impl": "fast", "ratio": "faster", "speedup": 2.0, "low": 1.98, "high": 2.02, "time": 1e-4}


@pytest.mark.parametrize(
    ("known", "word", "kind"),
    [
        ({"status": "skipped", "reason": "no GPU"}, "skipped", "skipped"),
        ({"status": "crash"}, "failed", "crash"),
        ({"status": "hang"}, "failed", "hang"),
        ({"status": "mismatch"}, "wrong", "mismatch"),
        ({"status": "stops-computing"}, "wrong", "stops-computing"),
        ({"unsound": ("memcheck: out of bounds in k",)}, "wrong", "unsound"),
        ({"passing": ("zeros", "the mean")}, "void", "zeros, the mean would pass"),
        ({"random": True}, "void", "the reference's answers are random"),
        ({"random": True, "status": "mismatch"}, "void", "the reference's answers are random"),
        ({"random": True, "status": "nan"}, "wrong", "nan"),
        ({"hard": 2e-4, "counted_hard": 2e-4}, "impossible", "0.50 of the least time that its own counted work needs"),
        ({"ratio": "slower"}, "slower", ""),
        ({"ratio": "same"}, "same", ""),
        ({"ratio": "inconclusive"}, "inconclusive", ""),
        ({"ratio": ""}, "inconclusive", ""),
        ({}, "faster", ""),
    ],
)
def test_exactly_one_word(known, word, kind):
    verdict = decide(Evidence(**{**FAST, **known}))
    assert (verdict.word, verdict.kind) == (word, kind)
    assert verdict.word in WORDS
    assert verdict.right is (word not in ("skipped", "failed", "wrong"))


SLOW = {"ratio": "slower", "speedup": 0.483, "low": 0.48, "high": 0.486}
UNBUILT = {"own_ran": False, "unbuilt": True}


@pytest.mark.parametrize(
    ("known", "said", "codes", "wins"),
    [
        (SLOW, "slower: 0.483x [0.480, 0.486]", [], False),
        ({"speedup": 12.2, "low": 12.2, "high": 12.2}, "faster: 12.2x", [], True),
        ({"caller": "0.71x"}, ", 0.71x by the caller's clock, with launch and wait", ["waits"], True),
        ({"by_caller": True}, ", by the caller's clock, with launch and wait", ["caller"], True),
        ({"switched": True}, ", by torch settings that the reference does not use", ["switched"], True),
        (UNBUILT, ", by the library: its own extension does not compile here", ["unbuilt"], True),
        ({**UNBUILT, "own_ran": True}, "faster: 2.00x [1.98, 2.02]", [], True),
        ({"hard": 4e-3}, "--ncu", ["unexplained"], False),
        ({"low": 1.1, "high": 22.0}, ", interval wide: not known within a factor of 2", ["wider"], True),
        # Below the model of the task, above what its own counted work needs: the model was too large.
        ({"hard": 4e-3, "counted_hard": 9e-5, "share": 0.0225}, "0.022", ["algorithm"], True),
        ({"hard": 1.01e-4}, "faster: 2.00x [1.98, 2.02]", [], True),
    ],
)
def test_what_is_said_beside_the_word_and_whether_it_wins(known, said, codes, wins):
    verdict = decide(Evidence(**{**FAST, **known}))
    assert [one.code for one in verdict.conditions] == codes
    assert said in verdict.text()
    assert verdict.wins is wins


def test_conditions_stand_in_the_sentence_and_reduced_precision_is_no_win():
    verdict = decide(Evidence(**{**FAST, "low": 1.6, "high": 2.4}, used="TF32", task="FP32", own_ran=False))
    assert [one.code for one in verdict.conditions] == ["reduced", "library", "wide"]
    assert not verdict.wins
    assert verdict.text() == (
        "faster: 2.00x [1.60, 2.40], in TF32 where the task has FP32, "
        "by the library: none of its own kernels ran, interval wide: +-20%"
    )


def test_far_slower_is_said_the_right_way_round():
    far = decide(Evidence(**{**FAST, "ratio": "slower", "speedup": 1 / 112, "low": 1 / 114, "high": 1 / 110}))
    assert far.text() == "slower: 112x as long [110, 114]"
    assert far.headline("zh") == "更慢：耗时为 112 倍"
    near = decide(Evidence(**{**FAST, "ratio": "slower", "speedup": 0.5, "low": 0.49, "high": 0.51}))
    assert near.text() == "slower: 0.500x [0.490, 0.510]"


def test_what_load_may_explain_is_inconclusive():
    load = "CPU contention 69% (4.4 runnable tasks on 2 cores)"
    busy = decide(Evidence(**FAST, slower=1e3, load=load))
    assert (busy.word, busy.wins) == ("inconclusive", False)
    assert busy.text() == f"inconclusive (busy machine): 2.00x [1.98, 2.02], {load}"
    assert busy.headline("zh") == "未定（机器繁忙）：2.00x"
    assert busy.text(without=["busy"]) == "inconclusive (busy machine): 2.00x [1.98, 2.02]"
    assert decide(Evidence(**FAST, slower=1.0, load=load)).word == "faster"


def test_a_void_task_has_no_speedup_in_its_sentence():
    verdict = decide(Evidence(**FAST, passing=("zeros",)))
    assert "2x" not in verdict.text()
    assert not verdict.wins


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_word_has_a_sentence_in_both_languages(word, lang):
    assert set(tables("verdicts/verdict.toml")["verdict"]) == set(WORDS)
    verdict = Verdict("x", word, "crash", "it fell", 2.0, 1.9, 2.1)
    assert verdict.text(lang)
    assert ("2.00x [1.90, 2.10]" in verdict.text(lang)) is (word in (*PACED, "inconclusive"))


def test_every_condition_can_be_said():
    values = dict.fromkeys(("used", "task", "place", "half", "share", "what", "said", "load", "count", "some"), "X")
    values |= dict.fromkeys(("shape", "value", "low", "high", "least"), "X")
    for code in tables("verdicts/verdict.toml")["condition"]:
        assert Condition(code, values).text("zh") != Condition(code, values).text("en")


def test_a_speedup_that_is_not_known_is_not_invented():
    verdict = decide(Evidence(impl="x", ratio="inconclusive"))
    assert math.isnan(verdict.speedup)
    assert verdict.text() == "inconclusive"
    assert set(PACED) < set(WORDS)


def test_an_interval_off_one_that_decides_nothing_says_why():
    known = Evidence(impl="x", ratio="inconclusive", time=1.0, speedup=1.07, low=1.04, high=1.1)
    few = decide(known)
    assert few.text() == "inconclusive (too few rounds): 1.07x [1.04, 1.10]"
    two = decide(msgspec.structs.replace(known, clocks="cupti 1.07x, event 0.99x"))
    assert two.text() == "inconclusive (two clocks disagree): 1.07x, cupti 1.07x, event 0.99x"
    near = decide(Evidence(impl="x", ratio="inconclusive", time=1.0, speedup=1.01, low=1.005, high=1.02))
    assert near.text() == "inconclusive (may be within 1%): 1.01x [1.00, 1.02]"
    below = decide(Evidence(impl="x", ratio="inconclusive", time=1.0, speedup=0.98, low=0.953, high=0.994))
    assert below.text() == "inconclusive (may be within 1%): 0.980x [0.953, 0.994]"
    assert below.text("zh") == "未定（差距可能不足 1%）：0.980x [0.953, 0.994]"


REFUSED = "inputs times 10: RuntimeError: x must be small"


def test_fragile_is_counted_by_kind_in_the_sentence():
    wrong = "inputs times 1e3: output: 3 of 4 elements are infinite where the reference is not"
    lost = "every other row zero: the process of fast has ended"
    beyond = "inputs times 10: AcceleratorError: CUDA error: an illegal memory access was encountered"
    assert weakness([]) == ""
    assert weakness([REFUSED, wrong]) == "refuses 1 unusual input, wrong for 1 unusual input"
    assert weakness([REFUSED, beyond, lost]) == "crashes on 2 unusual inputs, refuses 1 unusual input"
    assert weakness(["weights where they are small: no answer within 60 s"]) == "hangs on 1 unusual weight"
    assert weakness(["inputs times 10: RuntimeError: CUDA error: invalid argument"]) == "refuses 1 unusual input"
    verdict = decide(Evidence(**FAST, fragile=[REFUSED]))
    assert verdict.text().endswith("fragile: refuses 1 unusual input")
    assert "small" not in verdict.text()


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    "known",
    [
        {"status": "error", "reason": "RuntimeError: " + "very long, " * 100 + "\nand of two lines"},
        {
            "status": "stops-computing",
            "reason": "replaces " + ", ".join(f"torch.f{n}" for n in range(200)) + "; put back",
        },
        {"unsound": ["memcheck: out of bounds in void kernel<" + "int, " * 300 + "int>(float *)"]},
        {"fragile": [REFUSED + str(n) + "x" * 300 for n in range(50)]},
    ],
)
def test_a_sentence_is_one_line_of_a_bounded_length(known, lang):
    verdict = decide(Evidence(**{**FAST, **known}))
    assert "\n" not in verdict.text(lang)
    assert len(verdict.text(lang)) < 2 * LONGEST
    assert verdict.why in ("", known.get("reason", ""), *known.get("unsound", ())), "nothing is lost"
