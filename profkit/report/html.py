"""report.html: one self-contained page, offline; its script draws the roofline from the embedded data."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from importlib.resources import files
from typing import Any

from analyzers.bottleneck import COLLECT, TIME, Finding
from profkit.report import table, units
from profkit.report.explain import MINOR, findings_of, gain, headline, in_order, proof
from profkit.report.markdown import short_name
from profkit.run import Run
from roofline.ceilings import BANDWIDTH, Roofline

LONGEST_NAME = 300
"""Characters of a kernel's name on the page: two thousand template names would fill megabytes."""

MOST_SAMPLES = 600
MOST_FINDINGS = 20


def page(run: Run) -> str:
    """The whole page."""

    roof = run.roofline
    found = findings_of(run)
    manifest = run.manifest
    parts = {
        "title": escape(f"{manifest.sample.id} on {manifest.device.get('name', 'unknown device')}"),
        "subtitle": escape(f"{manifest.sample.path}, measured {manifest.created}"),
        "answer": _answer(run, found),
        "verdict": _verdict(run),
        "findings": "\n".join(_findings(run, found)),
        "kernelnote": escape(_kernel_note(run)),
        "timing": escape(table.timing_line(run)),
        "facts": _facts(run, roof),
        "doubts": _doubts(run),
        "version": escape(manifest.profkit),
        "data": _embedded(data_of(run, roof)),
        "css": _template("page.css"),
        "js": _template("page.js"),
    }
    return _fill(_template("page.html"), parts)


def _template(name: str) -> str:
    return (files("profkit.report") / "templates" / name).read_text("utf-8")


def _fill(template: str, parts: Mapping[str, str]) -> str:
    """Put each part at its @@name@@, once: what a part holds is never looked into again."""
    pieces = template.split("@@")
    return "".join(parts[piece] if index % 2 else piece for index, piece in enumerate(pieces))


