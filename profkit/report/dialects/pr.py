"""--for pr: what goes into a sample's readme or a pull request, with a picture for light and dark pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from analyzers.rules.rule import TIME
from profkit.report import sections
from profkit.report.dialect import Dialect, Written, the_one
from profkit.report.explain import gain, in_order, runnable, worded
from profkit.report.layout import code, pipe_table
from profkit.report.names import short_name
from profkit.report.words import say

if TYPE_CHECKING:
    from profkit.study.study import Study

LIGHT, DARK = "roofline-light.png", "roofline-dark.png"


def write(runs: Sequence[str | Study], lang: str) -> Written:
    """The snippet of one run, which goes into the run like report.md: it can be made again."""
    from profkit.report import figures  # pandas and matplotlib stay out of start-up

    study = the_one(runs)
    pictures = {name: figures.png(figures.scene_of(study, theme)) for name, theme in ((LIGHT, "light"), (DARK, "dark"))}
    return Written(snippet(study, lang), pictures, study.path / "pr.md", shown=True)


def snippet(study: Study, lang: str = "en") -> str:
    """Markdown: verdict, table, picture, the first finding of each candidate or range, how to do it again."""
    return "\n".join(_lines(study, lang)).rstrip() + "\n"


def _lines(study: Study, lang: str) -> Iterator[str]:
    manifest, device = study.manifest, sections.device(study)
    yield f"## {say('pr_title', lang, sample=manifest.sample.id, device=device)}\n"
    for line in sections.first_lines(study, lang):
        yield f"**{line}**  "
    missing = sections.counters_line(study, lang)
    if missing:
        yield f"\n> {missing}."
    table = sections.parts_table(study, lang)
    if table.rows:
        yield "\n" + pipe_table(table)
    yield "\n" + say("pr_convention", lang) + "\n" if say("speedup", lang) in table.head else ""
    yield "<picture>"
    yield f'  <source media="(prefers-color-scheme: dark)" srcset="{DARK}">'
    yield f'  <img alt="{_alt(study, lang)}" src="{LIGHT}" width="800">'
    yield "</picture>\n"
    yield from _findings(study, lang)
    yield f"- {sections.timing_line(study, lang)}"
    driver = [f"{say('driver', lang)} {manifest.device['driver']}"] if "driver" in manifest.device else []
    versions = [f"{key} {value}" for key, value in manifest.versions.items() if key != "os"]
    yield "- " + ", ".join([device, *driver, *versions, f"profkit {manifest.profkit}"])
    for doubt in sections.doubts(study):
        yield f"- {say('doubt', lang)}: {doubt.what}" + (f": {doubt.how_much}" if doubt.how_much else "")
    again = sections.again(study)
    yield f"\n```sh\n{again}\n```" if again else ""


def _alt(study: Study, lang: str) -> str:
    words = say("semicolon", lang).join(sections.first_lines(study, lang))
    return escape(say("pr_alt", lang, sample=study.manifest.sample.id, words=words))


def _findings(study: Study, lang: str) -> Iterator[str]:
    found = study.findings()
    references = {impl.name for impl in study.manifest.impls if impl.role == "reference"}
    for impl in [name for name in in_order(study) if name not in references]:
        first = next((one for one in found if one.impl == impl and one.severity == TIME), None)
        if first is not None:
            title, then, _ = worded(first, lang)
            kernel = f" ({code(short_name(first.kernel))})" if first.kernel else ""
            step = say("pr_next", lang, step=runnable(then, study))
            yield f"- {impl}: {title}{kernel}; {gain(first, lang)}. {step}"


DIALECT = Dialect("pr", write, markdown=True)
