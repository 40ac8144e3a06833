"""Start candidates, each in a process of its own, and build them.

Seeds are drawn after all candidates are loaded, so that none can know its inputs.
"""

from __future__ import annotations

import contextlib
import secrets
import select
import time
from collections.abc import Iterable
from typing import Any

import torch

from profkit.guest.implementation import Implementation
from profkit.guest.tensors import weights
from profkit.judge.events import Events
from profkit.judge.implementation import spec
from profkit.judge.remote import LostCandidateError, Remote, RemoteError
from profkit.judge.timing.company import Company
from profkit.launch.protocol import LIMITS, Job


def draw(count: int) -> list[int]:
    return [secrets.randbits(31) for _ in range(count)]


def let_go(implementations: Iterable[Implementation]) -> None:
    """End the processes of implementations that are done; they hold device memory."""
    for implementation in implementations:
        implementation.let_go()


def loaded(job: Job, device: torch.device, events: Events, company: Company) -> list[tuple[Remote, float]]:
    """Processes that have imported their candidates, and the seconds it took."""
    subjects = [subject for subject in job.subjects if subject.role != "reference"]
    remotes = [Remote(subject, job, device, events) for subject in subjects]
    for remote in remotes:
        remote.company = company
    seconds = _wait_for_all(remotes, job, events)
    return [(remote, seconds[remote.subject.name]) for remote in remotes if remote.subject.name in seconds]


def _wait_for_all(remotes: list[Remote], job: Job, events: Events) -> dict[str, float]:
    """Name -> seconds of loading, of the candidates that loaded."""
    limits = {**LIMITS, **job.limits}
    limit = limits["start"] + limits["build"]
    end, waiting, loaded = time.monotonic() + limit, list(remotes), {}
    while waiting:
        events.phase("build", waiting[0].subject.name)
        ready, _, _ = select.select([r.channel for r in waiting], [], [], max(0.0, min(end - time.monotonic(), 30.0)))
        overdue = time.monotonic() > end
        for remote in [r for r in waiting if overdue or r.channel in ready]:
            waiting.remove(remote)
            if remote.channel not in ready:
                remote.overdue(limit)
                continue
            try:
                # A partial line must not delay the others for longer than a build may take.
                events.phase("build", remote.subject.name)
                reply = remote.answer(limits["build"])
                loaded[remote.subject.name] = _seconds(remote, reply)
                remote.meet(int(reply.get("process", 0)))
            except RemoteError as error:
                error.report(remote.subject, events, "load-error")
            except LostCandidateError:
                continue
    return loaded


def _seconds(remote: Remote, reply: dict[str, Any]) -> float:
    """The time in an answer. Raises RemoteError without one."""
    try:
        return float(reply["seconds"])
    except (KeyError, TypeError, ValueError) as error:
        raise remote.nonsense() from error


def build(loaded: Iterable[tuple[Remote, float]], first: Implementation, seed: int, events: Events) -> list[Remote]:
    """Construct all candidates in parallel, with the reference's arguments and weights."""
    given = spec(first, seed)
    asked = []
    for remote, seconds in loaded:
        with contextlib.suppress(LostCandidateError):
            remote.send("build", given=remote.hand_over(given), seed=seed)
            asked.append((remote, seconds))
    found = [remote for remote, seconds in asked if _built(remote, given, seconds, events)]
    for remote, _ in asked:
        remote.rest()
    return found


def _built(remote: Remote, given: dict[str, Any], seconds: float, events: Events) -> bool:
    """Whether it could be built; an event tells."""
    try:
        reply = remote.due()
        built, remote.match = _seconds(remote, reply), _match(remote, reply, given)
    except RemoteError as error:
        error.report(remote.subject, events, "load-error")
        return False
    except LostCandidateError:
        return False
    events.send("impl", remote.subject.name, status="loaded", build_seconds=seconds + built)
    return True


def _match(remote: Remote, reply: dict[str, Any], given: dict[str, Any]) -> weights.Match:
    """Weights that the candidate claims to have, by pairs known to itself. Raises RemoteError for nonsense."""
    told = [(reply.get(key, []), given[of] or ()) for key, of in _TOLD.items()]
    if not all(isinstance(names, list) and set(names) <= set(known) for names, known in told):
        raise remote.nonsense()
    missing, bare, unnamed = (tuple(names) for names, _ in told)
    return weights.Match({}, missing, bare, bool(reply.get("ordered")), unnamed)


_TOLD = {"missing": "constructed", "bare": "constructed", "unnamed": "weights"}
