"""One kernel by every clock of the field, and why each differs from CUPTI: `python -m profkit.torch_tools.timers TARGETS PART OUT`.

A difference is taken apart by switching one cause at a time in a loop that does as the clock does: hold the queue full
(launch), look at the same launches by CUPTI (events), then at those of a loop that empties the cache otherwise or not at all
(flush, l2). Where the kernels themselves ran faster or slower in the clock's own loop, that is `pace`; where they do so because
CUPTI records, by event pairs with and without, `trace`. tail: a mean less the median. What a loop of the same switches does not
read is `rest`.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import torch

from profkit.errors import ProfkitError
from profkit.guest import facts
from profkit.guest.build import loading
from profkit.guest.clocks import cupti
from profkit.guest.clocks.clocks import CpuClock, CudaClock
from profkit.guest.tensors import inputs
from profkit.launch.cache import builds
from profkit.rundir.files import write_atomic
from profkit.targets.sample import resolve
from profkit.torch_tools import bench
from profkit.torch_tools.loops import Call, ClockError, Judged, Loop, Stand, held

CAUSES = ("launch", "flush", "l2", "pace", "events", "trace", "tail", "rest")
Take = Callable[[Stand], tuple[list[float], Loop]]


@dataclass(frozen=True)
class Clock:
    """`take` gives its samples [s] and the loop that does as it does."""

    name: str
    cache: str
    take: Take
    average: Callable[[list[float]], float] = statistics.median


def _events(flush: str) -> Take:
    return lambda stand: (stand.read(Loop(flush), stand.count(60)), Loop(flush))


def _batch(flush: str) -> Take:
    def take(stand: Stand) -> tuple[list[float], Loop]:
        loop = Loop(flush, inside=bool(flush), each=min(20, stand.batch) if flush else stand.batch)
        return stand.read(loop, 9), loop

    return take


def _kernelbench(stand: Stand) -> tuple[list[float], Loop]:
    """Its timing_method cuda_event: the first of 101 trials does not count."""
    torch.cuda.empty_cache()
    return stand.read(Loop("fill"), 101)[1:], Loop("fill")


def _triton(stand: Stand) -> tuple[list[float], Loop]:
    found = import_module("triton.testing").do_bench(stand.call, return_mode="all")
    return [one * 1e-3 for one in found], Loop("zero", wait=False)


def _triton_graph(stand: Stand) -> tuple[list[float], Loop]:
    found = import_module("triton.testing").do_bench_cudagraph(stand.call, return_mode="all")
    return [one * 1e-3 for one in found], Loop(each=max(1, int(20 / found[0])), graph=True)


def _torch(stand: Stand) -> tuple[list[float], Loop]:
    found = _blocked(stand.call)
    return list(found.times), Loop(each=found.number_per_run, wall=True)


def _blocked(call: Call, threads: int = 1) -> Any:
    from torch.utils.benchmark import Timer

    return Timer("call()", globals={"call": call}, num_threads=threads).blocked_autorange()


def _profkit(stand: Stand) -> tuple[list[float], Loop]:
    return [one * 1e-3 for one in bench.do_bench(stand.call, return_mode="all")], Loop("read", held=True)


def _profkit_warm(stand: Stand) -> tuple[list[float], Loop]:
    clock, less = CudaClock(stand.device, cold=False), bench.offset(stand.device)
    clock.warm_up(stand.call)
    taken = [clock.sample(stand.call) for _ in range(stand.count(200))]
    return [seconds - less for seconds, _, sound in taken if sound], Loop(held=True)


def _nvbench(tag: str) -> Take:
    def take(stand: Stand) -> tuple[list[float], Loop]:
        nvbench = import_module("cuda.bench")

        def one(state: Any) -> None:
            stream = torch.cuda.ExternalStream(state.get_stream().addressof(), device=stand.device)

            def call(launch: Any) -> None:
                with torch.cuda.stream(stream):
                    stand.call()

            # Memory of that stream is asked for before the queue is held.
            call(None)
            torch.cuda.synchronize(stand.device)
            state.exec(call, batched=tag == "batch")

        if not _REGISTERED:
            nvbench.register(lambda state: _REGISTERED[-1](state))
        _REGISTERED.append(one)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "nvbench.json"
            nvbench.run_all_benchmarks(["timers", "--quiet", "--timeout", "2", "--json", str(out)])
            state = json.loads(out.read_text("utf-8"))["benchmarks"][-1]["states"][0]
        for summary in state["summaries"] or ():
            if summary["tag"] == f"nv/{tag}/time/gpu/mean":
                loop = Loop(held=True, each=stand.batch) if tag == "batch" else Loop("memset", held=True)
                return [float(summary["data"][0]["value"])], loop
        raise ClockError(f"nvbench gave no time: {state.get('skip_reason')}")

    return take


_REGISTERED: list[Any] = []
"""What nvbench has run; it runs the last."""
CLOCKS = (
    Clock("profkit", "cold", _profkit),
    Clock("profkit", "warm", _profkit_warm),
    Clock("triton do_bench", "cold", _triton, statistics.fmean),
    Clock("triton do_bench_cudagraph", "warm", _triton_graph, statistics.fmean),
    Clock("KernelBench", "cold", _kernelbench, statistics.fmean),
    Clock("torch.utils.benchmark", "warm", _torch),
    Clock("events, per call", "cold", _events("read")),
    Clock("events, per call", "warm", _events("")),
    Clock("events, N calls", "cold", _batch("read")),
    Clock("events, N calls", "warm", _batch("")),
    Clock("cuda.bench", "cold", _nvbench("cold")),
    Clock("cuda.bench", "warm", _nvbench("batch")),
)


def rows(call: Call, device: torch.device) -> Iterator[dict[str, Any]]:
    """A row a clock, seconds; what the others are compared with first. A clock that fails has an `error`."""
    if device.type == "cpu":
        yield from _cpu_rows(call)
        return
    stand = Stand(call, device)
    judged = stand.judged
    for l2 in ("cold", "warm"):
        judged[l2] = _judged(stand, l2, _recording(device))
        row = _row("CUPTI", l2, judged[l2].span, judged["cold"].span, l2=judged[l2].span - judged["cold"].span)
        yield {**row, **asdict(judged[l2]), "launches": stand.launches, "mark": stand.mark()}
    for one in CLOCKS:
        row = {"clock": one.name, "cache": one.cache}
        try:
            samples, loop = one.take(stand)
            row = _row(one.name, one.cache, one.average(samples), judged["cold"].span)
            # A repetition of its own, between two of the clock: what it does not read is `rest`, of our own loops as well.
            own = bench.offset(device) if one.name == "profkit" else 0.0
            alike = [seconds - own for seconds in stand.read(loop, 9 if loop.each > 1 else min(200, len(samples)))]
            samples += one.take(stand)[0]
            time, median = one.average(samples), statistics.median(samples)
            parts = causes(stand, one, loop, statistics.median(alike))
            row = _row(one.name, one.cache, time, judged["cold"].span, **parts, tail=time - median)
        except Exception as error:
            row["error"] = _said(error)
        yield row


@cache
def _recording(device: torch.device) -> float:
    """Seconds that recording adds to what an event pair reads on an empty kernel."""
    cell = torch.zeros(32, device=device)
    stand, loop = Stand(lambda: cell.add_(1.0), device), Loop(held=True)
    return statistics.median(stand.seen(loop, 60).pairs) - statistics.median(stand.read(loop, 60))


def _judged(stand: Stand, l2: str, recording: float) -> Judged:
    """CUPTI's answer, and what its recording does to the call."""
    clock, loop = CudaClock(stand.device, cold=l2 == "cold"), Loop("read" if l2 == "cold" else "", held=True)
    clock.warm_up(stand.call)
    samples, activities = cupti.sample({"call": stand.call}, clock)
    found = [one for one in samples if one.kept]
    count = max(9, min(60, int(0.1 / found[0].seconds)))
    slow = statistics.median(stand.seen(loop, count).pairs) - statistics.median(stand.read(loop, count)) - recording
    span, busy = (statistics.median(getattr(one, name) for one in found) for name in ("seconds", "busy"))
    return Judged(span, busy, sum(one.end - one.start for one in activities["call"]), slow)


