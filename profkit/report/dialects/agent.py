"""--for agent: a JSON document of at most 3,000 characters for coding agents.

Schema profkit-agent/1 (docs/agent.md, report/agent.schema.json). Seconds, shares of 0 to 1, four digits; null if unknown.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analyzers.kernels.source_lines import Line
from analyzers.records import number
from analyzers.rules.rule import COLLECT, HINT, HOST, TIME, Finding
from profkit.report import waterfall
from profkit.report.dialects import Written, the_one
from profkit.report.explain import proof, unchecked, worded
from profkit.report.layout import cut
from profkit.report.messages import judged, named, say, translated
from profkit.report.names import short_name
from profkit.report.sections import answer, caveats, method
from profkit.report.sections.advice import advice, at_lower_bound, no_time_counts
from profkit.rundir.directory import RUNS
from profkit.rundir.files import sha256
from profkit.study.study import Part, Study

SCHEMA = "profkit-agent/1"
LIMIT = 3000
_ORDER = (TIME, HOST, HINT)
_COMMANDS = ("measure", "gate", "more", "verify")
_WHOLE = ("schema", "source", "evidence", "not_checked")
"""Texts that are never cut, and commands, which are replaced by null instead."""
_ROOMS = (
    (6, 6, 3, 4, 300, 400),
    (4, 5, 3, 3, 160, 400),
    (3, 4, 3, 2, 120, 400),
    (2, 4, 3, 1, 90, 400),
    (1, 3, 3, 1, 70, 250),
    (1, 3, 2, 1, 60, 160),
    (1, 2, 1, 0, 40, 120),
)
"""Limits from widest to narrowest: results, slices, findings, caveats, letters per sentence and per command."""


def write(runs: Sequence[str | Study]) -> Written:
    """Write the document of one run for stdout."""
    return Written(document(the_one(runs)))


def document(study: Study, findings: Sequence[Finding] | None = None) -> str:
    """The document as JSON in the widest form that fits; `findings`: default all."""
    full = _content(study, study.findings() if findings is None else findings)
    texts = (_json(_fitted(full, *room)) for room in _ROOMS)
    return min(texts, key=lambda text: len(text) > LIMIT)


def failure(message: str, fix: str, exit_code: int) -> str:
    """The document for a command that failed."""
    told = {"message": cut(message, LIMIT // 3), "fix": cut(fix, LIMIT // 3), "exit_code": exit_code}
    return _json({"schema": SCHEMA, "ok": False, "error": told})


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


# ---- as much as fits


def _fitted(
    full: Mapping[str, Any], results: int, slices: int, findings: int, caveats: int, letters: int, command: int
) -> dict[str, Any]:
    """The document with each list, sentence and command cut to its limit."""
    fall, told = full["waterfall"], full["findings"]
    if fall is not None:
        rest = sum(one["s"] for one in fall["slices"][slices:])
        fall = {**fall, "slices": fall["slices"][:slices], "rest": rest}
    lists = {
        "says": full["says"][:results],
        "results": full["results"][:results],
        "waterfall": fall,
        "findings": told[:findings],
        "findings_left_out": max(0, len(told) - findings),
        "caveats": full["caveats"][:caveats],
    }
    widths = {"next": max(letters, 240), "run": command}
    return {key: _short(value, key, widths.get(key, letters), command) for key, value in {**full, **lists}.items()}


def _short(value: Any, key: str, letters: int, command: int) -> Any:
    """Round to four significant digits; shorten sentences."""
    if isinstance(value, dict):
        return {name: _short(one, name, letters, command) for name, one in value.items()}
    if isinstance(value, list):
        return [_short(one, key, letters, command) for one in value]
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else None
    if not isinstance(value, str) or key in _WHOLE:
        return value
    if key in _COMMANDS:
        return value if 0 < len(value) <= command else None
    return value[-2 * letters :] if key == "tail" else cut(value, letters)


# ---- what is said


def _content(study: Study, findings: Sequence[Finding]) -> dict[str, Any]:
    """The uncut document."""
    subject = _subject(study)
    own = subject.name if subject is not None else ""
    mine = [one for one in findings if not study.manifest.impls or (subject is not None and one.impl == own)]
    told = [one for one in mine if one.severity != COLLECT]
    if not study.manifest.impls:
        told.sort(key=lambda one: (_ORDER.index(one.severity), -one.upper_bound))
    judged = study.verdicts.get(own)
    again, here = method.again(study), study.path.as_posix()
    gate = ""
    if again and study.manifest.impls and subject is not None and subject.row is not None:
        before, after = (shlex.quote(f"{path}:{own}") for path in (here, _newest(study)))
        gate = f"profkit compare {before} {after} --fail-on-regression 0%"
    rules, command = unchecked(mine, study)
    lack = say("a_lack", count=str(len(rules)), rules=say("listed").join(map(named, rules)))
    elsewhere = study.manifest.impls and again and _root(study) != RUNS
    return {
        "schema": SCHEMA,
        "ok": True,
        "sample": study.manifest.sample.id,
        "device": answer.device(study),
        "says": [line for _, line in sorted(answer.sentences(study), key=lambda one: one[0] != own)],
        "subject": own,
        "next": advice(study, subject, told + [one for one in mine if one.severity == COLLECT])[0],
        "at_lower_bound": None if judged is not None and no_time_counts(judged) else at_lower_bound(subject),
        "results": [_result(study, part) for part in _ranked(study, subject)],
        "waterfall": _waterfall(study, own),
        "findings": [_finding(study, one) for one in told],
        "findings_left_out": 0,
        "caveats": _caveats(study, own),
        "not_checked": cut(lack, 100) + say("colon") + command if rules else "",
        "measure": again + (f" --runs {shlex.quote(_root(study).as_posix())}" if elsewhere else ""),
        "gate": gate,
        "more": f"profkit explain {shlex.quote(here)} --json",
        "run": here,
    }


def _subject(study: Study) -> Part | None:
    """The best correct candidate, else the first tried; for ranges the longest."""
    best = study.best
    if best is not None and best.impl is not None and best.impl.role != "reference":
        return best
    tried = [part for part in study.ranked if part.impl is None or part.impl.role != "reference"]
    if study.manifest.impls:
        return tried[0] if tried else best
    return next(iter(_ranked(study, None)), None)


def _ranked(study: Study, subject: Part | None) -> list[Part]:
    """The subject, other candidates, then the reference; ranges by time."""
    if not study.manifest.impls:
        times = {one.name: study.in_ranges.get(one.name, (number(one.row or {}, "time"),))[0] for one in study.parts}
        return sorted(study.parts, key=lambda one: -max(0.0, times[one.name]))
    return sorted(
        study.ranked, key=lambda one: (one is not subject, one.impl is not None and one.impl.role == "reference")
    )


def _result(study: Study, part: Part) -> dict[str, Any]:
    verdict, row = study.verdicts.get(part.name), part.row or {}
    found: dict[str, Any] = {
        "name": part.name,
        "verdict": verdict.word if verdict is not None else None,
        "time": number(row, "time"),
        **({"step_time": study.in_ranges[part.name][0]} if part.name in study.in_ranges else {}),
        "x_lower_bound": number(row, "lower_bound_ratio"),
        "bound_by": str(row.get("bound_by", "")) or None,
    }
    if verdict is None:
        return found
    found |= {
        "wins": verdict.wins,
        "conditions": [judged(one) for one in verdict.conditions],
        "speedup": verdict.speedup,
        "interval": [verdict.low, verdict.high] if math.isfinite(verdict.low) else None,
    }
    if no_time_counts(verdict):
        found |= {"kind": translated(verdict.kind), "why": translated(verdict.why)}
    if part.impl is not None and part.impl.tail and not part.impl.ok:
        found["tail"] = part.impl.tail
    return found


def _waterfall(study: Study, own: str) -> dict[str, Any] | None:
    """Seconds by kind of block, largest first: of a program's step or of `own`."""
    lower_bound, fall = math.nan, study.waterfalls.get(own)
    if study.first_step is not None and (step := waterfall.shown(study, most=0)) is not None:
        of, time = step.name, step.time
        slices: list[dict[str, Any]] = [{"kind": one.kind, "s": one.seconds} for one in step.blocks]
    elif fall is not None:
        of, time, lower_bound, slices = fall.impl, fall.time, fall.lower_bound, []
        for part in fall.slices:
            known = {"kernel": short_name(part.kernel, 40) if part.kernel else "", "cause": part.cause}
            slices.append({"kind": part.kind, **{key: text for key, text in known.items() if text}, "s": part.seconds})
    else:
        return None
    slices.sort(key=lambda one: -one["s"])
    return {"of": of, "time": time, "lower_bound": lower_bound, "slices": slices}


