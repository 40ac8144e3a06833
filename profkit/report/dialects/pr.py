"""--for pr: Markdown for a readme or a pull request, with a light and a dark picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from analyzers.rules.rule import HOST, TIME
from analyzers.verdicts.verdict import brief
from profkit.report import figures
from profkit.report.dialects import Written, the_one
from profkit.report.explain import in_order, told
from profkit.report.layout import pipe_table
from profkit.report.messages import language, say, spoken
from profkit.report.sections import answer, caveats, method, tables
from profkit.study.study import Study

NAME = "roofline"
"""The pictures are NAME-light.png and NAME-dark.png."""


def write(runs: Sequence[str | Study]) -> Written:
    """Write the snippet and pictures of one run into its directory."""
    study = the_one(runs)
    pictures = {f"{NAME}-{one}.png": figures.png(figures.scene_of(study, one)) for one in ("light", "dark")}
    foreign = spoken() != language()
    return Written(snippet(study, foreign=foreign), pictures, study.path / "pr.md", shown=True)


def snippet(study: Study, *, foreign: bool = False) -> str:
    """Markdown of the answer; `foreign`: the picture is English, the text is not."""
    manifest, device = study.manifest, answer.device(study)
    missing, table, again = method.counters_line(study), tables.parts_table(study), method.again(study)
    words = say("semicolon").join(answer.first_lines(study))
    alt = escape(" ".join(say("pr_alt", sample=manifest.sample.id, words=words).split()))
    driver = [f"{say('driver')} {manifest.device['driver']}"] if "driver" in manifest.device else []
    versions = [f"{key} {value}" for key, value in manifest.versions.items() if key != "os"]
    beside = (method.timing_line(study), method.paired_line(study), method.below_least(study))
    measured = say("comma").join([device, *driver, *versions, f"profkit {manifest.profkit}"])
    listed = [*_findings(study), *filter(None, beside), measured, *_caveats(study)]
    blocks = [
        f"## {say('pr_title', sample=manifest.sample.id, device=device)}",
        "\n".join(f"**{line}**  " for line in answer.first_lines(study)),
        f"> {missing}{say('stop')}" if missing else "",
        pipe_table(table),
        say("pr_convention") if say("speedup") in table.head else "",
        f"""<picture>
  <source media="(prefers-color-scheme: dark)" srcset="{NAME}-dark.png">
  <img alt="{alt}" src="{NAME}-light.png" width="800">
</picture>""",
        say("fig_foreign") if foreign else "",
        "\n".join(f"- {line}" for line in listed),
        f"```sh\n{again}\n```" if again else "",
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _caveats(study: Study) -> Iterator[str]:
    """Caveats that weaken the answer, and the number of others."""
    matter, colon = caveats.that_matter(study), say("colon")
    for one in matter:
        yield say("caveat") + colon + one.what + (f"{colon}{brief(one.how_much)}" if one.how_much else "")
    rest = [one.what for one in caveats.all_caveats(study) if one not in matter]
    if rest:
        yield say("pr_more_caveats", what=say("semicolon").join(rest))


def _findings(study: Study) -> Iterator[str]:
    """First finding of the best candidate, or of each range."""
    best = study.best.name if study.best is not None else ""
    first = {one.impl: one for one in reversed(study.findings()) if one.severity in (TIME, HOST)}
    for impl in in_order(study):
        if impl in first and (impl == best or not study.manifest.impls):
            yield impl + say("colon") + told(first[impl], study)
