"""KernelBench problems under the official evaluator and under profkit: both verdicts, both times, and why they differ.

    python benchmarks/kernelbench_side_by_side.py --kernelbench CHECKOUT [--out side_by_side.json] [--cases 1/1,2/9]

Twenty problems (levels 1 and 2) with one candidate each, see kernelbench_candidates.py: honest kernels and ones that go
wrong on purpose. The official evaluator runs unchanged from the checkout in a process of its own (5 correctness trials,
50 timed ones, eager baseline first); profkit evaluates the same two sources. What is in the output file is not run again.
Needs an NVIDIA GPU, about 20 s a case.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kernelbench_official
from kernelbench_candidates import CASES, Case

from profkit.contests.kernelbench.evaluation import in_turn, unfit
from profkit.contests.kernelbench.files import Generated, Problem, problems
from profkit.contests.kernelbench.pairs import record
from profkit.errors import ProfkitError
from profkit.record.request import Request

LIMIT = 180.0
CLOSE = 0.1
"""Relative difference of two times or speed-ups that asks for no explanation."""


def official(case: Case, problem: Problem, options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """The case under the official evaluator; `raised` says what ended it without a verdict."""
    told = {"name": problem.name, "reference": problem.path.read_text("utf-8"), "candidate": case.source}
    told |= {"backend": case.backend, "trials": options.trials, "perf_trials": options.perf_trials}
    return kernelbench_official.ask(options.kernelbench, told, scratch, LIMIT)


def profkit(case: Case, problem: Problem, options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """The case under profkit: a row of eval_results.json."""
    file = scratch / f"level_{case.level}_problem_{case.problem}_sample_0_kernel.py"
    file.write_text(case.source, "utf-8")
    wanted = Request(
        device=options.device,
        trials=options.trials,
        budget=options.budget,
        counters=options.counters,
        precision="fp32",
        runs=options.runs,
    )
    try:
        mine = Generated(case.level, case.problem, 0, file)
        broken = unfit(mine)
        if broken is not None:
            return broken
        return next(record(one.run, mine) for one in in_turn(lambda _: None)([(mine, problem)], wanted))
    except ProfkitError as error:
        return {
            "compiled": None,
            "correctness": None,
            "runtime": -1.0,
            "metadata": {"profkit": {"status": str(error)}},
        }


def summary(case: Case, theirs: dict[str, Any], mine: dict[str, Any]) -> dict[str, Any]:
    """One row of the table; times in ms, None where there is none."""
    own = mine["metadata"].get("profkit") or {}
    baseline, runtime = (theirs.get("baseline") or {}).get("mean"), theirs.get("runtime")
    timed = bool(theirs.get("correct")) and runtime is not None and runtime > 0
    row: dict[str, Any] = {
        "case": case.key,
        "title": case.title,
        "trap": case.trap,
        "compiled": [theirs.get("compiled"), mine["compiled"]],
        "correct": [theirs.get("correct"), mine["correctness"]],
        "ms": [runtime if timed else None, _ms(own.get("time"))],
        "reference_ms": [baseline, _ms(own.get("reference_time"))],
        "speedup": [baseline / runtime if timed and baseline else None, own.get("speedup")],
        "interval": [own.get("speedup_low"), own.get("speedup_high")],
        "verdict": own.get("verdict") or own.get("status", ""),
    }
    return row | {"why": "; ".join(reasons(row, theirs, mine))}


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def reasons(row: dict[str, Any], theirs: dict[str, Any], mine: dict[str, Any]) -> list[str]:
    """What was observed that explains a difference, and what either side had to say."""
    found, told, own = [], theirs.get("metadata") or {}, mine["metadata"].get("profkit") or {}
    if theirs.get("raised"):
        found.append(f"the evaluator itself failed: {theirs['raised'][:120]}")
    said = next(
        (
            told[key]
            for key in ("compilation_error", "runtime_error", "correctness_issue", "error_during_performance")
            if key in told
        ),
        "",
    )
    if row["correct"][0] is not True and said:
        found.append(f"official: {said[:120]}{_differences(told)}")
    if row["correct"][1] is not True:
        errors = ("compilation_error", "correctness_issue", "runtime_error", "error")
        found.append(
            "profkit: "
            + next(
                (str(mine["metadata"][key])[:120] for key in errors if key in mine["metadata"]),
                str(row["verdict"]),
            )
        )
    if "excessive_speedup" in told:
        found.append("official flags more than 10x")
    found += _times(row, theirs, own)
    doubts = [
        text
        for text in own.get("doubts", ())
        if any(word in text for word in ("precision", "stream", "constant", "floor", "input"))
    ]
    reduced = own.get("reduced_precision")
    return (
        found
        + ([f"profkit: {reduced['used']} by {reduced['evidence']}"] if reduced else [])
        + [f"doubt: {text}" for text in doubts[:2]]
    )


def _differences(told: dict[str, Any]) -> str:
    return f" by up to {told['max_difference'][:60]}" if "max_difference" in told else ""


def _times(row: dict[str, Any], theirs: dict[str, Any], own: dict[str, Any]) -> list[str]:
    """Why the times are not the same."""
    found = []
    (a, b), (base, mine) = row["ms"], row["reference_ms"]
    again = theirs.get("reference")
    if again and base and again > 0 and not _close(again, base):
        found.append(
            f"official times the reference at {base:g} ms alone and at {again:g} ms beside the candidate: its inputs changed"
        )
    if a and b and not _close(a, b):
        short = min(a, b) < 0.05
        found.append(
            "plain event pairs hold the launch as well" if short and a > b else f"times differ by {a / b:.2f}x"
        )
    if base and mine and not _close(base, mine):
        found.append(f"reference {base:g} ms officially, {mine:.3g} ms in profkit")
    speedups = row["speedup"]
    if own.get("verdict") == "same" and speedups[0] and _close(speedups[0], 1.0):
        found.append(f"a tie: fast_1 says {'yes' if speedups[0] > 1 else 'no'} from two means in three digits")
    return found


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= CLOSE * max(abs(a), abs(b))


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows for people; every pair is official / profkit."""
    head = ["case", "candidate", "compiled", "correct", "time [ms]", "ratio", "speed-up", "verdict"]
    lines = [head]
    for row in rows:
        a, b = row["ms"]
        lines.append(
            [
                row["case"],
                row["title"],
                _pair(row["compiled"]),
                _pair(row["correct"]),
                _pair(row["ms"]),
                f"{a / b:.2f}" if a and b else "-",
                _pair(row["speedup"]),
                str(row["verdict"]),
            ]
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    for index, row in reversed(list(enumerate(rows, 1))):
        notes = [f"      {name}: {text}" for name, text in (("trap", row["trap"]), ("why", row["why"])) if text]
        texts[index + 1 : index + 1] = notes
    differing = sum(row["correct"][0] != row["correct"][1] for row in rows)
    return "\n".join([*texts, "", f"{len(rows)} problems; {differing} differ in correct / wrong (official / profkit)"])


def _pair(values: Sequence[Any]) -> str:
    words = {True: "yes", False: "no", None: "-"}
    return " / ".join(words[v] if v is None or isinstance(v, bool) else f"{v:.3g}" for v in values)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernelbench", type=Path, required=True, metavar="CHECKOUT")
    parser.add_argument("--out", type=Path, default=Path("side_by_side.json"))
    parser.add_argument("--cases", default="", metavar="1/1,2/9", help="only these")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--perf-trials", type=int, default=50)
    parser.add_argument("--budget", type=float, default=2.0, help="seconds of timing in profkit")
    parser.add_argument("--runs", type=Path, default=Path("profkit-runs/side-by-side"))
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--ncu", dest="counters", action="store_const", const="auto", default="off")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no case after so many")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    wanted = set(filter(None, options.cases.split(",")))
    chosen = [case for case in CASES if not wanted or case.key in wanted]
    tasks = {(level, p.id): p for level in {c.level for c in chosen} for p in problems(options.kernelbench, level)}
    done: dict[str, Any] = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="profkit-") as temporary:
        for case in chosen:
            if case.key in done or time.monotonic() - began > options.seconds:
                continue
            problem, start = tasks[case.level, case.problem], time.monotonic()
            theirs = official(case, problem, options, Path(temporary))
            middle = time.monotonic()
            mine = profkit(case, problem, options, Path(temporary))
            wall = [round(middle - start, 1), round(time.monotonic() - middle, 1)]
            done[case.key] = {
                **summary(case, theirs, mine),
                "wall": wall,
                "official": theirs,
                "profkit": mine,
            }
            options.out.write_text(json.dumps(done, indent=1) + "\n", "utf-8")
            print(f"{case.key} {case.title}: {wall[0]} s + {wall[1]} s", file=sys.stderr, flush=True)
    print(table([done[case.key] for case in chosen if case.key in done]))


if __name__ == "__main__":
    main()
