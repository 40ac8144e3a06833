"""A loaded implementation, and loading one in this process."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from profkit.guest import backward
from profkit.guest.build import birth, loading
from profkit.guest.subject import names, plain, spoil
from profkit.guest.tensors import inputs, precision, state, weights
from profkit.guest.tensors.compare import tensors
from profkit.judge.precision.probe import Probe
from profkit.judge.remote import Remote
from profkit.launch import protocol
from profkit.launch.protocol import Job, Subject


@dataclass
class Implementation:
    """A loaded implementation of this process, ready to be called with fresh inputs.

    `match`: its tensors that correspond to the reference's. `alive`: names of weights that both sides have drawn values
    for in comparisons. `fixed`, `drawn`: see weights. `kept`: the state that every compared call begins with. `own`: names of the reference's
    tensors. `was`: the model before `rebuild`. `bits`: precision of its answers in the trials.
    """

    subject: Subject
    module: ModuleType
    lock: loading.BuildLock
    model: Any
    probe: Probe = field(default_factory=Probe)
    match: weights.Match = field(default_factory=weights.Match)
    alive: frozenset[str] = frozenset()
    precision: str = ""
    fixed: frozenset[str] = frozenset()
    drawn: frozenset[str] = frozenset()
    kept: Mapping[str, torch.Tensor] = field(default_factory=dict)
    own: tuple[str, ...] = ()
    mode: str = loading.EVAL
    was: Any = None
    bits: float = math.inf
    remote = False
    gone = False

    def forgive(self, yes: bool) -> None:
        """Whether the end or silence of its process is no failure from here on."""

    def let_go(self) -> None:
        """Release its process."""

    def call(self, arguments: list[Any]) -> Any:
        loading.use(self.lock)
        return self.model(*arguments)

    def plain(self, arguments: list[Any], seed: int) -> Any:
        """A copy of its answer at this generator seed; in-place mutation of inputs is carried over."""
        inputs.seed_all(seed)
        state.put(self.model, self.kept)
        output = plain(self.call(arguments))
        answer = inputs.clone(output)
        spoil(output, self.model, self.own, but=arguments)
        return answer

    def keep(self, values: Mapping[str, torch.Tensor]) -> None:
        """Begin every compared call with these values of the reference's state."""
        self.kept = values

    def left(self, arguments: list[Any], seed: int, values: Mapping[str, torch.Tensor]) -> Any:
        """Its state under these names after a call that began with these values."""
        inputs.seed_all(seed)
        return state.left(self.model, values, lambda: self.call(arguments))

    def parameters(self) -> dict[str, list[int]]:
        return {name: list(one.shape) for name, one in backward.parameters(self.model).items()}

    def gradients(self, given: list[Any], wanted: Sequence[str]) -> Any:
        loading.use(self.lock)
        return backward.Gradients(self.model, wanted)(*given)

    def take(self, values: Mapping[str, torch.Tensor]) -> None:
        """Put values, by the reference's names, into its weights."""
        weights.put(self.model, values, self.match.pairs)

    def rebuild(self, spec: Mapping[str, Any], seed: int, device: torch.device) -> None:
        """Construct it again from `init`, with `live` for constant weights, then load `weights`."""
        loading.use(self.lock)
        self.was = self.model if self.was is None else self.was
        self.model = birth.construct(self.module, spec, seed, device, precision.TYPES[self.precision])

    def restore(self) -> None:
        """Go back to the model before `rebuild`."""
        if self.was is not None:
            self.model, self.was = self.was, None


class RemoteImplementation(Implementation):
    """A candidate in another process; candidate.Guest answers the methods of the same names."""

    model: Remote
    remote = True
    _called = False

    @property
    def gone(self) -> bool:  # type: ignore[override]
        return self.model.gone

    def forgive(self, yes: bool) -> None:
        self.model.forgiven = yes

    def let_go(self) -> None:
        self.model.let_go()

    def call(self, arguments: list[Any]) -> Any:
        return self.plain(arguments, torch.initial_seed())

    def plain(self, arguments: list[Any], seed: int) -> Any:
        process = self.model
        process.phase = "check" if self._called else "first"
        if process.device.type == "cuda":
            # Free the judge's cached memory for the candidate.
            torch.cuda.empty_cache()
        clock = process.company.clock if process.company is not None else time.monotonic
        given, answer, began = process.hand_over(list(arguments)), process.fresh_file(), clock()
        reply = process.ask("call", given=given, output=answer.name, seed=seed)
        if not self._called:
            # Later calls may be as slow.
            self._called, process.patience = True, protocol.PATIENT * (clock() - began)
        output = process.output(answer)
        if reply.get("changed"):
            _change(arguments, process.output(answer.with_name(str(reply["changed"]))))
        return output

    def keep(self, values: Mapping[str, torch.Tensor]) -> None:
        self.kept = values
        self._ask("keep", given=self.model.hand_over(dict(values)))

    def left(self, arguments: list[Any], seed: int, values: Mapping[str, torch.Tensor]) -> Any:
        return self._output("left", [arguments, dict(values)], seed=seed)

    def parameters(self) -> dict[str, list[int]]:
        shapes = self._ask("parameters").get("shapes")
        if not isinstance(shapes, dict):
            raise self.model.nonsense()
        return shapes

    def gradients(self, given: list[Any], wanted: Sequence[str]) -> Any:
        return self._output("gradients", given, phase="first", wanted=list(wanted))

    def take(self, values: Mapping[str, torch.Tensor]) -> None:
        self._ask("take", given=self.model.hand_over(dict(values)))

    def rebuild(self, spec: Mapping[str, Any], seed: int, device: torch.device) -> None:
        self._called = False
        self._ask("rebuild", phase="first", given=self.model.hand_over(dict(spec)), seed=seed)

    def restore(self) -> None:
        self._called = False
        self._ask("restore")

    def _ask(self, question: str, phase: str = "check", **arguments: Any) -> dict[str, Any]:
        self.model.phase = phase
        return self.model.ask(question, **arguments)

    def _output(self, question: str, given: Any, phase: str = "check", **arguments: Any) -> Any:
        answer = self.model.fresh_file()
        self._ask(question, phase, given=self.model.hand_over(given), output=answer.name, **arguments)
        return self.model.output(answer)


def _change(arguments: Sequence[Any], changed: Any) -> None:
    """Repeat the in-place mutation of the other process."""
    for (_, mine), (_, theirs) in zip(tensors(list(arguments)), tensors(changed), strict=False):
        if isinstance(mine, torch.Tensor) and isinstance(theirs, torch.Tensor) and mine.shape == theirs.shape:
            mine.copy_(theirs)


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

    fixed, drawn = weights.by_another_seed(model, again)
    return Implementation(subject, module, lock, model, fixed=fixed, drawn=drawn, mode=mode)


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
        "own": names(first.model),
        "mode": first.mode,
    }


def candidate(job: Job, subject: Subject, first: Implementation, seed: int, device: torch.device) -> Implementation:
    """Import and construct a candidate here, with the reference's arguments and weights."""
    lock = loading.enter(Path(subject.file), Path(job.cache))
    module = loading.import_file(Path(subject.file), subject.name, subject.content)
    given = spec(first, seed)
    model = birth.construct(module, given, seed, device, precision.TYPES[job.precision])
    match = weights.match(model, given["weights"] or {}, given["constructed"])
    return Implementation(subject, module, lock, model, match=match, precision=job.precision, own=tuple(given["own"]))
