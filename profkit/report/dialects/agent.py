"""--for agent: a JSON document of at most 3,000 characters for coding agents.

Schema profkit-agent/1 (docs/agent.md, report/agent.schema.json). Seconds, shares of 0 to 1, four digits; null if unknown.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyzers.records import number
from analyzers.rules.rule import COLLECT, HINT, HOST, TIME, Finding
from profkit.report import sections
from profkit.report.dialect import Dialect, Written, the_one
from profkit.report.explain import proof, runnable, unexplained, worded
from profkit.report.layout import cut
from profkit.report.messages import language, named, say, translated
from profkit.report.names import short_name
from profkit.report.places import place_of
from profkit.rundir.directory import RUNS

if TYPE_CHECKING:
    from analyzers.verdicts.verdict import Verdict
    from analyzers.waterfall import Slice
    from profkit.study.study import Part, Study

SCHEMA = "profkit-agent/1"
LIMIT = 3000
AT_LOWER_BOUND = 1.1
"""Times the lower bound at which to stop: what is left is less than a tenth."""
_ORDER = (TIME, HOST, HINT)


@dataclass(frozen=True)
class _Room:
    """How many of each there may be, and how many letters a sentence and a command."""

    results: int
    slices: int
    findings: int
    caveats: int
    letters: int
    command: int = 400


_ROOMS = (
    _Room(6, 6, 3, 4, 300),
    _Room(4, 5, 3, 3, 160),
    _Room(3, 4, 3, 2, 120),
    _Room(2, 4, 3, 1, 90),
    _Room(1, 3, 3, 1, 70, 250),
    _Room(1, 3, 2, 1, 60, 160),
    _Room(1, 2, 1, 0, 40, 120),
)


def write(runs: Sequence[str | Study]) -> Written:
    """The document of one run, for stdout."""
    return Written(document(the_one(runs)))


def document(study: Study, findings: Sequence[Finding] | None = None) -> str:
    """The document as JSON text in the widest form that fits; `findings`: all unless given."""
    found = study.findings() if findings is None else findings
    sources = {id(one): place_of(study, one.impl, one.kernel) for one in found}
    text = ""
    for room in _ROOMS:
        text = _json(_content(study, found, sources, room))
        if len(text) <= LIMIT:
            break
    return text


def failure(message: str, fix: str, exit_code: int) -> str:
    """The document of a command that came to nothing."""
    told = {"message": cut(message, LIMIT // 3), "fix": cut(fix, LIMIT // 3), "exit_code": exit_code}
    return _json({"schema": SCHEMA, "ok": False, "error": told})


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _content(
    study: Study, findings: Sequence[Finding], sources: Mapping[int, str | None], room: _Room
) -> dict[str, Any]:
    """The document in one size; sources: place of each finding's kernel, by the finding's id()."""
    subject = _subject(study)
    mine = [one for one in findings if not study.manifest.impls or (subject is not None and one.impl == subject.name)]
    told = [one for one in mine if one.severity != COLLECT]
    if not study.manifest.impls:
        told.sort(key=lambda one: (_ORDER.index(one.severity), -one.upper_bound))
    known = subject.row if subject is not None else None
    judged = study.verdicts.get(subject.name) if subject is not None else None
    again = sections.again(study)
    measure = f"{again}{_where(study)}" if study.manifest.impls and again else again
    return {
        "schema": SCHEMA,
        "ok": True,
        "sample": cut(study.manifest.sample.id, room.letters),
        "device": cut(sections.device(study), room.letters),
        "says": [cut(line, room.letters) for line in _says(study, subject)[: room.results]],
        "subject": subject.name if subject is not None else "",
        "next": cut(_next(study, subject, told, mine), max(room.letters, 240)),
        "at_lower_bound": None if judged is not None and _no_time_counts(judged) else _at_lower_bound(known),
        "results": [_result(study, part, room) for part in _ranked(study, subject)[: room.results]],
        "waterfall": _waterfall(study, subject, room),
        "findings": [_finding(study, one, sources[id(one)], room) for one in told[: room.findings]],
        "findings_left_out": max(0, len(told) - room.findings),
        "caveats": [cut(one, room.letters) for one in _caveats(study, subject)][: room.caveats],
        "not_checked": _not_checked(study, mine, room),
        "measure": _command(measure, room),
        "gate": _command(_gate(study, subject), room),
        "more": _command(f"profkit explain {shlex.quote(study.path.as_posix())} --json", room),
        "run": cut(study.path.as_posix(), room.command),
    }


def _subject(study: Study) -> Part | None:
    """The part reported on: best correct candidate, else the first tried; of ranges the longest."""
    best = study.best
    if best is not None and best.impl is not None and best.impl.role != "reference":
        return best
    tried = [part for part in study.ranked if part.impl is None or part.impl.role != "reference"]
    if study.manifest.impls:
        return tried[0] if tried else best
    return min(tried, key=_longest(study), default=None)


def _says(study: Study, subject: Part | None) -> list[str]:
    """The first lines of every report, the subject's before the others."""
    own = subject.name if subject is not None else ""
    return [line for _, line in sorted(sections.sentences(study), key=lambda one: one[0] != own)]


