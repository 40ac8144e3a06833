"""Where a program's wall time goes: the parts add up to the window, and idle is laid at the right door."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.timeline.budget import budget
from analyzers.timeline.compare import each_step
from analyzers.timeline.steady import steady_of
from collectors.frame import build


def frame(rows):
    """(kernel, start, time[, kind]) in s."""
    full = [(*row, "kernel")[:4] for row in rows]
    columns = dict(zip(("kernel", "start", "time", "kind"), zip(*full, strict=True), strict=True))
    return build(columns, tool="cupti")


def host(calls):
    return pd.DataFrame(calls, columns=["call", "start", "time", "launch"]).assign(thread="1")


def test_idle_belongs_to_who_was_late():
    """Asked for in time: queued. Asked for late: the host's; late after a wait: waiting; inside an allocation: that."""
    unit = 1e-4
    work = frame([(name, unit * at, unit) for name, at in (("a", 0), ("b", 2), ("c", 5), ("d", 8), ("e", 11))])
    calls = host(
        [
            (call, unit * start, unit * time, launch)
            for call, start, time, launch in (
                ("cudaLaunchKernel", -1.0, 0.1, 0),
                ("cudaLaunchKernel", 0.5, 0.1, 1),
                ("cudaLaunchKernel", 4.5, 0.1, 2),
                ("cudaStreamSynchronize", 4.9, 1.3, -1),
                ("cudaLaunchKernel", 7.5, 0.1, 3),
                ("cudaMalloc", 9.2, 1.0, -1),
                ("cudaLaunchKernel", 10.6, 0.1, 4),
            )
        ]
    )
    found = budget(work, host=calls)
    assert found.computing == pytest.approx(5.0 * unit)
    assert found.queued == pytest.approx((1.0 + 0.5 + 0.5 + 0.4) * unit)
    assert found.host == pytest.approx((1.5 + 0.6) * unit)
    assert found.waiting == pytest.approx(1.5 * unit)
    assert found.allocating == pytest.approx(1.0 * unit)
    assert found.unknown == found.away == 0
    assert (found.blocking, found.queued_gaps, found.gaps) == (1, 4, 4)


US = 1e-6


def loop(*, hole=0.0, apart=5.0, launches=50, steps=6, wait=False, quiet=0.0):
    """(frame, host) of a loop; the host launches every `apart` us work of 5 us, and before each step's copy of the batch
    does something else for `hole` us; wait: after it had waited for the GPU; quiet: between each two launches for so long.
    """
    rows, calls, now = [], [], 0.0
    for _ in range(steps):
        for at in range(launches):
            if not at:
                calls += [("cudaStreamSynchronize", now * US, 8 * US, -1)] if wait else []
                now += hole
            kind = (
                ("Memcpy HtoD (Pageable -> Device)", "memcpy")
                if not at
                else ("sgd" if at == launches - 1 else "gemm", "kernel")
            )
            calls.append(("cudaMemcpyAsync" if not at else "cudaLaunchKernel", now * US, 2 * US, len(rows)))
            rows.append((kind[0], (now + 3) * US, 5 * US, kind[1]))
            now += apart + quiet
    return frame(rows), host(calls)


def doing(calls, spans):
    """The host's calls with spans beside them: (kind, name, start, time)."""
    rows = [{"call": name, "start": at, "time": time, "launch": -1, "kind": kind} for kind, name, at, time in spans]
    return pd.concat([calls.assign(kind="call"), pd.DataFrame(rows).assign(thread="1")], ignore_index=True)


def test_a_hole_is_named_by_what_the_host_did_in_it():
    """The wait in an operator in a range; a stretch without any call by the range alone, ranges of a kind as one."""
    work, calls = loop(hole=10_000.0, apart=40.0, wait=True)
    waits = calls[calls["call"].eq("cudaStreamSynchronize")]
    spans = [("op", "aten::item", start - US, 12 * US) for start in waits["start"]]
    spans += [("range", f"save {n}", start + 9 * US, 9.9e-3) for n, start in enumerate(waits["start"])]
    spans += [("range", "train", 0.0, 1.0)]
    found = budget(work, host=doing(calls, spans))
    away = next(one for one in found.named if one.cause == "away")
    assert (away.within, away.call, away.op) == ("train/save #", "", "")
    assert away.doing == "train/save #"
    assert away.seconds == pytest.approx(found.away)
    assert away.count == found.holes
    assert (away.after, away.before) == ("sgd", "Memcpy HtoD (Pageable -> Device)")
    late = next(one for one in found.named if one.cause == "host")
    assert late.within == "train"
    bare = budget(work, host=calls)
    assert not any(one.within or one.op for one in bare.named)
    assert bare.window == found.window
    assert bare.away == found.away


