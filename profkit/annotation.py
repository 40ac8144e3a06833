"""Named ranges in any program, with the work they are meant to do.

    with profkit.annotate("attention", flops=4 * b * h * s * s * d, bytes=...):
        ...
    @profkit.annotate("mlp")
    def mlp(x): ...

A range is pushed in the NVTX domain `profkit` when a tool listens, so a bare ncu or nsys shows it too. When
profkit runs the program, PROFKIT_ANNOTATIONS names a file of JSON lines that receives the declared work. When
neither is there a range costs a flag test and nothing is written; the first range of a process asks, once.

The file, line by line, each written at once so that a crash loses nothing:
    {"id": "<pid>.<n>", "range": "block/attention", "flops": {"fp32": 1e9}, "bytes": 1e6}   first time
    "<pid>.<n>"                                                                              every completed range

Autograd runs a CUDA backward in a thread of its own, where this thread's ranges are unknown to the tools. While
a range is open and somebody listens, backward therefore runs in the calling thread; PROFKIT_AUTOGRAD=threads
leaves it alone.

Inside a function that torch.compile traces a range is passed over, so that profiling changes no graph: what the
compiled function launches belongs to the range round its call.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

DOMAIN = "profkit"
VARIABLE = "PROFKIT_ANNOTATIONS"
Flops = Mapping[str, float] | float | None
F = TypeVar("F", bound=Callable[..., Any])


class Annotation:
    """A range: a context manager, and a decorator. May be entered many times, by many threads.

    name: without "/", which separates nested ranges. flops: FLOP of one passage, a number (of the pipe the
    range's kernels use most) or by pipe ({"tensor_bf16": 1e12}); bytes: those it must move to and from DRAM
    [B]. Raises ValueError on a name or a number that cannot be.
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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


class Listener:
    """Hands ranges to whoever listens: NVTX, the file of declared work, a mirror (torch's profiler)."""

    def __init__(
        self,
        domain: Any = None,
        file: str = "",
        mirror: Callable[[str], AbstractContextManager[Any]] | None = None,
    ) -> None:
        self._domain = domain
        self._file = file
        self._mirror = mirror
        self._open = threading.local()
        self._attributes: dict[str, Any] = {}
        self._known: dict[tuple[int, str, str], str] = {}
        self._numbers = itertools.count()

    def push(self, one: Annotation) -> None:
        stack = self._stack()
        _check(one)
        path = f"{stack[-1][0]}/{one.name}" if stack else one.name
        mirrored = self._mirror(one.name) if self._mirror is not None else None
        stack.append((path, mirrored, _backward_here()))
        if mirrored is not None:
            mirrored.__enter__()
        if self._domain is not None:
            attributes = self._attributes.get(one.name)
            if attributes is None:
                attributes = self._domain.get_event_attributes(message=one.name)
                self._attributes[one.name] = attributes
            self._domain.push_range(attributes)

    def pop(self, one: Annotation, *, completed: bool) -> None:
        stack = self._stack()
        if not stack:
            # Entered before anybody listened.
            return
        path, mirrored, threaded = stack.pop()
        if self._domain is not None:
            self._domain.pop_range()
        if mirrored is not None:
            mirrored.__exit__(None, None, None)
        if threaded is not None:
            threaded()
        if self._file and completed:
            self._record(path, one)

    def _stack(self) -> list[tuple[str, Any, Callable[[], None] | None]]:
        found = getattr(self._open, "stack", None)
        if found is None:
            found = self._open.stack = []
        return cast("list[tuple[str, Any, Callable[[], None] | None]]", found)

    def _record(self, path: str, one: Annotation) -> None:
        work = json.dumps(
            {
                "flops": dict(one.flops) if isinstance(one.flops, Mapping) else one.flops,
                "bytes": one.bytes,
            }
        )
        # A forked child has the parent's table but its own number.
        key = (os.getpid(), path, work)
        line = ""
        if key not in self._known:
            self._known[key] = f"{key[0]}.{next(self._numbers)}"
            line = json.dumps({"id": self._known[key], "range": path, **json.loads(work)}) + "\n"
        _append(self._file, line + json.dumps(self._known[key]) + "\n")


def _check(one: Annotation) -> None:
    if not isinstance(one.name, str) or not one.name or "/" in one.name:
        raise ValueError(f"annotate: {one.name!r} is no name: it must be a text without '/', and not empty")
    flops = one.flops.values() if isinstance(one.flops, Mapping) else (one.flops,)
    for number in (*flops, one.bytes):
        if number is not None and not 0 <= float(number) < float("inf"):
            raise ValueError(f"annotate({one.name!r}): work of {number!r}; give a finite number from 0 up")


def _append(file: str, text: str) -> None:
    """One write, which the system does not mix with those of other threads and processes."""
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError:
        return
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def _compiling() -> bool:
    """Whether torch.compile is tracing this very call."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def _backward_here() -> Callable[[], None] | None:
    """Make backward run in the calling thread; what undoes it, None where there is nothing to undo."""
    torch = sys.modules.get("torch")
    native = getattr(torch, "_C", None)
    if (
        native is None
        or not hasattr(native, "_set_multithreading_enabled")
        or not native._is_multithreading_enabled()
        or os.environ.get("PROFKIT_AUTOGRAD") == "threads"
    ):
        return None
    native._set_multithreading_enabled(False)
    return lambda: native._set_multithreading_enabled(True)


def listen(mirror: Callable[[str], AbstractContextManager[Any]] | None = None, *, file: str = "") -> Listener | None:
    """Look for listeners again, and let `mirror(name)` accompany every range; None when nobody listens.

    The first range of a process calls it; call it again when a listener comes later.
    """
    global _listener
    file = file or os.environ.get(VARIABLE, "")
    domain = _attached()
    heard = domain is not None or bool(file) or mirror is not None
    _listener = Listener(domain, file, mirror) if heard else None
    return _listener


def _attached() -> Any:
    """profkit's NVTX domain when a tool is attached to NVTX, else None. NVTX itself knows; no environment
    variable is common to all tools.
    """
    try:
        import nvtx
    except ImportError:
        return None
    domain = nvtx.get_domain(DOMAIN)
    return None if type(domain).__name__ == "DummyDomain" else domain


def read_declared(file: Path) -> dict[str, Declared]:
    """The declared work of a file of annotations by range; a last line cut short is passed over.

    Empty when there is no file.
    """
    try:
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    known: dict[str, dict[str, Any]] = {}
    found: dict[str, Declared] = {}
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and "id" in row:
            known[str(row["id"])] = row
        elif isinstance(row, str) and row in known:
            found.setdefault(str(known[row]["range"]), Declared()).add(known[row])
    return found


class Declared:
    """What one range declared over all passages: `passages`, `flops` by pipe ("" where none was named) and
    `bytes`; None where a passage did not say.
    """

    def __init__(self) -> None:
        self.passages = 0
        self.flops: dict[str, float] | None = {}
        self.bytes: float | None = 0.0

    def add(self, row: Mapping[str, Any]) -> None:
        self.passages += 1
        flops = row.get("flops")
        if flops is None:
            self.flops = None
        elif self.flops is not None:
            for pipe, count in (flops if isinstance(flops, dict) else {"": flops}).items():
                self.flops[pipe] = self.flops.get(pipe, 0.0) + float(count)
        moved = row.get("bytes")
        self.bytes = None if moved is None or self.bytes is None else self.bytes + float(moved)


class _Unasked(Listener):
    """Stands for the question whether anybody listens, until the first range asks it."""

    def push(self, one: Annotation) -> None:
        found = listen()
        if found is not None:
            found.push(one)


_listener: Listener | None = _Unasked()

annotate = Annotation
