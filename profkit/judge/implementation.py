"""Load the reference, or a candidate that is trusted, in the judge's process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from profkit.guest import implementation
from profkit.guest.build import loading
from profkit.guest.implementation import Implementation
from profkit.guest.tensors import inputs, precision, state, weights
from profkit.launch.protocol import Job, Subject


def reference(job: Job, subject: Subject, seed: int, device: torch.device) -> Implementation:
    lock = loading.enter(Path(subject.file), Path(job.cache))
    module = loading.import_file(Path(subject.file), subject.name, subject.content)
    precision.apply(module, job.precision)
    inputs.torch_seed(seed)
    init, mode = module.get_init_inputs(), loading.mode_of(module, job.model_mode)
    model = loading.instance(module, "Model", init, seed, device, precision.TYPES[job.precision], mode)
    other = seed ^ _OTHER

    def again() -> Any:
        inputs.seed_all(other)
        return loading.instance(
            module, "Model", module.get_init_inputs(), other, torch.device("cpu"), precision.TYPES[job.precision], mode
        )

    fixed = weights.by_another_seed(model, again)
    return Implementation(subject, module, lock, model, fixed=fixed, mode=mode)


_OTHER = 0x5BD1E995


def spec(
    first: Implementation, seed: int, live: weights.Weights | None = None, *, loaded: bool = True
) -> dict[str, Any]:
    """What a candidate is constructed with: the reference's arguments and mode.

    And its weights if `loaded`; live: the redrawn ones.
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
    lock = loading.enter(Path(subject.file), Path(job.cache))
    module = loading.import_file(Path(subject.file), subject.name, subject.content)
    return implementation.candidate(subject, (module, lock), spec(first, seed), seed, device, job.precision)
