"""Read compute-sanitizer's log; findings are added up by kind, kernel and place.

The text log is read because its records are documented, unlike the XML elements. A record begins with one
space after the equal signs, its details with more:

    ========= Invalid __global__ write of size 4 bytes
    =========     at scale(float *, int)+0x70 in cuda.cu:9
    =========     by thread (255,0,0) in block (3,0,0)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from collectors.errors import CollectError

_LINE = re.compile(r"^=+(?P<space>\s*)(?P<text>.*)$")
_DETAIL = re.compile(r"(at|by thread|and|Address|Access to|Device Frame|Host Frame|Saved host|Current Value|\[)\b")
_SUMMARY = re.compile(r"(?P<name>ERROR|RACECHECK|LEAK) SUMMARY: (?P<count>[\d,]+)")
_FOUND = re.compile(
    r"(?:(?P<level>Error|Warning|Info|WARNING|ERROR|INFO|WARN): )?(?:\([^)]*\) )?"
    r"(?P<kind>Invalid |Uninitialized |Barrier error|Race reported|Potential |Misaligned|Out-of-range|Stack |Illegal |"
    r"Malloc/Free|Double free|Host API|Program hit|Leaked|Fatal|Unused memory|Deadlock|Missing)"
)
_PLACES = (
    re.compile(r"(?:at )?(?P<function>.+?)[+:]0x[0-9a-f]+(?: in (?P<place>\S+:\d+))?"),
    re.compile(r"(?:at )?0x[0-9a-f]+ in (?:(?P<place>[^\s:]+:\d+):)?(?P<function>.+?)(?: \[\d+ hazards\])?"),
)
_HAZARDS = re.compile(r"\[([\d,]+) hazards?\]")
_FRAME = re.compile(r"Device Frame: ?(.+)")
_ACCESS = re.compile(r"\b(Read|Write|Atomic\w*) access at (.+?)(?= and (?:Read|Write|Atomic)| \[|$)")
_TROUBLE = re.compile(r"(Internal Sanitizer Error|Error|Target application returned|Warning): ?(.*)")


class Finding(msgspec.Struct, frozen=True):
    """One kind of error in one kernel at one place.

    `place`: file:line if built with -lineinfo, else "". `severity`: error, warning, info. `detail`: thread
    and address of the first. `tool`: of the sanitizer; `own`: the kernel is the candidate's, not a library's.
    """

    kind: str
    kernel: str = ""
    place: str = ""
    count: int = 1
    severity: str = "error"
    detail: str = ""
    tool: str = ""
    own: bool = True

    @property
    def serious(self) -> bool:
        """Whether it is an error in one of the candidate's kernels."""
        return self.own and self.severity == "error"

    @property
    def text(self) -> str:
        """Tool, kind, kernel and place on one line."""
        return f"{self.tool}: {self.kind} in {self.kernel} {self.place}".rstrip()


@dataclass(frozen=True)
class Log:
    """All findings; `summary`: number of errors, None in a cut log; `troubles`: of the tool."""

    findings: tuple[Finding, ...]
    summary: int | None
    troubles: tuple[str, ...]


def read(path: Path) -> Log:
    """Read a log. Raises CollectError for another file."""
    try:
        text = path.read_text("utf-8", "replace")
    except OSError as error:
        raise CollectError(f"{path}: {error.strerror}", fix="compute-sanitizer wrote no log: did it start?") from error
    log = parse(text)
    if "COMPUTE-SANITIZER" not in text and log.summary is None:
        raise CollectError(f"{path}: no log of compute-sanitizer", fix="it begins with ========= COMPUTE-SANITIZER")
    return log


def parse(text: str) -> Log:
    found: dict[tuple[str, str, str, str], Finding] = {}
    troubles: list[str] = []
    counts = [int(match["count"].replace(",", "")) for match in _SUMMARY.finditer(text) if match["name"] != "LEAK"]
    for record in _records(text):
        finding = _finding(record)
        if finding is not None:
            key = (finding.kind, finding.kernel, finding.place, finding.severity)
            before = found.get(key)
            found[key] = msgspec.structs.replace(before, count=before.count + finding.count) if before else finding
        elif _TROUBLE.match(record[0]) and not _SUMMARY.match(record[0]):
            troubles.append(record[0])
    return Log(tuple(found.values()), sum(counts) if counts else None, tuple(dict.fromkeys(troubles)))


def _records(text: str) -> Iterator[list[str]]:
    """Each record as its first line and its details."""
    record: list[str] = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None or not line.startswith("====="):
            continue
        words = match["text"].strip()
        if record and words and (len(match["space"]) > 1 or _DETAIL.match(words)):
            record.append(words)
            continue
        if record:
            yield record
        record = [words] if words else []
    if record:
        yield record


def _finding(record: list[str]) -> Finding | None:
    head = _FOUND.match(record[0])
    if head is None:
        return None
    level = {"w": "warning", "i": "info"}.get((head["level"] or "error")[0].lower(), "error")
    if "Race reported" in record[0]:
        return _race(record, level)
    kind = record[0][head.start("kind") :].rstrip(".")
    function, place = _where(next((line[3:] for line in record[1:] if line.startswith("at ")), ""))
    frames = [_where(match[1]) for line in record[1:] if (match := _FRAME.match(line))]
    details = [line for line in record[1:] if line.startswith(("by thread", "Address", "Access to", "and is"))]
    return Finding(kind, frames[-1][0] if frames else function, place, 1, level, ", ".join(details)[:300])


def _race(record: list[str], level: str) -> Finding:
    """A race: both kinds of access, and their places."""
    whole = " ".join(record)
    accesses = [match.groups() for match in _ACCESS.finditer(whole)]
    wheres = [_where(text) for _, text in accesses]
    hazards = [int(match[1].replace(",", "")) for match in _HAZARDS.finditer(whole)]
    kinds = " and ".join(dict.fromkeys(str(kind).lower() for kind, _ in accesses))
    first = wheres[0] if wheres else ("", "")
    others = ", ".join(dict.fromkeys(place for _, place in wheres[1:] if place))
    return Finding(
        f"Race between {kinds}" if kinds else "Race",
        first[0],
        first[1],
        max(1, sum(hazards)),
        level,
        f"against {others}" if others else "",
    )


def _where(text: str) -> tuple[str, str]:
    """(function, file:line) of a place in a record."""
    for pattern in _PLACES:
        match = pattern.fullmatch(text.strip())
        if match is not None:
            return match["function"].strip(), (match["place"] or "").rpartition("/")[2]
    return text.strip(), ""
