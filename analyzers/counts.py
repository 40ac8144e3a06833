"""Sums of launches by kernel, implementation or any key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzers.errors import AnalyzeError
from analyzers.lower_bound import Work
from analyzers.pipes import LEVELS, PIPES, chip_has
from collectors.caveat import Caveat
from collectors.counters import COUNTERS
from collectors.frame import spelt

_KEPT = ("device", "cc", "tool", "kind", "grid", "block")


def add_up(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """One row per group of launches, groups in order of appearance.

    Counters combine by kind: "sum" adds up (NaN if one launch lacks it), "mean" is weighted by time, "fact" is the
    largest. A summary's row counts as its `instances`; `launches` counts them. Text columns hold the group's value, or
    "" if it varies.
    """
    # What a frame carries beside its columns is copied by everything pandas does with them.
    bare = pd.DataFrame(frame)
    bare.attrs = {}
    counts = column(bare, "instances") if "instances" in bare else np.ones(len(bare))
    keys, first = grouped([bare[name] for name in by])
    columns = {"launches": known_sums(counts[np.newaxis], keys)[0]}
    for kind in ("fact", "mean", "sum"):
        names = [name for name in bare.columns if name in COUNTERS and COUNTERS[name].kind == kind]
        if names:
            values = np.array([column(bare, name) for name in names])
            together = _combined(kind, values, _weight(kind, bare, counts, keys), keys)
            columns |= dict(zip(names, together, strict=True))
    text = {name: _common(bare[name], keys, first) for name in _KEPT if name in bare and name not in by}
    order = ["launches", *(name for name in bare.columns if name in columns and name != "launches")]
    named = spelt(bare[list(by)].iloc[first].reset_index(drop=True))
    result: pd.DataFrame = pd.DataFrame({**named, **text, **{name: columns[name] for name in order}})
    return result


Array: TypeAlias = NDArray[np.float64]
Groups: TypeAlias = NDArray[np.intp]
"""For each row, the number of its group in order of appearance."""


def grouped(keys: Sequence[pd.Series[str]]) -> tuple[Groups, Groups]:
    """Groups of rows with equal keys, and the first row of each."""
    rows, size = len(keys[0]), 1
    code = np.zeros(rows, dtype=np.int64)
    for key in keys:
        one, texts = _coded(key)
        if len(texts) > 1:
            code = code * len(texts) + one
            size *= len(texts)
    if size > rows:
        code, distinct = pd.factorize(code)
        size = len(distinct)
    first = np.full(size, rows, dtype=np.intp)
    first[code[::-1]] = np.arange(rows)[::-1]
    order = np.argsort(first)[: np.count_nonzero(first < rows)]
    groups = np.empty(size, dtype=np.intp)
    groups[order] = np.arange(len(order))
    return groups[code], first[order]


def _weight(kind: str, frame: pd.DataFrame, counts: Array, keys: Groups) -> Array:
    """Weight of each launch: number of launches, times their time for a mean if all have one."""
    if kind != "mean" or "time" not in frame:
        return counts
    time = column(frame, "time")
    lacking = np.zeros(len(time), dtype=bool)
    lacking[keys[np.isnan(time)]] = True
    return counts * np.where(lacking[keys], 1.0, time)


def _combined(kind: str, values: Array, weight: Array, keys: Groups) -> Array:
    """Combined counters of one kind: rows are counters, columns groups of launches."""
    if kind == "fact":
        return np.asarray(pd.DataFrame(values.T).groupby(keys).max().to_numpy().T)
    total = known_sums(values * weight, keys)
    for row, unknown in zip(total, np.isnan(values * weight), strict=True):
        row[keys[unknown]] = np.nan
    if kind == "sum":
        return total
    weights = known_sums(weight[np.newaxis], keys)[0]
    return total / np.where(weights > 0, weights, np.nan)


def known_sums(values: Array, keys: Groups) -> Array:
    """Sums of each row of `values` by group in `keys` (from `grouped`); NaN counts as 0."""
    return np.array([np.bincount(keys, np.where(np.isnan(row), 0.0, row)) for row in values], dtype=np.float64)


def _common(values: pd.Series[str], keys: Groups, first: Groups) -> pd.Series[str]:
    """The text of each group, "" if it varies."""
    codes, texts = _coded(values)
    own = codes[first]
    varies = np.zeros(len(first), dtype=bool)
    if len(texts) > 1:
        varies[keys[codes != own[keys]]] = True
    told = ["" if several else texts[code] for several, code in zip(varies, own, strict=True)]
    common: pd.Series[str] = pd.Series(told, dtype=texts.dtype)
    return common


def _coded(values: pd.Series[str]) -> tuple[NDArray[np.integer[Any]], pd.Index[Any]]:
    """Index of each row's text in `texts`, which may hold more."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.cat.codes.to_numpy(), values.cat.categories
    codes, texts = pd.factorize(values)
    return codes, texts