def causes(stand: Stand, clock: Clock, loop: Loop, alike: float) -> dict[str, float]:
    """What each cause adds to a loop's reading [s]. Raises ClockError, CuptiError, RuntimeError."""
    full, here, cold = held(loop, stand.batch), stand.judged[clock.cache], stand.judged["cold"]
    pairs = 9 if loop.each > 1 else stand.count(60)
    own = bench.offset(stand.device) if clock.name == "profkit" else 0.0
    queued = alike if loop == full else statistics.median(stand.read(full, pairs)) - own
    seen = stand.seen(full, pairs)
    span, busy, flush = map(statistics.median, (seen.span, seen.busy, seen.flush))
    pace = 0.0 if loop == full else statistics.median(stand.seen(loop, pairs).busy) - busy
    # Gaps inside a call, as far as they are others than in the reference's loop.
    gaps = (span - busy) - (here.span - here.busy)
    found = {"launch": alike - queued - pace, "events": queued - flush - span + gaps + here.slow, "trace": -here.slow}
    if loop.flush in ("", "read"):
        return {**found, "pace": pace + busy - here.busy, "flush": flush, "l2": here.span - cold.span}
    near = statistics.median(stand.seen(Loop("read", held=True), pairs).busy)
    return {**found, "pace": pace + near - cold.busy, "flush": flush + busy - near}


