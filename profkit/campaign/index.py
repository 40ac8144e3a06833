"""An index over run directories: lists, filters and ranks them, one row per implementation."""

from __future__ import annotations

import fnmatch
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from analyzers.records import number
from analyzers.verdicts.verdict import PACED, Verdict
from collectors.caveat import Caveat
from profkit.errors import ProfkitError
from profkit.report.messages import in_chinese
from profkit.rundir.manifest import Impl, Manifest, read_manifest

NAN = math.nan
COMPARED = (*PACED, "inconclusive")
"""Verdicts with a useful interval; other speed-ups are dropped."""
Facts = dict[str, Any]


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """One implementation of one run, in SI units; NaN and "" if unknown.

    `path`: of the run, relative to the folder. `status`: of the run; `state`: of the implementation. `word`: its
    verdict, "" without one (a reference, a range); `line`: the verdict as a sentence, `line_zh` in Chinese; `wins`: it
    counts as faster. `lower_bound`: time over the lower bound; `share`: of the attainable. `caveats`: about it or the
    whole run.
    """

    path: str
    sample: str
    created: str
    status: str
    device: str
    impl: str
    role: str
    state: str = ""
    word: str = ""
    line: str = ""
    line_zh: str = ""
    wins: int = 0
    speedup: float = NAN
    low: float = NAN
    high: float = NAN
    time: float = NAN
    lower_bound: float = NAN
    share: float = NAN
    bound: str = ""
    method: str = ""
    caveats: tuple[str, ...] = ()


class _Metrics(msgspec.Struct):
    impls: list[Facts] = []
    caveats: list[Caveat] | None = None
    verdicts: list[Facts] = []


SORTS: dict[str, Callable[[Row], Any]] = {
    "created": lambda row: 0,
    "time": lambda row: _last(row.time),
    "lower_bound": lambda row: _last(row.lower_bound),
    "share": lambda row: _last(-row.share),
    "speedup": lambda row: (row.speedup != row.speedup, row.word == "faster" and not row.wins, _last(-row.speedup)),
}
"""Sort keys of a list, best first; speed-ups that do not count come last."""


def _last(value: float) -> float:
    return math.inf if math.isnan(value) else value


class Index:
    """Runs below `folder` as rows; a tenth of a second for 300 of them."""

    def __init__(self, folder: Path) -> None:
        self._runs = {path: read_run(folder, path) for path in _scan(folder)}

    def rows(
        self,
        *,
        sample: str = "",
        device: str = "",
        since: str = "",
        words: Sequence[str] = (),
        sort: str = "created",
        references: bool = False,
    ) -> list[Row]:
        """Matching rows, ranked by a key of SORTS.

        sample: its id, with wildcards * and ?. device: a part of its name. since: an ISO time (UTC). words: verdicts;
        () for all but "skipped". references: list them too.
        """
        named = re.compile(fnmatch.translate(sample.replace("[", "[[]"))) if sample else None
        found = [
            row
            for _, rows in self._runs.values()
            for row, _ in rows
            if (named is None or named.match(row.sample))
            and device.lower() in row.device.lower()
            and row.created >= since
            and (row.word in words if words else row.word != "skipped")
            and (references or row.role != "reference")
        ]
        found.sort(key=lambda row: (row.created, row.path), reverse=True)
        return sorted(found, key=SORTS[sort])

    @property
    def facts(self) -> dict[tuple[str, str], Facts]:
        """(path, implementation) -> source, device, versions and method."""
        return {(row.path, row.impl): more for _, rows in self._runs.values() for row, more in rows}

    def damaged(self) -> list[tuple[str, str]]:
        """(path, why) of the runs that are damaged or only partly readable."""
        return sorted((path, damage) for path, (damage, _) in self._runs.items() if damage)


