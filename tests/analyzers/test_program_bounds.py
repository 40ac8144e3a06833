"""No mending wins more of a program than its finding promises: a host and a GPU by the book, recorded, mended, and run again."""

import functools
import random
from dataclasses import dataclass, replace

import pandas as pd
import pytest

from analyzers.rules.findings import examine
from analyzers.rules.rule import TIME
from analyzers.rules.subjects import program_subjects
from analyzers.timeline.budget import budget
from analyzers.timeline.calls import SHORT
from collectors.frame import build

US = 1e-6
STEPS, WARM, MORE = 25, 12, 3
"""Steps until the window's end, until its begin, and behind it."""
LATENCY = 4.0
"""Microseconds from a launching call's begin to the kernel's, if nothing is before it."""
AFTER = 0.4
"""Share of what launching takes that lies behind the call."""
HEARS = 5.0
"""Microseconds from a kernel's end until the host that waits for it goes on."""
AHEAD = 4
"""Steps that the host is ahead of the GPU at most: then launching waits for a place in the queue."""


@dataclass(frozen=True)
class Op:
    """One thing that the host does in a step. `lasts` [us]: on the GPU, or the host's; `cost` [us]: of launching it.

    kind: "kernel", "talk" (communication), "copy", each on a stream, when what was launched on those `behind` which it comes is
    done; "join" (only that); "wait" (the host, for a stream); "away", "grow" (allocates, when the GPU is done), "compile".
    staged: the call that copies ends with the copy, as of pageable memory.
    """

    kind: str
    lasts: float = 0.0
    cost: float = 5.0
    stream: int = 7
    behind: tuple[int, ...] = ()
    staged: bool = False


def step(kernels, away=0.0, copy=1.0, waits=False, reads=frozenset(), grows=0.0, compiles=0.0, talks=0.0):
    """In us. kernels: (how long the host takes to launch it, how long it runs); the host is `away` at the step's begin, with a
    copy behind it that it waits for or not; reads: after which launches it waits for the GPU; talks: communication beside the
    kernels, for which the next step's first one waits.
    """
    ops = [Op("away", away), Op("copy", copy), *[Op("wait")] * waits]
    ops += [Op("grow", grows), Op("compile", compiles), Op("join", behind=(20,)), Op("talk", talks, 5.0, 20, (7,))]
    for at, (cost, lasts) in enumerate(kernels):
        ops += [Op("kernel", lasts, cost), *[Op("wait")] * (at in reads)]
    return tuple(op for op in ops if op.lasts or op.kind in ("wait", "join"))


NAMES = {"kernel": "k", "talk": "ncclDevKernel_AllReduce_Sum_f32_", "copy": "Memcpy HtoD (Pinned -> Device) "}


@functools.cache
def run(ops, *, record=0.0, mended=""):
    """(rows, calls, us of a step) of a program of such steps; record: what recording each call takes; mended: without a cause."""
    rows, calls, now, free, done, ends = [], [], 0.0, {}, [], []

    def hold(call, until):
        nonlocal now
        calls.append((call, now, max(until, now + 1.0) - now, -1))
        now = max(until, now + 1.0) + record

    for _ in range(STEPS + MORE):
        last = Op("")
        for at, op in enumerate(ops):
            ready = max(free.get(stream, 0.0) for stream in (op.stream, *op.behind))
            if op.kind == "join":
                free[op.stream] = ready
            elif op.kind == "away":
                now += op.lasts if mended != "away" else 0.0
            elif op.kind == "wait":
                # Copied a step ahead, beside kernels, a batch takes neither the GPU's time nor the host's.
                ahead = mended == "copying" and last.kind == "copy" and last.lasts * US >= SHORT
                if mended != "waiting" and not ahead:
                    hold("cudaStreamSynchronize", free.get(op.stream, 0.0) + HEARS)
            elif op.kind == "grow":
                if mended != "allocating":
                    hold("cudaMalloc", max(now, 0.0, *free.values()) + op.lasts)
            elif op.kind == "compile":
                if mended != "loading":
                    now += op.lasts
                    hold("cuModuleLoadData", now + 50.0)
            else:
                gone = {"talk": "talking", "copy": "copying"}.get(op.kind) == mended
                tiny = mended == "tiny" and op.kind == "kernel" and op.lasts < SHORT / US
                cost = record if mended == "host" else op.cost + record
                full = max(0.0, done[-AHEAD * len(ops)] - now) if len(done) >= AHEAD * len(ops) else 0.0
                if op.kind == "talk" and gone:
                    now += full + cost
                    continue
                begin = max(ready, now + full + (0.0 if mended == "queued" else LATENCY))
                free[op.stream] = begin + (0.0 if gone or tiny else op.lasts)
                call = full + (1 - AFTER) * cost
                if op.staged and not gone:
                    call = max(call, free[op.stream] - now)
                name = "cudaMemcpyAsync" if op.kind == "copy" else "cudaLaunchKernel"
                kind = "memcpy" if op.kind == "copy" else "kernel"
                calls.append((name, now, call, len(rows)))
                rows.append((f"{NAMES[op.kind]}{at}", begin, free[op.stream] - begin, kind, str(op.stream)))
                now = max(now + full + cost, now + call + (AFTER * cost if op.staged else 0.0))
                done.append(max(done[-1] if done else 0.0, free[op.stream]))
            last = op
        ends.append(max(now, 0.0, *free.values()))
    return rows, calls, (ends[STEPS - 1] - ends[WARM]) / (STEPS - 1 - WARM)