def _row(clock: str, cache_: str, time: float, reference: float, **parts: float) -> dict[str, Any]:
    """`rest` is what the parts leave; without parts all of them are missing."""
    told = {name: parts.get(name, 0.0) for name in CAUSES} | {"rest": time - reference - sum(parts.values())}
    row = {"clock": clock, "cache": cache_, "time": time, "gap": time - reference, "error": ""}
    return {**row, **told} if parts else row


def _said(error: Exception) -> str:
    """What an error says in one line, and where it arose."""
    traceback.print_exception(error)
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed"
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]} ({Path(at.filename).name}, line {at.lineno})"


def _cpu_rows(call: Call) -> Iterator[dict[str, Any]]:
    """The two clocks that there are on a CPU, and torch's with as many threads as the call has by itself."""
    medians: dict[str, float] = {}
    for cold in (True, False):
        clock = CpuClock(cold=cold)
        clock.warm_up(call)
        medians[clock.l2] = statistics.median(clock.sample(call)[0] for _ in range(40))
        yield _row("profkit", clock.l2, medians[clock.l2], medians["cold"], l2=medians[clock.l2] - medians["cold"])
    l2, threads = medians["warm"] - medians["cold"], torch.get_num_threads()
    for name, some in {"": 1, f", {threads} threads": threads}.items():
        yield _row(f"torch.utils.benchmark{name}", "warm", _blocked(call, some).median, medians["cold"], l2=l2)


def loaded(target: str, part: str, device: torch.device) -> Call:
    """The call that FILE.py:FUNCTION or a part of a sample stands for, built, with inputs on the device.

    part: reference or a candidate; "" is the first candidate that runs here, else the reference. Raises what its code raises.
    """
    file, _, entry = target.rpartition(":")
    reference = path = Path(file)
    if not file.endswith(".py"):
        sample = resolve(Path(target))
        parts = {one.name: one for one in (*sample.candidates, *sample.parts[:1])}
        chosen = part or next(one.name for one in parts.values() if one.runs_on(device.type))
        if chosen not in parts:
            raise ProfkitError(f"{target}: no part {part!r}, it is one of {', '.join(parts)}")
        reference, path = sample.reference, parts[chosen].path
        entry = "Model" if chosen == "reference" else "ModelNew"
    if device.type == "cuda":
        loading.one_architecture(device)
    loading.enter(path, builds())
    given = loading.import_file(reference, "inputs")
    module = given if path == reference else loading.import_file(path, path.stem)
    inputs.torch_seed(0)
    arguments = inputs.to_device(getattr(given, "get_inputs", list)(), device)
    function = getattr(module, entry)
    if isinstance(function, type):
        init: list[Any] = getattr(given, "get_init_inputs", list)()
        function = loading.instance(module, entry, init, 0, device, mode=loading.mode_of(given, ""))
    return lambda: function(*arguments)


def main(targets: str, part: str, out: str, calls: str = "0") -> int:
    """Write {"device", "versions", "kernels"} as JSON after every clock; out "": make so many calls for ncu, each a mark before."""
    torch.set_grad_enabled(False)
    device = facts.choose("auto")
    told: dict[str, Any] = {"device": facts.device_facts(device), "versions": facts.versions(), "kernels": []}
    for target in json.loads(targets):
        kernel: dict[str, Any] = {"name": f"{target.rpartition(':')[2]} {part}".strip(), "rows": [], "error": ""}
        told["kernels"].append(kernel)
        try:
            if not out:
                _window(lambda: torch.cuda._sleep(1), int(calls))
                call = loaded(target, part, device)
                _window(call, int(calls), warm=3)
                continue
            for row in rows(loaded(target, part, device), device):
                kernel["rows"].append(row)
                write_atomic(Path(out), msgspec.json.encode(told))
        except Exception as error:
            kernel["error"] = _said(error)
        if out:
            write_atomic(Path(out), msgspec.json.encode(told))
    loading.release_all()
    return 0


def _window(call: Call, calls: int = 1, warm: int = 0) -> None:
    """Calls that ncu sees."""
    for _ in range(warm):
        call()
    torch.cuda.synchronize()
    with torch.cuda.profiler.profile():
        for _ in range(calls):
            call()
        torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
