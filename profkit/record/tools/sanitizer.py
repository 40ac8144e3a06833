"""Run every candidate under each requested tool of compute-sanitizer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from analyzers.kernels.spelling import base_name
from collectors import sanitizer as logs
from collectors.caveat import Caveat
from collectors.errors import CollectError
from profkit.errors import CannotProfileError
from profkit.launch import runner, tools
from profkit.record.job import command, job
from profkit.record.session import Session
from profkit.rundir.files import temporary
from profkit.rundir.manifest import Impl, Sanitized
from profkit.vendor.nvidia import sanitizer

SLOWER = 10.0
"""Factor of compute-sanitizer on the limits for loading and building."""
_NOTHING_TO_RUN = ("skipped", "compile-error", "load-error", "hang", "memory-limit")
_LIBRARIES = re.compile(
    r"\b(at::|c10::|caffe2::|torch::|cub::|thrust::|cutlass|cudnn|cublas|cusparse|cufft|cusolver|nccl)"
    r"|\b(volta|turing|ampere|sm\d+)_\w*gemm|xmma|gemv2|splitKreduce"
)


def check(device: str) -> None:
    """Raise CannotProfileError if the sanitizer cannot run."""
    if device == "cpu":
        raise CannotProfileError(
            "compute-sanitizer checks GPU kernels; this runs on the CPU", fix="leave --sanitize out"
        )
    if tools.find(tools.SANITIZER) is None:
        raise CannotProfileError(tools.SANITIZER.missing, fix=tools.SANITIZER.fix)


class Sanitizer:
    """Runs the tools over every callable candidate; findings go into the manifest."""

    name = "sanitize"

    def record(self, session: Session) -> None:
        """Run. Raises CannotProfileError if the tool reports that it cannot work here."""
        run, found, refused = session.run, tools.find(tools.SANITIZER), ""
        run.manifest.versions["compute-sanitizer"] = found.text if found is not None else "unknown version"
        for impl in run.manifest.candidates:
            if impl.status in _NOTHING_TO_RUN:
                continue
            for tool in session.request.sanitize:
                session.progress(f"{impl.name} sanitizer ({tool})")
                log, outcome = _start(session, impl, tool)
                judged, troubles = _judge(log, outcome, impl, tool)
                impl.sanitized.append(judged)
                run.save()
                if judged.state == "failed" and sanitizer.unsupported(troubles):
                    refused = refused or judged.why
        _caveats(run.manifest.candidates, run.manifest.caveats)
        if refused:
            raise CannotProfileError(
                f"compute-sanitizer cannot work here: {refused}",
                fix="check its list of supported devices and drivers; "
                "under WSL2 its debugger interface must be switched on",
            )


def _start(session: Session, impl: Impl, tool: str) -> tuple[Path, runner.Outcome]:
    """One candidate under one tool: the tool's log, and the runner's events."""
    folder, found = session.run.logs / "sanitizer" / f"{impl.name}-{tool}", tools.find(tools.SANITIZER)
    log, name = folder / "sanitizer.log", found.path if found is not None else "compute-sanitizer"
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [one for one in session.target.parts if one.role == "reference" or one.name == impl.name]
    with temporary() as place:
        outcome = runner.run_job(
            job("sanitize", session.run, session.request, session.device, chosen, slower=SLOWER),
            folder,
            prefix=sanitizer.prefix(name, tool, log),
            env=sanitizer.environment(Path(place)),
        )
    session.run.manifest.commands += [command(session.run, "sanitize", *one) for one in outcome.exits]
    return log, outcome


def _judge(log: Path, outcome: runner.Outcome, impl: Impl, name: str) -> tuple[Sanitized, tuple[str, ...]]:
    """Findings in the log and troubles of the tool; unchecked without summary or call."""
    try:
        found = logs.read(log)
    except CollectError as error:
        return Sanitized(name, "failed", f"{error}".replace(f"{log.parent}/", "")), ()
    findings = []
    for one in found.findings:
        # The candidate's: its source defines it, or no library has such a name.
        own = base_name(one.kernel) in impl.kernels or not _LIBRARIES.search(one.kernel)
        findings.append(msgspec.structs.replace(one, tool=name, own=own))
    if findings:
        return Sanitized(name, "findings", "", findings), found.troubles
    called = any(e.kind == "impl" and e.impl == impl.name and e.data.get("status") == "counted" for e in outcome.events)
    if called and found.summary == 0 and not found.troubles:
        return Sanitized(name, "clean"), ()
    fallen = outcome.fallen.get(impl.name, ("", "", ""))[1]
    told = (e.data.get("reason", "") for e in reversed(outcome.events) if e.kind in ("impl", "corrupt"))
    why = next(iter(found.troubles), "") or fallen or next(filter(None, told), "") or "it did not finish"
    return Sanitized(name, "failed", why), found.troubles


def _caveats(candidates: Sequence[Impl], caveats: list[Caveat]) -> None:
    """Caveats about checks not made, and about findings in libraries."""
    for impl in candidates:
        for one in impl.sanitized:
            if one.state == "failed":
                where = f"see logs/sanitizer/{impl.name}-{one.tool}"
                caveats.append(Caveat(f"{impl.name} was not checked by {one.tool}", one.why, where))
        foreign = [f for one in impl.sanitized for f in one.findings if not f.serious]
        if foreign:
            places = f"{len(foreign)} places in library kernels or of less weight for {impl.name}"
            first = f"{foreign[0].tool}: {foreign[0].kind} in {foreign[0].kernel or 'no kernel'}"
            caveats.append(Caveat(f"compute-sanitizer reports {places}", first, "see run.json, impls, sanitized"))
