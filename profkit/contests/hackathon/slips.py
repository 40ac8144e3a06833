"""Arithmetic slips in published tables, recomputed within the rounding of their inputs."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analyzers.errors import AnalyzeError
from analyzers.speedup import CONVENTIONS, conventions_of, printed, shown, speedup
from analyzers.speedup import follows as can_follow
from profkit.contests.hackathon.encoder_table import Part, passes


@dataclass(frozen=True)
class Slip:
    """A printed figure that does not follow from what is printed beside it."""

    where: str
    printed: str
    recomputed: str
    why: str


@dataclass(frozen=True)
class Claim:
    """A printed speed-up: where it stands, and the cells of old time, new time and result."""

    where: str
    old: str
    new: str
    result: str


def check_claims(claims: Iterable[Claim]) -> tuple[str, list[Slip]]:
    """The convention most of the claims keep, and a slip for each that does not."""
    known = [(one, _fits(one)) for one in claims]
    votes = Counter(name for _, fits in known for name in fits)
    best = max(CONVENTIONS, key=lambda name: votes[name])
    slips = []
    for one, fits in known:
        if best in fits:
            continue
        value = shown(speedup(printed(one.old).value, printed(one.new).value, best), best)
        why = (
            f"follows another convention: {', '.join(fits)}"
            if fits
            else f"{one.old} -> {one.new} gives {value}, outside rounding"
        )
        slips.append(Slip(one.where, one.result, value, why))
    return best, slips


def _fits(claim: Claim) -> tuple[str, ...]:
    result = printed(claim.result)
    percent = "%" in claim.result
    fits = conventions_of(printed(claim.old), printed(claim.new), result)
    # A percentage is never a plain ratio, and a ratio is never read as a percentage.
    return tuple(name for name in fits if (name == "ratio") != percent)


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


def claims_of(markdown: str) -> list[Claim]:
    """The claims of a pipe table with an old time, a new time and a speed-up column.

    Headers are read in any spelling the pull requests use (full-width letters, ideographic spaces). Raises
    AnalyzeError when the three columns cannot be told apart.
    """
    rows = [_cells(line) for line in markdown.splitlines() if line.count("|") >= 3]
    rows = [row for row in rows if not all(re.fullmatch(r":?-*:?", cell) for cell in row)]
    if len(rows) < 2:
        raise AnalyzeError("no pipe table with a head and a row")
    head = [cell.lower() for cell in rows[0]]
    old = _column(head, r"origin|\bold\b|before|优化前|原")
    new = _column(head, r"current|\bnew\b|after|优化后", avoid={old})
    result = _column(head, r"faster|diff|speed|percent|提升|加速|提速", avoid={old, new})
    if -1 in (old, new, result):
        raise AnalyzeError(
            "a column is missing: an old time, a new time and a speed-up are needed",
            fix=f"the head is: {' | '.join(head)}",
        )
    return [
        Claim(f"row {number}", row[old], row[new], row[result])
        for number, row in enumerate(rows[1:], 1)
        if len(row) > max(old, new, result) and all(re.search(r"\d", row[i]) for i in (old, new, result))
    ]


def _cells(line: str) -> list[str]:
    text = unicodedata.normalize("NFKC", line).strip()
    return [cell.strip() for cell in text.strip("|").split("|")]


def _column(head: Sequence[str], pattern: str, avoid: Iterable[int] = ()) -> int:
    taken = set(avoid)
    times = [i for i, name in enumerate(head) if i not in taken and re.search(pattern, name)]
    # "faster than the original one" also says original: a column of times says so first.
    perf = [i for i in times if re.search(r"perf|time|ms|us|耗时|latency", head[i])]
    return (perf or times or [-1])[0]
