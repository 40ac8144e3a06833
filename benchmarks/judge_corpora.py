"""Every candidate of tests/data/corpora, judged again and again: is an honest one ever accused, does a cheat ever win?

    python benchmarks/judge_corpora.py [--role honest] [--times 3] [--busy 8] [--device cpu] [--task softmax] [--seconds 600]

Each task's candidates are measured side by side, each in a process of its own, as the tests do; --busy: processes that compute
without end meanwhile, at the lowest priority. A line a candidate that was not called what its corpus says, then one a role:
so many candidates, judged so many times, so many wrongly called. --seconds: no task is begun after so many, which is said.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "profkit"))

from corpora import RUN, TASKS, Part, parts, written
from same_verdict import busy
from test_corpora import wrongly_called

from profkit.api import profile
from profkit.launch import warm

ELSEWHERE = {"cpu": set(), "cuda": {"process", "tricks", "blocks"}}
"""Tasks whose candidates do what makes no sense on that device, or end more than themselves."""


def judged(chosen: list[Part], root: Path, device: str) -> Counter[str]:
    """How many were judged ("right") and how many wrongly called; a line for each of these."""
    run = profile(
        written(chosen[0].task, chosen, root / f"I{chosen[0].task.upper()}"),
        runs=root / "runs",
        **{**RUN, "device": device},
    )
    found: Counter[str] = Counter()
    for part in chosen:
        wrong = wrongly_called(run, part)
        found["wrong" if wrong else "right"] += 1
        if wrong:
            verdict = run.verdicts.get(part.name)
            line = verdict.text() if verdict else ""
            print(f"  {part.role} {part.task}/{part.name}: {', '.join(sorted(wrong))}: {line}", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--role", action="append", choices=["cheat", "honest"], help="both by default")
    parser.add_argument("--task", action="append", choices=TASKS, help="all by default")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--device", choices=sorted(ELSEWHERE), default="cpu")
    parser.add_argument("--seconds", type=float, default=1e9)
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    end, missed, wrong = time.monotonic() + asked.seconds, 0, 0
    tasks = [task for task in asked.task or TASKS if task not in ELSEWHERE[asked.device]]
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="profkit-")))
        os.environ["PROFKIT_CACHE"] = str(root / "cache")
        stack.enter_context(busy(asked.busy))
        stack.enter_context(warm.runners())
        for role in asked.role or ["cheat", "honest"]:
            found: Counter[str] = Counter()
            names: set[tuple[str, str]] = set()
            for turn in range(asked.times):
                for task in tasks:
                    chosen = [part for part in parts(task) if part.role == role]
                    if not chosen:
                        continue
                    if time.monotonic() > end:
                        missed += 1
                        continue
                    found += judged(chosen, root / f"{role}-{turn}-{task}", asked.device)
                    names |= {(part.task, part.name) for part in chosen}
            wrong += found["wrong"]
            beside = f" beside {asked.busy} busy processes" if asked.busy else ""
            print(
                f"{role}: {len(names)} candidates on {asked.device}{beside}, judged {found.total()} times, {found['wrong']} times wrongly called",
                flush=True,
            )
    if missed:
        print(f"{missed} tasks not reached in time")
    return int(bool(wrong or missed))


if __name__ == "__main__":
    sys.exit(main())
