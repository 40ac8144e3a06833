"""Somebody else's exports -> a run directory, as if profkit had made it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collectors import CollectError, Format, Role, head_of, sniffed
from collectors.caveat import Caveat
from collectors.errors import NoLaunchesError
from collectors.frame import distinct
from collectors.ncu import source
from collectors.ncu.rep import is_report
from collectors.nsys.scrub import scrub as write_scrubbed
from profkit.errors import ProfkitError
from profkit.record.ceilings import KINDS, device_facts
from profkit.rundir.directory import RUNS, Run, create_run, now
from profkit.rundir.files import sha256
from profkit.rundir.manifest import Capture, Command, Counters, FileRef, Manifest, SampleInfo
from roofline.device import find_spec

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "imported"


@dataclass
class Imported:
    """The result of an import.

    `run`: of the files that could be read; `failures`: one error for every other file; `frames`: the launches frame of each
    capture that was read for it, for a Study to take on.
    """

    run: Run
    failures: list[ProfkitError] = field(default_factory=list)
    frames: dict[str, pd.DataFrame] = field(default_factory=dict)


@dataclass
class _Found:
    """One readable file: its frame (None for a report without launches) and what it is good for."""

    path: Path
    format: Format
    role: Role
    rows: int
    frame: pd.DataFrame | None = None
    companions: Mapping[str, Path] = field(default_factory=dict)

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """Product names."""
        names = distinct(self.frame["device"]) if self.frame is not None else ()
        return tuple(name for name in names if name and not name.isdigit())

    @property
    def cc(self) -> str:
        return next((cc for cc in distinct(self.frame["cc"]) if cc), "") if self.frame is not None else ""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the reader says of the device."""
        rows = self.frame.attrs.get("devices", ()) if self.frame is not None else ()
        return next((row for row in rows if row.get("name") in self.devices), {})


def import_files(
    files: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] | None = None,
    *,
    partial: bool = False,
    device: str = "",
    scrub: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Imported:
    """Read `files` (formats found by content, see collectors.READERS) into a new run directory.

    output: the directory, which must not be there or be empty; by default one below profkit-runs. partial: read
    cut files to their last whole row, with a caveat. device: the GPU, where the exports do not say. Files are
    copied as they are; with scrub nsys's sqlite exports without environment, host names and paths. progress is
    told of each step. Raises the first file's
    error when none can be read; see Imported for the others.
    """
    target = _free(output)
    found: list[_Found] = []
    failures: list[ProfkitError] = []
    for path, kind, companions in _grouped([Path(os.path.abspath(file)) for file in files], failures):
        progress(f"reading {path.name} ({_size(path)})")
        try:
            one = _look(path, kind, companions, partial)
            _same_device([*found, one], device)
            found.append(one)
        except ProfkitError as error:
            failures.append(error)
    if not any(one.frame is not None for one in found):
        raise (
            failures[0]
            if failures
            else ProfkitError(
                "nothing here lists kernels",
                fix="give an ncu export, an nsys trace or sqlite export, or a profile of trtexec",
            )
        )
    return _write(target, found, partial, device, failures, scrub)


def _free(output: str | os.PathLike[str] | None) -> Path | None:
    if output is None:
        return None
    target = Path(output)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ProfkitError(f"{target} exists", fix="name a directory that does not: -o NEW")
    return target


def _size(path: Path) -> str:
    try:
        return f"{path.stat().st_size / 1e6:.3g} MB"
    except OSError:
        return "missing"


def _grouped(files: Sequence[Path], failures: list[ProfkitError]) -> list[tuple[Path, Format, Mapping[str, Path]]]:
    """Each leading file, in order, with format and companions; unknown formats to `failures`."""
    heads: dict[Format, dict[Path, str]] = {}
    for path in files:
        try:
            head = head_of(path)
            heads.setdefault(sniffed(head, path), {})[path] = head
        except CollectError as error:
            failures.append(error)
    groups = {path: (one, rest) for one, known in heads.items() for path, rest in one.companions(known).items()}
    return [(path, *groups[path]) for path in dict.fromkeys(files) if path in groups]


def _look(path: Path, kind: Format, companions: Mapping[str, Path], partial: bool) -> _Found:
    """Read a file, once for the import and the report. Raises CollectError."""
    try:
        frame = kind.read(path, partial=partial, **kind.options, **companions)
    except NoLaunchesError as error:
        if not error.rows:
            raise
        return _Found(path, kind, Role("report"), error.rows)
    return _Found(path, kind, kind.role(frame), len(frame), frame, companions)


def _same_device(found: Sequence[_Found], device: str) -> None:
    """Raise ProfkitError when the newest file's device is not that of the others or of the user."""
    last = found[-1]
    known = {name for one in found[:-1] for name in one.devices}
    vendors = dict.fromkeys(one.format.vendor for one in found)
    if len(vendors) > 1:
        raise ProfkitError(
            f"{last.path.name}: of a GPU by {last.format.vendor}, the rest by {next(iter(vendors))}",
            fix="import each device's files into a run of its own",
        )
    spec = find_spec(device) if device else None
    if device and last.devices and find_spec(last.devices[0]) != spec:
        raise ProfkitError(
            f"{last.path.name}: recorded on {last.devices[0]}, not on {device}", fix="leave --device out"
        )
    if len(set(last.devices)) > 1 or (known and last.devices and not set(last.devices) <= known):
        others = sorted(known - set(last.devices)) or sorted(last.devices)[1:]
        raise ProfkitError(
            f"{last.path.name}: recorded on {last.devices[0]}, the rest on {', '.join(others)}",
            fix="import each device's files into a run of its own",
        )