def _finding(study: Study, one: Finding) -> dict[str, Any]:
    title, then, expect = worded(one, study)
    # As much of the name as --kernel finds it by.
    bare = re.match(r"[\w:<>]+", one.kernel.removeprefix("void "))
    handle = (bare[0] if bare is not None and len(bare[0]) >= 4 else one.kernel)[:48]
    kernel = f" --kernel {shlex.quote(handle)}" if one.kernel else ""
    return {
        "rule": one.rule,
        "title": title,
        "kernel": short_name(one.kernel, 40) if one.kernel else None,
        "source": _place(study, one.impl, one.kernel),
        "bound": one.upper_bound,
        "share": one.ratio,
        **({"measures": True} if one.measures else {}),
        "evidence": [cut(proof(piece), 60) for piece in one.evidence[:3]],
        "next": then,
        "expect": expect,
        "verify": f"profkit explain {shlex.quote(_newest(study))}{kernel} --json",
    }


def _newest(study: Study) -> str:
    """Folder of the newest run of this sample or program; for an import the run itself."""
    if study.manifest.sample.kind == "import":
        return study.path.as_posix()
    return (_root(study) / study.manifest.sample.id).as_posix()


def _root(study: Study) -> Path:
    """Folder that holds the runs; by default profkit-runs."""
    own = study.path.parent
    return own.parent if own.name == study.manifest.sample.id else RUNS


