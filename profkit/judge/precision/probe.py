"""Probe of a task: its precision, and the trivial answers that pass.

Trivial answers are zeros, the mean, a stale answer, the input itself. Unusual inputs may still reject one, such as a
copy in place of relu on positive inputs. If they do not, the task cannot tell right from wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgspec
import torch

from profkit.guest import settings
from profkit.guest.operators import Watched
from profkit.guest.tensors import inputs
from profkit.guest.tensors.compare import close, coded, leaves, same, tensors, thin
from profkit.judge.cases import Trial
from profkit.judge.precision.bits import BORDERS, Precision
from profkit.judge.precision.oracle import Oracle
from profkit.launch.protocol import Events

AS_IT_CAME, OTHERS = "an input as it came", "the answer to other inputs"
_COPIED = 3
"""Number of unusual inputs returned unchanged from which the task is a copy."""
_TYPES = {torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
_TYPES |= {torch.complex128: "fp64", torch.complex64: "fp32"}
_HOLES = frozenset({"isnan", "nan_to_num", "isfinite", "isinf", "nansum", "nanmean", "nanmedian", "nanquantile"})
_TENSOR_CORES = {
    "convolution": {"convolution", "convolution_backward"},
    "matmul": {"mm", "bmm", "addmm", "baddbmm"},
    "recurrence": {"_cudnn_rnn"},
}
"""torch's operators by the kind of switch that allows TF32."""


@dataclass(frozen=True)
class Probe:
    """Properties of a task.

    `passing`: trivial answers that pass; `told`: trivial answers that pass only for drawn inputs, with the unusual
    inputs that reject them. `still`: outputs equal for all inputs; `mutates`: the reference mutates its inputs;
    `random`: its answer depends on random numbers; `keeps`: on earlier calls; `varied`: repeated draws are
    changed; `holes`: it checks for NaN; `writes`: it may write to its inputs, be it the numbers that they hold.
    """

    precision: Precision = field(default_factory=Precision)
    passing: list[str] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)
    still: list[str] = field(default_factory=list)
    mutates: bool = False
    random: bool = False
    keeps: bool = False
    varied: bool = False
    holes: bool = False
    writes: bool = True

    @property
    def repeatable(self) -> bool:
        """Whether a repeated call gives the same answer, so that timed calls can be compared."""
        return not (self.mutates or self.random or self.keeps)

    def report(self, events: Events) -> None:
        """Send the findings, and caveats that weaken a verdict."""
        own = self.precision.own if math.isfinite(self.precision.own) else None
        report = asdict(self)
        report["precision"]["own"] = own
        events.send("probe", **report, required=round(self.precision.required, 2))
        for caveat in self._caveats():
            events.send("caveat", **caveat)

    def _caveats(self) -> Iterator[dict[str, str]]:
        if self.passing:
            yield {
                "what": f"trivial answers pass for this task: {', '.join(self.passing)}",
                "how_much": f"they are right to the {self.precision.required:.1f} bits that the task has",
                "fix": "draw inputs on which the output depends",
            }
        if self.still:
            yield {
                "what": f"{', '.join(self.still)} of the answer is the same for all inputs that were tried",
                "how_much": "skipping it is not detected",
                "fix": "draw inputs that change it",
                "code": "output-still",
            }
        if self.precision.noise:
            yield {
                "what": f"{', '.join(self.precision.noise)} of the answer is rounding noise",
                "how_much": f"one unit of {self.precision.type} in the inputs moves it by as much as it is",
                "fix": "return a result that is not zero by construction",
                "code": "noise",
            }
        if self.random:
            yield {
                "what": "timed calls are not compared with the reference",
                "how_much": "the reference draws random numbers",
                "fix": "give a reference whose answer depends only on its inputs",
            }


def probe(
    model: Any,
    draw: Callable[[int], list[Any]],
    seeds: Sequence[int],
    pause: Callable[[], None] = lambda: None,
    device: torch.device | None = None,
) -> Probe:
    """Measure the reference on drawn inputs, and try the trivial answers."""
    other = thinned(model(*draw(seeds[1])))
    arguments = draw(seeds[0])
    kept, generators, changes = inputs.clone(arguments), _generators(), _changes(arguments)
    with _OperatorLog() as log:
        answer = inputs.clone(model(*arguments))
    mutates = not same(arguments, kept)
    writes = mutates or _changes(arguments) != changes or any(leaf.is_inference() for leaf in leaves(arguments))
    del arguments
    # A layer that is constructed in a call, for given weights, draws numbers too.
    random = not same(_generators(), generators) and not same(model(*inputs.clone(kept)), answer)
    known = Precision(task_type(model, kept, answer, log.narrowest))
    found = Probe(known, mutates=mutates, random=random, holes=log.holes, writes=writes)
    if random:
        return found
    narrowed = settings.narrowed(device or torch.device("cpu"))
    if known.type == "fp32" and any(not _TENSOR_CORES[kind].isdisjoint(log.called) for kind in narrowed):
        known.type = "tf32"
    case = Oracle(model, known, pause).case(kept, answer)
    known.noise = case.noise()
    known.own = case.own()
    passing, still = [], list[str]()
    given = _passed_through(kept, answer)
    for name, trial in trivial(thinned(answer), given, other):
        bits = case.bits(trial)
        right = [where for where, one in bits.items() if one >= known.required or where in known.noise]
        if len(right) == len(bits):
            passing.append(name)
            if name == "zeros":
                break  # so is every part of an answer
        elif name == OTHERS and len(bits) > 1:
            every = dict(tensors(answer))
            still = [where for where in right if isinstance(every[where], torch.Tensor) and where not in known.noise]
    if known.noise and len(known.noise) == len(list(tensors(answer))):
        passing = ["rounding noise"]
    return replace(found, passing=passing, still=still)


