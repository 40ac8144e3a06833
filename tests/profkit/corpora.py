"""The corpora of candidates in tests/data: which file belongs to which run, and what it must be called."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from profkit.study.study import Study

DATA = Path(__file__).parent.parent / "data"


@dataclass(frozen=True)
class Part:
    """A candidate of a task in tests/data/corpora. `role`: cheat or honest; `kind`: of a cheat, in words; `called`: what a
    run has called it, of a cheat for the record alone, and has to say of an honest one.
    """

    task: str
    role: str
    name: str
    source: str
    kind: str = ""
    called: tuple[str, ...] = ()


_PART = re.compile(
    r"^#= (reference|head|honest (?P<honest>\w+)(?:: (?P<told>.*))?|cheat (?P<cheat>\w+) \((?P<kind>.*)\): (?P<called>.*))\n",
    re.M,
)
TASKS = tuple(sorted(file.stem for file in (DATA / "corpora").glob("*.txt")))


def parts(task: str) -> list[Part]:
    """The candidates of a task, each behind what all of them share."""
    text = (DATA / "corpora" / f"{task}.txt").read_text("utf-8")
    heads = [*_PART.finditer(text)]
    sources = {
        head: text[head.end() : end] for head, end in zip(heads, [*(h.start() for h in heads[1:]), None], strict=True)
    }
    shared = next(source for head, source in sources.items() if head[1] == "head")
    found = []
    for head, source in sources.items():
        if head["honest"]:
            told = tuple((head["told"] or "").split())
            found.append(Part(task, "honest", head["honest"], shared + source, called=told))
        elif head["cheat"]:
            called = tuple(head["called"].split())
            found.append(Part(task, "cheat", head["cheat"], shared + source, head["kind"], called))
    return found


_BENCHMARKS = frozenset(
    {"birnn", "codes", "decode", "edges", "level2", "moe", "nucleus", "paths", "points", "resample", "runs", "ssd"}
    | {"accept", "beams", "caps", "gaussian", "lattice", "means", "pages", "segments", "stencil", "strings", "swin"}
    | {"turned", "vlad", "volumes", "waves"}
)
"""Tasks that the benchmark alone judges: what had to be mended for theirs has tests of its own, and other tasks have all of their kinds."""
_CPUS = frozenset({"process", "tricks", "schemes", "blocks", "bytes"})
"""Tasks whose candidates do what makes no sense on a GPU, end more than themselves, or multiply whole numbers, which torch cannot there."""
_GPUS = frozenset(
    {("plain", one) for one in ("side_stream", "side_stream_late", "side_stream_when_timed")}
    | {("dense", one) for one in ("compiled", "cuda_epilogue", "graph_replay", "joined_stream", "triton_epilogue")}
)
"""What needs a GPU."""
_UNTOLD = frozenset(
    {("images", "gelu_by_tanh"), ("mbconv", "running_variance_as_it_is"), ("runs", "commonest_by_counting")}
)
"""What lies within the rounding of TF32, which torch allows a GPU's convolutions as it comes; and of what comes most often, the
smallest where torch gives any on a GPU.
"""


def tells(part: Part, device: str) -> bool:
    """Whether what a candidate is called on this device says anything."""
    if device == "cpu":
        return (part.task, part.name) not in _GPUS
    return not (
        part.task in _CPUS
        or (part.task, part.name) in _UNTOLD
        or "threading" in part.source
        or part.name.endswith("_cpp")
    )


MENDED = {
    "beams": ("cache_that_stays",),
    "beyond": ("nicer_than_it_has_to_be",),
    "blocks": ("library", "a_pool_that_is_made_late", "a_worker_that_waits"),
    "blockwise": ("weights_made_when_they_change",),
    "bytes": ("by_the_reciprocal",),
    "cache8": ("by_the_reciprocal", "one_product_in_parts", "scales_taken_out", "weights_put_together_once"),
    "chosen": ("by_kind_of_layer",),
    "consts": ("folded_in_the_constructor", "names_of_its_own", "turned_in_its_constructor"),
    "csr": ("row_by_search", "row_of_each_entry"),
    "dense": ("guarded_build", "own_buffer", "transposed_once", "two_threads"),
    "heads": ("large_negative", "without_maximum"),
    "norms": ("as_it_is", "folded_at_call", "folded_on_first_use"),
    "parts": ("one_pass", "stepwise_mean", "tree_mean"),
    "folded": (
        "folded_in_the_constructor_and_let_go",
        "folded_once_and_says_so",
        "scaled_in_the_constructor",
        "layers_that_are_made_when_they_are_loaded",
        "other_names_for_all",
    ),
    "halves": ("by_parts_of_the_sum", "loss_in_double"),
    "hidden": ("in_place",),
    "layers": ("plans_by_place_of_the_data",),
    "levels": ("in_two_parts", "by_the_reciprocal"),
    "losses": ("distances_by_the_product", "divergence_by_sums", "targets_are_whole"),
    "masked": ("in_double",),
    "mbconv": ("means_of_squares",),
    "outs": ("fused",),
    "packed": ("even_and_odd", "unpacked_when_loaded"),
    "peaks": ("by_parts",),
    "process": ("one_more_thread_joined", "reads_the_clock", "warms_up_in_the_constructor"),
    "ragged": ("bags_that_leave_the_padding_out",),
    "spectral": ("by_the_library",),
    "square": ("stored_transposed_under_the_same_name",),
    "states": ("without_buffers",),
    "terms": ("root_at_once", "mean_by_a_product"),
    "triangle": ("its_own_forward_substitution", "not_cut", "upper_half_of_the_symmetrical"),
    "tricks": ("answer_of_a_pool_that_is_asked", "no_forward_but_a_call"),
    "turns": ("asks_for_gradients_of_its_copy", "lets_go_with_a_finalizer", "marks_its_input"),
}
"""Honest candidates that came with a mending of the judge, or do what one was about: those it is likeliest to wrong again."""


STURDY = frozenset({"cache8", "csr", "decode", "muon", "packed"})
"""Tasks of whose honest candidates nothing is to be told of unusual inputs either: they make use of what all draws have in common."""


def some(every: Iterable[Part]) -> list[Part]:
    """Of all candidates those of MENDED, and in each task that tests judge a cheat of every kind that it has."""
    found: dict[object, Part] = {}
    for part in every:
        if part.name in MENDED.get(part.task, ()):
            found[part.task, part.name] = part
        elif part.role == "cheat" and part.task not in _BENCHMARKS and tells(part, "cpu"):
            found.setdefault((part.task, part.kind), part)
    return list(found.values())


RUN = {"device": "cpu", "counters": "off", "l2": "warm", "budget": 0.02, "trials": 2, "processes": 1}
"""How a task of the corpora is measured: what is timed is nothing, what is found out about a candidate is all."""


def held(run: Study, name: str) -> set[str]:
    """What a run holds against a candidate: its status where that is not ok, caveat:CODE of each caveat about it. What it says
    of unusual inputs (fragile) is told of and held against nobody.
    """
    impl = next(impl for impl in run.manifest.impls if impl.name == name)
    named = re.compile(rf"\b{name}\b")
    caveats = {f"caveat:{d.code or d.what}" for d in run.manifest.caveats if d.about == name or named.search(d.what)}
    # Load is told of and held against nobody.
    return {*(() if impl.ok else (impl.status,)), *caveats} - {"caveat:busy"}


def wins(run: Study, name: str) -> bool:
    """Whether a run says that a candidate is faster, and nothing against that."""
    impl = next(impl for impl in run.manifest.impls if impl.name == name)
    untold = any(caveat.about == name and caveat.code == "busy" for caveat in run.manifest.caveats)
    return run.verdicts[name].word == "faster" and not (held(run, name) or impl.fragile or untold)


def written(task: str, chosen: Iterable[Part], into: Path) -> Path:
    """A sample folder with a task's reference and these candidates."""
    into.mkdir(parents=True)
    text = (DATA / "corpora" / f"{task}.txt").read_text("utf-8")
    (into / "reference.py").write_text(text.partition("#= reference\n")[2].partition("#= head\n")[0], "utf-8")
    for part in chosen:
        (into / f"{part.name}.py").write_text(part.source, "utf-8")
    return into
