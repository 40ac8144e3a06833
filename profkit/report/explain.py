"""Findings for people, ranked by what they could win."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import TYPE_CHECKING

from msgspec import structs

from analyzers.records import plain
from analyzers.rules.rule import COLLECT, HINT, HOST, PROGRAM, RULES, SCHEMA, Finding, Proof
from profkit.report.layout import code, cut
from profkit.report.messages import language, named, say, spaced, translated
from profkit.report.names import short_name
from profkit.report.sections.answer import distance, ending, title
from roofline import units

if TYPE_CHECKING:
    from analyzers.kernels.source_lines import Line
    from profkit.study.study import Study

SHOWN = 6
"""Findings per implementation on a terminal; JSON and the page hold all."""
SHOWN_LINES = 5
"""Source lines shown per kernel."""

_SHARES = ("_fraction", "_share")
_TIMES = ("time/kernels",)
"""Evidence in seconds."""

_COMMAND = re.compile(r"profkit profile SAMPLE(?: --(?:ncu|deep))*( --lines)?")

OUTSIDE = 0.5
"""Share of a program's time in operators below which the rest comes first."""
MINOR = 0.01
"""Findings below this share of the call are counted, not shown; source lines below this share of the stalls."""


def document(study: Study, findings: Iterable[Finding]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "sample": study.manifest.sample.id,
        "device": study.manifest.device.get("name", ""),
        "findings": [one.to_dict() for one in findings],
        "waterfalls": [plain(one) for one in study.waterfalls.values()],
        "lines": [plain(one) for one in study.lines],
    }


def text(study: Study, findings: Sequence[Finding]) -> str:
    """Findings for the terminal: a whole program's first, then each part's by rank."""
    parts = [title(study)]
    if study.of_operators:
        return "\n".join([*parts, "", say("op_no_bounds"), start_with(study)])
    found: dict[str, list[Finding]] = {}
    for one in findings:
        found.setdefault(one.impl, []).append(one)
    mine = {name: found.get(name, []) for name in in_order(study)}
    whole = dict.fromkeys(one.impl for one in findings if one.whole)
    for name in whole:
        parts += ["", name, *_impl(study, found[name])]
    if whole:
        # Nothing is said of a range but what was found in it; what lacks counters is the same in all.
        silent = {name: own for name, own in mine.items() if all(one.severity == COLLECT for one in own)}
        unchecked = {one.rule: one for own in silent.values() for one in own}
        parts += ["", *_impl(study, list(unchecked.values()))] if unchecked else []
        mine = {name: own for name, own in mine.items() if name not in silent}
    for name, own in mine.items():
        parts += ["", headline(study, name), *(_impl(study, own) or [f"  {say('ex_nothing')}"])]
    if all(one.severity == COLLECT for one in findings):
        parts += ["", unexplained(findings)]
    return "\n".join(parts)


def start_with(study: Study) -> str:
    """Next step of a program whose operators on the CPU were recorded."""
    hot, inside = study.hottest.iloc[0], float(study.hottest["time"].sum()) / study.wall
    if inside < OUTSIDE:
        return say("op_outside", rest=units.percent(1 - inside), span=units.text(study.wall, "s"))
    return say("op_next", name=str(hot["kernel"]), share=units.percent(float(hot["share"])))


def unexplained(findings: Sequence[Finding]) -> str:
    """Sentence that no rule found a reason, with the number of rules without counters."""
    blind, every = unlooked(findings)
    return say("p_no_reason_blind", count=str(blind), every=str(every)) if blind else say("p_no_reason")


def unlooked(findings: Iterable[Finding]) -> tuple[int, int]:
    """How many rules lack counters, and of how many that could."""
    every = sum(one.level != PROGRAM and one.name != "operators" for one in RULES.values())
    return len({one.rule for one in findings if one.severity == COLLECT}), every


def unchecked(findings: Iterable[Finding], study: Study) -> tuple[list[str], str]:
    """Rules that lack counters, and the command that collects them; "" for none."""
    missing = [one for one in findings if one.severity == COLLECT]
    return list(dict.fromkeys(one.rule for one in missing)), runnable(missing[0].next_step, study) if missing else ""


def in_order(study: Study) -> list[str]:
    """Names of the measured parts, in rank order."""
    at = {part.name: place for place, part in enumerate(study.ranked)}
    return sorted((str(name) for name in study.analysis.impls["impl"]), key=lambda name: at.get(name, len(at)))


def headline(study: Study, impl: str) -> str:
    """Time, lower bound and bottleneck of an implementation."""
    row = study.analysis.impl(impl)
    if study.stepwise and not study.filtered:
        time = study.in_ranges.get(impl, (0.0, 0.0))[0]
        told = say("range_of" + ending(study), time=units.text(time, "s")) if time > 0 else say("range_of_none")
        return f"{impl or say('no_range')}{say('colon')}{told}"
    told = f"{impl or say('no_range')}{say('colon')}{units.text(float(row['time']), 's')}"
    return say("comma").join([told, *distance(row, both=True)])


def worded(one: Finding, study: Study) -> tuple[str, str, str]:
    """Title, next step and expectation of a finding, with values filled in."""
    known = one.params
    if language() == "zh":
        known = {key: text if key in ("library", "found") else translated(named(text)) for key, text in known.items()}
    title, then, expect = structs.replace(one, params=known).words(language())
    if language() == "zh":
        title, then, expect = map(spaced, (title, then, expect))
    return title, runnable(then, study), expect


def told(one: Finding, study: Study) -> str:
    """A finding in one line of Markdown: the gain, the kernel, the reason, the next step."""
    title, then, _ = worded(one, study)
    where = say("md_where", kernel=code(short_name(one.kernel))) if one.kernel else ""
    return say("md_finding", gain=gain(one), where=where, title=title, then=then)


