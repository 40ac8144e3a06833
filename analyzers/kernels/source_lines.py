"""Stall samples attributed to the source line that causes them.

A warp that waits for a load is sampled at the instruction that needs the value, often on another line than the load.
Such samples are attributed to the instruction that produces the value: an earlier one, by address, that writes a
register it reads (as in Zhou et al., GPA, CGO 2021). All other samples stay in place.
"""

from __future__ import annotations

import functools
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from analyzers.waterfall import EXCESS, KERNELS, Waterfall
from collectors.ncu.source import Instruction, Listing

WAITS = {"long_sb": "long scoreboard", "short_sb": "short scoreboard", "lg": "LSU queue", "mio": "MIO queue"}
"""Memory stall reasons in words; the first two are attributed to the producer."""
LOADS = {
    "long_sb": re.compile(r"(LD|LDG|LDL|ATOM|ATOMG|TEX|TLD|TLD4|SULD)\b"),
    "short_sb": re.compile(r"(LDS|LDSM|LDC|ULDC|ATOMS|MUFU|S2R|S2UR|SHFL|I2F|F2I)\b"),
}
"""Stall reasons attributed to the producer -> the instructions that cause them."""
_PREDICATE = re.compile(r"^@!?U?P\w+\s+")
_STORES = ("ST", "RED", "BRA", "ISETP", "FSETP")
"""Instructions whose first operand is read, or is no register."""
_REGISTER = re.compile(r"\bU?R(\d+)\b(?:\.(64|128))?")


class Line(msgspec.Struct, frozen=True):
    """Source line of a kernel; `number` 0: an instruction without a known line, with its text.

    `share`: of the kernel's samples, 0..1; `reason`: of most of them; `bound` [s]: most time that fixing the line could
    save, NaN unknown; `excess`: sectors requested from L2 over sectors needed, NaN if the line moves no data.
    """

    kernel: str
    file: str
    number: int
    text: str
    share: float
    reason: str
    bound: float = math.nan
    excess: float = math.nan
    impl: str = ""


def lines_of(listings: Iterable[Listing], calls: Mapping[str, Waterfall]) -> list[Line]:
    """Lines of every kernel in its waterfall, the longest excess first.

    A line's bound is its share of the kernel's time in the call, at most the kernel's slices of the waterfall.
    """
    known = {one.kernel: one for one in listings}
    found: list[Line] = []
    for impl, call in calls.items():
        slices: dict[str, float] = defaultdict(float)
        for part in call.slices:
            if part.kind in (EXCESS, KERNELS) and part.kernel:
                slices[part.kernel] += part.seconds
        for kernel in sorted(filter(known.__contains__, call.kernels), key=lambda name: -slices[name]):
            time = call.kernels[kernel]
            lines = hot_lines(known[kernel], time=time, least=time - min(time, slices[kernel]))
            found += [msgspec.structs.replace(one, impl=impl) for one in lines]
    return found


def hot_lines(listing: Listing, *, time: float = math.nan, least: float = math.nan) -> list[Line]:
    """Lines of a kernel, most stalls first; instructions without a line are listed separately.

    time, least [s]: of all its launches, and at its ceilings. A line can save its share of the time, and no more than
    the kernel can. Empty without samples.
    """
    charged = _charged(listing.instructions)
    total = sum(sum(reasons.values()) for reasons in charged.values())
    if not total > 0:
        return []
    sass = {one.address: one.sass for one in listing.instructions}
    sectors: dict[_Place, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for one in listing.instructions:
        if one.ideal > 0:
            sectors[_place(one)][0] += one.sectors
            sectors[_place(one)][1] += one.ideal
    found = []
    for (file, number, address), reasons in charged.items():
        share = sum(reasons.values()) / total
        asked, ideal = sectors.get((file, number, address), (0.0, 0.0))
        reason = max(reasons, key=lambda name: reasons[name])
        bound = min(share * time, time - least) if time >= least else math.nan
        found.append(
            Line(
                kernel=listing.kernel,
                file=file,
                number=number,
                text=listing.text.get((file, number), "") if number else sass.get(address, ""),
                share=share,
                reason=WAITS.get(reason, reason.replace("_", " ")),
                bound=bound,
                excess=asked / ideal if ideal > 0 else math.nan,
            )
        )
    return sorted(found, key=lambda line: -line.share)


_Place: TypeAlias = "tuple[str, int, int]"
"""File, line, and the address if there is no line."""


def _place(one: Instruction) -> _Place:
    return (one.file, one.line, 0) if one.line else ("", 0, one.address)


def _charged(instructions: Sequence[Instruction]) -> dict[_Place, dict[str, float]]:
    """Place -> samples by reason."""
    found: dict[_Place, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for at, one in enumerate(instructions):
        known = sum(one.stalls.values())
        reasons = dict(one.stalls) if known > 0 else {"selected": one.samples}
        for reason, samples in reasons.items():
            cause = _producer(instructions, at, reason) if reason in LOADS else None
            place = instructions[cause] if cause is not None else one
            found[_place(place)][reason] += samples
    return found


def _producer(instructions: Sequence[Instruction], at: int, reason: str = "long_sb") -> int | None:
    """The load that the instruction at `at` waits for; None if not found.

    It writes a register that the instruction reads, and nothing in between has waited for it. Of several loads, the
    one with most sectors; of equal ones the last, as the others have arrived by then or are waited for together.
    """
    wanted, awaited, found = set(_used(instructions[at].sass)[0]), set[str](), []
    for before in range(at - 1, -1, -1):
        sass = instructions[before].sass
        reads, writes = _used(sass)
        written = wanted & writes
        if written and LOADS[reason].match(_bare(sass)) and not written & awaited:
            found.append(before)
        wanted -= written
        if not wanted:
            break
        awaited |= reads
    return max(found, key=lambda one: (instructions[one].sectors, one), default=None)


@functools.lru_cache(1 << 16)
def _used(sass: str) -> tuple[frozenset[str], frozenset[str]]:
    """Registers that an instruction reads, and writes: its first operand, wider by its suffix."""
    name, _, rest = _bare(sass).partition(" ")
    operands = [word.strip() for word in re.split(r",\s*(?![^\[]*\])", rest)]
    wide = 4 if ".128" in name else 2 if ".64" in name or ".WIDE" in name else 1
    written = [] if name.startswith((*_STORES, "EXIT", "BAR", "NOP", "RET")) else _registers(operands[0], wide)
    sources = operands if name.startswith(_STORES) else operands[1:]
    return frozenset(one for operand in sources for one in _registers(operand)), frozenset(written)


def _bare(sass: str) -> str:
    """An instruction without its predicate."""
    return _PREDICATE.sub("", sass)


def _registers(operand: str, wide: int = 1) -> list[str]:
    found = []
    for match in _REGISTER.finditer(operand):
        kind = "UR" if match[0].startswith("U") else "R"
        span = max(wide, {"64": 2, "128": 4}.get(match[2] or "", 1))
        found += [f"{kind}{int(match[1]) + step}" for step in range(span)]
    return found
