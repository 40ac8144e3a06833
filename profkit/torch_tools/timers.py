"""Time one kernel with several timing methods, and explain differences from CUPTI.

A difference is split by changing one cause at a time in a loop that imitates the method: hold the queue full (launch),
time the same launches by CUPTI (events), then those of a loop that flushes the cache differently or not at all (flush,
l2). Slower or faster kernels in the method's own loop are `pace`; the remainder is `rest`.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import torch

from profkit.guest import facts
from profkit.guest.build import loading
from profkit.guest.clocks import cupti
from profkit.guest.clocks.clocks import CpuClock, CudaClock
from profkit.guest.tensors import inputs
from profkit.launch import cache
from profkit.rundir.files import write_atomic
from profkit.targets.sample import resolve
from profkit.torch_tools import bench
from profkit.torch_tools.loops import Call, ClockError, Loop, Stand, held

CAUSES = ("launch", "flush", "l2", "pace", "events", "rest")
Average = Callable[[list[float]], float]
Take = Callable[[Stand], tuple[float, Loop]]


@dataclass(frozen=True)
class Clock:
    """A timing method: `take` gives its reading [s] and the loop that imitates it."""

    name: str
    cache: str
    take: Take
    average: Average = statistics.median


def _events(flush: str) -> Take:
    return lambda stand: (statistics.median(stand.read(Loop(flush), stand.count(40))), Loop(flush))


def _batch(stand: Stand) -> tuple[float, Loop]:
    loop = Loop(each=stand.batch)
    return statistics.median(stand.read(loop, 5)), loop


def _kernelbench(stand: Stand) -> tuple[float, Loop]:
    """Its timing_method cuda_event: a mean of trials except the first."""
    torch.cuda.empty_cache()
    return statistics.fmean(stand.read(Loop("fill"), stand.count(101))[1:]), Loop("fill")


def _triton(stand: Stand) -> tuple[float, Loop]:
    return import_module("triton.testing").do_bench(stand.call) * 1e-3, Loop("zero", wait=False)


def _triton_graph(stand: Stand) -> tuple[float, Loop]:
    seconds = import_module("triton.testing").do_bench_cudagraph(stand.call) * 1e-3
    return seconds, Loop(each=max(1, int(0.02 / seconds)), graph=True)


def _torch(stand: Stand) -> tuple[float, Loop]:
    found = _blocked(stand.call)
    return found.median, Loop(each=found.number_per_run, wall=True)


def _blocked(call: Call, threads: int = 1) -> Any:
    from torch.utils.benchmark import Timer

    return Timer("call()", globals={"call": call}, num_threads=threads).blocked_autorange()


def _profkit(stand: Stand) -> tuple[float, Loop]:
    return bench.do_bench(stand.call, return_mode="median") * 1e-3, Loop("read", held=True)


def _profkit_warm(stand: Stand) -> tuple[float, Loop]:
    clock = CudaClock(stand.device, cold=False)
    clock.warm_up(stand.call)
    taken = [clock.sample(stand.call) for _ in range(stand.count(60))]
    median = statistics.median(seconds for seconds, _, sound in taken if sound)
    return median - bench.offset(stand.device), Loop(held=True)


def _nvbench(tag: str) -> Take:
    def take(stand: Stand) -> tuple[float, Loop]:
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
                return float(summary["data"][0]["value"]), loop
        raise ClockError(f"nvbench gave no time: {state.get('skip_reason')}")

    return take


_REGISTERED: list[Any] = []
"""Benchmarks registered with nvbench; the last one runs."""
CLOCKS = (
    Clock("profkit", "cold", _profkit),
    Clock("profkit", "warm", _profkit_warm),
    Clock("triton do_bench", "cold", _triton, statistics.fmean),
    Clock("triton do_bench_cudagraph", "warm", _triton_graph, statistics.fmean),
    Clock("KernelBench", "cold", _kernelbench, statistics.fmean),
    Clock("torch.utils.benchmark", "warm", _torch),
    Clock("events, per call", "cold", _events("read")),
    Clock("events, per call", "warm", _events("")),
    Clock("events, N calls", "warm", _batch),
    Clock("cuda.bench", "cold", _nvbench("cold"), statistics.fmean),
    Clock("cuda.bench", "warm", _nvbench("batch"), statistics.fmean),
)


def rows(call: Call, device: torch.device) -> Iterator[dict[str, Any]]:
    """One row per clock [s], CUPTI first; a failing clock has an `error`."""
    if device.type == "cpu":
        yield from _cpu_rows(call)
        return
    stand = Stand(call, device)
    judged = stand.judged
    for l2 in ("cold", "warm"):
        clock = CudaClock(device, cold=l2 == "cold")
        clock.warm_up(call)
        found = [one for one in cupti.sample({"call": call}, clock)[0] if one.kept]
        judged[l2] = statistics.median(one.seconds for one in found)
        row = _row("CUPTI", l2, judged[l2], judged["cold"], l2=judged[l2] - judged["cold"])
        yield {**row, "busy": statistics.median(one.busy for one in found)}
    for one in CLOCKS:
        row = {"clock": one.name, "cache": one.cache}
        try:
            time, loop = one.take(stand)
            row = _row(one.name, one.cache, time, judged["cold"])
            row = _row(one.name, one.cache, time, judged["cold"], **causes(stand, one, loop))
        except Exception as error:
            row["error"] = _said(error)
        yield row


def causes(stand: Stand, clock: Clock, loop: Loop) -> dict[str, float]:
    """Seconds that each cause adds to a reading. Raises ClockError, CuptiError, RuntimeError."""
    average, full = clock.average, held(loop, stand.batch)
    pairs = 5 if loop.each > 1 else stand.count(40)
    own = bench.offset(stand.device) if clock.name == "profkit" else 0.0
    alike = average(stand.read(loop, pairs)) - own
    queued = alike if loop == full else average(stand.read(full, pairs)) - own
    span, busy = map(average, stand.seen(full, pairs))
    pace = 0.0 if loop == full else average(stand.seen(loop, pairs)[1]) - busy
    found = {"launch": alike - queued - pace, "events": queued - span}
    cold, warm = stand.judged["cold"], stand.judged["warm"]
    if loop.flush:
        return {**found, "pace": pace, "flush": span - cold}
    return {**found, "pace": pace + span - warm, "l2": warm - cold}


def _row(clock: str, cache: str, time: float, reference: float, **parts: float) -> dict[str, Any]:
    """A method's row; `rest` is the remainder, NaN parts without causes."""
    told = {name: parts.get(name, 0.0) for name in CAUSES} | {"rest": time - reference - sum(parts.values())}
    row = {"clock": clock, "cache": cache, "time": time, "gap": time - reference, "error": ""}
    return {**row, **told} if parts else row


