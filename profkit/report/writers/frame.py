"""What every page is made of: its template, its texts in both languages, the data its script reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from analyzers.waterfall import WORDS
from profkit.report.chinese import in_chinese, said_in
from profkit.report.layout import Table
from profkit.report.words import LANGUAGES, catalogue, say
from roofline.figure.style import THEMES

if TYPE_CHECKING:
    from collectors.doubt import Doubt
    from profkit.report.sections import Said

SCRIPTS = ("core", "roofline", "kernels", "times", "timeline", "page")
"""The parts of the script, in the order in which they stand in the page."""
_PARTS = ("what", "how_much", "fix")
TAGS = ("en", "zh-CN")
"""Of LANGUAGES, as HTML calls them."""


@dataclass(frozen=True)
class Text:
    """A sentence in both languages; the page shows the one that is chosen."""

    en: str
    zh: str

    def __html__(self) -> str:
        if self.en == self.zh:
            return str(escape(self.en))
        return "".join(
            f'<span lang="{tag}">{escape(text)}</span>' for tag, text in zip(TAGS, (self.en, self.zh), strict=True)
        )

    def __bool__(self) -> bool:
        return bool(self.en)

    @property
    def pair(self) -> tuple[str, str]:
        return self.en, self.zh


def both(make: Callable[[str], str]) -> Text:
    """What a function of the language says in each."""
    return Text(*(make(lang) for lang in LANGUAGES))


def said(text: str) -> Text:
    """A sentence of another house in both languages."""
    return both(lambda tag: said_in(tag, text))


def told(key: str, **values: str | Text) -> Text:
    """A message of the catalogue with its places filled in."""

    def make(lang: str) -> str:
        own = {name: getattr(value, lang) if isinstance(value, Text) else value for name, value in values.items()}
        return say(key, lang, **own)

    return both(make)


@dataclass(frozen=True)
class Doubted:
    """A doubt in both languages."""

    what: Text
    how_much: Text
    fix: Text


def doubted(make: Callable[[str], Sequence[Said | Doubt]]) -> list[Doubted]:
    """The doubts that a function of the language gives."""
    pairs = zip(*(make(lang) for lang in LANGUAGES), strict=True)
    told_ = [[Text(getattr(a, name), in_chinese(getattr(b, name))) for name in _PARTS] for a, b in pairs]
    return [Doubted(*texts) for texts in told_]


@dataclass(frozen=True)
class Grid:
    """A table in both languages: `rows` of cells under `head`."""

    head: list[Text]
    rows: list[list[Text]]


def grid(make: Callable[[str], Table]) -> Grid:
    """The table that a function of the language makes; its columns are the same in each."""
    one, other = (make(lang) for lang in LANGUAGES)
    rows = zip(one.rows, other.rows, strict=True)
    return Grid(_cells(one.head, other.head), [_cells(*pair) for pair in rows])


def _cells(one: Sequence[str], other: Sequence[str]) -> list[Text]:
    return [Text(*pair) for pair in zip(one, other, strict=True)]


def render(name: str, lang: str, data: Mapping[str, Any], **values: Any) -> str:
    """A template as a page whose language is `lang` until the reader chooses; `data` is what its script reads."""
    words = {tag: _words(column) for column, tag in enumerate(TAGS)}
    tag = TAGS[LANGUAGES.index(lang)]
    return _environment().get_template(name).render(tag=tag, data=_embedded({**data, "words": words}), **values)


@cache
def _environment() -> Environment:
    loader = PackageLoader("profkit.report", "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    script = "\n".join(loader.get_source(made, f"{name}.js")[0] for name in SCRIPTS)
    css = _colours() + loader.get_source(made, "page.css")[0]
    kinds = [(kind, Text(*words)) for kind, words in WORDS.items()]
    made.globals |= {"css": Markup(css), "js": Markup(script), "t": told, "kinds": kinds}
    return made


def _colours() -> str:
    """The colours of the figures as variables of the page: one map, in every output."""

    def rule(theme: str) -> str:
        look = THEMES[theme]
        series = "".join(f"--s{index}:{colour};" for index, colour in enumerate(look.series))
        kinds = "".join(f"--{kind}:{colour};" for kind, colour in look.kinds.items())
        return f":root{{{series}{kinds}--ref:{look.reference}}}"

    return f"{rule('light')}\n@media (prefers-color-scheme:dark){{{rule('dark')}}}\n@media print{{{rule('light')}}}\n"


def _words(column: int) -> dict[str, str]:
    """The script's words, without their prefix; places are numbers."""
    return {key[3:]: texts[column] for key, texts in catalogue().items() if key.startswith("js_")}


def _embedded(data: Mapping[str, Any]) -> Markup:
    """JSON that cannot end its script element, whatever a kernel is called."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))
