"""One sample of a campaign and its stages: build ahead, then measure, report and deliver.

A run is made in a private folder of the campaign and becomes visible by one rename.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import socket
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from profkit.contests import formats
from profkit.contests.sources import pair
from profkit.errors import BUG, ProfkitError
from profkit.launch import cache, gpu, process, runner
from profkit.launch.alone import CPU, alone
from profkit.launch.environment import environment
from profkit.launch.protocol import LIMITS, Job, Subject, command, write_job
from profkit.launch.warm import Warm
from profkit.record.profile import expected_device
from profkit.record.request import Request
from profkit.report import derived
from profkit.report.sections.answer import first_lines
from profkit.rundir.directory import Run, open_run, places
from profkit.rundir.files import FULL, ROOM, temporary
from profkit.study.study import Study
from profkit.targets import backends
from profkit.targets.sample import resolve

_JOBS = "2"
_COMPILED = ("cuda", "cpp")
_NO_SPACE = os.strerror(FULL[0])
_SHORT = re.compile(r"out.of.memory|ALLOC_FAILED|MemoryAllocation|bad_alloc", re.I)
"""Out-of-memory errors of torch, CUDA and its libraries."""


class WorkItem(msgspec.Struct, frozen=True):
    """One sample of a campaign. `key`: digest of files and request; `label`: for people.

    `sample`: probable name of its runs; `path`: a sample's folder or a task in another format, or the reference of a
    `candidate` file. `built`: files with extensions to build ahead; `reference`: has their get_init_inputs().
    """

    key: str
    label: str
    sample: str
    path: str
    candidate: str = ""
    built: tuple[str, ...] = ()
    reference: str = ""

    def measure(self, request: Request) -> Study:
        """Raises ProfkitError as `profkit profile` does."""
        if not self.candidate:
            return formats.measure(Path(self.path), request)
        texts = (_text(Path(self.path)), _text(Path(self.candidate)))
        return pair(self.sample, *texts).measure(request)


def of_folder(path: Path, request: Request) -> WorkItem:
    """The item of a sample's folder, or of a task in another format."""
    built: tuple[str, ...] = ()
    reference = ""
    try:
        sample = resolve(path)
    except ProfkitError:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
    else:
        files = sorted(path.iterdir())
        chosen = [one for one in sample.candidates if not request.only or one.name in request.only]
        chosen = [one for one in chosen if one.runs_on("cpu" if request.device == "cpu" else "cuda")]
        reference = str(sample.reference.resolve())
        built = tuple(str(one.path.resolve()) for one in chosen if one.backend in _COMPILED)
    name = path.resolve().name
    key = _key(files, request, name)
    return WorkItem(key, str(path), name, str(path.resolve()), built=built, reference=reference)


def of_pair(name: str, reference: Path, candidate: Path, request: Request) -> WorkItem:
    built = (str(candidate.resolve()),) if backends.detect(_text(candidate)) in _COMPILED else ()
    files = (str(reference.resolve()), str(candidate.resolve()))
    key = _key((reference, candidate), request, name)
    return WorkItem(key, candidate.name, name, *files, built=built, reference=files[0])


def _text(file: Path) -> str:
    return file.read_text("utf-8", "replace")