def test_a_wait_is_named_with_the_operator_it_is_in():
    work, calls = loop(apart=40.0, launches=20)
    first = work[work["kernel"].str.startswith("Memcpy")]["start"]
    waits = host([("cudaStreamSynchronize", start - 30 * US, 20 * US, -1) for start in first])
    both = pd.concat([calls, waits], ignore_index=True).sort_values("start")
    spans = [("op", "aten::item", start - 31 * US, 22 * US) for start in first]
    spans += [("op", "<frozen runpy>(198): _run_module_as_main", start - 32 * US, 24 * US) for start in first]
    spans += [("op", "aten::_local_scalar_dense", start - 30.5 * US, 21 * US) for start in first]
    found = budget(work, host=doing(both, [*spans, ("range", "loss", 0.0, 1.0)]))
    (one,) = (one for one in found.named if one.cause == "waiting")
    assert one.doing == "cudaStreamSynchronize, aten::item, loss"
    assert one.seconds == pytest.approx(found.waiting)


def test_what_a_graph_runs_was_asked_for_by_its_launch():
    """Said before: idle without a known cause, between kernels of one graph."""
    rows = [(name, start, 1e-5) for step in range(8) for name, start in (("a", step * 1e-3), ("b", step * 1e-3 + 5e-5))]
    calls = host([("cudaGraphLaunch", at * 1e-3 - 2e-5, 1e-5, 2 * at) for at in range(8)])
    found = budget(frame(rows), host=calls)
    assert found.unknown == 0
    assert found.queued / found.steady.steps == pytest.approx(4e-5 + 2e-5)


def test_kernels_copies_and_fills_are_counted_apart_and_their_time_adds_up():
    rows = [("gemm", 0.0, 4.0), ("gemm", 2.0, 4.0), ("copy", 5.0, 3.0, "memcpy"), ("fill", 9.0, 1.0, "memset")]
    found = budget(frame(rows))
    assert (found.launches, found.copies, found.fills) == (2, 1, 1)
    assert {(one.name, one.time, one.own, one.count, one.slice) for one in found.spent} == {
        ("gemm", 8.0, 6.0, 2, "computing"),
        ("copy", 3.0, 3.0, 1, "copying"),
        ("fill", 1.0, 1.0, 1, "copying"),
    }
    assert sum(one.own for one in found.spent if one.slice == "computing") == found.computing


def test_one_long_gap_a_step_is_the_host_doing_something_else():
    """No CUDA call for 10 ms before the copy of the next batch: no chain of launches, whatever follows closely otherwise."""
    for wait in (False, True):
        work, calls = loop(hole=10_000.0, wait=wait)
        found = budget(work, host=calls)
        steps = found.steady.steps
        assert (found.holes, found.hole_before) == (steps, "Memcpy HtoD (Pageable -> Device)")
        assert found.away / steps == pytest.approx(0.01, rel=0.01)
        assert found.host + found.waiting < 0.01 * found.away


def test_many_short_gaps_are_the_host_launching_too_late():
    work, calls = loop(apart=40.0)
    found = budget(work, host=calls)
    assert (found.away, found.holes, found.hole_before) == (0.0, 0, "")
    assert found.host > 0.7 * found.window


def test_long_gaps_between_all_launches_are_the_pace_of_a_slow_host():
    """2 ms between any two launches: a debugger, or Python that works that long an operator; a graph would win that."""
    work, calls = loop(quiet=2_000.0)
    found = budget(work, host=calls)
    assert found.away == 0
    assert found.host > 0.9 * found.window
    # Few pieces a step, as of a step that is a graph already: that is no chain.
    work, calls = loop(quiet=2_000.0, launches=3)
    assert budget(work, host=calls).away > 0.9 * budget(work, host=calls).window


def test_a_compiler_at_work_is_loading_and_a_stretch_covered_by_the_gpu_is_nobodys():
    work, calls = loop(hole=10_000.0)
    first = calls[calls["call"].eq("cudaMemcpyAsync")]["start"]
    loads = host([("cuModuleLoadData", start - 5e-4, 4e-4, -1) for start in first])
    found = budget(work, host=pd.concat([calls, loads]).sort_values("start"))
    assert found.away == 0
    assert found.loading > 0.9 * found.idle
    busy = work.assign(time=work["time"].where(work["kernel"] != "sgd", 20e-3))
    assert budget(busy, host=calls).away == 0