CAUSES = {
    "host-away": "away",
    "gpu-idle": "host",
    "synchronising": "waiting",
    "allocating": "allocating",
    "copies": "copying",
    "recompiles": "loading",
    "queued-gaps": "queued",
    "tiny-kernels": "tiny",
    "communication": "talking",
}


def budgeted(ops, record=0.0):
    rows, calls, _ = run(ops, record=record)
    columns = dict(zip(("kernel", "start", "time", "kind", "stream"), zip(*rows, strict=True), strict=True))
    columns |= {name: [value * US for value in columns[name]] for name in ("start", "time")}
    host = pd.DataFrame(calls, columns=["call", "start", "time", "launch"]).assign(thread="1")
    host[["start", "time"]] *= US
    return budget(build(columns, tool="cupti"), host=host, after=WARM, at_most=STEPS - 1 - WARM)


def findings(one):
    return {found.rule: found for found in examine(program_subjects({"": one}), {}) if found.severity == TIME}


def won(ops, cause):
    """Share of the step nobody records that a mending wins, and how many seconds."""
    before, after = run(ops)[2], run(ops, mended=cause)[2]
    return 1 - after / before, (before - after) * US


DRAWN_BESIDE = step(((30.0, 5.0),) * 40 + ((30.0, 60.0),) * 40, away=4000.0)
"""The host draws while the GPU still works off what it was given: of 4 ms the GPU waits for 2.8, and all go."""
GRAPH_BESIDE = step(((100.0, 80.0),) * 60, away=5000.0)
"""A graph is launched at once: the batch is then drawn beside all of the GPU's work."""
READ_EACH = step(((20.0, 2.0),) * 20 + ((20.0, 800.0),), reads=frozenset({20}))
"""Without reading the loss the next step's short kernels are launched while the long one runs."""
GROWN = step(((20.0, 5.0),) * 20 + ((20.0, 50.0),) * 20, grows=300.0)
"""Memory is allocated when the GPU is done: it idles afterwards, too, as it has nothing queued."""
COPIED = step(((10.0, 2.0),) * 20 + ((10.0, 60.0),) * 20, copy=300.0, waits=True)
"""Without waiting for its batch's copy the host launches a step's short kernels while the GPU works."""
BESIDE_TALK = (Op("talk", 350.0, stream=20, behind=(7,)), Op("copy", 400.0), Op("kernel", 500.0))
"""The kernel waits for a copy on its own stream, the GPU never idle, as it communicates meanwhile."""


def beside_kernels(kind):
    """The last kernel waits by an event for a copy, or for communication, most of which runs beside kernels of two streams."""
    held = Op(kind, 600.0, stream=13, behind=(7,))
    beside = Op("kernel", 500.0, stream=8, behind=(7,))
    return (Op("kernel", 100.0), held, beside, Op("kernel", 350.0), Op("kernel", 200.0, behind=(13,)))


TINY_BESIDE = (Op("kernel", 90.0, stream=8), *[Op("kernel", 4.0)] * 20, Op("kernel", 60.0, behind=(8,)))
"""Short kernels beside a long one of another stream."""


@pytest.mark.parametrize(
    ("ops", "rule"),
    [
        (DRAWN_BESIDE, "host-away"),
        (GRAPH_BESIDE, "gpu-idle"),
        (READ_EACH, "synchronising"),
        (GROWN, "allocating"),
        (COPIED, "copies"),
        (BESIDE_TALK, "copies"),
        (beside_kernels("copy"), "copies"),
        (beside_kernels("talk"), "communication"),
        (TINY_BESIDE, "tiny-kernels"),
    ],
)
def test_a_mending_wins_more_than_what_it_is_named_after_and_no_more_than_promised(ops, rule):
    """Said before: the time in which the GPU idled after the cause, or did nothing else, was all that it could win."""
    found = findings(budgeted(ops))[rule]
    share, seconds = won(ops, CAUSES[rule])
    assert 0 < seconds <= found.upper_bound * (1 + 1e-6)
    assert share <= found.ratio + 1e-9
    assert seconds > 1.05 * found.win


