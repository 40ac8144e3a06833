"""Import foreign exports into a run directory, as if profkit had made it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collectors import CollectError, Format, Role, format_of, head_of, sniffed
from collectors.caveat import Caveat
from collectors.errors import NoLaunchesError
from collectors.frame import distinct
from collectors.nsys import RECORDINGS
from profkit.errors import ProfkitError
from profkit.launch import tools
from profkit.launch.protocol import Progress
from profkit.record.ceilings import KINDS, device_facts
from profkit.rundir.directory import RUNS, Run, create_run, now
from profkit.rundir.files import sha256, unwritable
from profkit.rundir.manifest import Capture, Command, Counters, FileRef, SampleInfo
from profkit.vendor.nvidia.nsys import export, failure
from roofline.device import find_spec

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "imported"
_AMD = re.compile(r"\bAMD\b|Radeon|Instinct|\bgfx\d")


@dataclass
class Imported:
    """The result of an import.

    `run`: from the readable files; `failures`: one error per other file; `frames`: the launches frame of each capture,
    for reuse by a Study.
    """

    run: Run
    failures: list[ProfkitError]
    frames: dict[str, pd.DataFrame]


@dataclass
class _Found:
    """One readable file: its frame (None for a report without launches) and its role."""

    path: Path
    format: Format
    role: Role
    rows: int
    companions: Mapping[str, Path]
    frame: pd.DataFrame | None = None

    def named(self, column: str) -> tuple[str, ...]:
        """Distinct values of a column."""
        return tuple(filter(None, distinct(self.frame[column]))) if self.frame is not None else ()

    def told(self, attribute: str) -> Any:
        """An attribute of the frame, () without."""
        return self.frame.attrs.get(attribute, ()) if self.frame is not None else ()

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """Product names."""
        return tuple(name for name in self.named("device") if not name.isdigit())


def import_files(
    files: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] | None = None,
    *,
    device: str = "",
    progress: Progress = lambda _: None,
) -> Imported:
    """Read `files` (formats found by content, see collectors.READERS) into a new run directory.

    output: the directory, missing or empty; by default one below profkit-runs. device: the GPU, if the exports do not
    name it. Files are copied unchanged. Raises the first file's error if none can be read; see Imported for the others.
    """
    target = Path(output) if output is not None else None
    if target is not None and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ProfkitError(f"{target} exists", fix="choose a new directory: -o NEW")
    with tempfile.TemporaryDirectory() as place:
        return _imported([Path(os.path.abspath(file)) for file in files], Path(place), target, device, progress)


def _imported(files: Sequence[Path], place: Path, target: Path | None, device: str, progress: Progress) -> Imported:
    """See import_files; place: a folder for the exports of recordings."""
    found: list[_Found] = []
    failures: list[ProfkitError] = []
    exports: list[Path] = []
    for file in files:
        try:
            exports.append(_exported(file, place, progress))
        except ProfkitError as error:
            failures.append(error)
    for path, kind, companions in _grouped(exports, failures):
        progress(f"reading {path.name} ({path.stat().st_size / 1e6:.3g} MB)")
        try:
            one = _look(path, kind, companions)
            _same_device([*found, one], device)
            found.append(one)
        except ProfkitError as error:
            failures.append(error)
    if not any(one.frame is not None for one in found):
        none = ProfkitError(
            f"{', '.join(f'{one.path.name} of {one.format.name}' for one in found)}: lists no kernels, copies or layers",
            fix="record GPU work (`nsys profile -t cuda`), and give its kernel report or trace",
        )
        raise [*failures, none][0]
    run = _made(target, found[0].path.stem)
    with contextlib.ExitStack() as undo:
        # The same command is to work once there is room.
        undo.callback(shutil.rmtree, run.path, ignore_errors=True)
        frames = _copied(run, found)
        manifest = run.manifest
        manifest.device = _device(found, device)
        manifest.counters = _counters(
            found, format_of("rocprof") if manifest.device["kind"] == "rocm" else found[0].format
        )
        manifest.commands = [Command("import", ["profkit", "import", *(one.path.name for one in found)])]
        manifest.caveats = [
            Caveat(f"a file could not be imported: {error}", "its launches are missing here", error.fix)
            for error in failures
        ]
        if manifest.counters.state == "collected" and (unused := _unused(found)):
            what = "metrics of the file that are not used here"
            manifest.caveats.append(Caveat(what, f"{len(unused)}, {_named(unused)}", "", "unused-metrics"))
        manifest.status, manifest.finished = "done", now()
        run.save()
        undo.pop_all()
    return Imported(run, failures, frames)


def _exported(file: Path, place: Path, progress: Progress) -> Path:
    """A recording by nsys exported to sqlite, if nsys is installed; any other file unchanged."""
    nsys = tools.find(tools.NSYS) if file.suffix.lower() in RECORDINGS and file.is_file() else None
    if nsys is None:
        return file
    progress(f"exporting {file.name} with nsys {nsys.text}")
    made = Path(tempfile.mkdtemp(dir=place)) / f"{file.stem}.sqlite"
    done = subprocess.run(export(nsys.path, file, made), capture_output=True, text=True, errors="replace", check=False)
    if not made.exists():
        why, fix = failure(done.stdout + done.stderr, file.with_suffix(""))
        raise ProfkitError(f"{file.name}: {why}", fix=fix)
    return made


def _grouped(files: Sequence[Path], failures: list[ProfkitError]) -> list[tuple[Path, Format, Mapping[str, Path]]]:
    """Each main file, in order, with format and companions; unknown formats to `failures`."""
    heads: dict[Format, dict[Path, str]] = {}
    for path in files:
        try:
            head = head_of(path)
            heads.setdefault(sniffed(head, path), {})[path] = head
        except CollectError as error:
            failures.append(error)
    groups = {path: (one, rest) for one, known in heads.items() for path, rest in one.companions(known).items()}
    return [(path, *groups[path]) for path in dict.fromkeys(files) if path in groups]


def _look(path: Path, kind: Format, companions: Mapping[str, Path]) -> _Found:
    """Read a file once, for both import and report. Raises CollectError."""
    try:
        frame = kind.read(path, **kind.options, **companions)
    except NoLaunchesError as error:
        if not error.rows:
            raise
        return _Found(path, kind, Role("report"), error.rows, {})
    return _Found(path, kind, kind.role(frame), len(frame), companions, frame)


def _same_device(found: Sequence[_Found], device: str) -> None:
    """Raise ProfkitError if the newest file's device differs from the others' or the user's."""
    last, first = found[-1], found[0]
    what, fix = "", "import each device's files into a run of its own"
    other = next((name for one in found for name in one.devices if name not in last.devices[:1]), "")
    if last.format.vendor != first.format.vendor:
        what = f"of a GPU by {last.format.vendor}, the rest by {first.format.vendor}"
    elif device and last.devices and find_spec(last.devices[0]) != find_spec(device):
        what, fix = f"recorded on {last.devices[0]}, not on {device}", "leave --device out"
    elif other and last.devices:
        what = f"recorded on {last.devices[0]}, the rest on {other}"
    if what:
        raise ProfkitError(f"{last.path.name}: {what}", fix=fix)


