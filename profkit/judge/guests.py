"""Load the reference; build the candidates, each in its own process, or here.

Seeds are drawn after all candidates are loaded, so no candidate can know its inputs.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import msgspec
import torch

from profkit.guest import implementation
from profkit.guest.build import loading
from profkit.guest.implementation import Implementation
from profkit.guest.tensors import exchange, inputs, state, weights
from profkit.judge.remote import LostCandidateError, Remote, RemoteError
from profkit.launch.protocol import LIMITS, Events, Job, Subject

_LEAVING, _LOOK = 3.0, 0.05
"""Seconds for a candidate's process to end; polling interval."""
_Kind = TypeVar("_Kind")


class _Took(msgspec.Struct):
    seconds: float


def draw(count: int) -> list[int]:
    return [secrets.randbits(31) for _ in range(count)]


def let_go(remotes: Iterable[Remote]) -> None:
    """End the processes of finished candidates; they hold device memory."""
    for one in remotes:
        one.let_go()


def left_alone(remotes: Sequence[Remote]) -> bool:
    """End all processes; whether they and their descendants ended within some seconds."""
    let_go(remotes)
    end = time.monotonic() + _LEAVING
    while (there := any(one.running() for one in remotes)) and time.monotonic() < end:
        time.sleep(_LOOK)
    return not there


def loaded(
    remotes: Iterable[Remote], job: Job, events: Events, meanwhile: Callable[[], None] | None = None
) -> list[tuple[Remote, float]]:
    """Wait for candidates that load in parallel: (process, seconds it took) of each success.

    meanwhile: called while compilers work for one of them.
    """
    limits, found = {**LIMITS, **job.limits}, []
    limit = limits["start"] + limits["build"]
    end = time.monotonic() + limit
    for remote in remotes:
        events.phase("build", remote.subject.name, least=limit)
        remote.meanwhile = meanwhile
        try:
            # The answer of one that was ready before is there.
            reply = remote.answer(max(limits["start"], end - time.monotonic()))
            found.append((remote, _typed(remote, reply, _Took).seconds))
        except RemoteError as error:
            error.report(remote.subject, events, "load-error")
            remote.let_go()
        except LostCandidateError:
            continue
    return found


def _typed(remote: Remote, reply: dict[str, Any], kind: type[_Kind]) -> _Kind:
    """An answer as this type. Raises RemoteError if malformed."""
    try:
        return msgspec.convert(reply, kind)
    except msgspec.ValidationError as error:
        raise remote.nonsense() from error


def build(loaded: Iterable[tuple[Remote, float]], first: Implementation, seed: int, events: Events) -> list[Remote]:
    """Construct all candidates in parallel, with the reference's arguments and weights."""
    given = spec(first, seed)
    asked = []
    for remote, seconds in loaded:
        with contextlib.suppress(LostCandidateError):
            remote.share({"given": exchange.size_of(given, remote.device)})
            remote.send("build", given=remote.hand_over(given), seed=seed)
            asked.append((remote, seconds))
    found = [remote for remote, seconds in asked if _built(remote, seconds, events)]
    for remote, _ in asked:
        remote.rest()
    return found


def _built(remote: Remote, seconds: float, events: Events) -> bool:
    """Whether it could be built; an event reports it."""
    try:
        reply = remote.due()
        built, remote.match = _typed(remote, reply, _Took).seconds, _typed(remote, reply, weights.Match)
    except RemoteError as error:
        error.report(remote.subject, events, "load-error")
        return False
    except LostCandidateError:
        return False
    events.send("impl", remote.subject.name, status="loaded", build_seconds=seconds + built)
    return True


def reference(job: Job, subject: Subject, seed: int, device: torch.device) -> Implementation:
    module, lock = _imported(job, subject)
    loading.cast_inputs(module, job.precision)
    inputs.torch_seed(seed)
    init, mode = module.get_init_inputs(), loading.mode_of(module, job.model_mode)
    model = loading.instance(module, "Model", init, seed, device, loading.TYPES[job.precision], mode)
    other = seed ^ _OTHER

    def again() -> Any:
        inputs.seed_all(other)
        return loading.instance(
            module, "Model", module.get_init_inputs(), other, torch.device("cpu"), loading.TYPES[job.precision], mode
        )

    fixed = weights.by_another_seed(model, again)
    return Implementation(subject, module, lock, model, fixed=fixed, mode=mode)


_OTHER = 0x5BD1E995


def spec(
    first: Implementation, seed: int, live: weights.Weights | None = None, *, loaded: bool = True
) -> dict[str, Any]:
    """Arguments of a candidate's construction: the reference's arguments and mode.

    With its weights if `loaded`; live: the redrawn weights.
    """
    inputs.torch_seed(seed)
    known = dict(first.model.state_dict()) if loaded and isinstance(first.model, torch.nn.Module) else None
    return {
        "init": first.module.get_init_inputs(),
        "weights": known,
        "live": {} if live is None else dict(live.live),
        "constructed": weights.constants(first.model, first.fixed) if live is None else live.constructed,
        "own": [name for name, _ in state.held(first.model)],
        "mode": first.mode,
    }


def candidate(job: Job, subject: Subject, first: Implementation, seed: int, device: torch.device) -> Implementation:
    """Import and construct a candidate here, with the reference's arguments and weights."""
    return implementation.candidate(subject, _imported(job, subject), spec(first, seed), seed, device, job.precision)


def _imported(job: Job, subject: Subject) -> tuple[ModuleType, loading.BuildLock]:
    with loading.BuildLock(Path(subject.file), Path(job.cache)) as lock:
        return loading.import_file(Path(subject.file), subject.name, subject.content), lock
