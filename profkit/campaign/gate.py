"""Regression gate: compare two folders of runs, before and after a change.

Runs are paired by sample, the newest of each, and by implementation. An implementation fails if it is wrong, failed,
skipped or missing now, or is slower with its whole interval above the limit. Inconclusive ones pass, unless the gate is
strict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from analyzers.compare import SINGLE, Ladder, ends
from analyzers.records import number
from analyzers.timeline.compare import Programs
from analyzers.verdicts.statistics import Ratio
from profkit.errors import ProfkitError
from profkit.report.compare import chosen_of, compared
from profkit.report.layout import Table, pipe_table, without_markup, words
from profkit.report.sections import answer, caveats
from profkit.rundir.directory import find_runs
from profkit.study.study import Study
from profkit.study.verdicts import loaded
from roofline import units

MARK = "<!-- profkit -->"
"""Identifies this tool's comment."""
APART = "not comparable"
MOST_CAVEATS = 20
STEP, PROGRAM = "step", "program"
"""Names of a program's rows: its step, or its whole without a known step."""
NO_SPREAD = "one time on each side, no spread is known"
BEYOND_TIME = ("void", "impossible")
"""Verdicts that fail regardless of time."""


@dataclass(frozen=True)
class Judged:
    """One implementation before and after. `ratio`: old time / new time with its interval.

    `word`: slower (beyond the limit), wrong, gone, faster, same, inconclusive, new, or not comparable (measured
    differently).
    """

    sample: str
    impl: str
    word: str
    before: float = math.nan
    after: float = math.nan
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    lower_bound: float = math.nan
    why: str = ""
    fails: bool = False


def judge(
    before: Path, after: Path, limit: float, *, allow_missing: bool = False, strict: bool = False
) -> tuple[list[Judged], list[Study]]:
    """Judge every implementation of the runs below both folders; return runs below `after` too.

    allow_missing: gone ones pass; strict: inconclusive ones fail. Raises ProfkitError if there is nothing to compare.
    """
    old, new = _newest(before), _newest(after)
    found = [_judged(name, old.get(name), study, impl, limit) for name, study in new.items() for impl in _rows(study)]
    if not any(one.before == one.before for one in found):
        raise ProfkitError(
            f"{after}: no implementation in common with {before}", fix="measure the same samples before and after"
        )
    there = {(one.sample, one.impl) for one in found}
    found += [
        Judged(name, impl, "gone", number(row, "time"), why="not in the runs after")
        for name, study in old.items()
        for impl, row in _rows(study).items()
        if number(row, "time") > 0 and (name, impl) not in there
    ]
    failing = {"slower", "wrong", *(() if allow_missing else ("gone",)), *(("inconclusive", APART) if strict else ())}
    return [replace(one, fails=one.word in failing) for one in found], list(new.values())


def _rows(study: Study) -> dict[str, Mapping[str, Any]]:
    """Figures of each candidate, or of a program's longest step or the whole."""
    if study.stepwise:
        return {STEP: {"time": study.longest_step[1].step} if study.longest_step else {}}
    if study.of_operators:
        return {PROGRAM: chosen_of(study).row}
    parts = [part for part in study.parts if part.impl is None or part.impl.role != "reference"]
    return {part.name: part.row or {} for part in parts}


def _newest(folder: Path) -> dict[str, Study]:
    """The newest finished run of each sample."""
    if not folder.is_dir():
        raise ProfkitError(f"{folder}: no such folder of runs", fix="check the path")
    runs = sorted(find_runs(folder), key=lambda run: run.manifest.created)
    done = {run.manifest.sample.id: Study(run) for run in runs if run.manifest.status == "done"}
    if not done:
        raise ProfkitError(f"{folder}: no finished run here or below", fix="measure the same samples before and after")
    return done


def _judged(sample: str, old: Study | None, new: Study, impl: str, limit: float) -> Judged:
    """Judge an implementation, or a program by its steady step."""
    row, own = _rows(new)[impl], "" if new.stepwise or new.of_operators else impl
    before = number(_rows(old).get(impl, {}) if old is not None else {}, "time")
    after, lower_bound = number(row, "time"), number(row, "lower_bound_ratio")
    verdict = new.verdicts.get(own)
    if verdict is not None and not verdict.right:
        return Judged(sample, impl, "wrong", before, after, why=verdict.text())
    if old is None or not (before > 0 and after > 0):
        return Judged(sample, impl, "new", after=after, lower_bound=lower_bound, why="not in the runs before")
    ladder = compared([(old, own), (new, own)]).ladder
    first, rung = ladder.rungs
    since = rung.since
    word, said = _word(ladder, since, limit)
    load = 1.0 if new.stepwise else max(loaded(one, own) for one in (old, new))
    if word == "inconclusive" and load > 1:
        said.append("the machine was busy" + (f": load explains up to {load:.3g}x" if math.isfinite(load) else ""))
    if verdict is not None and verdict.word in BEYOND_TIME and word not in (APART, "slower"):
        said.append(verdict.text())
    if new.stepwise:
        before, after = first.time, rung.time
    if math.isnan(since.low) and not ladder.apart:
        said.append(("too few steps for an interval" if new.stepwise else NO_SPREAD) + f", {SINGLE}x may be chance")
    numbers = (before, after, since.value, since.low, since.high, lower_bound)
    return Judged(sample, impl, word, *numbers, why="; ".join(said))


