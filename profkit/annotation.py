"""Named ranges in any program, with declared work.

    with profkit.annotate("attention", flops=4 * b * h * s * s * d, bytes=...):
        ...
    @profkit.annotate("mlp")
    def mlp(x): ...

A range is pushed in the NVTX domain `profkit` if a tool listens, so ncu and nsys without profkit show it too. If
profkit runs the program, PROFKIT_ANNOTATIONS names a file of JSON lines for the declared work. Without both a range
costs a flag test and writes nothing; the first range of a process checks, once.

Each line of the file is written at once, so that a crash loses nothing:
    {"id": "<pid>.<n>", "range": "block/attention", "flops": {"fp32": 1e9}, "bytes": 1e6}   first time
    "<pid>.<n>"                                                                              every completed range

Autograd runs a CUDA backward in its own thread, where tools do not know this thread's ranges. While a range is open and
a tool listens, backward therefore runs in the calling thread.

Inside a function that torch.compile traces a range is skipped, so that profiling changes no graph: launches of the
compiled function belong to the range around its call.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

DOMAIN = "profkit"
VARIABLE = "PROFKIT_ANNOTATIONS"
Flops = Mapping[str, float] | float | None
Mirror = Callable[[str], AbstractContextManager[Any]]
F = TypeVar("F", bound=Callable[..., Any])


class Annotation:
    """A range: a context manager and decorator, reusable by many threads.

    name: without "/", which separates nested ranges. flops: FLOP of one passage, a number (for the pipe that the
    range's kernels use most) or by pipe ({"tensor_bf16": 1e12}); bytes: compulsory DRAM traffic [B]. Raises ValueError
    for an invalid name or number.
    """

    __slots__ = ("bytes", "flops", "name")

    def __init__(self, name: str, *, flops: Flops = None, bytes: float | None = None) -> None:
        self.name = name
        self.flops = flops
        self.bytes = bytes

    def __enter__(self) -> Annotation:
        if _listener is not None and not _compiling():
            _listener.push(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if _listener is not None and not _compiling():
            _listener.pop(self, completed=kind is None)

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def inside(*args: Any, **keywords: Any) -> Any:
            if _listener is None or _compiling():
                return function(*args, **keywords)
            with self:
                return function(*args, **keywords)

        return cast(F, inside)


class _Open(threading.local):
    """Open ranges of a thread: (path, closes the range in the tools)."""

    def __init__(self) -> None:
        self.stack: list[tuple[str, ExitStack]] = []


class Listener:
    """Forwards ranges to NVTX, the file of declared work, and a mirror (torch's profiler)."""

    def __init__(self, domain: Any, file: str, mirror: Mirror | None) -> None:
        self._domain, self._file, self._mirror = domain, file, mirror
        self._open = _Open()
        self._attributes = functools.cache(lambda name: domain.get_event_attributes(message=name))
        self._known: dict[tuple[int, str, str], str] = {}
        self._numbers = itertools.count()

    def push(self, one: Annotation) -> None:
        _check(one)
        stack, leaving = self._open.stack, ExitStack()
        stack.append((f"{stack[-1][0]}/{one.name}" if stack else one.name, leaving))
        _backward_here(leaving)
        if self._mirror is not None:
            leaving.enter_context(self._mirror(one.name))
        if self._domain is not None:
            self._domain.push_range(self._attributes(one.name))
            leaving.callback(self._domain.pop_range)

    def pop(self, one: Annotation, *, completed: bool) -> None:
        if not self._open.stack:
            # Entered before anybody listened.
            return
        path, leaving = self._open.stack.pop()
        leaving.close()
        if self._file and completed:
            self._record(path, one)

    def _record(self, path: str, one: Annotation) -> None:
        """Write once, so that lines of several threads and processes do not mix."""
        flops = dict(one.flops) if isinstance(one.flops, Mapping) else one.flops
        work = {"range": path, "flops": flops, "bytes": one.bytes}
        # A forked child has the parent's table but its own number.
        key, line = (os.getpid(), path, json.dumps(work)), ""
        if key not in self._known:
            self._known[key] = f"{key[0]}.{next(self._numbers)}"
            line = json.dumps({"id": self._known[key], **work}) + "\n"
        with contextlib.suppress(OSError), open(self._file, "ab", buffering=0) as out:
            out.write(f"{line}{json.dumps(self._known[key])}\n".encode())


def _check(one: Annotation) -> None:
    if not isinstance(one.name, str) or not one.name or "/" in one.name:
        raise ValueError(f"annotate: {one.name!r} is no name: it must be a text without '/', and not empty")
    flops = one.flops.values() if isinstance(one.flops, Mapping) else (one.flops,)
    for number in (*flops, one.bytes):
        if number is not None and not 0 <= float(number) < float("inf"):
            raise ValueError(f"annotate({one.name!r}): work of {number!r}; give a finite number from 0 up")


def _compiling() -> bool:
    """Whether torch.compile is tracing this call."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def _backward_here(leaving: ExitStack) -> None:
    """Make backward run in the calling thread until `leaving` is closed."""
    native: Any = getattr(sys.modules.get("torch"), "_C", None)
    if hasattr(native, "_set_multithreading_enabled") and native._is_multithreading_enabled():
        native._set_multithreading_enabled(False)
        leaving.callback(native._set_multithreading_enabled, True)


def listen(mirror: Mirror | None = None, *, file: str = "") -> Listener | None:
    """Check for listening tools again; `mirror(name)` accompanies every range.

    The first range of a process calls it; call it again if a tool attaches later.
    """
    global _listener
    file = file or os.environ.get(VARIABLE, "")
    domain = _attached()
    heard = domain is not None or bool(file) or mirror is not None
    _listener = Listener(domain, file, mirror) if heard else None
    return _listener


def _attached() -> Any:
    """profkit's NVTX domain if a tool is attached to NVTX, else None."""
    try:
        import nvtx
    except ImportError:
        return None
    domain = nvtx.get_domain(DOMAIN)
    return None if type(domain).__name__ == "DummyDomain" else domain


@dataclass
class Declared:
    """FLOP by pipe that a range declared over all passages; None if a passage declared none."""

    passages: int = 0
    flops: dict[str, float] | None = field(default_factory=dict)
    bytes: float | None = 0.0

    def add(self, row: Mapping[str, Any]) -> None:
        self.passages += 1
        flops, moved = row.get("flops"), row.get("bytes")
        if flops is None or self.flops is None:
            self.flops = None
        else:
            named = flops if isinstance(flops, dict) else {"": flops}
            self.flops |= {pipe: self.flops.get(pipe, 0.0) + float(count) for pipe, count in named.items()}
        self.bytes = None if moved is None or self.bytes is None else self.bytes + float(moved)


def read_declared(file: Path) -> dict[str, Declared]:
    """Declared work by range from a file of annotations; a cut last line is skipped.

    Empty if there is no file.
    """
    known: dict[str, dict[str, Any]] = {}
    found: dict[str, Declared] = {}
    for line in file.read_text("utf-8", "replace").splitlines() if file.is_file() else ():
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            if isinstance(row, dict) and "id" in row:
                known[str(row["id"])] = row
            elif isinstance(row, str) and row in known:
                found.setdefault(str(known[row]["range"]), Declared()).add(known[row])
    return found


class _Unasked(Listener):
    """Placeholder listener; the first range checks for tools."""

    def push(self, one: Annotation) -> None:
        found = listen()
        if found is not None:
            found.push(one)


_listener: Listener | None = _Unasked(None, "", None)

annotate = Annotation