def _write(
    target: Path | None,
    found: list[_Found],
    partial: bool,
    device: str,
    failures: list[ProfkitError],
    scrub: bool,
) -> Imported:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", target.name if target is not None else found[0].path.stem)
    sample = SampleInfo(id=name or "import", path="", kind="import")
    run = create_run(sample, RUNS) if target is None else _directory(target, sample)
    with contextlib.ExitStack() as undo:
        # The same command is to work once there is room.
        undo.callback(shutil.rmtree, run.path, ignore_errors=True)
        frames = _filled(run, found, partial, device, failures, scrub)
        undo.pop_all()
    return Imported(run, failures, frames)


def _filled(
    run: Run,
    found: list[_Found],
    partial: bool,
    device: str,
    failures: list[ProfkitError],
    scrub: bool,
) -> dict[str, pd.DataFrame]:
    """Copy the files into a new run and write its manifest; the frames by file."""
    manifest, sample = run.manifest, run.manifest.sample
    (run.path / FOLDER).mkdir()
    taken: set[str] = set()
    frames: dict[str, pd.DataFrame] = {}
    best = min((one.role.detail for one in found if one.role.name == "times"), default=0)
    for one in found:
        copied = {kind: _copy(path, run.path, taken, sample) for kind, path in one.companions.items()}
        clean = scrub and one.frame is not None and one.frame.attrs.get("report") == "sqlite"
        file = _copy(one.path, run.path, taken, sample, scrub=clean)
        # What the reader says of an export (its caveats) is scrubbed with the copy.
        if one.frame is not None and not clean:
            frames[file] = one.frame
        # Of files that tell the same launches in more or less detail the most detailed counts.
        told = one.role.name == "times" and one.role.detail != best
        role = one.role.otherwise if told else one.role.name
        digest = sample.files[file].sha256
        capture = Capture(file, one.format.name, role, one.path.name, digest, one.rows, copied, partial=partial)
        manifest.captures.append(capture)
        if one.format.name == "ncu" and is_report(run.path / file):
            # Its instructions, where they were sampled.
            with contextlib.suppress(CollectError):
                rows = sum(len(kernel.instructions) for kernel in source.read(run.path / file))
                manifest.captures.append(Capture(file, "ncu", "lines", one.path.name, digest, rows))
    manifest.device = _device(found, device)
    manifest.counters = _counters(found)
    manifest.commands = [Command("import", ["profkit", "import", *(one.path.name for one in found)])]
    manifest.caveats = [
        Caveat(f"a file could not be imported: {error}", "its launches are missing here", error.fix)
        for error in failures
    ]
    manifest.status, manifest.finished = "done", now()
    run.save()
    return frames


def _directory(target: Path, sample: SampleInfo) -> Run:
    from profkit._version import __version__

    try:
        target.mkdir(parents=True, exist_ok=True)
        (target / "logs").mkdir()
    except OSError as error:
        raise ProfkitError(
            f"cannot make {target}: {error.strerror}", fix="choose a writable place with room"
        ) from error
    return Run(target, Manifest(sample=sample, created=now(), profkit=__version__))


def _copy(path: Path, folder: Path, taken: set[str], sample: SampleInfo, *, scrub: bool = False) -> str:
    """Copy a file under a free name; its path. scrub: sqlite without machine and user."""
    name, number = path.name, 1
    while name in taken:
        number += 1
        name = f"{path.stem}-{number}{path.suffix}"
    taken.add(name)
    file = f"{FOLDER}/{name}"
    if scrub:
        write_scrubbed(path, folder / file)
    else:
        try:
            shutil.copy2(path, folder / file)
        except OSError as error:
            raise ProfkitError(
                f"cannot copy {path} into {folder}: {error.strerror or error}", fix="free some disk space"
            ) from error
    sample.files[file] = FileRef(file, sha256(folder / file))
    return file


def _device(found: Sequence[_Found], device: str) -> dict[str, Any]:
    """The device as the exports give it; the user's word where they give none."""
    name = next((one.devices[0] for one in found if one.devices), device)
    known = device_facts(next((one.facts for one in found if one.facts), {}))
    cc = next((one.cc for one in found if one.cc), "")
    if _of_a_cpu(found):
        return {"kind": "cpu", "name": name or "a CPU"}
    label = name or (f"unknown device of compute capability {cc}" if cc else "unknown device")
    return {
        "kind": KINDS.get(found[0].format.vendor, found[0].format.vendor),
        "name": label,
        **({"cc": cc} if cc else {}),
        **known,
    }


def _of_a_cpu(found: Sequence[_Found]) -> bool:
    return all(one.frame is None or (one.frame["kind"] == "operator").all() for one in found)


def _counters(found: Sequence[_Found]) -> Counters:
    tools = ", ".join(dict.fromkeys(one.format.name for one in found))
    if any(one.role.name in ("counters", "layers") for one in found):
        return Counters("collected", tool=tools, clock_control="unknown")
    if _of_a_cpu(found):
        return Counters("off", why="operators of a CPU were recorded, by their times alone", tool=tools)
    remedy = found[0].format.remedy
    frames = [one.frame for one in found if one.frame is not None]
    timed = any("time" in one and one["time"].notna().any() for one in frames)
    held = "times alone" if timed else "neither times nor counters"
    if untaken := [name for one in frames for name in one.attrs.get("untaken", ())]:
        names = ", ".join([*untaken[:4], *(["..."] if len(untaken) > 4 else [])])
        held = f"{'times' if timed else 'no times'} and {len(untaken)} metrics that are not used here: {names}"
    return Counters("off", why=f"these exports ({tools}) hold {held}", tool=tools, fix=remedy)