def _scan(folder: Path) -> Iterator[str]:
    """Relative path of each run; hidden folders and those inside a run are skipped."""
    for place, folders, names in os.walk(folder):
        folders[:] = [] if "run.json" in names else [name for name in folders if not name.startswith(".")]
        if "run.json" in names:
            yield Path(place).relative_to(folder).as_posix()


def read_run(folder: Path, path: str) -> tuple[str, list[tuple[Row, Facts]]]:
    """(damage, rows of a run, facts that may explain a change of its times)."""
    run = folder / path
    try:
        manifest = read_manifest(run / "run.json")
    except ProfkitError as error:
        return str(error), []
    try:
        metrics = msgspec.json.decode((run / "metrics.json").read_bytes(), type=_Metrics)
        return "", list(_rows(path, manifest, metrics))
    except FileNotFoundError:
        damage = ""
    except (OSError, msgspec.DecodeError) as error:
        damage = f"{run / 'metrics.json'}: {error}"
    return damage, list(_rows(path, manifest, _Metrics()))


def _rows(path: str, manifest: Manifest, metrics: _Metrics) -> Iterator[tuple[Row, Facts]]:
    """One row per implementation or range; a run without both has one."""
    figures = {str(one.get("impl", "")): one for one in metrics.impls}
    caveats = manifest.caveats if metrics.caveats is None else metrics.caveats
    impls = {one.name: one for one in manifest.impls}
    for name in impls or figures or [""]:
        impl, own = impls.get(name), figures.get(name, {})
        said, line = _said(impl, name, metrics)
        row = Row(
            path=path,
            sample=manifest.sample.id,
            created=manifest.created,
            status=manifest.status,
            device=str(manifest.device.get("name") or ""),
            impl=name,
            role=impl.role if impl is not None else "range",
            state=impl.status if impl is not None else "",
            word=said.word,
            line=line,
            line_zh=said.text("zh", in_chinese) if line else "",
            wins=int(said.wins),
            **({key: getattr(said, key) for key in ("speedup", "low", "high")} if said.word in COMPARED else {}),
            time=number(own, "time"),
            lower_bound=number(own, "lower_bound_ratio"),
            share=number(own, "attainable_fraction"),
            bound=str(own.get("bound_by") or ""),
            method=str(own.get("method") or ""),
            caveats=tuple(one.what for one in caveats if one.about in ("", name)),
        )
        yield row, _facts(manifest, impl, own)


def _said(impl: Impl | None, name: str, metrics: _Metrics) -> tuple[Verdict, str]:
    """Recorded verdict of a candidate and its line; "" for a reference, a range, or without one."""
    if impl is None or impl.role != "candidate":
        return Verdict(name, ""), ""
    none = {"impl": name, "word": "skipped" if impl.status == "skipped" else ""}
    said = next((one for one in metrics.verdicts if one.get("impl") == name), none)
    # null is an unknown number.
    known = {key: value for key, value in said.items() if value is not None}
    return msgspec.convert(known, Verdict), str(known.get("line", ""))


def _facts(manifest: Manifest, impl: Impl | None, own: Facts) -> Facts:
    """Known facts that may explain a change of the time, in words, by priority."""
    facts: Facts = {
        "source": _source(manifest, impl)[:12],
        "GPU": manifest.device.get("uuid"),
        "driver": manifest.device.get("driver"),
        "profkit": manifest.profkit,
        "method": own.get("method"),
        **{f"version of {name}": text for name, text in manifest.versions.items()},
        "version of ncu": manifest.counters.version,
        "inputs": ", ".join(manifest.inputs),
        "precision": manifest.precision,
        "isolated": "yes" if manifest.isolated else "no",
        "l2": own.get("l2"),
    }
    return {name: value for name, value in facts.items() if value not in ("", None)}


def _source(manifest: Manifest, impl: Impl | None) -> str:
    if impl is None:
        return ""
    files = manifest.sample.files
    named = files.get(impl.name) or next((one for one in files.values() if one.path == impl.file), None)
    return named.sha256 if named is not None else ""
