"""One recording in progress: target and request, and how a process under a tool is started."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import msgspec

from collectors.caveat import Caveat
from profkit.annotation import VARIABLE
from profkit.errors import ProfkitError, ProgramFailedError, as_shells_do
from profkit.launch import gpu, process, runner
from profkit.launch.alone import named
from profkit.launch.live import Live
from profkit.launch.protocol import Progress
from profkit.record.job import absorb, command, job
from profkit.record.request import Request
from profkit.rundir.directory import Run
from profkit.rundir.files import sha256
from profkit.rundir.manifest import Capture
from profkit.targets.program import Program, bootstrapped
from profkit.targets.target import Part, Target

if TYPE_CHECKING:
    import pandas as pd

    from analyzers.timeline.hot import Hot

_WINDOW = re.compile(r"^profkit: range .*: (?P<taken>\d+) passages recorded.*$", re.MULTILINE)
DEFAULT_CC = "9.0"
"""Compute capability for metric names if the driver does not report one."""


@dataclass(frozen=True)
class Step:
    """A process to start under a tool: its name, and the tool's command line before the program.

    The name is also that of its logs. env: variables that the tool needs. slower: factor of the tool on the limits.
    note: for the list of commands. argv: instead of the target's own command line.
    """

    name: str
    prefix: Sequence[str]
    env: Mapping[str, str]
    slower: float = 1.0
    note: str = ""
    argv: Sequence[str] = ()


@dataclass(frozen=True)
class Ended:
    """End of a step.

    `failed`: the error to raise if the program itself is the cause of missing results, else None; `code`: its exit
    code; `said`: all its output; `wall` [s].
    """

    hung: bool
    code: int
    failed: ProgramFailedError | None
    said: str
    wall: float


@dataclass
class Session:
    """A target being recorded.

    device: the expected one, "cuda" or "cpu"; for "auto" the runner decides. chosen: candidates to run. frames:
    captured launches by tool. hot: the ranking of the kernels. answer: called with the run once its verdicts are known,
    and again after possible changes. stopped: the program was asked to end. spent: seconds of checks and timing,
    without builds and waits. ahead: ncu's runner, started beside the judge.
    """

    target: Target
    request: Request
    run: Run
    device: str = "cuda"
    progress: Progress = lambda _: None
    chosen: Sequence[Part] = ()
    recorders: Sequence[Recorder] = ()
    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    hot: Hot | None = None
    answer: Callable[[Run], None] = lambda _: None
    stopped: bool = False
    spent: float = 0.0
    ahead: runner.Ahead | None = None
    read: IO[bytes] | None = None

    @property
    def cc(self) -> str:
        """Compute capability of the device, DEFAULT_CC if unknown."""
        return str(self.run.manifest.device.get("cc", "")) or gpu.identity().get("cc") or DEFAULT_CC

    @property
    def company(self) -> bool:
        """Whether other samples may use the GPU while nothing is timed."""
        apart = self.device == "cuda" and bool(self.chosen)
        return self.request.company and apart and all(one.name in ("measure", "ncu") for one in self.recorders)

    @property
    def shared(self) -> str:
        """UUID of a GPU shared with other samples, "" if this run has it alone."""
        return gpu.identity().get("uuid", "") if self.company else ""

    @property
    def parts(self) -> list[Part]:
        """Reference and chosen candidates; after measuring, the sound ones."""
        left = [one for one in self.target.parts if one.role == "reference" or one in self.chosen]
        measured = any(impl.status != "skipped" for impl in self.run.manifest.impls)
        sound = {impl.name for impl in self.run.manifest.impls if impl.ok}
        return [one for one in left if one.name in sound or not measured]

    def windowed(self, *how: str) -> list[str]:
        """The program's command line, with a window around the wanted part if there is one.

        how: more arguments for profkit.torch_tools.trace. Raises ProfkitError for a program that is not Python's.
        """
        argv, words = list(self.target.argv) if isinstance(self.target, Program) else [], self.request.window.words()
        found = bootstrapped(argv, Path("-"), [*how, *words]) if words else argv
        if found is None:
            raise ProfkitError(
                "--range: only possible for a Python program",
                fix="for other programs, select launches with --kernel-name or --hot",
            )
        return found

    def missed(self, ended: Ended) -> ProfkitError | None:
        """Error for a window that never opened; None if it did, or all was recorded."""
        if not self.request.range or self.run.manifest.window.taken:
            return None
        said = _WINDOW.search(ended.said)
        why = said[0].removeprefix("profkit: ") if said else "the program ended before"
        return ProfkitError(f"nothing was recorded: {why}", fix="choose another --range or a smaller --after")

    def nothing(self, ended: Ended, why: str, fix: str) -> ProfkitError:
        """Reason that nothing was recorded: the program's end, a window that never opened, or `why`."""
        return ended.failed or self.missed(ended) or ProfkitError(why, fix=fix)

    def start(self, step: Step) -> Ended:
        """Run a step to its end. Ends of the program or implementations go into the manifest."""
        return self._command(step) if isinstance(self.target, Program) else self._runner(step)

    def _runner(self, step: Step) -> Ended:
        manifest, wanted = self.run.manifest, self.request
        made = job("counters", self.run, wanted, self.device, self.parts, slower=step.slower)
        made.shared = named(self.shared)
        how: dict[str, Any] = {"prefix": step.prefix, "env": step.env, "progress": self.progress}
        outcome = runner.run_job(made, self.run.logs, stem=step.name, ahead=self.ahead, **how)
        absorb(self.run, outcome, step.name, verdicts=False)
        for name, (_, reason, _) in outcome.fallen.items():
            what = f"{name} ran alone but not under {step.name}"
            manifest.caveats.append(Caveat(what, reason, f"see logs/{step.name}.log"))
        self.run.save()
        why = next((reason for _, reason, _ in outcome.fallen.values()), "the runner came to no end")
        failed = None if outcome.finished else ProgramFailedError(why, fix=f"see logs/{step.name}.log")
        said = "\n".join(log.read_text("utf-8", "replace") for _, _, log in outcome.exits if log.exists())
        ends = [ended for _, ended, _ in outcome.exits]
        return Ended(
            any(one.hung for one in ends), int(failed is not None), failed, said, sum(one.wall for one in ends)
        )

    def _command(self, step: Step) -> Ended:
        notes = str(self.run.annotations(step.name).resolve())
        if self.stopped:
            raise KeyboardInterrupt
        env, live = {**step.env, VARIABLE: notes}, self._live()
        ended = self.helper(
            step.name, [*step.prefix, *(step.argv or self.windowed())], env, self.request.limit, step.note, live
        )
        self.stopped = live is not None and live.signalled
        said = self.log(step.name)
        # Of several ranks the one that got least far.
        taken = min((int(one["taken"]) for one in _WINDOW.finditer(said)), default=None)
        self.run.manifest.window = msgspec.structs.replace(self.request.window, taken=taken)
        return Ended(ended.hung, ended.code, self._failed(ended, step.name), said, ended.wall)

    def _live(self) -> Live | None:
        """The program's streams; stdin is kept for a program that starts twice."""
        if not isinstance(self.target, Program) or self.target.streams is None:
            return None
        if self.request.hot and not os.isatty(0):
            if self.read is None:
                self.read = tempfile.TemporaryFile()  # noqa: SIM115
                with open(0, "rb", closefd=False) as given:
                    shutil.copyfileobj(given, self.read)
            self.read.seek(0)
        return Live(*self.target.streams, stdin=self.read)

    def helper(
        self,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        limit: float | None = None,
        note: str = "",
        live: Live | None = None,
    ) -> process.Exit:
        """Run any command line, and record how it ended."""
        log = self.run.logs / f"{name}.log"
        ended = process.run(argv, log=log, env={**os.environ, **env}, limit=limit, live=live)
        self.run.manifest.commands.append(command(self.run, name, argv, ended, log, note))
        self.run.save()
        return ended

    def _failed(self, ended: process.Exit, tool: str) -> ProgramFailedError | None:
        tool = {"kineto": "torch's profiler"}.get(tool, tool)
        seen = isinstance(self.target, Program) and self.target.streams is not None
        tail = "" if seen else f"\n{ended.tail}"
        if ended.hung:
            return ProgramFailedError(
                f"the program did not end within {self.request.limit:g} s under {tool}; killed{tail}",
                fix="run fewer steps, or raise --time-limit",
            )
        if not ended.code:
            return None
        if "No module named 'profkit'" in ended.tail:
            what, fix = (
                "the program's Python has no profkit",
                f"install it there, or run the program by {sys.executable}",
            )
            return ProgramFailedError(what, fix=fix)
        how = f"was killed by {ended.signal}" if ended.signal else f"ended with exit code {ended.code}"
        if self.stopped:
            what, fix = f"the program was told to end and {how}{tail}", "let it come to its end"
        else:
            what, fix = f"the program {how} under {tool}{tail}", "run it without a profiler first"
        failed = ProgramFailedError(what, fix=fix)
        failed.exit_code = as_shells_do(ended.code)
        return failed

    def settle(self, ended: Ended) -> None:
        """Write the program's end into the manifest; the first failure counts. Not for a sample."""
        manifest = self.run.manifest
        if isinstance(self.target, Program):
            manifest.exit_code = manifest.exit_code or ended.code
            if ended.failed is not None:
                manifest.status = "hung" if ended.hung else "failed"

    def log(self, *steps: str) -> str:
        """Output of these steps."""
        files = [self.run.logs / f"{step}.log" for step in steps]
        return "\n".join(file.read_text("utf-8", "replace") for file in files if file.exists())

    def keep(self, capture: Capture, frame: pd.DataFrame) -> None:
        """List a file of launches in the manifest."""
        capture.rows, capture.sha256 = len(frame), sha256(self.run.path / capture.file)
        self.run.manifest.captures.append(capture)
        self.frames[capture.tool] = frame


class Recorder(Protocol):
    """Runs one tool. `record` raises ProfkitError without results; `profile` handles it."""

    @property
    def name(self) -> str: ...
    def record(self, session: Session) -> None: ...
