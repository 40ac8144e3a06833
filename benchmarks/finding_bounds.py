"""Did the bound of the first finding hold when its fix was applied? Pairs of implementations recorded in examples/h200.

    python benchmarks/finding_bounds.py            print the table
    python benchmarks/finding_bounds.py --write    put it into docs/explain.md

A pair is an implementation and another one of the same run that does what the finding's next step says. No GPU needed.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from analyzers.rules.rule import TIME, Finding
from profkit.report.layout import Table, pipe_table
from profkit.study.study import open_study
from roofline import units

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs/explain.md"
BEGIN, END = "<!-- benchmarks/finding_bounds.py -->", "<!-- end -->"
HEAD = ["sample", "before", "first finding", "could win at most", "after", "won", "of the bound"]


@dataclass(frozen=True)
class Pair:
    """`fix`: what the after does of the finding's next step."""

    sample: str
    before: str
    after: str
    fix: str


PAIRS = (
    Pair("ICJTRP", "reference", "cuda", "tiles in shared memory: both sides coalesced"),
    Pair("ICJTRP", "ori", "cuda", "the same, from a first attempt with scattered writes"),
    Pair("ICGRMS", "reference", "cuda", "nine operators fused into one kernel"),
    Pair("ICKGLU", "reference", "triton", "bias and GELU fused into one kernel"),
    Pair("ICLSUM", "cuda", "reference", "more blocks: torch's reduction fills the device"),
    Pair("ICMTNY", "ori", "cuda", "24 launches fused into one"),
    Pair("ICNPLY", "reference", "cuda", "128 passes over memory become one"),
    Pair("ICPDGM", "cuda", "reference", "the fp64 tensor cores, by cuBLAS"),
)


def measured(pair: Pair) -> tuple[Finding, float, float]:
    """The first finding of the before, and the seconds of before and after."""
    run = open_study(ROOT / "examples/h200" / pair.sample)
    first = next(one for one in run.findings() if one.impl == pair.before and one.severity == TIME)
    return first, *(float(run.analysis.impl(name)["time"]) for name in (pair.before, pair.after))


def row(pair: Pair) -> list[str]:
    first, before, after = measured(pair)
    won = before - after
    return [
        pair.sample,
        f"{pair.before}, {units.text(before, 's')}",
        f"`{first.rule}`: {first.title}",
        units.text(first.upper_bound, "s"),
        f"{pair.after}, {units.text(after, 's')} ({pair.fix})",
        units.text(won, "s"),
        f"{units.percent(won / first.upper_bound)}{'' if 0 < won <= first.upper_bound else ' (!)'}",
    ]


def table() -> str:
    return pipe_table(Table(list(HEAD), [row(pair) for pair in PAIRS]))


def replaced(text: str) -> str:
    """The document with the table between its marks made anew."""
    return re.sub(f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}\n{table()}\n{END}", text, flags=re.S)


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        DOCUMENT.write_text(replaced(DOCUMENT.read_text("utf-8")), encoding="utf-8")
    else:
        print(table())
