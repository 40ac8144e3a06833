"""Profiler exports -> one pandas frame, one row a launch (see collectors.frame).

`read(path)` finds the format by content. A format is one module or package with a FORMAT, and its name in READERS.
"""

from __future__ import annotations

import codecs
import mmap
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from collectors.caveat import Caveat
from collectors.errors import CollectError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["READERS", "CollectError", "Format", "Role", "format_of", "formats", "read", "sniffed"]

READERS = ("ncu", "nsys", "nvprof", "trtexec", "cupti", "kineto", "key_averages", "rocprof")
"""The formats in the order in which a file is held against them; also what stands in a frame's column `tool`."""
_HEAD = 1 << 18
_OTHERS = (
    (
        "a pointer of git LFS, not the file it stands for",
        "",
        r"\Aversion https://git-lfs\.github\.com/spec/",
        "git lfs pull",
    ),
    (
        "a summary of ncu, which averages over launches",
        "",
        r'(?m)^"Process ID","Process Name","Host Name","Kernel Name"|^"Domain","Range:PL_Type|, Invocations \d+\s*$',
        "export launch by launch, without --print-summary: `ncu --import REPORT --page raw --csv`",
    ),
    (
        "metadata of the engine explorer",
        "",
        r'\A\s*\{\s*"(?:performance_summary|model_options|device_information)"\s*:',
        "give trtexec's --exportProfile, with --exportLayerInfo and --exportTimes beside it",
    ),
    (
        "a session of the Visual Profiler",
        ".nvvp",
        "",
        "import it with `nvprof -i FILE --csv --log-file out.csv` and give out.csv",
    ),
    (
        "a table of rocprof-compute",
        "",
        r"^(?:Dispatch_ID,)?[^\n]*\bKernel_Name\b[^\n]*\bTCC_HIT\[0\]|^(?:,)?Metric_ID,Metric,Avg|^,?Metric,Avg,Min,Max,Unit",
        "give the counter_collection.csv of `rocprofv3 --pmc ... --output-format csv`",
    ),
    ("a snapshot of memory, or another pickle of Python's", ".pickle", "", "give a trace of torch.profiler"),
)
"""Files of other tools by the end of their name or what stands in them: what they are, and what to export instead."""
_PACKED = re.compile(r"\A(?:SQLite format 3|PK\x03\x04|.{0,3}\ufffd)")
"""The beginning of a file that is no text."""

_LOG = "what trtexec printed"
_BEGINS = {
    "ncu's CSV": r'ID"?,"?Process ID',
    "ncu's text page": r"(?:Section: [^\n]+\n[ \t]*-{3,} +-{3,}|Metric Name +Metric Unit +Metric Value)",
    "nsys' tables": r'(?:Time ?\(%\)"?[, ]+"?(?:Total|Instances|Num)|API Start[ (,]|NVTX Range"?[, ]+"?Style'
    r'|Start[^,\n]{0,9}[, ]+"?(?:Duration|End)[^,\nG]{0,9}[, ]+"?[A-FH-Z]|Total[^,\n]{0,9}[, ]"?(?:Count|Operations)'
    r'|Name"?[, ]+"?Projected|Range"?[, ]+"?Style|PID"?[, ]+"?TID)',
    "nvprof's summary": r'(?:Type"?[, ]+"?)?Time\(%\)"?[, ]+"?Time"?[, ]+"?Calls',
    "nvprof's trace": r'Start"?[, ]+"?Duration"?[, ]+"?Grid [XS]',
    "nvprof's metrics": r'(?:Invocations +(?:Metric|Event) Name|Device"?,"?Kernel"?,"?Invocations)',
    _LOG: r"(?:\[[^]\n]*\] ?)*(?:=== Profile \(\d+ iter|=== Performance summary ===|&&&& \w+ TensorRT\.trtexec)",
    "trtexec's JSON": r'(?:\[\s*\{\s*"(?:count|name|latencyMs|start\w+Ms)"\s*:'
    r'|\{\s*"(?:Layers|Bindings)"\s*:)',
    "torch.profiler's trace": r'\{\s*"(?:schemaVersion|traceEvents|deviceProperties|trace_id)"\s*:',
    "torch.profiler's table": r"Name {2,}[^\n]*Self CPU",
    "rocprof's CSV": r'(?:Index"?,"?KernelName|Correlation_Id"?,"?Dispatch_Id|Kind"?,"?Agent_Id|Name"?,"?Calls"?,"?Total)',
    "profkit's own table": r"(?:range|impl),kernel,launch,start,time,",
    "a database, a report or an archive": r"(?:SQLite format 3\0|NVR\0|\x1f\x8b\x08|PK\x03\x04)",
}
"""What a line begins with at which a table begins, by whose it is; marks of byte order, blanks and a quote aside."""
_BEGIN = re.compile(
    rb'\n(?!"?[\d,])(?:\xef\xbb\xbf)?[ \t"]*(?:'
    + "|".join(f"({one})" for one in _BEGINS.values()).encode("ascii")
    + b")"
)
_NO_TEXT = (b"SQLite format 3", b"NVR\0", b"\x1f\x8b", b"PK\x03\x04")
_NAMES = tuple(_BEGINS)

