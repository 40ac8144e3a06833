"""--for pr: what goes into a sample's readme or a pull request, with a picture for light and dark pages."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from profkit.report import table
from profkit.report.explain import findings_of, gain, in_order
from profkit.report.markdown import pipe_table, short_name
from profkit.run import Run

LIGHT, DARK = "roofline-light.png", "roofline-dark.png"


def snippet(run: Run) -> str:
    """Markdown: verdict, table, picture, the first finding of each implementation, how to do it again."""
    return "\n".join(_lines(run)).rstrip() + "\n"


def _lines(run: Run) -> Iterator[str]:
    manifest = run.manifest
    device = manifest.device.get("name", "unknown device")
    yield f"## {manifest.sample.id}: measured on {device}\n"
    for line in table.verdict(run).splitlines():
        yield f"**{line}**  "
    missing = table.counters_line(run)
    if missing:
        yield f"\n> {missing}."
    data = table.verdict_table(run)
    yield "\n" + pipe_table(data.head, data.rows) + "\n"
    yield "Speedup = time of the reference / time of the candidate, with its 95 % interval.\n"
    yield "<picture>"
    yield f'  <source media="(prefers-color-scheme: dark)" srcset="{DARK}">'
    yield f'  <img alt="{_alt(run)}" src="{LIGHT}" width="800">'
    yield "</picture>\n"
    yield from _findings(run)
    yield f"- {table.timing_line(run)}"
    versions = ", ".join(f"{key} {value}" for key, value in manifest.versions.items() if key != "os")
    yield f"- {device}, driver {manifest.device.get('driver', '?')}, {versions}, profkit {manifest.profkit}"
    for doubt in run.analysis.doubts:
        yield f"- doubt: {doubt.what}" + (f": {doubt.how_much}" if doubt.how_much else "")
    flag = " --ncu" if manifest.counters.state == "collected" else ""
    yield f"\n```sh\nprofkit profile {shlex.quote(manifest.sample.path)}{flag}\n```"


def _alt(run: Run) -> str:
    words = table.verdict(run).replace("\n", "; ").replace('"', "'")
    return f"Roofline of {run.manifest.sample.id}: {words}"


def _findings(run: Run) -> Iterator[str]:
    found = findings_of(run)
    for impl in in_order(run):
        first = next((one for one in found if one.impl == impl and one.severity == "time"), None)
        if first is not None:
            kernel = f" (`{short_name(first.kernel, 60)}`)" if first.kernel else ""
            yield f"- {impl}: {first.title}{kernel}; {gain(first)}. Next: {first.next_step}."
