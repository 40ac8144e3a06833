"""run.json: what was measured, with which tools, and the result.

Schema `profkit/1`: additive changes only; a reader ignores unknown fields and gives missing ones their default, so old
runs stay readable.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from collectors.caveat import Caveat
from collectors.sanitizer import Finding
from profkit.errors import ProfkitError
from profkit.rundir.files import gone

SCHEMA = "profkit/1"


class FileRef(msgspec.Struct, frozen=True):
    """A file of the sample at the time of measuring."""

    path: str
    sha256: str


class SampleInfo(msgspec.Struct):
    """What was measured: the sample's id, its folder and its files by role.

    `task`: description from its reference.
    """

    id: str
    path: str
    kind: str = "folder"
    files: dict[str, FileRef] = {}
    task: str = ""


class Command(msgspec.Struct):
    """Started process: `wall` [s], `exit_code` negative for a signal.

    `note`: "hung" or "over its memory" if profkit ended it.
    """

    step: str
    argv: list[str]
    exit_code: int | None = None
    wall: float = 0.0
    log: str = ""
    note: str = ""


class Check(msgspec.Struct):
    """Comparison of a candidate's output with the reference's on inputs from `seed`.

    Errors are relative to |reference| + rms(reference).
    """

    seed: int
    passed: bool
    what: str = ""
    max_abs: float | None = None
    max_rel: float | None = None
    precision: str = ""
    bits: float | None = None
    mean_abs: float | None = None
    median_abs: float | None = None
    mean_rel: float | None = None
    median_rel: float | None = None

    @property
    def error(self) -> str:
        """Error by its bits, "2^-20.3"; "0" for an exact answer, "" if not measured."""
        if self.bits is None:
            return ""
        return "0" if self.bits >= EXACT else f"2^-{self.bits:.1f}"


EXACT = 99.0
"""Bits kept of an answer without any error."""


class Sanitized(msgspec.Struct):
    """One candidate under one tool. `state`: clean, findings, or failed (and `why`)."""

    tool: str
    state: str
    why: str = ""
    findings: list[Finding] = []


class Impl(msgspec.Struct):
    """One implementation and its result.

    `status`: ok, mismatch, nan, wrong-shape, wrong-dtype, wrong-device, wrong-type, compile-error,
    load-error, error, crash, corrupt (the CUDA context died), hang, memory-limit, or skipped; or
    mutates-inputs, stops-computing (its timed calls are wrong), wrong-gradient (if gradients were compared).
    `reason` is one line; `tail` its last lines of output, or a compiler's from its first error on.
    `kernels`: those its source defines.
    `fragile`: unusual inputs outside the declared domain on which it is wrong, with the result.
    `operators`: on a CPU, its PyTorch operators in one call, reported by its own process: `calls`, `seconds`, of these
    `fp64` and `copies`, and bytes `allocated` in results of a MiB or more.
    """

    name: str
    role: str
    file: str
    backend: str = ""
    status: str = "skipped"
    reason: str = ""
    tail: str = ""
    build_seconds: float | None = None
    checks: list[Check] = []
    kernels: list[str] = []
    sanitized: list[Sanitized] = []
    fragile: list[str] = []
    notes: list[str] = []
    operators: dict[str, float] = {}

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def least(self) -> Check | None:
        """The check with the fewest bits; None if none was measured."""
        measured = [check for check in self.checks if check.passed and check.bits is not None]
        return min(measured, key=lambda check: check.bits or 0.0) if measured else None

    @property
    def exactness(self) -> str:
        """Least precision of its answers, "fp32 (error 2^-20.3)"; "" if not measured."""
        one = self.least
        return f"{one.precision} (error {one.error})" if one is not None and one.precision else ""

    @property
    def unsound(self) -> list[Finding]:
        """Errors found by compute-sanitizer in its own kernels."""
        found = [finding for one in self.sanitized for finding in one.findings]
        return [finding for finding in found if finding.serious]


class Counters(msgspec.Struct):
    """Whether hardware counters are in this run; if not, `why`, and the `fix`."""

    state: str = "missing"
    why: str = ""
    fix: str = ""
    tool: str = ""
    version: str = ""
    file: str = ""
    passes: int | None = None
    clock_control: str = "none"


class Capture(msgspec.Struct):
    """One file of launches in the run directory, unchanged from the tool.

    `file` is relative to the directory. `role`: counters, layers (times and a model of the work, TensorRT),
    times (no counters), timeline (only that), lines (instructions with their source lines), summary (launches of
    another file again) or report (no launches); the last two are kept and not read. `origin`: its name before import;
    `companions`: files that belong to it (of TensorRT: layers, times, metadata). `filtered`: it has only some of the
    program's launches. `partial`: read up to its last complete row. `ended`: the tool ended the program on purpose
    once it had the requested launches.
    """

    file: str
    tool: str
    role: str = "counters"
    origin: str = ""
    sha256: str = ""
    rows: int = 0
    companions: dict[str, str] = {}
    filtered: bool = False
    partial: bool = False
    ended: bool = False


class Window(msgspec.Struct, frozen=True):
    """Recorded part of a program: passages of a range or all of it, after some steps.

    `steps` 0: all following ones. A step is a passage of the range, else what repeats. `taken`: recorded passages,
    None if not counted.
    """

    range: str = ""
    after: int = 0
    steps: int = 0
    taken: int | None = None

    def words(self) -> list[str]:
        """Arguments for profkit.torch_tools.trace; empty if the whole program is recorded."""
        if not self.range:
            return []
        numbers = {"--after": self.after, "--steps": self.steps}
        told = [word for name, number in numbers.items() if number for word in (name, str(number))]
        return ["--range", self.range, *told, "--"]


class Timing(msgspec.Struct):
    """Method of the times in timings.csv; `notes` by method.

    `processes`: per implementation; `spread`: assumed relative difference of another process, for one or two processes.
    """

    method: str = ""
    note: str = ""
    l2: str = ""
    flush_bytes: int = 0
    rounds: int = 0
    target: float = 0.0
    processes: int = 1
    spread: float = 0.0
    notes: dict[str, str] = {}
    slower: float = 1.0
    load: str = ""


class ShapeInfo(msgspec.Struct):
    """Further timed shape: its inputs in words, and the file of its samples."""

    inputs: list[str]
    file: str


class Served(msgspec.Struct):
    """Shares of a program's calls by shape; `program`: see analyzers.verdicts.shapes.Program."""

    shares: list[float]
    program: tuple[float, float, float, float] | None = None