def _caveats(study: Study, own: str) -> list[str]:
    """Caveats about the subject, then about the run; none about other implementations."""
    every = [one for one in caveats.all_caveats(study) if own in one.about or not any(one.about)]
    every.sort(key=lambda one: not any(one.about))
    return [one.with_fix() for one in every]


# ---- source lines of findings


def _place(study: Study, impl: str, kernel: str) -> str | None:
    """ "file:line" of the kernel's largest stall, else of its definition."""
    listed = study.manifest.sample.files.get(impl)
    file = Path(study.manifest.sample.path) / listed.path if listed is not None else None
    same = listed is not None and file is not None and file.is_file() and sha256(file) == listed.sha256
    lines = file.read_text("utf-8", "replace").splitlines() if same and file is not None else []
    waits = [one for one in study.lines if (one.impl, one.kernel) == (impl, kernel) and one.number]
    known = next((one.kernels for one in study.manifest.impls if one.name == impl), [])
    name = next((one for one in known if one in kernel), "")
    head = re.compile(rf"(__global__.*|^void |^def |^\s*){re.escape(name)}\s*\(")
    defined = next((at for at, line in enumerate(lines, 1) if name and head.search(line)), 0)
    at = _moved(waits, lines) if waits else defined
    if file is not None and at:
        return f"{file.name}:{at}"
    return f"{Path(waits[0].file).name}:{waits[0].number}" if waits else None


def _moved(waits: Sequence[Line], lines: Sequence[str]) -> int:
    """Line number of the first of these in the file, 0 if absent; CUDA strings are shifted."""
    first = waits[0]
    mine = {one.number: one.text.strip() for one in waits if one.file == first.file and one.text.strip()}
    shifts = Counter(at - n for at, text in enumerate(lines, 1) for n, said in mine.items() if text.strip() == said)
    found = (first.number + shift for shift, _ in shifts.most_common())
    return next((at for at in found if 1 <= at <= len(lines) and lines[at - 1].strip() == first.text.strip()), 0)
