"""What others published as fast kernels, and what profkit's first line says of each.

    python benchmarks/published_candidates.py prepare FOLDER [-n 48] [--l1 h100.json] [--board CLONE] [--bench CLONE]
    python benchmarks/published_candidates.py prepare FOLDER [-n 48] --hard CLONE
    python benchmarks/published_candidates.py run FOLDER -o TABLE.jsonl [--seconds 540] [--jobs 8] [--official SECONDS]

`prepare` needs the network (or clones that are there already) and no GPU: it puts a folder a candidate into FOLDER, with
what its authors claim of it. Nothing of it is kept in this repository. The candidates are those of CUDA-L1
(`optimized_cuda_code/h100.json` of github.com/deepreinforce-ai/CUDA-L1: a line a problem with reference, candidate and the
speed-up its authors measured) and of KernelBench's leaderboard (github.com/anneouyang/KernelBenchLeaderboard), without
those of a table in docs/recorded. `--board none` leaves the leaderboard out. With `--hard` they are the H100 solutions of kernelbench.com's hard suite instead
(github.com/Infatoshi/kernelbench.com), beside the word of that project's own check: FP8, delta attention, MoE, W4A16.

`run` needs a GPU and no network. It is one campaign, `profkit profile FOLDER/tasks --jobs N --events --budget 0.5 --trials 2`:
what has to be compiled is built ahead, each candidate is measured alone, and after `--seconds` the same command goes on where
it was stopped. `--official SECONDS` asks KernelBench's own evaluator as well, as far as that time goes, on as little as it can
be asked with (one correctness trial, ten timed ones). TABLE.jsonl holds a row a candidate, TABLE.md beside it is to be read.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kernelbench_official

L1 = "https://github.com/deepreinforce-ai/CUDA-L1"
BOARD = "https://github.com/anneouyang/KernelBenchLeaderboard"
BENCH = "https://github.com/ScalingIntelligence/KernelBench"
COMPILED = 20
"""Candidates with an extension of their own; each costs a compiler the better part of a minute."""
SMALLER = {"06_sonic_moe_swiglu": {"T_total": 4096, "H": 2048, "I": 1024, "E": 64, "K": 4}}
"""The shape of the suite's own sweep where its headline one needs 12 GB of inputs and weights."""
COLUMNS = ("candidate", "claimed", "official", "word", "speedup", "line")
TASKS = "tasks"


def main() -> None:
    asked = arguments()
    if asked.verb == "prepare":
        print(f"{prepare(asked)} candidates in {asked.folder}")
    else:
        run(asked)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("prepare")
    verb.add_argument("folder", type=Path)
    verb.add_argument("-n", type=int, default=48)
    for name in ("--l1", "--board", "--bench", "--hard"):
        verb.add_argument(name, type=Path)
    verb = verbs.add_parser("run")
    verb.add_argument("folder", type=Path)
    verb.add_argument("-o", "--output", type=Path, required=True)
    verb.add_argument("--seconds", type=float, default=540.0)
    verb.add_argument("--jobs", type=int, default=8)
    verb.add_argument("--official", type=float, default=0.0, metavar="SECONDS")
    verb.add_argument("--budget", type=float, default=0.5)
    verb.add_argument("--trials", type=int, default=2)
    verb.add_argument("--device", default="cuda")
    verb.add_argument("--runs", type=Path)
    return parser.parse_args()


# Preparing


def prepare(asked: argparse.Namespace) -> int:
    """Write the folders and claims.json, the order in which they are measured; how many there are."""
    with tempfile.TemporaryDirectory() as temporary:
        found = of_hard(asked.hard, asked.n) if asked.hard else of_both(asked, temporary)
    for one in found:
        folder = asked.folder / TASKS / one["candidate"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "reference.py").write_text(one.pop("reference"), "utf-8")
        (folder / "published.py").write_text(one.pop("source"), "utf-8")
    (asked.folder / "claims.json").write_text(json.dumps(found, indent=1), "utf-8")
    return len(found)


