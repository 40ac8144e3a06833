"""Does --perturb name what the counters name? The best candidate of each S1 sample, without and with counters.

    python benchmarks/perturb_vs_counters.py [--only ICAPYS,ICDQRM] [--recorded] [--limit 600]

needs an NVIDIA GPU; with --recorded the counters are those of examples/h200, else ncu counts on this machine. The
candidates are built first, side by side. Rows are printed as they come; a sample that is not reached within --limit
seconds is named.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from analyzers.records import plain
from profkit.api import profile
from profkit.launch import cache, gpu, protocol
from profkit.launch.protocol import Job, Subject
from profkit.rundir.files import temporary
from profkit.study.study import Study, open_study
from profkit.targets.sample import resolve

ROOT = Path(__file__).resolve().parent.parent
LATENCY = {"launch": "latency", "mixed": "latency"}
"""Words of the counters that are one thing to time alone."""


def built(samples: Sequence[Path]) -> None:
    """Compile all CUDA candidates at once into the cache that the runner uses."""
    found = [(c.path.resolve(), one.reference.resolve()) for one in map(resolve, samples) for c in one.candidates]
    files = [pair for pair in found if "load_inline" in pair[0].read_text("utf-8")]
    env = {"TORCH_CUDA_ARCH_LIST": gpu.compute_capability()} | os.environ
    with temporary() as place:
        started = []
        for number, (file, reference) in enumerate(files):
            told = Path(place) / f"{number}.json"
            subjects = [Subject(role, role, str(one)) for role, one in (("candidate", file), ("reference", reference))]
            protocol.write_job(Job("build", file.parent.name, subjects, cache=str(cache.builds())), told)
            started.append(subprocess.Popen(protocol.command(told, Path(os.devnull)), env=env))
        for one in started:
            one.wait()


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"# {what}: {time.monotonic() - began:.0f} s", flush=True)


def counted(study: Study, name: str) -> str:
    """What the counters call it."""
    word = str(study.analysis.impl(name)["bound_by"])
    return LATENCY.get(word, word)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("--runs", type=Path, default=Path("profkit-runs"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    end = time.monotonic() + options.limit
    samples = [one for one in sorted((ROOT / "S1").glob("IC*")) if not options.only or one.name in options.only]
    with timed("building"):
        built(samples)
    agreed, rows = 0, []
    for sample in samples:
        if time.monotonic() > end:
            print(f"{sample.name}: not reached")
            continue
        recorded = open_study(ROOT / "examples/h200" / sample.name)
        best = recorded.best.name if recorded.best is not None else ""
        with timed(sample.name):
            how = "off" if options.recorded else "ncu"
            quick = {"trials": 1, "budget": 0.4, "processes": 1}
            study = profile(sample, only=(best,), counters=how, perturb=True, runs=options.runs, **quick)
        one = study.inferred.get(best)
        if one is None:
            print(f"{sample.name} {best}: {study.manifest.impls[-1].status} {study.manifest.impls[-1].reason}")
            continue
        truth = counted(recorded if options.recorded else study, best)
        agreed += one.bound_by == truth
        rows.append({"sample": sample.name, "counters": truth, "stored": counted(recorded, best), **plain(one)})
        print(f"{sample.name} {best}: counters {truth}; {one.sure} {one.bound_by}; {one.text()}", flush=True)
    print(f"{agreed} of {len(samples)} as the counters say")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return int(agreed < 10)


if __name__ == "__main__":
    sys.exit(main())
