"""Prompts of samples, with rules, measured evidence and the reference; code in answers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from analyzers.records import number, tables
from profkit.targets.sample import Sample
from roofline.units import seconds

if TYPE_CHECKING:
    from profkit.study.study import Study


def compose(sample: Sample, run: Study | None = None) -> str:
    """Text of prompt.txt; with a run, also the bottlenecks in its profile."""
    return prompt_for(
        sample.id, sample.reference.read_text("utf-8", "replace"), evidence(run) if run is not None else []
    )


def prompt_for(name: str, reference: str, facts: list[str]) -> str:
    """A prompt for any reference source; `facts` are bullet lines of measured evidence."""
    text = (files("profkit.contests") / "templates" / "prompt.txt.tmpl").read_text("utf-8")
    measured = "\nWhat was measured on the machine that will judge your answer:\n" + "".join(f"- {f}\n" for f in facts)
    return Template(text).substitute(
        id=name.lower(), reference=reference.strip("\n"), evidence=measured if facts else ""
    )


def evidence(run: Study) -> list[str]:
    """Sentences about a run that help to write a faster kernel; empty if nothing was timed."""
    analysis = run.analysis
    lines = []
    for name, row in analysis.rows.items():
        time, verdict = number(row, "time"), run.verdicts.get(name)
        if time > 0:
            lines.append(f"{name}: {seconds(time)} a call" + (f", {verdict.text()}." if verdict is not None else "."))
        if time > 0 and name == analysis.reference:
            lines += _of_task(row, time)
    for record in analysis.kernels.to_dict("records"):
        kernel = {str(key): value for key, value in record.items()}
        share = number(kernel, "share")
        if kernel.get("impl") == analysis.reference and share >= 0.05:
            lines.append(_of_kernel(kernel, share))
    wrong = [(name, one.text()) for name, one in run.verdicts.items() if one.word == "wrong"]
    lines += [f"{name} was tried and is {said}." for name, said in wrong]
    return [f"Device: {run.manifest.device.get('name', 'unknown device')}.", *lines] if lines else []


def _of_task(row: Mapping[str, Any], time: float) -> list[str]:
    """Least work and time of the task. time: of the reference [s]."""
    flops, size, lower_bound = (number(row, key) for key in ("flops", "compulsory_bytes", "lower_bound_time"))
    lines = []
    if size > 0:
        needs = f"{flops:,.0f} FLOP and {size:,.0f} bytes of memory traffic ({flops / size:.3g} FLOP/B)"
        lines.append(f"The task needs at least {needs}.")
    if lower_bound > 0:
        lines.append(
            f"The machine's lower bound for it is {seconds(lower_bound)}, set by {row.get('lower_bound_bound_by')};"
            f" the reference takes {time / lower_bound:.3g} times as long."
        )
    return lines


def _of_kernel(kernel: dict[str, Any], share: float) -> str:
    words = f"Kernel `{str(kernel.get('kernel'))[:120]}`: {share:.0%} of the reference's time"
    if kernel.get("bound_by"):
        words += f", bound by {kernel['bound_by']}"
    if why := tables("causes.toml").get(str(kernel.get("cause"))):
        words += f" ({why[0]})"
    return words + "."


def blocks(text: str) -> tuple[list[str], bool]:
    """(fenced blocks in order, whether the last is closed); an open one runs to the end."""
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
    """(first fenced block, why there is none); an unclosed block is a cut answer."""
    found, whole = blocks(text)
    if not found:
        return "", "no fenced block in the answer"
    if len(found) == 1 and not whole:
        return "", "the first fenced block is never closed: the answer was cut"
    code = found[0].strip("\n")
    return (code + "\n", "") if code.strip() else ("", "the first fenced block is empty")
