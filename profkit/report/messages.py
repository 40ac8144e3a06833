"""Message catalogue in English and Chinese (messages.toml), and the language in force.

`speaking("zh")` sets the language of a block. Messages are looked up by id; sentences of the houses below by template.
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

from analyzers.causes import CAUSES
from analyzers.records import number
from analyzers.verdicts.verdict import Condition, Verdict
from roofline import units
from roofline.wording import has_chinese

LANGUAGES = ("en", "zh")
_LANGUAGE = ContextVar("language", default="en")
_SHARES = 3
"""Of what binds a call, the largest shares, that are named."""
_T = TypeVar("_T")


class Catalogue(msgspec.Struct, forbid_unknown_fields=True):
    """Messages by id in both languages, and Chinese of words and templates."""

    say: dict[str, tuple[str, str]]
    names: dict[str, str]
    figures: dict[str, str]
    sentences: dict[str, str]


@cache
def catalogue() -> Catalogue:
    """Everything that is said."""
    return msgspec.toml.decode((files("profkit.report") / "messages.toml").read_bytes(), type=Catalogue)


# ---- the language


def language() -> str:
    """The language in force, en or zh."""
    return _LANGUAGE.get()


@contextmanager
def speaking(lang: str) -> Iterator[None]:
    """Everything said inside the block is said in `lang`; what a generator says after it is not."""
    token = _LANGUAGE.set(lang)
    try:
        yield
    finally:
        _LANGUAGE.reset(token)


def spoken() -> str:
    """The language in force if this machine can draw it, else English: pictures need a font."""
    return language() if has_chinese() else "en"


def in_each(make: Callable[[], _T]) -> tuple[_T, _T]:
    """What `make` returns in English and in Chinese."""
    with speaking("en"):
        english = make()
    with speaking("zh"):
        return english, make()


def of_pair(pair: Sequence[str]) -> str:
    """Of (English, Chinese) the one in force."""
    return pair[LANGUAGES.index(language())]


# ---- messages and names, by id


def say(key: str, **values: str) -> str:
    """A message; raises KeyError for an unknown one: messages are the programme's, not a user's."""
    said = of_pair(catalogue().say[key]).format(**values)
    return spaced(said) if language() == "zh" else said


_JOINT = re.compile(r"(?<=[\u3400-\u9fff])(?=[A-Za-z0-9`<>±])|(?<=[A-Za-z0-9`%])(?=[\u3400-\u9fff])")


def spaced(text: str) -> str:
    """Chinese with a space where it meets Latin letters and digits."""
    return _JOINT.sub(" ", text)


def named(word: str) -> str:
    """A word of the data (what binds, a state of the cache, a counter)."""
    return catalogue().names.get(word, word) if language() == "zh" else word


def of_figures() -> Mapping[str, str]:
    """Sentences of a roofline in the language in force, by the English ones."""
    return catalogue().figures if language() == "zh" else {}


def bound_word(row: Mapping[Any, Any]) -> str:
    """The word for what binds: full issue slots are not latency, as nothing waits."""
    word = str(row.get("bound_by", ""))
    return say("bound_issue") if word == "latency" and row.get("cause") == "issue" else named(word)


def bound(row: Mapping[Any, Any]) -> str:
    """What binds a call or kernel, or its largest shares where mixed; "" if unknown."""
    word = str(row.get("bound_by", ""))
    if word != "mixed":
        return "" if word in ("unknown", "nan") else bound_word(row)
    shares = [piece.partition(" ") for piece in str(row["bound_split"]).split(", ")]
    told = [f"{share} {named(name)}" for share, _, name in shares[:_SHARES]]
    others = len(shares) - len(told)
    return say("listed").join(told) + (say("and_others", count=str(others)) if others else "")


def bound_why(row: Mapping[Any, Any]) -> str:
    """What binds a call or kernel; of waiting its cause as well."""
    why = CAUSES.get(str(row.get("cause", "")))
    return bound(row) if why in (None, CAUSES["issue"]) else say("bound_why", bound=bound(row), why=of_pair(why))


def of_roof(row: Mapping[Any, Any]) -> str:
    """Share of the ceiling that binds, or with the nearest ceiling's name; a dash if unknown."""
    share, roof = units.percent(number(row, "roof_share")), str(row.get("roof", ""))
    if share == units.MISSING or roof == str(row.get("bound_by", "")):
        return share
    return say("bound_why", bound=share, why=named(roof))


# ---- sentences of the houses below, by template

_PLACE = re.compile(r"\{(\w+)\}")
_NUMBERS = frozenset(("n", "k", "s", "us", "x", "y", "z", "share", "count", "ratio", "change", "rounds", "runs"))
"""Places that only a number fills."""
_NUMBER = r"[-+]?[\d.,]+(?:e[-+]?\d+)?%?|nan|inf"
_FILLED = {"name": r"\S+", "rest": ".*", "answer": r"(?:output|input|state)\S*", "kinds": r"\d+ .+"}
_FILLED |= dict.fromkeys(_NUMBERS, _NUMBER)
"""What may fill a place; any other one anything."""
_LISTS = frozenset(("list", "kinds"))
"""Places of names with commas between them."""
_LEAST = 4
"""Letters beside its places by which a template is known whatever fills them."""


def translated(text: str) -> str:
    """A sentence of another house in the language in force."""
    return in_chinese(text) if language() == "zh" else text


def judged(one: Verdict | Condition) -> str:
    """A verdict or a condition of one as a sentence in the language in force."""
    return one.text(language(), translated)


@cache
def in_chinese(said: str) -> str:
    """Chinese of a known sentence; others, like a tool's own message, as they are."""
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
    """(pattern, Chinese, needs no arguments) of templates, most literal text first."""
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