def _seconds(study: Study, part: Part) -> float:
    """Time of a call, or of a range's kernels per step; NaN for none."""
    if study.stepwise and not study.filtered:
        return study.in_ranges.get(part.name, (math.nan, 0.0))[0]
    return number(part.row or {}, "time")


def _longest(study: Study) -> Callable[[Part], float]:
    """A key that puts the longest first, what has no time last."""

    def key(part: Part) -> float:
        value = _seconds(study, part)
        return 0.0 if math.isnan(value) else -value

    return key


def _ranked(study: Study, subject: Part | None) -> list[Part]:
    """The subject, then the other candidates, the reference last; ranges by time."""
    if not study.manifest.impls:
        return sorted(study.parts, key=_longest(study))
    return sorted(
        study.ranked, key=lambda one: (one is not subject, one.impl is not None and one.impl.role == "reference")
    )


def _result(study: Study, part: Part, room: _Room) -> dict[str, Any]:
    verdict, row = study.verdicts.get(part.name), part.row or {}
    found: dict[str, Any] = {
        "name": cut(part.name, room.letters),
        "verdict": verdict.word if verdict is not None else None,
        "time": _round(_seconds(study, part)),
        "x_lower_bound": _round(number(row, "lower_bound_ratio")),
        "bound_by": str(row.get("bound_by", "")) or None,
    }
    if verdict is None:
        return found
    found |= {
        "wins": verdict.wins,
        "conditions": [cut(one.text(language()), room.letters) for one in verdict.conditions],
        "speedup": _round(verdict.speedup),
        "interval": [_round(verdict.low), _round(verdict.high)] if math.isfinite(verdict.low) else None,
    }
    if _no_time_counts(verdict):
        kind, why = translated(verdict.kind), translated(verdict.why)
        found["kind"], found["why"] = cut(kind, room.letters), cut(why, room.letters)
    if part.impl is not None and part.impl.tail and not part.impl.ok:
        found["tail"] = part.impl.tail[-2 * room.letters :]
    return found


def _waterfall(study: Study, subject: Part | None, room: _Room) -> dict[str, Any] | None:
    """Seconds by kind of a program's step or of the subject's call, the largest first."""
    from profkit.report.waterfall import WINDOWS, wall_blocks  # pandas stays out of start-up

    fall = study.waterfalls.get(subject.name) if subject is not None else None
    if study.first_step is not None:
        name, one = study.first_step
        of, time, lower_bound = name or WINDOWS[one.steady.found], one.step, math.nan
        slices = [(block.seconds, {"kind": block.kind}) for block in wall_blocks(one, name, most=0)]
    elif fall is not None:
        of, time, lower_bound = fall.impl, fall.time, fall.lower_bound
        slices = [(part.seconds, _slice(part)) for part in fall.slices]
    else:
        return None
    slices.sort(key=lambda one: -one[0])
    return {
        "of": cut(of, room.letters),
        "time": _round(time),
        "lower_bound": _round(lower_bound),
        "slices": [{**said, "s": _round(seconds)} for seconds, said in slices[: room.slices]],
        "rest": _round(sum(seconds for seconds, _ in slices[room.slices :])),
    }


def _slice(one: Slice) -> dict[str, Any]:
    kernel = {"kernel": short_name(one.kernel, 40)} if one.kernel else {}
    return {"kind": one.kind, **kernel, **({"cause": one.cause} if one.cause else {})}


def _finding(study: Study, one: Finding, source: str | None, room: _Room) -> dict[str, Any]:
    title, then, expect = worded(one)
    return {
        "rule": one.rule,
        "title": cut(title, room.letters),
        "kernel": short_name(one.kernel, 40) if one.kernel else None,
        "source": source,
        "bound": _round(one.upper_bound),
        "share": _round(one.ratio),
        "evidence": [cut(proof(piece), 60) for piece in one.evidence[:3]],
        "next": cut(runnable(then, study), room.letters),
        "expect": cut(expect, room.letters),
        "verify": _command(_verify(study, one), room),
    }


