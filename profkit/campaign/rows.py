"""Rows of run.json and metrics.json, one per implementation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from analyzers.verdicts.verdict import PACED, Verdict
from collectors.caveat import Caveat
from profkit.contests.json_files import number
from profkit.errors import ProfkitError
from profkit.rundir.manifest import Impl, Manifest, read_manifest

NAN = math.nan
COMPARED = (*PACED, "inconclusive")
"""Verdicts with a useful interval; other speed-ups are dropped."""
Facts = dict[str, Any]


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """One implementation of one run, in SI units; NaN and "" where it is not known.

    `path`: of the run, relative to the folder. `status`: of the run; `state`, `reason`: of the implementation.
    `source`: hash of its file. `word`: its verdict, "" for what is not judged (a reference, a range); `line`: the
    verdict as a sentence, `line_zh` in Chinese; `wins`: it counts as faster. `lower bound`: time over the lower bound; `share`: of the attainable.
    `caveats`: those about it or about the whole run.
    """

    path: str
    sample: str
    kind: str
    created: str
    status: str
    profkit: str
    device: str
    uuid: str
    driver: str
    impl: str
    role: str
    state: str = ""
    reason: str = ""
    source: str = ""
    word: str = ""
    line: str = ""
    line_zh: str = ""
    wins: int = 0
    speedup: float = NAN
    low: float = NAN
    high: float = NAN
    time: float = NAN
    time_low: float = NAN
    time_high: float = NAN
    lower_bound: float = NAN
    share: float = NAN
    flops: float = NAN
    bandwidth: float = NAN
    bound: str = ""
    method: str = ""
    caveats: tuple[str, ...] = ()


class _Metrics(msgspec.Struct):
    impls: list[Facts] = []
    kernels: list[Facts] = []
    caveats: list[Caveat] | None = None
    verdicts: list[Facts] = []


def read_run(folder: Path, path: str) -> tuple[str, list[tuple[Row, Facts]]]:
    """(damage, rows of a run, facts that may explain a change of its times)."""
    run = folder / path
    try:
        manifest = read_manifest(run / "run.json")
    except ProfkitError as error:
        return str(error), []
    damage = ""
    try:
        metrics = msgspec.json.decode((run / "metrics.json").read_bytes(), type=_Metrics)
        return "", list(_rows(path, manifest, metrics))
    except FileNotFoundError:
        pass
    except (OSError, msgspec.DecodeError) as error:
        damage = f"{run / 'metrics.json'}: {error}"
    return damage, list(_rows(path, manifest, _Metrics()))


def _rows(path: str, manifest: Manifest, metrics: _Metrics) -> Iterator[tuple[Row, Facts]]:
    """One row per implementation or range; a run with neither has one."""
    figures = {str(one.get("impl", "")): one for one in metrics.impls}
    caveats = manifest.caveats if metrics.caveats is None else metrics.caveats
    hottest = {
        one.get("impl"): one for one in sorted(metrics.kernels, key=lambda kernel: number(kernel.get("time"), 0.0))
    }
    device = {key: str(manifest.device.get(key) or "") for key in ("name", "uuid", "driver")}
    impls = {one.name: one for one in manifest.impls}
    for name in impls or figures or [""]:
        impl, own = impls.get(name), figures.get(name, {})
        said, line = _said(impl, name, metrics)
        pace = ("speedup", "low", "high") if said.word in COMPARED else ()
        figured: dict[str, Any] = {key: getattr(said, key) for key in pace}
        figured |= {key: number(own.get(field)) for key, field in _FIGURES.items()}
        figured |= {key: str(own.get(field) or "") for key, field in _WORDS.items()}
        row = Row(
            path=path,
            sample=manifest.sample.id,
            kind=manifest.sample.kind,
            created=manifest.created,
            status=manifest.status,
            profkit=manifest.profkit,
            device=device["name"],
            uuid=device["uuid"],
            driver=device["driver"],
            impl=name,
            role=impl.role if impl is not None else "range",
            state=impl.status if impl is not None else "",
            reason=impl.reason if impl is not None else "",
            source=_source(manifest, impl),
            word=said.word,
            line=line,
            line_zh=said.text("zh") if line else "",
            wins=int(said.wins),
            caveats=tuple(one.what for one in caveats if one.about in ("", name)),
            **figured,
        )
        yield row, _facts(manifest, own, hottest.get(name, {}))


_FIGURES = {
    "time": "time",
    "time_low": "time_low",
    "time_high": "time_high",
    "lower_bound": "lower_bound_ratio",
    "share": "attainable_fraction",
    "flops": "achieved_flops",
    "bandwidth": "dram_bandwidth",
}
_WORDS = {"bound": "bound_by", "method": "method"}
"""Fields of Row -> fields of metrics.json's `impls`."""


def _said(impl: Impl | None, name: str, metrics: _Metrics) -> tuple[Verdict, str]:
    """Recorded verdict of a candidate and its line; "" for a reference, a range, or without one."""
    if impl is None or impl.role != "candidate":
        return Verdict(name, ""), ""
    none = {"impl": name, "word": "skipped" if impl.status == "skipped" else ""}
    said = next((one for one in metrics.verdicts if one.get("impl") == name), none)
    # null is an unknown number.
    known = {key: value for key, value in said.items() if value is not None}
    return msgspec.convert(known, Verdict), str(known.get("line", ""))


def _facts(manifest: Manifest, own: Facts, kernel: Facts) -> Facts:
    """Known facts that may explain a change of the time: numbers in SI units, or words."""
    facts: Facts = {
        **{f"version of {name}": text for name, text in manifest.versions.items()},
        "version of ncu": manifest.counters.version,
        "inputs": ", ".join(manifest.inputs),
        "precision": manifest.precision,
        "isolated": "yes" if manifest.isolated else "no",
        "l2": own.get("l2"),
        "kernels": own.get("kernels"),
        "work": own.get("flops"),
        "DRAM bytes": own.get("bytes"),
        "host time": own.get("host_time"),
        **{text: kernel.get(name) for name, text in _COUNTER.items()},
    }
    return {name: value for name, value in facts.items() if value not in ("", None)}


_COUNTER = {
    "kernel": "longest kernel",
    "grid": "its grid",
    "block": "its block",
    "launches": "its launches",
    "sm_clock": "SM clock",
    "dram_clock": "DRAM clock",
    "l2_bytes": "its L2 bytes",
    "occupancy": "its occupancy",
    "registers": "its registers",
    "shared_memory": "its shared memory",
}


def _source(manifest: Manifest, impl: Impl | None) -> str:
    if impl is None:
        return ""
    files = manifest.sample.files
    named = files.get(impl.name) or next((one for one in files.values() if one.path == impl.file), None)
    return named.sha256 if named is not None else ""
