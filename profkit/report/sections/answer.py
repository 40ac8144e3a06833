"""First lines of every report."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from posixpath import basename
from typing import TYPE_CHECKING, Any

from analyzers.lower_bound import below
from analyzers.pipes import TYPES, task_type
from analyzers.records import number
from analyzers.verdicts.verdict import brief
from collectors.caveat import SLOWED, TARGET_FAILED
from profkit.report.layout import cut
from profkit.report.messages import bound_why, judged, language, named, say, translated
from profkit.report.names import short_name
from roofline import units

if TYPE_CHECKING:
    from analyzers.timeline.budget import Budget
    from analyzers.verdicts.verdict import Verdict
    from profkit.study.study import Part, Study

LEAST_HELD = 0.75
"""Share of the record's GPU time below which the steps' share is stated."""
CLOCKS = ("waits",)
"""Conditions that stand behind the times."""
LEAST_SLOWED = 0.01
"""Share of a step below which recording overhead is not mentioned."""
_TYPE = re.compile(r"\b(?:fp(?:64|32|16|8)|[bt]f(?:16|32)|b?float(?:64|32|16))\b", re.I)
_GRAPH = "[CUDA graph "
_ENDINGS = re.compile(r"(\.(trace|pt|json|gz|sqlite|nsys-rep|ncu-rep|csv|txt|log))+$")
"""File extensions of exports."""


def device(study: Study) -> str:
    """Name of the device of the run."""
    return str(study.manifest.device.get("name", "unknown device"))


def title(study: Study) -> str:
    """Title: what was measured, on which device."""
    return say("title_on", what=ran(study), device=device(study))


def what(study: Study) -> str:
    """The reference's task and the device, in the current language."""
    sample = study.manifest.sample
    where, threads = device(study), study.manifest.device.get("threads")
    where = say("p_threads", device=where, count=str(threads)) if threads else where
    if not (told := task(study)):
        return title(study)
    said = sample.id.replace("_", " ").lower() in told.replace("_", " ").lower()
    return say("title_on" if said else "p_on", what=told, task=told, device=where, sample=sample.id)


def task(study: Study) -> str:
    """The task in its author's words and the type of its inputs and outputs; "" without words.

    Words that name only other types are about the reference, and left out.
    """
    said, sample = study.manifest.sample.task, study.manifest.sample.id
    names = {name for key in ("inputs", "outputs") for name in study.manifest.task.get(key, ())}
    own = {task_type({"": [name]}) for name in names} - {""}
    told = {TYPES.get(word.lower(), word.lower()) for word in _TYPE.findall(said)}
    if not said or not own or told & own:
        return said
    return say("typed", what=sample if told else said, type=task_type({"": sorted(names)}))


def called(study: Study, name: str) -> str:
    """An implementation's name, with "on the CPU" if it is the name of a GPU language."""
    cpu = study.manifest.device.get("kind") == "cpu"
    return say("p_on_cpu", name=name) if cpu and name in ("cuda", "triton") else name


def exported(study: Study) -> str:
    """Name of the first imported file without its endings; "" if none was imported."""
    files = [_ENDINGS.sub("", basename(one.origin)) for one in study.manifest.captures if one.origin]
    return next(iter(files), "")


def ran(study: Study) -> str:
    """A sample's name, or a program's or export's name with its size in kernels."""
    if study.manifest.sample.path or study.manifest.impls:
        return study.manifest.sample.id
    manifest, kernels, launches = study.manifest, study.hottest, study.launches
    known = launches.attrs.get("program", "") if launches is not None else ""
    name = cut(shlex.join(manifest.program), 60) or known or exported(study) or manifest.sample.id
    if study.first_step is not None:
        one = study.first_step[1]
        work = _launched(_whole_graphs(study, {"kernel": one.launches / one.parts}))
        return per(study, "title", what=name, work=work)
    if manifest.program or study.of_operators or tool(study) == "trtexec" or not len(kernels) or launches is None:
        return name
    what = short_name(longest := str(kernels["kernel"].iloc[0]))
    sizes = launches.loc[launches["kernel"] == longest, ["grid", "block"]].drop_duplicates()
    if len(sizes) == 1 and all(sizes.iloc[0]):
        what = say(
            "title_kernel", kernel=what, **{key: str(one).replace(",", "x") for key, one in sizes.iloc[0].items()}
        )
    more = kernels["kernel"].nunique() - 1
    return say("title_more", what=what, count=str(more)) if more else what


