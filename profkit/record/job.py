"""The one factory of a runner's job, so that no step forgets an option of the user's."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path

from profkit.errors import ProfkitError
from profkit.launch import cache, protocol
from profkit.record.request import Request
from profkit.rundir.directory import Run
from profkit.targets.target import Part

_SAME = ("budget", "whole", "target", "l2", "precision", "memory", "backward", "lines")
"""Fields of a request that are a job's too."""
_OWN = ("first", "check", "time", "count", "build", "sanitize")
"""Phases that --time-limit may shorten as well: those in which a candidate runs."""


def job(
    mode: str,
    run: Run,
    wanted: Request,
    device: str,
    parts: Sequence[Part],
    *,
    slower: float = 1.0,
) -> protocol.Job:
    """A runner's job for this run. slower: what a tool makes of the limits; see protocol.Job."""
    # As they were when the run began: a candidate may have been at them since.
    was = {name: known.sha256 for name, known in run.manifest.sample.files.items()}
    return protocol.Job(
        mode=mode,
        sample=run.manifest.sample.id,
        subjects=[
            protocol.Subject(
                one.name,
                one.role,
                str(one.path.resolve()),
                one.backend,
                _content(one.path, was.get(one.name, "")),
            )
            for one in parts
        ],
        device=device,
        seeds=run.manifest.seeds,
        trials=0 if run.manifest.seeds else wanted.trials,
        timings=str(run.timings_csv.resolve()),
        cache=str(cache.builds()),
        limits=limits(wanted.timeout, slower),
        model_mode=wanted.mode,
        shapes=wanted.shapes == "all",
        campaign=run.manifest.campaign.partition("/")[0],
        **{name: getattr(wanted, name) for name in _SAME},
    )


@functools.lru_cache(256)
def _content(file: Path, sha256: str) -> bytes:
    """Contents of a file with this digest ("" for any). Raises ProfkitError."""
    with contextlib.suppress(OSError):
        now = file.read_bytes()
        if sha256 == hashlib.sha256(now).hexdigest():
            return now
    if sha256:
        raise ProfkitError(f"{file.name} is not what it was when the run began", fix="run it again")
    return b""


def limits(factor: float, slower: float = 1.0) -> dict[str, float]:
    """Seconds a phase may take. The limit of "sanitize" knows already how slow its tool is."""
    return {
        name: seconds * (factor if name in _OWN else max(factor, 1.0)) * (1.0 if name == "sanitize" else slower)
        for name, seconds in protocol.LIMITS.items()
    }