def of_both(asked: argparse.Namespace, temporary: str) -> list[dict[str, Any]]:
    """CUDA-L1 and the leaderboard; KernelBench's evaluator is put beside them."""
    file = asked.l1 or cloned(L1, temporary) / "optimized_cuda_code/h100.json"
    board = asked.board or cloned(BOARD, temporary)
    others = [] if board.name == "none" else [*of_board(board)]
    bench = asked.bench or cloned(BENCH, temporary)
    source = bench / "src/kernelbench"
    for one in source.rglob("*.py") if source.exists() else ():
        to = asked.folder / "KernelBench/src/kernelbench" / one.relative_to(source)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(one.read_bytes())
    return spread([*of_l1(file)], others, asked.n)


def of_hard(clone: Path, count: int) -> list[dict[str, Any]]:
    """By turns one of each problem, with the word of the suite's own check as the claim."""
    problems = clone / "benchmarks/hard/problems-h100"
    found: dict[str, list[dict[str, Any]]] = {}
    for file in sorted((clone / "public/runs/h100").glob("*_solution.py.txt")):
        run_id = file.name.removesuffix("_solution.py.txt")
        problem = next((one.name for one in problems.iterdir() if run_id.endswith(one.name)), None)
        detail = clone / f"public/data/rundetail/h100/{run_id}.json"
        if problem is None or not detail.exists():
            continue
        correct = json.loads(detail.read_text("utf-8"))["correct"]
        reference = (problems / problem / "reference.py").read_text("utf-8")
        for name, size in SMALLER.get(problem, {}).items():
            reference = re.sub(rf"(?m)^{name} = \d+", f"{name} = {size}", reference)
        of_problem = found.setdefault(problem, [])
        of_problem.append(
            {
                "candidate": f"{len(of_problem):02}_{problem.partition('_')[2]}",
                "claimed": "correct" if correct else "not correct",
                "run": run_id,
                "reference": reference,
                "source": re.sub(r"\bModel\b", "ModelNew", file.read_text("utf-8")),
            }
        )
    turns = itertools.zip_longest(*found.values())
    return [one for turn in turns for one in turn if one is not None][:count]


def cloned(url: str, folder: str) -> Path:
    to = Path(folder) / url.rpartition("/")[2]
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", url, str(to)], check=True)
    return to


def of_l1(file: Path) -> Iterator[dict[str, Any]]:
    """The unlisted ones; a row whose source has no ModelNew (None, or the text "None") is no candidate."""
    recorded = Path(__file__).parents[1] / "docs/recorded"
    tables = [recorded / name for name in ("published.txt", "samples_per_hour.txt", "samples_per_hour_torch.txt")]
    met = {name.replace("/", "_") for table in tables for name in re.findall(r"L\d[/_]\d+", table.read_text("utf-8"))}
    for line in filter(str.strip, file.read_text("utf-8").splitlines()):
        row = json.loads(line)
        name = f"L{row['level_id']}_{row['task_id']}"
        if name not in met and row["ref_code"] and "class ModelNew" in (row["custom_code"] or ""):
            yield {
                "candidate": name + "_cuda-l1",
                "claimed": float(row["score_default"] or "nan"),
                "reference": row["ref_code"],
                "source": row["custom_code"],
            }


def of_board(clone: Path) -> Iterator[dict[str, Any]]:
    """The fastest of each problem first, the most claimed at the top."""
    assets = clone / "docs/assets"
    best = []
    for title, entries in json.loads((assets / "data.json").read_text("utf-8")).items():
        if not entries:
            continue
        level, _, problem = title.removeprefix("Level ").partition(": ")
        name = f"L{level}_{problem.partition('_')[0]}"
        reference = assets / f"problems/{name.lower().replace('_', '_p')}.py"
        entry = max(entries, key=lambda one: one["torch_speedup"])
        best.append((entry, name, reference, assets / f"solutions/{entry['file']}.py"))
    for entry, name, reference, source in sorted(best, key=lambda one: -one[0]["torch_speedup"]):
        if reference.exists() and source.exists():
            yield {
                "candidate": f"{name}_{entry['display_name']}",
                "claimed": float(entry["torch_speedup"]),
                "reference": reference.read_text("utf-8"),
                "source": source.read_text("utf-8"),
            }


