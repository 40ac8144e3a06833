"""A program by its command line; a Python program runs under torch_tools.trace."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from profkit.errors import ProfkitError
from profkit.targets.target import Part

MODULE = "profkit.torch_tools.trace"
_PYTHON = re.compile(r"(python|pypy)[0-9.]*(\.exe)?$")
_VALUED = ("-X", "-W", "--check-hash-based-pycs")
_LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")
_PLAIN = {"--standalone", "--run-path", "--use-env", "--virtual-local-rank", "-m", "--module", "--no-python"}
"""Options of torch's launcher without a value."""


@dataclass(frozen=True)
class Program:
    """A command line. Its parts are ranges, known only after a run.

    streams: descriptors that receive its output at once, while it reads this process's stdin; else output goes only to
    the log.
    """

    argv: tuple[str, ...]
    streams: tuple[int, int] | None = None
    kind = "program"
    parts: tuple[Part, ...] = ()

    @classmethod
    def of(cls, argv: Sequence[str], streams: tuple[int, int] | None = None) -> Program:
        """Parse a command line. Raises ProfkitError if there is no such program."""
        if not argv or shutil.which(argv[0]) is None:
            what, fix = "no program to run", "give a command after --: profkit profile --ncu -- python train.py"
            if argv and "/" in argv[0] and Path(argv[0]).is_file():
                what, fix = f"{argv[0]!r} is not executable", f"chmod +x {argv[0]}, or put its interpreter before it"
            elif argv:
                what = f"no program {argv[0]!r}"
            raise ProfkitError(what, fix=fix)
        return cls(tuple(argv), streams)

    @property
    def id(self) -> str:
        """A short name of the command: its script, module or program."""
        return name_of(self.argv)

    @property
    def python(self) -> bool:
        """Whether torch's profiler can trace it from inside."""
        return bootstrapped(self.argv, Path("x")) is not None

    @property
    def ranked(self) -> bool:
        """Whether torch's launcher starts it, once per rank."""
        return _launched(self.argv) is not None


def name_of(argv: Sequence[str]) -> str:
    """A short name of a command: its script, module or program."""
    begin = _launched(argv)
    started = _split(argv, begin) if begin is not None else None
    argv = [argv[0], *started[1]] if started is not None else argv
    words = [word for word in argv[1:] if not word.startswith("-")]
    module = argv[argv.index("-m") + 1] if "-m" in argv[:-1] else ""
    script = next((word for word in words if word.endswith(".py")), "")
    name = module or Path(script).stem or Path(argv[0]).name
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "program"


def bootstrapped(
    argv: Sequence[str], out: Path, window: Sequence[str] = (), *, module: str = MODULE
) -> list[str] | None:
    """Command that runs `argv` and writes its GPU activity to `out`; None without Python.

    window: arguments of profkit.torch_tools.trace. out: "-" notifies an outside tool. module: runs with `out` and the
    program. Recognized are python [options] FILE, -m MODULE and -c CODE, scripts with python in their first line, and
    torchrun, where each rank writes a file.
    """
    launched = _launched(argv)
    if launched is not None:
        found = _split(argv, launched)
        return [*argv[:launched], *found[0], "-m", module, str(out), *window, *found[1]] if found is not None else None
    if not _PYTHON.search(Path(argv[0]).name):
        interpreter = _shebang(argv[0])
        return (
            [interpreter, "-m", module, str(out), *window, shutil.which(argv[0]) or argv[0], *argv[1:]]
            if interpreter
            else None
        )
    index = 1
    while index < len(argv) and argv[index].startswith("-") and argv[index] not in ("-m", "-c", "-"):
        # -mMODULE and -cCODE are one word.
        if argv[index][:2] in ("-m", "-c"):
            break
        index += 2 if argv[index] in _VALUED else 1
    if index >= len(argv) or argv[index] == "-":
        return None
    rest = list(argv[index:])
    if rest[0][:2] in ("-m", "-c") and len(rest[0]) > 2:
        rest[:1] = [rest[0][:2], rest[0][2:]]
    return [*argv[:index], "-m", module, str(out), *window, *rest]


def _launched(argv: Sequence[str]) -> int | None:
    """Index of the first option of torch's launcher; None if something else is started."""
    if Path(argv[0]).name == "torchrun":
        return 1
    for at, word in enumerate(argv[1:-1], 1):
        if word == "-m" and argv[at + 1] in _LAUNCHERS and _PYTHON.search(Path(argv[0]).name):
            return at + 2
        if not word.startswith("-") or word == "-m":
            return None
    return None


def _split(argv: Sequence[str], begin: int) -> tuple[list[str], list[str]] | None:
    """(the launcher's own options, what every rank runs); None if that is no Python."""
    options: list[str] = []
    at, module = begin, False
    while at < len(argv) and argv[at].startswith("-"):
        name = argv[at].replace("_", "-") if argv[at].startswith("--") else argv[at]
        if name == "--no-python":
            return None
        width = 1 if name in _PLAIN or "=" in name else 2
        if name in ("-m", "--module"):
            module = True
        else:
            options += argv[at : at + width]
        at += width
    return (options, [*(["-m"] if module else []), *argv[at:]]) if at < len(argv) else None


def _shebang(program: str) -> str:
    """Python interpreter in a script's first line; "" if none."""
    found = shutil.which(program)
    if found is None:
        return ""
    try:
        with open(found, "rb") as stream:
            line = stream.readline(512).decode("utf-8", "replace")
    except OSError:
        return ""
    words = line[2:].split() if line.startswith("#!") else []
    last = words[-1] if words else ""
    return last if _PYTHON.search(Path(last).name) else ""
