"""Entry point from contests to measuring: a folder or sources in, a Study out.

Measured is always a sample: a reference with Model, get_inputs and get_init_inputs, and candidates with ModelNew.
Tasks in other formats are rewritten, and lie in the run's directory.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from profkit.contests.sources import Sources
from profkit.launch.protocol import Progress
from profkit.record.profile import Answer, profile
from profkit.study.study import Study

if TYPE_CHECKING:
    from profkit.record.request import Request


def measure(
    target: Path | Sources, request: Request, progress: Progress = lambda _: None, answer: Answer = lambda _: None
) -> Study:
    """Profile a sample's folder, or sources, which then lie in the run's directory.

    `answer`: see record.profile. Raises ProfkitError when it is no sample, for instance when a candidate does not parse.
    """
    if isinstance(target, Path):
        return Study(profile(target, request=request, progress=progress, answer=answer))
    with target.as_sample() as folder:
        run = profile(folder, request=request, progress=progress, answer=answer)
        target.write(run.path)
    run.manifest.caveats += target.caveats
    run.manifest.sample.path = str(run.path)
    run.save()
    return Study(run)
