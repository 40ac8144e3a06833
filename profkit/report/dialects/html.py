"""--for html: the page for everybody, in the run unless somebody says where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from profkit.report.dialect import Dialect, Written, the_one

if TYPE_CHECKING:
    from profkit.study.study import Study


def write(runs: Sequence[str | Study]) -> Written:
    """The page of one run."""
    from profkit.report.page.run import page  # pandas stays out of start-up

    study = the_one(runs)
    return Written(page(study), home=study.path / "report.html")


DIALECT = Dialect("html", write, endings=(".html", ".htm"))
