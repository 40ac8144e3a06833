"""One kernel by every clock of the field, and why each differs from CUPTI: `python -m profkit.torch_tools.timers OUT TARGETS`.

A difference is taken apart by switching one cause at a time in a loop that does as the clock does: hold the queue full
(launch), look at the same launches by CUPTI (events), then at those of a loop that empties the cache otherwise or not at all
(flush, l2). Where the kernels themselves ran faster or slower in the clock's own loop, that is `pace`; what a loop of the same
switches does not read is `rest`.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
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
from profkit.torch_tools import bench
from profkit.torch_tools.loops import ClockError, Loop, Seen, Stand, held

CAUSES = ("launch", "flush", "l2", "pace", "events", "rest")
Average = Callable[[list[float]], float]


@dataclass(frozen=True)
class Clock:
    """`take` gives its reading [s] and the loop that does as it does; None where there is nothing to switch."""

    name: str
    cache: str
    take: Callable[[Stand], tuple[float, Loop | None]]
    average: Average = statistics.median


def _events(loop: Loop, count: int = 40, average: Average = statistics.median) -> Callable[[Stand], tuple[float, Loop]]:
    return lambda stand: (average(stand.read(loop, _count(stand, count))), loop)


def _batch(inside: bool) -> Callable[[Stand], tuple[float, Loop]]:
    def take(stand: Stand) -> tuple[float, Loop]:
        loop = Loop("read" if inside else "", inside, each=min(20, stand.batch) if inside else stand.batch)
        return statistics.median(stand.read(loop, 5)), loop

    return take


def _kernelbench(stand: Stand) -> tuple[float, Loop]:
    """Its loop of timing_method cuda_event: the first of the trials does not count; a mean."""
    torch.cuda.empty_cache()
    return statistics.fmean(stand.read(Loop("fill"), _count(stand, 101))[1:]), Loop("fill")


def _triton(stand: Stand) -> tuple[float, Loop]:
    from triton.testing import do_bench

    return float(do_bench(stand.call)) * 1e-3, Loop("zero", wait=False)


def _triton_graph(stand: Stand) -> tuple[float, Loop]:
    from triton.testing import do_bench_cudagraph

    seconds = float(do_bench_cudagraph(stand.call)) * 1e-3
    return seconds, Loop(each=max(1, int(0.02 / seconds)), graph=True)


def _torch(call: Callable[[], Any], threads: int = 1) -> Any:
    from torch.utils.benchmark import Timer

    return Timer("call()", globals={"call": call}, num_threads=threads).blocked_autorange()


def _torch_timer(stand: Stand) -> tuple[float, Loop]:
    found = _torch(stand.call)
    return float(found.median), Loop(each=found.number_per_run, wall=True)


def _profkit(stand: Stand) -> tuple[float, Loop]:
    return bench.do_bench(stand.call, return_mode="median") * 1e-3, Loop("read", held=True)


def _profkit_warm(stand: Stand) -> tuple[float, Loop]:
    clock = CudaClock(stand.device, cold=False)
    clock.warm_up(stand.call)
    taken = [clock.sample(stand.call) for _ in range(_count(stand, 60))]
    sound = [seconds for seconds, _, good in taken if good]
    return statistics.median(sound) - bench.offset(stand.device), Loop(held=True)


def _nvbench(tag: str, loop: Loop) -> Callable[[Stand], tuple[float, Loop]]:
    def take(stand: Stand) -> tuple[float, Loop]:
        nvbench = import_module("cuda.bench")

        def one(state: Any) -> None:
            stream = torch.cuda.ExternalStream(state.get_stream().addressof(), device=stand.device)

            def call(launch: Any) -> None:
                with torch.cuda.stream(stream):
                    stand.call()

            call(None)
            torch.cuda.synchronize(stand.device)
            state.exec(call, batched=tag == "batch")

        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "nvbench.json"
            if _NVBENCH:
                _NVBENCH[0] = one
            else:
                _NVBENCH.append(one)
                nvbench.register(lambda state: _NVBENCH[0](state))
            nvbench.run_all_benchmarks(["timers", "--quiet", "--timeout", "2", "--json", str(out)])
            states = json.loads(out.read_text("utf-8"))["benchmarks"][-1]["states"]
        for summary in states[0]["summaries"] or ():
            if summary["tag"] == f"nv/{tag}/time/gpu/mean":
                each = min(100, stand.batch) if tag == "batch" else 1
                return float(summary["data"][0]["value"]), Loop(loop.flush, held=True, each=each)
        raise ClockError(f"nvbench gave no time: {states[0].get('skip_reason') or 'nothing said'}")

    return take


_NVBENCH: list[Any] = []
"""What the one benchmark that is registered runs."""
CLOCKS = (
    Clock("profkit", "cold", _profkit),
    Clock("profkit", "warm", _profkit_warm),
    Clock("triton do_bench", "cold", _triton, statistics.fmean),
    Clock("triton do_bench_cudagraph", "warm", _triton_graph, statistics.fmean),
    Clock("KernelBench", "cold", _kernelbench, statistics.fmean),
    Clock("torch.utils.benchmark", "warm", _torch_timer),
    Clock("events, per call", "cold", _events(Loop("read"))),
    Clock("events, per call", "warm", _events(Loop())),
    Clock("events, N calls", "cold", _batch(inside=True)),
    Clock("events, N calls", "warm", _batch(inside=False)),
    Clock("cuda.bench", "cold", _nvbench("cold", Loop("memset")), statistics.fmean),
    Clock("cuda.bench", "warm", _nvbench("batch", Loop()), statistics.fmean),
)


def _count(stand: Stand, most: int) -> int:
    """Repetitions in a tenth of a second or so, at least eight."""
    return max(8, min(most, int(0.1 / (stand.judged["cold"][0] + 1e-4))))


def rows(call: Callable[[], Any], device: torch.device) -> Iterator[dict[str, Any]]:
    """A row a clock, seconds; CUPTI's first. A clock that fails has an `error` and no time."""
    if device.type == "cpu":
        yield from _cpu_rows(call)
        return
    stand = Stand(call, device)
    clocks = {name: CudaClock(device, cold=name == "cold") for name in ("cold", "warm")}
    for name, clock in clocks.items():
        clock.warm_up(call)
        stand.judged[name] = _judged(call, clock)
    less = bench.offset(device)
    cold, warm = (stand.judged[name][0] for name in clocks)
    yield {**_row("CUPTI", "cold", cold, cold), "busy": stand.judged["cold"][1]}
    yield {**_row("CUPTI", "warm", warm, cold, l2=warm - cold), "busy": stand.judged["warm"][1]}
    for one in CLOCKS:
        row, reading = _row(one.name, one.cache), float("nan")
        try:
            reading, loop = one.take(stand)
            row = _row(one.name, one.cache, reading, cold)
            row = _row(one.name, one.cache, reading, cold, **causes(stand, one, loop, less))
        except Exception as error:
            traceback.print_exc()
            row["error"] = _said(error)
        yield row