def _impl(study: Study, findings: Sequence[Finding]) -> list[str]:
    told = [one for one in findings if one.severity != COLLECT]
    large = [one for one in told if not one.ratio < MINOR][:SHOWN]
    lines = [line for number, one in enumerate(large, 1) for line in _finding(study, number, one)]
    if hidden := len(told) - len(large):
        lines.append(f"  {say('ex_hidden' if hidden > 1 else 'ex_hidden_one', count=str(hidden))}")
    rules, command = unchecked(findings, study)
    if rules:
        lines += [f"  {say('ex_missing', rules=', '.join(rules))}", f"    {say('ex_collect', command=command)}"]
    return lines


def _finding(study: Study, number: int, one: Finding) -> list[str]:
    title, then, expect = worded(one, study)
    short = short_name(one.kernel)
    # As much of the full name as --kernel needs.
    name = short if one.kernel.startswith(short) else f"{short}: {cut(one.kernel, 60)}"
    told = [
        say("ex_kernel", name=name) if one.kernel else "",
        say("ex_because", proofs="; ".join(map(proof, one.evidence))),
        say("ex_next", then=then),
        say("ex_expect", expect=expect),
    ]
    return [f"  {number}. {gain(one)}{say('colon')}{title}", *(f"     {line}" for line in told if line)]


def runnable(text: str, study: Study) -> str:
    """Next step as a command to paste, with the path of the sample or the program."""
    manifest = study.manifest
    if manifest.sample.path:
        return text.replace("profkit profile SAMPLE", f"profkit profile {shlex.quote(manifest.sample.path)}")
    program = shlex.join(manifest.program) if manifest.program else "COMMAND"
    if manifest.device.get("kind") == "rocm":
        return _COMMAND.sub(f"rocprofv3 --pmc FETCH_SIZE WRITE_SIZE --output-format csv -- {program}", text)
    told = "{command}" if manifest.program else say("p_if_at_hand", command="{command}")
    return _COMMAND.sub(
        lambda found: told.format(command=f"profkit profile --ncu --deep{found[1] or ''} -- {program}"), text
    )


def gain(one: Finding, *, measured: bool = True) -> str:
    """Gain as "up to 58% (78.9 us)", or the kind of finding. measured: False: measure first."""
    if one.severity == COLLECT:
        return say("not_checked")
    # Of a kernel without a time nothing is known to win.
    if one.severity == HINT or not one.upper_bound > 0:
        return say("hint")
    if one.measures or not measured:
        return say("to_find", time=units.text(one.upper_bound, "s"))
    known = {"all": "up_to_record", "range": "up_to_passage", "launches": "up_to_launches"}
    of = known.get(one.params.get("found", ""), "up_to_step")
    key = "up_to_host" if one.severity == HOST else of if "found" in one.params else "up_to"
    ratio = units.percent(one.ratio)
    # The host may be late at one place for what held it up at another: then the bound is above what stands there.
    there, most = units.text(one.likely, "s"), units.text(one.upper_bound, "s")
    more = one.whole and there != most and one.likely > 0
    said = say(key, ratio=ratio, time=say("seen", most=most, time=there) if more else most)
    return say("to_ceiling", gain=said) if one.moves else said


def proof(one: Proof) -> str:
    """ "dram_fraction = 78.7% (> 60.0%)"."""

    def shown(value: float) -> str:
        if one.counter.endswith(_SHARES):
            return units.percent(value)
        if one.counter in _TIMES:
            return units.text(value, "s")
        return f"{value:.3g}" if 1e-4 <= abs(value) < 1000 else units.digits(value)  # without an exponent

    counter, limit, value = translated(one.counter), shown(one.threshold), shown(one.value)
    if math.isnan(one.threshold):
        return f"{counter} = {value}"
    # What is on its limit, or so near that three digits do not show the difference.
    sign = (">" if one.side == "above" else "<") + ("=" if value == limit else "")
    return f"{counter} = {value}" + (f"（{sign} {limit}）" if language() == "zh" else f" ({sign} {limit})")


# ---- the source lines that kernels wait for


def by_kernel(lines: Sequence[Line], kernel: str = "") -> list[tuple[str, str, list[Line]]]:
    """(part, kernel, lines), the longest excess first; `kernel` filters by a part of the name."""
    kept = [one for one in lines if kernel in one.kernel]
    return [(*key, list(found)) for key, found in groupby(kept, key=lambda one: (one.impl, one.kernel))]


def lines_text(lines: Sequence[Line], kernel: str = "") -> str:
    """Each kernel and its hottest lines for a terminal; "" if none."""
    told = []
    for impl, name, found in by_kernel(lines, kernel):
        told += ["", impl + say("colon") + short_name(name) if impl else short_name(name)]
        told += [f"  {sentence(one)}" for one in shown_of(found)]
    return "\n".join(told[1:])


def sentence(one: Line) -> str:
    """ "slow.cu line 41: 38 % of stalls, long scoreboard, at most 210 us: float c = x[i];" """
    parts = [say("line_share", share=units.percent(one.share)), named(one.reason)]
    if one.excess > 1 + MINOR:
        parts.append(say("line_sectors", times=f"{one.excess:.3g}"))
    if one.bound == one.bound:
        parts.append(say("line_bound", time=units.text(one.bound, "s")))
    place = f"{PurePath(one.file).name} {say('line', number=str(one.number))}".strip()
    where = place if one.number else say("line_instruction")
    return say("colon").join([where, say("comma").join(parts), cut(one.text.strip(), 100)])


def shown_of(found: Sequence[Line]) -> list[Line]:
    """Source lines of a kernel to show."""
    return [one for one in found if one.share >= MINOR][:SHOWN_LINES]