def _word(found: Ladder | Programs, since: Ratio, limit: float) -> tuple[str, list[str]]:
    """Verdict of the gate on a step, and why."""
    if found.apart:
        return APART, [f"the runs differ in {', '.join(found.apart)}"]
    low, high = ends(since)
    if 1 / high > 1 + limit:
        return "slower", [f"at least {1 / high - 1:.1%} slower, {limit:.1%} allowed"]
    if low * (1 + limit) < 1:
        return "inconclusive", ["the limit lies inside the interval"]
    return (since.verdict if since.verdict != "slower" else "same"), []


def comment(found: Sequence[Judged], studies: Sequence[Study], limit: float, picture: str = "") -> str:
    """Comment of a pull request: verdict, a row per implementation, caveats. picture: address."""
    failed = [one for one in found if one.fails]
    unknown = [one for one in found if one.word in ("inconclusive", APART) and not one.fails]
    head = f"{len(failed)} of {len(found)} fail" if failed else f"{len(found) - len(unknown)} pass"
    head += f", {len(unknown)} inconclusive" if unknown else ""
    table = Table(
        ["sample", "before", "after", "old / new", "x lower bound", "verdict"],
        [
            [
                *map(_together, (f"{one.sample} {one.impl}", units.text(one.before, "s"), units.text(one.after, "s"))),
                _together(_interval(one)),
                units.digits(one.lower_bound),
                (f"**{one.word}**" if one.fails else one.word) + (f": {one.why}" if one.why else ""),
            ]
            for one in sorted(found, key=lambda one: not one.fails)
        ],
    )
    devices = ", ".join(dict.fromkeys(answer.device(study) for study in studies))
    known = [(study.manifest.sample.id, one) for study in studies for one in caveats.all_caveats(study)]
    weak = [
        without_markup(f"- {words(f'{sample}: {one.what}')}") for sample, one in known if one.code not in caveats.ASIDE
    ]
    title = f"### profkit: {head} (limit {limit:.1%}, {devices})"
    parts = [MARK, without_markup(title), without_markup(pipe_table(table, (0, 5)))]
    parts += [f"![roofline]({picture})"] if picture else []
    if weak:
        more = [f"- and {len(weak) - MOST_CAVEATS} more"] if len(weak) > MOST_CAVEATS else []
        told = [*weak[:MOST_CAVEATS], *more]
        parts.append("\n".join([f"<details><summary>{len(weak)} caveats</summary>\n", *told, "\n</details>"]))
    parts.append(
        "<sub>old / new: above 1 is faster; with the interval of 95 %. A row fails when all of it is slower.</sub>"
    )
    return "\n\n".join(parts) + "\n"


def _together(cell: str) -> str:
    return cell.replace(" ", "\N{NO-BREAK SPACE}")


def _interval(one: Judged) -> str:
    if one.ratio != one.ratio:
        return units.MISSING
    return f"{one.ratio:.3g}x" + ("" if math.isnan(one.low) else f" [{one.low:.3g}, {one.high:.3g}]")


def junit(found: Sequence[Judged]) -> bytes:
    """JUnit XML for CI systems; times are the measured ones, not those of measuring."""
    root = ElementTree.Element("testsuite", name="profkit", tests=str(len(found)), errors="0")
    for one in found:
        case = ElementTree.SubElement(root, "testcase", classname=_legal(one.sample), name=_legal(one.impl))
        if one.after == one.after:
            case.set("time", f"{one.after:.9f}")
        tag = "failure" if one.fails else "skipped" if one.word in ("new", APART) else ""
        if tag:
            ElementTree.SubElement(case, tag, message=_legal(one.why))
        ElementTree.SubElement(case, "system-out").text = _legal(f"{one.word} {_interval(one)}")
    root.set("failures", str(len(root.findall("*/failure"))))
    root.set("skipped", str(len(root.findall("*/skipped"))))
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _legal(text: str) -> str:
    """The text without characters that XML does not allow."""
    return "".join(letter for letter in text if letter in "\t\n" or " " <= letter < "\ufffe" or letter > "\uffff")
