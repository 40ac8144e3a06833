"""What the other houses say in English, in Chinese: doubts, notes of roofs and times, why counters are missing.

They say it once, in English, with numbers and names filled in, and run.json keeps it so. Here the sentence is known again by
its template in said.toml and told in Chinese: one catalogue beside the code, old runs included, and no second copy of any
place that makes a sentence. What nobody has translated, a tool's own message, stays as it was said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import msgspec

from analyzers.verdicts import reasons
from profkit.report.words import spaced

_PLACE = re.compile(r"\{(\w+)\}")
_NUMBERS = frozenset(("n", "k", "s", "us", "x", "y", "z", "share", "count", "ratio", "change", "rounds", "runs"))
"""Places that only a number fills."""
_NUMBER = r"[-+]?[\d.,]+(?:e[-+]?\d+)?%?|nan|inf"
_LEAST = 4
"""Letters that a template needs beside its places to be sure of itself."""


@cache
def templates() -> Mapping[str, str]:
    """English template -> Chinese."""
    return msgspec.toml.decode((files("profkit.report") / "said.toml").read_bytes(), type=dict[str, str])


@cache
def _plain() -> Mapping[str, str]:
    return {english: chinese for english, chinese in templates().items() if not _PLACE.search(english)}


class _Template(NamedTuple):
    """`loose`: so little is said beside the places that it holds only if what fills one of them is known as well."""

    pattern: re.Pattern[str]
    chinese: str
    loose: bool


@cache
def _patterns() -> Sequence[_Template]:
    """Those with places, the most literal text first: "{a} s measured, floor {b} s" before "{rest}, {n} needed"."""
    placed = [one for one in templates().items() if one[0] not in _plain()]
    placed.sort(key=lambda one: -len(_PLACE.sub("", one[0])))
    return [_template(*one) for one in placed]


def _template(english: str, chinese: str) -> _Template:
    pieces = _PLACE.split(english)
    made = [_place(one) if at % 2 else re.escape(one) for at, one in enumerate(pieces)]
    letters = sum(map(str.isalpha, "".join(pieces[::2])))
    return _Template(
        re.compile("".join(made), re.DOTALL), chinese, letters < _LEAST and not {*pieces[1::2]} <= _NUMBERS
    )


def _place(name: str) -> str:
    """What may fill a place: a number, one word, anything; nothing at all in `rest` alone."""
    kind = _NUMBER if name in _NUMBERS else r"\S+" if name == "name" else ".*" if name == "rest" else ".+?"
    return f"(?P<{name}>{kind})"


@cache
def in_chinese(said: str) -> str:
    """The same in Chinese; as it is where it is no sentence that is known."""
    found = _known(said)
    if found is not None:
        return found
    parts = said.split("; ")
    told = [_known(one) for one in parts]
    if any(told):
        return "；".join(known or part for known, part in zip(told, parts, strict=True))
    return reasons.in_chinese(said)


def _known(said: str) -> str | None:
    if said in _plain():
        return _plain()[said]
    for one in _patterns():
        found = one.pattern.fullmatch(said)
        if found:
            filled = found.groupdict()
            told = {name: in_chinese(text) for name, text in filled.items()}
            if not one.loose or told != filled:
                return spaced(one.chinese.format(**told))
    return None


def said_in(lang: str, text: str) -> str:
    """A sentence of another house in a language."""
    return in_chinese(text) if lang == "zh" else text
