"""Report dialects: `profkit report --for NAME`.

To add one: write a file here with `write(runs, **options)` and add it to DIALECTS; the CLI options follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profkit.errors import ProfkitError
from profkit.report.layout import without_markup
from profkit.report.messages import speaking

if TYPE_CHECKING:
    from profkit.study.study import Study


@dataclass(frozen=True)
class Written:
    """A document and its pictures by name; `home`: default path, `shown`: also print it."""

    text: str
    pictures: dict[str, bytes] = field(default_factory=dict)
    home: Path | None = None
    shown: bool = False


@dataclass(frozen=True)
class Dialect:
    """A form of report; `endings`: output names that select it without --for.

    Its file, imported on use, has `write(runs, **options)`, which writes in the current language.
    """

    name: str
    options: Sequence[click.Option] = ()
    needs_runs: bool = True
    markdown: bool = False
    endings: tuple[str, ...] = ()

    def document(self, runs: Sequence[str | Study], lang: str = "en", **options: Any) -> Written:
        """Write the document; foreign markup in Markdown is neutralised."""
        with speaking(lang):
            written: Written = self._file.write(runs, **options)
        return replace(written, text=without_markup(written.text)) if self.markdown else written

    @property
    def _file(self) -> Any:
        return import_module(f"{__name__}.{self.name}")


def the_one(runs: Sequence[str | Study]) -> Study:
    """Open the one run on the command line. Raises ProfkitError for none or several."""
    from profkit.study.study import open_study  # pandas stays out of start-up

    if len(runs) != 1:
        raise ProfkitError(
            f"{len(runs)} runs given: this report takes one",
            fix="use profkit compare BEFORE AFTER for several runs",
        )
    return open_study(runs[0])


_WRITE_UP = (
    click.Option(
        ["--layers"], metavar="RUN", default="", help="tensorrt: a run with the engine's layers, by `profkit import`."
    ),
    click.Option(
        ["--other", "others"],
        multiple=True,
        metavar="RUN",
        help="tensorrt: a run of the same steps on other inputs; repeatable.",
    ),
    click.Option(
        ["--notes"], type=click.Path(path_type=Path), help="tensorrt: the author's words (TOML) for the gaps."
    ),
)
DIALECTS = {
    one.name: one
    for one in (
        Dialect("agent"),
        Dialect("pr", markdown=True),
        Dialect("paddle", markdown=True),
        Dialect("tensorrt", _WRITE_UP, needs_runs=False, markdown=True),
        Dialect("html", endings=(".html", ".htm")),
    )
}