def drawn(seed):
    """(steps of a program, what recording a call takes): of one stream beside copies and communication, or of several."""
    die = random.Random(seed)
    record = die.choice([0.0, 3.0, 20.0])
    if die.random() < 0.5:
        kernels = tuple((die.uniform(3, 120), die.uniform(1, 150)) for _ in range(die.randint(4, 12)))
        reads = frozenset(die.sample(range(12), die.randint(0, 2)))
        away, copy, waits = die.choice([0.0, 1500.0, 4000.0]), die.uniform(6, 300), die.random() < 0.5
        grows, compiles = die.choice([0.0, 0.0, 200.0]), die.choice([0.0, 0.0, 2500.0])
        return step(kernels, away, copy, waits, reads, grows, compiles, die.choice([0.0, 0.0, 100.0, 900.0])), record

    def launched(kind, least, most, streams):
        behind = tuple(die.sample([7, 8, 13, 14, 20, 21], die.randint(0, 2)))
        return Op(kind, die.uniform(least, most), die.choice([3.0, 10.0, 60.0]), die.choice(streams), behind)

    makes = (
        lambda: launched("kernel", 1, 400, [7, 7, 7, 8]),
        lambda: launched("kernel", 1, 400, [7, 7, 7, 8]),
        lambda: replace(launched("copy", 1, 400, [7, 8, 13, 14]), staged=die.random() < 0.5),
        lambda: launched("talk", 20, 900, [7, 20, 21]),
        lambda: Op("wait", stream=die.choice([7, 8, 13, 14, 20])),
        lambda: die.choice(
            [Op("grow", 200.0), Op("compile", 1500.0), Op("away", 1500.0), Op("join", behind=(8, 13, 14, 20, 21))]
        ),
    )
    return tuple(die.choice(makes)() for _ in range(die.randint(4, 14))), record


def told_apart(ops):
    """Whether the host launches between being away and compiling: without a launch nobody sees where one ends."""
    hosts = [op.kind for op in ops if op.kind in (*NAMES, "away", "compile")]
    return not any({one, other} == {"away", "compile"} for one, other in zip(hosts, hosts[1:] + hosts[:1], strict=True))


SHOWN = (
    (step(((30.0, 60.0),) * 12, 4000.0), 0.0),
    (step(((3.0, 1.0),) * 4, copy=72.0, waits=True, reads=frozenset({0}), talks=100.0), 0.0),
    (step(((3.0, 1.0), (3.0, 1.0), (3.0, 1.0), (3.0, 3.0)), copy=6.0, talks=100.0), 0.0),
    (step(((3.0, 36.0), (3.0, 1.0), (3.0, 1.0), (3.0, 131.0)), 1500.0, 157.0, reads=frozenset({0}), talks=900.0), 20.0),
    (step(((10.0, 20.0),) * 8, copy=50.0, waits=True, reads=frozenset({3, 6}), grows=200.0), 20.0),
    (step(((3.0, 1.0),) * 2 + ((3.0, 43.0),) + ((3.0, 150.0),) * 3, copy=223.0, grows=200.0, talks=900.0), 0.0),
    (
        (
            Op("wait"),
            Op("talk", 20.0, 3.0),
            Op("talk", 20.0, 3.0, 7, (7,)),
            Op("kernel", 1.0, 3.0),
            Op("talk", 678.0, 3.0, 20, (13, 21)),
            Op("wait", stream=13),
            Op("kernel", 2.0, 3.0, 8),
        ),
        0.0,
    ),
)
"""What random programs showed, and is mended; in the last the host launches as fast as the queue has room."""


@pytest.mark.parametrize("program", [*SHOWN, *range(120)])
def test_no_mending_wins_more_than_promised(program):
    """Of a program that recording takes nothing of: what it takes is in the step that a share is of."""
    ops, record = drawn(program) if isinstance(program, int) else program
    if not told_apart(ops) or not any(op.kind in NAMES for op in ops):
        return
    one, each = budgeted(ops, record), run(ops, record=record)[2]
    # Streams that nothing holds together drift apart; then a step is one of the quickest.
    if one.steady.found == "all" or abs(one.step / US - each) > 1e-3 * each:
        return
    for rule, told in findings(one).items():
        share, seconds = won(ops, CAUSES[rule])
        # Nobody sees where launching ends and being away, or compiling, begins.
        hidden = sum(op.kind in ("away", "compile") for op in ops) if rule == "gpu-idle" else 0
        unseen = hidden * AFTER * (max(op.cost for op in ops if op.kind in NAMES) + record)
        assert told.ratio <= 1 + 1e-9
        if not record:
            assert share <= told.ratio + unseen / each + 1e-6
            assert seconds <= told.upper_bound * (1 + 1e-6) + unseen * US + 1e-9