def inside(launches: pd.DataFrame) -> dict[str, NDArray[np.intp]]:
    """Part -> positions of its launches, inner ranges ("a/b" in "a") included; outer first."""
    codes, paths = pd.factorize(launches["impl"])
    if len(paths) == 1 and "/" not in str(paths[0]):
        return {str(paths[0]): np.arange(len(launches))}
    rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes, minlength=len(paths)))[:-1])
    every: dict[str, list[NDArray[np.intp]]] = {}
    for code, path in enumerate(paths):
        names = str(path).split("/")
        for depth in range(len(names)):
            every.setdefault("/".join(names[: depth + 1]), []).append(rows[code])
    return {part: np.sort(np.concatenate(found)) for part, found in every.items()}


def by_part(launches: pd.DataFrame) -> pd.DataFrame:
    """Launches with impl = part, repeated for each enclosing range; see `inside`.

    A single part returns the frame uncopied: a million launches take 0.2 GB.
    """
    parts = inside(launches)
    if len(parts) == 1:
        return launches
    result: pd.DataFrame = launches.iloc[np.concatenate(list(parts.values()))].reset_index(drop=True)
    result["impl"] = np.repeat(list(parts), [len(found) for found in parts.values()])
    return result


def at_least(hottest: pd.DataFrame, kernels: pd.DataFrame) -> pd.DataFrame:
    """`hottest` for nested parts that count a launch several times: lower bounds.

    Per kernel: launches outside all parts, plus the largest of its parts (`kernels`: by part).
    """
    outside = kernels["impl"] == ""
    told = hottest.copy()
    for name in ("launches", "time"):
        most = kernels[~outside].groupby("kernel")[name].max()
        told[name] = told["kernel"].map(most.add(kernels[outside].groupby("kernel")[name].sum(), fill_value=0.0))
    ordered: pd.DataFrame = told.sort_values("time", ascending=False, kind="stable", ignore_index=True)
    return ordered


def by_pipe(frame: pd.DataFrame) -> dict[str, Array]:
    """Operations by pipe; NaN not collected, 0 if the chip lacks the pipe."""
    found = {}
    for pipe, counter in PIPES.items():
        values = column(frame, counter)
        unknown = np.isnan(values)
        found[pipe] = np.where(lacks(frame, counter) & unknown, 0.0, values) if unknown.any() else values
    return found


_FLOP_OF = {"flop_fp64": ("fp64", 1.0), "flop_fp32": ("fp32", 1.0), "flop_fp16": ("fp16", 2.0)}
"""Counter of FLOP -> its precision, and FLOP per instruction."""
_PARTS = tuple(f"inst_{kind}_{op}" for kind, _ in _FLOP_OF.values() for op in ("add", "mul", "fma"))


def known_by_pipe(frame: pd.DataFrame, counts: Mapping[str, Array]) -> dict[str, Array]:
    """Like by_pipe, but with the known parts of incompletely counted pipes: lower bounds."""
    found = dict(counts)
    for pipe, counter in PIPES.items():
        if counter not in _FLOP_OF or not (unknown := np.isnan(counts[pipe])).any():
            continue
        kind, add = _FLOP_OF[counter]
        parts = [column(frame, f"inst_{kind}_{op}") * add * (2 if op == "fma" else 1) for op in ("add", "mul", "fma")]
        known = np.where(np.all(np.isnan(parts), axis=0), np.nan, np.nansum(parts, axis=0))
        found[pipe] = np.where(unknown, known, counts[pipe])
    return found


