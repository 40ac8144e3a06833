"""Chinese for the runner's sentences about an implementation, by reasons.toml.

A sentence that is not known (an exception's own text, a compiler's) stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

_ONE_DIMENSION = (", those of one dimension too", "（含一维输入）")


@cache
def _tables() -> Mapping[str, Mapping[str, str]]:
    found = msgspec.toml.decode(
        (files("analyzers.verdicts") / "reasons.toml").read_bytes(), type=dict[str, dict[str, str]]
    )
    found["inputs"] |= {en + _ONE_DIMENSION[0]: zh + _ONE_DIMENSION[1] for en, zh in found["inputs"].items()}
    found["words"] = {**found["inputs"], **found["answers"], "NaN": "NaN", "infinite": "无穷大"}
    return found


@cache
def _listed() -> str:
    """A pattern for the names of inputs and answers, the longest first."""
    return "|".join(re.escape(one) for one in sorted(_tables()["words"], key=len, reverse=True))


@cache
def _sentences() -> list[tuple[re.Pattern[str], str]]:
    tables = _tables()
    places = {"<listed>": _listed(), "<did>": "|".join(tables["done"]), "<kind>": "|".join(tables["kinds"])}
    places["<moment>"] = "|".join(tables["moments"])

    def filled(pattern: str) -> str:
        return re.sub("(?<!P)<(?:listed|did|kind|moment)>", lambda place: places[place[0]], pattern)

    return [(re.compile(filled(pattern), re.DOTALL), words) for pattern, words in tables["sentences"].items()]


def in_chinese(said: str) -> str:
    """The same in Chinese; as it is where it is none of the sentences known."""
    tables = _tables()
    if said in tables["status"]:
        return tables["status"][said]
    parts = said.split("; ")
    if len(parts) > 1 and all(part.startswith(tuple(tables["inputs"])) for part in parts):
        return "；".join(map(in_chinese, parts))
    for pattern, words in _sentences():
        found = pattern.fullmatch(said)
        if found:
            return words.format(**{name: _part(name, text) for name, text in found.groupdict().items()})
    return said


def _part(name: str, text: str) -> str:
    tables = _tables()
    if name in ("rest", "more"):
        return in_chinese(text)
    if name in ("did", "kind", "moment"):
        return tables["done"].get(text) or tables["kinds"].get(text) or tables["moments"].get(text, text)
    if name == "what":
        return "、".join(tables["words"].get(one, one) for one in re.findall(_listed(), text)) or text
    return text
