"""Rule about a CPU call by its PyTorch operators, compared with the reference's."""

from __future__ import annotations

from analyzers.rules.rule import CALL, Case, Proof, Subject, rule
from roofline.units import seconds, text

SMALL = 10e-6
"""Mean seconds of an operator below which call overhead, some 1 to 5 us, dominates."""
TIMES = 4
"""Ratio to the reference's operators from which an unneeded loop is suspected."""
MOST, COPIES, COST = 0.5, 0.25, 0.1
"""Shares of a call from which these are reported: small operators; copies; fp64 and moving temporaries at DRAM
speed.
"""


@rule("operators", ("own_calls", "reference_calls", "compulsory_bytes"), level=CALL)
def _operators(s: Subject) -> Case | None:
    """The strongest of four causes."""
    count, least, whole = s["own_calls"], max(s["reference_calls"], 1.0), max(s["own_seconds"], s.time)
    mean, more = min(s["own_seconds"], s.time) / max(count, 1.0), s["own_allocated"] - s["reference_allocated"]
    fp64, copies = s["own_fp64"] / whole, (s["own_copies"] - s["reference_copies"]) / whole
    # A temporary is written once, and read once.
    cost, times = 2 * more / s["dram_peak"] / s.time, more / s["compulsory_bytes"]
    # Without an fp64 operand in the reference neither has the data one.
    narrow = not s["reference_fp64"] > 0 and s.text["compute"] != "fp64"
    slow = s["own_seconds"] >= MOST * s.time and count >= TIMES * least and mean < SMALL
    loop = Proof("operators", count, TIMES * least), Proof("time/operator", mean, SMALL, "below")
    large = Proof("temporaries/compulsory_bytes", times, MOST), Proof("time to move them/time", cost, COST)
    reasons: list[tuple[float, str, tuple[Proof, ...]]] = [
        (1.0 if slow else 0.0, "", loop),
        (fp64 / 2 if narrow and fp64 >= COST else 0.0, "fp64", (Proof("fp64_time/time", fp64, COST),)),
        (copies if copies >= COPIES else 0.0, "copies", (Proof("copy_time/time", copies, COPIES),)),
        (min(1.0, cost) if cost >= COST and times >= MOST else 0.0, "temporaries", large),
    ]
    share, variant, proofs = max(reasons, key=lambda one: one[0])
    if not share > 0:
        return None
    params = {"count": f"{count:.0f}", "each": seconds(mean), "least": f"{least:.0f}", "type": s.text["compute"]}
    params |= {"fp64": f"{fp64:.0%}", "copies": f"{copies:.0%}", "more": text(more, "B"), "times": f"{times:.3g}"}
    # All above the lower bound could be won.
    return Case(proofs, max(0.0, s["lower_bound_time"]), params, share, variant=variant, likely=s.time * (1 - share))