def spread(ours: list[dict[str, Any]], others: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Every k-th of both by turns, no more than COMPILED with a compiler's work."""
    thin = [several[:: max(1, len(several) // count)] for several in (ours, others)]
    turns = [one for pair in itertools.zip_longest(*thin) for one in pair if one]
    chosen: dict[str, dict[str, Any]] = {}
    for one in [*turns, *ours, *others]:
        built = sum("load_inline" in other["source"] for other in chosen.values())
        if len(chosen) < count and ("load_inline" not in one["source"] or built < COMPILED):
            chosen.setdefault(one["candidate"], one)
    return list(chosen.values())


# Measuring


def run(asked: argparse.Namespace) -> None:
    every = json.loads((asked.folder / "claims.json").read_text("utf-8"))
    runs = asked.runs or asked.output.with_name("runs")
    os.environ.setdefault("PROFKIT_CACHE", str(asked.output.with_name("cache").resolve()))
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "profkit", "profile", str(asked.folder / TASKS), "--events"]
    argv += ["--jobs", str(asked.jobs), "--device", asked.device, "--runs", str(runs)]
    argv += ["--budget", str(asked.budget), "--trials", str(asked.trials)]
    if (asked.folder / "KernelBench").exists():
        argv += ["--mode", "train"]  # As KernelBench calls modules: as they were constructed.
    began = time.monotonic()
    campaign = subprocess.Popen(argv)
    try:
        campaign.wait(asked.seconds)
    except subprocess.TimeoutExpired:
        # The same command goes on where this one stops.
        campaign.send_signal(signal.SIGINT)
        campaign.wait()
    seconds = time.monotonic() - began
    rows = [row for one in every if (row := row_of(one, runs)) is not None]
    end = time.monotonic() + asked.official
    for row in rows:
        row["official"] = official(asked, row) if time.monotonic() < end else "-"
    write(asked.output, rows)
    words = [row["word"] for row in rows]
    print(asked.output.with_suffix(".md").read_text("utf-8"))
    print(
        f"{len(rows)} of {len(every)}, {seconds:.0f} s: "
        + ", ".join(f"{words.count(w)} {w}" for w in dict.fromkeys(words))
    )


def row_of(one: dict[str, Any], runs: Path) -> dict[str, Any] | None:
    """profkit's verdict in the newest run of one candidate that is whole; None where there is none."""
    from profkit.errors import ProfkitError
    from profkit.study.study import open_study

    for folder in sorted((runs / one["candidate"]).glob("*"), reverse=True):
        try:
            study = open_study(folder)
        except ProfkitError:
            continue
        found = [verdict.to_dict() for verdict in study.verdicts.values()]
        if not found or study.manifest.status != "done":
            continue
        first = found[0]
        return {
            **one,
            "word": first["word"],
            "speedup": f"{first['speedup']:.3g}x" if first["speedup"] else "-",
            "line": first["line"],
            "conditions": [each["code"] for each in first["conditions"]],
            "caveats": [caveat.what for caveat in study.analysis.caveats],
        }
    return None


def write(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    head = f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}\n"
    file.with_suffix(".md").write_text(head + "".join(said(row) + "\n" for row in rows), "utf-8")


def said(row: dict[str, Any]) -> str:
    return "| " + " | ".join(str(row[name]).replace("|", "/").replace("\n", " ") for name in COLUMNS) + " |"


def official(asked: argparse.Namespace, one: dict[str, Any]) -> str:
    """What KernelBench's own evaluator makes of it, in a few words."""
    from profkit.guest.build.loading import build_key
    from profkit.launch import cache

    folder = asked.folder / TASKS / one["candidate"]
    source = (folder / "published.py").read_text("utf-8")
    told = {"name": one["candidate"], "reference": (folder / "reference.py").read_text("utf-8")}
    told |= {"candidate": source, "backend": "cuda", "trials": 1, "perf_trials": 10}
    # What profkit built is not built again: the same directory, the same flags.
    where = {"TORCH_EXTENSIONS_DIR": str(cache.builds() / build_key(folder / "published.py"))}
    with tempfile.TemporaryDirectory() as scratch:
        found = kernelbench_official.ask(asked.folder / "KernelBench", told, Path(scratch), 90.0, os.environ | where)
    if found.get("correct"):
        return f"correct, {found['baseline']['mean'] / found['runtime']:.3g}x"
    return "wrong" if found.get("correct") is False else f"none: {found.get('raised', '')[:60]}"


if __name__ == "__main__":
    main()