def first_lines(study: Study) -> list[str]:
    """The sentences at the start of every report."""
    return [line for _, line in sentences(study)]


def sentences(study: Study) -> list[tuple[str, str]]:
    """(candidate, sentence), best first, skipped last; the name is "" for ranges."""
    reference, verdicts = study.manifest.reference, study.verdicts
    if reference is not None and not reference.ok:
        if reference.status == "skipped" and not reference.reason:
            return [("", say("reference_not_called", status=study.manifest.status))]
        return [("", say("reference_failed", status=reference.status, reason=brief(reference.reason)))]
    if not study.manifest.impls:
        ran = _how_much(study)
        failed = any(caveat.code == TARGET_FAILED for caveat in study.analysis.caveats)
        return [("", line) for line in (*wall_time(study), say("cap_failed", said=ran) if failed else ran)]
    tried = [part for part in study.ranked if part.impl is not None and part.impl.role != "reference"]
    said = [(part.name, _sentence(study, part, verdicts.get(part.name))) for part in tried]
    nothing = [] if said else [("", say("no_candidate" if reference is not None else "nothing_timed"))]
    skipped: dict[str, list[str]] = {}
    for one in study.manifest.candidates:
        if one.status == "skipped":
            skipped.setdefault(judged(verdicts[one.name]), []).append(one.name)
    for why, names in skipped.items():
        who = say("skipped_alike", count=str(len(names)), names=", ".join(names)) if names[1:] else names[0]
        nothing.append((names[0], who + say("colon") + why))
    return [*said, *nothing]


def _sentence(study: Study, part: Part, verdict: Verdict | None) -> str:
    head = called(study, part.name) + say("colon")
    if verdict is not None and (not verdict.right or (part.row is None and verdict.word == "void")):
        return head + judged(verdict)
    if part.row is None:
        return head + say("not_timed")
    time, far = units.text(float(part.row["time"]), "s"), distance(part.row)
    if verdict is None:
        return say("comma").join([head + time, *far])
    # Of a time that means nothing neither the distance to a lower bound nor correctness is said.
    sound = verdict.word not in ("void", "impossible")
    said, pace = [say("is_correct")] if sound else [], verdict.text(language(), translated, CLOCKS)
    said = [*said, pace, say("takes", time=time), *(far if sound else [])]
    return by_both_clocks(head + say("comma").join(said), verdict)


def by_both_clocks(said: str, verdict: Verdict) -> str:
    """A sentence with times, and the speed-up by the caller's clock where it differs."""
    return say("semicolon").join([said, *(judged(one) for one in verdict.conditions if one.code in CLOCKS)])


def by_own(row: Mapping[str, Any]) -> bool:
    """Whether the distance is to the implementation's own lower bound, below the task's."""
    return below(number(row, "lower_bound_own_time"), number(row, "lower_bound_time"))


def far(row: Mapping[str, Any]) -> str:
    """Distance to the lower bound for a table: "2.31", or "2.31 (own: tensor_bf16)"."""
    ratio = units.digits(number(row, "lower_bound_ratio"))
    return say("own_bound", ratio=ratio, roof=named(str(row["lower_bound_own_bound_by"]))) if by_own(row) else ratio


def distance(row: Mapping[str, Any], *, both: bool = False) -> list[str]:
    """Distance to the lower bound, of the task or of a lower precision, and the bottleneck.

    both: also to the higher bound of an own precision above the task's.
    """
    time, task, own = (float(row[key]) for key in ("time", "lower_bound_time", "lower_bound_own_time"))
    lower, ratio = by_own(row), units.digits(float(row["lower_bound_ratio"]))
    said = [say("times_lower_bound", ratio=ratio)] if task > 0 and not lower else []
    if lower or (both and below(task, own)):
        by = named(str(row["lower_bound_own_bound_by"]))
        said.append(say("times_own_lower_bound", ratio=ratio if lower else units.digits(time / own), roof=by))
    roof = bound_why(row)
    return said + ([say("is_bound_by", roof=roof)] if roof else [])


def wall_time(study: Study, *, causes: bool = True) -> list[str]:
    """Wall time of a program's steady state by part, one line per process and device.

    `causes`: split idle time by cause.
    """
    return [_budget(study, name, one, causes) for name, one in study.budgets.items() if one.window > 0]


