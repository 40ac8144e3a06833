"""Profiler exports -> one pandas frame, one row per launch (see collectors.frame).

`read(path)` detects the format by content. A format is a module or package with a FORMAT, and its name in READERS.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from collectors.errors import CollectError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["READERS", "CollectError", "Format", "Role", "format_of", "formats", "read", "sniffed"]

READERS = ("ncu", "nsys", "nvprof", "trtexec", "cupti", "kineto", "key_averages", "rocprof")
"""Formats in the order of detection; also the values of a frame's column `tool`."""
MARK = "profkit:"
"""Prefix of profkit's own ranges in a trace of torch; here, as a program's Python may lack what readers need."""
_HEAD = 1 << 18
_OTHERS = (
    (
        "a pointer of git LFS, not the file it stands for",
        r"\Aversion https://git-lfs\.github\.com/spec/",
        "git lfs pull",
    ),
    (
        "a session of the Visual Profiler, which holds settings and no launches",
        r"\A\s*<\?xml[^>]*>\s*<session\b",
        "give the database that `nvprof -o` wrote (.nvprof, .nvvp)",
    ),
    (
        "a table of rocprof-compute",
        r"^(?:Dispatch_ID,)?[^\n]*\bKernel_Name\b[^\n]*\bTCC_HIT\[0\]|^Dispatch_ID,Kernel_Name,GPU_ID\s|(?m:^0\.1 Top Kernels)|^(?:,)?Metric_ID,Metric,Avg|^,?Metric,Avg,Min,Max,Unit",
        "give the counter_collection.csv of `rocprofv3 --pmc ... --output-format csv`",
    ),
    (
        "a Chrome trace of rocprof",
        r'"traceEvents"[\s\S]*"(?:BeginNs|DurationNs)"',
        "give the results.csv or results.stats.csv that rocprof wrote beside it",
    ),
    (
        "a profile by Triton's Proton (hatchet)",
        r'\A\s*\[\s*\{\s*"(?:children|frame)"\s*:',
        "record the program with torch.profiler's export_chrome_trace or with nsys",
    ),
    (
        "results of nvbench",
        r'\A\s*\{\s*"meta"[\s\S]{0,4000}"nvbench"|\ABenchmark,Device,Device Name,|(?m:^## \[\d+\] `[^`]+`\n\* SM Version:)',
        "give what `ncu --csv --page raw` or nsys wrote of the benchmark",
    ),
    (
        "nsys's table with frames (--format table)",
        r"(?m:^\+-[-+]*\+[ \t]*\r?\n\|[^\n]*(?:Total Time|Duration) \()",
        "export it again with `nsys stats --format csv`",
    ),
    (
        "a log with a table of torch.profiler whose lines begin with who wrote them",
        r"\S +Name +Self CPU %",
        "take what stands before each line away, or print the table into a file of its own",
    ),
)
"""Patterns of other tools' files -> what the file is, and what to export instead."""
_PACKED = re.compile(r"\A(?:SQLite format 3|PK\x03\x04|.{0,3}\ufffd)")
"""First bytes of binary files."""

Groups = dict[Path, dict[str, Path]]
"""Files that are read together: the main file, and its companions by option of `read`."""


class Role(NamedTuple):
    """Use of a file: `name` is counters, layers, times, timeline, summary or report.

    Of several files with times, launches come from the lowest `detail`; the others get the role `otherwise`.
    """

    name: str
    detail: int = 9
    otherwise: str = "summary"


@dataclass(frozen=True, eq=False)
class Format:
    """One format of exports.

    sniff(head, path): whether a file has this format. read(path, **companions): its launches frame.
    role(frame): use of the file in a run. companions(heads): files to read together. vendor: a column of
    counters.Counter.recipes. remedy: files to import with times for counters.
    options: keyword arguments of `read` for files of a run.
    """

    name: str
    sniff: Callable[[str, Path], bool]
    read: Callable[..., pd.DataFrame]
    role: Callable[[pd.DataFrame], Role]
    companions: Callable[[Mapping[Path, str]], Groups] = lambda heads: {path: {} for path in heads}
    vendor: str = "nvidia"
    remedy: str = "import an ncu export of the same program beside them"
    options: Mapping[str, Any] = field(default_factory=dict)


def formats() -> Iterator[Format]:
    """All formats; modules are imported one by one."""
    return map(format_of, READERS)


def format_of(name: str) -> Format:
    """Format of a name in READERS; raises CollectError for another name."""
    if name not in READERS:
        raise CollectError(f"no format {name!r}", fix=f"use one of {', '.join(READERS)}")
    found: Format = import_module(f"collectors.{name}").FORMAT
    return found


def sniffed(head: str, path: Path) -> Format:
    """Format of a file that begins with `head`; raises CollectError if unknown."""
    for what, mark, fix in _OTHERS:
        if re.search(mark, head):
            raise CollectError(f"{path}: {what}, which is not read", fix=fix)
    for one in formats():
        if one.sniff(head, path):
            return one
    if _PACKED.search(head):
        raise CollectError(
            f"{path}: not text: compressed, an archive, or another tool's database",
            fix="unpack it, or give the tool's CSV, text or trace",
        )
    raise CollectError(
        f"{path}: not an export of Nsight Compute, Nsight Systems, nvprof, trtexec, rocprof or torch.profiler",
        fix="give what `ncu --csv --page raw`, `nsys stats --format csv`, `rocprofv3 --output-format csv` or torch.profiler "
        "wrote, unchanged (not saved by a spreadsheet)",
    )


def read(path: str | os.PathLike[str], format: str | None = None, **options: Any) -> pd.DataFrame:
    """Launches frame of an exported file.

    format: a name of READERS, or None to detect it by content. options: of the format's `read`.
    Raises CollectError if the file is missing, of unknown format, damaged, or has no launches.
    """
    file = Path(path)
    one = sniffed(head_of(file), file) if format is None else format_of(format)
    return one.read(_existing(file), **options)


def head_of(path: Path) -> str:
    """First part of a file as text; undecodable bytes are replaced."""
    return text_of(_existing(path), most=_HEAD)


def text_of(path: Path, *, most: int = -1, strict: bool = False) -> str:
    """A file, or its first `most` bytes, as text; raises CollectError.

    Byte order marks are followed; undecodable bytes are replaced, or refused if `strict`.
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
    """Encoding of text with two bytes per letter by its first bytes; "" for other text."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if len(head) > 3 and head[1:4:2] == b"\0\0" and head[0]:
        return "utf-16-le"
    return "utf-16-be" if len(head) > 3 and head[:3:2] == b"\0\0" and head[1] else ""


def _existing(path: Path) -> Path:
    if path.is_dir():
        raise CollectError(f"{path} is a directory", fix="name one file")
    if not path.exists():
        what = "is a link that leads nowhere" if path.is_symlink() else "does not exist"
        raise CollectError(f"{path} {what}", fix="check the path")
    return path
