"""Other people's exports: read, import, report and page for each file of a folder, beside an independent reading.

    python benchmarks/corpus_exports.py FOLDER... [--fetch] [--limit 120] [--pictures 10] [--json OUT] [--verbose]

--fetch puts the files of corpus_exports.txt (repositories of GitHub, each with its commit) into the first folder.
Run it from a copy that nobody changes meanwhile. With --json the results are kept as they come, and a second run goes on
where the first was stopped. Each file goes through a process of its own, forked from one that has loaded everything; the pictures,
which cost most, are drawn for every tenth. "refused" is an error of the error tree, with a
fix; anything else that is raised is a traceback and a bug. The independent reading adds up launches, blocks, GPU time and
eight counters with Python's csv, json and sqlite3 modules (for .ncu-rep NVIDIA's reader) and nothing of collectors/; files of forms
that it does not know are counted as "not compared".
Prints a table by kind of file, then every traceback and every difference; the exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gzip
import itertools
import json
import math
import os
import re
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

UNITS = {"nsecond": 1e-9, "ns": 1e-9, "usecond": 1e-6, "us": 1e-6, "msecond": 1e-3, "ms": 1e-3, "second": 1.0, "s": 1.0}
TIMES = ("gpu__time_duration.sum", "gpu__time_duration.avg", "Duration")
NCU: dict[str, tuple[tuple[str, ...], float]] = {
    "time": (TIMES, 1.0),
    "registers": (("launch__registers_per_thread", "Registers Per Thread"), 1.0),
    "occupancy": (("sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy"), 0.01),
    "occupancy_limit": (("sm__maximum_warps_per_active_cycle_pct", "Theoretical Occupancy"), 0.01),
    "limit_registers": (("launch__occupancy_limit_registers", "Block Limit Registers"), 1.0),
    "l1_hit_rate": (("l1tex__t_sector_hit_rate.pct", "L1/TEX Hit Rate"), 0.01),
    "l2_hit_rate": (("lts__t_sector_hit_rate.pct", "L2 Hit Rate"), 0.01),
    "active_warps": (("smsp__warps_active.avg.per_cycle_active", "Active Warps Per Scheduler"), 1.0),
    "eligible_warps": (("smsp__warps_eligible.avg.per_cycle_active", "Eligible Warps Per Scheduler"), 1.0),
}
"""Figures that are added up over the launches: what ncu calls them, and how much one of its units is."""
Figures = dict[str, float]
LIST = Path(__file__).with_suffix(".txt")


# ---- the independent reading -----------------------------------------------------------------------------------------


def independent(path: Path) -> Figures:
    """Sums over the launches of a file, by what is known here of its form; {} for a form that is not known."""
    if path.suffix == ".sqlite":
        return _sqlite(path)
    if path.suffix == ".ncu-rep":
        return _report(path)
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig", "replace")
    if ".json" in path.name:
        return _json(json.loads(text))
    lines = [line for line in text.split("\n") if not line.startswith("==")]
    for at, line in enumerate(lines[:5000]):
        header = next(csv.reader([line.rstrip("\r")]), [])
        for marks, sums in FORMS:
            if marks <= set(header):
                return sums(header, [row for row in csv.reader(lines[at + 1 :]) if len(row) > 4 and row != header])
    return _printed(lines) or _page(lines)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _blocks(size: str) -> float:
    return math.prod(int(one) for one in re.findall(r"\d+", size))


def _ncu_raw(header: list[str], rows: list[list[str]]) -> Figures:
    units, *launches = rows
    found = {"launches": float(len(launches))}
    for figure, (names, scale) in NCU.items():
        at = next((header.index(name) for name in names if name in header), -1)
        cells = [row[at] for row in launches if re.fullmatch(r"[\d.,e+-]+", row[at])] if at >= 0 else []
        if cells:
            found[figure] = sum(map(_number, cells)) * (UNITS[units[at]] if figure == "time" else scale)
    if "Grid Size" in header:
        found["blocks"] = sum(_blocks(row[header.index("Grid Size")]) for row in launches)
    return found


def _ncu_details(header: list[str], rows: list[list[str]]) -> Figures:
    key = [header.index(name) for name in ("ID", "Process ID")]
    name, unit, value = (header.index(f"Metric {part}") for part in ("Name", "Unit", "Value"))
    grids = {tuple(row[at] for at in key): row for row in rows}
    found = {"launches": float(len(grids))}
    if "Grid Size" in header:
        found["blocks"] = sum(_blocks(row[header.index("Grid Size")]) for row in grids.values())
    for figure, (names, scale) in NCU.items():
        known: dict[tuple[str, ...], float] = {}
        for wanted in names:
            for row in rows:
                if len(row) > value and row[name] == wanted and re.fullmatch(r"[\d.,e+-]+", row[value]):
                    one = UNITS[row[unit]] if figure == "time" else scale
                    known.setdefault(tuple(row[at] for at in key), _number(row[value]) * one)
        if known:
            found[figure] = sum(known.values())
    return found


def _printed(lines: list[str]) -> Figures:
    """What trtexec printed, and tables of nsys with a ruler of dashes."""
    text, found = "\n".join(lines), Figures()
    if runs := re.search(r"=== Profile \((\d+) iterations", text):
        row = re.search(r"(?:\bTotal +([\d.]+) |\] +([\d.]+) .* Total *$)", text[runs.end() :], re.M)
        return {"rough_time": float(row[1] or row[2]) / 1e3 / int(runs[1])} if row else {}
    if mean := re.search(r"GPU Compute Time: min = .*?mean = ([\d.e-]+) ms", text):
        return {"launches": 1.0, "time": float(mean[1]) / 1e3}
    for at, line in enumerate(lines[1:], start=1):
        title = lines[at - 1]
        told = "Total Time (ns)" in title and re.search(r"Instances .*Name|Operations? *$", title)
        if told and "Range" not in title and re.fullmatch(r" *-{2,}(?: +-{2,})+\s*", line):
            rows = itertools.takewhile(str.strip, lines[at + 1 :])
            for cells in (row.split() for row in rows):
                found["time"] = found.get("time", 0.0) + _number(cells[1]) / 1e9
                found["launches"] = found.get("launches", 0.0) + _number(cells[2])
    return found


def _page(lines: list[str]) -> Figures:
    """Pages for people: of ncu the rows that give a launch's duration, of nvprof the means of a counter by kernel."""
    rows = (re.fullmatch(r"\s{2,}(?:Duration|gpu__time_duration\.sum)\s+(\w+)\s+([\d.,]+)\s*", line) for line in lines)
    times = [_number(row[2]) * UNITS[row[1]] for row in rows if row]
    rows = (re.fullmatch(r"\s*(\d+)\s+achieved_occupancy\s.*\s([\d.]+)\s*", line) for line in lines)
    busy = [(int(row[1]), float(row[2])) for row in rows if row]
    counted = {"launches": float(sum(n for n, _ in busy)), "occupancy": sum(n * mean for n, mean in busy)}
    own = "\n".join(lines).partition("API calls:")[0]
    found = re.findall(r"^.*?[\d.]+%\s+([\d.]+)(ns|us|ms|s)\s+(\d+)\s+[\d.]+(?:ns|us|ms|s)\s", own, re.M)
    summed = {
        "rough_time": sum(float(cell) * UNITS[unit] for cell, unit, _ in found),
        "launches": float(sum(int(calls) for *_, calls in found)),
    }
    return {"time": sum(times)} if times else counted if busy else summed if found else {}


