"""Prompts of samples: form of an answer, rules, measured evidence, the reference; and code in answers."""

from __future__ import annotations

import math
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from profkit.contests.json_files import number
from profkit.targets.sample import Sample
from roofline.wording import seconds

_WRONG = ("mismatch", "nan", "wrong-shape", "wrong-dtype", "mutates-inputs", "stops-computing")

if TYPE_CHECKING:
    from profkit.study.study import Study


def compose(sample: Sample, run: Study | None = None) -> str:
    """The text of prompt.txt; with a run, also the bottlenecks in its profile."""
    return prompt_for(sample.id, sample.reference.read_text("utf-8"), evidence(run) if run is not None else [])


def prompt_for(name: str, reference: str, facts: list[str]) -> str:
    """A prompt for any reference source; `facts` are bullet lines of measured evidence."""
    text = (files("profkit.contests") / "templates" / "prompt.txt.tmpl").read_text("utf-8")
    measured = "\nWhat was measured on the machine that will judge your answer:\n" + "".join(f"- {f}\n" for f in facts)
    return Template(text).substitute(
        id=name.lower(), reference=reference.strip("\n"), evidence=measured if facts else ""
    )


def evidence(run: Study) -> list[str]:
    """Sentences about a run that help to write a faster kernel; empty when nothing was timed."""
    analysis = run.analysis
    device = str(run.manifest.device.get("name", "unknown device"))
    lines = [f"Device: {device}."]
    rows = analysis.impls.to_dict("records")
    for row in rows:
        lines += _of_impl({str(key): value for key, value in row.items()})
    for record in analysis.kernels.to_dict("records"):
        kernel = {str(key): value for key, value in record.items()}
        share = number(kernel.get("share"))
        if kernel.get("impl") == analysis.reference and share >= 0.05:
            lines.append(_of_kernel(kernel, share))
    lines += [
        f"{impl.name} was tried and is wrong: {impl.reason}."
        for impl in run.manifest.candidates
        if impl.status in _WRONG
    ]
    return lines if rows else []


def _of_impl(row: dict[str, Any]) -> list[str]:
    name, time, lower_bound = str(row.get("impl")), number(row.get("time")), number(row.get("lower_bound_time"))
    if math.isnan(time):
        return []
    lines = [f"{name}: {seconds(time)} a call" + _speedup(row) + "."]
    if row.get("verdict") == "reference":
        flops, size = number(row.get("flops")), number(row.get("compulsory_bytes"))
        if size > 0:
            lines.append(
                f"The task needs at least {flops:,.0f} FLOP and {size:,.0f} bytes of memory traffic"
                f" ({flops / size:.3g} FLOP/B)."
            )
        if lower_bound > 0:
            lines.append(
                f"The machine's lower bound for it is {seconds(lower_bound)}, set by {row.get('lower_bound_bound_by')};"
                f" the reference takes {time / lower_bound:.3g} times as long."
            )
    return lines


def _speedup(row: dict[str, Any]) -> str:
    value = number(row.get("speedup"))
    if row.get("verdict") in ("reference", "") or math.isnan(value):
        return ""
    low, high = number(row.get("speedup_low")), number(row.get("speedup_high"))
    return f", {value:.3g}x the reference's speed [{low:.3g}, {high:.3g}]"


def _of_kernel(kernel: dict[str, Any], share: float) -> str:
    words = f"Kernel `{str(kernel.get('kernel'))[:120]}`: {share:.0%} of the reference's time"
    if kernel.get("bound_by"):
        words += f", bound by {kernel['bound_by']}"
    if kernel.get("evidence"):
        words += f" ({kernel['evidence']})"
    return words + "."


def blocks(text: str) -> tuple[list[str], bool]:
    """(the fenced blocks in order, whether the last is closed); an open one runs to the end."""
    found: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            inside = not inside
            found += [[]] if inside else []
        elif inside:
            found[-1].append(line)
    return ["\n".join(lines) for lines in found], not inside


def first_code(text: str) -> tuple[str, str]:
    """(the first fenced block, why there is none); an unclosed block is a cut answer."""
    found, whole = blocks(text)
    if not found:
        return "", "no fenced block in the answer"
    if len(found) == 1 and not whole:
        return "", "the first fenced block is never closed: the answer was cut"
    code = found[0].strip("\n")
    return (code + "\n", "") if code.strip() else ("", "the first fenced block is empty")