def known(reported: Mapping[str, Any]) -> Probe:
    """The probe reported by an earlier process."""
    measured = {name: value for name, value in reported.get("precision", {}).items() if value is not None}
    return msgspec.convert({**reported, "precision": measured}, Probe)


def told_apart(found: Probe, asked: Iterable[Trial], other: Mapping[str, Any], oracle: Oracle) -> Probe:
    """The probe without trivial answers that fail on unusual inputs. other: a thinned answer."""
    told: dict[str, str] = {}
    copied, still = 0, found.still
    for trial in asked:
        if not still and told.keys() >= set(found.passing):
            break
        case = oracle.case(trial.arguments, trial.answer)
        answer = thinned(trial.answer)
        if still:
            bits = case.bits(other)
            still = [where for where in still if bits.get(where, -math.inf) >= found.precision.required]
        for name, given in trivial(answer, _passed_through(trial.arguments, trial.answer), other):
            if name not in found.passing or name in told:
                continue
            bits = case.bits(given)
            if any(one < found.precision.least for one in bits.values()):
                told[name] = trial.name
            elif name == AS_IT_CAME and all(one == math.inf for one in bits.values()):
                copied += 1
    copies = AS_IT_CAME in found.passing and AS_IT_CAME not in told and copied >= _COPIED
    left = [name for name in found.passing if name not in told and not (copies and name == AS_IT_CAME)]
    return replace(found, passing=left, told=told, still=still)


def gives(trial: Trial, got: Any, found: Probe, other: Mapping[str, Any]) -> str:
    """Name of the equal trivial answer that passes only for drawn inputs; "" for none."""
    answer = thinned(trial.answer)
    # Under the reference's names: lists may be nested in another way.
    mine = dict(zip(answer, thinned(got).values(), strict=False))
    known = trivial(answer, _passed_through(trial.arguments, trial.answer), other)
    return next((name for name, given in known if name in found.told and close(mine, given, BORDERS["fp32"])), "")


def trivial(
    answer: Mapping[str, Any], given: torch.Tensor | None, other: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(name, thinned answer) of trivial answers. given: an input of the form of the only output."""
    yield "zeros", _each(answer, torch.zeros_like)
    yield OTHERS, other
    if any(isinstance(leaf, torch.Tensor) and leaf.numel() > 1 for leaf in answer.values()):
        yield "the mean", _each(answer, _mean)
    if given is not None:
        yield AS_IT_CAME, dict.fromkeys(answer, given)


def _each(answer: Mapping[str, Any], change: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, Any]:
    return {where: change(leaf) if isinstance(leaf, torch.Tensor) else leaf for where, leaf in answer.items()}


def _mean(leaf: torch.Tensor) -> torch.Tensor:
    if not leaf.is_floating_point() or coded(leaf):
        return torch.zeros_like(leaf)
    return torch.full_like(leaf, float(leaf.to(torch.float64).nanmean()))


def thinned(output: Any) -> dict[str, Any]:
    return {where: thin(leaf) if isinstance(leaf, torch.Tensor) else leaf for where, leaf in tensors(output)}


def _passed_through(arguments: list[Any], answer: Any) -> torch.Tensor | None:
    """An input with the form of the only output."""
    (_, only), *more = tensors(answer)
    if more or not isinstance(only, torch.Tensor):
        return None
    return next(
        (thin(leaf) for leaf in leaves(arguments) if (leaf.shape, leaf.dtype) == (only.shape, only.dtype)), None
    )


def _generators() -> list[Any]:
    found = [torch.get_rng_state()]
    return found + (torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [])


def _changes(arguments: list[Any]) -> list[int]:
    """Number of writes to each tensor so far."""
    return [0 if leaf.is_inference() else leaf._version for leaf in leaves(arguments)]


def task_type(model: Any, arguments: Any, answer: Any, arithmetic: str = "") -> str:
    """Precision of a task by inputs, weights and the reference's arithmetic.

    It is the narrowest of the widest input, the widest weight (without both, the narrowest output) and the arithmetic.
    One-byte floats are codes and do not count.
    """
    weights = model.state_dict() if isinstance(model, torch.nn.Module) else {}
    sides = [[_TYPES[leaf.dtype] for _, leaf in tensors(side) if _floats(leaf)] for side in (arguments, weights)]
    found = [min(side, key=_coarse) for side in sides if side] or [
        max((_TYPES[leaf.dtype] for _, leaf in tensors(answer) if _floats(leaf)), key=_coarse, default="fp32")
    ]
    return max([*found, *filter(None, (arithmetic,))], key=_coarse)


def _coarse(name: str) -> float:
    return -BORDERS[name]


def _floats(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dtype in _TYPES


class _OperatorLog(Watched):
    """Records operators, the narrowest floating type of any result, and checks for NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.narrowest, self.called = "", set[str]()

    @property
    def holes(self) -> bool:
        return not _HOLES.isdisjoint(self.called)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        self.called.add(func._overloadpacket._qualified_op_name.removeprefix("aten::"))
        for _, leaf in tensors(output):
            if _floats(leaf) and leaf.dtype.itemsize < 4:
                self.narrowest = max(filter(None, (self.narrowest, _TYPES[leaf.dtype])), key=_coarse)
        return output
