"""Base of the report dialects, `profkit report --for NAME`.

To add one: a file in dialects/ with a DIALECT, and its name in the list there; the command line follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profkit.errors import ProfkitError
from profkit.report.layout import without_markup
from profkit.report.messages import speaking

if TYPE_CHECKING:
    from profkit.study.study import Study

FILE = click.Path(path_type=Path)


@dataclass(frozen=True)
class Written:
    """A document and its pictures by name; `home`: its default path, `shown`: also on stdout."""

    text: str
    pictures: dict[str, bytes] = field(default_factory=dict)
    home: Path | None = None
    shown: bool = False


@dataclass(frozen=True)
class Dialect:
    """A form of report: `write(runs, **options)` makes it in the language in force.

    `failed(message, fix, exit_code)`: a failure in the same form; `endings`: output names that ask for it without --for.
    """

    name: str
    write: Callable[..., Written]
    options: Sequence[click.Option] = ()
    needs_runs: bool = True
    markdown: bool = False
    failed: Callable[[str, str, int], str] | None = None
    endings: tuple[str, ...] = ()

    def document(self, runs: Sequence[str | Study], lang: str = "en", **options: Any) -> Written:
        """What is handed out: `write`'s document, harmless."""
        with speaking(lang):
            written = self.write(runs, **options)
        return replace(written, text=without_markup(written.text)) if self.markdown else written


def the_one(runs: Sequence[str | Study]) -> Study:
    """Open the one run that was named. Raises ProfkitError for several, or none."""
    from profkit.study.study import open_study  # pandas stays out of start-up

    if len(runs) != 1:
        raise ProfkitError(
            f"{len(runs)} runs: this report takes one",
            fix="profkit compare BEFORE AFTER puts runs in a row",
        )
    return open_study(runs[0])
