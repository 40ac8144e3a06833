"""Arithmetic slips in published tables, recomputed within the rounding of their inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analyzers.verdicts.speedup import follows as can_follow
from analyzers.verdicts.speedup import printed
from profkit.contests.hackathon.encoder_table import Part, passes


@dataclass(frozen=True)
class Slip:
    """A printed figure that does not follow from what is printed beside it."""

    where: str
    printed: str
    recomputed: str
    why: str


def check_evaluation(parts: Sequence[Part]) -> list[Slip]:
    """Slips of the hackathon's evaluation tables: throughput, and Good or Bad by the thresholds."""
    slips = []
    for part in parts:
        for row in part.rows:
            where = f"{part.name or 'table'}, line {row.line}"
            slips += _throughput(part, row.cells, where)
            wanted = passes(part, row)
            if wanted and row.verdict and wanted != row.verdict:
                slips.append(Slip(where, row.verdict, wanted, "by the thresholds in force"))
    return slips


def _throughput(part: Part, cells: Mapping[str, str], where: str) -> list[Slip]:
    names = [name for name in ("bs", "sl") if name in part.columns]
    if "tp" not in cells or any(name not in cells for name in (*names, "lt")):
        return []
    count = 1.0
    for name in names:
        count *= float(cells[name])
    result, latency = printed(cells["tp"]), printed(cells["lt"])
    if can_follow(result, lambda lt: count / lt * 1000, (latency,)):
        return []
    again = f"{count / latency.value * 1000:.3e}"
    return [Slip(where, cells["tp"], again, f"{' x '.join(names)} / lt x 1000, outside rounding")]
