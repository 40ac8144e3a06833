"""Other people's exports: read, import, report and page for each file of a folder, beside an independent reading.

    python benchmarks/corpus_exports.py FOLDER... [--limit 120] [--pictures 10] [--json OUT] [--verbose]

Run it from a copy that nobody changes meanwhile. With --json the results are kept as they come, and a second run goes on
where the first was stopped. Each file goes through a process of its own, forked from one that has loaded everything; the pictures,
which cost most, are drawn for every tenth. "refused" is an error of the error tree, with a
fix; anything else that is raised is a traceback and a bug. The independent reading adds up GPU time with Python's csv
module and nothing of collectors/, from what it knows of five headers; files of other forms are counted as "not compared".
Prints a table by kind of file, then every traceback and every difference; the exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

UNITS = {"nsecond": 1e-9, "ns": 1e-9, "usecond": 1e-6, "us": 1e-6, "msecond": 1e-3, "ms": 1e-3, "second": 1.0, "s": 1.0}
TIMES = ("gpu__time_duration.sum", "gpu__time_duration.avg", "Duration")


# ---- the independent reading -----------------------------------------------------------------------------------------


def independent(path: Path) -> float | None:
    """Seconds of GPU time in all by plain csv; None for a form that is not known here."""
    lines = path.read_bytes().decode("utf-8-sig", "replace").split("\n")
    lines = [line for line in lines if not line.startswith("==")]
    for at, line in enumerate(lines[:5000]):
        header = next(csv.reader([line.rstrip("\r")]), [])
        for marks, total in FORMS:
            if marks <= set(header):
                return total(header, [row for row in csv.reader(lines[at + 1 :]) if len(row) > 4])
    return None


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _ncu_raw(header: list[str], rows: list[list[str]]) -> float | None:
    name = next((time for time in TIMES if time in header), "")
    if not name or not rows:
        return None
    at, unit = header.index(name), UNITS[rows[0][header.index(name)] or "ns"]
    return sum(_number(row[at]) for row in rows[1:]) * unit


def _ncu_details(header: list[str], rows: list[list[str]]) -> float | None:
    key = [header.index(name) for name in ("ID", "Process ID")]
    name, unit, value = (header.index(f"Metric {part}") for part in ("Name", "Unit", "Value"))
    found: dict[tuple[str, ...], float] = {}
    for wanted in TIMES:
        for row in rows:
            if len(row) > value and row[name] == wanted and row[unit] in UNITS:
                found.setdefault(tuple(row[at] for at in key), _number(row[value]) * UNITS[row[unit]])
    return sum(found.values()) if found else None


def _column(name: str) -> Callable[[list[str], list[list[str]]], float | None]:
    def total(header: list[str], rows: list[list[str]]) -> float | None:
        at = header.index(name)
        return sum(_number(row[at]) for row in rows if len(row) == len(header)) / 1e9

    return total


FORMS: tuple[tuple[set[str], Callable[[list[str], list[list[str]]], float | None]], ...] = (
    ({"ID", "Metric Name", "Metric Value"}, _ncu_details),
    ({"ID", "Process ID", "Kernel Name"}, _ncu_raw),
    ({"Total Time (ns)", "Instances", "Med (ns)", "Name"}, _column("Total Time (ns)")),
    ({"Duration (ns)", "GrdX", "Name"}, _column("Duration (ns)")),
)
"""A form by what must stand in its header, and how its GPU time adds up."""


# ---- one file --------------------------------------------------------------------------------------------------------


def handled(path: Path, folder: Path, pictures: bool) -> dict[str, Any]:
    """What becomes of one file: kind, outcome (read, refused, traceback), why, rows, and seconds of GPU time read."""
    from collectors import head_of, sniffed
    from collectors.errors import ProfkitError
    from profkit.record.importing import import_files
    from profkit.report.derived import write
    from profkit.report.writers import html, json, markdown, terminal
    from profkit.study.study import Study

    found: dict[str, Any] = {"kind": "unknown", "outcome": "read"}
    try:
        one = sniffed(head_of(path), path)
        found["kind"] = f"{one.name} {path.suffix.lstrip('.') or 'text'}"
        frame = one.read(path)
        found["rows"] = len(frame)
        if "time" in frame:
            counts = frame.get("instances", 1)
            found["time"] = float((frame["time"] * counts).sum(skipna=False))
        imported = import_files([path], folder / "run")
        study = Study(imported.run, imported.frames)
        json.metrics(study)
        markdown.report(study)
        terminal.summary(study)
        html.page(study)
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
    """same, different, or not compared."""
    if found["outcome"] != "read" or path.suffix in (".ncu-rep", ".sqlite", ".json"):
        return "not compared"
    try:
        total = independent(path)
    except (ValueError, KeyError, IndexError, csv.Error):
        return "not compared"
    if total is None or "time" not in found:
        return "not compared"
    found["independent"] = total
    return "same" if math.isclose(total, found["time"], rel_tol=1e-9, abs_tol=1e-12) else "different"


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--limit", type=float, default=120, help="CPU seconds a file")
    parser.add_argument("--pictures", type=int, default=10, help="draw the pictures of every so many files")
    parser.add_argument("--json", type=Path, help="write every result here, a line a file; go on where it ends")
    parser.add_argument("--verbose", action="store_true", help="also why files were refused")
    given = parser.parse_args()
    files = sorted(file for folder in given.folders for file in folder.rglob("*") if file.is_file())
    kept = given.json.read_text().splitlines() if given.json and given.json.exists() else []
    results: list[dict[str, Any]] = [json.loads(line) for line in kept]
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
            print(f"{path}: {found['outcome']}, {found['compared']}: {found.get('time')} {found.get('independent')}")
            print(found.get("why", ""), flush=True)
        elif given.verbose and found["outcome"] == "refused":
            print(found["why"])
    print(table(results))
    return int(any(one["outcome"] == "traceback" or one["compared"] == "different" for one in results))


if __name__ == "__main__":
    sys.exit(main())
