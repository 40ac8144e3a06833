"""Every sentence and label of the reports in English and Chinese, once: words.toml. The rules' words are theirs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from analyzers.causes import CAUSES
from analyzers.records import number
from profkit.report import units

LANGUAGES = ("en", "zh")
_SHARES = 3
"""Of what binds a call, the largest shares, that are named."""


class _Words(msgspec.Struct, forbid_unknown_fields=True):
    say: dict[str, tuple[str, str]]
    names: dict[str, str]


@cache
def _words() -> _Words:
    return msgspec.toml.decode((files("profkit.report") / "words.toml").read_bytes(), type=_Words)


_JOINT = re.compile(r"(?<=[\u3400-\u9fff])(?=[A-Za-z0-9`<>±])|(?<=[A-Za-z0-9`%])(?=[\u3400-\u9fff])")


def spaced(text: str) -> str:
    """Chinese with a space where it meets Latin letters and digits, as it is set; what is filled in makes such joints."""
    return _JOINT.sub(" ", text)


def named(word: str, lang: str) -> str:
    """A word of the data (what binds, a state of the cache, a counter) in a language."""
    return _words().names.get(word, word) if lang == "zh" else word


def bound(row: Mapping[Any, Any], lang: str) -> str:
    """What binds a call or kernel: one word, or the shares of its time where nothing holds most of it; "" if unknown."""
    word = str(row.get("bound_by", ""))
    if word != "mixed":
        return "" if word in ("unknown", "nan") else named(word, lang)
    shares = [piece.partition(" ") for piece in str(row["bound_split"]).split(", ")]
    told = [f"{share} {named(name, lang)}" for share, _, name in shares[:_SHARES]]
    others = len(shares) - len(told)
    return say("listed", lang).join(told) + (say("and_others", lang, count=str(others)) if others else "")


def of_roof(row: Mapping[Any, Any], lang: str) -> str:
    """ "65.4%" of the roof that it is bound by, "14.2% (dram)" where it is bound by none; a dash where nothing is known."""
    share, roof = units.percent(number(row, "roof_share")), str(row.get("roof", ""))
    if share == units.MISSING or roof == str(row.get("bound_by", "")):
        return share
    return say("bound_why", lang, bound=share, why=named(roof, lang))


def bound_why(row: Mapping[Any, Any], lang: str) -> str:
    """What binds a call or kernel; of waiting its cause as well."""
    why = CAUSES.get(str(row.get("cause", "")))
    said = bound(row, lang)
    return said if why is None else say("bound_why", lang, bound=said, why=why[LANGUAGES.index(lang)])


def say(key: str, lang: str, **values: str) -> str:
    """A message in a language; raises KeyError for an unknown one: messages are the programme's, not a user's."""
    said = _words().say[key][LANGUAGES.index(lang)].format(**values)
    return spaced(said) if lang == "zh" else said


def catalogue() -> Mapping[str, tuple[str, str]]:
    """All messages, (English, Chinese)."""
    return _words().say