def _key(files: Iterable[Path], request: Request, name: str) -> str:
    """Changes when a file or the request does."""
    asked = replace(request, runs=Path(), campaign="")
    digest = hashlib.sha256(encoded(asked) + name.encode())
    for file in files:
        if file.is_file():
            found = file.stat()
            digest.update(f"{file.name} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def encoded(thing: Any) -> bytes:
    return msgspec.json.encode(thing, enc_hook=str)


def decoded(data: bytes, kind: type[Any]) -> Any:
    """Decode the output of `encoded`. Raises msgspec.DecodeError."""
    return msgspec.json.decode(data, type=kind, dec_hook=lambda wanted, text: wanted(text))


class Task(msgspec.Struct, frozen=True):
    """`what`: build or measure; `folder`: of this item, on the disk of its runs; `campaign`: id."""

    what: str
    item: WorkItem
    request: Request
    folder: str
    campaign: str


class Answer(msgspec.Struct, frozen=True):
    """Result of a task. `run`: the run's directory, "" without; `error`, `fix`, `code`: why.

    `full`: a disk is full, so nothing else can go on; `line`: the verdict.
    """

    run: str = ""
    error: str = ""
    fix: str = ""
    code: int = 0
    full: bool = False
    line: str = ""

    @classmethod
    def failed(cls, error: ProfkitError) -> Answer:
        full = error.fix == ROOM or _NO_SPACE in str(error)
        return cls("", str(error), error.fix, error.exit_code, full)


def perform(task: Task) -> Answer:
    """Do a task in this process; errors are in the answer, only interrupts are raised."""
    try:
        return (_build if task.what == "build" else _measure)(task, expected_device(task.request))
    except ProfkitError as error:
        return Answer.failed(error)
    except OSError as error:
        traceback.print_exc()
        full = error.errno in FULL
        fix = ROOM if full else f"is there what a campaign needs, may it be written? {task.folder}"
        return Answer("", f"{error}", fix, 2, full)
    except Exception as error:
        traceback.print_exc()
        return Answer("", f"{type(error).__name__}: {error}", "this is a bug of profkit", BUG)


def perform_encoded(data: bytes) -> bytes:
    """`perform` for another machine; runners are forks of a process that has imported torch."""
    warm()
    return encoded(perform(decoded(data, Task)))


def warm(lent: Mapping[str, int] | None = None) -> None:
    """Start runners as forks from now on. lent: another process's server (Warm.lend)."""
    if process.start is process.guarded:
        process.start = Warm(lent=lent)


def _quiet(device: str, *, shared: bool = False) -> contextlib.AbstractContextManager[None]:
    """On a CPU, keep the campaign's other work away from a measurement."""
    return alone(f"{CPU}-{socket.gethostname()}", shared=shared) if device == "cpu" else contextlib.nullcontext()


def _build(task: Task, device: str) -> Answer:
    """Build ahead; the measurement reports a failure."""
    extra = {"CUDA_VISIBLE_DEVICES": "", "MAX_JOBS": os.environ.get("MAX_JOBS", _JOBS)}
    if device == "cuda":
        extra["TORCH_CUDA_ARCH_LIST"] = os.environ.get("TORCH_CUDA_ARCH_LIST") or gpu.identity().get("cc", "")
    failed = 0
    for name in task.item.built:
        with temporary() as place, _quiet(device, shared=True):
            file, folder = Path(name), Path(place)
            if task.item.candidate:
                file = Path(shutil.copy(file, folder / "candidate.py"))
            else:
                file = runner.stage(Subject("candidate", "candidate", name), Path("reference"), folder / "code")
            subjects = [Subject("candidate", "candidate", str(file))]
            if task.item.reference:
                subjects.append(Subject("reference", "reference", task.item.reference))
            job = Job(
                "build",
                task.item.sample,
                subjects,
                device=device,
                cache=str(cache.builds()),
                campaign=task.campaign,
                lines=task.request.lines and device == "cuda",
            )
            write_job(job, folder / "job.json")
            ended = process.run(
                command(folder / "job.json", Path(os.devnull)),
                log=folder / "log",
                env=environment({**extra, "TMPDIR": place}),
                # Files in the working directory would collide between two of them.
                cwd=folder,
                limit=LIMITS["build"],
            )
            failed += ended.code != 0
    return Answer(line="failed" if failed else "")


def _measure(task: Task, device: str) -> Answer:
    answer = _once(task, device, company=True)
    # Where memory ran out others may have used it.
    if device == "cuda" and answer.run and _SHORT.search(Path(answer.run, "run.json").read_text("utf-8", "replace")):
        answer = _once(task, device)
    return _delivered(task, device, answer) if answer.run else answer


def _once(task: Task, device: str, *, company: bool = False) -> Answer:
    """Measure; company: share the GPU with other samples while nothing is timed, else wait."""
    folder = Path(task.folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    answer = Answer()
    wanted = replace(task.request, runs=folder, campaign=f"{task.campaign}/{task.item.key}", company=company)
    try:
        card = f"{gpu.identity().get('uuid', '')}.memory"
        with _quiet(device), alone(card, shared=company) if device == "cuda" else contextlib.nullcontext():
            task.item.measure(wanted)
    except ProfkitError as error:
        answer = Answer.failed(error)
    found = next(folder.glob("*/*/run.json"), None)
    if found is None or answer.full:
        return answer
    if any(_NO_SPACE in impl.reason + impl.tail for impl in open_run(found).manifest.impls):
        return Answer("", f"{task.item.label}: {_NO_SPACE}", ROOM, 2, True)
    return msgspec.structs.replace(answer, run=str(found.parent))


def _delivered(task: Task, device: str, answer: Answer) -> Answer:
    """Write the derived files of a measurement, and deliver it."""
    run, line = open_run(answer.run), ""
    with _quiet(device):
        study = Study(run)
        try:
            derived.write(study)
            line = "; ".join(first_lines(study))
        except ProfkitError as error:
            answer = Answer.failed(error)
            if answer.full:
                return answer
    final = deliver(run, task.request.runs)
    shutil.rmtree(task.folder, ignore_errors=True)
    return msgspec.structs.replace(answer, run=str(final), line=line)


def deliver(run: Run, runs: Path) -> Path:
    """Move a finished run into place by one atomic rename. Raises ProfkitError without space."""
    here, (sample, stamp) = str(run.path), run.path.parts[-2:]
    own = run.manifest.sample.path == here
    for final in places(runs / sample, stamp.partition("-")[0]):
        if final.exists():
            continue
        if own:
            run.manifest.sample.path = str(final)
            run.save()
        final.parent.mkdir(parents=True, exist_ok=True)
        try:
            run.path.rename(final)
            return final
        except OSError as error:
            if not final.exists():
                raise ProfkitError(f"cannot make {final}: {error.strerror}", fix=ROOM) from error
    raise ProfkitError(f"{runs / sample} already has 1000 runs of this second", fix="choose another --runs DIR")


def interrupted(*_: object) -> None:
    """Handle SIGTERM like Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt
