"""Run a Python program under torch's profiler; write GPU work and host activity.

python -m profkit.torch_tools.trace OUT.csv [--range NAME [--after N] [--steps N] [--each] --] SCRIPT ARGS...
(or -m MODULE ARGS..., -c CODE ARGS...)

OUT.csv has one row per kernel, copy or fill (collectors.cupti), with the open range at its launch: of profkit.annotate
or record_function. OUT.host.csv has CUDA calls, ranges, operators that launch or are long, and the process itself, on
the same clock. OUT.json is a Chrome trace of CPU operators; for - nothing is written, and cudaProfilerStart and Stop
give the window to an outside tool. A rank of torch.distributed writes OUT.rank0.csv, ...

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
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from collectors.cupti import CLOCK, HOST, TRACE, host_file, rank_file
from collectors.kineto import host_frame, ranges_of
from collectors.nsys.ranges import Range
from collectors.operations import told
from profkit import annotation
from profkit.guest.clocks.cupti import kind_of, recorder, said_by_user
from profkit.rundir.files import write_rows

MARK = "profkit:"
"""Prefix of annotate's ranges in torch's records."""
_MOST_NAMES = 5


def main(arguments: Sequence[str]) -> int:
    out, *words = arguments
    import torch

    annotation.listen(_mirror)
    wanted, target = parsed(words)
    if out == "-":
        window = Window(wanted, _announced("start"), _announced("stop"))
        code = run(target)
        window.finish()
        return code
    cuda = torch.cuda.is_available() and not out.endswith(".json")
    begun: list[Any] = []

    def begin() -> None:
        begun.append(recorder(cpu=True, cuda=cuda, shapes=cuda))
        begun[-1].__enter__()

    window = Window(wanted, _settled(begin), _settled(lambda: begun[-1].__exit__(None, None, None)))
    code = run(target)
    window.finish()
    if not begun:
        return code
    file = rank_file(Path(out), rank())
    if file.suffix == ".json":
        begun[-1].export_chrome_trace(str(file))
        return code
    events = begun[-1].kineto_results.events()
    names = {
        index: (torch.cuda.get_device_name(index), "{}.{}".format(*torch.cuda.get_device_capability(index)))
        for index in range(torch.cuda.device_count() if cuda else 0)
    }
    found = gathered(events, torch.autograd.DeviceType.CUDA, int(os.environ.get(CLOCK, "0")) if rank() else 0)
    if found.work and not hasattr(found.work[0], "structured_input_strides"):
        found = replace(found, arguments=inputs_of(begun[-1].kineto_results))
    # A rank may be killed at any moment: no table of launches is without the host's.
    write(host_rows(found, _began(), time.time_ns()), HOST, host_file(file))
    write(rows(found, names), TRACE, file)
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


def _began() -> int:
    """Start of this process [ns since 1970] by the system."""
    import psutil

    return round(float(psutil.Process().create_time()) * 1e9)


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


@dataclass(frozen=True)
class Gathered:
    """Kineto's events by kind.

    GPU `work` in order of start, CUDA `calls` of the host, the user's `ranges`, operators (`ops`: name, begin [ns],
    length [ns], thread), and the event of each operator by its id (`called`).
    """

    work: Sequence[Any]
    calls: Sequence[Any]
    ranges: Sequence[Range]
    clock: int = 0
    ops: Sequence[tuple[str, int, int, int]] = ()
    called: Mapping[int, Any] = field(default_factory=dict)
    arguments: Mapping[int, tuple[list[Any], list[Any]]] = field(default_factory=dict)

    @property
    def origin(self) -> int:
        """Zero time [ns]: the clock's, else the start of the first GPU work."""
        return self.clock or (self.work[0].start_ns() if self.work else 0)


def gathered(events: Any, gpu: Any, clock: int = 0) -> Gathered:
    """Sort Kineto's events, without the GPU copies of ranges."""
    work, calls, ranges, ops, called = [], [], [], [], {}
    for event in events:
        name = event.name()
        if event.device_type() == gpu:
            if not name.startswith(MARK) and kind_of(event):
                work.append(event)
            continue
        if name.startswith(MARK) or said_by_user(event):
            start = event.start_ns()
            said = name.removeprefix(MARK).replace("/", "|")
            ranges.append(Range(start, start + event.duration_ns(), said, event.start_thread_id()))
        elif name.startswith("cu") and event.correlation_id():
            calls.append(event)
        else:
            called[event.correlation_id()] = event
            ops.append((name, event.start_ns(), event.duration_ns(), event.start_thread_id()))
    # A torch that does not tell a range's echo from a kernel: nobody called for an echo, and it has a range's name.
    asked, echoes = {event.correlation_id() for event in calls}, {one.name for one in ranges}
    work = [event for event in work if event.correlation_id() in asked or event.name().replace("/", "|") not in echoes]
    return Gathered(
        sorted(work, key=lambda event: event.start_ns()),
        sorted(calls, key=lambda event: event.start_ns()),
        ranges,
        clock,
        ops,
        called,
    )


def rows(found: Gathered, names: Mapping[int, tuple[str, str]]) -> list[dict[str, Any]]:
    """GPU work, each with the range of its launch; names: device -> (name, compute capability)."""
    calls = {event.correlation_id(): (event.start_thread_id(), event.start_ns()) for event in found.calls}
    asked = np.array([calls.get(event.correlation_id(), (-1, -1)) for event in found.work], dtype=np.int64)
    thread, when = asked.reshape(-1, 2).T
    where = ranges_of(thread, when, found.ranges)
    mine = rank()
    who = f"rank {mine}" if mine else os.getpid()
    several = bool(mine) or len({event.device_index() for event in found.work}) > 1
    made, texts = [], {}
    for number, (event, path) in enumerate(zip(found.work, where, strict=True)):
        device, cc = names.get(event.device_index(), ("", ""))
        asker = event.linked_correlation_id()
        if asker in found.called and asker not in texts:
            texts[asker] = operation(found.called[asker], found.arguments)
        made.append(
            {
                "range": path,
                "kernel": event.name(),
                "launch": number,
                "start": f"{(event.start_ns() - found.origin) * 1e-9:.9f}",
                "time": f"{event.duration_ns() * 1e-9:.9f}",
                "stream": f"{event.device_index()}:{event.device_resource_id()}"
                if several
                else event.device_resource_id(),
                "process": who,
                "kind": kind_of(event),
                "device": device,
                "cc": cc,
                "op": texts.get(asker, ""),
                "call": asker if asker in texts else -1,
            }
        )
    return made


def inputs_of(results: Any) -> dict[int, tuple[list[Any], list[Any]]]:
    """Start [ns] -> (shapes, strides) of each call, which events lack before torch 2.12."""
    found: dict[int, tuple[list[Any], list[Any]]] = {}
    nodes = list(results.experimental_event_tree())
    while nodes:
        node = nodes.pop()
        nodes += node.children
        if inputs := getattr(node.extra_fields, "inputs", None):
            found[node.start_time_ns] = _each(list(inputs), "sizes"), _each(list(inputs), "strides")
    return found


def _each(item: Any, name: str) -> list[Any]:
    return [_each(one, name) for one in item] if isinstance(item, list) else list(getattr(item, name, ()))


def operation(event: Any, known: Mapping[int, tuple[list[Any], list[Any]]]) -> str:
    """`op` of an operator's event."""
    if hasattr(event, "structured_input_strides"):
        dims, steps = event.structured_input_shapes(), event.structured_input_strides()
    else:
        dims, steps = known.get(event.start_ns(), (event.shapes(), []))
    return told(event.name(), dims, event.dtypes(), steps, event.concrete_inputs())


def host_rows(found: Gathered, began: int, ended: int) -> list[dict[str, Any]]:
    """Host activity, and the process from `began` to `ended` [ns]."""
    rows: list[tuple[str, str, int, int, int, Any]] = [
        ("call", event.name(), event.start_ns(), event.duration_ns(), event.start_thread_id(), event.correlation_id())
        for event in found.calls
    ]
    if found.work:
        rows = [("call", "process", began, ended - began, 0, None), *rows]
        rows += [
            ("range", one.name, one.start, (one.end or one.start) - one.start, one.thread, None) for one in found.ranges
        ]
        rows += [("op", *one, None) for one in found.ops]
    frame = host_frame(rows, [event.correlation_id() for event in found.work], found.origin)
    found_rows = [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]
    return [row | {"start": f"{row['start']:.9f}", "time": f"{row['time']:.9f}"} for row in found_rows]


def write(found: Sequence[Mapping[str, Any]], columns: Sequence[str], path: Path) -> None:
    write_rows(path, [columns, *([row.get(name, "") for name in columns] for row in found)])


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