def _said(error: Exception) -> str:
    """What an error says in one line, and where it arose."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]} ({Path(at.filename).name}, line {at.lineno})"


def _judged(call: Callable[[], Any], clock: CudaClock) -> tuple[float, float]:
    """Seconds of a call by CUPTI, medians: from the first start to the last end, and anything of it running."""
    found = [one for one in cupti.sample({"call": call}, clock)[0] if one.kept]
    return statistics.median(one.seconds for one in found), statistics.median(one.busy for one in found)


def causes(stand: Stand, clock: Clock, loop: Loop | None, less: float) -> dict[str, float]:
    """What each cause adds to the clock's reading [s], less `rest`. Raises ClockError, CuptiError, RuntimeError."""
    if loop is None:
        return {}
    average, full = clock.average, held(loop, stand.batch)
    pairs = 5 if loop.each > 1 else _count(stand, 40)
    own = less if clock.name == "profkit" else 0.0
    alike = average(stand.read(loop, pairs)) - own
    queued = alike if loop == full else average(stand.read(full, pairs)) - own
    behind = stand.seen(full, pairs)
    pace = 0.0 if loop == full else average(stand.seen(loop, pairs).busy) - average(behind.busy)
    return _apart(stand, loop, average, alike, queued, behind, pace)


def _apart(
    stand: Stand, loop: Loop, average: Average, alike: float, queued: float, behind: Seen, pace: float
) -> dict[str, float]:
    cold, warm = stand.judged["cold"][0], stand.judged["warm"][0]
    span, flush = average(behind.span), average(behind.flush)
    found = {"launch": alike - queued - pace, "events": queued - flush - span, "pace": pace}
    if loop.flush:
        return {**found, "flush": flush + span - cold}
    return {**found, "l2": warm - cold, "pace": pace + span - warm}


