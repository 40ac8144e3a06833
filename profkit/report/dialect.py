"""What a dialect is: a form that a report can take for one kind of reader, `profkit report --for NAME`.

A dialect says itself what it is called, which options it takes and how it is written; the command line is built from
that. To add one: a file in dialects/ with a DIALECT, its name in the list there.
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
    """A document and the pictures it shows, each by the name it refers to.

    `home`: where it goes unless somebody says, None for stdout; `shown`: on stdout all the same.
    """

    text: str
    pictures: dict[str, bytes] = field(default_factory=dict)
    home: Path | None = None
    shown: bool = False


@dataclass(frozen=True)
class Dialect:
    """`write(runs, **options)`: the document of the runs named, in the language in force, with the options of its own.

    `markdown`: whether it is Markdown, from which other people's markup is taken. `needs_runs`: whether it makes nothing
    without a run. `failed(message, fix, exit_code)`: how it says that a command came to nothing, for those whose readers
    cannot read prose. `endings`: of outputs that are written so without --for.
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
    """The study of the one run that was named. Raises ProfkitError when there are several, or none."""
    from profkit.study.study import open_study  # pandas stays out of start-up

    if len(runs) != 1:
        raise ProfkitError(
            f"{len(runs)} runs: this report takes one",
            fix="profkit compare BEFORE AFTER puts runs in a row",
        )
    return open_study(runs[0])
