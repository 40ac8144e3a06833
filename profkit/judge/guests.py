"""Start candidates, each in a process of its own, and build them.

Seeds are drawn after all candidates are loaded, so that none can know its inputs.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterable
from typing import Any

from profkit.guest.implementation import Implementation
from profkit.guest.tensors import staging, weights
from profkit.judge.events import Events
from profkit.judge.implementation import spec
from profkit.judge.remote import LostCandidateError, Remote, RemoteError
from profkit.launch.protocol import LIMITS, Job


def draw(count: int) -> list[int]:
    return [secrets.randbits(31) for _ in range(count)]


def let_go(implementations: Iterable[Implementation]) -> None:
    """End the processes of implementations that are done; they hold device memory."""
    for implementation in implementations:
        implementation.let_go()


def loaded(remotes: Iterable[Remote], job: Job, events: Events) -> list[tuple[Remote, float]]:
    """Processes that have imported their candidates, and the seconds it took; they load in parallel."""
    limits, found = {**LIMITS, **job.limits}, []
    limit = limits["start"] + limits["build"]
    end = time.monotonic() + limit
    for remote in remotes:
        events.phase("build", remote.subject.name, least=limit)
        try:
            # The answer of one that was ready before is there.
            reply = remote.answer(max(limits["start"], end - time.monotonic()))
            remote.meet(int(reply.get("process", 0)))
            found.append((remote, _seconds(remote, reply)))
        except RemoteError as error:
            error.report(remote.subject, events, "load-error")
        except LostCandidateError:
            continue
    return found


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
            remote.share({"given": staging.size(given, remote.device)})
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
