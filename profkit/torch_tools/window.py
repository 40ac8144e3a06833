"""Recording window of a program: all of it, or passages of a named range.

python -m profkit.torch_tools.trace OUT [--range NAME] [--after N] [--steps N] [--each] -- SCRIPT ARGS...

A range is one of profkit.annotate, record_function (Optimizer.step#... as well) or torch.cuda.nvtx. Every process has
a window of its own, its children none.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

MARK = "profkit:"
"""Prefix of annotate's ranges in torch's records."""
_MOST_NAMES = 5


def parsed(words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """(the requested window, the program's own arguments); by default all of the program."""
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
        """Report on stderr what was requested and did not come."""
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

        around: Any = record_function
        entered, left, pushed, popped = around.__enter__, around.__exit__, nvtx.range_push, nvtx.range_pop

        @functools.wraps(entered)
        def enter(one: Any) -> Any:
            self.enter(one.name)
            return entered(one)

        @functools.wraps(left)
        def leave(one: Any, *how: Any) -> Any:
            found = left(one, *how)
            self.leave(one.name)
            return found

        @functools.wraps(pushed)
        def push(name: str) -> Any:
            self.enter(name)
            self._nvtx.__dict__.setdefault("open", []).append(name)
            return pushed(name)

        @functools.wraps(popped)
        def pop() -> Any:
            found = popped()
            if self._nvtx.__dict__.get("open"):
                self.leave(self._nvtx.open.pop())
            return found

        around.__enter__, around.__exit__ = enter, leave
        nvtx.range_push, nvtx.range_pop = push, pop