def test_communication_beside_computing_is_hidden():
    work = frame(
        [
            ("gemm", 0.0, 4.0),
            ("ncclDevKernel_AllReduce_Sum", 2.0, 4.0),
            ("Memcpy HtoD (Pageable -> Device)", 5.0, 3.0, "memcpy"),
        ]
    )
    found = budget(work)
    assert (found.computing, found.communicating, found.copying) == pytest.approx((4.0, 2.0, 2.0))
    assert found.hidden == pytest.approx(2.0)
    assert found.pageable == pytest.approx(3.0)


def test_without_the_hosts_calls_idle_is_unknown():
    found = budget(frame([("a", 0.0, 1.0), ("b", 3.0, 1.0)]))
    assert (found.unknown, found.idle) == (2.0, 2.0)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.sampled_from("abcn"), st.floats(0, 50), st.floats(0.001, 5)), min_size=1, max_size=40))
def test_the_parts_add_up(rows):
    names = {"a": ("a", "kernel"), "b": ("b", "kernel"), "c": ("copy", "memcpy"), "n": ("ncclKernel", "kernel")}
    work = frame([(names[n][0], start, time, names[n][1]) for n, start, time in rows])
    found = budget(work)
    assert found.computing + found.communicating + found.copying + found.idle == pytest.approx(found.window)
    assert sum(one.own for one in found.spent if one.slice == "computing") == pytest.approx(found.computing)
    assert min(found.computing, found.copying, found.idle, found.hidden) >= -1e-9


def test_the_steady_state_is_found_behind_a_warm_up_and_a_print_now_and_then():
    step = ["embed", *["gemm", "norm"] * 6, "loss"]
    names, starts, now = ["load"] * 5, list(np.arange(5.0)), 5.0
    for number in range(12):
        print_it = ["item"] if number % 5 == 4 else []
        for name in [*step, *print_it]:
            names.append(name)
            starts.append(now)
            now += 10.0 if number == 0 else 1.0
    launched = pd.DataFrame({"kernel": names, "start": starts, "time": 1.0})
    found = steady_of(launched)
    assert found.found == "repeating"
    assert found.first >= 5 + 14
    # Every step begins with the same kernel, also behind one that printed.
    assert len({names[at] for at in found.marks[:-1]}) == 1
    assert len(found.marks) == found.steps + 1
    assert found.steps >= 9
    later = steady_of(launched, after=3)
    assert (later.steps, later.found) == (found.steps - 3, "after")


def test_nothing_repeats_where_nothing_does():
    found = steady_of(pd.DataFrame({"kernel": [f"k{n}" for n in range(40)], "start": range(40), "time": 1.0}))
    assert (found.found, found.first, found.end, found.steps) == ("all", 0, 40, 1)


def test_copies_are_no_steps_and_steps_hold_a_share_of_the_kernels_time():
    """Page migrations of one kernel were 47 steps without a kernel, and chunked copies 4,693."""
    moved = [("Memcpy HtoD", 1e-4 * at, 2e-5, "memcpy") for at in range(40)]
    uneven = [("sort", -1.0, 1.5e-4), *[("k", 1e-4 * at * at, 1e-5) for at in range(1, 12)]]
    short = [("sort", -1.0, 0.9), *[("k", 1e-4 * at, 1e-5) for at in range(40)]]
    for rows in ([*moved, ("inc", 5e-3, 6e-3)], short, uneven):
        found = budget(frame(rows))
        assert found.steady.found == "all"
        assert found.launches == sum(len(row) == 3 for row in rows)


@pytest.mark.parametrize("mark", ["ProfilerStep#{}", "step {}", "train_step_{}", "iteration {}/forward"])
def test_numbered_ranges_are_the_steps(mark):
    """A step of 36 equal layers is one step, and not 36 of them."""
    rows = [(f"k{at % 3}", step + at * 1e-2, 5e-3) for step in range(4) for at in range(36)]
    paths = [mark.format(step + 7) for step in range(4) for _ in range(36)]
    work = frame(rows).assign(range=paths)
    found = budget(work)
    assert (found.steady.found, found.steady.steps) == ("repeating", 4)
    assert found.shortest <= found.step <= found.longest == 1.0
    assert len(each_step(work, found).lengths) == 4
    alone = budget(work.iloc[:36])
    assert (alone.steady.steps, alone.window) == (1, pytest.approx(0.355))
    assert budget(work.assign(range="layer 3")).steady.steps > 4


def test_a_wait_that_began_before_the_window_is_counted():
    """Said before: the host waits for the GPU for 100 % of the record, by 0 synchronising calls."""
    work = frame([("a", 1.0, 0.5), ("b", 3.0, 0.5)])
    calls = host(
        [("cudaLaunchKernel", 0.1, 0.1, 0), ("cudaDeviceSynchronize", 0.5, 2.0, -1), ("cudaLaunchKernel", 2.6, 0.1, 1)]
    )
    assert budget(work, host=calls).blocking == 1
