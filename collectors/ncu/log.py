"""What Nsight Compute says beside its numbers, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Failure:
    """A known message: `pattern` finds it, `fix` answers it. fatal: no numbers come with it."""

    kind: str
    pattern: str
    fix: str
    fatal: bool = True


@dataclass(frozen=True)
class Message:
    """A message of ncu. kind: a name of FAILURES, or "error"/"warning" for an unknown line.

    level: "error" where no numbers can be expected, "warning" where they can, "note" for what ncu always says.
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
    Failure(
        "permission",
        r"ERR_NVGPUCTRPERM.*",
        "run as root or with CAP_SYS_ADMIN, or load the driver with NVreg_RestrictProfilingToAdminUsers=0 "
        "on the host; without counters, time alone still works",
    ),
    Failure(
        "busy",
        r"Profiling failed because a driver resource was unavailable.*",
        "another tool holds the counters: `dcgmi profile --pause`, or stop it",
    ),
    Failure(
        "sandbox",
        r"Failed to initialize the profiler: LibraryNotLoaded.*",
        "the container hides the driver (gVisor); use one that shares the host's kernel",
    ),
    Failure(
        "stub",
        r"failed to connect to the CUDA driver.*",
        "take the stub libcuda.so out of LD_LIBRARY_PATH; the driver's own library must come first",
    ),
    Failure("mig", r"Cannot lock GPU clock frequencies on MIG.*", "pass --clock-control none"),
    Failure(
        "injection",
        r"Another tool/injection might be loaded.*",
        "unset CUDA_INJECTION64_PATH; no nsys, torch profiler or CUPTI beside ncu",
    ),
    Failure(
        "lock",
        r"Failed to (?:open|create|open/create) lock file.*",
        "set TMPDIR to a private directory; another user's nsight-compute-lock is in the way",
    ),
    Failure(
        "section",
        r"Option '--section .*' did not match any section.*|No metrics to collect found in sections.*",
        "name a section of `ncu --list-sections`, or metrics with --metrics",
    ),
    Failure("set", r"^.*[Ss]et '?[\w-]+'? (?:was )?not found.*", "name a set of `ncu --list-sets`", fatal=False),
    Failure("nvtx", r"--nvtx-include requires --nvtx.*", "add --nvtx"),
    Failure("mode", r"Invalid option --.* specified for --mode import.*", "leave that option out when importing"),
    Failure(
        "launch",
        r"^.*\bLaunchFailed\b.*",
        f"run the program without ncu first, and under compute-sanitizer; if it is sound, {_REPLAY}",
    ),
    Failure(
        "memory",
        r"^(?:Out of (?:\w+ )?memory|OutOfMemory|(?:Insufficient|Not enough) (?:\w+ )?memory"
        r"|Failed to (?:allocate|back ?up|save|restore)\b.*\bmemory).*",
        _REPLAY,
    ),
    Failure("backup", r"Backing up device memory in .*", f"if it ends there, {_REPLAY}", fatal=False),
    Failure(
        "no kernels",
        r"No kernels were profiled.*",
        "let the filters match (-k, --nvtx-include, --launch-skip); kernels of child processes need "
        "--target-processes all, and --nvtx-include sees push/pop ranges of the launching thread only",
    ),
    Failure(
        "target",
        r"The application returned an error code \(-?\d+\).*",
        "the profiled program itself failed: run it without ncu first",
        fatal=False,
    ),
    Failure(
        "metrics",
        r"Unable to access the following \d+ metrics?:.*",
        "these metrics are not on this chip or in this ncu: leave them out",
        fatal=False,
    ),
    Failure("metric", r"Failed to find metric.*", "leave this metric out, or give it a suffix such as .sum"),
    Failure(
        "clock",
        r"Note: Running with unmodified GPU clocks.*",
        "compare only runs at the same clock; each launch carries its own sm_clock",
        fatal=False,
    ),
)

_TAGGED = re.compile(r"==(ERROR|WARNING)==\s*(.*)")
_AVAILABLE = re.compile(r"^\s*\d+\.\s+(\S.*)$")
_PROFILING = re.compile(r'==PROF== Profiling "(?P<kernel>.*)" - (?P<number>\d+)')


def diagnose(text: str) -> list[Message]:
    """The messages of ncu in `text`, repeated ones once."""
    found = dict.fromkeys(filter(None, map(_message, text.splitlines())))
    kernels = available_kernels(text)
    seen = f" Kernels it saw: {', '.join(kernels[:8])}." if kernels else ""
    return [replace(one, message=one.message + seen) if one.kind == "no kernels" else one for one in found]


def reason(messages: Sequence[Message]) -> Message | None:
    """The message that best explains why there are no numbers."""
    order = [failure.kind for failure in FAILURES]

    def rank(one: Message) -> tuple[int, int]:
        level = {"error": 0, "warning": 1, "note": 2}[one.level]
        return level, order.index(one.kind) if one.kind in order else len(order)

    candidates = [one for one in messages if one.level != "note"]
    return min(candidates, key=rank, default=None)


def available_kernels(text: str) -> list[str]:
    """The kernels ncu lists after it profiled none."""
    _, heading, rest = text.partition("Available Kernels:")
    names = []
    for line in rest.splitlines()[1:] if heading else []:
        match = _AVAILABLE.match(line)
        if not match:
            break
        names.append(match[1].strip())
    return names


def profiled(text: str) -> int:
    """How many launches the ==PROF== Profiling lines count; 0 where ncu did not print them."""
    return len({match["number"] for match in _PROFILING.finditer(text)})


def _message(line: str) -> Message | None:
    tagged = _TAGGED.search(line)
    text = tagged[2].strip() if tagged else line.strip()
    for failure in FAILURES:
        match = re.search(failure.pattern, text)
        if match:
            level = "note" if failure.kind == "clock" else "error" if failure.fatal else "warning"
            return Message(failure.kind, match[0].strip(), failure.fix, level)
    if not tagged:
        return None
    return Message(tagged[1].lower(), text, "", tagged[1].lower())
