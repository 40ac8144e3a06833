"""Frame of every page: template, texts in both languages, data of its script."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from analyzers.waterfall import SLICE_KINDS
from profkit.report.messages import LANGUAGES, catalogue, in_each, language, say
from roofline.figure.style import THEMES

SCRIPTS = ("core", "roofline", "kernels", "times", "timeline", "flame", "page")
"""Script files in page order."""
TAGS = ("en", "zh-CN")
"""HTML language tags."""


@dataclass(frozen=True)
class Text:
    """A sentence in both languages; the page shows one."""

    en: str
    zh: str

    def __html__(self) -> str:
        pairs = zip(TAGS, (self.en, self.zh), strict=True)
        return "".join(f'<span lang="{tag}">{escape(text)}</span>' for tag, text in pairs)

    def __bool__(self) -> bool:
        return bool(self.en)


def paired(one: Any, other: Any) -> Any:
    """Merge two trees that differ in their words; differing strings become Text."""
    if one is other:
        return one
    if isinstance(one, str):
        return one if one == other else Text(one, other)
    if isinstance(one, list | tuple):
        return type(one)(paired(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, dict):
        return {key: paired(value, other[key]) for key, value in one.items()}
    if is_dataclass(one) and not isinstance(one, type):
        names = [field.name for field in fields(one)]
        return replace(one, **{name: paired(getattr(one, name), getattr(other, name)) for name in names})
    return one


def told(key: str, **values: str | Text) -> Text:
    """A catalogue message in both languages, for templates."""

    def make() -> str:
        own = {name: getattr(one, language()) if isinstance(one, Text) else one for name, one in values.items()}
        return say(key, **own)

    return Text(*in_each(make))


def render(name: str, data: Mapping[str, Any], make: Callable[[], Mapping[str, Any]]) -> str:
    """Render a template; `data`: for its script, `make`: its values in the current language."""
    # The script's words, without their prefix.
    known = {key[3:]: texts for key, texts in catalogue().say.items() if key.startswith("js_")}
    words = {tag: {key: texts[at] for key, texts in known.items()} for at, tag in enumerate(TAGS)}
    pages = in_each(make)
    at = LANGUAGES.index(language())
    values = {**paired(*pages), "tag": TAGS[at], "bare_title": pages[at]["title"]}
    text = json.dumps({**data, "words": words}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # It cannot end its script element, whatever a kernel is called.
    safe = Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))
    return _environment().get_template(name).render(data=safe, **values)


@cache
def _environment() -> Environment:
    loader = PackageLoader("profkit.report", "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    script = "\n".join(loader.get_source(made, f"{name}.js")[0] for name in SCRIPTS)
    css = _colours() + loader.get_source(made, "page.css")[0]
    kinds = [(kind, told(f"fall_{kind}")) for kind in SLICE_KINDS]
    made.globals |= {"css": Markup(css), "js": Markup(script), "t": told, "kinds": kinds}
    return made


def _colours() -> str:
    """The figures' colours as CSS variables."""

    def rule(theme: str) -> str:
        look = THEMES[theme]
        series = "".join(f"--s{index}:{colour};" for index, colour in enumerate(look.series))
        kinds = "".join(f"--{kind}:{colour};" for kind, colour in look.kinds.items())
        return f":root{{{series}{kinds}--ref:{look.reference}}}"

    return f"{rule('light')}\n@media (prefers-color-scheme:dark){{{rule('dark')}}}\n@media print{{{rule('light')}}}\n"
