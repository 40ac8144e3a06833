"""--for html: the page of one run, by default inside the run directory."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.report.dialects import Written, the_one
from profkit.report.page import run
from profkit.study.study import Study


def write(runs: Sequence[str | Study]) -> Written:
    study = the_one(runs)
    return Written(run.page(study), home=study.path / "report.html")