def _json(told: Any) -> Figures:
    """A trace of torch.profiler, or trtexec's profile."""
    if isinstance(told, list):
        layers = [one["averageMs"] for one in told if "averageMs" in one]
        return {"launches": float(len(layers)), "time": sum(layers) / 1e3} if layers else {}
    kernels = [one["dur"] for one in told["traceEvents"] if one.get("ph") == "X" and one.get("cat") == "kernel"]
    return {"kernels": float(len(kernels)), "kernel_time": sum(map(float, kernels)) / 1e6}


def _dispatches(begin: str, end: str, number: str) -> Callable[[list[str], list[list[str]]], Figures]:
    """Of AMD's tables, which may tell of a dispatch once a counter."""

    def total(header: list[str], rows: list[list[str]]) -> Figures:
        first, last, key = (header.index(name) for name in (begin, end, number))
        times = {row[key]: float(row[last]) - float(row[first]) for row in rows}
        return {"launches": float(len(times)), "time": sum(times.values()) / 1e9}

    return total


def _nvprof_trace(header: list[str], rows: list[list[str]]) -> Figures:
    at = header.index("Duration")
    kept = [row for row in rows[1:] if not re.match(r"\[Unified Memory (?!Memcpy)", row[-1])]
    return {"launches": float(len(kept)), "time": sum(float(row[at]) for row in kept) * UNITS[rows[0][at]]}


