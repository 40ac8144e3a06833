"""SARIF 2.1.0, which code scanning reads: what was judged and found, each at its place in the source.

A verdict against a change is an error, a finding a note: its bound is the most that could be won, no fault. Doubts and
rules without counters are notifications of the run that measured.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import quote

from profkit._version import __version__
from profkit.report.places import Place

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "%SRCROOT%"
ERROR, WARNING, NOTE = "error", "warning", "note"
_BRACKETS = str.maketrans("[]{}", "()()")
"""In a message of SARIF these begin a link or a placeholder."""


@dataclass(frozen=True)
class Rule:
    """What a result can be an instance of: in a few words, and what to do about it."""

    name: str
    about: str
    help: str


@dataclass(frozen=True)
class Result:
    """`level`: error, warning or note; `inside`: sample, implementation and kernel, by which the same result is known
    again in the next run; `values`: numbers in SI, those that are not known left out.
    """

    rule: Rule
    level: str
    says: str
    inside: tuple[str, ...]
    place: Place | None = None
    values: Mapping[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Notice:
    """What the reader of all results should know: a doubt, or what was not checked."""

    says: str
    level: str = WARNING


def document(name: str, results: Sequence[Result], notices: Sequence[Notice]) -> str:
    """One log of one run; `name` tells this kind of analysis from others of the same code."""
    rules = {one.rule.name: one.rule for one in results}
    order = {rule: index for index, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    driver = {
        "name": "profkit",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(one) for one in rules.values()],
    }
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"profkit/{name}/"},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": [_notice(one) for one in notices]}],
        "originalUriBaseIds": {ROOT: {"description": {"text": "the root of the repository"}}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, order, seen) for one in results],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _rule(one: Rule) -> dict[str, Any]:
    return {
        "id": one.name,
        "shortDescription": {"text": _text(one.about)},
        "fullDescription": {"text": _text(one.about)},
        "help": {"text": _text(one.help)},
    }


def _notice(one: Notice) -> dict[str, Any]:
    return {"level": one.level, "message": {"text": _text(one.says)}}


def _result(one: Result, order: Mapping[str, int], seen: Counter[str]) -> dict[str, Any]:
    key = hashlib.sha256("\0".join((one.rule.name, *one.inside)).encode("utf-8", "replace")).hexdigest()[:16]
    seen[key] += 1
    values = {name: value for name, value in one.values.items() if not _unknown(value)}
    return {
        "ruleId": one.rule.name,
        "ruleIndex": order[one.rule.name],
        "level": one.level,
        "message": {"text": _text(one.says)},
        "locations": [_location(one)],
        "partialFingerprints": {"primaryLocationLineHash": f"{key}:{seen[key]}"},
        **({"properties": values} if values else {}),
    }


def _unknown(value: float | str) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _location(one: Result) -> dict[str, Any]:
    kind = ("module", "type", "function")[: len(one.inside)][-1]
    within = {"fullyQualifiedName": "/".join(one.inside), "name": one.inside[-1], "kind": kind}
    found: dict[str, Any] = {"logicalLocations": [within]}
    if one.place is not None:
        # Code scanning wants a line of everything; the first stands for the file.
        region: dict[str, Any] = {"startLine": max(one.place.line, 1)}
        if one.place.line and one.place.text:
            region["snippet"] = {"text": one.place.text}
        found["physicalLocation"] = {"artifactLocation": _artifact(one.place.path), "region": region}
    return found


def _artifact(path: str) -> dict[str, str]:
    """Below the working directory, which a CI job has at the root of the repository, else where it lies."""
    windows = PureWindowsPath(path)
    if windows.drive:
        return {"uri": windows.as_uri()} if windows.is_absolute() else _relative(windows.as_posix())
    pure = PurePosixPath(path)
    if not pure.is_absolute():
        return _relative(pure.as_posix())
    root = Path.cwd().as_posix()
    return _relative(pure.relative_to(root).as_posix()) if pure.is_relative_to(root) else {"uri": pure.as_uri()}


def _relative(path: str) -> dict[str, str]:
    return {"uri": quote(path), "uriBaseId": ROOT}


def _text(said: str) -> str:
    return said.translate(_BRACKETS)