def _held(study: Study, one: Budget) -> str:
    """The steps' share of the record's GPU time if below LEAST_HELD, else ""."""
    whole = study.captured.timeline
    if whole is None or len(study.budgets) > 1 or one.steady.found != "repeating":
        return ""
    share = float(study.step["time"].sum()) * one.steady.steps / float(whole["time"].sum())
    return say("wall_held", share=units.percent(share)) if share < LEAST_HELD else ""


def slowed(study: Study) -> bool:
    """Whether the profiler slowed the program down."""
    return any(caveat.code == SLOWED for caveat in study.analysis.caveats)


def _budget(study: Study, name: str, one: Budget, idle: bool) -> str:
    """Parts of the window, largest first; idle: split idle time by cause."""
    kinds = ("away", "host", "waiting", "allocating", "loading", "queued") if idle else ()
    why = _large([(_why_idle(one, kind), getattr(one, kind)) for kind in kinds], one.window)
    shares = [(say(f"wall_{kind}"), getattr(one, kind)) for kind in ("computing", "communicating", "copying")]
    took = units.text(one.step, "s")
    if slowed(study) and one.step - one.least >= LEAST_SLOWED * one.step:
        took = say("as_recorded", time=took)
    kind = "" if one.steady.marked or not one.steady.marks else say("wall_unmarked")
    several = "wall_steps" if one.steady.steps > 1 else "wall_step"
    between = spread(one) if one.steady.steps > 1 else ""
    within = study.manifest.window.range or between + kind + _held(study, one)
    known = {"steps": str(one.steady.steps), "time": took, "range": within}
    head = say({"all": "wall_whole", "range": "wall_range"}.get(one.steady.found, several), **known)
    told = _large([*shares, (say("wall_idle"), one.idle)], one.window, say("wall_of_idle", why=why) if why else "")
    return (name + say("colon") if name else "") + head + told


def spread(one: Budget) -> str:
    """Shortest to longest step, "70.8 to 83.6 ms"; "" if nothing repeats."""
    if math.isnan(one.shortest):
        return ""
    unit, (low, high) = units.column([one.shortest, one.longest], "s")
    return say("spread", low=low, high=high, unit=unit)


def _why_idle(one: Budget, kind: str) -> str:
    """Cause of GPU idle time; if the host was away, also where."""
    why = say(f"wall_{kind}")
    if kind != "away" or not one.hole_before:
        return why
    doing = next((hole.doing for hole in one.named if hole.cause == kind), "")
    why = f"{why} [{cut(doing, 60)}]" if doing else why
    return say("wall_away_where", away=why, before=short_name(one.hole_before))


def _large(parts: Sequence[tuple[str, float]], whole: float, last: str = "") -> str:
    """ "computing 63%, GPU idle 37%", the largest first; `last` follows the last of the parts."""
    shares = [(text, part / whole, last if text == parts[-1][0] else "") for text, part in parts]
    large = sorted((one for one in shares if one[1] >= 0.01), key=lambda one: -one[1])
    return say("comma").join(f"{text} {units.percent(share)}{more}" for text, share, more in large)


def _step_work(study: Study) -> str:
    """Launches of a step, their time, and the kernel with the largest share."""
    step, ran = study.step, study.step[study.step["kind"] == "kernel"]
    counts = {str(kind): float(count) for kind, count in step.groupby("kind")["count"].sum().items()}
    counts = _whole_graphs(study, counts)
    different = ran.loc[~ran["name"].str.startswith(_GRAPH), "name"].nunique()
    time, own = float(ran["time"].sum()), float(ran["own"].sum())
    apart = say("cap_beside", time=units.text(time - own, "s")) if time - own > 0.01 * time else ""
    said = per(study, "cap_in") + say(
        "cap_step",
        launches=_launched(counts, kinds=different),
        time=units.text(time, "s"),
        beside=apart,
    )
    if ran.empty:
        said = per(study, "cap_in") + say("cap_no_kernel", work=_launched(counts))
    hot = next(iter(study.hottest.to_dict("records")), {})
    if not number(hot, "share") > 0:
        return said
    return said + _hottest(hot, say("cap_of_that", share=units.percent(float(hot["share"]))))


def _hottest(kernel: Mapping[Any, Any], share: str) -> str:
    roof = bound_why(kernel)
    parts = [short_name(str(kernel["kernel"])), share, *([say("is_bound_by", roof=roof)] if roof else [])]
    return say("cap_hottest", what=say("comma").join(parts))


