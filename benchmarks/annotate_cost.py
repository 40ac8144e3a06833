"""What a range costs when nobody profiles: profkit.annotate beside bare nvtx, in one process.

    python benchmarks/annotate_cost.py [--calls 200000]

Prints nanoseconds a range (the loop's own time taken off), the best of several rounds in turn, and each as a
ratio to nvtx.annotate in a domain of its own. With a listener (a file of declared work) as the last row.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable

import nvtx

from profkit import annotation
from profkit.annotation import annotate

ROUNDS = 7


def work() -> None:
    return None


def bare(calls: int) -> None:
    for _ in range(calls):
        work()


def profkit_range(calls: int) -> None:
    for _ in range(calls):
        with annotate("attention", flops=1e9, bytes=1e6):
            work()


def profkit_reused(calls: int) -> None:
    one = annotate("attention", flops=1e9, bytes=1e6)
    for _ in range(calls):
        with one:
            work()


def profkit_decorator(calls: int) -> None:
    inside = annotate("attention")(work)
    for _ in range(calls):
        inside()


def nvtx_range(calls: int) -> None:
    for _ in range(calls):
        with nvtx.annotate("attention", domain="bench"):
            work()


def nvtx_push_pop(calls: int) -> None:
    for _ in range(calls):
        nvtx.push_range("attention", domain="bench")
        work()
        nvtx.pop_range(domain="bench")


def best(rows: dict[str, Callable[[int], None]], calls: int) -> dict[str, float]:
    """The shortest time a call [ns] of each, rounds interleaved."""
    found = dict.fromkeys(rows, float("inf"))
    for _ in range(ROUNDS):
        for name, loop in rows.items():
            began = time.perf_counter_ns()
            loop(calls)
            found[name] = min(found[name], (time.perf_counter_ns() - began) / calls)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=200_000)
    calls = parser.parse_args().calls
    rows = {
        "no range": bare,
        "nvtx.annotate, with": nvtx_range,
        "nvtx push and pop": nvtx_push_pop,
        "profkit.annotate, with": profkit_range,
        "profkit.annotate, one object": profkit_reused,
        "profkit.annotate, decorator": profkit_decorator,
    }
    found = best(rows, calls)
    with tempfile.TemporaryDirectory() as folder:
        annotation.listen(file=os.path.join(folder, "work.jsonl"))
        listened = best({"profkit.annotate, recorded": profkit_range}, max(1, calls // 20))
    base = found.pop("no range")
    peer = found["nvtx.annotate, with"] - base
    print(f"{'nobody profiles':32} {'ns a range':>10} {'of nvtx':>8}")
    for name, value in {**found, **listened}.items():
        print(f"{name:32} {value - base:10.0f} {(value - base) / peer:7.2f}x")


if __name__ == "__main__":
    main()
