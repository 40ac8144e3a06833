"""Method: times, counters, processes, and the command that measures again."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from itertools import chain
from posixpath import basename
from typing import TYPE_CHECKING, Any

from analyzers.records import number
from analyzers.verdicts.verdict import PACED
from collectors import READERS
from profkit.report.messages import named, say, translated
from profkit.report.sections.answer import tool
from roofline import units
from roofline.ceilings import BANDWIDTH

if TYPE_CHECKING:
    from profkit.study.study import Study

MOST_WORKS = 40
"""Most ranges whose work is listed."""


def counters_line(study: Study) -> str:
    """Why hardware counters are missing; "" if present."""
    if counted(study):
        return ""
    why = translated(study.manifest.counters.why) or say("cap_only_times")
    sources = {str(part.row["work_source"]) for part in study.parts if part.row is not None} - {"", "nan"}
    source = say("listed").join(map(translated, sorted(sources))) or say("p_unknown")
    return say("counters_missing" if study.manifest.impls else "cap_missing", why=why, source=source)


def counters_note(study: Study) -> str:
    """Why hardware counters are missing and the fix; "" if present."""
    note, fix = counters_line(study), translated(study.manifest.counters.fix)
    fix = "" if study.manifest.device.get("kind") == "cpu" else fix  # another machine is no fix
    return (say("p_note_fix", note=note, fix=fix) if fix else note + say("stop").rstrip()) if note else ""


def notes(study: Study) -> list[str]:
    """What to know of the numbers of implementations."""
    told = (paired_line(study), uncounted_line(study), below_least(study), noted_line(study))
    return list(filter(None, told))


def right_line(study: Study) -> str:
    """Why results were not checked; "" for implementations."""
    return "" if study.manifest.impls else say("right_line", why=unchecked(study))


def unchecked(study: Study) -> str:
    """Why results of a program or an export were not checked."""
    return say("p_right_export" if study.manifest.sample.kind == "import" else "p_right_program")


def inferred_lines(study: Study) -> list[str]:
    """Bottleneck of each implementation inferred from time, one line each; [] without --perturb."""
    told = []
    for name, one in study.inferred.items():
        said = say(f"inferred_{one.sure}", roof=named(one.bound_by))
        why = say("semicolon").join(say(f"inferred_{kind}", **values) for kind, values in one.reasons)
        told.append(name + say("colon") + say("inferred_why", said=said, why=why))
    return told


def uncounted_line(study: Study) -> str:
    """Implementations without counted FLOP or bytes; "" unless others have them."""
    if not counted(study):
        return ""
    rows = [part.row for part in study.ranked if part.impl is not None and part.row is not None]
    listed = [
        say("bound_why", bound=str(row["impl"]), why=translated(str(row["work_source"] or "unknown")))
        for row in rows
        if row["work_source"] != "counted"
    ]
    return say("uncounted", impls=say("listed").join(listed)) if listed else ""


def counted(study: Study) -> bool:
    return study.manifest.counters.state == "collected"


def below_least(study: Study) -> str:
    """Counted bytes below the compulsory ones, and why; "" for none."""
    rows = [part.row for part in study.ranked if part.impl is not None and part.row is not None]
    short = [row for row in rows if row["work_source"] == "counted" and row["bytes"] < row["compulsory_bytes"]]
    told = [[units.text(float(row[name]), "B") for name in ("compulsory_bytes", "bytes")] for row in short]
    fewer = [f"{row['impl']} {moved}" for row, (least, moved) in zip(short, told, strict=True) if moved != least]
    return say("below_least", least=told[0][0], impls=say("listed").join(fewer)) if fewer else ""


def unpaired(study: Study) -> dict[str, str]:
    """Implementation -> ratio of the two medians if it differs from the speed-up."""
    rows = {part.name: part.row for part in study.ranked if part.row is not None}
    base = rows.get(study.analysis.reference)
    if base is None:
        return {}
    found = {}
    for name, row in rows.items():
        if row is base or row.get("verdict") not in (*PACED, "inconclusive") or not row["time"] > 0:
            continue
        plain = units.digits(base["time"] / row["time"])
        if plain != units.digits(float(row["speedup"])):
            found[name] = plain
    return found


def paired_line(study: Study) -> str:
    """Ratios of medians that differ from the speed-up; "" for none."""
    told = [say("paired_of", impl=name, ratio=ratio) for name, ratio in unpaired(study).items()]
    return say("paired", ratios=say("listed").join(told)) if told else ""


def noted_line(study: Study) -> str:
    """Notes on correct candidates for inputs that were not drawn; "" for none."""
    told = [
        f"{impl.name}{say('colon')}{say('semicolon').join(map(translated, impl.notes))}"
        for impl in study.manifest.candidates
        if impl.ok and impl.notes
    ]
    return say("noted", notes=say("semicolon").join(told)) if told else ""


def timing_line(study: Study) -> str:
    """How times were measured."""
    timing = study.manifest.timing
    if not timing.method:
        return say("nothing_timed") if study.manifest.impls else kernel_times_line(study)
    method = study.analysis.method or timing.method
    rows = timed(study)
    half = [(row["time_high"] - row["time_low"]) / 2 / row["time"] for row in rows]
    widest, cache = max(half, default=math.nan), cache_of(study)
    where = "" if not study.manifest.candidates else say("isolated" if study.manifest.isolated else "trusted")
    # Of the reference there are none, NaN.
    several = max((part.row["processes"] for part in study.parts if part.row and part.row["processes"] > 1), default=1)
    where += say("processes", count=f"{several:.0f}") if where and several > 1 else ""
    flush = timing.flush_bytes if cache == timing.l2 else 0.0
    flushed = say("flushed", size=units.text(flush, "B")) if flush else ""
    return say(
        "timing",
        count=str(fewest(study)),
        state=named(cache),
        flushed=flushed,
        note=translated(timing.notes.get(method, timing.note)),
        reached=say(
            "known_to" if widest <= 1 else "known_badly" if half and widest > 1 else "known_nothing",
            share=units.percent(widest),
        ),
        where=where,
    )


def timed(study: Study) -> list[Mapping[str, Any]]:
    """Rows of the parts with samples."""
    return [part.row for part in study.parts if part.row is not None and part.row["n"] > 0]


def fewest(study: Study) -> int:
    """Samples of the part that has the fewest."""
    return min((int(row["n"]) for row in timed(study)), default=0)


def cache_of(study: Study) -> str:
    """State of the L2 cache during the kept samples, "cold" or "warm"."""
    taken = {str(row["l2"]) for row in timed(study)}
    return taken.pop() if len(taken) == 1 else study.manifest.timing.l2


def kernel_times_line(study: Study) -> str:
    """How times of single kernels were measured."""
    name = tool(study) or next((one.tool for one in study.manifest.captures), "")
    return say(f"times_{name}") if name in READERS else say("cap_other")


def placed(study: Study) -> bool:
    """Whether any kernel or part is placed under the ceilings."""
    hottest = study.hottest.reindex(columns=["achieved_flops", "dram_bandwidth"])
    rows: list[Mapping[Any, Any]] = [*hottest.to_dict("records"), *(part.row or {} for part in study.parts)]
    roofed = bool(study.roofline.ceilings)
    return any(number(row, "achieved_flops") > 0 or (roofed and number(row, "dram_bandwidth") >= 0) for row in rows)


def again(study: Study) -> str:
    """Command line that repeats the measurement; "" for a callable."""
    manifest = study.manifest
    if manifest.sample.kind == "callable":
        return ""
    if manifest.sample.kind == "import":
        # What was read together with a file is named with it.
        files = [[one.origin or one.file, *map(basename, one.companions.values())] for one in manifest.captures]
        return f"profkit import {shlex.join(dict.fromkeys(chain.from_iterable(files)))} -o NEW"
    if manifest.program:
        tools = {one.tool for one in manifest.captures}
        flags = ["--ncu"] if "ncu" in tools else []
        flags += ["--nsys"] if tools & {"nsys", "kineto"} and not study.of_operators else []
        # The ranking of --hot records a timeline as well.
        flags = ["--hot", str(manifest.hot)] if manifest.hot else flags
        flags += ["--deep"] if study.deep else []
        return shlex.join(["profkit", "profile", *flags, *manifest.window.words()[:-1], "--", *manifest.program])
    flags = {"collected": ["--ncu"], "off": ["--events"]}.get(manifest.counters.state, [])
    cpu = ["--device", "cpu"] if manifest.device.get("kind") == "cpu" else []
    return shlex.join(["profkit", "profile", manifest.sample.path, *flags, *(["--deep"] if study.deep else []), *cpu])


def ceilings_of(study: Study) -> dict[str, list[str]]:
    """Source -> "dram 4.47 TB/s" for the ceilings in use."""
    rows = study.kernels.to_dict("records") if len(study.kernels) else []
    pipes = {str(row.get("compute") or "") for row in rows} - {""}
    pipes |= {name for work in study.analysis.works for name in work.flops}
    found: dict[str, list[str]] = {}
    for name in (*BANDWIDTH, *sorted(pipes)):
        one = study.roofline.get(name)
        if one is not None:
            peak = units.text(one.peak, "B/s" if one.kind == "bandwidth" else "FLOP/s")
            source = one.source + (f", {one.note}" if one.note else "")
            found.setdefault(source, []).append(f"{one.name} {peak}")
    return found


def lower_bounds(study: Study) -> list[tuple[float, str]]:
    """(FLOP/byte, pipe) of the task at its compulsory traffic; [] without counted work."""
    works = [one for one in study.analysis.works[:1] if 0 < one.intensity < math.inf and one.flops]
    return [(one.intensity, max(one.flops, key=lambda name: one.flops[name])) for one in works]


def facts(study: Study) -> list[tuple[str, str]]:
    """(name, value): device, versions, counters, seeds, files, work and ceilings."""
    return [(name, value) for name, value in _facts(study) if value]


def _facts(study: Study) -> Iterator[tuple[str, str]]:
    manifest, counters, comma = study.manifest, study.manifest.counters, say("comma")
    known = {k: v for k, v in manifest.device.items() if k in ("name", "cc", "sms", "threads", "driver")}
    yield say("device"), comma.join(f"{named(k)} {v}" for k, v in known.items())
    yield say("p_versions"), comma.join(f"{k} {v}" for k, v in manifest.versions.items())
    passes = {"passes": str(counters.passes or "?"), "clock": counters.clock_control}
    collected = say("p_passes", version=counters.version, **passes) if counters.version else "Nsight Compute"
    missing = say("colon").join(translated(text) for text in (counters.state, counters.why) if text)
    yield say("p_counters"), collected if counted(study) else missing
    yield say("p_seeds"), comma.join(map(str, manifest.seeds))
    files = [f"{ref.path} sha256 {ref.sha256[:16]}" for ref in manifest.sample.files.values()]
    if not manifest.impls:
        files += [f"{one.origin or one.file} ({one.tool}) sha256 {one.sha256[:16]}" for one in manifest.captures]
    yield say("p_files"), comma.join(files)
    for work in study.analysis.works[:MOST_WORKS]:
        flops = ", ".join(f"{units.text(v, 'FLOP')} {pipe}" for pipe, v in work.flops.items()) or say("p_no_flop")
        amounts = say("p_compulsory", flops=flops, bytes=units.text(work.bytes, "B"))
        yield say("p_work", source=translated(work.source)), amounts
    for source, roofs in ceilings_of(study).items() if placed(study) else ():
        yield say("p_roof"), say("p_roof_from", roofs=", ".join(roofs), source=translated(source))