def _verify(study: Study, one: Finding) -> str:
    """Command that shows whether the finding is gone in the newest run."""
    kernel = f" --kernel {shlex.quote(_handle(one.kernel))}" if one.kernel else ""
    return f"profkit explain {shlex.quote(_newest(study))}{kernel} --json"


def _handle(kernel: str) -> str:
    """The part of a kernel's name that --kernel finds it by."""
    bare = re.match(r"[\w:<>]+", kernel.removeprefix("void "))
    return (bare[0] if bare is not None and len(bare[0]) >= 4 else kernel)[:48]


def _newest(study: Study) -> str:
    """Folder of the next measurement's run; of exports the run itself."""
    if study.manifest.sample.kind == "import":
        return study.path.as_posix()
    return (_root(study) / study.manifest.sample.id).as_posix()


def _root(study: Study) -> Path:
    """Where the run's own kind goes: the folder of runs it lies in, else the one by default."""
    own = study.path.parent
    return own.parent if own.name == study.manifest.sample.id else RUNS


def _where(study: Study) -> str:
    root = _root(study)
    return "" if root == RUNS else f" --runs {shlex.quote(root.as_posix())}"


def _gate(study: Study, subject: Part | None) -> str:
    """Command with exit code 1 when the newest run is slower; "" where nothing compares."""
    if subject is None or not study.manifest.impls or subject.row is None or not sections.again(study):
        return ""
    before, after = (f"{path}:{subject.name}" for path in (study.path.as_posix(), _newest(study)))
    return f"profkit compare {shlex.quote(before)} {shlex.quote(after)} --fail-on-regression 0%"


def _next(study: Study, subject: Part | None, told: Sequence[Finding], mine: Sequence[Finding]) -> str:
    """One step: mend what is wrong, stop at the lower bound, else the first finding's."""
    verdict = study.verdicts.get(subject.name) if subject is not None else None
    if verdict is not None and _no_time_counts(verdict):
        whose = say("a_mend_task" if verdict.word == "void" else "a_make_right")
        return f"{whose}{say('colon')}{verdict.text(language())}"
    if subject is not None and _at_lower_bound(subject.row) and all(one.severity != HOST for one in told):
        return say("a_stop")
    if told:
        return runnable(worded(told[0])[1], study)
    again = sections.again(study)
    if study.manifest.counters.state != "collected" and again:
        how = translated(study.manifest.counters.fix) or again.replace("--events", "--ncu")
        return say("a_collect", how=how)
    return say("a_no_reason_blind" if mine else "a_no_reason", silent=unexplained(mine))


def _no_time_counts(verdict: Verdict) -> bool:
    return not verdict.right or verdict.word in ("void", "impossible")


def _at_lower_bound(row: Mapping[str, Any] | None) -> bool | None:
    ratio = number(row or {}, "lower_bound_ratio")
    return ratio <= AT_LOWER_BOUND if math.isfinite(ratio) else None


def _caveats(study: Study, subject: Part | None) -> Iterator[str]:
    """Those about the subject first, then the run's; the other implementations' are theirs."""
    own = subject.name if subject is not None else ""
    ranked: list[tuple[int, str]] = []
    for one in sections.all_caveats(study):
        whose = [name for name in one.about if name]
        if whose and own not in whose:
            continue
        fix = say("a_fix", fix=one.fix) if one.fix else ""
        ranked.append((0 if whose else 1, sections.caveat_line(one) + fix))
    return (said for _, said in sorted(ranked, key=lambda pair: pair[0]))


def _not_checked(study: Study, mine: Sequence[Finding], room: _Room) -> str:
    """The rules without counters and the command that collects them; "" for none."""
    missing = list(dict.fromkeys(one.rule for one in mine if one.severity == COLLECT))
    if not missing:
        return ""
    step = next(one.next_step for one in mine if one.severity == COLLECT)
    rules = say("listed").join(named(one) for one in missing)
    said = say("a_lack", count=str(len(missing)), rules=rules)
    return cut(said, room.letters) + say("colon") + runnable(step, study)


def _command(text: str, room: _Room) -> str | None:
    """A command as it is, or null: half of one is none."""
    return text if text and len(text) <= room.command else None


def _round(value: float) -> float | None:
    """Four significant digits; None for what is not known."""
    return float(f"{value:.4g}") if math.isfinite(value) else None


DIALECT = Dialect("agent", write, failed=failure)
