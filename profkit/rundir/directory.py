"""The run directory: all files of one measurement.

profkit-runs/<sample>/<UTC stamp>/
  run.json  timings.csv  ncu.csv  shapes/N/*  logs/*           collected, never edited
  metrics.json  kernels.csv  report.md  roofline.png  waterfall.png (and .svg)   derived, can be made again
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from profkit._version import __version__
from profkit.errors import ProfkitError
from profkit.rundir.files import owner, sweep, write_atomic
from profkit.rundir.manifest import Capture, Manifest, SampleInfo, read_manifest

RUNS = Path("profkit-runs")


@dataclass(frozen=True)
class Run:
    """Run directory on disk; only `save` writes it. A Study analyzes it."""

    path: Path
    manifest: Manifest

    @property
    def timings_csv(self) -> Path:
        return self.path / "timings.csv"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def captures(self) -> list[Capture]:
        """Files with launches: a sample's own if they exist, then those listed."""
        listed = list(self.manifest.captures)
        known = {(one.file, one.role) for one in listed}
        counted = self.manifest.counters.state == "collected"
        own = (Capture("ncu.csv", "ncu", "counters"),) if counted else ()
        before = (*own, Capture("cupti.csv", "cupti", "times")) if self.manifest.impls else ()
        return listed + [one for one in before if (one.file, one.role) not in known and (self.path / one.file).exists()]

    @property
    def finished(self) -> bool:
        """Whether it ended, or has a program's record or each implementation's result."""
        manifest = self.manifest
        ended = manifest.status not in ("running", "interrupted") and bool(manifest.impls)
        return ended or manifest.status == "done" or bool(manifest.captures)

    @property
    def gone(self) -> list[str]:
        """Missing files that run.json names: times, counters of a sample."""
        manifest = self.manifest
        timed = manifest.status == "done" and manifest.timing.rounds > 0
        counted = manifest.impls and manifest.counters.state == "collected" and manifest.counters.file
        told = [*([self.timings_csv.name] if timed else []), *([manifest.counters.file] if counted else [])]
        return [name for name in told if not (self.path / name).exists()]

    def annotations(self, tool: str) -> Path:
        """File for declared work of a program that runs under `tool`."""
        return self.path / f"{tool}.annotations.jsonl"

    def save(self) -> None:
        """Write run.json atomically."""
        write_atomic(self.path / "run.json", msgspec.json.format(msgspec.json.encode(self.manifest), indent=1))


def now() -> str:
    """UTC time, ISO 8601, whole seconds."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def places(folder: Path, stamp: str = "") -> Iterator[Path]:
    """Paths to try for a new run: the current second (or `stamp`), then numbered."""
    stamp = stamp or datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    yield folder / stamp
    yield from (folder / f"{stamp}-{number}" for number in range(2, 1000))


def create_run(sample: SampleInfo, root: str | os.PathLike[str], target: Path | None = None) -> Run:
    """Create a new run directory: `target`, else one under `root`/<sample id>."""
    for path in places(Path(root) / sample.id) if target is None else [target]:
        try:
            path.mkdir(parents=True, exist_ok=target is not None)
            (path / "logs").mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            option = "--runs DIR" if target is None and sample.kind != "import" else "-o RUN"
            raise ProfkitError(
                f"cannot make the run directory {path}: {error.strerror}",
                fix=f"choose a writable place with free space: {option}",
            ) from error
        if target is None:
            sweep(path.parent.glob("*/*-*"))
        run = Run(path, Manifest(sample=sample, created=now(), profkit=__version__, owner=owner()))
        run.save()
        return run
    raise ProfkitError(
        f"{Path(root) / sample.id} already has 1000 runs of this second", fix="choose another --runs DIR"
    )


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a run directory, or the newest finished run below `path`; warn of newer ones.

    Raises ProfkitError if there is none, or if run.json is broken or of an unknown schema.
    """
    folder = Path(path)
    if folder.name == "run.json":
        folder = folder.parent
    file = folder / "run.json"
    if not file.is_file():
        # Those of one second differ by the number at the end of their names.
        runs = sorted(find_runs(folder), key=lambda run: (run.manifest.created, len(run.path.name), run.path.name))
        if not runs:
            fix = "give a directory that `profkit profile` made, or of an export `profkit import`"
            raise ProfkitError(f"{folder}: no run.json here or below", fix=fix)
        newest = next((run for run in reversed(runs) if run.finished), runs[-1])
        if newest is not runs[-1]:
            told = f"{runs[-1].path} is unfinished ({runs[-1].manifest.status}): this is {newest.path}"
            warnings.warn(told, stacklevel=2)
        return newest
    return Run(folder, read_manifest(file))


def find_runs(root: Path) -> Iterator[Run]:
    """Readable runs below `root`, oldest first; hidden folders are skipped."""
    for file in sorted(root.rglob("run.json")):
        if any(part.startswith(".") for part in file.relative_to(root).parts):
            continue
        with contextlib.suppress(ProfkitError):
            yield Run(file.parent, read_manifest(file))
