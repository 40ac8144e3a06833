"""All report dialects by their `--for` name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from profkit.report.dialect import Dialect, Written, the_one
from profkit.report.dialects import agent, paddle, pr, records, tensorrt

if TYPE_CHECKING:
    from profkit.study.study import Study


def page(runs: Sequence[str | Study]) -> Written:
    """The page of one run, in the run unless told where."""
    from profkit.report.page import run  # pandas stays out of start-up

    study = the_one(runs)
    return Written(run.page(study), home=study.path / "report.html")


_HTML = Dialect("html", page, endings=(".html", ".htm"))
DIALECTS: dict[str, Dialect] = {
    one.name: one for one in (agent.DIALECT, pr.DIALECT, paddle.DIALECT, tensorrt.DIALECT, records.DIALECT, _HTML)
}
