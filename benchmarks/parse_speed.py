"""How fast exports are read, beside pandas, polars and duckdb doing the same group-by on the same file.

    python benchmarks/parse_speed.py [--size 500] [--ncu-size 120] [--kineto-size 314] [--rounds 3]
                                     [--section trace|sqlite|kineto|ncu]

Four files are generated: a GPU trace as `nsys stats` writes it, the same launches as a sqlite export, a trace of
torch.profiler with operators, shapes and calls, and a raw page of ncu with 300 metrics, a row of units, thousands
separators and n/a. Each reader runs in a fresh process; rounds are interleaved, a round before the first compiles the
modules. Of seconds and CPU seconds the median counts, of the peak memory of the process the most. All must find the
same launches and times by kernel (where types are wrong, the table says so). "profkit import" is the whole command: run
directory, report. "ratio": CPU seconds over those of the peer that stands under `PEER`. Peers that are not installed
are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import math
import os
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

HEADER = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),"
    "Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name"
)
TIME, NAME = "Duration (ns)", "Name"
NCU_TIME = "gpu__time_duration.sum"
METRICS = 300
Sums = dict[str, tuple[int, float]]


# ---- the files -------------------------------------------------------------------------------------------------------


def kernel_names() -> list[str]:
    """Fifty demangled names of 30 to 250 characters, as torch programs have them."""
    loads = (f"at::detail::Array<char *, {number}>" for number in range(2, 52))
    return [
        f"void at::native::elementwise_kernel<(int){16 * (at % 5)}, functor_{at}<float, {'float, ' * (at % 12)}T{at}>, "
        f"{load}>(int, T2, T3)"
        if at % 6
        else f"gemm_128x{at}_nn"
        for at, load in enumerate(loads)
    ]


def launches(size: int) -> Iterator[tuple[int, int, int, str]]:
    """(start, time, blocks, name) of about `size` bytes of trace rows."""
    chance, names = random.Random(7), kernel_names()
    begin, written = 6_392_140_333, 0
    while written < size:
        name, spent = chance.choice(names), chance.randrange(900, 60_000)
        begin += spent + chance.randrange(500, 3000)
        written += 92 + len(name)
        yield begin, spent, chance.randrange(1, 20_000), name


def write_trace(path: Path, size: int) -> None:
    with path.open("w") as out:
        out.write(HEADER + "\n")
        for at, (begin, spent, blocks, name) in enumerate(launches(size)):
            quoted = f'"{name}"' if "," in name else name
            out.write(
                f"{begin},{spent},{at + 100},{blocks},1,1,256,1,1,32,0.000,0.016,,,,,NVIDIA H200 (0),1,,7,{quoted}\n"
            )


def write_sqlite(path: Path, size: int) -> None:
    """The launches of write_trace with the tables and columns of a real export that carry them."""
    ids = {name: at for at, name in enumerate(kernel_names())}
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    base.executemany("INSERT INTO StringIds VALUES (?, ?)", [(at, name) for name, at in ids.items()])
    base.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, "
        "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, "
        "gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, "
        "registersPerThread INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER)"
    )
    base.executemany(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,0,1,7,?,281641842900992,?,?,?,1,1,256,1,1,32,0,16384)",
        (
            (begin, begin + spent, at + 100, ids[name], ids[name], blocks)
            for at, (begin, spent, blocks, name) in enumerate(launches(size))
        ),
    )
    base.commit()
    base.close()


def write_kineto(path: Path, size: int) -> None:
    """A trace as torch.profiler exports it with record_shapes: each launch with its operator, call and flow."""
    shape = '"Concrete Inputs": ["", "", "1"], "Input type": ["float", "float", "Scalar"], "Input Dims": [[%d, 64], [64], []]'
    with path.open("w") as out:
        out.write(
            '{\n  "schemaVersion": 1,\n  "deviceProperties": [\n    {\n      "id": 0, "name": "NVIDIA H200", '
            '"computeMajor": 9, "computeMinor": 0, "numSms": 132\n    }\n  ],\n  "traceEvents": ['
        )
        for at, (begin, spent, blocks, name) in enumerate(launches(size)):
            when, asked = begin / 1000, (begin - 9000) / 1000
            out.write(
                f"""{"," if at else ""}
  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::add_", "pid": 441, "tid": 441,
    "ts": {asked:.3f}, "dur": 8.125,
    "args": {{
      "External id": {at + 1},"Record function id": 0, {shape % blocks}, "Ev Idx": {at}
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 441, "tid": 441,
    "ts": {asked + 2:.3f}, "dur": 4.250,
    "args": {{
      "External id": {at + 1}, "cbid": 211, "correlation": {at + 100}
    }}
  }},
  {{
    "ph": "s", "id": {at + 100}, "pid": 441, "tid": 441, "ts": {asked + 2:.3f}, "cat": "ac2g", "name": "ac2g"
  }},
  {{
    "ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 7,
    "ts": {when:.3f}, "dur": {spent / 1000:.3f},
    "args": {{
      "External id": {at + 1}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {at + 100},
      "registers per thread": 32, "shared memory": 16384, "blocks per SM": {blocks / 132:.5f}, "warps per SM": 8.0,
      "grid": [{blocks}, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %": 50
    }}
  }},
  {{
    "ph": "f", "id": {at + 100}, "pid": 0, "tid": 7, "ts": {when:.3f}, "cat": "ac2g", "name": "ac2g", "bp": "e"
  }}"""
            )
            if out.tell() > size:
                break
        out.write('\n  ],\n  "traceName": "trace.json",\n  "displayTimeUnit": "ms"\n}\n')


def write_ncu(path: Path, size: int) -> None:
    """A raw page: long names, NCU_TIME and DRAM bytes among 300 metrics, some cells n/a, numbers with separators."""
    chance, names = random.Random(9), kernel_names()
    keys = [
        "ID",
        "Process ID",
        "Process Name",
        "Host Name",
        "Kernel Name",
        "Context",
        "Stream",
        "Block Size",
        "Grid Size",
        "Device",
        "CC",
    ]
    metrics = [NCU_TIME, "dram__bytes_read.sum", "dram__bytes_write.sum", "launch__registers_per_thread"]
    metrics += [
        f"smsp__filler_metric_{at:03d}.avg.pct_of_peak_sustained_active" for at in range(METRICS - len(metrics))
    ]
    units = ["nsecond", "byte", "byte", "register/thread", *["%"] * (METRICS - 4)]
    with path.open("w") as out:
        written = 0
        for row in ([*keys, *metrics], [*[""] * len(keys), *units]):
            written += out.write(",".join(f'"{cell}"' for cell in row) + "\n")
        tails = [[f"{chance.random() * 100:.2f}" for _ in range(METRICS - 5)] for _ in range(500)]
        at = 0
        while written < size:
            head = [
                at,
                441,
                "python",
                "127.0.0.1",
                chance.choice(names),
                1,
                7,
                "(256, 1, 1)",
                "(1,056, 1, 1)",
                0,
                "9.0",
            ]
            big = [
                f"{chance.randrange(1000, 90_000):,}",
                *(f"{chance.randrange(10**6, 10**9):,}" for _ in "ab"),
                32,
            ]
            cells = [*head, *big, "n/a" if at % 7 else "12.50", *tails[at % 500]]
            written += out.write(",".join(f'"{cell}"' for cell in cells) + "\n")
            at += 1


# ---- the readers: each returns {kernel: (launches, ns)} and a remark ------------------------------------------------


def by_pandas(path: Path, **options: Any) -> tuple[Sums, str]:
    import pandas as pd

    frame = pd.read_csv(path, **options)
    found = frame.groupby(NAME, observed=True)[TIME].agg(["size", "sum"])
    return {str(name): (int(n), float(total)) for name, n, total in found.itertuples()}, ""


def _of_polars(frame: Any) -> Sums:
    return {str(name): (int(n), float(total)) for name, n, total in frame.iter_rows()}


def by_polars(path: Path) -> tuple[Sums, str]:
    import polars as pl

    frame = pl.read_csv(path, infer_schema_length=10_000)
    return _of_polars(frame.group_by(NAME).agg(pl.len(), pl.col(TIME).sum())), ""


def by_polars_lazy(path: Path) -> tuple[Sums, str]:
    import polars as pl

    plan = pl.scan_csv(path, infer_schema_length=10_000).group_by(NAME).agg(pl.len(), pl.col(TIME).sum())
    return _of_polars(plan.collect(engine="streaming")), ""


def by_duckdb(path: Path) -> tuple[Sums, str]:
    import duckdb

    found = duckdb.sql(
        f"""SELECT "{NAME}", COUNT(*), SUM("{TIME}") FROM read_csv('{path}', header = true) GROUP BY 1"""
    ).fetchall()
    return {name: (int(n), float(total)) for name, n, total in found}, ""


def by_sql(path: Path) -> tuple[Sums, str]:
    base = sqlite3.connect(path)
    found = base.execute(
        "SELECT s.value, COUNT(*), SUM(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k "
        "JOIN StringIds s ON s.id = k.demangledName GROUP BY k.demangledName"
    ).fetchall()
    return {name: (n, float(total)) for name, n, total in found}, ""


def by_json(path: Path) -> tuple[Sums, str]:
    """All events as dicts, and a sum over the kernels."""
    with path.open("rb") as file:
        events = json.load(file)["traceEvents"]
    found: Sums = {}
    for one in events:
        if one.get("cat") == "kernel":
            count, total = found.get(one["name"], (0, 0.0))
            found[one["name"]] = count + 1, total + one["dur"] * 1000
    return found, ""


def by_profkit(path: Path) -> tuple[Sums, str]:
    """Every launch as a row of the launches frame, NVTX ranges and all: what users call."""
    import collectors

    frame = collectors.read(path)
    found = frame.groupby("kernel")["time"].agg(["size", "sum"])
    return {str(name): (int(n), round(total * 1e9)) for name, n, total in found.itertuples()}, "all launches"


def by_import(path: Path) -> tuple[Sums, str]:
    """The command, as a user gives it."""
    from profkit.cli.group import invoke

    with tempfile.TemporaryDirectory() as folder:
        if code := invoke(["import", str(path), "--quiet", "-o", str(Path(folder) / "run")]):
            raise RuntimeError(f"exit code {code}")
    return {}, "the whole command"


def ncu_by_pandas(path: Path) -> tuple[Sums, str]:
    import pandas as pd

    frame = pd.read_csv(path, low_memory=False)
    texts = sum(not pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes) - 6
    return {}, f"{texts} metrics left as text" if texts > 0 else ""


def ncu_by_pandas_tuned(path: Path) -> tuple[Sums, str]:
    import pandas as pd

    frame = pd.read_csv(path, skiprows=[1], thousands=",", na_values=["n/a"], low_memory=False)
    found = frame.groupby("Kernel Name")[NCU_TIME].agg(["size", "sum"])
    return {str(name): (int(n), float(total)) for name, n, total in found.itertuples()}, "told what to expect"


def ncu_by_polars(path: Path) -> tuple[Sums, str]:
    import polars as pl

    frame = pl.read_csv(path, infer_schema_length=10_000)
    texts = sum(kind == pl.String for kind in frame.dtypes) - 6
    return {}, f"{texts} metrics left as text" if texts > 0 else ""


def ncu_by_duckdb(path: Path) -> tuple[Sums, str]:
    import duckdb

    table = duckdb.sql(f"SELECT * FROM read_csv('{path}', header = true)")
    columns = table.fetchnumpy()
    texts = sum(str(values.dtype) in ("object", "str") for values in columns.values()) - 6
    return {}, f"{texts} metrics left as text" if texts > 0 else ""


Readers = dict[str, tuple[str, Callable[[Path], tuple[Sums, str]]]]
SECTIONS: dict[str, Readers] = {
    "trace": {
        "pandas.read_csv": ("pandas", by_pandas),
        "polars": ("polars", by_polars),
        "polars, streaming": ("polars", by_polars_lazy),
        "duckdb": ("duckdb", by_duckdb),
        "profkit": ("pandas", by_profkit),
        "profkit import": ("pandas", by_import),
    },
    "sqlite": {
        "SQL in Python": ("sqlite3", by_sql),
        "profkit": ("pandas", by_profkit),
    },
    "kineto": {
        "json.load": ("json", by_json),
        "profkit": ("pandas", by_profkit),
        "profkit import": ("pandas", by_import),
    },
    "ncu": {
        "pandas.read_csv": ("pandas", ncu_by_pandas),
        "pandas, tuned": ("pandas", ncu_by_pandas_tuned),
        "polars": ("polars", ncu_by_polars),
        "duckdb": ("duckdb", ncu_by_duckdb),
        "profkit": ("pandas", by_profkit),
    },
}
PEER = {"trace": "polars", "sqlite": "SQL in Python", "kineto": "json.load", "ncu": "polars"}


# ---- measuring -------------------------------------------------------------------------------------------------------


def child(section: str, reader: str, path: Path) -> None:
    """One reading in this process; prints JSON."""
    module, read = SECTIONS[section][reader]
    importlib.import_module(module)
    if reader.startswith("profkit"):
        drawn = ("profkit.report.derived", "profkit.study.study") if "import" in reader else ()
        for one in ("collectors.nsys", "collectors.kineto", "collectors.ncu", "pyarrow.csv", *drawn):
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(one)
    began, before = time.perf_counter(), time.process_time()
    sums, remark = read(path)
    seconds, cpu = time.perf_counter() - began, time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak, "sums": sums, "remark": remark}))


def measured(section: str, reader: str, path: Path) -> dict[str, Any]:
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(path.parent / "compiled")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    argv = [sys.executable, str(Path(__file__)), "--child", section, reader, str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1][:100] if done.stderr.strip() else "died"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def same(one: Sums, other: Sums) -> bool:
    return one.keys() == other.keys() and all(
        one[name][0] == other[name][0] and math.isclose(one[name][1], other[name][1], rel_tol=1e-9) for name in one
    )


def run(section: str, path: Path, size: float, rounds: int) -> None:
    readers = [name for name, (module, _) in SECTIONS[section].items() if importlib.util.find_spec(module)]
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in readers}
    with path.open("rb") as file:
        while file.read(1 << 20):  # into the page cache, for all alike; a child's peak starts at this process's
            pass
    for counted in [False] + [True] * rounds:
        for name in readers:
            found = measured(section, name, path)
            if counted:
                results[name].append(found)
    print(f"\n{section}: {path.name}, {path.stat().st_size / 1e6:.0f} MB, {rounds} rounds\n")
    print("| reader | MB/s | CPU s | ratio | peak MB | what |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    good = {name: found for name, found in results.items() if "failed" not in found[-1]}
    cpu = {name: statistics.median(one["cpu"] for one in found) for name, found in good.items()}
    truth = next((found[-1]["sums"] for found in good.values() if found[-1]["sums"]), {})
    for name in readers:
        if name not in good:
            print(f"| {name} | | | | | failed: {results[name][-1]['failed']} |")
            continue
        sums, remark = good[name][-1]["sums"], good[name][-1]["remark"]
        rate = size / statistics.median(one["seconds"] for one in good[name])
        peak = max(one["peak"] for one in good[name]) / 1e6
        equal = "" if not sums else "same sums" if same(sums, truth) else "OTHER SUMS"
        ratio = cpu[name] / cpu.get(PEER[section], math.nan)
        remark = ", ".join(filter(None, (equal, remark)))
        print(f"| {name} | {rate:.0f} | {cpu[name]:.2f} | {ratio:.2f} | {peak:.0f} | {remark} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--size", type=float, default=500, help="MB of the GPU trace")
    parser.add_argument("--ncu-size", type=float, default=120, help="MB of the raw page")
    parser.add_argument("--kineto-size", type=float, default=314, help="MB of torch.profiler's trace")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--section", choices=[*SECTIONS], action="append")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child[0], given.child[1], Path(given.child[2]))
        return
    wanted = given.section or [*SECTIONS]
    with tempfile.TemporaryDirectory() as folder:
        writers = {
            "trace": ("gpu_trace.csv", write_trace, given.size),
            "sqlite": ("export.sqlite", write_sqlite, given.size),
            "kineto": ("trace.json", write_kineto, given.kineto_size),
            "ncu": ("raw.csv", write_ncu, given.ncu_size),
        }
        for section in wanted:
            name, write, size = writers[section]
            write(Path(folder) / name, int(size * 1e6))
            # The sqlite rate is in MB of the CSV that holds the same launches.
            run(section, Path(folder) / name, size, given.rounds)
            (Path(folder) / name).unlink()
    found = [name for name in ("pandas", "polars", "duckdb", "pyarrow") if importlib.util.find_spec(name)]
    versions = ", ".join(f"{name} {importlib.import_module(name).__version__}" for name in found)
    print(f"\nPython {sys.version.split()[0]}, sqlite {sqlite3.sqlite_version}, {versions}")


if __name__ == "__main__":
    main()