def _row(clock: str, cache_: str, time: float = float("nan"), reference: float = float("nan"), **parts: float) -> Any:
    """`rest` is what the parts leave; all of them are missing where none is known."""
    gap = time - reference
    known = parts or ({} if gap else {"rest": 0.0})
    told = {name: known.get(name, 0.0 if known else float("nan")) for name in CAUSES}
    told["rest"] = gap - sum(known.values()) if known else float("nan")
    return {"clock": clock, "cache": cache_, "time": time, "gap": gap, **told, "error": ""}


def _cpu_rows(call: Callable[[], Any]) -> Iterator[dict[str, Any]]:
    """The two clocks that there are on a CPU; profkit's cold one is what the others are compared with."""
    medians = {}
    for cold in (True, False):
        clock = CpuClock(cold=cold)
        clock.warm_up(call)
        medians[clock.l2] = statistics.median(clock.sample(call)[0] for _ in range(40))
    cold_, warm = medians["cold"], medians["warm"]
    yield _row("profkit", "cold", cold_, cold_)
    yield _row("profkit", "warm", warm, cold_, l2=warm - cold_)
    for threads in {1: "", torch.get_num_threads(): f", {torch.get_num_threads()} threads"}.items():
        yield _row(
            f"torch.utils.benchmark{threads[1]}", "warm", _torch(call, threads[0]).median, cold_, l2=warm - cold_
        )


def loaded(target: Mapping[str, str], device: torch.device) -> Callable[[], Any]:
    """The call of a target, built, with its inputs on the device. Raises what its code raises."""
    file, entry = Path(target["file"]), target["entry"]
    if device.type == "cuda":
        loading.one_architecture(device)
    loading.enter(file, cache.builds())
    module = loading.import_file(file, file.stem)
    reference = loading.import_file(Path(target["reference"]), "reference") if target["reference"] else module
    inputs.torch_seed(0)
    arguments = inputs.to_device(getattr(reference, "get_inputs", list)(), device)
    function = getattr(module, entry)
    if isinstance(function, type):
        init: list[Any] = getattr(reference, "get_init_inputs", list)()
        function = loading.instance(module, entry, init, 0, device, mode=loading.mode_of(reference, ""))
    return lambda: function(*arguments)


def main(out: str, targets: str, calls: str = "0") -> int:
    """Write {"device", "versions", "kernels"} as JSON, again after every clock. calls: under ncu make so many of each target, and write nothing."""
    torch.set_grad_enabled(False)
    device = facts.choose("auto")
    told: dict[str, Any] = {"device": facts.device_facts(device), "versions": facts.versions(), "kernels": []}
    for target in json.loads(targets):
        kernel: dict[str, Any] = {"name": target["name"], "rows": [], "error": ""}
        told["kernels"].append(kernel)
        try:
            if int(calls):
                _for_ncu(target, device, int(calls))
                continue
            for row in rows(loaded(target, device), device):
                kernel["rows"].append(row)
                Path(out).write_bytes(msgspec.json.encode(told))
        except Exception as error:
            traceback.print_exc()
            kernel["error"] = _said(error)
        if not int(calls):
            Path(out).write_bytes(msgspec.json.encode(told))
    loading.release_all()
    return 0


def _for_ncu(target: Mapping[str, str], device: torch.device, calls: int) -> None:
    """A mark, then the calls, for ncu to time."""
    with torch.cuda.profiler.profile():
        torch.cuda._sleep(1)
        torch.cuda.synchronize(device)
    call = loaded(target, device)
    for _ in range(3):
        call()
    torch.cuda.synchronize(device)
    with torch.cuda.profiler.profile():
        for _ in range(calls):
            call()
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
