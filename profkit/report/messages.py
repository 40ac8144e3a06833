"""Message catalogue in English and Chinese (messages.toml), and the current language.

`speaking("zh")` sets the language of a block. Messages are found by id, sentences of other packages by template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

import msgspec

from analyzers.records import number, tables
from analyzers.verdicts.verdict import Condition, Verdict
from roofline import units
from roofline.wording import has_chinese

LANGUAGES = ("en", "zh")
_LANGUAGE = ContextVar("language", default="en")
_SHARES = 3
"""Largest shares to name in a mixed bottleneck."""
_T = TypeVar("_T")


class Catalogue(msgspec.Struct, forbid_unknown_fields=True):
    """Messages by id in both languages; Chinese words and templates."""

    say: dict[str, tuple[str, str]]
    names: dict[str, str]
    figures: dict[str, str]
    sentences: dict[str, str]


@cache
def catalogue() -> Catalogue:
    """Load messages.toml."""
    return msgspec.toml.decode((files("profkit.report") / "messages.toml").read_bytes(), type=Catalogue)


# ---- the language


def language() -> str:
    """The current language, en or zh."""
    return _LANGUAGE.get()


@contextmanager
def speaking(lang: str) -> Iterator[None]:
    """Set the language inside the block; a generator must be consumed inside it."""
    token = _LANGUAGE.set(lang)
    try:
        yield
    finally:
        _LANGUAGE.reset(token)


def spoken() -> str:
    """The current language if this machine has a font for it, else English; for pictures."""
    return language() if has_chinese() else "en"


def in_each(make: Callable[[], _T]) -> tuple[_T, _T]:
    """Results of `make` in English and in Chinese."""
    with speaking("en"):
        english = make()
    with speaking("zh"):
        return english, make()


def of_pair(pair: Sequence[str]) -> str:
    """Select from (English, Chinese) by the current language."""
    return pair[LANGUAGES.index(language())]


# ---- messages and names, by id


def say(key: str, **values: str) -> str:
    """A message by id; raises KeyError for an unknown id."""
    said = of_pair(catalogue().say[key]).format(**values)
    return spaced(said) if language() == "zh" else said


_JOINT = re.compile(r"(?<=[\u3400-\u9fff])(?=[A-Za-z0-9`<>±])|(?<=[A-Za-z0-9`%])(?=[\u3400-\u9fff])")


def spaced(text: str) -> str:
    """Chinese with spaces between it and Latin letters or digits."""
    return _JOINT.sub(" ", text)


def named(word: str) -> str:
    """Translate a word of the data: a bottleneck, a cache state, a counter."""
    return catalogue().names.get(word, word) if language() == "zh" else word


def of_figures() -> Mapping[str, str]:
    """Sentences of a roofline by their English, in the current language."""
    return catalogue().figures if language() == "zh" else {}


def bound_word(row: Mapping[Any, Any]) -> str:
    """Word for the bottleneck; full issue slots are named, not called latency."""
    word = str(row.get("bound_by", ""))
    return say("bound_issue") if word == "latency" and row.get("cause") == "issue" else named(word)


def bound(row: Mapping[Any, Any]) -> str:
    """Bottleneck of a call or kernel, or its largest shares if mixed; "" if unknown."""
    word = str(row.get("bound_by", ""))
    if word != "mixed":
        return "" if word in ("unknown", "nan") else bound_word(row)
    shares = [piece.partition(" ") for piece in str(row["bound_split"]).split(", ")]
    told = [f"{share} {named(name)}" for share, _, name in shares[:_SHARES]]
    others = len(shares) - len(told)
    return say("listed").join(told) + (say("and_others", count=str(others)) if others else "")


def bound_why(row: Mapping[Any, Any]) -> str:
    """Bottleneck of a call or kernel; for latency also the cause."""
    causes = tables("causes.toml")
    why = causes.get(str(row.get("cause", "")))
    return bound(row) if why in (None, causes["issue"]) else say("bound_why", bound=bound(row), why=of_pair(why))


def of_roof(row: Mapping[Any, Any]) -> str:
    """Share of the binding ceiling, or of the nearest ceiling with its name; a dash if unknown."""
    share, roof = units.percent(number(row, "roof_share")), str(row.get("roof", ""))
    if share == units.MISSING or roof == str(row.get("bound_by", "")):
        return share
    return say("bound_why", bound=share, why=named(roof))


# ---- sentences of the houses below, by template

_PLACE = re.compile(r"\{(\w+)\}")
_NUMBERS = frozenset(("n", "k", "s", "us", "x", "y", "z", "share", "count", "ratio", "change", "rounds", "runs"))
"""Placeholders for numbers only."""
_NUMBER = r"[-+]?[\d.,]+(?:e[-+]?\d+)?%?|nan|inf"
_FILLED = {"name": r"\S+", "rest": ".*", "answer": r"(?:output|input|state)\S*", "kinds": r"\d+ .+"}
_FILLED |= dict.fromkeys(_NUMBERS, _NUMBER)
"""Pattern of a placeholder; others match anything."""
_LISTS = frozenset(("list", "kinds"))
"""Placeholders of comma-separated lists."""
_LEAST = 4
"""Literal letters from which a match of a template is certain."""


def translated(text: str) -> str:
    """Translate a sentence of another package to the current language."""
    return in_chinese(text) if language() == "zh" else text


def judged(one: Verdict | Condition) -> str:
    """Translate a verdict or its condition to the current language."""
    return one.text(language(), translated)


@cache
def in_chinese(said: str) -> str:
    """Chinese of a known sentence; unknown ones, like a tool's message, unchanged."""
    found = _known(said)
    if found is not None:
        return found
    parts = said.split("; ")
    told = [_known(one) for one in parts]
    if any(told):
        return "；".join(known or part for known, part in zip(told, parts, strict=True))
    return said


@cache
def _patterns() -> list[tuple[re.Pattern[str], str, bool]]:
    """(pattern, Chinese, whether a match is certain) of templates, most literal text first."""
    placed = [one for one in catalogue().sentences.items() if _PLACE.search(one[0])]
    placed.sort(key=lambda one: -len(_PLACE.sub("", one[0])))
    made = []
    for english, chinese in placed:
        pieces = _PLACE.split(english)
        parts = [f"(?P<{one}>{_FILLED.get(one, '.+?')})" if at % 2 else re.escape(one) for at, one in enumerate(pieces)]
        sure = sum(map(str.isalpha, "".join(pieces[::2]))) >= _LEAST or {*pieces[1::2]} <= _NUMBERS
        made.append((re.compile("".join(parts), re.DOTALL), chinese, sure))
    return made


def _known(said: str) -> str | None:
    if said in catalogue().sentences:
        return catalogue().sentences[said]
    for pattern, chinese, sure in _patterns():
        if found := pattern.fullmatch(said):
            told = {name: in_chinese(text) for name, text in found.groupdict().items()}
            told |= {name: told[name].replace("，", "、") for name in _LISTS & told.keys()}
            if sure or told != found.groupdict():
                return spaced(chinese.format(**told))
    return None