_CLOTHES = (
    ("padded with blanks", ' *([",\\n]) *', r"\1"),
    ("parted by semicolons", ";", ","),
    ("parted by tabs", "\t", ","),
    ("quoted twice", '"+', ""),
)
"""How other programs write an export again: what they did, and how to undo it for a look."""

_Reads = TypeVar("_Reads", bound="Callable[..., pd.DataFrame]")
Groups = dict[Path, dict[str, Path]]
"""Files that are read together: the one that leads, and its companions by the option of `read` that takes them."""


class Role(NamedTuple):
    """Use of a file: `name` is counters, layers, times, timeline, summary or report.

    Of several files of times those with the least `detail` tell their launches; the others become `otherwise`.
    """

    name: str
    detail: int = 9
    otherwise: str = "summary"


@dataclass(frozen=True, eq=False)
class Format:
    """One format of exports.

    sniff(head, path): whether a file is one. read(path, *, partial, progress, **companions): its launches frame, by a
    function that is `guarded`. role(frame): the use of the file. companions(heads): which files are read together.
    says: how its times were taken, by language. vendor: a column of counters.Counter.recipes. remedy: what to import
    beside times to have counters. options: of `read` for a run's files.
    """

    name: str
    sniff: Callable[[str, Path], bool]
    read: Callable[..., pd.DataFrame]
    role: Callable[[pd.DataFrame], Role]
    says: Mapping[str, str]
    companions: Callable[[Mapping[Path, str]], Groups] = lambda heads: {path: {} for path in heads}
    vendor: str = "nvidia"
    remedy: str = "import an ncu export of the same program beside them"
    options: Mapping[str, Any] = field(default_factory=dict)


def guarded(reads: _Reads) -> _Reads:
    """A reader that raises CollectError on a second tool's tables; with `partial` a caveat."""

    @wraps(reads)
    def read(path: str | os.PathLike[str], *others: Any, partial: bool = False, **options: Any) -> pd.DataFrame:
        try:
            frame = reads(path, *others, partial=partial, **options)
        except CollectError:
            # That two files run into each other says more than what a reader makes of them.
            list(_others(Path(path), partial))
            raise
        frame.attrs["caveats"] = [*frame.attrs.get("caveats", ()), *_others(Path(path), partial)]
        return frame

    return cast("_Reads", read)


def _others(path: Path, partial: bool) -> Iterator[Caveat]:
    """Caveats of a second tool's tables in a file; raises CollectError where it matters."""
    found = _beginnings(path)
    first, name = next(iter(found), ""), shlex.quote(path.name)
    for what in list(found)[1:]:
        line = found[what]
        said = f"{path}, line {line}: {what} in a file that begins with {first}: one of them is not read"
        fix = f"give each in a file of its own: `head -n {line - 1} {name}` and `tail -n +{line} {name}`"
        if not partial and _LOG not in (what, first):
            raise CollectError(said, fix=f"{fix}; --partial (partial=True in Python) reads one of them")
        yield Caveat(said, "", fix)


def _beginnings(path: Path) -> dict[str, int]:
    """The line where each kind of _BEGINS first begins in a file; none where it is no text."""
    with _existing(path).open("rb") as file:
        head = file.read(1 << 12)
        if not head or head.startswith(_NO_TEXT):
            return {}
        if encoding := wide(head):
            file.seek(0)
            return _lines(b"\n" + file.read().decode(encoding, "replace").encode("utf-8", "replace"), 0)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            begins = _BEGIN.match(b"\n" + head)
            first = {_NAMES[(begins.lastindex or 1) - 1]: 1} if begins else {}
            return first | {name: line for name, line in _lines(data, 1).items() if name not in first}