def _embedded(data: Mapping[str, Any]) -> str:
    """JSON that cannot end its script element, whatever a kernel is called."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def data_of(run: Run, roof: Roofline) -> dict[str, Any]:
    """What the script needs: roofs, kernels, floors, samples. NaN is null, numbers have six digits."""
    kernels = [_kernel(row) for row in run.kernels.to_dict("records")]
    pipes = [k["pipe"] for k in kernels if k["pipe"]] + [f["pipe"] for f in _floors(run, roof)]
    return {
        "reference": run.analysis.reference, "impls": in_order(run), "kernels": kernels,
        "pipes": list(dict.fromkeys(pipes)), "roofs": _roofs(roof), "floors": _floors(run, roof),
        "timings": list(_samples(run)),
    }  # fmt: skip


def _kernel(row: Mapping[Any, Any]) -> dict[str, Any]:
    def value(name: str) -> float | None:
        found = row.get(name)
        return _six(float(found)) if isinstance(found, (int, float)) else None

    intensity = {level: value(f"intensity_{level}") for level in BANDWIDTH}
    return {
        "impl": str(row["impl"]), "kernel": short_name(str(row["kernel"]), LONGEST_NAME), "time": value("time"),
        "share": value("share"), "launches": value("launches"), "flops": value("achieved_flops"),
        "dram": value("dram_bandwidth"), "dramf": value("dram_fraction"), "ai": intensity,
        "frac": value("attainable_fraction"), "occ": value("occupancy"),
        "pipe": str(row.get("compute") or ""), "bound": str(row.get("bound_by") or ""),
    }  # fmt: skip


def _six(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _roofs(roof: Roofline) -> list[dict[str, Any]]:
    names = dict.fromkeys(c.name for c in roof.ceilings)
    best = [c for name in names if (c := roof.get(name)) is not None]
    return [{"name": c.name, "kind": c.kind, "peak": _six(c.peak), "source": c.source} for c in best]


def _floors(run: Run, roof: Roofline) -> list[dict[str, Any]]:
    for work in run.analysis.works:
        if work.flops and work.intensity > 0:
            pipe = max(work.flops, key=lambda name: work.flops[name])
            top = roof.attainable(work.intensity, pipe)
            if math.isfinite(top):
                return [{"ai": _six(work.intensity), "flops": _six(top), "pipe": pipe}]
    return []


def _samples(run: Run) -> Iterator[dict[str, Any]]:
    """The samples each implementation's time comes from, thinned evenly where there are very many."""
    from profkit.derive import read_timings

    timings = read_timings(run)
    if timings is None or not len(timings):
        return
    kept = timings[timings["kept"].ne(0)] if "kept" in timings else timings
    method = run.analysis.method
    for impl in in_order(run):
        rows = kept[(kept["impl"] == impl) & (kept["method"] == method)]
        seconds = [value for value in rows["seconds"].astype(float) if math.isfinite(value) and value > 0]
        step = max(1, len(seconds) // MOST_SAMPLES)
        if seconds:
            yield {"impl": impl, "method": method, "seconds": [_six(value) for value in seconds[::step]]}


def _answer(run: Run, found: Iterable[Finding]) -> str:
    """Which kernel, bound by what, how far from the floor, what next: of the fastest correct candidate."""
    if not len(run.metrics):
        return '<p class="verdict">Nothing was measured.</p>'
    impl = _subject(run)
    row = run.analysis.impl(impl)
    kernels = run.kernels
    mine = kernels[kernels["impl"] == impl].to_dict("records") if len(kernels) else []
    first = next((one for one in found if one.impl == impl and one.severity == TIME), None)
    rest = f" and {len(mine) - 1} more" if len(mine) > 1 else ""
    cells = [
        ("Implementation", f"{impl}, {units.text(float(row['time']), 's')} a call"),
        ("Which kernel", f"{short_name(str(mine[0]['kernel']), 90)}: {units.percent(float(mine[0]['share']))} of its kernel time{rest}"
         if mine else "not known: no counters"),
        ("Bound by", f"{row['bound_by'] or 'unknown'}" + (f" ({row['evidence']})" if row["evidence"] else "")),
        ("How far from the floor", f"{units.digits(float(row['floor_ratio']))}x the least time of the algorithm ({units.text(float(row['floor_time']), 's')})"
         if math.isfinite(float(row["floor_ratio"])) else "the floor is not known"),
        ("What next", f"{first.next_step} ({gain(first)})" if first else "no rule found a reason"),
    ]  # fmt: skip
    items = "".join(
        f"<div{' class=wide' if name == 'What next' else ''}><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>"
        for name, text in cells
    )
    return f'<dl class="answer">{items}</dl>'


def _subject(run: Run) -> str:
    """The fastest correct candidate that was timed, else the first implementation."""
    sound = {impl.name for impl in run.manifest.candidates if impl.ok}
    timed = [r for r in run.analysis.impls.to_dict("records") if r["impl"] in sound and r["time"] > 0]
    if timed:
        return str(min(timed, key=lambda r: float(r["time"]))["impl"])
    return in_order(run)[0]


def _verdict(run: Run) -> str:
    lines = "".join(f'<p class="verdict">{escape(line)}</p>' for line in table.verdict(run).splitlines())
    missing = table.counters_line(run)
    fix = f" Fix: {run.manifest.counters.fix}." if missing and run.manifest.counters.fix else ""
    note = f'<p class="note">{escape(missing + "." + fix)}</p>' if missing else ""
    data = table.verdict_table(run)
    head = "".join(
        f'<th scope="col">{escape(name) or "<span class=sr>implementation</span>"}</th>' for name in data.head
    )
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in data.rows
    )
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'{lines}{note}<div class="scroll" tabindex="0" role="region" aria-label="Verdict">{body}</div>'