def _made(target: Path | None, name: str) -> Run:
    """A new run directory: the target, or one named `name` below profkit-runs."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", target.name if target is not None else name)
    run = create_run(SampleInfo(id=name or "import", path="", kind="import"), RUNS, target)
    (run.path / FOLDER).mkdir()
    return run


def _copied(run: Run, found: list[_Found]) -> dict[str, pd.DataFrame]:
    """Copy the files into the run and list them in the manifest; return frames by file."""
    captures, files = run.manifest.captures, run.manifest.sample.files
    frames: dict[str, pd.DataFrame] = {}
    best = min((one.role.detail for one in found if one.role.name == "times"), default=0)
    for one in found:
        copied = {kind: _copy(path, run) for kind, path in one.companions.items()}
        file = _copy(one.path, run)
        if one.frame is not None:
            frames[file] = one.frame
        # Of files that tell the same launches in more or less detail the most detailed counts.
        told = one.role.name == "times" and one.role.detail != best
        role = one.role.otherwise if told else one.role.name
        digest = files[file].sha256
        captures.append(Capture(file, one.format.name, role, one.path.name, digest, one.rows, copied))
    return frames


def _copy(path: Path, run: Run) -> str:
    """Copy a file under a free name; return its path."""
    files = run.manifest.sample.files
    names = (f"{FOLDER}/{path.stem}-{number}{path.suffix}" for number in count(2))
    file = next(name for name in chain([f"{FOLDER}/{path.name}"], names) if name not in files)
    try:
        shutil.copy2(path, run.path / file)
    except OSError as error:
        what = f"cannot copy {path} into {run.path}: {error.strerror or error}"
        raise ProfkitError(what, fix=unwritable(run.path, error).fix) from error
    files[file] = FileRef(file, sha256(run.path / file))
    return file


def _device(found: Sequence[_Found], device: str) -> dict[str, Any]:
    """The exports' device; the user's if they name none."""
    name = next((one.devices[0] for one in found if one.devices), device)
    if _of_a_cpu(found):
        return {"kind": "cpu", "name": name or "a CPU"}
    facts = [row for one in found for row in one.told("devices") if row.get("name") in one.devices]
    cc = next((cc for one in found for cc in one.named("cc")), "")
    label = name or (f"unknown device of compute capability {cc}" if cc else "unknown device")
    known: dict[str, Any] = {"cc": cc} if cc else {}
    vendor = "amd" if _AMD.search(label) else found[0].format.vendor
    return {"kind": KINDS.get(vendor, vendor), "name": label, **known, **device_facts(facts[0] if facts else {})}


def _of_a_cpu(found: Sequence[_Found]) -> bool:
    return all(one.frame is None or (one.frame["kind"] == "operator").all() for one in found)


def _counters(found: Sequence[_Found], counting: Format) -> Counters:
    tools = ", ".join(dict.fromkeys(one.format.name for one in found))
    if any(one.role.name in ("counters", "layers") for one in found):
        return Counters("collected", tool=tools, clock_control="unknown")
    if _of_a_cpu(found):
        return Counters("off", why="operators of a CPU were recorded, by their times alone", tool=tools)
    timed = any("time" in one.frame and one.frame["time"].notna().any() for one in found if one.frame is not None)
    held = "times alone" if timed else "neither times nor counters"
    if unused := _unused(found):
        held = f"{'times' if timed else 'no times'} and {len(unused)} metrics that are not used here: {_named(unused)}"
    return Counters("off", why=f"these exports ({tools}) hold {held}", tool=tools, fix=counting.remedy)


def _unused(found: Sequence[_Found]) -> list[str]:
    """Metrics of the files for which there is no counter."""
    return list(dict.fromkeys(name for one in found for name in one.told("untaken")))


def _named(metrics: Sequence[str]) -> str:
    return ", ".join([*metrics[:4], *(["..."] if len(metrics) > 4 else [])])
