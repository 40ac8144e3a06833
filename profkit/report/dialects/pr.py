"""--for pr: what goes into a sample's readme or a pull request, with a picture for light and dark pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

import click

from analyzers.rules.rule import TIME
from analyzers.verdicts.verdict import brief
from profkit.report import sections
from profkit.report.dialect import Dialect, Written, the_one
from profkit.report.explain import gain, in_order, runnable, worded
from profkit.report.layout import code, pipe_table
from profkit.report.names import short_name
from profkit.report.words import say

if TYPE_CHECKING:
    from profkit.study.study import Study

NAME = "roofline"
"""The pictures are NAME-light.png and NAME-dark.png unless --name says otherwise."""


def _named(_context: click.Context, _param: click.Parameter, name: str) -> str:
    """A name that can stand in a file's. Raises click.BadParameter."""
    if name and not re.fullmatch(r"\w[\w.-]*", name):
        raise click.BadParameter(f"{name!r}: letters, digits, points, - and _ alone")
    return name


OPTIONS = (
    click.Option(
        ["--name"], default="", callback=_named, metavar="NAME", help="--for pr: NAME.md, NAME-light.png, ..."
    ),
)


def write(runs: Sequence[str | Study], lang: str, name: str = "") -> Written:
    """The snippet of one run, which goes into the run like report.md: it can be made again. `name`: of its files."""
    from profkit.report import figures  # pandas and matplotlib stay out of start-up

    study, stem = the_one(runs), name or NAME
    pictures = {f"{stem}-{one}.png": figures.png(figures.scene_of(study, one, lang)) for one in ("light", "dark")}
    foreign = figures.spoken(lang) != lang
    return Written(snippet(study, lang, stem, foreign=foreign), pictures, study.path / f"{name or 'pr'}.md", shown=True)


def snippet(study: Study, lang: str = "en", name: str = NAME, *, foreign: bool = False) -> str:
    """Markdown: verdict, table, picture, what to do next, what weakens it, how to do it again. `foreign`: the picture is
    in English although the text is not."""
    return "\n".join(_lines(study, lang, name, foreign)).rstrip() + "\n"


def _lines(study: Study, lang: str, name: str, foreign: bool) -> Iterator[str]:
    manifest, device = study.manifest, sections.device(study)
    yield f"## {say('pr_title', lang, sample=manifest.sample.id, device=device)}\n"
    for line in sections.first_lines(study, lang):
        yield f"**{line}**  "
    missing = sections.counters_line(study, lang)
    if missing:
        yield f"\n> {missing}{say('stop', lang)}"
    table = sections.parts_table(study, lang)
    if table.rows:
        yield "\n" + pipe_table(table)
    yield "\n" + say("pr_convention", lang) + "\n" if say("speedup", lang) in table.head else ""
    yield "<picture>"
    yield f'  <source media="(prefers-color-scheme: dark)" srcset="{name}-dark.png">'
    yield f'  <img alt="{_alt(study, lang)}" src="{name}-light.png" width="800">'
    yield "</picture>\n"
    yield from [f"{say('fig_foreign', lang)}\n"] if foreign else []
    yield from _findings(study, lang)
    yield f"- {sections.timing_line(study, lang)}"
    yield from (f"- {line}" for line in (sections.paired_line(study, lang), sections.below_least(study, lang)) if line)
    driver = [f"{say('driver', lang)} {manifest.device['driver']}"] if "driver" in manifest.device else []
    versions = [f"{key} {value}" for key, value in manifest.versions.items() if key != "os"]
    yield "- " + say("comma", lang).join([device, *driver, *versions, f"profkit {manifest.profkit}"])
    yield from _doubts(study, lang)
    again = sections.again(study)
    yield f"\n```sh\n{again}\n```" if again else ""


def _doubts(study: Study, lang: str) -> Iterator[str]:
    """What the answer rests on and is not sure of; the rest is counted."""
    matter, colon = sections.that_matter(study, lang), say("colon", lang)
    for one in matter:
        yield f"- {say('doubt', lang)}{colon}{one.what}" + (f"{colon}{brief(one.how_much)}" if one.how_much else "")
    rest = len(sections.doubts(study)) - len(matter)
    if rest:
        yield f"- {say('pr_more_doubts', lang, count=str(rest))}"


def _alt(study: Study, lang: str) -> str:
    words = say("semicolon", lang).join(sections.first_lines(study, lang))
    return escape(" ".join(say("pr_alt", lang, sample=study.manifest.sample.id, words=words).split()))


def _findings(study: Study, lang: str) -> Iterator[str]:
    """The first finding of the best candidate, or of each range."""
    found = study.findings()
    best = study.best.name if study.best is not None else ""
    for impl in [name for name in in_order(study) if name == best or not study.manifest.impls]:
        first = next((one for one in found if one.impl == impl and one.severity == TIME), None)
        if first is not None:
            title, then, _ = worded(first, lang)
            said = say("bound_why", lang, bound=title, why=code(short_name(first.kernel))) if first.kernel else title
            told = say("pr_finding", lang, what=said, gain=gain(first, lang), step=runnable(then, study))
            yield f"- {impl}{say('colon', lang)}{told}"


DIALECT = Dialect("pr", write, OPTIONS, markdown=True)
