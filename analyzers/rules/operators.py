"""Rules about a call on a CPU by its PyTorch operators, each beside those of the reference."""

from __future__ import annotations

from analyzers.rules.rule import CALL, Case, Proof, Subject, rule
from roofline.units import seconds, text

SMALL = 10e-6
"""Mean seconds of an operator below which much of its time is the call itself, some 1 to 5 us."""

MOST = 0.5
"""Share of a call, or of its operators' time, from which it is the one reason."""

COST = 0.1
"""Share of a call that moving its temporaries takes at DRAM speed, from which they are named; of those in fp64."""

COPIES = 0.25
"""Share of a call in copies that the reference does not make, from which they are named."""

TIMES = 4
"""Times the operators of the reference from which it is a loop that the task does not need."""


@rule("many-operators", ("operators", "reference_operators"), level=CALL)
def _many(s: Subject) -> Case | None:
    count, mean = s["operators"], s["operator_time"] / max(s["operators"], 1.0)
    needless = count >= TIMES * max(s["reference_operators"], 1.0)
    if not needless or not mean < SMALL or not s["operator_time"] >= MOST * s.time:
        return None
    params = {"count": f"{count:.0f}", "each": seconds(mean), "least": f"{s['reference_operators']:.0f}"}
    proofs = (Proof("operators", count, TIMES * s["reference_operators"]), Proof("time/operator", mean, SMALL, "below"))
    return _above(s, proofs, params, 1.0)


@rule("wider-type", ("fp64_time", "reference_fp64_time"), level=CALL)
def _wider(s: Subject) -> Case | None:
    """In fp64 where the reference has no fp64 operand, so neither has the data."""
    share = s["fp64_time"] / max(s["operator_time"], s.time)
    if s["reference_fp64_time"] > 0 or "float64" in s.text["type"] or not share >= COST:
        return None
    params = {"share": f"{share:.0%}", "type": s.text["type"]}
    return _above(s, (Proof("fp64_time/time", share, COST),), params, share / 2)


@rule("needless-copies", ("copy_time", "reference_copy_time"), level=CALL)
def _copies(s: Subject) -> Case | None:
    share = (s["copy_time"] - s["reference_copy_time"]) / max(s["operator_time"], s.time)
    if not share >= COPIES:
        return None
    return _above(s, (Proof("copy_time/time", share, COPIES),), {"share": f"{share:.0%}"}, share)


@rule("temporaries", ("allocated", "reference_allocated", "dram_peak", "compulsory_bytes"), level=CALL)
def _temporaries(s: Subject) -> Case | None:
    more = s["allocated"] - s["reference_allocated"]
    # Written once, and read once.
    cost = 2 * more / s["dram_peak"] / s.time
    if not cost >= COST or not more >= MOST * s["compulsory_bytes"]:
        return None
    params = {"more": text(more, "B"), "times": f"{more / s['compulsory_bytes']:.3g}"}
    proofs = (
        Proof("temporaries/compulsory_bytes", more / s["compulsory_bytes"], MOST),
        Proof("time to move them/time", cost, COST),
    )
    return _above(s, proofs, params, min(1.0, cost))


def _above(s: Subject, proofs: tuple[Proof, ...], params: dict[str, str], share: float) -> Case:
    """All above the lower bound could be won, likely this share of the call."""
    least = s["lower_bound_time"]
    return Case(proofs, least if least == least else 0.0, params, share, likely=s.time * (1 - share))
