"""compute-sanitizer: the exact command line, and its messages that it cannot work.

One tool and one candidate per run: an error in device code destroys the context, so nothing after it could be checked,
and alone the error is certainly the candidate's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_OWN = {
    # The driver's own probing of entry points shows as failed calls; what fails in torch is told by torch.
    "memcheck": ("--report-api-errors", "no"),
    "racecheck": ("--racecheck-report", "analysis"),
}


def prefix(path: str, tool: str, log: Path) -> list[str]:
    """Command line before the program. The program's own output stays out of the log."""
    argv = [path, "--tool", tool, "--target-processes", "application-only", "--print-limit", "1000"]
    argv += ["--show-backtrace", "device", "--launch-timeout", "120", "--log-file", str(log)]
    return [*argv, *_OWN.get(tool, ())]


def environment(temporary: Path) -> Mapping[str, str]:
    """Disable torch's caching allocator, so that every tensor is a separate allocation."""
    return {"LC_ALL": "C", "TMPDIR": str(temporary), "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


_UNSUPPORTED = (
    "Device not supported",
    "Unable to find injection library",
    "driver version",
    "debugger interface",
)


def unsupported(troubles: Iterable[str]) -> bool:
    """Whether the tool reported that it cannot work on this machine."""
    return any(words in trouble for trouble in troubles for words in _UNSUPPORTED)