def _findings(run: Run, found: list[Finding]) -> Iterator[str]:
    for impl in in_order(run):
        mine = [one for one in found if one.impl == impl]
        yield f"<h3>{escape(headline(run, impl))}</h3>"
        told = [one for one in mine if one.severity != COLLECT]
        large = [one for one in told if not one.ratio < MINOR][:MOST_FINDINGS]
        if not told:
            yield '<p class="note">No rule found a reason.</p>'
        yield from (_finding(one) for one in large)
        if len(told) > len(large):
            yield f'<p class="note">{len(told) - len(large)} smaller findings are left out; profkit explain --json has all.</p>'
        missing = [one.rule for one in mine if one.severity == COLLECT]
        if missing:
            fix = next(one.next_step for one in mine if one.severity == COLLECT)
            fix = fix.replace("SAMPLE", run.manifest.sample.path)
            yield (f'<p class="note">Not checked, counters missing: {escape(", ".join(missing))}. '
                   f"Collect: <code>{escape(fix)}</code></p>")  # fmt: skip


def _finding(one: Finding) -> str:
    kernel = f'<p class="k">{escape(short_name(one.kernel, LONGEST_NAME))}</p>' if one.kernel else ""
    because = escape("; ".join(proof(p) for p in one.evidence))
    return (
        f'<article class="finding {one.severity}"><p><span class="gain">{escape(gain(one))}</span>'
        f"<strong>{escape(one.title)}</strong></p>{kernel}<p>Evidence: {because}</p>"
        f"<p>Next: {escape(one.next_step)}</p><p>Expect: {escape(one.expect)}</p></article>"
    )


def _kernel_note(run: Run) -> str:
    if run.manifest.counters.state != "collected":
        return table.counters_line(run)
    return (
        "Time, FLOP and bytes of this table are Nsight Compute's, one call with cold caches; they attribute, they do not "
        "decide. Press a head to sort, a name to pick it in the plot."
    )


def _facts(run: Run, roof: Roofline) -> str:
    manifest = run.manifest
    counters = manifest.counters
    rows = [
        ("device", ", ".join(f"{k} {v}" for k, v in manifest.device.items() if k in ("name", "cc", "sms", "driver"))),
        ("versions", ", ".join(f"{k} {v}" for k, v in manifest.versions.items())),
        ("counters", f"Nsight Compute {counters.version}, {counters.passes} passes, clock control {counters.clock_control}"
         if counters.state == "collected" else f"{counters.state}: {counters.why}"),
        ("seeds", ", ".join(map(str, manifest.seeds))),
        ("files", ", ".join(f"{ref.path} sha256 {ref.sha256[:16]}" for ref in manifest.sample.files.values())),
    ]  # fmt: skip
    for work in run.analysis.works:
        flops = ", ".join(f"{units.text(v, 'FLOP')} {pipe}" for pipe, v in work.flops.items()) or "no FLOP"
        rows.append((f"work, {work.source}", f"{flops}, {units.text(work.bytes, 'B')} compulsory"))
    for name in dict.fromkeys(c.name for c in roof.ceilings):
        best = roof.get(name)
        if best is not None:
            unit = "B/s" if best.kind == "bandwidth" else "FLOP/s"
            rows.append(
                (
                    f"roof {name}",
                    f"{units.text(best.peak, unit)}, {best.source}" + (f", {best.note}" if best.note else ""),
                )
            )
    rows.append(("again", f"profkit profile {manifest.sample.path}"))
    cells = "".join(f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in rows)
    return f'<table class="facts"><tbody>{cells}</tbody></table>'


def _doubts(run: Run) -> str:
    doubts = run.analysis.doubts
    if not doubts:
        return "<p>None were found.</p>"
    items = [
        f"<li>{escape(d.what)}" + (f": {escape(d.how_much)}" if d.how_much else "")
        + (f". <em>Fix: {escape(d.fix)}</em>" if d.fix else "") + "</li>" for d in doubts
    ]  # fmt: skip
    return f'<ul class="doubts">{"".join(items)}</ul>'
