"""--for pr: Markdown for a readme or a pull request, with a light and a dark picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from analyzers.rules.rule import TIME
from analyzers.verdicts.verdict import brief
from profkit.report import sections
from profkit.report.dialect import Dialect, Written, the_one
from profkit.report.explain import gain, in_order, worded
from profkit.report.layout import code, pipe_table
from profkit.report.messages import language, say, spoken
from profkit.report.names import short_name

if TYPE_CHECKING:
    from profkit.study.study import Study

NAME = "roofline"
"""The pictures are NAME-light.png and NAME-dark.png."""


def write(runs: Sequence[str | Study]) -> Written:
    """The snippet of one run, written into the run."""
    from profkit.report import figures  # pandas and matplotlib stay out of start-up

    study = the_one(runs)
    pictures = {f"{NAME}-{one}.png": figures.png(figures.scene_of(study, one)) for one in ("light", "dark")}
    foreign = spoken() != language()
    return Written(snippet(study, foreign=foreign), pictures, study.path / "pr.md", shown=True)


def snippet(study: Study, *, foreign: bool = False) -> str:
    """Markdown of the answer; `foreign`: the picture is in English although the text is not."""
    return "\n".join(_lines(study, foreign)).rstrip() + "\n"


def _lines(study: Study, foreign: bool) -> Iterator[str]:
    manifest, device = study.manifest, sections.device(study)
    yield f"## {say('pr_title', sample=manifest.sample.id, device=device)}\n"
    for line in sections.first_lines(study):
        yield f"**{line}**  "
    missing = sections.counters_line(study)
    if missing:
        yield f"\n> {missing}{say('stop')}"
    table = sections.parts_table(study)
    if table.rows:
        yield "\n" + pipe_table(table)
    yield "\n" + say("pr_convention") + "\n" if say("speedup") in table.head else ""
    yield "<picture>"
    yield f'  <source media="(prefers-color-scheme: dark)" srcset="{NAME}-dark.png">'
    yield f'  <img alt="{_alt(study)}" src="{NAME}-light.png" width="800">'
    yield "</picture>\n"
    yield from [f"{say('fig_foreign')}\n"] if foreign else []
    yield from _findings(study)
    yield f"- {sections.timing_line(study)}"
    yield from (f"- {line}" for line in (sections.paired_line(study), sections.below_least(study)) if line)
    driver = [f"{say('driver')} {manifest.device['driver']}"] if "driver" in manifest.device else []
    versions = [f"{key} {value}" for key, value in manifest.versions.items() if key != "os"]
    yield "- " + say("comma").join([device, *driver, *versions, f"profkit {manifest.profkit}"])
    yield from _caveats(study)
    again = sections.again(study)
    yield f"\n```sh\n{again}\n```" if again else ""


def _caveats(study: Study) -> Iterator[str]:
    """What the answer rests on and is not sure of; the rest is counted."""
    matter, colon = sections.that_matter(study), say("colon")
    for one in matter:
        yield f"- {say('caveat')}{colon}{one.what}" + (f"{colon}{brief(one.how_much)}" if one.how_much else "")
    rest = [one.what for one in sections.all_caveats(study) if one not in matter]
    if rest:
        yield f"- {say('pr_more_caveats', what=say('semicolon').join(rest))}"


def _alt(study: Study) -> str:
    words = say("semicolon").join(sections.first_lines(study))
    return escape(" ".join(say("pr_alt", sample=study.manifest.sample.id, words=words).split()))


def _findings(study: Study) -> Iterator[str]:
    """The first finding of the best candidate, or of each range."""
    found = study.findings()
    best = study.best.name if study.best is not None else ""
    for impl in [name for name in in_order(study) if name == best or not study.manifest.impls]:
        first = next((one for one in found if one.impl == impl and one.severity == TIME), None)
        if first is not None:
            title, then, _ = worded(first, study)
            said = say("bound_why", bound=title, why=code(short_name(first.kernel))) if first.kernel else title
            told = say("pr_finding", what=said, gain=gain(first), step=then)
            yield f"- {impl}{say('colon')}{told}"


DIALECT = Dialect("pr", write, markdown=True)
