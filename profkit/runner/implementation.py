"""An implementation that was loaded, and the loading of one in this process."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from profkit.launch.protocol import Job, Subject
from profkit.runner import backward, birth, inputs, loading, precision, state, weights
from profkit.runner.probe import Probe
from profkit.runner.remote import RemoteModel


@dataclass
class Implementation:
    """A loaded implementation, ready to be called with fresh inputs.

    `match`: which of its tensors stand for the reference's that may be drawn anew; `alive`: names of those that both
    sides have drawn values for when this one is compared; `counterparts`: its names for the reference's weights, and `precision`, of
    those that are in this process. `switched`: settings of torch's that its calls switched. `fixed`, `drawn`: see weights. `kept`: with what every call begins that is compared. `was`: the model before `rebuild`. `bits`: of its answers in the trials.
    """

    subject: Subject
    module: ModuleType
    lock: loading.BuildLock
    model: Any
    probe: Probe = field(default_factory=Probe)
    match: weights.Match = field(default_factory=lambda: weights.Match({}))
    alive: frozenset[str] = frozenset()
    counterparts: Mapping[str, str] = field(default_factory=dict)
    precision: str = ""
    switched: set[str] = field(default_factory=set)
    fixed: frozenset[str] = frozenset()
    drawn: frozenset[str] = frozenset()
    kept: Mapping[str, torch.Tensor] = field(default_factory=dict)
    was: Any = None
    bits: float = math.inf

    @property
    def remote(self) -> bool:
        return isinstance(self.model, RemoteModel)

    @property
    def gone(self) -> bool:
        """Whether it lived in a process that has ended."""
        return isinstance(self.model, RemoteModel) and self.model.remote.gone

    def forgive(self, yes: bool) -> None:
        """Whether it is no fault of it from here on if its process ends or does not answer."""
        if isinstance(self.model, RemoteModel):
            self.model.remote.forgiven = yes

    def call(self, arguments: list[Any]) -> Any:
        """Its answer, with nothing else done."""
        loading.use(self.lock)
        return self.model(*arguments)

    def plain(self, arguments: list[Any], seed: int) -> Any:
        """Its answer, wherever it lives, with the generators at this seed."""
        if isinstance(self.model, RemoteModel):
            return self.model.plain(arguments, seed)
        inputs.seed_all(seed)
        state.put(self.model, self.kept)
        return self.call(arguments)

    def keep(self, values: Mapping[str, torch.Tensor]) -> None:
        """Begin every call that is compared with these values of what the reference keeps, where it has them."""
        self.kept = values
        if isinstance(self.model, RemoteModel):
            self.model.keep(values)

    def left(self, arguments: list[Any], seed: int, values: Mapping[str, torch.Tensor]) -> Any:
        """What it has under these names after a call that began with these values."""
        if isinstance(self.model, RemoteModel):
            return self.model.left(arguments, seed, values)
        inputs.seed_all(seed)
        return state.left(self.model, values, lambda: self.call(arguments))

    def parameters(self) -> dict[str, list[int]]:
        """The shapes of its floating parameters by name."""
        if isinstance(self.model, RemoteModel):
            return self.model.parameters()
        return {name: list(one.shape) for name, one in backward.parameters(self.model).items()}

    def gradients(self, given: list[Any], wanted: Sequence[str]) -> Any:
        """Its gradients, wherever it lives: see backward.Gradients."""
        if isinstance(self.model, RemoteModel):
            return self.model.gradients(given, wanted)
        loading.use(self.lock)
        return backward.Gradients(self.model, wanted)(*given)

    def take(self, values: Mapping[str, torch.Tensor], *, every: bool = False) -> None:
        """Put values, by the reference's names, into its weights; every: into those that are not constant as constructed too."""
        if isinstance(self.model, RemoteModel):
            self.model.take(values, every=every)
        else:
            weights.put(self.model, values, self.counterparts if every else self.match.pairs)

    def rebuild(self, told: Mapping[str, Any], seed: int, device: torch.device) -> None:
        """Construct it once more from the arguments `init`, with the values `live` for what is constant as constructed, and
        give it `weights`.
        """
        if isinstance(self.model, RemoteModel):
            self.model.rebuild(told, seed)
            return
        self.was = self.model
        self.model = birth.construct(self.module, told, seed, device, precision.TYPES[self.precision])

    def restore(self) -> None:
        """Go on with what there was before `rebuild`."""
        if isinstance(self.model, RemoteModel):
            self.model.restore()
        elif self.was is not None:
            self.model, self.was = self.was, None

    def shift(self, names: Sequence[str], still: Sequence[str] = ()) -> list[str]:
        """Change its weights that stand for these of the reference's, in place; those for which it has none."""
        if isinstance(self.model, RemoteModel):
            return self.model.shift(names, still)
        return weights.shift_counterparts(self.model, names, self.counterparts, still)


def reference(job: Job, subject: Subject, seed: int, device: torch.device) -> Implementation:
    """Import and construct the reference."""
    lock = loading.enter(Path(subject.file), Path(job.cache), job.campaign)
    module = loading.import_file(Path(subject.file), subject.name, subject.sha256, subject.content)
    precision.apply(module, job.precision)
    inputs.torch_seed(seed)
    init = module.get_init_inputs()
    model = loading.instance(module, "Model", init, seed, device, precision.TYPES[job.precision])
    other = seed ^ _OTHER

    @functools.cache
    def again() -> Any:
        inputs.seed_all(other)
        return loading.instance(
            module, "Model", module.get_init_inputs(), other, torch.device("cpu"), precision.TYPES[job.precision]
        )

    return Implementation(
        subject, module, lock, model, fixed=weights.fixed(model, again), drawn=weights.drawn(model, again)
    )


_OTHER = 0x5BD1E995


def candidate(job: Job, subject: Subject, first: Implementation, seed: int, device: torch.device) -> Implementation:
    """Import and construct a candidate in this process, with the arguments and the weights of the reference `first`."""
    lock = loading.enter(Path(subject.file), Path(job.cache), job.campaign)
    module = loading.import_file(Path(subject.file), subject.name, subject.sha256, subject.content)
    inputs.torch_seed(seed)
    init = first.module.get_init_inputs()
    known = first.model.state_dict() if isinstance(first.model, torch.nn.Module) else None
    model = birth.construct(module, {"init": init, "weights": known}, seed, device, precision.TYPES[job.precision])
    match, names = weights.Match({}), {}
    if known is not None:
        match = weights.match(model, weights.constants(first.model, first.fixed), known)
        names = weights.counterparts(model, known, match.pairs)
    return Implementation(subject, module, lock, model, match=match, counterparts=names, precision=job.precision)