class PassInfo(msgspec.Struct):
    """Timed pass with gradients: "backward" alone, or "both"; the file of its samples.

    `by`: inputs and parameters of the gradients.
    """

    name: str
    file: str
    wanted: list[str] = []


class Perturbed(msgspec.Struct):
    """Implementation under changed conditions: `seconds` of each sample by condition.

    Conditions: usual, warm (L2), half_sms, half_warps (half of the GPU, or of every SM, is taken); untried ones are
    missing.
    """

    impl: str
    seconds: dict[str, list[float]] = {}


class Manifest(msgspec.Struct):
    """The content of run.json; see the module's docstring.

    `precision`: cast of floating inputs and weights, "" for none. `task`: the types (float32, ...) of the reference's
    inputs, weights and outputs. `inputs`: each input as "float32 [16, 1024]", a view with its strides, a number as
    itself. `isolated`: the reference and each candidate ran in separate processes. `shapes`: timed shapes of
    get_more_inputs(); `passes`: timed passes with gradients; `served`: shares of calls by shape. `probe`: of the task:
    `precision` (type, bits of the reference), bits `required`, trivial answers `passing`. `allowed`: precisions (tf32,
    bf16, ...) below the task's own in which a candidate may compute. `perturbed`: times under changed conditions
    (--perturb). `campaign`: the campaign and this item of it, "" for none. `window`: the requested part of a program;
    `hot`: number of its longest kernels that were counted, 0 without --hot. `owner`: the measuring process
    (files.owner); a run still "running" after its end counts as interrupted.
    """

    sample: SampleInfo
    created: str
    schema: str = SCHEMA
    profkit: str = ""
    status: str = "running"
    finished: str = ""
    device: dict[str, Any] = {}
    versions: dict[str, str] = {}
    seeds: list[int] = []
    impls: list[Impl] = []
    timing: Timing = msgspec.field(default_factory=Timing)
    work: list[dict[str, Any]] = []
    ceilings: list[dict[str, Any]] = []
    counters: Counters = msgspec.field(default_factory=Counters)
    commands: list[Command] = []
    caveats: list[Caveat] = []
    captures: list[Capture] = []
    program: list[str] = []
    exit_code: int | None = None
    precision: str = ""
    task: dict[str, list[str]] = {}
    probe: dict[str, Any] = {}
    inputs: list[str] = []
    shapes: list[ShapeInfo] = []
    passes: list[PassInfo] = []
    served: Served | None = None
    isolated: bool = False
    allowed: list[str] = []
    perturbed: list[Perturbed] = []
    campaign: str = ""
    window: Window = Window()
    hot: int = 0
    owner: str = ""

    @property
    def reference(self) -> Impl | None:
        return next((impl for impl in self.impls if impl.role == "reference"), None)

    @property
    def candidates(self) -> list[Impl]:
        return [impl for impl in self.impls if impl.role == "candidate"]


def read_manifest(file: Path) -> Manifest:
    """Decode run.json; errors name the file and the field."""
    try:
        content = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
        if (schema := content.get("schema", SCHEMA)) != SCHEMA:
            by = f" (by profkit {content['profkit']})" if content.get("profkit") else ""
            what = f"{file}{by}: field schema: {schema!r}, expected {SCHEMA!r}"
            raise ProfkitError(what, fix="use a newer profkit")
        manifest = msgspec.convert(content, Manifest)
    except msgspec.DecodeError as error:
        raise ProfkitError(
            f"{file}: {error}",
            fix="the file is damaged; profkit.read can still read the CSV files beside it",
        ) from error
    except OSError as error:
        raise ProfkitError(f"{file}: {error.strerror}", fix="check its permissions") from error
    if manifest.status == "running" and gone(manifest.owner):
        manifest.status = "interrupted"
    return manifest
