"""Messages of Nsight Compute, and their fixes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple


class Message(NamedTuple):
    """A message of ncu. kind: of FAILURES, or "error"/"warning" for an unknown line.

    level: "error" if no numbers can be expected, "warning" if they can, "note" for routine messages.
    """

    kind: str
    message: str
    fix: str
    level: str


_REPLAY = (
    "ncu saves what a kernel may write before each of its passes: give ncu `--replay-mode application`, "
    "ask for fewer metrics, or make the input smaller"
)
FAILURES = (
    (
        "permission",
        "error",
        r"ERR_NVGPUCTRPERM.*",
        "run as root or with CAP_SYS_ADMIN, or load the driver with NVreg_RestrictProfilingToAdminUsers=0 "
        "on the host; without counters, time alone still works",
    ),
    (
        "busy",
        "error",
        r"Profiling failed because a driver resource was unavailable.*",
        "another tool holds the counters: `dcgmi profile --pause`, or stop it",
    ),
    (
        "sandbox",
        "error",
        r"Failed to initialize the profiler: LibraryNotLoaded.*",
        "the container hides the driver (gVisor); use one that shares the host's kernel",
    ),
    (
        "lock",
        "error",
        r"Failed to (?:open|create|open/create) lock file.*",
        "set TMPDIR to a private directory; another user's nsight-compute-lock is in the way",
    ),
    (
        "launch",
        "error",
        r"^.*\bLaunchFailed\b.*",
        f"run the program without ncu first, and under compute-sanitizer; if it is sound, {_REPLAY}",
    ),
    (
        "memory",
        "error",
        r"^(?:Out of (?:\w+ )?memory|OutOfMemory|(?:Insufficient|Not enough) (?:\w+ )?memory"
        r"|Failed to (?:allocate|back ?up|save|restore)\b.*\bmemory).*",
        _REPLAY,
    ),
    ("backup", "warning", r"Backing up device memory in .*", f"if it ends there, {_REPLAY}"),
    (
        "no kernels",
        "error",
        r"No kernels were profiled.*",
        "let the filters match (-k, --nvtx-include, --launch-skip); kernels of child processes need "
        "--target-processes all, and --nvtx-include sees push/pop ranges of the launching thread only",
    ),
    (
        "target",
        "warning",
        r"The application returned an error code \(-?\d+\).*",
        "the profiled program itself failed: run it without ncu first",
    ),
    (
        "metrics",
        "warning",
        r"Unable to access the following \d+ metrics?:.*",
        "these metrics are not on this chip or in this ncu: leave them out",
    ),
    ("metric", "error", r"Failed to find metric.*", "leave this metric out, or give it a suffix such as .sum"),
    (
        "clock",
        "note",
        r"Note: Running with unmodified GPU clocks.*",
        "compare only runs at the same clock; each launch carries its own sm_clock",
    ),
)
"""Known messages: kind, level, pattern after ncu's tag, fix; the most urgent first."""

_TAGGED = re.compile(r"==(ERROR|WARNING)==\s*(.*)")
_PROFILING = re.compile(r'==PROF== Profiling "(?P<kernel>.*)" - (?P<number>\d+)')


def diagnose(text: str) -> list[Message]:
    """ncu's messages in `text`, each once."""
    found = dict.fromkeys(filter(None, map(_message, text.splitlines())))
    listed = re.search(r"Available Kernels:[^\n]*\n((?:\s*\d+\.\s+\S.*\n?)+)", text)
    kernels = re.findall(r"\d+\.\s+(\S.*?)\s*$", listed[1], re.M) if listed else []
    seen = f" Kernels it saw: {', '.join(kernels[:8])}." if kernels else ""
    return [one._replace(message=one.message + seen) if one.kind == "no kernels" else one for one in found]


def reason(messages: Sequence[Message]) -> Message | None:
    """The message that best explains missing numbers."""
    order = [kind for kind, *_ in FAILURES]

    def rank(one: Message) -> tuple[bool, int]:
        return one.level != "error", order.index(one.kind) if one.kind in order else len(order)

    return min((one for one in messages if one.level != "note"), key=rank, default=None)


def profiled(text: str) -> int:
    """Number of launches in ==PROF== Profiling lines; 0 if ncu did not print any."""
    return len({match["number"] for match in _PROFILING.finditer(text)})


def _message(line: str) -> Message | None:
    tagged = _TAGGED.search(line)
    if not tagged:
        return None  # Programs run out of memory, fail to launch and lack permission in words like ncu's.
    text = tagged[2].strip()
    for kind, level, pattern, fix in FAILURES:
        if match := re.search(pattern, text):
            return Message(kind, match[0].strip(), fix, level)
    return Message(tagged[1].lower(), text, "", tagged[1].lower())
