"""The source lines that kernels wait for, in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import PurePath
from typing import TYPE_CHECKING

from profkit.report import units
from profkit.report.layout import cut
from profkit.report.messages import named, say
from profkit.report.names import short_name

if TYPE_CHECKING:
    from analyzers.kernels.source_lines import Line

SHOWN = 5
"""Lines of a kernel that are told."""
MINOR = 0.01


def by_kernel(lines: Sequence[Line], kernel: str = "") -> list[tuple[str, str, list[Line]]]:
    """(part, kernel, lines), the longest excess first; `kernel`: a part of its name."""
    kept = [one for one in lines if kernel in one.kernel]
    return [(*key, list(found)) for key, found in groupby(kept, key=lambda one: (one.impl, one.kernel))]


def text(lines: Sequence[Line], kernel: str = "") -> str:
    """For a terminal: each kernel and its hottest lines; "" without any."""
    told = []
    for impl, name, found in by_kernel(lines, kernel):
        told += ["", impl + say("colon") + short_name(name) if impl else short_name(name)]
        told += [f"  {sentence(one)}" for one in shown_of(found)]
    return "\n".join(told[1:])


def sentence(one: Line) -> str:
    """ "slow.cu line 41: 38 % of stalls, long scoreboard, at most 210 us: float c = x[index[i]];" """
    parts = [say("line_share", share=units.percent(one.share)), named(one.reason)]
    if one.excess > 1 + MINOR:
        parts.append(say("line_sectors", times=f"{one.excess:.3g}"))
    if one.bound == one.bound:
        parts.append(say("line_bound", time=units.text(one.bound, "s")))
    return say("colon").join([_where(one), say("comma").join(parts), cut(one.text.strip(), 100)])


def shown_of(found: Sequence[Line]) -> list[Line]:
    """Lines of a kernel that are shown."""
    return [one for one in found if one.share >= MINOR][:SHOWN]


def _where(one: Line) -> str:
    if not one.number:
        return say("line_instruction")
    return f"{PurePath(one.file).name} {say('line', number=str(one.number))}".strip()