def _nvprof_metrics(header: list[str], rows: list[list[str]]) -> Figures:
    calls, name, mean = (header.index(one) for one in ("Invocations", "Metric Name", "Avg"))
    busy = [(int(row[calls]), float(row[mean])) for row in rows if row[name] == "achieved_occupancy"]
    both = {"launches": float(sum(n for n, _ in busy)), "occupancy": sum(n * share for n, share in busy)}
    return both if busy else {}


def _sqlite(path: Path) -> Figures:
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
        count, total = base.execute("SELECT COUNT(*), SUM(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    return {"kernels": float(count), "kernel_time": total / 1e9}


def _report(path: Path) -> Figures:
    """By NVIDIA's reader, asked for one metric after the other."""
    try:
        import ncu_report
    except ImportError:
        return {}
    report = ncu_report.load_report(str(path))
    launches = [report[at][number] for at in range(len(report)) for number in range(len(report[at]))]
    found = {"launches": float(len(launches))}
    for figure, (names, scale) in NCU.items():
        metrics = [one for launch in launches if (one := launch.metric_by_name(names[0])) is not None]
        if metrics:
            unit = UNITS[metrics[0].unit()] if figure == "time" else scale
            found[figure] = sum(one.as_double() for one in metrics) * unit
    return found


def _column(name: str) -> Callable[[list[str], list[list[str]]], Figures]:
    def total(header: list[str], rows: list[list[str]]) -> Figures:
        at = header.index(name)
        return {"time": sum(_number(row[at]) for row in rows if len(row) == len(header)) / 1e9}

    return total


def _nvprof(header: list[str], rows: list[list[str]]) -> Figures:
    """Of the summary with a unit beside each number, or in a row of their own."""
    at = header.index("Time")
    units = rows[0] if not rows[0][at + 1] else [""] * len(header)
    rows = [row for row in rows if row[at + 1] and (not header.index("Time(%)") or row[0] == "GPU activities")]
    cells = [re.fullmatch(r"([\d.]+)(ns|us|ms|s)", row[at] + units[at]) for row in rows]
    return {
        "rough_time": sum(float(cell[1]) * UNITS[cell[2]] for cell in cells if cell),
        "launches": float(sum(int(row[at + 1]) for row in rows)),
    }


FORMS: tuple[tuple[set[str], Callable[[list[str], list[list[str]]], Figures]], ...] = (
    ({"ID", "Metric Name", "Metric Value"}, _ncu_details),
    ({"ID", "Process ID", "Kernel Name"}, _ncu_raw),
    ({"Total Time (ns)", "Instances", "Med (ns)", "Name"}, _column("Total Time (ns)")),
    ({"Duration (ns)", "GrdX", "Name"}, _column("Duration (ns)")),
    ({"Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name"}, _nvprof),
    ({"Start", "Duration", "Grid X"}, _nvprof_trace),
    ({"Device", "Kernel", "Invocations", "Metric Name", "Avg"}, _nvprof_metrics),
    *(
        ({begin, end, number}, _dispatches(begin, end, number))
        for begin, end in (("BeginNs", "EndNs"), ("Start_Timestamp", "End_Timestamp"))
        for number in ("Index", "Dispatch_Id", "Dispatch_ID")
    ),
)
"""A form by what must stand in its header, and how its figures add up."""


# ---- fetching --------------------------------------------------------------------------------------------------------


def fetch(folder: Path, listed: Path = LIST, host: str = "https://github.com") -> list[str]:
    """Put the listed files into a folder, each by a name that says whence; those that are there stay. Returns what could
    not be had, a line a repository. The list: a line "owner/name commit", below it the paths, further in.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted: dict[tuple[str, str], list[str]] = {}
    paths: list[str] = []
    for line in listed.read_text("utf-8").splitlines():
        if line.startswith(" "):
            paths.append(line.strip())
        else:
            repository, commit = line.split()
            paths = wanted.setdefault((repository, commit), [])
    failed = []
    for (repository, commit), paths in wanted.items():
        names = {path: (f"{repository}__{path}".replace("/", "+", 1).replace("/", "__"))[-180:] for path in paths}
        missing = {path: folder / name for path, name in names.items() if not (folder / name).exists()}
        if missing and (why := _checked_out(f"{host}/{repository}", commit, missing)):
            failed.append(f"{repository}: {why}")
    return failed


def _checked_out(address: str, commit: str, wanted: dict[str, Path]) -> str:
    """Write files of a commit; why not, or ""."""
    with tempfile.TemporaryDirectory() as place:

        def git(*words: str) -> subprocess.CompletedProcess[bytes]:
            return subprocess.run(["git", "-C", place, *words], capture_output=True, check=False)

        git("init", "-q")
        if (done := git("fetch", "-q", "--depth", "1", "--filter=blob:none", address, commit)).returncode:
            return done.stderr.decode("utf-8", "replace").strip().splitlines()[-1]
        # Such a repository fetches the missing files itself, from where it was promised them.
        git("remote", "add", "origin", address)
        git("config", "remote.origin.promisor", "true")
        for path, target in wanted.items():
            if (done := git("cat-file", "blob", f"{commit}:{path}")).returncode:
                return f"{path}: {done.stderr.decode('utf-8', 'replace').strip()}"
            target.write_bytes(done.stdout)
    return ""


# ---- one file --------------------------------------------------------------------------------------------------------


def figures(frame: pd.DataFrame) -> Figures:
    """What `independent` adds up, of the frame that was read; what no launch has is left out."""
    counts = frame["instances"] if "instances" in frame else pd.Series(1, frame.index)
    found = {"launches": float(counts.sum())}
    for name in NCU:
        if name in frame and frame[name].notna().any():
            found[name] = float((frame[name] * counts).sum())
    grids = frame["grid"] if "grid" in frame else pd.Series("", frame.index)
    if len(frame) and (grids != "").all():
        found["blocks"] = float(sum(map(_blocks, grids)))
    if "time" in found:
        found["rough_time"] = found["time"]
        kernels = frame[frame["kind"] == "kernel"]
        found |= {"kernels": float(len(kernels)), "kernel_time": float(kernels["time"].sum())}
    return found


def handled(path: Path, folder: Path, pictures: bool) -> dict[str, Any]:
    """What becomes of one file: kind, outcome (read, refused, traceback), why, rows, and seconds of GPU time read."""
    from collectors import head_of, sniffed
    from collectors.errors import ProfkitError
    from profkit.record.importing import import_files
    from profkit.report.derived import metrics, write
    from profkit.report.page.run import page
    from profkit.report.writers import markdown, terminal
    from profkit.study.study import Study

    found: dict[str, Any] = {"kind": "unknown", "outcome": "read"}
    try:
        one = sniffed(head_of(path), path)
        found["kind"] = f"{one.name} {path.suffix.lstrip('.') or 'text'}"
        frame = one.read(path)
        found["rows"] = len(frame)
        found["figures"] = figures(frame)
        imported = import_files([path], folder / "run")
        study = Study(imported.run, imported.frames)
        metrics(study)
        markdown.report(study)
        terminal.summary(study)
        page(study)
        if pictures:
            write(study)
    except ProfkitError as error:
        found |= {"outcome": "refused", "why": f"{error} | fix: {error.fix}"}
    except BaseException:
        found |= {"outcome": "traceback", "why": traceback.format_exc()}
    return found


def in_a_fork(path: Path, limit: float, pictures: bool) -> dict[str, Any]:
    """`handled` in a process of its own, with its CPU seconds and peak memory [B]."""
    reading, writing = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if not child:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit)))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        with tempfile.TemporaryDirectory() as folder:
            found = handled(path, Path(folder), pictures)
        os.write(writing, json.dumps(found | {"why": found.get("why", "")[:20_000]}).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read()
    _, status, used = os.wait4(child, 0)
    found = json.loads(said) if said else {"kind": "unknown", "outcome": "traceback", "why": f"ended with {status}"}
    return found | {
        "file": path.name,
        "size": path.stat().st_size,
        "wall": time.monotonic() - began,
        "cpu": used.ru_utime + used.ru_stime,
        "peak": used.ru_maxrss * 1024,
    }


def compared(path: Path, found: dict[str, Any]) -> str:
    """same, different, or not compared; `found` is told the figures that differ."""
    if found["outcome"] != "read":
        return "not compared"
    try:
        said = independent(path)
    except (ValueError, KeyError, IndexError, csv.Error, sqlite3.Error):
        return "not compared"
    mine = found["figures"]
    both = [name for name in said if name in mine]
    # nvprof rounds the sum and the mean of its summary each for itself.
    near = {name: 2e-4 if name == "rough_time" else 1e-9 for name in both}
    other = [name for name in both if not math.isclose(said[name], mine[name], rel_tol=near[name], abs_tol=1e-12)]
    found |= {"figures_compared": len(both), "other": {name: [mine[name], said[name]] for name in other}}
    return "different" if other else "same" if both else "not compared"


def table(results: list[dict[str, Any]]) -> str:
    """Markdown: by kind of file how many were read, refused, ended in a traceback; same, different; seconds, memory."""
    lines = [
        "| kind | files | read | refused | tracebacks | same | different | CPU s, median and worst | peak MB, worst |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind in [*sorted({one["kind"] for one in results}), "all"]:
        part = [one for one in results if kind in (one["kind"], "all")]
        said = Counter(one["outcome"] for one in part)
        told = Counter(one["compared"] for one in part)
        seconds = sorted(one["cpu"] for one in part)
        counts = [said["read"], said["refused"], said["traceback"], told["same"], told["different"]]
        lines.append(
            f"| {kind} | {len(part)} | {' | '.join(map(str, counts))} | {seconds[len(part) // 2]:.2f}, {seconds[-1]:.1f} "
            f"| {max(one['peak'] for one in part) / 1e6:.0f} |"
        )
    return "\n".join(lines)


def each(results: list[dict[str, Any]]) -> str:
    """A line a file: outcome, comparison with how many figures, CPU seconds, peak memory."""
    lines = ["outcome   compared      figures  CPU s  peak MB  file"]
    for one in results:
        figures = one.get("figures_compared", 0)
        lines.append(
            f"{one['outcome']:<9} {one['compared']:<13} {figures:7} {one['cpu']:6.2f} {one['peak'] / 1e6:8.0f}  {one['file']}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--limit", type=float, default=120, help="CPU seconds a file")
    parser.add_argument("--pictures", type=int, default=10, help="draw the pictures of every so many files")
    parser.add_argument("--json", type=Path, help="write every result here, a line a file; go on where it ends")
    parser.add_argument("--each", type=Path, help="write a line a file here")
    parser.add_argument("--verbose", action="store_true", help="also why files were refused")
    parser.add_argument("--fetch", action="store_true", help="put the listed public files into the first folder before")
    given = parser.parse_args()
    if given.fetch and (failed := fetch(given.folders[0])):
        sys.exit("not fetched: " + "; ".join(failed))
    files = sorted(file for folder in given.folders for file in folder.rglob("*") if file.is_file())
    kept = given.json.read_text().splitlines() if given.json and given.json.exists() else []
    results: list[dict[str, Any]] = [json.loads(line) for line in kept]
    for path, found in zip(files, results, strict=False):
        found["compared"] = compared(path, found)
    with tempfile.TemporaryDirectory() as folder:
        handled(files[0], Path(folder), pictures=True)  # what loads and compiles at first use is shared by the forks
    for number, path in enumerate(files[len(results) :], start=len(results)):
        found = in_a_fork(path, given.limit, number % given.pictures == 0)
        found["compared"] = compared(path, found)
        results.append(found)
        if given.json:
            with given.json.open("a") as out:
                out.write(json.dumps(found) + "\n")
        if found["outcome"] == "traceback" or found["compared"] == "different":
            print(f"{path}: {found['outcome']}, {found['compared']}: {found.get('other')}")
            print(found.get("why", ""), flush=True)
        elif given.verbose and found["outcome"] == "refused":
            print(found["why"])
    if given.each:
        given.each.write_text(each(results) + "\n", "utf-8")
    print(table(results))
    return int(any(one["outcome"] == "traceback" or one["compared"] == "different" for one in results))


if __name__ == "__main__":
    sys.exit(main())