def _whole_graphs(study: Study, counts: Mapping[str, float]) -> dict[str, float]:
    """Counts with graphs that nsys traced whole apart from the kernels."""
    step = study.step if len(study.budgets) == 1 else study.step[:0]
    graphs = float(step.loc[step["name"].str.startswith(_GRAPH), "count"].sum())
    return {**counts, "kernel": counts.get("kernel", 0.0) - graphs, "graph": graphs}


def _launched(counts: Mapping[str, float], *, kinds: int = 0) -> str:
    """ "719 kernels (72 different), 2.25 copies, 17 fills"; kinds: of kernels, 0 for none."""
    names = {"kernel": "kernels", "memcpy": "copies", "memset": "fills", "graph": "graphs"}
    names |= {"kernel": "different"} if kinds > 1 else {}
    told = [(f"count_{name}", many(counts[kind])) for kind, name in names.items() if counts.get(kind, 0)]
    return say("comma").join(_numbered(key, count, kinds=str(kinds)) for key, count in told)


def _numbered(key: str, count: str, **values: str) -> str:
    """The message `key`, or the one for a single thing."""
    return say(f"{key}_one" if count == "1" else key, count=count, **values)


def ending(study: Study) -> str:
    """Suffix of message ids for a program's window: "_step", "_passage" or "_all"."""
    found = next((one.steady.found for one in study.budgets.values()), "all")
    return {"all": "_all", "range": "_passage"}.get(found, "_step")


def many(value: float) -> str:
    """A count per step, rounded to an integer if rounding explains the difference."""
    return units.count(round(value, 6))


def launched(one: Budget) -> str:
    """ "719 kernels, 2.25 copies, 17 fills" of a step."""
    counts = {"kernel": one.launches, "memcpy": one.copies, "memset": one.fills}
    return _launched({kind: count / one.parts for kind, count in counts.items()})


def per(study: Study, key: str, **values: str) -> str:
    """The message `key` for a step, a passage of a range or a whole record."""
    return say(key + ending(study), **values)


def _how_much(study: Study) -> str:
    if study.stepwise and not study.filtered:
        return _step_work(study)
    kernels = study.hottest
    if not len(kernels):
        return say("cap_nothing_imported" if study.manifest.sample.kind == "import" else "cap_nothing") + _moved(
            study, 0.0
        )
    total = float(kernels["time"].sum()) or math.nan if "time" in kernels else math.nan
    what = "operators" if study.by_operator else "layers" if tool(study) == "trtexec" else "kernels"
    many = _numbered(f"cap_{what}", str(len(kernels)))
    launches = f"{float(kernels['launches'].sum()):.0f}"
    did = "cap_calls" if study.by_operator else "cap_launches"
    ran = say(f"{did}_one" if launches == "1" else did, launches=launches, kernels=many)
    if not total > 0:
        return say("cap_untimed", ran=ran)
    timed = "cap_cpu_timed" if study.of_operators else "cap_least" if study.overlapping else "cap_timed"
    left = 0.0 if study.launches is None else float(study.launches.attrs.get("unlisted", 0.0))
    whole = total + left
    said = say(timed, ran=ran, time=units.text(total, "s"))
    if left > 0:
        said += say("cap_unlisted", whole=units.text(whole, "s"), share=units.percent(left / whole))
    frame = study.captured.timeline
    if study.filtered and frame is not None:
        said = say("cap_counted", counted=said, total=units.text(float(frame["time"].sum()), "s"))
        kernels = kernels.sort_values("share", ascending=False, kind="stable")
    hot = kernels.iloc[0].to_dict()
    return said + _hottest(hot, units.percent(float(hot["share"]))) + _moved(study, whole)


def _moved(study: Study, computed: float) -> str:
    """Copies and fills of an import without a timeline, or ""; `computed`: kernel time [s]."""
    moved = {} if study.launches is None or study.filtered else study.launches.attrs.get("moved", {})
    time = sum(seconds for _, seconds in moved.values())
    if not time > 0:
        return ""
    work = _launched({kind: count for kind, (count, _) in moved.items()})
    share = units.percent(time / (time + computed))
    return say("cap_moved" if computed > 0 else "cap_moved_alone", work=work, time=units.text(time, "s"), share=share)


def tool(study: Study) -> str:
    launches = study.launches
    return str(launches["tool"].iloc[0]) if launches is not None and len(launches) else ""
