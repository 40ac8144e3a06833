"""A block of code of this process, recorded by torch's profiler."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from collectors.errors import CollectError
from profkit import annotation
from profkit.errors import CannotProfileError, ProfkitError
from profkit.record.importing import import_files
from profkit.rundir.directory import RUNS, places
from profkit.rundir.files import temporary


class Block(AbstractContextManager["Block"]):
    """`with Block("step") as r`: ranges of `annotate` inside it are ranges of the run.

    Afterwards `seconds` is the wall time of the block including all its GPU work, and `run` the result of
    `shown(run, frames)` for the run directory. Blocks must not overlap.
    """

    def __init__(self, name: str, runs: str | os.PathLike[str] | None, shown: Callable[..., Any]) -> None:
        self.name, self.seconds = name, float("nan")
        self._root, self._shown = Path(runs if runs is not None else RUNS), shown
        self._run: Any = ProfkitError(f"{name}: the block has not ended", fix="read .run after it")
        self._stack = ExitStack()

    @property
    def run(self) -> Any:
        """The recorded run. Raises CannotProfileError if no GPU work and no operator was seen."""
        if isinstance(self._run, ProfkitError):
            raise self._run
        return self._run

    def __enter__(self) -> Block:
        import torch
        from torch.autograd.profiler import profile, record_function

        # 99: what torch's profiler says of itself is none of the block's words.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        self._cuda = torch.cuda.is_available()
        # torch.profiler.profile is this one and more: when it begins it imports torch's compiler, for more than a second.
        recorder = profile(use_device="cuda" if self._cuda else None, use_kineto=True)
        self._profiler: Any = self._stack.enter_context(recorder)
        annotation.listen(record_function)
        self._stack.callback(annotation.listen)
        self._stack.enter_context(record_function(self.name))
        self._began = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import torch

        if self._cuda:
            torch.cuda.synchronize()
        self.seconds = time.perf_counter() - self._began
        self._stack.close()
        if error is None:
            self._run = self._kept()

    def _kept(self) -> Any:
        """The trace as a run directory, or the reason there is none."""
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", self.name).strip("-.") or "block"
        with temporary() as folder:
            file = Path(folder) / f"{name}.pt.trace.json"
            self._profiler.export_chrome_trace(str(file))
            target = next(one for one in places(self._root / name) if not one.exists())
            try:
                found = import_files([file], target)
            except CollectError as error:
                fix = "`profkit.measure` times any callable"
                why = f"{self.name}: nothing ran on a GPU, and no operator of torch: {error}"
                return CannotProfileError(why.partition(f": {file}")[0], fix=fix)
        found.run.manifest.sample.id = name
        found.run.save()
        return self._shown(found.run, found.frames)
