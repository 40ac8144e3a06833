"""Tasks in foreign formats: find them, rewrite them as samples, measure them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from profkit.contests import flashinfer_bench, kernelbot, sol_execbench
from profkit.contests.sources import Sources
from profkit.launch.gpu import gpu_present
from profkit.launch.protocol import Progress
from profkit.record.profile import Answer, profile
from profkit.targets.program import Program
from profkit.targets.sample import find_samples, is_sample

if TYPE_CHECKING:
    from profkit.record.request import Request
    from profkit.study.study import Study


FORMATS = (kernelbot, sol_execbench, flashinfer_bench)
"""Modules with tasks(path), the tasks of a format at a path, and read(path, device), the sources of one task."""


def targets(path: Path) -> list[Path]:
    """What to measure at a path: itself if it is a sample or task, else those inside."""
    here = _tasks(path)
    if here or not path.is_dir() or is_sample(path):
        return here or [path]
    inside = [task for one in path.iterdir() if one.is_dir() for task in _tasks(one)]
    return sorted({*inside, *find_samples(path)})


def _tasks(path: Path) -> list[Path]:
    return [task for form in FORMATS for task in form.tasks(path)]


def read(path: Path, device: str) -> Path | Sources:
    """Sources of a task in a foreign format; the path itself for a sample. device: or "auto"."""
    form = next((one for one in FORMATS if one.tasks(path) == [path]), None)
    if form is None:
        return path
    if device == "auto":
        device = "cuda" if gpu_present() else "cpu"
    found: Sources = form.read(path, device)
    return found


def measure(
    target: Path | Program, request: Request, progress: Progress = lambda _: None, answer: Answer = lambda _: None
) -> Study:
    """Profile a sample's folder, a task in a foreign format, or a program. Raises ProfkitError."""
    found = read(target, request.device) if isinstance(target, Path) else target
    if isinstance(found, Sources):
        return found.measure(request, progress, answer)
    run = profile(found, request=request, progress=progress, answer=answer)
    from profkit.study.study import Study  # pandas

    return Study(run)