def _lines(data: bytes | mmap.mmap, before: int) -> dict[str, int]:
    places: dict[str, int] = {}
    for match in _BEGIN.finditer(data):
        places.setdefault(_NAMES[(match.lastindex or 1) - 1], match.start() + 1)
    return {name: before + data[:place].count(b"\n") for name, place in places.items()}


def formats() -> Iterator[Format]:
    """Every format, each module imported when its turn comes."""
    return map(format_of, READERS)


def format_of(name: str) -> Format:
    """The format of a name of READERS; raises CollectError on another."""
    if name not in READERS:
        raise CollectError(f"no format {name!r}", fix=f"use one of {', '.join(READERS)}")
    found: Format = import_module(f"collectors.{name}").FORMAT
    return found


def sniffed(head: str, path: Path) -> Format:
    """The format of a file that begins with `head`; raises CollectError when it is of none."""
    for what, suffix, mark, fix in _OTHERS:
        if (suffix and path.name.lower().endswith(suffix)) or (mark and re.search(mark, head)):
            raise CollectError(f"{path}: {what}, which is not read", fix=fix)
    for one in formats():
        if one.sniff(head, path):
            return one
    if _PACKED.search(head):
        raise CollectError(
            f"{path}: no text: compressed, an archive, or a database of another tool",
            fix="unpack it, or give the CSV, the text or the trace that the tool wrote",
        )
    for how, pattern, instead in _CLOTHES:
        told = re.sub(pattern, instead, head.replace("\xa0", " "))
        if told.strip() and any(one.sniff(told, path) for one in formats()):
            raise CollectError(
                f"{path}: an export whose cells are {how}: something saved it again, and may have changed numbers",
                fix="give the file as the tool wrote it, or with commas and decimal points",
            )
    raise CollectError(
        f"{path}: neither an Nsight Compute nor an Nsight Systems, nvprof, trtexec, rocprof or torch.profiler export",
        fix="give what `ncu --csv --page raw`, `nsys stats --format csv`, `rocprofv3 --output-format csv` or torch.profiler wrote",
    )


def read(path: str | os.PathLike[str], format: str | None = None, **options: Any) -> pd.DataFrame:
    """The launches frame of an exported file.

    format: a name of READERS, or None to find it by content. options: as the format's `read` takes them.
    Raises CollectError when the file is missing, of no known format, damaged, or holds no launches.
    """
    file = Path(path)
    one = sniffed(head_of(file), file) if format is None else format_of(format)
    return one.read(_existing(file), **options)


def head_of(path: Path) -> str:
    """The first part of a file as text: bytes that are no text replaced."""
    return text_of(_existing(path), most=_HEAD)


def text_of(path: Path, *, most: int = -1, strict: bool = False) -> str:
    """A file, or its first `most` bytes, as text; raises CollectError.

    Byte order marks are followed; bytes that are no text are replaced, or refused where `strict`.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(most)
    except OSError as error:
        raise CollectError(f"{path}: cannot be opened: {error.strerror}", fix="check the path") from error
    try:
        return raw.decode(wide(raw[:4]) or "utf-8-sig", "strict" if strict else "replace")
    except UnicodeDecodeError as error:
        fix = "the file was cut or is of another tool; else save it as UTF-8"
        raise CollectError(f"{path}: not {error.encoding} text: {error.reason}", fix=fix) from error


def wide(head: bytes) -> str:
    """The encoding of text of two bytes a letter by its first bytes; "" of any other."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if len(head) > 3 and head[1:4:2] == b"\0\0" and head[0]:
        return "utf-16-le"
    return "utf-16-be" if len(head) > 3 and head[:3:2] == b"\0\0" and head[1] else ""


def _existing(path: Path) -> Path:
    if path.is_dir():
        raise CollectError(f"{path} is a directory", fix="name one file")
    if not path.exists():
        raise CollectError(f"{path} is a link that leads nowhere" if path.is_symlink() else f"{path} does not exist")
    return path