def _said(error: Exception) -> str:
    """An error in one line, and its place."""
    traceback.print_exception(error)
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]} ({Path(at.filename).name}, line {at.lineno})"


def _cpu_rows(call: Call) -> Iterator[dict[str, Any]]:
    """Methods on a CPU: profkit's and torch.utils.benchmark's, with equal threads."""
    taken: dict[bool, list[float]] = {}
    for cold in (True, False):
        clock = CpuClock(cold=cold)
        clock.warm_up(call)
        taken[cold] = [clock.sample(call)[0] for _ in range(40)]
    low, middle, high = statistics.quantiles(taken[True], n=4)
    warm, threads = statistics.median(taken[False]), torch.get_num_threads()
    # A warm cache costs no time: what is not less by more than calls differ anyway is noise.
    l2 = {"l2": warm - middle} if middle - warm > high - low else {}
    yield {**_row("profkit", "cold", middle, middle), "noise": high - low}
    yield _row("profkit", "warm", warm, middle, **l2)
    for name, some in {"": 1, f", {threads} threads": threads}.items():
        yield _row(f"torch.utils.benchmark{name}", "warm", _blocked(call, some).median, middle, **l2)


def loaded(target: str, device: torch.device) -> Call:
    """The call of FILE.py:FUNCTION or a sample's folder, built, with inputs on the device.

    Of a sample: its first candidate that runs here, else the reference. Raises its code's exceptions.
    """
    file, _, entry = target.rpartition(":")
    reference = path = Path(file)
    if not file.endswith(".py"):
        sample = resolve(Path(target))
        chosen = next(one for one in (*sample.candidates, *sample.parts[:1]) if one.runs_on(device.type))
        reference, path = sample.reference, chosen.path
        entry = "Model" if chosen.name == "reference" else "ModelNew"
    if device.type == "cuda":
        loading.one_architecture(device)
    with loading.BuildLock(path, cache.builds()):
        given = loading.import_file(reference, "inputs")
        module = given if path == reference else loading.import_file(path, path.stem)
        inputs.torch_seed(0)
        arguments = inputs.to_device(getattr(given, "get_inputs", list)(), device)
        function = getattr(module, entry)
        if isinstance(function, type):
            init: list[Any] = getattr(given, "get_init_inputs", list)()
            function = loading.instance(module, entry, init, 0, device, mode=loading.mode_of(given, ""))
    return lambda: function(*arguments)


def main(targets: str, out: str, calls: str = "0") -> int:
    """Time every target by every method; write {"device", "versions", "kernels"} after each.

    out "": time nothing; make `calls` calls of each target under ncu, a marker kernel before them.
    """
    torch.set_grad_enabled(False)
    device = facts.choose("auto")
    told: dict[str, Any] = {"device": facts.device_facts(device), "versions": facts.versions(), "kernels": []}
    for target in json.loads(targets):
        kernel: dict[str, Any] = {"name": target.rpartition(":")[2], "rows": [], "error": ""}
        told["kernels"].append(kernel)
        try:
            if not out:
                _window(lambda: torch.cuda._sleep(1))
                call = loaded(target, device)
                _window(call, int(calls), warm=3)
                continue
            for row in rows(loaded(target, device), device):
                kernel["rows"].append(row)
                write_atomic(Path(out), msgspec.json.encode(told))
        except Exception as error:
            kernel["error"] = _said(error)
        if out:
            write_atomic(Path(out), msgspec.json.encode(told))
    return 0


def _window(call: Call, calls: int = 1, warm: int = 0) -> None:
    """Calls inside ncu's window."""
    for _ in range(warm):
        call()
    torch.cuda.synchronize()
    with torch.cuda.profiler.profile():
        for _ in range(calls):
            call()
        torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
