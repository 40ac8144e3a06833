"""Rules about the steady state of a program: idle causes, copies, communication.

Each examines one slice of a step's wall time (analyzers/timeline/budget.py), from LEAST of the step on, and claims it.
Its upper bound may be larger, since a delay of the host in one place may appear in another: at most the time that the
host or pending work spent on the cause, and at most the idle time of the busiest stream.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from analyzers.rules.rule import HINT, NAN, PROGRAM, Case, Proof, Subject, rule
from analyzers.timeline.idle import IDLE
from roofline.units import percent, seconds

LEAST = 0.01
LEAST_BEHIND = 0.05
"""Most share of a step lost to waiting, from which it is reported even if the GPU is hardly idle after it."""
LAUNCH = 50e-6
"""Gap between launch call and start that exceeds launch latency, recorded or not [s]."""
MANY_SHORT = 0.25
"""Share of short launches from which launching is the bottleneck of the host."""


def _slice(
    s: Subject, name: str, params: Mapping[str, str], *more: Proof, variant: str = "", least: float = LEAST
) -> Case | None:
    """Case of a slice [s of a step]; None below `least` of it."""
    share = s[name] / s.time if s.time > 0 else 0.0
    if not share >= least:
        return None
    engaged = s[f"engaged_{name}"]
    lost = max(min(engaged, _room(s, name)) if engaged == engaged else 0.0, min(s[name], s.time))
    return Case(
        (Proof(f"{name}/step", share, least or NAN), *more),
        s.time - lost,
        {"share": percent(share), "found": s.text.get("found", ""), **params},
        min(1.0, share),
        variant=variant,
        likely=s.time - min(s[name], s.time),
    )


def _room(s: Subject, name: str) -> float:
    """Idle seconds per step of the busiest stream, without this cause."""
    left = s[f"without_{name}"]
    return s.time - left if left == left else _spare(s) + (0.0 if name in IDLE else s[name])


def _spare(s: Subject) -> float:
    """Seconds of a step in which its busiest stream, else the GPU, is idle."""
    return s.time - s["stream"] if s.has("stream") else s["idle"]


_LOADING = re.compile(r"HtoD|Host-to-Device")
"""Copies to the GPU, which end a pause in which a batch was made."""


@rule("host-away", ("away",), level=PROGRAM)
def _away(s: Subject) -> Case | None:
    each = s["away"] / s["holes"] if s["holes"] > 0 else 0.0
    before = s.text.get("hole_before", "")
    params = {"holes": f"{s['holes']:.3g}", "each": f"{each * 1e3:.3g} ms", "before": _plain(before)}
    doing = s.text.get("doing_away", "")
    params |= {"doing": _doing(s, "away"), "place": doing + " (# = 1, 2, ...)" * ("#" in doing)}
    variant = "load" if _LOADING.search(before) else "named" if doing else ""
    return _slice(s, "away", params, Proof("holes/step", s["holes"]), variant=variant)


def _doing(s: Subject, name: str) -> str:
    """ " [cudaStreamSynchronize, aten::item, loss]": host activity in most of a slice."""
    doing = s.text.get(f"doing_{name}", "")
    return f" [{doing}]" if doing else ""


def _plain(kernel: str) -> str:
    """A kernel's name without type, namespaces and arguments; a copy's unchanged."""
    if kernel.startswith(("Mem", "[")):
        return kernel
    found = re.search(r"(\w+)\s*(?:[<(]|$)", kernel)
    return found.group(1) if found else kernel


@rule("gpu-idle", ("host",), level=PROGRAM)
def _idle(s: Subject) -> Case | None:
    others = s["copies"] + s["fills"]
    params = {"launches": f"{s['launches']:.0f}", "others": f"{others:.3g}", "short": f"{s['short']:.0%}"}
    chain = s["short"] >= MANY_SHORT
    proofs = (Proof("short launches", s["short"], MANY_SHORT),) if chain else ()
    return _slice(s, "host", params, Proof("kernels/step", s["launches"]), *proofs, variant="chain" if chain else "")


@rule("idle-unexplained", ("unknown",), level=PROGRAM)
def _unexplained(s: Subject) -> Case | None:
    # A record of the host's calls has none for the pages that unified memory moves.
    return _slice(s, "unknown", {}, variant="uncalled" if s.has("engaged_host") else "")


@rule("synchronising", ("waiting",), level=PROGRAM)
def _synchronising(s: Subject) -> Case | None:
    params = {"blocking": f"{s['blocking']:.3g}", "doing": _doing(s, "waiting")}
    proof = Proof("synchronising calls/step", s["blocking"])
    if s["waiting"] >= LEAST * s.time or not min(s["engaged_waiting"], _spare(s)) >= LEAST_BEHIND * s.time:
        return _slice(s, "waiting", params, proof)
    # Of a record without a second launch nothing comes late.
    if s.text.get("found") == "all" and s["launches"] < 2:
        return None
    params["blocked"] = f"{s['engaged_blocked'] / s.time:.0%}"
    case = _slice(s, "waiting", params, variant="behind", least=0.0)
    blocked = Proof("host waiting/step", s["engaged_blocked"] / s.time, LEAST_BEHIND)
    return replace(case, proofs=(blocked, proof)) if case else None


@rule("allocating", ("allocating",), level=PROGRAM)
def _allocating(s: Subject) -> Case | None:
    return _slice(s, "allocating", {"doing": _doing(s, "allocating")})


@rule("recompiles", ("loading",), level=PROGRAM)
def _recompiles(s: Subject) -> Case | None:
    params = {"loads": f"{s['loads']:.0f}", "doing": _doing(s, "loading")}
    # Where nothing repeats, the first launches are in the record.
    first = "first" if s.text.get("found") == "all" else ""
    return _slice(s, "loading", params, Proof("modules loaded", s["loads"]), variant=first)


@rule("queued-gaps", ("queued",), level=PROGRAM)
def _queued(s: Subject) -> Case | None:
    gaps = s["queued_gaps"]
    params = {"gaps": f"{gaps:.0f}", "each": seconds(s["queued"] / gaps if gaps > 0 else 0.0)}
    few = s["launches"] < 2 or s["queued"] > LAUNCH * gaps
    return _slice(s, "queued", params, Proof("gaps/step", gaps), variant="few" if few else "")


@rule("copies", ("copying",), level=PROGRAM)
def _copies(s: Subject) -> Case | None:
    if not s["launches"] > 0:
        # Copies that are all a program does hide behind nothing.
        alone = _slice(s, "copying", {}, variant="alone")
        return alone and replace(alone, severity=HINT)
    pageable = s["copying"] > 0 and s["pageable"] >= 0.5 * s["copying"]
    size = f"{s['pageable_bytes'] / 1e6:.3g} MB a step" if s.has("pageable_bytes") else "size not recorded"
    proofs = (Proof("pageable copies/copying", s["pageable"] / s["copying"], 0.5),) if pageable else ()
    # Copies hide behind no more than there is to compute.
    variant = "pageable" if pageable else "exposed" if s["computing"] < 0.5 * s["copying"] else ""
    params = {"size": size, "computing": percent(s["computing"] / s.time)}
    return _slice(s, "copying", params, *proofs, variant=variant)


@rule("communication", ("communicating",), level=PROGRAM)
def _communication(s: Subject) -> Case | None:
    spoken = s["communicating"] + s["hidden"]
    return _slice(s, "communicating", {"hidden": f"{max(s['hidden'], 0.0) / spoken:.0%}" if spoken > 0 else "0%"})


@rule("tiny-kernels", ("tiny",), level=PROGRAM)
def _tiny(s: Subject) -> Case | None:
    count = s["short"] * s["launches"]
    if s["short"] < MANY_SHORT or count < 2:
        return None
    return _slice(s, "tiny", {"count": f"{count:.0f}"}, Proof("short launches", s["short"], MANY_SHORT))
