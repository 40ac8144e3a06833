"""Run a Python program under torch's profiler; write a Chrome trace of GPU and host.

python -m profkit.torch_tools.trace OUT.json [--range NAME [--after N] [--steps N] [--each] --] SCRIPT ARGS...
(or -m MODULE ARGS..., -c CODE ARGS...)

With - for OUT nothing is written, and cudaProfilerStart and Stop give the window to an outside tool. A rank of
torch.distributed writes OUT.rank0.json, ...

All of the program is recorded, or passages of a range: of profkit.annotate, record_function (Optimizer.step#... too)
or torch.cuda.nvtx. Every process has its own window, its children none.
"""

from __future__ import annotations

import argparse
import functools
import os
import runpy
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from collectors import MARK
from profkit import annotation

_MOST_NAMES = 5


def main(arguments: Sequence[str]) -> int:
    out, *words = arguments
    wanted, target = parsed(words)
    try:
        import torch
    except ModuleNotFoundError:
        # The program's Python, which needs none of profkit's packages, may lack this one too.
        return run(target)
    annotation.listen(_mirror)
    if out == "-":
        window = Window(wanted, _announced("start"), _announced("stop"))
        code = run(target)
        window.finish()
        return code
    cuda = torch.cuda.is_available()
    begun: list[Any] = []

    def begin() -> None:
        # torch.profiler.profile wraps this, but imports torch's compiler and Triton, which takes seconds.
        used = "cuda" if cuda else None
        begun.append(torch.autograd.profiler.profile(use_device=used, use_kineto=True, record_shapes=cuda))
        begun[-1].__enter__()

    window = Window(wanted, _settled(begin), _settled(lambda: begun[-1].__exit__(None, None, None)))
    code = run(target)
    window.finish()
    if begun:
        file = Path(out).with_suffix(f".rank{rank()}.json" if rank() else ".json")
        # A rank may be killed at any moment, and leaves no half of a trace.
        begun[-1].export_chrome_trace(f"{file}.part")
        os.replace(f"{file}.part", file)
    return code


def _settled(act: Callable[[], object]) -> Callable[[], None]:
    """Synchronize before `act`, so that queued GPU work belongs to the time before."""

    def settled() -> None:
        import torch

        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        act()

    return settled


def _announced(what: str) -> Callable[[], None]:
    """Start or stop an outside profiler; no-op without a GPU."""

    def announce() -> None:
        import torch

        if torch.cuda.is_available():
            getattr(torch.cuda.profiler, what)()

    return _settled(announce)


def rank() -> str:
    """Rank in torch.distributed; "" outside."""
    return os.environ.get("RANK", "") if "WORLD_SIZE" in os.environ else ""


def _mirror(name: str) -> AbstractContextManager[Any]:
    from torch.profiler import record_function

    found: AbstractContextManager[Any] = record_function(MARK + name)
    return found


def run(target: Sequence[str]) -> int:
    """Run a script, a module or code as __main__; return Python's exit code."""
    try:
        if target[0] == "-m":
            sys.argv = list(target[1:])
            sys.path[0] = os.getcwd()
            runpy.run_module(target[1], run_name="__main__", alter_sys=True)
        elif target[0] == "-c":
            sys.argv = ["-c", *target[2:]]
            sys.path[0] = ""
            exec(compile(target[1], "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
        else:
            sys.argv = list(target)
            sys.path[0] = str(Path(target[0]).resolve().parent)
            runpy.run_path(target[0], run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException as error:
        trail = error.__traceback__
        while trail is not None and trail.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
            trail = trail.tb_next
        sys.excepthook(type(error), error.with_traceback(trail), trail)
        return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def parsed(words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """(requested window, program's own arguments); by default all of the program."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--range", default="")
    parser.add_argument("--after", type=int, default=0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--each", action="store_true")
    at = words.index("--") if words[:1] and words[0].startswith("--") else -1
    return parser.parse_args(words[: max(at, 0)]), list(words[at + 1 :])


class Window:
    """Calls `begin` and `end` on the thread of the range; `each`: for every passage, else once."""

    def __init__(self, wanted: argparse.Namespace, begin: Callable[[], object], end: Callable[[], object]) -> None:
        self._range, self._skip, self._steps, self._each = wanted.range, wanted.after, wanted.steps, wanted.each
        self._begin, self._end = begin, end
        self._process, self._open = os.getpid(), False
        self._passed: Counter[str] = Counter()
        self._nvtx = threading.local()
        if self._range:
            self._listen()
        else:
            self._start()

    def finish(self) -> None:
        """Report requested passages that did not come, on stderr."""
        self._stop()
        if not self._range:
            return
        seen, wanted = self._passed[self._range], self._steps or self._passed[self._range] - self._skip
        taken = max(0, min(seen - self._skip, wanted))
        said = f"range {self._range!r}: {taken} passages recorded"
        if taken < max(1, self._steps):
            others = ", ".join(f"{name} ({count})" for name, count in self._passed.most_common(_MOST_NAMES))
            said += f"; ranges that were entered: {others or 'none'}"
        sys.stderr.write(f"\n{MARK} {said}\n")

    def enter(self, name: str) -> None:
        name = name.removeprefix(MARK)
        if os.getpid() != self._process:
            return
        self._passed[name] += 1
        number = self._passed[name] - self._skip
        if name == self._range and number >= 1 and (not self._steps or number <= self._steps):
            self._start()

    def leave(self, name: str) -> None:
        mine = name.removeprefix(MARK) == self._range and os.getpid() == self._process
        if mine and (self._each or (self._steps and self._passed[self._range] >= self._skip + self._steps)):
            self._stop()

    def _start(self) -> None:
        if not self._open:
            self._open = True
            self._begin()

    def _stop(self) -> None:
        if self._open:
            self._open = False
            self._end()

    def _listen(self) -> None:
        """Intercept every range."""
        from torch.autograd.profiler import record_function
        from torch.cuda import nvtx

        _around(record_function, "__enter__", before=lambda one: self.enter(one.name))
        _around(record_function, "__exit__", after=lambda one, *_: self.leave(one.name))
        _around(nvtx, "range_push", before=self._pushed)
        _around(nvtx, "range_pop", after=self._popped)

    def _pushed(self, msg: str) -> None:
        self.enter(msg)
        self._nvtx.__dict__.setdefault("open", []).append(msg)

    def _popped(self) -> None:
        if self._nvtx.__dict__.get("open"):
            self.leave(self._nvtx.open.pop())


def _around(owner: Any, name: str, before: Any = lambda *_: None, after: Any = lambda *_: None) -> None:
    """Wrap a function of `owner` so that `before` and `after` get its arguments."""
    own = getattr(owner, name)

    @functools.wraps(own)
    def called(*given: Any, **more: Any) -> Any:
        before(*given, **more)
        found = own(*given, **more)
        after(*given, **more)
        return found

    setattr(owner, name, called)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
