"""Transcript of a contest entry: from a terminal, a file, or a comment of the contest's CI.

Printed times are rounded: a ratio lies in the interval that they allow.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from analyzers.records import plain

NAN = math.nan

_TIME = re.compile(r"(?P<label>[^\n]*?)\s*平均执行时间:\s*(?P<s>[0-9.]+(?:e-?\d+)?)\s*秒")
_RATIO = re.compile(r"加速比\s*\(Speedup\):\s*(?P<x>[0-9.]+)x")
_VERDICT = re.compile(r"(✅|❌)\s*精度(?:对齐|不一致)")
_RATE = re.compile(
    r"(?P<label>[^\n]*?)\s*(?P<which>吞吐量|内存带宽):\s*(?P<value>[0-9.]+(?:e[+-]?\d+)?)\s*(?P<unit>[GMT]?(?:FLOP|B)/s)"
)
_NO_CUDA = "CUDA 不可用"
_ZERO = "CUDA 内核执行时间为0"
_CACHED = "ninja: no work to do."
_UNITS = {"": 1.0, "M": 1e6, "G": 1e9, "T": 1e12}


@dataclass(frozen=True)
class Printed:
    """A printed time [s] and the times that round to it."""

    label: str
    seconds: float
    low: float
    high: float


@dataclass(frozen=True)
class Transcript:
    """`passed`: the accuracy verdict, None without. Times in SI; NaN where not printed.

    `low`, `high`: ratios the rounded times allow. `notes`: what deserves a word.
    """

    passed: bool | None = None
    reference: Printed | None = None
    candidate: Printed | None = None
    speedup: float = NAN
    low: float = NAN
    high: float = NAN
    throughput: float = NAN
    bandwidth: float = NAN
    notes: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        return plain(asdict(self))


def parse(text: str) -> Transcript:
    """Parse a transcript; wrapped lines, colour codes and surrounding text do not matter."""
    text = unwrapped(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r", ""))
    times = [_printed(found) for found in _TIME.finditer(text)][-2:]
    reference, candidate = (times[0], times[1]) if len(times) == 2 else (None, None)
    ratio = _RATIO.search(text)
    low, high = _allowed(reference, candidate)
    verdicts = _VERDICT.findall(text)
    rates = {
        found["which"]: float(found["value"]) * _UNITS[found["unit"][0] if found["unit"][0] in "MGT" else ""]
        for found in _RATE.finditer(text)
    }
    return Transcript(
        passed=verdicts[-1] == "✅" if verdicts else None,
        reference=reference,
        candidate=candidate,
        speedup=float(ratio["x"]) if ratio else NAN,
        low=low,
        high=high,
        throughput=rates.get("吞吐量", NAN),
        bandwidth=rates.get("内存带宽", NAN),
        notes=tuple(_notes(text)),
    )


def unwrapped(text: str) -> str:
    """Join lines that a comment box broke."""
    out: list[str] = []
    for line in text.split("\n"):
        if out and _half(out[-1]) and line.strip():
            out[-1] = f"{out[-1].rstrip()} {line.strip()}"
        else:
            out.append(line)
    return "\n".join(out)


def _half(line: str) -> bool:
    """Whether a line starts one of the grammar's lines without finishing it."""
    time = "平均执行时间" in line and not re.search(r"秒\s*$", line)
    ratio = re.search(r"加速比\s*(\(Speedup\))?:?\s*$", line) is not None
    return time or ratio


def _printed(found: re.Match[str]) -> Printed:
    half = 0.5 * step(found["s"])
    value = float(found["s"])
    return Printed(found["label"].strip(), value, max(0.0, value - half), value + half)


def step(number: str) -> float:
    """The last place of a printed number: 1e-6 for "0.000026"."""
    mantissa, _, exponent = number.lower().partition("e")
    return float(10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])))


def _allowed(reference: Printed | None, candidate: Printed | None) -> tuple[float, float]:
    if reference is None or candidate is None:
        return NAN, NAN
    low = reference.low / candidate.high if candidate.high else NAN
    return low, reference.high / candidate.low if candidate.low else math.inf


def _notes(text: str) -> list[str]:
    notes = []
    if _NO_CUDA in text:
        notes.append("no CUDA device: nothing was measured")
    if _ZERO in text:
        notes.append("the candidate's time was printed as 0: too coarse a clock")
    if re.search(r"^(Traceback|\w*Error:)", text, re.M):
        notes.append("it ended with an exception")
    if _CACHED in text:
        notes.append(
            "an earlier build was taken from the cache: with a shared load_inline name it may be another sample's"
        )
    return notes