def beyond_l1(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Mask of rows with traffic that bypasses L1 (TMA): more bytes crossed L2 or DRAM than L1."""
    crossed = np.fmax(column(frame, "l2_write"), column(frame, LEVELS["dram"]))
    return (crossed > 2 * column(frame, LEVELS["l1"])) & (crossed > BEYOND)


BEYOND = 2.0**20
"""Bytes below which a kernel's own overhead may dominate its traffic."""


def without_half_moves(frame: pd.DataFrame, works: Mapping[str, Sequence[Work]]) -> tuple[pd.DataFrame, list[Caveat]]:
    """Set flop_fp16 to 0 for launches without FP16 arithmetic; return the frame and its caveats.

    HFMA2 and HADD2 also load constants and convert halves, and the counter cannot tell; inst_fp16_* stay. works: by
    part, "" for all launches. A part without halves in its declared FLOP has none; without a declaration, neither has a
    kernel with only wider argument types.
    """
    chosen = list[_Chosen]()
    if "flop_fp16" in frame:
        chosen = _declared_without_halves(frame, works) if any(works.values()) else [_of_wider_arguments(frame)]
    if not any(len(at) for at, _ in chosen):
        return frame, []
    halves = column(frame, "flop_fp16").copy()
    total = np.nansum(list(by_pipe(frame).values()), axis=0)
    caveats = []
    for at, told in chosen:
        mine, every = np.nansum(halves[at]), np.nansum(total[at])
        total[at] -= np.nan_to_num(halves[at])
        halves[at] = np.where(np.isnan(halves[at]), np.nan, 0.0)
        if mine > 0.05 * every and told:
            what = "FP16 vector instructions are not counted as FLOP: compilers use them for constants and conversions"
            much = f"they would be {mine / every:.0%} of the FLOP of all launches"
            fix = "name the pipe fp16 in get_work() if the source computes in halves"
            caveats.append(Caveat(what, much, fix, "fp16-vectors"))
    cleaned = frame.assign(flop_fp16=halves)
    cleaned.attrs = frame.attrs
    return cleaned, caveats


_Chosen: TypeAlias = "tuple[NDArray[np.intp], bool]"
"""Rows without FP16 arithmetic, and whether to report them."""


def _declared_without_halves(frame: pd.DataFrame, works: Mapping[str, Sequence[Work]]) -> list[_Chosen]:
    known = {
        part: own
        for part, own in works.items()
        if own and not any("fp16" in work.flops for work in own) and (not part or any(work.flops for work in own))
    }
    rows = {"": np.arange(len(frame)), **(inside(frame) if set(known) - {""} else {})}
    none = np.array([], dtype=np.intp)
    return [(rows.get(part, none), any(work.flops for work in own)) for part, own in known.items()]


_WIDE = re.compile(
    r"(?:const |unsigned |signed )*(?:float|double|int|long|long long|short|char|bool)(?: const)? ?[*&]*"
)


def _of_wider_arguments(frame: pd.DataFrame) -> _Chosen:
    """Rows of kernels with only FP32, FP64 and integer arguments, at least one a float array."""

    def plain(kernel: str) -> bool:
        head, _, arguments = kernel.rpartition("(")
        types = [one.strip() for one in arguments.removesuffix(")").split(",")]
        floats = any(one.endswith("*") and ("float" in one or "double" in one) for one in types)
        return bool(head) and floats and all(map(_WIDE.fullmatch, types))

    known = {str(name): plain(str(name)) for name in frame["kernel"].unique()}
    return np.flatnonzero(frame["kernel"].astype(str).map(known).to_numpy(dtype=bool)), True


def lacks(frame: pd.DataFrame, counter: str) -> NDArray[np.bool_]:
    """Mask of rows on a chip without a counter."""
    codes, chips = _coded(frame["cc"]) if "cc" in frame else (np.zeros(len(frame), dtype=np.intp), [""])
    return ~np.array([chip_has(counter, str(cc)) for cc in chips], dtype=bool)[codes]


def missing_pipes(frame: pd.DataFrame) -> tuple[str, ...]:
    """Pipes of the chip without a counter in kernels that have others: FLOP may be incomplete."""
    counts = by_pipe(frame[has_operations(frame)])
    return tuple(pipe for pipe, values in counts.items() if np.isnan(values).any())


def has_operations(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Rows with at least one counter of operations."""
    given = [column(frame, counter) for counter in (*PIPES.values(), *_PARTS) if counter in frame]
    return np.any(~np.isnan(given), axis=0) if given else np.zeros(len(frame), dtype=bool)


def has_counts(frame: pd.DataFrame) -> bool:
    """Whether any counter was collected besides times and launch parameters."""
    known = (COUNTERS[name] for name in frame.columns if name in COUNTERS)
    return any(one.name != "time" and one.group != "launch" for one in known)


def column(frame: pd.DataFrame, name: str) -> NDArray[np.float64]:
    """A counter's column as floats; all NaN when it was not collected."""
    if name not in frame:
        return np.full(len(frame), np.nan)
    return np.asarray(frame[name].to_numpy(dtype="float64", na_value=np.nan))


def counted(added: pd.DataFrame) -> list[Work | None]:
    """Counted work of each row; None without FLOP and DRAM bytes, NaN if a pipe is missing."""
    pipes = by_pipe(added)
    rows = zip(has_operations(added), column(added, LEVELS["dram"]), zip(*pipes.values(), strict=True), strict=True)
    found: list[Work | None] = []
    for known, sent, counts in rows:
        flops = {name: float(value) for name, value in zip(pipes, counts, strict=True) if value > 0}
        flops |= {} if known and not any(map(np.isnan, counts)) else {"fp32": np.nan}
        found.append(Work(flops, float(sent), "counted") if known or not np.isnan(sent) else None)
    return found


def as_counters(work: Work) -> dict[str, float]:
    """Counter columns of a work; other pipes are 0. Raises AnalyzeError."""
    strange = sorted(set(work.flops) - set(PIPES))
    if strange:
        raise AnalyzeError(f"{work.source} work: no pipe {strange[0]!r}", fix=f"name one of {', '.join(PIPES)}")
    columns = {counter: float(work.flops.get(pipe, 0.0)) for pipe, counter in PIPES.items()}
    return {**columns, LEVELS["dram"]: work.bytes}
